// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code: the templates of arithmetic; jit_op.c has the rules for templates.
 *
 * A bitwise operation leaves the host's AF undefined, and the guest's is 0. So its result is
 * compared with 0, which defines all six flags as they must be.
 */
#include "vmm/emu/jit/jit.h"

#define TEST 8 /* its number in OPS_ALU */

static bool is_logic(unsigned int alu)
{
	return alu == X_OR || alu == X_AND || alu == X_XOR || alu == TEST;
}

/* ---- two operands ---- */

/* @dst, a host register, becomes @dst op @s. */
static void jit_alu_apply(struct jit *j, unsigned int alu, unsigned int lg, unsigned int dst,
			  struct jit_source s)
{
	if (s.is_imm)
		x_alu_imm(&j->b, alu, lg, rm_reg(dst), s.imm);
	else
		x_alu_load(&j->b, alu, lg, dst, s.m);
}

/* TEST as CMP: the host's TEST would leave AF undefined. */
static void test(struct jit *j, unsigned int lg, struct rm a, struct jit_source s)
{
	if (!s.is_imm && s.m.is_reg && a.is_reg && s.m.base == a.base) {
		x_alu_imm(&j->b, X_CMP, lg, a, 0);
		return;
	}
	x_mov(&j->b, a.is_reg && lg < 2 ? 2 : lg, HOST_S1, a);
	jit_alu_apply(j, X_AND, lg, HOST_S1, s);
	x_alu_imm(&j->b, X_CMP, lg, rm_reg(HOST_S1), 0);
}

/* The destination is a guest register. */
static void alu_reg(struct jit *j, unsigned int alu, unsigned int lg, unsigned int dst,
		    struct jit_source s)
{
	struct rm d = jit_rm(dst), result = d;
	bool live = j->live[j->i + 1];

	if (alu == X_ADC || alu == X_SBB)
		jit_carry(j);
	if (alu == TEST) {
		test(j, lg, d, s);
	} else if (d.is_reg) {
		jit_alu_apply(j, alu, lg, d.base, s);
	} else if (lg == 2 || !s.is_imm) { /* 32 bits: the upper half becomes 0 */
		x_mov(&j->b, lg, HOST_S1, d);
		jit_alu_apply(j, alu, lg, HOST_S1, s);
		if (alu != X_CMP)
			x_store(&j->b, lg == 2 ? 3 : lg, d, HOST_S1);
		result = rm_reg(HOST_S1);
	} else {
		x_alu_imm(&j->b, alu, lg, d, s.imm);
	}
	if (is_logic(alu) && alu != TEST && live)
		x_alu_imm(&j->b, X_CMP, lg, result, 0);
	jit_set(j, SHAPE_ALL, alu == X_SUB || alu == X_CMP);
}

/* The destination is @m, guest memory; HOST_S1 is free. */
void jit_alu_mem(struct jit *j, unsigned int alu, unsigned int lg, struct rm m, struct jit_source s)
{
	if (alu == TEST) {
		test(j, lg, m, s);
		jit_set(j, SHAPE_ALL, false);
		return;
	}
	if (s.is_imm) {
		if (alu == X_ADC || alu == X_SBB)
			jit_carry(j);
		x_alu_imm(&j->b, alu, lg, m, s.imm);
	} else {
		unsigned int src = HOST_S1;

		if (s.m.is_reg)
			src = s.m.base;
		else
			x_mov(&j->b, lg, src, s.m);
		if (alu == X_ADC || alu == X_SBB)
			jit_carry(j);
		x_alu(&j->b, alu, lg, m, src);
	}
	jit_set(j, is_logic(alu) ? SHAPE_AF0 : SHAPE_ALL, alu == X_SUB || alu == X_CMP);
}

bool jit_alu_op(struct jit *j, const struct emu_op *op, unsigned int code)
{
	unsigned int i = code - EMU_OP_ADD_RR8, alu = i / 24, form = i % 24 / 4, lg = i % 4;
	bool dst_reg = form <= JIT_RX, src_reg = form == JIT_RR || form == JIT_MR, ok = true;
	struct jit_source s = {.is_imm = form == JIT_RI || form == JIT_MI, .imm = op->imm};
	struct rm m = {0};

	if ((dst_reg && jit_is_high(lg, op->dst)) || (src_reg && jit_is_high(lg, op->src)))
		return false;
	if (form >= JIT_RM)
		m = jit_access(j, jit_op_ea(j, op), 1u << lg, form >= JIT_MR && alu < X_CMP, &ok);
	if (src_reg)
		s.m = jit_rm(jit_number(lg, op->src));
	else
		s.m = m;
	if (dst_reg)
		alu_reg(j, alu, lg, jit_number(lg, op->dst), s);
	else
		jit_alu_mem(j, alu, lg, m, s);
	return ok;
}

/* ---- one operand ---- */

bool jit_unary(struct jit *j, unsigned int what, unsigned int lg, struct rm d)
{
	switch (what) {
	case 0:
		x_unary(&j->b, X_NOT, lg, d);
		return true;
	case 1:
		x_unary(&j->b, X_NEG, lg, d);
		jit_set(j, SHAPE_ALL, true);
		return true;
	default: /* INC, DEC: CF stays */
		jit_carry(j);
		x_op(&j->b, lg ? 0xff : 0xfe, lg, what - 2, d);
		jit_set(j, SHAPE_ALL, false);
		return true;
	}
}

bool jit_shift(struct jit *j, unsigned int what, unsigned int lg, struct rm d, unsigned int count)
{
	static const uint8_t kind[] = {X_SHL, X_SHR, X_SAR};

	if (count >= 8u << lg) /* of 8 and 16 bits: the host leaves CF undefined */
		return false;
	x_shift_imm(&j->b, kind[what], lg, d, count);
	jit_set(j,
		what == 2    ? SHAPE_OF0
		: count == 1 ? SHAPE_AF1
		: what	     ? SHAPE_OF0
			     : SHAPE_SHL,
		false);
	return true;
}

/* A shift by CL, of 32 or 64 bits. A count of 0 changes no flags. */
static void shift_cl(struct jit *j, unsigned int what, unsigned int lg, unsigned int dst)
{
	static const uint8_t kind[] = {X_SHL, X_SHR, X_SAR};
	unsigned int d = jit_get(j, dst, HOST_S1);
	bool live = j->live[j->i + 1];
	uint8_t *none;

	jit_clobber(j);
	if (lg == 2)
		x_mov(&j->b, 2, d, rm_reg(d));
	x_byte(&j->b, 0xf6), x_byte(&j->b, 0xc1), x_byte(&j->b, lg == 3 ? 63 : 31); /* test cl */
	none = x_jcc(&j->b, CC_E);
	x_op(&j->b, 0xd3, lg, kind[what], rm_reg(d));
	if (live && what == 1) { /* OF: the two top bits differ, and the top one is 0 */
		x_lahf(&j->b);
		x_op(&j->b, 0x0fba, lg, 4, rm_reg(d)), x_byte(&j->b, (8u << lg) - 2); /* bt */
		x_setcc(&j->b, CC_B, rm_reg(HOST_RAX));
		x_ah(&j->b, X_OR, 0x10);
	} else if (live) {
		j->fl = FL_HOST;
		j->shape = what ? SHAPE_OF0 : SHAPE_SHL;
		jit_to_ax(j);
	}
	x_link(&j->b, none, j->b.at);
	jit_put(j, dst, d);
	j->fl = live ? FL_AX : FL_DEAD;
	j->sub = false;
}

bool jit_unary_op(struct jit *j, const struct emu_op *op, unsigned int code)
{
	unsigned int i = code - EMU_OP_NOT8, what = i / 4, lg = i % 4;
	unsigned int guest = jit_number(lg, op->dst);
	struct rm d = jit_rm(guest), in = d;
	bool ok;

	if (jit_is_high(lg, op->dst))
		return false;
	if (what >= 7) {
		if (lg < 2)
			return false;
		shift_cl(j, what - 7, lg, guest);
		return true;
	}
	if (!d.is_reg && lg == 2) { /* the upper half becomes 0 */
		x_mov(&j->b, 2, HOST_S1, d);
		in = rm_reg(HOST_S1);
	}
	ok = what < 4 ? jit_unary(j, what, lg, in)
		      : jit_shift(j, what - 4, lg, in, (unsigned int)op->imm);
	if (!d.is_reg && lg == 2)
		x_store(&j->b, 3, d, HOST_S1);
	return ok;
}

/* ---- multiplication: SF, ZF, AF and PF stay ---- */

void jit_mul(struct jit *j, const struct emu_op *op, unsigned int lg)
{
	bool live = j->live[j->i + 1];

	jit_clobber(j);
	if (live)
		x_mov(&j->b, 2, HOST_S1, rm_reg(HOST_RAX));
	x_mov(&j->b, 3, HOST_RAX, rm_reg(HOST_R11));
	x_unary(&j->b, X_MUL, lg, jit_src(j, op->src));
	x_mov(&j->b, 3, HOST_R11, rm_reg(HOST_RAX));
	if (live) {
		x_mov(&j->b, 2, HOST_RAX, rm_reg(HOST_S1));
		jit_or_overflow(j);
	}
	j->fl = live ? FL_AX : FL_DEAD;
}

void jit_imul(struct jit *j, const struct emu_op *op, unsigned int lg, bool by_imm)
{
	unsigned int d = jit_host(op->dst);
	bool live = j->live[j->i + 1];

	jit_clobber(j);
	if (d == HOST_NONE)
		d = HOST_S1;
	if (by_imm) {
		x_op(&j->b, 0x69, lg, d, jit_src(j, op->src));
		x_word(&j->b, (uint64_t)op->imm, 4);
	} else {
		if (d == HOST_S1)
			x_mov(&j->b, lg, d, jit_rm(op->dst));
		x_op(&j->b, 0x0faf, lg, d, jit_src(j, op->src));
	}
	jit_put(j, op->dst, d);
	if (live)
		jit_or_overflow(j);
	j->fl = live ? FL_AX : FL_DEAD;
}
