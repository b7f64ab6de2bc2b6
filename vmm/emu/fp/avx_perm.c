// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AVX and AVX2: instructions that move elements, shift each by its own count, or make bits of them.
 * The manuals define their results entirely, so no stub is needed (SDM vol. 2).
 */

#include "vmm/emu/fp/avx.h"

static void perm_shift_d(union emu_ymm *r, const union emu_ymm *a, const union emu_ymm *b,
			 unsigned int kind)
{
	for (unsigned int i = 0; i < 8; i++) {
		uint32_t n = b->d[i], x = a->d[i];

		if (kind == PERM_SRAV)
			r->d[i] = (uint32_t)((int32_t)x >> (n > 31 ? 31 : n));
		else
			r->d[i] = n > 31 ? 0 : kind == PERM_SLLV ? x << n : x >> n;
	}
}

static void perm_shift_q(union emu_ymm *r, const union emu_ymm *a, const union emu_ymm *b,
			 bool left)
{
	for (unsigned int i = 0; i < 4; i++) {
		uint64_t n = b->q[i], x = a->q[i];

		r->q[i] = n > 63 ? 0 : left ? x << n : x >> n;
	}
}

/* Shift each lane by @n bytes. */
static void perm_shift_bytes(union emu_ymm *r, const union emu_ymm *a, unsigned int n, bool left)
{
	for (unsigned int i = 0; i < 32; i++) {
		unsigned int lane = i & 16, at = left ? (i & 15) - n : (i & 15) + n;

		r->b[i] = at < 16 ? a->b[lane + at] : 0;
	}
}

static void perm_elements(union emu_ymm *r, const union emu_ymm *a, const union emu_ymm *b,
			  unsigned int kind, unsigned int imm)
{
	for (unsigned int i = 0; i < 8; i++)
		switch (kind) {
		case PERM_D:
			r->d[i] = b->d[a->d[i] & 7];
			break;
		case PERM_BLEND:
			r->d[i] = (imm >> i & 1 ? b : a)->d[i];
			break;
		case PERM_PS:
			r->d[i] = b->d[(i & 4) + (imm >> (2 * (i & 3)) & 3)];
			break;
		case PERM_PS_VAR:
			r->d[i] = a->d[(i & 4) + (b->d[i] & 3)];
			break;
		case PERM_Q:
			r->q[i / 2] = b->q[imm >> (i & 6) & 3];
			break;
		case PERM_PD:
			r->q[i / 2] = b->q[(i / 2 & 2) + (imm >> (i / 2) & 1)];
			break;
		case PERM_PD_VAR:
			r->q[i / 2] = a->q[(i / 2 & 2) + (b->q[i / 2] >> 1 & 1)];
			break;
		}
}

/* The result of PERM_*. @m: the register that the immediate byte of PERM_BLENDV names. */
static void perm_compute(union emu_ymm *r, const union emu_ymm *a, const union emu_ymm *b,
			 const union emu_ymm *m, unsigned int kind, unsigned int imm)
{
	unsigned int bytes = kind & 31;

	switch (kind) {
	case PERM_128:
		for (unsigned int i = 0; i < 2; i++, imm >>= 4)
			r->x[i] =
				imm & 8 ? (union emu_xmm){.q = {0}} : (imm & 2 ? b : a)->x[imm & 1];
		return;
	case PERM_INSERT:
		*r = *a;
		r->x[imm & 1] = b->x[0];
		return;
	case PERM_EXTRACT:
		r->x[0] = b->x[imm & 1];
		return;
	case PERM_SLLV:
	case PERM_SRLV:
	case PERM_SRAV:
		perm_shift_d(r, a, b, kind);
		return;
	case PERM_SLLV_Q:
	case PERM_SRLV_Q:
		perm_shift_q(r, a, b, kind == PERM_SLLV_Q);
		return;
	case PERM_SLLDQ:
	case PERM_SRLDQ:
		perm_shift_bytes(r, b, imm, kind == PERM_SLLDQ);
		return;
	}
	if (kind >= PERM_BROADCAST)
		for (unsigned int i = 0; i < 32; i++)
			r->b[i] = b->b[i % bytes];
	else if (kind >= PERM_BLENDV)
		for (unsigned int i = 0; i < 32; i++)
			r->b[i] = (avx_sign(m, i / bytes, bytes) ? b : a)->b[i];
	else
		perm_elements(r, a, b, kind, imm);
}

int emu_help_avx_perm(struct emu_vcpu *v, const struct emu_op *op)
{
	const union emu_ymm a = avx_get(v, AVX_VVVV(op)),
			    m = avx_get(v, (unsigned int)op->imm >> 4 & 15);
	struct emu_op memory = *op;
	union emu_ymm b, r;

	memory.idx = 0;
	if (emu_fp_avx(v) || avx_source(v, &memory, &b))
		return 1;
	perm_compute(&r, &a, &b, &m, op->idx, (unsigned int)op->imm & 0xff);
	avx_put(v, op->dst, &r, op->idx == PERM_EXTRACT ? 1 : AVX_LANES(op));
	return 0;
}

/* VEXTRACTF128 and VEXTRACTI128 to memory. */
int emu_help_avx_extract(struct emu_vcpu *v, const struct emu_op *op)
{
	const union emu_ymm y = avx_get(v, op->src);

	if (emu_fp_avx(v))
		return 1;
	return emu_simd_store(v, op, &y.x[op->imm & 1]);
}

/* VPTEST, VTESTPS, VTESTPD with first operand op->dst: flags. VMOVMSKPS, VMOVMSKPD, VPMOVMSKB: a
 * general register. */
int emu_help_avx_bits(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int bytes = op->idx & 31, n = 16 * AVX_LANES(op);
	const union emu_ymm a = avx_get(v, op->dst & 15);
	uint64_t bits = 0, both = 0, second = 0;
	struct emu_op memory = *op;
	union emu_ymm b;

	memory.idx = 0;
	if (emu_fp_avx(v) || avx_source(v, &memory, &b))
		return 1;
	if (op->idx & AVX_TO_GPR) {
		for (unsigned int i = 0; i < n / bytes; i++)
			bits |= (uint64_t)avx_sign(&b, i, bytes) << i;
		v->r[op->dst] = bits;
		return 0;
	}
	for (unsigned int i = 0; i < n / 8; i++) {
		uint64_t top = bytes == 16 ? ~0ULL : bytes == 8 ? 1ULL << 63 : 0x8000000080000000;

		both |= a.q[i] & b.q[i] & top;
		second |= ~a.q[i] & b.q[i] & top;
	}
	emu_fl_raw(v, (both ? 0 : EMU_ZF) | (second ? 0 : EMU_CF));
	return 0;
}
