// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instructions on MMX registers. MMn is the mantissa of physical x87 register n. An MMX instruction
 * sets TOP = 0 and all tags valid, and the exponent of a register that it writes to all ones
 * (SDM vol. 1, 9.5; APM vol. 2, 11.3.2), but only if it does not fault.
 */
#include <string.h>

#include "vmm/emu/cpu/emit.h"

/* Change the order of fx.st from that of the stack to that of the registers. */
static void rotate(struct emu_fx *fx)
{
	unsigned int top = EMU_FSW_TOP(fx->fsw);
	union emu_xmm st[8];

	if (top) {
		for (unsigned int n = 0; n < 8; n++)
			st[n] = fx->st[(n - top) & 7];
		memcpy(fx->st, st, sizeof(st));
	}
	fx->fsw &= (uint16_t)~0x3800;
}

int emu_mmx_enter(struct emu_vcpu *v)
{
	v->extra += EMU_EFFORT_MMX;
	return emu_fp_mmx(v);
}

void emu_mmx_done(struct emu_vcpu *v)
{
	rotate(&v->fpu.fx);
	v->fpu.fx.ftw = 0xff;
}

uint64_t emu_mmx(const struct emu_vcpu *v, unsigned int n)
{
	const struct emu_fx *fx = &v->fpu.fx;

	return fx->st[(n - EMU_FSW_TOP(fx->fsw)) & 7].q[0];
}

/* Set MMn. Call it after emu_mmx_done(). */
static void mmx_put(struct emu_vcpu *v, unsigned int n, uint64_t x)
{
	v->fpu.fx.st[n].q[0] = x;
	v->fpu.fx.st[n].w[4] = 0xffff;
}

/* Further checks for an instruction that also uses XMM registers. */
static int mmx_enter(struct emu_vcpu *v, const struct emu_op *op)
{
	if ((op->idx & SIMD_XMM) && emu_fp_sse(v))
		return 1;
	return emu_mmx_enter(v);
}

/*
 * All instructions with a stub. op->idx: SIMD_MMX: the destination is an MMX register;
 * SIMD_SRC_MMX: the source is; SIMD_XMM: the other one is an XMM register; SIMD_TO_GPR,
 * SIMD_FROM_GPR, SIMD_FP as in simd.c.
 */
int emu_help_mmx(struct emu_vcpu *v, const struct emu_op *op)
{
	const void *stub = (const void *)(uintptr_t)op->imm;
	struct emu_simd_io io = {.gpr = 0};
	bool stays = op->idx & SIMD_STAYS && op->base;

	if (stays ? emu_fp_sse(v) : mmx_enter(v, op))
		return 1;
	if (op->idx & SIMD_FROM_GPR && !op->base)
		io.gpr = v->r[op->src];
	else if (op->idx & SIMD_FROM_GPR ? emu_simd_load(v, op, &io.gpr)
		 : op->base
			 ? emu_simd_load(v, op,
					 op->idx & SIMD_SRC_MMX ? (void *)&io.mm_b : (void *)&io.b)
			 : 0)
		return 1;
	else if (!op->base && op->idx & SIMD_SRC_MMX)
		io.mm_b = emu_mmx(v, op->src);
	else if (!op->base)
		io.b = v->fpu.fx.xmm[op->src];
	if (op->idx & SIMD_MMX)
		io.mm_a = emu_mmx(v, op->dst);
	else if (op->idx & SIMD_XMM)
		io.a = v->fpu.fx.xmm[op->dst];
	if (op->idx & SIMD_FP) {
		if (emu_simd_run_fp(v, stub, &io, 1, emu_simd_mm_fp)) {
			if (!stays) /* as measured on AMD family 1AH */
				emu_mmx_done(v);
			return 1;
		}
	} else {
		emu_simd_mm(&io, stub);
	}
	if (!stays)
		emu_mmx_done(v);
	if (op->idx & SIMD_MMX)
		mmx_put(v, op->dst, io.mm_a);
	else if (op->idx & SIMD_XMM)
		v->fpu.fx.xmm[op->dst] = io.a;
	else
		emu_wr(v, op->dst, 1u << op->scale, io.gpr);
	return 0;
}

/* Moves; op->scale: MMX_*. op->base: bytes in memory, or of the general register. */
int emu_help_mmx_mov(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x = 0;

	if (mmx_enter(v, op))
		return 1;
	switch (op->scale) {
	case MMX_LOAD:
		if (emu_simd_load(v, op, &x))
			return 1;
		break;
	case MMX_STORE:
		x = emu_mmx(v, op->src);
		if (emu_simd_store(v, op, &x))
			return 1;
		emu_mmx_done(v);
		return 0;
	case MMX_FROM_GPR:
		x = emu_rd(v, op->src, op->base);
		break;
	case MMX_TO_GPR:
		emu_wr(v, op->dst, op->base, emu_mmx(v, op->src));
		emu_mmx_done(v);
		return 0;
	case MMX_FROM_XMM:
		x = v->fpu.fx.xmm[op->src].q[0];
		break;
	case MMX_TO_XMM:
		v->fpu.fx.xmm[op->dst].q[0] = emu_mmx(v, op->src);
		v->fpu.fx.xmm[op->dst].q[1] = 0;
		emu_mmx_done(v);
		return 0;
	default:
		x = emu_mmx(v, op->src);
	}
	emu_mmx_done(v);
	mmx_put(v, op->dst, x);
	return 0;
}

/* A shift by the constant op->scale. */
int emu_help_mmx_shift(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_simd_io io = {.mm_b = op->scale};

	if (emu_mmx_enter(v))
		return 1;
	io.mm_a = emu_mmx(v, op->dst);
	emu_simd_mm(&io, (const void *)(uintptr_t)op->imm);
	emu_mmx_done(v);
	mmx_put(v, op->dst, io.mm_a);
	return 0;
}

int emu_help_emms(struct emu_vcpu *v, const struct emu_op *op)
{
	if (emu_mmx_enter(v))
		return 1;
	emu_mmx_done(v);
	v->fpu.fx.ftw = 0;
	return 0;
}
