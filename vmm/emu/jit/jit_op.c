// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code: the templates of moves, stack operations and miscellaneous ops; arithmetic is in
 * jit_alu.c. jit_flow.c calls jit_insn() for each instruction. A template must have exactly the
 * effect on registers, flags and memory that the op's handler in exec_*.h has. It may exit from
 * translated code only before it has changed anything.
 */
#include "vmm/emu/cpu/emit.h"
#include "vmm/emu/jit/jit.h"

#define IN(code, first, last) JIT_IN(code, EMU_OP_##first, EMU_OP_##last)

/* ---- moves ---- */

/* A guest register = @m, an operand of 1 << @lg bytes. */
static void jit_op_load(struct jit *j, unsigned int lg, unsigned int dst, struct rm m)
{
	struct rm d = jit_rm(jit_number(lg, dst));

	x_mov(&j->b, lg, d.is_reg ? d.base : HOST_S1, m);
	if (!d.is_reg)
		x_store(&j->b, lg == 2 ? 3 : lg, d, HOST_S1);
}

static void mov_imm(struct jit *j, unsigned int lg, unsigned int dst, int64_t imm)
{
	struct rm d = jit_rm(jit_number(lg, dst));

	if (lg < 2) {
		x_store_imm(&j->b, lg, d, imm);
		return;
	}
	x_mov_imm(&j->b, d.is_reg ? d.base : HOST_S1, lg == 2 ? (uint32_t)imm : (uint64_t)imm);
	if (!d.is_reg)
		x_store(&j->b, 3, d, HOST_S1);
}

/* Returns true if op @i takes EMU_T0 directly from memory. */
static bool takes_t0(const struct jit *j, unsigned int i)
{
	unsigned int c = i < j->nr && !j->blk->ops[i].len ? j->code[i] : EMU_OP_END;

	return IN(c, MUL32, MUL64) || IN(c, IMUL_RR32, IMUL_RRI64) || IN(c, CMOVCC32, CMOV64_RNS);
}

static bool jit_op_move(struct jit *j, const struct emu_op *op, unsigned int code)
{
	unsigned int i = code - EMU_OP_MOV_RR8, lg = i % 4;
	bool ok = true;
	struct rm m;

	switch (i / 4) {
	case 0: /* MOV_RR */
		if (jit_is_high(lg, op->dst) || jit_is_high(lg, op->src))
			return false;
		jit_op_load(j, lg, op->dst, jit_rm(jit_number(lg, op->src)));
		return true;
	case 1: /* MOV_RI */
		if (jit_is_high(lg, op->dst))
			return false;
		mov_imm(j, lg, op->dst, op->imm);
		return true;
	case 2: /* LDB */
	case 3: /* LDX */
		if (jit_is_high(lg, op->dst))
			return false;
		m = jit_access(j, jit_op_ea(j, op), 1u << lg, false, &ok);
		j->t0_known = lg >= 2 && op->dst == EMU_T0 && takes_t0(j, j->i + 1);
		if (j->t0_known)
			j->t0 = m;
		else
			jit_op_load(j, lg, op->dst, m);
		return ok;
	case 4: /* STB */
	case 5: /* STX */
		if (jit_is_high(lg, op->src))
			return false;
		m = jit_access(j, jit_op_ea(j, op), 1u << lg, true, &ok);
		x_store(&j->b, lg, m, jit_get(j, jit_number(lg, op->src), HOST_S1));
		return ok;
	case 6: /* STI */
		m = jit_access(j, jit_op_ea(j, op), 1u << lg, true, &ok);
		x_store_imm(&j->b, lg, m, op->imm);
		return ok;
	default: /* LDW, LDL: see jit_rmw() */
		return false;
	}
}

static bool extend(struct jit *j, const struct emu_op *op, unsigned int code)
{
	static const struct {
		uint16_t opcode;
		uint8_t from, to;
	} kinds[] = {{0x0fb6, 0, 2}, {0x0fb7, 1, 2}, {0x0fbe, 0, 2}, {0x0fbe, 0, 3},
		     {0x0fbf, 1, 2}, {0x0fbf, 1, 3}, {0x63, 2, 3}};
	unsigned int i = code - EMU_OP_EXR_Z8, k = i % 7, form = i / 7;
	struct rm d = jit_rm(op->dst), m;
	bool ok = true;

	if (form) {
		m = jit_access(j, jit_op_ea(j, op), 1u << kinds[k].from, false, &ok);
	} else if (jit_is_high(kinds[k].from, op->src)) { /* AH, CH, DH, BH */
		jit_clobber(j);
		x_mov(&j->b, 2, HOST_S1, jit_rm(op->src >> 3));
		x_shift_imm(&j->b, X_SHR, 2, rm_reg(HOST_S1), 8);
		m = rm_reg(HOST_S1);
	} else {
		m = jit_rm(jit_number(kinds[k].from, op->src));
	}
	x_ext(&j->b, kinds[k].opcode, kinds[k].to, d.is_reg ? d.base : HOST_S1, m, kinds[k].from);
	if (!d.is_reg)
		x_store(&j->b, 3, d, HOST_S1);
	return ok;
}

static bool jit_op_lea(struct jit *j, const struct emu_op *op, unsigned int code)
{
	struct rm d = jit_rm(op->dst);
	unsigned int dst = d.is_reg ? d.base : HOST_S1;
	struct jit_ea ea = jit_op_ea(j, op);

	if (code == EMU_OP_LEA64X && op->dst == EMU_TEA) {
		/* The next ops take the address from here, if all of them can. */
		bool all = true;

		for (unsigned int i = j->i + 1; i < j->nr && !j->blk->ops[i].len; i++)
			if (j->blk->ops[i].base == EMU_TEA &&
			    (j->blk->ops[i].idx != EMU_ZERO || j->blk->ops[i].disp))
				all = false;
		j->tea_known = all;
		j->tea = ea;
		if (all)
			return true;
	}
	if (code == EMU_OP_LEA16) {
		if (!jit_address(j, ea, 2, HOST_S1))
			return false;
		x_store(&j->b, 1, d, HOST_S1);
		return true;
	}
	if (!jit_address(j, ea, code == EMU_OP_LEA32 ? 2 : 3, dst))
		return false;
	if (!d.is_reg)
		x_store(&j->b, 3, d, HOST_S1);
	return true;
}

/* ---- the stack ---- */

static bool stack(struct jit *j, const struct emu_op *op, unsigned int code)
{
	const struct jit_ea push = {EMU_RSP, EMU_ZERO, 0, -8}, pop = {EMU_RSP, EMU_ZERO, 0, 0},
			    leave = {EMU_RBP, EMU_ZERO, 0, 0};
	bool ok = true;
	struct rm m;

	switch (code) {
	case EMU_OP_PUSH_R:
	case EMU_OP_PUSH_I:
		m = jit_access(j, push, 8, true, &ok);
		if (code == EMU_OP_PUSH_I)
			x_store_imm(&j->b, 3, m, op->imm);
		else
			x_store(&j->b, 3, m, jit_get(j, op->src, HOST_S1));
		x_lea(&j->b, 3, HOST_R12, rm_mem(HOST_R12, -8));
		break;
	case EMU_OP_POP_R:
		m = jit_access(j, pop, 8, false, &ok);
		x_mov(&j->b, 3, HOST_S1, m);
		x_lea(&j->b, 3, HOST_R12, rm_mem(HOST_R12, 8));
		jit_put(j, op->dst, HOST_S1);
		break;
	default: /* LEAVE */
		m = jit_access(j, leave, 8, false, &ok);
		x_mov(&j->b, 3, HOST_S1, m);
		x_lea(&j->b, 3, HOST_R12, rm_mem(HOST_RBP, 8));
		x_mov(&j->b, 3, HOST_RBP, rm_reg(HOST_S1));
	}
	return ok;
}

/* ---- conditions ---- */

static void cmov(struct jit *j, const struct emu_op *op, unsigned int lg)
{
	unsigned int cc = jit_cond(j, op->scale), d = jit_get(j, op->dst, HOST_S1);

	x_op(&j->b, 0x0f40 + cc, lg, d, jit_src(j, op->src));
	jit_put(j, op->dst, d);
}

/* ---- the rest ---- */

static bool misc(struct jit *j, const struct emu_op *op, unsigned int code)
{
	unsigned int a, b;

	switch (code) {
	case EMU_OP_NOP:
		return true;
	case EMU_OP_PUSH_R:
	case EMU_OP_PUSH_I:
	case EMU_OP_POP_R:
	case EMU_OP_LEAVE:
		return stack(j, op, code);
	case EMU_OP_MUL32:
	case EMU_OP_MUL64:
		jit_mul(j, op, 2 + code - EMU_OP_MUL32);
		return true;
	case EMU_OP_IMUL_RR32:
	case EMU_OP_IMUL_RR64:
		jit_imul(j, op, 2 + code - EMU_OP_IMUL_RR32, false);
		return true;
	case EMU_OP_IMUL_RRI32:
	case EMU_OP_IMUL_RRI64:
		jit_imul(j, op, 2 + code - EMU_OP_IMUL_RRI32, true);
		return true;
	case EMU_OP_BSWAP32:
	case EMU_OP_BSWAP64:
		a = jit_get(j, op->dst, HOST_S1);
		x_byte(&j->b, 0x40u | (code == EMU_OP_BSWAP64 ? 8 : 0) | a >> 3);
		x_byte(&j->b, 0x0f), x_byte(&j->b, 0xc8 | (a & 7));
		jit_put(j, op->dst, a);
		return true;
	case EMU_OP_CDQ:
	case EMU_OP_CQO:
		a = code == EMU_OP_CDQ ? 2 : 3;
		jit_clobber(j);
		x_mov(&j->b, a, HOST_RDX, rm_reg(HOST_R11));
		x_shift_imm(&j->b, X_SAR, a, rm_reg(HOST_RDX), (8u << a) - 1);
		return true;
	case EMU_OP_CWDE:
		x_ext(&j->b, 0x0fbf, 2, HOST_R11, rm_reg(HOST_R11), 1);
		return true;
	case EMU_OP_CDQE:
		x_ext(&j->b, 0x63, 3, HOST_R11, rm_reg(HOST_R11), 2);
		return true;
	case EMU_OP_XCHG32:
	case EMU_OP_XCHG64:
		a = code == EMU_OP_XCHG32 ? 2 : 3;
		x_mov(&j->b, a, HOST_S1, jit_rm(op->dst));
		x_mov(&j->b, a, HOST_S2, jit_rm(op->src));
		jit_put(j, op->dst, HOST_S2);
		jit_put(j, op->src, HOST_S1);
		return true;
	case EMU_OP_XADD32:
	case EMU_OP_XADD64:
		a = jit_host(op->dst);
		b = jit_host(op->src);
		if (a == HOST_NONE || b == HOST_NONE)
			return false;
		x_op(&j->b, 0x0fc1, 2 + code - EMU_OP_XADD32, b, rm_reg(a));
		jit_set(j, SHAPE_ALL, false);
		return true;
	case EMU_OP_HELPER:
		return jit_helper(j, op);
	default:
		return false;
	}
}

bool jit_op(struct jit *j)
{
	const struct emu_op *op = &j->blk->ops[j->i];
	unsigned int code = j->code[j->i];

	if (IN(code, ADD_RR8, TEST_MI64))
		return jit_alu_op(j, op, code);
	if (IN(code, MOV_RR8, LDL64))
		return jit_op_move(j, op, code);
	if (IN(code, EXR_Z8, EXX_S32_64))
		return extend(j, op, code);
	if (IN(code, NOT8, SAR_C64))
		return jit_unary_op(j, op, code);
	if (IN(code, LEA64B, LEA16))
		return jit_op_lea(j, op, code);
	if (code == EMU_OP_SETCC || IN(code, SET_B, SET_RNS)) {
		unsigned int cc;

		if (jit_is_high(0, op->dst))
			return false;
		cc = jit_cond(j, op->scale);
		x_setcc(&j->b, cc, jit_rm(op->dst >> 3));
		return true;
	}
	if (IN(code, CMOVCC16, CMOVCC64)) {
		if (code == EMU_OP_CMOVCC16)
			return false;
		cmov(j, op, 1 + code - EMU_OP_CMOVCC16);
		return true;
	}
	if (IN(code, CMOV32_B, CMOV64_RNS)) {
		cmov(j, op, code < EMU_OP_CMOV64_B ? 2 : 3);
		return true;
	}
	if (IN(code, JMP, JRCXZ) || IN(code, JCC, J_RNS))
		return jit_branch(j);
	return misc(j, op, code);
}

unsigned int jit_op_flow(const struct jit *j, unsigned int i)
{
	unsigned int code = j->code[i];

	if (IN(code, ADD_RR8, TEST_MI64)) {
		unsigned int x = code - EMU_OP_ADD_RR8, alu = x / 24, form = x % 24 / 4;

		return JIT_KILLS | (form >= JIT_RM ? JIT_LEAVES : 0) |
		       (alu == X_ADC || alu == X_SBB ? JIT_READS : 0);
	}
	if (IN(code, MOV_RR8, MOV_RI64) || IN(code, EXR_Z8, EXR_S32_64) ||
	    IN(code, LEA64B, LEA16) || IN(code, NOT8, NOT64) || code == EMU_OP_NOP ||
	    IN(code, IMUL_RR32, BSWAP64) || IN(code, CDQ, CDQE) || IN(code, XCHG32, XCHG64) ||
	    IN(code, MUL32, MUL64) || IN(code, SHL_C8, SAR_C64) || IN(code, INC8, DEC64))
		return 0; /* these overwrite some flags and read none that is needed */
	if (IN(code, NEG8, NEG64) || IN(code, SHL_I8, SAR_I64))
		return JIT_KILLS;
	if (code == EMU_OP_HELPER && j->blk->ops[i].fn == emu_help_bmi &&
	    j->blk->ops[i].idx != BMI_BEXTR)
		return j->blk->ops[i].idx <= BMI_BZHI ? JIT_KILLS : 0;
	return JIT_READS | JIT_LEAVES;
}

bool jit_insn(struct jit *j)
{
	const struct emu_op *ops = j->blk->ops;
	struct jit before = {.b = j->b,
			     .fl = j->fl,
			     .shape = j->shape,
			     .sub = j->sub,
			     .nr_exits = j->nr_exits,
			     .nr_misses = j->nr_misses,
			     .xmm = j->xmm,
			     .i = j->i};
	bool ok = true;

	j->start = j->i;
	j->tea_known = j->t0_known = j->aligned = false;
	do {
		if (IN(j->code[j->i], LDW8, LDL64))
			ok = jit_rmw(j);
		else
			ok = jit_op(j);
		j->i++;
	} while (ok && j->i < j->nr && !ops[j->i].len && j->code[j->i] != EMU_OP_END);
	if (!ok) {
		j->b = before.b;
		j->fl = before.fl;
		j->shape = before.shape;
		j->sub = before.sub;
		j->nr_exits = before.nr_exits;
		j->nr_misses = before.nr_misses;
		j->xmm = before.xmm;
		j->i = before.i;
	}
	return ok;
}
