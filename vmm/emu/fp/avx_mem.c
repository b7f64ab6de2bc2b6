// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AVX and AVX2: masked moves and gathers. An element whose mask bit is 0 is not accessed, so it
 * cannot fault. A masked move that faults has changed nothing. A gather that faults has completed
 * the elements before, and cleared their mask bits (SDM vol. 2, VPGATHERDD).
 */
#include <string.h>

#include "vmm/emu/fp/avx.h"

static int avx_masked_load(struct emu_vcpu *v, const struct emu_op *op, const union emu_ymm *mask,
			   unsigned int bytes)
{
	uint64_t at = v->r[EMU_TEA];
	union emu_ymm y = {.q = {0}};
	struct emu_op one = {.base = (uint8_t)bytes};

	for (unsigned int i = 0; i < op->base / bytes; i++) {
		v->r[EMU_TEA] = at + i * bytes;
		if (avx_sign(mask, i, bytes) && emu_simd_load(v, &one, y.b + i * bytes))
			return 1;
	}
	avx_put(v, op->dst, &y, AVX_LANES(op));
	return 0;
}

/* The first pass checks, the second cannot fault. */
static int avx_masked_store(struct emu_vcpu *v, const struct emu_op *op, const union emu_ymm *mask,
			    unsigned int bytes)
{
	const union emu_ymm y = avx_get(v, op->dst);

	for (unsigned int pass = 0; pass < 2; pass++)
		for (unsigned int i = 0; i < op->base / bytes; i++) {
			uint8_t *p;

			if (!avx_sign(mask, i, bytes))
				continue;
			p = emu_rmw_slow(v, v->r[EMU_TEA] + i * bytes, bytes);
			if (!p)
				return 1;
			if (!pass)
				continue;
			memcpy(p, y.b + i * bytes, bytes);
			if (p == v->bounce.buf)
				emu_rmw_commit(v);
		}
	return 0;
}

/* VMASKMOVPS, VMASKMOVPD, VPMASKMOVD, VPMASKMOVQ. */
int emu_help_avx_maskmov(struct emu_vcpu *v, const struct emu_op *op)
{
	const union emu_ymm mask = avx_get(v, AVX_VVVV(op));

	if (emu_fp_avx(v))
		return 1;
	v->extra += EMU_EFFORT_SIMD * (op->base / (op->idx & 15u));
	return (op->idx & AVX_STORE ? avx_masked_store : avx_masked_load)(v, op, &mask,
									  op->idx & 15u);
}

/* The elements of @op are at EMU_TEA plus an index each. */
int emu_help_avx_gather(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int index_reg = op->imm & 15, scale = op->imm >> 4 & 15, m = AVX_VVVV(op);
	unsigned int index_bytes = 1u << (op->imm >> 8 & 15), bytes = 1u << (op->imm >> 12 & 15);
	unsigned int n = 16 * AVX_LANES(op) / (index_bytes > bytes ? index_bytes : bytes);
	const union emu_ymm index = avx_get(v, index_reg);
	union emu_ymm y = avx_get(v, op->dst), mask = avx_get(v, m);
	uint64_t seg = v->r[op->idx], at = v->r[EMU_TEA] - seg;
	struct emu_op one = {.base = (uint8_t)bytes, .flags = op->flags};
	unsigned int lanes = n * bytes > 16 ? 2 : 1;

	if (emu_fp_avx(v))
		return 1;
	v->extra += EMU_EFFORT_SIMD * n;
	for (unsigned int i = 0; i < n; i++) {
		uint64_t x = index_bytes == 8 ? index.q[i] : (uint64_t)(int32_t)index.d[i];

		x = at + (x << scale);
		v->r[EMU_TEA] = seg + (op->flags & EMU_OPF_A32 ? (uint32_t)x : x);
		if (avx_sign(&mask, i, bytes) && emu_simd_load(v, &one, y.b + i * bytes)) {
			avx_put_ymm(v, op->dst, &y); /* the rest is unchanged */
			avx_put_ymm(v, m, &mask);
			return 1;
		}
		memset(mask.b + i * bytes, 0, bytes);
	}
	if (n * bytes < 16) /* an element per index of 8 bytes, of 4 bytes */
		y.q[1] = 0;
	avx_put(v, op->dst, &y, lanes);
	avx_put(v, m, &(union emu_ymm){.q = {0}}, 1);
	return 0;
}
