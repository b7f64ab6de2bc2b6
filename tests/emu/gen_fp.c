// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: x87, MMX, and SSE to SSE4.2. Registers begin with the numbers on which floating-point
 * arithmetic goes wrong: denormals, infinities, NaNs of both kinds, formats that are not supported,
 * and neighbours of powers of two; control words with all roundings, precisions and masks.
 */
#include <string.h>

#include "tests/emu/gen_internal.h"
#include "vmm/engine/simd.h"

static uint32_t value32(struct gen *g)
{
	static const uint32_t special[] = {
		0,	    0x80000000, 1,	    0x007fffff, 0x00800000, 0x00800001, 0x7f7fffff,
		0x7f800000, 0xff800000, 0x7fc00000, 0x7fa00001, 0xffc01234, 0x3f800000, 0xbf800000,
		0x3f800001, 0x3f7fffff, 0x4f000000, 0xcf000000, 0x4effffff, 0x80000001, 0x00400000,
		0x5f000000, 0x20000000, 0x1f800000, 0x3fc00000,
	};
	uint32_t r = (uint32_t)random_split(&g->rng);

	switch (below(g, 4)) {
	case 0:
		return special[below(g, sizeof(special) / sizeof(special[0]))];
	case 1: /* near 1 */
		return (r & 0x807fffff) | (0x7f - 4 + below(g, 8)) << 23;
	case 2: /* near the smallest and the largest */
		return (r & 0x807fffff) | (percent(g, 60) ? below(g, 30) : 0xfe - below(g, 3))
						  << 23;
	default:
		return r;
	}
}

static uint64_t value64(struct gen *g)
{
	static const uint64_t special[] = {
		0,
		1ull << 63,
		1,
		0x000fffffffffffff,
		0x0010000000000000,
		0x7fefffffffffffff,
		0x7ff0000000000000,
		0xfff0000000000000,
		0x7ff8000000000000,
		0x7ff4000000000001,
		0xfff8000000001234,
		0x3ff0000000000000,
		0xbff0000000000000,
		0x3ff0000000000001,
		0x41e0000000000000,
		0xc1e0000000000000,
		0x41dfffffffc00000,
		0x43e0000000000000,
		0xc3e0000000000000,
		0x380fffffffffffff,
		0x3690000000000000,
		0x47efffffefffffff,
		0x3ff8000000000000,
	};
	uint64_t r = random_split(&g->rng), keep = 0x800fffffffffffff;

	switch (below(g, 5)) {
	case 0:
		return special[below(g, sizeof(special) / sizeof(special[0]))];
	case 1:
		return (r & keep) | (uint64_t)(0x3ff - 4 + below(g, 8)) << 52;
	case 2:
		return (r & keep) | (uint64_t)(percent(g, 60) ? below(g, 60) : 0x7fe - below(g, 3))
					    << 52;
	case 3: /* about where single precision ends */
		return (r & keep) | (uint64_t)(0x3ff - 150 + below(g, 300)) << 52;
	default:
		return r;
	}
}

static void value80(struct gen *g, uint8_t b[16])
{
	static const uint16_t exponent[] = {0,	    0,	    1,	    0x7fff, 0x7fff, 0x7ffe, 0x3fff,
					    0x3ffe, 0x4000, 0x401e, 0x403e, 0x3c01, 0x3f81, 0x43fe};
	static const uint64_t mantissa[] = {0,
					    1ull << 63,
					    ~0ull,
					    3ull << 62,
					    1,
					    (1ull << 63) + 1,
					    0x7fffffffffffffff,
					    0xc000000000000001,
					    0xa000000000000000,
					    0xfffffffffffffc00,
					    0xffffff8000000000};
	uint64_t m = percent(g, 60) ? random_split(&g->rng)
				    : mantissa[below(g, sizeof(mantissa) / sizeof(mantissa[0]))];
	uint32_t e = exponent[below(g, sizeof(exponent) / sizeof(exponent[0]))];

	if (percent(g, 20))
		e = below(g, 0x8000);
	else if (percent(g, 40))
		e = 0x3fff - 8 + below(g, 24);
	if (e && percent(g, 92))
		m |= 1ull << 63; /* else a format that is not supported */
	e |= percent(g, 50) ? 0x8000 : 0;
	memcpy(b, &m, 8);
	b[8] = (uint8_t)e;
	b[9] = (uint8_t)(e >> 8);
}

static uint32_t gen_mxcsr(struct gen *g)
{
	uint32_t x = 0x1f80;

	if (percent(g, 30))
		x &= ~(1u << (7 + below(g, 6)));
	if (percent(g, 10))
		x = below(g, 64) << 7;
	if (percent(g, 60))
		x |= below(g, 4) << 13;
	if (percent(g, 25))
		x |= 0x8000;
	if (percent(g, 25))
		x |= 0x40;
	if (percent(g, 5) && gen_misalign)
		x |= 0x20000;
	if (gen_masked)
		x |= 0x1f80;
	return x | (percent(g, 30) ? below(g, 64) : 0);
}

static uint16_t gen_fcw(struct gen *g)
{
	static const uint8_t precision[] = {0, 2, 3};
	uint32_t x = 0x37f;

	if (percent(g, 30))
		x &= ~(1u << below(g, 6));
	if (percent(g, 10))
		x = (x & ~0x3fu) | below(g, 64);
	if (percent(g, 60))
		x = (x & ~0xc00u) | below(g, 4) << 10;
	if (percent(g, 40))
		x = (x & ~0x300u) | (percent(g, 90) ? precision[below(g, 3)] : 1u) << 8;
	if (gen_masked)
		x |= 0x3f;
	return (uint16_t)x;
}

void gen_fx(struct gen *g, uint8_t fx[DT_FX_BYTES])
{
	uint32_t fcw = gen_fcw(g), mxcsr = gen_mxcsr(g);
	uint32_t fsw = below(g, 8) << 11 | (random_split(&g->rng) & 0x4700);

	fsw |= below(g, 64) & (percent(g, 5) ? 0x3f : fcw & 0x3f);
	memset(fx, 0, DT_FX_BYTES);
	fx[0] = (uint8_t)fcw;
	fx[1] = (uint8_t)(fcw >> 8);
	fx[2] = (uint8_t)fsw;
	fx[3] = (uint8_t)(fsw >> 8);
	fx[4] = percent(g, 50) ? 0xff : (uint8_t)below(g, 256);
	for (unsigned int i = 0; i < 4; i++)
		fx[24 + i] = (uint8_t)(mxcsr >> (8 * i));
	for (unsigned int i = 0; i < 8; i++)
		value80(g, fx + 32 + 16 * i);
	for (unsigned int i = 0; i < 16; i++) {
		bool wide = percent(g, 50);

		for (unsigned int k = 0; k < 2; k++) {
			uint64_t v = wide ? value64(g) : value32(g) | (uint64_t)value32(g) << 32;

			memcpy(fx + 160 + 16 * i + 8 * k, &v, 8);
		}
	}
}

/* @bytes of registers, often zeros unless @always, which are not in use. */
static void vectors(struct gen *g, bool has, bool always, uint8_t *to, size_t bytes)
{
	bool any = has && (percent(g, g->avx ? 80 : 30) || always);

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t v = percent(g, 50) ? value64(g) : value32(g) | (uint64_t)value32(g) << 32;

		v = any ? v : 0;
		memcpy(to + i, &v, 8);
	}
}

void gen_vectors(struct gen *g, struct dt_vectors *v)
{
	bool avx512 = vmm_simd_host() & VMM_SIMD_AVX512, masks = avx512 && percent(g, 80);

	vectors(g, gen_isa[ZYDIS_MNEMONIC_VZEROUPPER], g->zmm, v->ymm[0], sizeof(v->ymm));
	vectors(g, avx512 && (g->avx || g->zmm), false, v->zmm_high[0], sizeof(v->zmm_high));
	vectors(g, avx512, false, v->zmm_hi16[0], sizeof(v->zmm_hi16));
	for (unsigned int i = 0; i < 8; i++) {
		uint64_t x = percent(g, 15) ? 0 : percent(g, 15) ? ~0ull : random_split(&g->rng);

		v->k[i] = masks ? x >> 16 * below(g, 4) : 0;
	}
}

/* Any operands, and the immediate byte, if there is one. */
static void put_random(struct gen *g, struct enc *e, const struct memop *m, unsigned int *disp_at)
{
	unsigned int reg = below(g, 8);

	gen_put_operand(e, m, m ? 0 : below(g, 8), reg, disp_at);
	put_le(e, below(g, 256), 1);
}

static bool simd_op(struct gen *g)
{
	static const uint8_t prefix[] = {0, 0x66, 0xf3, 0xf2};
	static const uint8_t op38[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09,
				       0x0a, 0x0b, 0x10, 0x14, 0x15, 0x17, 0x1c, 0x1d, 0x1e, 0x20,
				       0x21, 0x22, 0x23, 0x24, 0x25, 0x28, 0x29, 0x2a, 0x2b, 0x30,
				       0x31, 0x32, 0x33, 0x34, 0x35, 0x37, 0x38, 0x39, 0x3a, 0x3b,
				       0x3c, 0x3d, 0x3e, 0x3f, 0x40, 0x41, 0xf0, 0xf1, 0xf0, 0xf1};
	static const uint8_t op3a[] = {0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x14,
				       0x15, 0x16, 0x17, 0x20, 0x21, 0x22, 0x40, 0x41, 0x42,
				       0x60, 0x61, 0x62, 0x63, 0x60, 0x61, 0x62, 0x63};
	unsigned int p = below(g, 4), disp_at, rex;
	bool mem = percent(g, 40);
	struct memop m = {0};
	struct enc e = {.n = 0};
	uint8_t opcode = (uint8_t)(0x10 + below(g, 0xf0)), map = 0;

	if (percent(g, 25)) { /* SSSE3, SSE4.1, SSE4.2 */
		map = percent(g, 65) ? 0x38 : 0x3a;
		opcode = map == 0x38 ? op38[below(g, sizeof(op38))] : op3a[below(g, sizeof(op3a))];
		p = percent(g, 75) ? 1 : map == 0x38 && opcode >= 0xf0 ? 3 : 0;
	} else if (percent(g, 1)) { /* MXCSR, CLFLUSH */
		opcode = 0xae;
		p = 0;
	} else if (percent(g, 3)) { /* shifts by a constant: one of 8 values of reg is PSRLDQ */
		opcode = (uint8_t)(0x71 + below(g, 3));
		p = 1;
	} else if (opcode < 0x28 || (opcode > 0x2f && opcode < 0x50) ||
		   (opcode >= 0x80 && opcode < 0xc2 && opcode != 0xae) ||
		   (opcode >= 0xc7 && opcode < 0xd0))
		if (opcode > 0x17)
			return false;
	if (mem)
		m = gen_mem_operand(g, percent(g, 85) ? 16 : 1, 0);
	if (mem && m.segment)
		put(&e, m.segment);
	if (mem && m.addr32)
		put(&e, 0x67);
	if (prefix[p])
		put(&e, prefix[p]);
	rex = 0x40 | (percent(g, 25) ? 8 : 0) | (percent(g, 50) ? 4 : 0);
	if (mem)
		rex |= (m.rex_x ? 2 : 0) | (m.rex_b ? 1 : 0);
	else
		rex |= percent(g, 50);
	if (rex != 0x40 || percent(g, 5))
		put(&e, (uint8_t)rex);
	put(&e, 0x0f);
	if (map)
		put(&e, map);
	put(&e, opcode);
	put_random(g, &e, mem ? &m : NULL, &disp_at);
	return gen_place(g, &e, mem ? &m : NULL, disp_at);
}

static bool x87_op(struct gen *g)
{
	bool mem = percent(g, 40);
	struct memop m = {0};
	struct enc e = {.n = 0};
	unsigned int disp_at;

	if (percent(g, 2)) {
		put(&e, 0x9b); /* FWAIT */
		return emit(g, &e) >= 0;
	}
	if (mem)
		m = gen_mem_operand(g, percent(g, 50) ? 8 : 1, 0);
	if (mem && m.segment)
		put(&e, m.segment);
	if (mem && m.addr32)
		put(&e, 0x67);
	if (percent(g, 3))
		put(&e, 0x66);
	if (mem && (m.rex_x || m.rex_b || percent(g, 5)))
		put(&e, (uint8_t)(0x40 | (m.rex_x ? 2 : 0) | (m.rex_b ? 1 : 0)));
	put(&e, (uint8_t)(0xd8 + below(g, 8)));
	put_random(g, &e, mem ? &m : NULL, &disp_at);
	return gen_place(g, &e, mem ? &m : NULL, disp_at);
}

static void fp_op(struct gen *g, bool (*op)(struct gen *g))
{
	for (int tries = 0; tries < 24; tries++)
		if (op(g))
			return;
}

void t_simd(struct gen *g)
{
	for (uint32_t n = 1 + below(g, 4); n; n--)
		fp_op(g, simd_op);
}

void t_x87(struct gen *g)
{
	for (uint32_t n = 1 + below(g, 4); n; n--)
		fp_op(g, x87_op);
}

/* Write a number to the scratch area, and load it into MXCSR or FCW. */
static void load_control(struct gen *g, bool mxcsr, uint32_t value)
{
	uint32_t at = DT_DATA + 0x100 + below(g, 0x1000);
	struct enc e = {.n = 0};

	put(&e, 0xc7);
	gen_put_absolute(&e, 0, at);
	put_le(&e, value, 4);
	if (emit(g, &e) < 0)
		return;
	e.n = 0;
	if (mxcsr) {
		put(&e, 0x0f);
		put(&e, 0xae);
		gen_put_absolute(&e, 2, at);
	} else {
		put(&e, 0xd9);
		gen_put_absolute(&e, 5, at);
	}
	emit(g, &e);
}

/* FXSAVE, FNSAVE or FNSTENV, something else, and the opposite, now and then of another address. */
static void save_restore(struct gen *g)
{
	uint32_t at = DT_DATA + 0x100 + below(g, 0x100) * 16;
	struct enc e = {.n = 0};
	unsigned int kind = below(g, 4);
	bool wide = percent(g, 50), small = percent(g, 15);

	if (percent(g, 4))
		at += below(g, 16);
	for (unsigned int restore = 0; restore < 2; restore++) {
		e.n = 0;
		if (kind < 2) {
			if (wide)
				put(&e, 0x48);
			put(&e, 0x0f);
			put(&e, 0xae);
			gen_put_absolute(&e, restore, at);
		} else {
			if (small)
				put(&e, 0x66);
			put(&e, kind == 2 ? 0xd9 : 0xdd);
			gen_put_absolute(&e, restore ? 4 : 6, at);
		}
		/* Where FXSAVE is left out, FXRSTOR meets numbers that were not saved. */
		if (emit(g, &e) < 0 &&
		    (restore || kind > 1 ||
		     gen_isa[wide ? ZYDIS_MNEMONIC_FXSAVE64 : ZYDIS_MNEMONIC_FXSAVE]))
			return;
		if (!restore)
			for (uint32_t n = below(g, 3); n; n--)
				fp_op(g, percent(g, 50) ? simd_op : x87_op);
	}
}

void t_fp_control(struct gen *g)
{
	switch (below(g, 3)) {
	case 0:
		load_control(g, true,
			     percent(g, 95) ? gen_mxcsr(g) : (uint32_t)random_split(&g->rng));
		break;
	case 1:
		load_control(g, false,
			     percent(g, 90) ? gen_fcw(g) : (uint32_t)random_split(&g->rng));
		break;
	default:
		save_restore(g);
	}
}
