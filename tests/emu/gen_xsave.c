// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: XSAVE and its relatives. An area in the scratch memory, whose random bytes become YMM
 * halves; headers that are valid and ones that are not; areas that reach into memory that cannot be
 * written or read; and a second area, in which the result shows. Masks have the components that
 * every CPU with AVX has, and ones that none has.
 */
#include "tests/emu/gen_internal.h"
#include "vmm/engine/simd.h"

#define XSAVE_BYTES (xsave_all() & 0xe0 ? 2432u : 832u) /* of AMD's CPUs */

/* The components: x87, SSE, AVX, and AVX-512's where the host has it. */
static uint32_t xsave_all(void)
{
	return vmm_simd_host() & VMM_SIMD_AVX512 ? 0xe7 : 7;
}

static uint32_t some_components(struct gen *g)
{
	return random_split(&g->rng) >> 32 & xsave_all();
}

/* MOV of a constant to absolute address @at: 4 bytes, or 8 with sign extension. */
static bool put_word(struct gen *g, uint32_t at, uint32_t value, bool wide)
{
	struct enc e = {.n = 0};

	if (wide)
		put(&e, 0x48);
	put(&e, 0xc7);
	gen_put_absolute(&e, 0, at);
	put_le(&e, value, 4);
	return emit(g, &e) >= 0;
}

static bool put_mask(struct gen *g)
{
	uint32_t low = percent(g, 30) ? xsave_all() : some_components(g), high = 0;

	low |= g->zmm ? 4 : 0;
	if (percent(g, 3))
		low |= 1u << 31;
	if (percent(g, 3))
		high = 1u << 30;
	return gen_set_reg(g, DT_RAX, low) >= 0 && gen_set_reg(g, DT_RDX, high) >= 0;
}

static bool put_area_insn(struct gen *g, uint8_t opcode, unsigned int reg, uint32_t at)
{
	struct enc e = {.n = 0};

	if (percent(g, 60))
		put(&e, 0x48);
	put(&e, 0x0f);
	put(&e, opcode);
	gen_put_absolute(&e, reg, at);
	return emit(g, &e) >= 0;
}

/* XSAVE, XSAVEOPT or XSAVEC; seldom XSAVES, which is #GP here. */
static bool put_save(struct gen *g, uint32_t at)
{
	switch (below(g, 10)) {
	case 0 ... 3:
		return put_area_insn(g, 0xae, 4, at);
	case 4 ... 5: /* it may leave out what has not changed since an XRSTOR of this area */
		return put_area_insn(g, 0xae, at == g->restored ? 4 : 6, at);
	case 6 ... 8:
		return put_area_insn(g, 0xc7, 4, at);
	default:
		return put_area_insn(g, percent(g, 50) ? 0xae : 0xc7, 5, at);
	}
}

/* XRSTOR; seldom XRSTORS. */
static bool put_restore(struct gen *g, uint32_t at)
{
	g->restored = at;
	return percent(g, 95) ? put_area_insn(g, 0xae, 5, at) : put_area_insn(g, 0xc7, 3, at);
}

static uint32_t xsave_address(struct gen *g)
{
	uint32_t room = (DT_DATA_BYTES - XSAVE_BYTES) / 64;

	if (percent(g, 5)) /* misaligned */
		return DT_DATA + below(g, DT_DATA_BYTES - XSAVE_BYTES);
	if (percent(g, 8)) /* into the page that is read only, or beyond it */
		return DT_RO + (percent(g, 50) ? 0x1000u : 0) - 64 * (1 + below(g, 14));
	if (percent(g, 8))
		return DT_DATA + 0x1000 - 64 * (1 + below(g, 14));
	return DT_DATA + 64 * below(g, room + 1);
}

/* A header for XRSTOR at @at, and an MXCSR. */
static bool put_header(struct gen *g, uint32_t at)
{
	bool compact = percent(g, 40), wrong = percent(g, 12);
	uint32_t comp = percent(g, 50) ? xsave_all() : some_components(g);
	uint32_t bv = some_components(g), n;

	if (compact)
		bv &= comp;
	if (wrong && percent(g, 40))
		bv |= percent(g, 50) ? xsave_all() : 1u << 30;
	else if (wrong && percent(g, 40))
		comp |= 1u << 30;
	if (g->zmm)
		bv |= 4, comp |= 4;
	else
		bv &= ~0x40u;
	if (!put_word(g, at + 24, percent(g, 90) ? 0x1f80 | below(g, 64) : 1u << 16, false) ||
	    !put_word(g, at + 512, bv, true))
		return false;
	if (compact) {
		if (!put_word(g, at + 520, comp, false) || !put_word(g, at + 524, 1u << 31, false))
			return false;
	} else if (!put_word(g, at + 520, wrong && percent(g, 10), true)) {
		return false;
	}
	/* Of the standard format only the first reserved word is looked at. */
	n = compact ? 6 : 1;
	if (wrong && percent(g, 20))
		n--;
	for (uint32_t i = 0; i < n; i++)
		if (!put_word(g, at + 528 + 8 * i, 0, true))
			return false;
	return true;
}

/* XGETBV, and XSETBV, which is a fault here. */
static void get_bv(struct gen *g)
{
	static const uint8_t xgetbv[] = {0x0f, 0x01, 0xd0}, xsetbv[] = {0x0f, 0x01, 0xd1};

	if (gen_set_reg(g, DT_RCX, percent(g, 90) ? below(g, 2) : below(g, 8)) >= 0)
		emit_bytes(g, percent(g, 95) ? xgetbv : xsetbv, 3);
}

void t_xsave(struct gen *g)
{
	uint32_t at = xsave_address(g);

	if (g->avx)
		return;
	if (percent(g, 15)) {
		get_bv(g);
		return;
	}
	if (!put_mask(g))
		return;
	if (percent(g, 60) ? !put_header(g, at) : !put_save(g, at))
		return;
	if (percent(g, 30))
		t_simd(g);
	if (percent(g, 30) && !put_mask(g))
		return;
	if (!put_restore(g, at))
		return;
	if (percent(g, 30) && !put_mask(g))
		return;
	put_save(g, xsave_address(g));
	if (percent(g, 20))
		get_bv(g);
}
