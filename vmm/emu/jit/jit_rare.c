// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code: the templates of rarer instructions, which the interpreter splits into ops or
 * does in helpers (arith.c). The rules are those of jit_op.c. No emitted division may raise the
 * host's #DE: its operands are checked in registers, where no other vCPU can change them.
 */
#include "vmm/emu/cpu/emit.h"
#include "vmm/emu/jit/jit.h"

#define IN(code, first, last) JIT_IN(code, EMU_OP_##first, EMU_OP_##last)

/* ---- read-modify-write ---- */

static bool jit_rare_modify(struct jit *j, const struct emu_op *op, unsigned int code,
			    unsigned int lg, struct rm m)
{
	unsigned int src = op->src;

	if (IN(code, ADD_RR8, TEST_MI64)) {
		unsigned int x = code - EMU_OP_ADD_RR8, form = x % 24 / 4;
		struct jit_source s = {.is_imm = form == 1, .imm = op->imm};

		if (form > 1 || (!s.is_imm && !lg && (src & 7)))
			return false;
		s.m = jit_rm(lg ? src : src >> 3);
		jit_alu_mem(j, x / 24, lg, m, s);
		return true;
	}
	if (IN(code, NOT8, DEC64))
		return jit_unary(j, (code - EMU_OP_NOT8) / 4, lg, m);
	if (IN(code, SHL_I8, SAR_I64))
		return jit_shift(j, (code - EMU_OP_SHL_I8) / 4, lg, m, (unsigned int)op->imm);
	if (IN(code, XADD32, XADD64)) {
		struct rm r = jit_rm(src);
		unsigned int reg = jit_get(j, src, HOST_S1);

		x_op(&j->b, 0x0fc1, lg, reg, m);
		if (!r.is_reg)
			x_store(&j->b, 3, r, reg);
		jit_set(j, SHAPE_ALL, false);
		return true;
	}
	if (IN(code, CMPXCHG32, CMPXCHG64)) {
		/* The operand is stored in any case. A 32-bit RAX that is equal keeps its upper
		 * half. RAX may be a part of the address. */
		x_lea(&j->b, 3, HOST_S2, m);
		m = rm_mem(HOST_S2, 0);
		x_mov(&j->b, lg, HOST_S1, m);
		x_alu(&j->b, X_CMP, lg, rm_reg(HOST_R11), HOST_S1);
		x_op(&j->b, 0x0f40 + CC_NE, 3, HOST_R11, rm_reg(HOST_S1));
		x_op(&j->b, 0x0f40 + CC_E, 3, HOST_S1, jit_rm(src));
		x_store(&j->b, lg, m, HOST_S1);
		jit_set(j, SHAPE_ALL, true);
		return true;
	}
	return false;
}

bool jit_rmw(struct jit *j)
{
	const struct emu_op *ops = j->blk->ops, *mid, *end;
	unsigned int i = j->i, lg = (j->code[i] - EMU_OP_LDW8) % 4, t0 = emit_t0(lg);
	struct jit_ea ea = jit_op_ea(j, &ops[i]);
	bool ok = true;
	struct rm m;

	if (i + 2 >= j->nr || ops[i + 1].len || ops[i + 2].len || ops[i].dst != t0)
		return false;
	mid = &ops[i + 1];
	end = &ops[i + 2];
	j->i += 2;
	if (IN(j->code[i + 1], STB8, STX64)) { /* XCHG */
		unsigned int reg = lg ? mid->src : mid->src >> 3;

		if (j->code[i + 2] != EMU_OP_MOV_RR8 + lg || end->src != t0 ||
		    end->dst != mid->src || (!lg && (mid->src & 7)))
			return false;
		m = jit_access(j, ea, 1u << lg, true, &ok);
		x_mov(&j->b, lg, HOST_S1, m);
		if (reg < EMU_R11) {
			x_store(&j->b, lg, m, jit_host(reg));
			x_mov(&j->b, lg, jit_host(reg), rm_reg(HOST_S1));
			return ok;
		}
		x_store(&j->b, 3, rm_mem(HOST_RSP, FRAME_ADDR), HOST_S1);
		x_lea(&j->b, 3, HOST_S2, m);
		x_mov(&j->b, 3, HOST_S1, jit_rm(reg));
		x_store(&j->b, lg, rm_mem(HOST_S2, 0), HOST_S1);
		x_mov(&j->b, 3, HOST_S1, rm_mem(HOST_RSP, FRAME_ADDR));
		x_store(&j->b, lg == 2 ? 3 : lg, jit_rm(reg), HOST_S1);
		return ok;
	}
	if (!IN(j->code[i + 2], STB8, STX64) || end->src != t0 ||
	    (mid->dst != t0 && j->code[i + 1] != EMU_OP_HELPER))
		return false;
	m = jit_access(j, ea, 1u << lg, true, &ok);
	return jit_rare_modify(j, mid, j->code[i + 1], lg, m) && ok;
}

/* ---- division: CF and OF unchanged, AF = 1, SF = ZF = PF = 0 ---- */

static void divide(struct jit *j, unsigned int what, unsigned int lg)
{
	bool live = j->live[j->i + 1];

	if (live)
		x_mov(&j->b, 2, HOST_S1, rm_reg(HOST_RAX));
	x_mov(&j->b, 3, HOST_RAX, rm_reg(HOST_R11));
	x_unary(&j->b, what, lg, rm_reg(HOST_S2));
	x_mov(&j->b, 3, HOST_R11, rm_reg(HOST_RAX));
	if (live) {
		x_mov(&j->b, 2, HOST_RAX, rm_reg(HOST_S1));
		x_ah(&j->b, X_AND, 0x01);
		x_ah(&j->b, X_OR, 0x10);
	}
	j->fl = live ? FL_AX : FL_DEAD;
}

static bool divide_op(struct jit *j, const struct emu_op *op, unsigned int what)
{
	unsigned int lg = op->base;

	if (lg < 2)
		return false;
	jit_clobber(j);
	x_mov(&j->b, lg, HOST_S2, jit_rm(op->src));
	if (what == X_DIV) {
		/* The quotient fits if the upper half of the dividend is less than the divisor. */
		x_alu(&j->b, X_CMP, lg, rm_reg(HOST_RDX), HOST_S2);
		jit_leave_at(j, x_jcc(&j->b, CC_AE));
	} else {
		/* If the dividend is one half, sign-extended, only 0 and -1 are bad divisors. */
		x_lea(&j->b, lg, HOST_S1, rm_mem(HOST_S2, 1));
		x_alu_imm(&j->b, X_CMP, lg, rm_reg(HOST_S1), 1);
		jit_leave_at(j, x_jcc(&j->b, CC_BE));
		x_mov(&j->b, lg, HOST_S1, rm_reg(HOST_R11));
		x_shift_imm(&j->b, X_SAR, lg, rm_reg(HOST_S1), (8u << lg) - 1);
		x_alu(&j->b, X_CMP, lg, rm_reg(HOST_RDX), HOST_S1);
		jit_leave_at(j, x_jcc(&j->b, CC_NE));
	}
	divide(j, what, lg);
	return true;
}

/* ---- ROL, ROR: only CF and OF change; OF = CF ^ the top bit, or the one below it ---- */

static bool rotate_op(struct jit *j, const struct emu_op *op)
{
	unsigned int lg = op->base, count = (unsigned int)op->imm & (lg == 3 ? 63 : 31), d;
	bool live = j->live[j->i + 1], left = op->idx == ROT_ROL;

	if (lg < 2 || op->idx > ROT_ROR || op->src != EMIT_IMM || !count)
		return false;
	jit_clobber(j);
	d = jit_get(j, op->dst, HOST_S1);
	x_shift_imm(&j->b, left ? X_ROL : X_ROR, lg, rm_reg(d), count);
	if (live)
		x_setcc(&j->b, CC_B, rm_reg(HOST_S2));
	jit_put(j, op->dst, d);
	if (live) {
		x_op(&j->b, 0x0fba, lg, 4, rm_reg(d)); /* bt */
		x_byte(&j->b, (8u << lg) - (left ? 1 : 2));
		x_setcc(&j->b, CC_B, rm_reg(HOST_RAX));
		x_alu(&j->b, X_XOR, 0, rm_reg(HOST_RAX), HOST_S2);
		jit_or_carry(j);
	}
	j->fl = live ? FL_AX : FL_DEAD;
	return true;
}

/* ---- BT, BTS, BTR, BTC of registers: only CF changes ---- */

static bool bt_op(struct jit *j, const struct emu_op *op)
{
	unsigned int lg = op->base, d;
	bool live = j->live[j->i + 1];

	if (lg < 2)
		return false;
	jit_clobber(j);
	d = jit_get(j, op->dst, HOST_S1);
	if (op->src == EMIT_IMM) {
		x_op(&j->b, 0x0fba, lg, 4u + op->idx, rm_reg(d));
		x_byte(&j->b, (unsigned int)op->imm & ((8u << lg) - 1));
	} else {
		x_op(&j->b, 0x0fa3 + 8u * op->idx, lg, jit_get(j, op->src, HOST_S2), rm_reg(d));
	}
	if (op->idx)
		jit_put(j, op->dst, d);
	if (live) {
		x_setcc(&j->b, CC_B, rm_reg(HOST_S2));
		jit_or_carry(j);
	}
	j->fl = live ? FL_AX : FL_DEAD;
	return true;
}

/* ---- scans ---- */

static bool scan_op(struct jit *j, const struct emu_op *op)
{
	unsigned int lg = op->base;
	bool live = j->live[j->i + 1];
	uint8_t *zero, *end;

	if (lg < 2 || op->idx == SCAN_LZCNT)
		return false;
	if (op->idx == SCAN_POPCNT) {
		unsigned int d = jit_host(op->dst);

		if (!jit_common.popcnt)
			return false;
		if (d == HOST_NONE)
			d = HOST_S1;
		x_byte(&j->b, 0xf3);
		x_op(&j->b, 0x0fb8, lg, d, jit_rm(op->src));
		jit_put(j, op->dst, d);
		jit_set(j, SHAPE_ALL, false); /* ZF is defined, the others are 0 */
		return true;
	}
	jit_clobber(j);
	x_mov(&j->b, lg, HOST_S2, jit_rm(op->src));
	x_alu_imm(&j->b, X_CMP, lg, rm_reg(HOST_S2), 0);
	zero = x_jcc(&j->b, CC_E);
	x_op(&j->b, op->idx == SCAN_BSR ? 0x0fbd : 0x0fbc, lg, HOST_S1, rm_reg(HOST_S2));
	x_mov(&j->b, 2, HOST_S1, rm_reg(HOST_S1));
	jit_put(j, op->dst, HOST_S1);
	if (live) {
		x_alu_imm(&j->b, X_CMP, 2, rm_reg(HOST_S1), 0);
		x_lahf(&j->b);
		if (op->idx == SCAN_TZCNT) {
			x_ah(&j->b, X_AND, 0x40); /* OF is unchanged */
		} else {
			x_ah(&j->b, X_AND, 0x04);
			x_store_imm(&j->b, 0, rm_reg(HOST_RAX), 0);
		}
	}
	end = x_jmp(&j->b);
	x_link(&j->b, zero, j->b.at);
	if (op->idx == SCAN_TZCNT) {
		x_mov_imm(&j->b, HOST_S1, 8u << lg);
		jit_put(j, op->dst, HOST_S1);
		if (live)
			x_byte(&j->b, 0xb4), x_byte(&j->b, 0x01); /* mov ah: CF */
	} else if (live) { /* the destination keeps all of its bits */
		x_mov_imm(&j->b, HOST_RAX, 0x4400);
	}
	x_link(&j->b, end, j->b.at);
	j->fl = live ? FL_AX : FL_DEAD;
	j->sub = false;
	return true;
}

/* ---- BMI1, BMI2 ---- */

static bool bmi_op(struct jit *j, const struct emu_op *op)
{
	static const struct {
		uint8_t prefix, opcode;
	} code[] = {
		[BMI_ANDN] = {SIMD_NP, 0xf2}, [BMI_BEXTR] = {SIMD_NP, 0xf7},
		[BMI_BLSI] = {SIMD_NP, 0xf3}, [BMI_BLSMSK] = {SIMD_NP, 0xf3},
		[BMI_BLSR] = {SIMD_NP, 0xf3}, [BMI_BZHI] = {SIMD_NP, 0xf5},
		[BMI_MULX] = {SIMD_F2, 0xf6}, [BMI_PDEP] = {SIMD_F2, 0xf5},
		[BMI_PEXT] = {SIMD_F3, 0xf5}, [BMI_RORX] = {SIMD_F2, 0xf0},
		[BMI_SARX] = {SIMD_F3, 0xf7}, [BMI_SHLX] = {SIMD_66, 0xf7},
		[BMI_SHRX] = {SIMD_F2, 0xf7},
	};
	unsigned int kind = op->idx, lg = op->base, d = jit_host(op->dst), reg, vvvv;
	bool live = kind <= BMI_BZHI && j->live[j->i + 1];

	if (live && kind == BMI_BEXTR)
		return false;
	if (kind <= BMI_BZHI)
		jit_clobber(j);
	if (d == HOST_NONE)
		d = HOST_S1;
	reg = d;
	vvvv = 0;
	if (BMI_IS_BLS(kind)) {
		vvvv = d;
		reg = kind == BMI_BLSR ? 1 : kind == BMI_BLSMSK ? 2 : 3;
	} else if (kind == BMI_MULX) { /* the lower half is in the register of VEX.vvvv */
		vvvv = jit_host(op->scale);
		if (vvvv == HOST_NONE)
			vvvv = HOST_S2;
	} else if (kind != BMI_RORX) {
		vvvv = jit_get(j, op->scale, HOST_S2);
	}
	x_vex(&j->b, code[kind].prefix,
	      (kind == BMI_RORX ? 0x0f3a00u : 0x0f3800u) | code[kind].opcode, lg, reg, vvvv,
	      jit_src(j, op->src));
	if (kind == BMI_RORX)
		x_byte(&j->b, (unsigned int)op->imm);
	if (kind == BMI_MULX)
		jit_put(j, op->scale, vvvv);
	if (live)
		x_setcc(&j->b, CC_B, rm_reg(HOST_S2));
	jit_put(j, op->dst, d);
	if (kind > BMI_BZHI)
		return true;
	if (live) { /* ZF, SF and PF are the result's, AF and OF 0 */
		x_alu_imm(&j->b, X_CMP, lg, rm_reg(d), 0);
		x_lahf(&j->b);
		x_store_imm(&j->b, 0, rm_reg(HOST_RAX), 0);
		jit_or_carry(j);
	}
	j->fl = live ? FL_AX : FL_DEAD;
	j->sub = false;
	return true;
}

bool jit_helper(struct jit *j, const struct emu_op *op)
{
	if (op->fn == emu_help_div)
		return divide_op(j, op, X_DIV);
	if (op->fn == emu_help_idiv)
		return divide_op(j, op, X_IDIV);
	if (op->fn == emu_help_rotate)
		return rotate_op(j, op);
	if (op->fn == emu_help_bt)
		return bt_op(j, op);
	if (op->fn == emu_help_scan)
		return scan_op(j, op);
	if (op->fn == emu_help_bmi)
		return bmi_op(j, op);
	return jit_simd_level(op) != JIT_SSE_NONE && jit_simd(j, op);
}
