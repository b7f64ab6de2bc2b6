/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the soft machine charges a scheduler for its guests, besides instructions. */
#ifndef VMM_SOFT_EFFORT_H
#define VMM_SOFT_EFFORT_H

/*
 * Effort: what a guest costs in host time, in units of one plain instruction. A scheduler charges
 * it, so that a guest gains nothing by making each of its instructions dear. Retired instructions
 * are one unit each in the interpreter. v->extra is what comes on top, by this table. Its numbers
 * are fixed, so that the effort of a run repeats exactly. What an instruction in translated code
 * is less than a unit, in quarters, is in v->jit.quarters, which is negative. tests/emu/attack.c
 * and the benchmark fair_worst say how well they fit. Guests do not see effort, and it is no part
 * of any count.
 *
 * A function that takes more time than an instruction adds its number where the time is spent.
 */
enum {
	SOFT_EFFORT_LOOP = 1,	/* LOOPcc, JCXZ */
	SOFT_EFFORT_FLAGS = 5,	/* flags that are computed at once: rare conditions */
	SOFT_EFFORT_HELPER = 5, /* an instruction without a handler of its own */
	SOFT_EFFORT_DIVIDE = 4,
	SOFT_EFFORT_CARRY = 2, /* ADC, SBB */
	SOFT_EFFORT_MUL = 1,
	SOFT_EFFORT_ALONE = 5,	    /* a locked instruction in a VM of one vCPU */
	SOFT_EFFORT_LOCKED = 10,    /* a host atomic */
	SOFT_EFFORT_SPLIT = 40,	    /* a locked access that takes a mutex */
	SOFT_EFFORT_FENCE = 18,	    /* a fence on the host */
	SOFT_EFFORT_X87 = 150,	    /* the host's x87 state is exchanged */
	SOFT_EFFORT_X87_LONG = 50,  /* transcendental instructions, FBLD, FBSTP, FPREM */
	SOFT_EFFORT_X87_STATE = 90, /* FNSTENV, FNSAVE, FLDENV, FRSTOR, FXSAVE */
	SOFT_EFFORT_MMX = 10,
	SOFT_EFFORT_SIMD = 4,	 /* an SSE instruction */
	SOFT_EFFORT_MXCSR = 9,	 /* the host's MXCSR is exchanged */
	SOFT_EFFORT_FP_LONG = 4, /* a division, a square root */
	SOFT_EFFORT_EXACT = 60,	 /* exceptions of each element computed */
	/* A denormal operand or a tiny result: some hosts need microcode for these. */
	SOFT_EFFORT_ASSIST = 30,
	SOFT_EFFORT_X87_ASSIST = 120, /* the same of x87: for the operand and for the result */

	SOFT_EFFORT_SYSTEM = 10,     /* a system instruction */
	SOFT_EFFORT_DESCRIPTOR = 25, /* a segment descriptor that is read and checked */
	SOFT_EFFORT_FAR = 140,	     /* IRETQ, far RET */
	SOFT_EFFORT_MODE = 34,	     /* a change of the privilege level */
	SOFT_EFFORT_APIC = 24,	     /* a register of the local APIC */
	SOFT_EFFORT_APIC_MODE = 60,  /* its mode */
	SOFT_EFFORT_CLOCK = 30,	     /* a clock that is set, a timer that is due */
	SOFT_EFFORT_LOOK = 60,	     /* a vCPU that a message may be for */
	SOFT_EFFORT_POST = 30,	     /* one that it is for */
	SOFT_EFFORT_TAKE = 70,	     /* messages taken by the one that they are for */
	SOFT_EFFORT_PINS = 150,	     /* an end of an interrupt that the I/O APIC sees */
	SOFT_EFFORT_INTERRUPT = 250, /* an interrupt of a VM with interrupt controllers, besides */
	SOFT_EFFORT_EVENT = 150,     /* an interrupt, an exception, INT n */
	SOFT_EFFORT_SLICE = 30,	     /* leaving the dispatch loop and coming back */

	SOFT_EFFORT_SLOW = 6,	/* a memory access that misses the TLB's fast path */
	SOFT_EFFORT_CROSS = 16, /* one that crosses a page */
	/* Filling an entry of the TLB. More than the filling takes: the guest has more pages in use
	 * than the TLB holds, so the host's caches miss as well. */
	SOFT_EFFORT_FILL = 32,
	SOFT_EFFORT_WALK = 20,	/* a walk of four levels */
	SOFT_EFFORT_FLUSH = 60, /* translations dropped; so many entries are one unit more: */
	SOFT_EFFORT_FLUSH_ENTRIES = 4,
	SOFT_EFFORT_SITES = 120,       /* what translated code found last in the TLB, dropped */
	SOFT_EFFORT_FLUSH_LARGE = 400, /* those of a large page looked for */

	SOFT_EFFORT_FIND = 36,		  /* a block that is looked up in the hash table */
	SOFT_EFFORT_DECODE = 330,	  /* a block that is decoded */
	SOFT_EFFORT_DECODE_INSN = 125,	  /* each instruction in it */
	SOFT_EFFORT_TRANSLATE = 600,	  /* a block that is translated to the host's code */
	SOFT_EFFORT_TRANSLATE_INSN = 200, /* each instruction in it */
	SOFT_EFFORT_CODE = 60,		  /* a store that hits decoded code */
	SOFT_EFFORT_REPEAT = 16,	  /* a repeated string instruction */
	SOFT_EFFORT_ELEMENT = 6,	  /* a string element that is done alone */
	SOFT_EFFORT_PIECE = 14,	      /* a piece of a page that is done at once, and its bytes: */
	SOFT_EFFORT_PIECE_BYTES = 32, /* so many are one unit */
};

/* An instruction in translated code, in quarters of a unit. */
enum {
	SOFT_QUARTERS_BLOCK = 3, /* a block, at least: beginning it takes longer than a move */
	SOFT_QUARTERS_PLAIN = 1,
	SOFT_QUARTERS_LOOP = 2,
	SOFT_QUARTERS_CARRY = 2, /* ADC, SBB */
	SOFT_QUARTERS_BITS = 3,	 /* rotates, bit tests, scans */
	SOFT_QUARTERS_IMUL = 3,
	SOFT_QUARTERS_MUL = 7,
	SOFT_QUARTERS_LOCK = 10,
	SOFT_QUARTERS_DIVIDE = 22,
	SOFT_QUARTERS_SIMD = 2,
	SOFT_QUARTERS_SIMD_STORE = 4, /* it may cross a line of the host's cache */
	SOFT_QUARTERS_FP = 5,
	SOFT_QUARTERS_FP_LONG = 24,
	SOFT_QUARTERS_XMM = 6, /* an XMM register that a block uses for the first time */
};

/* Without a limit of the caller's, run() returns VMM_EXIT_INTR at so much extra effort. */
#define SOFT_EXTRA_MAX (4u << 20)

#endif
