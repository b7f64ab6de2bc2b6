// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AVX, AVX2, FMA and F16C: computation and moves. An instruction of 256 bits does in each half,
 * called a lane, what the SSE instruction does, so its stub is that one's and runs twice. Only
 * instructions that SSE lacks have VEX stubs. avx_perm.c has those that move elements between
 * lanes, avx_mem.c those with masked accesses.
 */
#include <string.h>

#include "vmm/emu/fp/avx.h"

int avx_source(struct emu_vcpu *v, const struct emu_op *op, union emu_ymm *y)
{
	if (!op->base) {
		*y = avx_get(v, op->src);
		return 0;
	}
	memset(y, 0, sizeof(*y));
	return emu_simd_load(v, op, y);
}

/* The second operand of lane @i. */
static union emu_xmm avx_operand(const struct emu_op *op, const union emu_ymm *y, unsigned int i)
{
	unsigned int bytes = 16u >> AVX_WIDENED(op);
	union emu_xmm x = {.q = {0}};

	if (op->idx & AVX_COUNT)
		x.q[0] = op->src;
	else
		memcpy(&x, y->b + (op->idx & AVX_SHARED ? 0 : i * bytes), bytes);
	return x;
}

int emu_help_avx(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int n = AVX_LANES(op);
	const union emu_ymm third = avx_get(v, AVX_VVVV(op));
	const union emu_ymm first = op->idx & AVX_THREE ? avx_get(v, op->dst) : third;
	struct emu_simd_io io[2];
	struct emu_op memory = *op;
	union emu_ymm y = {.q = {0}};

	memory.idx = 0; /* any address */
	v->extra += op->idx & SIMD_LONG ? EMU_EFFORT_FP_LONG : 0;
	/* With AVX_COUNT op->src is no register. */
	if (emu_fp_avx(v) || (!(op->idx & AVX_COUNT) && avx_source(v, &memory, &y)))
		return 1;
	for (unsigned int i = 0; i < n; i++) {
		io[i].a = first.x[i];
		io[i].b = avx_operand(op, &y, i);
		io[i].c = third.x[i];
		io[i].gpr = 0;
	}
	if (op->idx & SIMD_FP) {
		if (emu_simd_run_fp(v, AVX_STUB(op), io, n, emu_simd_fp))
			return 1;
	} else {
		emu_simd_int(&io[0], AVX_STUB(op));
		if (n == 2)
			emu_simd_int(&io[1], AVX_STUB_1(op));
	}
	if (op->idx & AVX_NARROW && n == 2)
		io[0].a.q[1] = io[1].a.q[0];
	y.x[0] = io[0].a;
	y.x[1] = io[1 % n].a;
	avx_put(v, op->dst, &y, op->idx & AVX_NARROW ? 1 : n);
	return 0;
}

/* VPINSRx, VCVTSI2SS and VCVTSI2SD: one operand is a general register. */
int emu_help_avx_gpr(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_simd_io io = {.gpr = op->base ? 0 : v->r[op->src],
				 .a = v->fpu.fx.xmm[AVX_VVVV(op)]};
	struct emu_op memory = *op;
	union emu_ymm y;

	memory.idx = 0;
	if (emu_fp_avx(v) || (op->base && emu_simd_load(v, &memory, &io.gpr)))
		return 1;
	if (!(op->idx & SIMD_FP))
		emu_simd_int(&io, AVX_STUB(op));
	else if (emu_simd_run_fp(v, AVX_STUB(op), &io, 1, emu_simd_fp))
		return 1;
	y.x[0] = io.a;
	avx_put(v, op->dst, &y, 1);
	return 0;
}

/* VCVTPS2PH: op->dst is a register, or the destination is memory. */
int emu_help_avx_ps2ph(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int n = AVX_LANES(op);
	const union emu_ymm from = avx_get(v, op->src);
	struct emu_simd_io io[2] = {{.b = from.x[0]}, {.b = from.x[1]}};
	union emu_ymm y = {.q = {0}};
	void *p = NULL;

	if (emu_fp_avx(v))
		return 1;
	if (op->base) {
		p = emu_rmw_slow(v, v->r[EMU_TEA], op->base);
		if (!p)
			return 1;
	}
	if (emu_simd_run_fp(v, AVX_STUB(op), io, n, emu_simd_fp))
		return 1;
	y.q[0] = io[0].a.q[0];
	y.q[1] = n == 2 ? io[1].a.q[0] : 0;
	if (!op->base) {
		avx_put(v, op->dst, &y, 1);
		return 0;
	}
	memcpy(p, &y, op->base);
	if (p == v->bounce.buf)
		emu_rmw_commit(v);
	return 0;
}

/* ---- moves ---- */

/* op->idx: SIMD_ZERO: the rest of the register becomes 0; else it is that of VEX.vvvv, and
 * SIMD_RIGHT: the upper 8 bytes are loaded. */
int emu_help_avx_load(struct emu_vcpu *v, const struct emu_op *op)
{
	union emu_ymm y = {.q = {0}};

	if (emu_fp_avx(v))
		return 1;
	if (!(op->idx & SIMD_ZERO))
		y.x[0] = v->fpu.fx.xmm[AVX_VVVV(op)];
	if (emu_simd_load(v, op, y.b + (op->idx & SIMD_RIGHT ? 8 : 0)))
		return 1;
	avx_put(v, op->dst, &y, 2);
	return 0;
}

/* op->idx: SIMD_RIGHT: the upper 8 bytes of 16. */
int emu_help_avx_store(struct emu_vcpu *v, const struct emu_op *op)
{
	const union emu_ymm y = avx_get(v, op->src);

	if (emu_fp_avx(v))
		return 1;
	return emu_simd_store(v, op, y.b + (op->idx & SIMD_RIGHT ? 8 : 0));
}

/* Register to register; op->idx: MOV_*. */
int emu_help_avx_mov(struct emu_vcpu *v, const struct emu_op *op)
{
	union emu_ymm s = avx_get(v, op->src & 15), y = avx_get(v, AVX_VVVV(op));

	if (emu_fp_avx(v))
		return 1;
	if (op->idx == MOV_ALL)
		y = s;
	else
		emu_simd_mov(v, op, op->idx, &y.x[0], &s.x[0]);
	avx_put(v, op->dst, &y, AVX_LANES(op));
	return 0;
}

/* VZEROUPPER, and VZEROALL with AVX_256. */
int emu_help_avx_zero(struct emu_vcpu *v, const struct emu_op *op)
{
	if (emu_fp_avx(v))
		return 1;
	memset(v->fpu.ymm_high, 0, sizeof(v->fpu.ymm_high));
	if (v->fpu.xcr0 & EMU_XCR0_ZMM_HI)
		memset(v->fpu.zmm_high, 0, sizeof(v->fpu.zmm_high));
	if (op->scale & AVX_256)
		memset(v->fpu.fx.xmm, 0, sizeof(v->fpu.fx.xmm));
	return 0;
}
