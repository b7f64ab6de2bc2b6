/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guest code as the emulator executes it: registers, ops and blocks of ops. */
#pragma once

#include <stdint.h>

/* ---- register file -------------------------------------------------------------------------
 * Registers 0..15 have the numbers that x86 gives them. With the others, every effective address
 * is r[base] + (r[idx] << scale) + disp. An instruction that is split into several ops passes
 * values from one op to the next in EMU_TEA and EMU_T0. */
enum {
	EMU_RAX = 0,
	EMU_RCX,
	EMU_RDX,
	EMU_RBX,
	EMU_RSP,
	EMU_RBP,
	EMU_RSI,
	EMU_RDI,
	EMU_R8,
	EMU_R11 = 11,
	EMU_ZERO = 16, /* always 0 */
	EMU_FSBASE,
	EMU_GSBASE,
	EMU_TEA, /* effective address computed by a preceding op of the instruction */
	EMU_T0,	 /* memory operand of an instruction that is split into several ops */
	EMU_NREGS
};

/* ---- predecoded code -----------------------------------------------------------------------
 * One op executes one instruction or a part of one. The first op of each instruction holds the
 * instruction's length (len > 0) and its events; the other ops have len 0. */
struct emu_vcpu;
struct emu_op;
/* The function of an op. */
typedef int emu_op_fn(struct emu_vcpu *v, const struct emu_op *op);

struct emu_op {
	const void *h; /* label in emu_exec() */
	union {
		int64_t disp;
		struct emu_block *taken; /* block ends: where a taken branch goes */
		emu_op_fn *fn;
	};
	union {
		int64_t imm;
		struct emu_block *fall; /* block ends: the block that follows */
	};
	uint8_t dst;
	uint8_t src;
	union {
		struct {
			uint8_t base;
			uint8_t idx;
		};
		uint16_t unfused; /* in the second op of a fused pair: opcode of the first, alone */
	};
	uint8_t scale;
	uint8_t len;
	uint8_t ev;    /* EMU_EV_*, cost << EMU_EV_COST_SHIFT; or EMU_EV_CONDITIONAL alone */
	uint8_t flags; /* EMU_OPF_* */
};

#define EMU_EV_LOAD	  1u
#define EMU_EV_STORE	  2u
#define EMU_EV_BRANCH	  4u
#define EMU_EV_COST_SHIFT 3
/* A conditional branch: the only branch without a cost in ev. It costs EMU_COST_CONDITIONAL. */
#define EMU_EV_CONDITIONAL   EMU_EV_BRANCH
#define EMU_COST_CONDITIONAL 1
#define EMU_COST_MAX	     31u /* most cycles that ev can hold; helpers may add further ones */

#define EMU_OPF_FUSED 1u /* also executes the op that follows */
#define EMU_OPF_SS    2u /* addresses the stack segment: non-canonical is #SS */
#define EMU_OPF_LOCK  4u
#define EMU_OPF_REP   8u /* REP / REPE */
#define EMU_OPF_REPNE 16u
#define EMU_OPF_VEX   16u  /* helpers of SSE: the instruction has a VEX prefix */
#define EMU_OPF_A32   32u  /* 32-bit addresses (string instructions, LOOP, JRCXZ) */
#define EMU_OPF_TAKEN 64u  /* ->taken is in use */
#define EMU_OPF_FALL  128u /* ->fall is in use */

/* Packed event sums: several counts in one word, so that a block or an instruction adds all its
 * events by one addition. No lane overflows between two calls of emu_fold(), because no more than
 * EMU_CHUNK instructions, of up to EMU_COST_MAX + EMU_TAKEN_CYCLES cycles, run in between. */
#define EMU_CHUNK	  2000
#define EMU_LANE_CYCLES	  0  /* 16 bits */
#define EMU_LANE_LOADS	  16 /* 12 bits each */
#define EMU_LANE_STORES	  28
#define EMU_LANE_BRANCHES 40
#define EMU_LANE_TAKEN	  52
#define EMU_TAKEN_CYCLES  1ULL
#define EMU_TAKEN_SUM	  ((1ULL << EMU_LANE_TAKEN) | EMU_TAKEN_CYCLES)

/* Instructions and conditional branches of a chunk share a word, v->left: it counts down from
 * n << EMU_LEFT_SHIFT | EMU_LEFT_LOW for a chunk of n instructions. The low bits never borrow,
 * because no more than EMU_CHUNK conditional branches run in a chunk. */
#define EMU_LEFT_SHIFT 12
#define EMU_LEFT_LOW   ((1LL << EMU_LEFT_SHIFT) - 1)

#define EMU_BLOCK_INSNS 32 /* most instructions of a block */
#define EMU_BLOCK_OPS	96 /* most ops */
#define EMU_BLOCK_BYTES (EMU_BLOCK_INSNS * 15)

struct emu_block {
	uint64_t pa;	 /* guest-physical address of the first byte */
	uint64_t target; /* where the branch at the end goes, if it is direct */
	uint64_t next;	 /* address after the last instruction */
	struct emu_block *hash_next;
	struct emu_block *page_next[2]; /* in the lists of the one or two pages that it covers */
	int32_t n;			/* instructions */
	uint32_t pfn2; /* second page, if its only instruction crosses pages; else UINT32_MAX */
	uint16_t nr_ops;
	uint16_t bytes;
	uint64_t last;	     /* address of the last instruction: FROM of its branch record */
	uint32_t branch;     /* VPMU_LBR_* type of the branch at the end, or 0 */
	uint8_t branch_type; /* the same type, encoded as in IA32_LBR_x_INFO */
	uint8_t simd;	     /* jit.h: enum jit_sse that its translation needs */
	uint16_t slot;	     /* jit.c: the first of its EMU_BLOCK_SLOTS in jit.slots */
	/* jit.c: */
	const void *h0;	       /* handler of ops[0]; HEAT or NATIVE may stand in for it */
	uint16_t heat;	       /* executions until the block is translated; 0: it was tried */
	uint16_t native_body;  /* offset of the translation from native[1]; 0: there is none */
	int16_t native_effort; /* added to jit.quarters by the block */
	uint16_t poor;
	const void *native[2]; /* where translated code enters it: falling through, by a branch */
	/* The dispatch loop reads only the fields from here on. */
	uint64_t rip;
	uint32_t ctx; /* v->ctx in which rip was last known to lead here; 0: the block is stale */
	int32_t step; /* instructions and conditional branches, as v->left has them */
	uint64_t sum; /* events, packed */
	struct emu_op ops[];
};
