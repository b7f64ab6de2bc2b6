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
	gen_put_operand(e, x->mem ? &x->m : NULL, x->rm, x->reg, disp_at);
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

/* Returns true if it names one of k8 to k15. That is #UD (Zydis and Intel's XED), but AMD's CPUs
 * ignore the top bit of the number. */
static bool vex_no_opmask(const struct vex *x)
{
	bool opmask = x->map == 1 ? (x->opcode >= 0x41 && x->opcode <= 0x4b) ||
					    (x->opcode >= 0x90 && x->opcode <= 0x99)
				  : x->map == 3 && x->opcode >= 0x30 && x->opcode <= 0x33;

	return opmask && (x->reg > 7 || x->vvvv > 7);
}

/* Place the instruction. If it is none, it is placed with @illegal only. */
static bool vex_emit(struct gen *g, const struct vex *x, bool illegal)
{
	struct enc e = {.n = 0};
	unsigned int disp_at;
	struct insn in;

	put_vex(g, &e, x, &disp_at);
	if (!insn_decode(e.b, e.n, &in))
		return illegal && !vex_no_opmask(x) && emit_raw(g, e.b, e.n) >= 0;
	return gen_place(g, &e, x->mem ? &x->m : NULL, disp_at);
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

/* Any opcode; VEX.vvvv must often be 1111B, and VEX.L or VEX.W one value. */
static bool avx_op(struct gen *g)
{
	static const uint8_t op3a[] = {0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0b,
				       0x0c, 0x0d, 0x0e, 0x0f, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19,
				       0x1d, 0x20, 0x21, 0x22, 0x38, 0x39, 0x40, 0x41, 0x42, 0x46,
				       0x4a, 0x4b, 0x4c, 0x60, 0x61, 0x62, 0x63};
	struct vex x = {.map = 1};

	vex_operands(g, &x);
	x.opcode = percent(g, 85) ? 0x50 + below(g, 0xb0) : 0x10 + below(g, 0x20);
	x.pp = below(g, 4);
	if (percent(g, 45)) {
		x.map = 2;
		x.opcode = below(g, 0xc0);
		x.pp = 1;
	} else if (percent(g, 30)) {
		x.map = 3;
		x.opcode = op3a[below(g, sizeof(op3a))];
		x.pp = 1;
	}
	if (percent(g, 3)) { /* VMOVNTPS, VMOVNTPD, VMOVNTDQ */
		x.map = 1;
		x.pp = below(g, 2);
		x.opcode = x.pp && percent(g, 50) ? 0xe7 : 0x2b;
	}
	if (x.map == 1 && (x.opcode == 0xae || x.opcode == 0x77))
		x.pp = x.opcode == 0x77 || percent(g, 90) ? 0 : x.pp;
	if (x.map == 2 && x.opcode >= 0x90 && x.opcode <= 0x93)
		return false;
	if (percent(g, 3)) { /* VLDMXCSR, VSTMXCSR; VPSRLDQ, with one of 8 values of reg;
				VMASKMOVDQU */
		x.map = 1;
		x.mem = percent(g, 40);
		x.opcode = x.mem ? 0xae : percent(g, 70) ? 0x73 : 0xf7;
		x.pp = !x.mem;
		x.l &= x.opcode == 0x73;
		x.vvvv = x.opcode == 0x73 ? x.vvvv : 0;
		if (x.mem)
			x.m = gen_mem_operand(g, 1, 0);
		x.reg = x.mem ? 2 + below(g, 2) : below(g, 8);
	}
	return vex_emit(g, &x, false);
}

void t_avx(struct gen *g)
{
	for (uint32_t n = g->avx ? 1 + below(g, 6) : 0; n; n--)
		for (int tries = 0; tries < 24; tries++)
			if (avx_op(g))
				break;
}

/* Opmask registers are k0 to k7; VEX.L is 1 with three operands, and else 0. With @illegal, any
 * encoding near those. */
static bool opmask_op(struct gen *g, bool illegal)
{
	static const uint8_t logic[] = {0x41, 0x42, 0x45, 0x46, 0x47, 0x4a, 0x4b},
			     other[] = {0x44, 0x90, 0x90, 0x91, 0x92, 0x93, 0x98, 0x99};
	struct vex x = {.map = 1};
	bool three = percent(g, 45);

	vex_operands(g, &x);
	x.opcode = three ? logic[below(g, sizeof(logic))] : other[below(g, sizeof(other))];
	x.pp = below(g, x.opcode == 0x92 || x.opcode == 0x93 ? 4 : 2);
	x.mem = x.opcode == 0x91 || (x.opcode == 0x90 && percent(g, 50));
	if (x.mem)
		x.m = gen_mem_operand(g, 1, 0);
	x.w = percent(g, 50);
	if (percent(g, 20)) { /* shifts */
		three = x.mem = false;
		x.map = 3;
		x.opcode = 0x30 + below(g, 4);
		x.pp = 1;
	}
	if (illegal)
		return vex_emit(g, &x, true);
	x.l = three;
	x.vvvv = three ? below(g, 8) : 0;
	x.reg = x.opcode == 0x93 ? x.reg : below(g, 8);
	x.rm = x.opcode == 0x92 ? x.rm : below(g, 8);
	return vex_emit(g, &x, false);
}

void t_opmask(struct gen *g)
{
	for (uint32_t n = g->avx ? 1 + below(g, 4) : 0; n; n--)
		for (int tries = 0; tries < 24; tries++)
			if (opmask_op(g, false))
				break;
}

/* One instruction with a VEX prefix and registers only. */
static void vex_registers(struct gen *g, unsigned int map, unsigned int opcode, bool l,
			  unsigned int reg, unsigned int vvvv, unsigned int rm)
{
	struct vex x = {
		.map = map, .pp = 1, .opcode = opcode, .l = l, .reg = reg, .vvvv = vvvv, .rm = rm};
	struct enc e = {.n = 0};
	unsigned int disp_at;
	struct insn in;

	put_vex(g, &e, &x, &disp_at);
	if (!insn_decode(e.b, e.n, &in))
		return;
	e.n = in.i.length;
	emit(g, &e);
}

/*
 * A gather with small indices from the scratch area or its end, where some elements fault: indices
 * become their own upper bits first (VPSRLD, VPSRLQ by a constant).
 */
void t_gather(struct gen *g)
{
	unsigned int opcode = 0x90 + below(g, 4), index = below(g, 16), dst = below(g, 16);
	unsigned int mask = below(g, 16), scale = below(g, 4);
	bool wide = opcode & 1, l = percent(g, 60), w = percent(g, 50);
	uint32_t at =
		percent(g, 75) ? gen_address(g, 1) & ~0xfffu : DT_RO + 0x1000 - below(g, 0x200);
	struct vex x = {.map = 1,
			.pp = 1,
			.opcode = wide ? 0x73 : 0x72,
			.l = l,
			.reg = 2,
			.vvvv = index,
			.rm = index};
	struct enc e = {.n = 0};
	unsigned int disp_at;
	struct insn in;

	if (!g->avx)
		return;
	put_vex(g, &e, &x, &disp_at);
	e.b[e.n - 1] = (uint8_t)(wide ? 55 : 23);
	if (emit(g, &e) < 0)
		return;
	if (percent(g, 40)) /* VPCMPEQD: all of the mask */
		vex_registers(g, 1, 0x76, l, mask, mask, mask);
	e.n = 0;
	if (percent(g, 5))
		put(&e, 0x67);
	put(&e, 0xc4);
	put(&e, (uint8_t)((dst >> 3 ? 0 : 0x80) | (index >> 3 ? 0 : 0x40) | 0x20 | 2));
	put(&e, (uint8_t)((w ? 0x80 : 0) | (~mask & 15) << 3 | (l ? 4 : 0) | 1));
	put(&e, (uint8_t)opcode);
	put(&e, (uint8_t)((dst & 7) << 3 | 4));
	put(&e, (uint8_t)(scale << 6 | (index & 7) << 3 | 5)); /* no base */
	put_le(&e, at, 4);
	if (!insn_decode(e.b, e.n, &in))
		emit_raw(g, e.b, e.n); /* two of the registers are the same */
	else
		emit(g, &e);
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
	if (percent(g, 20) && g->avx) {
		opmask_op(g, true);
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
