// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: values, addresses and memory operands. Operands reach their address in every way
 * there is: any known registers with the displacement that makes up the rest, RIP-relative,
 * absolute, through segment bases, with 32-bit addresses; and now and then they do not reach it.
 */
#include "tests/emu/gen_internal.h"

/* Numbers on which arithmetic goes wrong first. */
uint64_t gen_value(struct gen *g)
{
	static const uint64_t special[] = {
		0,
		1,
		2,
		0x7f,
		0x80,
		0xff,
		0x100,
		0x7fff,
		0x8000,
		0xffff,
		0x10000,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		0x7fffffffffffffff,
		0x8000000000000000,
		0xffffffffffffffff,
		0xffffffff80000000,
		0xfffffffffffffffe,
		0x8080808080808080,
	};
	uint64_t r = random_split(&g->rng);

	switch (below(g, 5)) {
	case 0:
		return special[below(g, sizeof(special) / sizeof(special[0]))];
	case 1:
		return r & 0xff;
	case 2:
		return (uint64_t)((int64_t)r >> (8 + below(g, 48)));
	case 3:
		return r >> below(g, 63);
	default:
		return r;
	}
}

uint32_t gen_address(struct gen *g, uint32_t align)
{
	uint32_t a;

	switch (below(g, 40)) {
	case 0:
	case 1: /* around the page boundary inside the area */
		a = DT_DATA + 0xff0 + below(g, 0x20);
		break;
	case 2: /* around the ends, into the read-only page and into nothing */
		a = below(g, 2) ? DT_DATA + DT_DATA_BYTES - 12 + below(g, 16)
				: DT_DATA - 4 + below(g, 12);
		break;
	case 3:
		a = DT_RO + below(g, 0x1000);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		a = DT_STACK + 0x600 + below(g, 0x400);
		break;
	default:
		a = DT_DATA + 0x40 + below(g, DT_DATA_BYTES - 0x80);
		break;
	}
	return a & ~(align - 1);
}

unsigned int gen_pick_reg(struct gen *g)
{
	unsigned int r = below(g, DT_NREGS);

	/* Losing RSP makes most of what follows fault: not that often. */
	return r == DT_RSP && !percent(g, 15) ? below(g, 4) : r;
}

/* A register with a known value, or -1. */
static int pick_known(struct gen *g)
{
	for (int tries = 0; tries < 6; tries++) {
		unsigned int r = below(g, DT_NREGS);

		if (g->known & 1u << r)
			return (int)r;
	}
	return -1;
}

bool gen_is_small(struct gen *g, unsigned int r)
{
	return g->known & 1u << r && g->val[r] + 0x40000 < 0x80000;
}

static bool fits32(int64_t v)
{
	return v == (int32_t)v;
}

static void set_disp(struct gen *g, struct memop *m, int64_t disp, bool base_needs_disp)
{
	m->disp = (uint32_t)disp;
	if (disp == 0 && !base_needs_disp && percent(g, 80))
		m->mod = 0, m->disp_len = 0;
	else if (disp == (int8_t)disp && percent(g, 80))
		m->mod = 1, m->disp_len = 1;
	else
		m->mod = 2, m->disp_len = 4;
}

static void set_sib(struct memop *m, unsigned int scale, unsigned int index, unsigned int base)
{
	m->rm = 4;
	m->has_sib = true;
	m->sib = (uint8_t)(scale << 6 | (index & 7) << 3 | (base & 7));
	m->rex_x = index & 8;
	m->rex_b = base & 8;
}

/* base [+ index * scale] + disp hitting m->target; false when no registers allow it. */
static bool mem_from_regs(struct gen *g, struct memop *m, uint64_t target)
{
	bool indexed = percent(g, 40), based = !indexed || percent(g, 80);
	int base = based ? pick_known(g) : 0, index = indexed ? pick_known(g) : 0;
	unsigned int scale = below(g, 4);
	int64_t disp;
	uint64_t sum = 0;

	if (base < 0 || index < 0 || (indexed && index == DT_RSP))
		return false;
	if (based)
		sum += g->val[base];
	if (indexed)
		sum += g->val[index] << scale;
	disp = (int64_t)(target - sum);
	if (m->addr32)
		disp = (int32_t)disp;
	if (!fits32(disp))
		return false;
	if (!based) {
		set_sib(m, scale, (unsigned int)index, 5);
		m->rex_b = percent(g, 10);
		m->mod = 0;
		m->disp_len = 4;
		m->disp = (uint32_t)disp;
		return true;
	}
	if (indexed) {
		set_sib(m, scale, (unsigned int)index, (unsigned int)base);
	} else if ((base & 7) == 4 || percent(g, 10)) {
		set_sib(m, scale, 4, (unsigned int)base);
	} else {
		m->rm = (uint8_t)(base & 7);
		m->rex_b = base & 8;
	}
	set_disp(g, m, disp, (base & 7) == 5);
	return true;
}

static void mem_wild(struct gen *g, struct memop *m)
{
	unsigned int base = below(g, 16), index = below(g, 16);

	if (percent(g, 50) || (base & 7) == 4)
		set_sib(m, below(g, 4), index, base);
	else
		m->rm = (uint8_t)(base & 7), m->rex_b = base & 8;
	set_disp(g, m, (int32_t)(gen_value(g) & 0xffff) - 0x8000, true);
}

struct memop gen_mem_operand(struct gen *g, uint32_t align, int64_t bit_bytes)
{
	struct memop m = {.target = gen_address(g, align)};
	uint64_t target = (uint64_t)(m.target - bit_bytes);

	if (percent(g, 5)) {
		m.segment = percent(g, 50) ? 0x64 : 0x65;
		target -= m.segment == 0x64 ? DT_FS_BASE : DT_GS_BASE;
	} else if (percent(g, 3)) {
		static const uint8_t ignored[] = {0x2e, 0x3e, 0x26, 0x36};

		m.segment = ignored[below(g, 4)];
	}
	m.addr32 = percent(g, 5);
	if (m.addr32)
		target = (uint32_t)target;
	if (percent(g, 2)) {
		mem_wild(g, &m);
		return m;
	}
	for (int tries = 0; percent(g, 80) && tries < 5; tries++)
		if (mem_from_regs(g, &m, target))
			return m;
	m.mod = 0;
	m.disp_len = 4;
	m.has_sib = m.rex_x = m.rex_b = false;
	if (percent(g, 60) || !fits32((int64_t)target)) {
		m.rm = 5;
		m.riprel = true;
		m.rex_b = percent(g, 10);
		m.disp = (uint32_t)target;
	} else {
		m.rm = 4;
		m.has_sib = true;
		m.sib = (uint8_t)(below(g, 4) << 6 | 0x25);
		m.rex_b = percent(g, 10);
		m.disp = (uint32_t)target;
	}
	return m;
}

void gen_put_operand(struct enc *e, const struct memop *m, unsigned int rm, unsigned int reg,
		     unsigned int *disp_at)
{
	if (!m)
		put(e, (uint8_t)(0xc0 | (reg & 7) << 3 | (rm & 7)));
	else
		put(e, (uint8_t)(m->mod << 6 | (reg & 7) << 3 | m->rm));
	if (m && m->has_sib)
		put(e, m->sib);
	*disp_at = e->n;
	if (m)
		put_le(e, m->disp, m->disp_len);
}

void gen_put_absolute(struct enc *e, unsigned int reg, uint32_t at)
{
	put(e, (uint8_t)(reg << 3 | 4));
	put(e, 0x25);
	put_le(e, at, 4);
}

void gen_put_rel(struct gen *g, struct enc *e, const struct memop *m, unsigned int disp_at)
{
	uint32_t rel = m ? m->disp - (uint32_t)(here(g) + e->n) : 0;

	for (unsigned int i = 0; m && m->riprel && i < 4; i++)
		e->b[disp_at + i] = (uint8_t)(rel >> (8 * i));
}

bool gen_place(struct gen *g, struct enc *e, const struct memop *m, unsigned int disp_at)
{
	struct insn in;

	if (!insn_decode(e->b, e->n, &in) || !gen_isa[in.i.mnemonic])
		return false;
	e->n = in.i.length;
	gen_put_rel(g, e, m, disp_at);
	return emit(g, e) >= 0;
}
