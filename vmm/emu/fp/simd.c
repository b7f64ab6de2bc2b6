// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instructions on XMM registers. Stubs compute (fpu.h); this file fetches operands and stores
 * results. simd_fp.c decides on exceptions.
 */
#include <string.h>

#include "vmm/emu/debug.h"
#include "vmm/emu/cpu/emit.h"

/* ---- operands ---- */

/* 16 or 32 bytes on an address that is not a multiple (SDM vol. 1, 4.1.1; APM vol. 2, 8.2.14). It
 * is #GP in the stack segment, too. */
static int simd_misaligned(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t va = v->r[EMU_TEA];

	if (!(op->idx & SIMD_ALIGN) || !(va & (op->base - 1u)))
		return 0;
	if ((v->fpu.mxcsr & EMU_MXCSR_MM) && !(op->idx & SIMD_STRICT))
		return 0;
	return emu_gp(v, 0);
}

static const struct emu_tlbe *entry_of(const struct emu_vcpu *v, uint64_t va)
{
	return &v->tlb[va >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1)];
}

static void simd_copy(void *to, const void *from, unsigned int bytes)
{
	switch (bytes) {
	case 16:
		memcpy(to, from, 16);
		break;
	case 8:
		memcpy(to, from, 8);
		break;
	case 4:
		memcpy(to, from, 4);
		break;
	default:
		memcpy(to, from, bytes);
	}
}

int emu_simd_load(struct emu_vcpu *v, const struct emu_op *op, void *to)
{
	uint64_t va = v->r[EMU_TEA];
	const struct emu_tlbe *e = entry_of(v, va);

	if (simd_misaligned(v, op))
		return 1;
	if (unlikely(e->rtag != ((va + op->base - 1) & EMU_PAGE_MASK)))
		return emu_sys_read(v, va, to, op->base, v->cpl == 3 ? EMU_ACC_U : 0);
	simd_copy(to, (const void *)(e->add + va), op->base);
	return 0;
}

int emu_simd_store(struct emu_vcpu *v, const struct emu_op *op, const void *from)
{
	uint64_t va = v->r[EMU_TEA];
	const struct emu_tlbe *e = entry_of(v, va);
	void *p;

	if (simd_misaligned(v, op))
		return 1;
	if (likely(e->wtag == ((va + op->base - 1) & EMU_PAGE_MASK))) {
		simd_copy((void *)(e->add + va), from, op->base);
		return 0;
	}
	p = emu_rmw_slow(v, va, op->base);
	if (!p)
		return 1;
	simd_copy(p, from, op->base);
	if (p == v->bounce.buf)
		emu_rmw_commit(v);
	return 0;
}

int emu_simd_source(struct emu_vcpu *v, const struct emu_op *op, union emu_xmm *to)
{
	if (!op->base) {
		*to = v->fpu.fx.xmm[op->src];
		return 0;
	}
	to->q[0] = to->q[1] = 0;
	return emu_simd_load(v, op, to);
}

static const uint8_t *simd_stub_of(const struct emu_op *op)
{
	return (const uint8_t *)(uintptr_t)op->imm;
}

/* ---- helpers: op->dst, op->src: registers; op->base: bytes of the memory operand at EMU_TEA, or
 * 0; op->idx: SIMD_*; op->imm: the stub ---- */

int emu_help_simd(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_simd_io io;

	if (emu_fp_sse(v) || emu_simd_source(v, op, &io.b))
		return 1;
	io.a = v->fpu.fx.xmm[op->dst];
	io.gpr = 0;
	emu_simd_int(&io, simd_stub_of(op));
	v->fpu.fx.xmm[op->dst] = io.a;
	return 0;
}

int emu_help_simd_fp(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_simd_io io;

	v->extra += op->idx & SIMD_LONG ? EMU_EFFORT_FP_LONG : 0;
	if (emu_fp_sse(v) || emu_simd_source(v, op, &io.b))
		return 1;
	io.a = v->fpu.fx.xmm[op->dst];
	io.gpr = 0;
	if (emu_simd_run_fp(v, simd_stub_of(op), &io, 1, emu_simd_fp))
		return 1;
	v->fpu.fx.xmm[op->dst] = io.a;
	return 0;
}

/* One operand is a general register, or the result is flags. op->scale: log2 of the register's
 * bytes. */
int emu_help_simd_gpr(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_simd_io io = {.gpr = 0};

	if (emu_fp_simd(v, op))
		return 1;
	if (op->idx & SIMD_FROM_GPR) {
		if (op->base) {
			if (emu_simd_load(v, op, &io.gpr))
				return 1;
		} else {
			io.gpr = v->r[op->src];
		}
	} else if (emu_simd_source(v, op, &io.b)) {
		return 1;
	}
	if (!(op->idx & SIMD_TO_GPR))
		io.a = v->fpu.fx.xmm[op->dst];
	if (op->idx & SIMD_FP) {
		if (emu_simd_run_fp(v, simd_stub_of(op), &io, 1, emu_simd_fp))
			return 1;
	} else {
		emu_simd_int(&io, simd_stub_of(op));
	}
	if (op->idx & SIMD_FLAGS)
		emu_fl_raw(v, io.flags & EMU_ARITH);
	else if (op->idx & SIMD_TO_GPR)
		emu_wr(v, op->dst, 1u << op->scale, io.gpr);
	else
		v->fpu.fx.xmm[op->dst] = io.a;
	return 0;
}

/* A shift by the constant op->scale. */
int emu_help_simd_count(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_simd_io io = {.a = v->fpu.fx.xmm[op->dst], .b.q = {op->scale, 0}};

	if (emu_fp_sse(v))
		return 1;
	emu_simd_int(&io, simd_stub_of(op));
	v->fpu.fx.xmm[op->dst] = io.a;
	return 0;
}

/* PSLLDQ and PSRLDQ; op->scale: bytes. op->idx: SIMD_RIGHT. */
int emu_help_simd_shift(struct emu_vcpu *v, const struct emu_op *op)
{
	union emu_xmm *x = &v->fpu.fx.xmm[op->dst], r = {.q = {0, 0}};

	if (emu_fp_sse(v))
		return 1;
	for (unsigned int i = op->scale; i < 16; i++) {
		if (op->idx & SIMD_RIGHT)
			r.b[i - op->scale] = x->b[i];
		else
			r.b[i] = x->b[i - op->scale];
	}
	*x = r;
	return 0;
}

/* Memory to register; op->scale: the first byte in the register. */
int emu_help_simd_load(struct emu_vcpu *v, const struct emu_op *op)
{
	union emu_xmm x = v->fpu.fx.xmm[op->dst];

	if (emu_fp_sse(v))
		return 1;
	if (op->idx & SIMD_ZERO)
		x.q[0] = x.q[1] = 0;
	if (emu_simd_load(v, op, x.b + op->scale))
		return 1;
	v->fpu.fx.xmm[op->dst] = x;
	return 0;
}

int emu_help_simd_store(struct emu_vcpu *v, const struct emu_op *op)
{
	if (emu_fp_sse(v))
		return 1;
	return emu_simd_store(v, op, v->fpu.fx.xmm[op->src].b + op->scale);
}

void emu_simd_mov(const struct emu_vcpu *v, const struct emu_op *op, unsigned int kind,
		  union emu_xmm *d, const union emu_xmm *s)
{
	switch (kind) {
	case MOV_ALL:
		*d = *s;
		break;
	case MOV_LOW32:
		d->d[0] = s->d[0];
		break;
	case MOV_LOW64:
		d->q[0] = s->q[0];
		break;
	case MOV_HL:
		d->q[0] = s->q[1];
		break;
	case MOV_LH:
		d->q[1] = s->q[0];
		break;
	default:
		d->q[0] = kind == MOV_ZERO64 ? s->q[0]
					     : emu_rd(v, op->src, kind == MOV_FROM32 ? 4 : 8);
		d->q[1] = 0;
	}
}

/* Register to register. */
int emu_help_simd_mov(struct emu_vcpu *v, const struct emu_op *op)
{
	union emu_xmm *x = v->fpu.fx.xmm;

	if (emu_fp_simd(v, op))
		return 1;
	if (op->scale == MOV_TO32 || op->scale == MOV_TO64)
		emu_wr(v, op->dst, op->scale == MOV_TO32 ? 4 : 8, x[op->src].q[0]);
	else
		emu_simd_mov(v, op, op->scale, &x[op->dst], &x[op->src & 15]);
	return 0;
}

/* MASKMOVDQU, MASKMOVQ: store the bytes of op->dst for which the byte in op->src has its top bit
 * set. */
int emu_help_maskmov(struct emu_vcpu *v, const struct emu_op *op)
{
	union emu_xmm data = v->fpu.fx.xmm[op->dst], mask = v->fpu.fx.xmm[op->src];
	uint8_t *p;

	if (op->idx & SIMD_MMX) {
		if (emu_mmx_enter(v))
			return 1;
		data.q[0] = emu_mmx(v, op->dst);
		mask.q[0] = emu_mmx(v, op->src);
	} else if (emu_fp_simd(v, op)) {
		return 1;
	}
	if (op->idx & SIMD_MMX) /* even if the store faults, as measured on AMD family 1AH */
		emu_mmx_done(v);
	/* Only bytes that are stored hit breakpoints (measured on family 1AH). */
	if (unlikely(v->brk.data))
		for (unsigned int i = 0; i < op->base; i++)
			if ((mask.b[i] & 0x80) && emu_debug_access(v, v->r[EMU_TEA] + i, 1, true))
				return 1;
	p = emu_rmw_quiet(v, v->r[EMU_TEA], op->base);
	if (!p)
		return 1;
	for (unsigned int i = 0; i < op->base; i++)
		if (mask.b[i] & 0x80)
			p[i] = data.b[i];
	if (p == v->bounce.buf)
		emu_rmw_commit(v);
	return 0;
}
