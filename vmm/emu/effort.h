/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Effort: the cost of guests beyond instructions, as charged by a scheduler. */
#pragma once

/*
 * Effort is a guest's cost in host time, in units of one plain instruction. A scheduler charges it,
 * so a guest gains nothing by making its instructions expensive. In the interpreter each retired
 * instruction is one unit; v->extra is the rest, by this table. The numbers are fixed, so the
 * effort of a run repeats exactly. In translated code an instruction usually costs less than a
 * unit: v->jit.quarters holds the difference, in quarters (negative). tests/emu/attack.c and the
 * benchmark fair_worst check the numbers. Guests do not see effort, and no count includes it.
 *
 * A function that takes more time than an instruction adds its number where the time is spent.
 */
enum {
	EMU_EFFORT_LOOP = 1,   /* LOOPcc, JCXZ */
	EMU_EFFORT_FLAGS = 5,  /* flags that are computed at once: rare conditions */
	EMU_EFFORT_HELPER = 5, /* an instruction without a handler of its own */
	EMU_EFFORT_DIVIDE = 4,
	EMU_EFFORT_CARRY = 2, /* ADC, SBB */
	EMU_EFFORT_MUL = 1,
	EMU_EFFORT_ALONE = 5,	   /* a locked instruction in a VM of one vCPU */
	EMU_EFFORT_LOCKED = 10,	   /* a host atomic */
	EMU_EFFORT_SPLIT = 40,	   /* a locked access that takes a mutex */
	EMU_EFFORT_FENCE = 18,	   /* a fence on the host */
	EMU_EFFORT_X87 = 150,	   /* the host's x87 state is exchanged */
	EMU_EFFORT_X87_LONG = 50,  /* transcendental instructions, FBLD, FBSTP, FPREM */
	EMU_EFFORT_X87_STATE = 90, /* FNSTENV, FNSAVE, FLDENV, FRSTOR, FXSAVE */
	EMU_EFFORT_ZMM_STATE =
		80, /* XSAVE, XRSTOR, XGETBV that look at AVX-512's registers, besides */
	EMU_EFFORT_MMX = 10,
	EMU_EFFORT_SIMD = 4,	/* an SSE instruction */
	EMU_EFFORT_EVEX = 6,	/* an instruction of AVX-512 that is not a plain store; memory */
	EMU_EFFORT_MXCSR = 9,	/* the host's MXCSR is exchanged */
	EMU_EFFORT_FP_LONG = 4, /* a division, a square root */
	EMU_EFFORT_EXACT = 60,	/* exceptions of each element computed */
	/* A denormal operand or a tiny result: some hosts need microcode for these. */
	EMU_EFFORT_ASSIST = 30,
	EMU_EFFORT_X87_ASSIST = 120, /* the same of x87: for the operand and for the result */

	EMU_EFFORT_SYSTEM = 10,	    /* a system instruction */
	EMU_EFFORT_DESCRIPTOR = 25, /* a segment descriptor that is read and checked */
	EMU_EFFORT_FAR = 140,	    /* IRETQ, far RET */
	EMU_EFFORT_RECORD = 5,	    /* a taken branch while branches are recorded */
	EMU_EFFORT_LEAF = 15,	    /* a CPUID leaf that is looked up */
	EMU_EFFORT_MODE = 34,	    /* a change of the privilege level */
	EMU_EFFORT_APIC = 24,	    /* a register of the local APIC */
	EMU_EFFORT_APIC_MODE = 60,  /* its mode */
	EMU_EFFORT_CLOCK = 30,	    /* a clock that is set, a timer that is due */
	EMU_EFFORT_LOOK = 60,	    /* a vCPU that a message may be for */
	EMU_EFFORT_POST = 30,	    /* one that it is for */
	EMU_EFFORT_TAKE = 70,	    /* messages taken by the one that they are for */
	EMU_EFFORT_PINS = 150,	    /* an end of an interrupt that the I/O APIC sees */
	EMU_EFFORT_INTERRUPT = 250, /* an interrupt of a VM with interrupt controllers, besides */
	EMU_EFFORT_EVENT = 150,	    /* an interrupt, an exception, INT n */
	EMU_EFFORT_WORLD = 200,	    /* VMRUN, and #VMEXIT */
	EMU_EFFORT_VMLOAD = 60,	    /* VMLOAD, VMSAVE */
	EMU_EFFORT_SLICE = 30,	    /* leaving the dispatch loop and coming back */

	EMU_EFFORT_SLOW = 6,   /* a memory access that misses the TLB's fast path */
	EMU_EFFORT_CROSS = 16, /* one that crosses a page */
	/* Filling a TLB entry. More than the fill itself: a guest with more pages in use than the
	 * TLB holds misses the host's caches as well. */
	EMU_EFFORT_FILL = 32,
	EMU_EFFORT_WALK = 20,	      /* a walk of four levels */
	EMU_EFFORT_FLUSH = 60,	      /* translations dropped */
	EMU_EFFORT_FLUSH_ENTRIES = 4, /* dropped entries per further unit */
	EMU_EFFORT_SITES = 120,	      /* last TLB hits of translated code, dropped */
	EMU_EFFORT_DEMOTE = 400,      /* search for the entries of pages that hold code now */
	EMU_EFFORT_FLUSH_LARGE = 400, /* search for the entries of a large page */

	EMU_EFFORT_FIND = 36,		 /* a block that is looked up in the hash table */
	EMU_FIND_HOPS = 4,		 /* as much again for so many other blocks in its chain */
	EMU_EFFORT_DECODE = 330,	 /* a block that is decoded */
	EMU_EFFORT_DECODE_INSN = 125,	 /* each instruction in it */
	EMU_EFFORT_TRANSLATE = 600,	 /* a block that is translated to the host's code */
	EMU_EFFORT_TRANSLATE_INSN = 200, /* each instruction in it */
	EMU_EFFORT_DROP_BYTES = 8,	 /* bytes of such code per unit if all of it is dropped */
	EMU_EFFORT_CODE = 60,		 /* a store that hits decoded code */
	EMU_EFFORT_REPEAT = 16,		 /* a repeated string instruction */
	EMU_EFFORT_ELEMENT = 6,		 /* a string element that is done alone */
	EMU_EFFORT_PIECE = 14,		 /* a piece of a page that is done at once */
	EMU_EFFORT_PIECE_BYTES = 32,	 /* its bytes per further unit */
};

/* An instruction in translated code, in quarters of a unit. */
enum {
	EMU_QUARTERS_BLOCK = 3, /* a block, at least: entering it takes longer than a move */
	EMU_QUARTERS_PLAIN = 1,
	EMU_QUARTERS_LOOP = 2,
	EMU_QUARTERS_CARRY = 2, /* ADC, SBB */
	EMU_QUARTERS_BITS = 3,	/* rotates, bit tests, scans */
	EMU_QUARTERS_IMUL = 3,
	EMU_QUARTERS_MUL = 7,
	EMU_QUARTERS_LOCK = 10,
	EMU_QUARTERS_DIVIDE = 22,
	EMU_QUARTERS_SIMD = 2,
	EMU_QUARTERS_SIMD_STORE = 4, /* it may cross a line of the host's cache */
	EMU_QUARTERS_FP = 5,
	EMU_QUARTERS_FP_LONG = 24,
	EMU_QUARTERS_XMM = 6, /* an XMM register that a block uses for the first time */
	/* Accesses to memory. Two aligned ones whose site knows their page are a quarter. */
	EMU_QUARTERS_STACK = 1,	    /* PUSH, POP: the next one waits for RSP */
	EMU_QUARTERS_MODIFY = 4,    /* a load and a store */
	EMU_QUARTERS_ADDRESS = 2,   /* an address with R11 to R15, FS or GS */
	EMU_QUARTERS_MISS = 4,	    /* a site that did not know the page, or an unaligned access */
	EMU_QUARTERS_INDIRECT = 24, /* RET and indirect transfers: a look-up, and a jump by it */
};

/* Extra effort at which run() returns VMM_EXIT_INTR if the caller sets no limit. */
#define EMU_EXTRA_MAX (4u << 20)
