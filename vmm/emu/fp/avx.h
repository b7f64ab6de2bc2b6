/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between emit_avx.c and the helpers of AVX, AVX2, FMA and F16C: avx.c, avx_perm.c, avx_mem.c.
 * op->dst and op->src are registers, op->base the bytes of the memory operand at EMU_TEA or 0, and
 * op->scale as here.
 */
#pragma once

#include <string.h>

#include "vmm/emu/cpu/emit.h"

#define AVX_256	       16u /* op->scale: operands of 256 bits; the low bits: VEX.vvvv */
#define AVX_VVVV(op)   ((op)->scale & 15u)
#define AVX_LANES(op)  ((op)->scale & AVX_256 ? 2u : 1u)
#define AVX_LANE1      48 /* op->imm: the stub's address, and above it how much farther lane 1's is */
#define AVX_STUB(op)   ((const uint8_t *)(uintptr_t)((uint64_t)(op)->imm << 16 >> 16))
#define AVX_STUB_1(op) (AVX_STUB(op) + ((op)->imm >> AVX_LANE1) * 8)

/* emu_help_avx, op->idx; also SIMD_FP and SIMD_LONG */
#define AVX_COUNT	1u	    /* op->src is a shift count */
#define AVX_SHARED	4u	    /* both lanes have the low 16 bytes as second operand */
#define AVX_NARROW	8u	    /* a lane has a result of 8 bytes */
#define AVX_WIDEN(lg)	((lg) << 5) /* a lane's second operand has 16 >> lg bytes */
#define AVX_WIDENED(op) ((op)->idx >> 5 & 3u)
#define AVX_THREE	128u /* op->dst is the first operand, and VEX.vvvv the third */

/* emu_help_avx_perm, op->idx */
enum {
	PERM_Q,
	PERM_D,
	PERM_128,
	PERM_INSERT,
	PERM_EXTRACT,
	PERM_BLEND,
	PERM_PS,
	PERM_PD,
	PERM_PS_VAR,
	PERM_PD_VAR,
	PERM_SLLV,
	PERM_SRLV,
	PERM_SLLV_Q,
	PERM_SRLV_Q,
	PERM_SRAV,
	PERM_SLLDQ,
	PERM_SRLDQ,
	PERM_BLENDV = 32,    /* + bytes of an element */
	PERM_BROADCAST = 64, /* + bytes of an element */
};
/* emu_help_avx_bits, op->idx: bytes of an element; 16: every bit counts */
#define AVX_TO_GPR 128u /* not flags */

/* emu_help_avx_maskmov, op->idx: the bytes of an element, and: */
#define AVX_STORE 16u

/* emu_help_avx_gather, op->imm: index register, log2 of its scale, of an index's and an element's
 * bytes; op->idx: the register with the segment base. */
#define GATHER(index, scale, index_lg, lg)                                                         \
	((int64_t)((index) | (scale) << 4 | (index_lg) << 8 | (lg) << 12))

/* emu_help_opmask, and in the table's arg: the low 2 bits are log2 of the operands' bytes */
enum {
	OPMASK_MOV = 0,
	OPMASK_LOAD = 4,
	OPMASK_STORE = 8,
	OPMASK_TO_R = 12,
	OPMASK_FROM_R = 16,
	OPMASK_AND = 20,
	OPMASK_ANDN = 24,
	OPMASK_OR = 28,
	OPMASK_XOR = 32,
	OPMASK_XNOR = 36,
	OPMASK_NOT = 40,
	OPMASK_ADD = 44,
	OPMASK_UNPACK = 48,
	OPMASK_SHIFTL = 52,
	OPMASK_SHIFTR = 56,
	OPMASK_TEST = 60,
	OPMASK_ORTEST = 64
};

union emu_ymm {
	uint8_t b[32];
	uint32_t d[8];
	uint64_t q[4];
	union emu_xmm x[2];
};

static inline union emu_ymm avx_get(const struct emu_vcpu *v, unsigned int n)
{
	return (union emu_ymm){.x = {v->fpu.fx.xmm[n], v->fpu.ymm_high[n]}};
}

/* Element @i of @bytes bytes has its top bit set. */
static inline bool avx_sign(const union emu_ymm *y, unsigned int i, unsigned int bytes)
{
	return y->b[(i + 1) * bytes - 1] & 0x80;
}

static inline void avx_put_ymm(struct emu_vcpu *v, unsigned int n, const union emu_ymm *y)
{
	v->fpu.fx.xmm[n] = y->x[0];
	v->fpu.ymm_high[n] = y->x[1];
}

/* A VEX instruction writes @lanes lanes of register @n, and clears the rest. A guest without
 * AVX-512 has no bits 511:256. */
static inline void avx_put(struct emu_vcpu *v, unsigned int n, const union emu_ymm *y,
			   unsigned int lanes)
{
	v->fpu.fx.xmm[n] = y->x[0];
	v->fpu.ymm_high[n] = lanes == 2 ? y->x[1] : (union emu_xmm){.q = {0}};
	if (unlikely(v->fpu.xcr0 & EMU_XCR0_ZMM_HI))
		memset(v->fpu.zmm_high[n], 0, sizeof(v->fpu.zmm_high[n]));
}

/* avx_source - the second operand: op->src, or its bytes in memory followed by zeros. Traps. */
int avx_source(struct emu_vcpu *v, const struct emu_op *op, union emu_ymm *y);
