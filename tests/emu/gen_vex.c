// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: instructions with a VEX prefix, of any encoding: all opcodes, prefixes and lengths,
 * also those that are #UD. A decoder that takes one of these for an instruction, or the reverse,
 * differs from the CPU.
 */
#include <string.h>

#include "tests/emu/gen_internal.h"

struct vex {
	unsigned int map, pp, opcode;
	bool w, l, mem;
	unsigned int reg, vvvv, rm;
	struct memop m;
};

static void put_vex(struct gen *g, struct enc *e, const struct vex *x, unsigned int *disp_at)
{
	bool rex_x = x->mem && x->m.rex_x, rex_b = x->mem ? x->m.rex_b : x->rm >> 3;
	unsigned int low = (~x->vvvv & 15) << 3 | (x->l ? 4 : 0) | x->pp;
	bool is_short = x->map == 1 && !x->w && !rex_x && !rex_b && percent(g, 80);

	if (x->mem && x->m.segment)
		put(e, x->m.segment);
	if (x->mem && x->m.addr32)
		put(e, 0x67);
	if (is_short) {
		put(e, 0xc5);
		put(e, (uint8_t)((x->reg >> 3 ? 0 : 0x80) | low));
	} else {
		put(e, 0xc4);
		put(e, (uint8_t)((x->reg >> 3 ? 0 : 0x80) | (rex_x ? 0 : 0x40) |
				 (rex_b ? 0 : 0x20) | x->map));
		put(e, (uint8_t)((x->w ? 0x80 : 0) | low));
	}
	put(e, (uint8_t)x->opcode);
	if (x->mem)
		put(e, (uint8_t)(x->m.mod << 6 | (x->reg & 7) << 3 | x->m.rm));
	else
		put(e, (uint8_t)(0xc0 | (x->reg & 7) << 3 | (x->rm & 7)));
	if (x->mem && x->m.has_sib)
		put(e, x->m.sib);
	*disp_at = e->n;
	if (x->mem)
		put_le(e, x->m.disp, x->m.disp_len);
	put_le(e, below(g, 256), 1); /* the immediate byte, if there is one */
}

static void vex_operands(struct gen *g, struct vex *x)
{
	x->l = percent(g, 50);
	x->w = percent(g, 40);
	x->vvvv = percent(g, 35) ? 0 : gen_pick_reg(g); /* 0 is encoded as 1111B */
	x->reg = gen_pick_reg(g);
	x->rm = gen_pick_reg(g);
	x->mem = percent(g, 45);
	if (x->mem)
		x->m = gen_mem_operand(g, percent(g, 60) ? 32 : 1, 0);
}

/* Place the instruction. If it is none, it is placed with @illegal only. */
static bool vex_emit(struct gen *g, const struct vex *x, bool illegal)
{
	struct enc e = {.n = 0};
	unsigned int disp_at;
	struct insn in;

	put_vex(g, &e, x, &disp_at);
	if (!insn_decode(e.b, e.n, &in))
		return illegal && emit_raw(g, e.b, e.n) >= 0;
	if (!gen_isa[in.i.mnemonic])
		return false;
	e.n = in.i.length;
	if (x->mem && x->m.riprel) {
		uint32_t rel = x->m.disp - (uint32_t)(here(g) + e.n);

		for (unsigned int i = 0; i < 4; i++)
			e.b[disp_at + i] = (uint8_t)(rel >> (8 * i));
	}
	return emit(g, &e) >= 0;
}

static bool bmi_op(struct gen *g, bool illegal)
{
	static const uint8_t opcode[] = {0xf2, 0xf3, 0xf3, 0xf3, 0xf5, 0xf6, 0xf7, 0xf7};
	struct vex x = {.map = 2, .pp = below(g, 4)};

	vex_operands(g, &x);
	x.l = x.l && illegal;
	x.opcode = opcode[below(g, sizeof(opcode))];
	if (percent(g, 12)) { /* RORX */
		x.map = 3;
		x.opcode = 0xf0;
		x.pp = illegal ? x.pp : 3;
	} else if (x.opcode == 0xf3 && !illegal) {
		x.pp = 0;
		x.reg = 1 + below(g, 3);
	}
	return vex_emit(g, &x, illegal);
}

void t_bmi(struct gen *g)
{
	for (uint32_t n = 1 + below(g, 3); n; n--)
		for (int tries = 0; tries < 24; tries++)
			if (bmi_op(g, false))
				break;
}

/* Any VEX prefix, also behind one of the prefixes that must not be there (SDM vol. 2, 2.3). */
void t_vex_illegal(struct gen *g)
{
	static const uint8_t before[] = {0x66, 0xf2, 0xf3, 0xf0, 0x40, 0x48};
	struct vex x = {.map = below(g, 8), .pp = below(g, 4), .opcode = below(g, 256)};
	struct enc e = {.n = 0};
	unsigned int disp_at;
	struct insn in;

	vex_operands(g, &x);
	if (percent(g, 30)) {
		bmi_op(g, true);
		return;
	}
	if (percent(g, 50)) {
		vex_emit(g, &x, true);
		return;
	}
	put(&e, before[below(g, sizeof(before))]);
	x.map = 1 + below(g, 3);
	x.m.segment = x.m.addr32 = 0;
	put_vex(g, &e, &x, &disp_at);
	if (!insn_decode(e.b, e.n, &in))
		emit_raw(g, e.b, e.n);
}
