// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code: the templates of moves, arithmetic and stack operations. jit_flow.c calls
 * jit_insn() for one instruction after the other. A template must leave the host's registers, the
 * flags and memory exactly as the handler of the same op in exec_*.h leaves the vCPU's. It may
 * leave the translated code only before it has changed anything.
 *
 * A bitwise operation leaves the host's AF undefined, and the guest's is 0. So its result is
 * compared with 0, which defines all six flags as they must be.
 */
#include "vmm/soft/jit.h"

#define IN(code, first, last) JIT_IN(code, SOFT_OP_##first, SOFT_OP_##last)

enum { RR, RI, RM, RX, MR, MI }; /* forms of OPS_ALU_FORMS */
#define TEST 8			 /* its number among them */

static bool is_high(unsigned int lg, unsigned int reg)
{
	return lg == 0 && (reg & 7);
}

static unsigned int number(unsigned int lg, unsigned int reg)
{
	return lg ? reg : reg >> 3;
}

static bool is_logic(unsigned int alu)
{
	return alu == X_OR || alu == X_AND || alu == X_XOR || alu == TEST;
}

/* ---- two operands ---- */

/* @dst, a host register, becomes @dst op @s. */
static void apply(struct jit *j, unsigned int alu, unsigned int lg, unsigned int dst,
		  struct jit_source s)
{
	if (s.is_imm)
		x_alu_imm(&j->b, alu, lg, rm_reg(dst), s.imm);
	else
		x_alu_load(&j->b, alu, lg, dst, s.m);
}

/* TEST: the host's would leave AF undefined. */
static void test(struct jit *j, unsigned int lg, struct rm a, struct jit_source s)
{
	if (!s.is_imm && s.m.is_reg && a.is_reg && s.m.base == a.base) {
		x_alu_imm(&j->b, X_CMP, lg, a, 0);
		return;
	}
	x_mov(&j->b, a.is_reg && lg < 2 ? 2 : lg, HOST_S1, a);
	apply(j, X_AND, lg, HOST_S1, s);
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
		apply(j, alu, lg, d.base, s);
	} else if (lg == 2 || !s.is_imm) { /* 32 bits: the upper half becomes 0 */
		x_mov(&j->b, lg, HOST_S1, d);
		apply(j, alu, lg, HOST_S1, s);
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

static bool alu_op(struct jit *j, const struct soft_op *op, unsigned int code)
{
	unsigned int i = code - SOFT_OP_ADD_RR8, alu = i / 24, form = i % 24 / 4, lg = i % 4;
	bool dst_reg = form <= RX, src_reg = form == RR || form == MR, ok = true;
	struct jit_source s = {.is_imm = form == RI || form == MI, .imm = op->imm};
	struct rm m = {0};

	if ((dst_reg && is_high(lg, op->dst)) || (src_reg && is_high(lg, op->src)))
		return false;
	if (form >= RM)
		m = jit_access(j, jit_op_ea(j, op), 1u << lg, form >= MR && alu < X_CMP, &ok);
	if (src_reg)
		s.m = jit_rm(number(lg, op->src));
	else
		s.m = m;
	if (dst_reg)
		alu_reg(j, alu, lg, number(lg, op->dst), s);
	else
		jit_alu_mem(j, alu, lg, m, s);
	return ok;
}

/* ---- moves ---- */

/* A guest register = @m, an operand of 1 << @lg bytes. */
static void load(struct jit *j, unsigned int lg, unsigned int dst, struct rm m)
{
	struct rm d = jit_rm(number(lg, dst));

	x_mov(&j->b, lg, d.is_reg ? d.base : HOST_S1, m);
	if (!d.is_reg)
		x_store(&j->b, lg == 2 ? 3 : lg, d, HOST_S1);
}

static void mov_imm(struct jit *j, unsigned int lg, unsigned int dst, int64_t imm)
{
	struct rm d = jit_rm(number(lg, dst));

	if (lg < 2) {
		x_store_imm(&j->b, lg, d, imm);
		return;
	}
	x_mov_imm(&j->b, d.is_reg ? d.base : HOST_S1, lg == 2 ? (uint32_t)imm : (uint64_t)imm);
	if (!d.is_reg)
		x_store(&j->b, 3, d, HOST_S1);
}

/* Whether op @i takes SOFT_T0 directly from memory. */
static bool takes_t0(const struct jit *j, unsigned int i)
{
	unsigned int c = i < j->nr && !j->blk->ops[i].len ? j->code[i] : SOFT_OP_END;

	return IN(c, MUL32, MUL64) || IN(c, IMUL_RR32, IMUL_RRI64) || IN(c, CMOVCC32, CMOV64_RNS);
}

static bool move(struct jit *j, const struct soft_op *op, unsigned int code)
{
	unsigned int i = code - SOFT_OP_MOV_RR8, lg = i % 4;
	bool ok = true;
	struct rm m;

	switch (i / 4) {
	case 0: /* MOV_RR */
		if (is_high(lg, op->dst) || is_high(lg, op->src))
			return false;
		load(j, lg, op->dst, jit_rm(number(lg, op->src)));
		return true;
	case 1: /* MOV_RI */
		if (is_high(lg, op->dst))
			return false;
		mov_imm(j, lg, op->dst, op->imm);
		return true;
	case 2: /* LDB */
	case 3: /* LDX */
		if (is_high(lg, op->dst))
			return false;
		m = jit_access(j, jit_op_ea(j, op), 1u << lg, false, &ok);
		j->t0_known = lg >= 2 && op->dst == SOFT_T0 && takes_t0(j, j->i + 1);
		if (j->t0_known)
			j->t0 = m;
		else
			load(j, lg, op->dst, m);
		return ok;
	case 4: /* STB */
	case 5: /* STX */
		if (is_high(lg, op->src))
			return false;
		m = jit_access(j, jit_op_ea(j, op), 1u << lg, true, &ok);
		x_store(&j->b, lg, m, jit_get(j, number(lg, op->src), HOST_S1));
		return ok;
	case 6: /* STI */
		m = jit_access(j, jit_op_ea(j, op), 1u << lg, true, &ok);
		x_store_imm(&j->b, lg, m, op->imm);
		return ok;
	default: /* LDW, LDL: see jit_rmw() */
		return false;
	}
}

static bool extend(struct jit *j, const struct soft_op *op, unsigned int code)
{
	static const struct {
		uint16_t opcode;
		uint8_t from, to;
	} kinds[] = {{0x0fb6, 0, 2}, {0x0fb7, 1, 2}, {0x0fbe, 0, 2}, {0x0fbe, 0, 3},
		     {0x0fbf, 1, 2}, {0x0fbf, 1, 3}, {0x63, 2, 3}};
	unsigned int i = code - SOFT_OP_EXR_Z8, k = i % 7, form = i / 7;
	struct rm d = jit_rm(op->dst), m;
	bool ok = true;

	if (form) {
		m = jit_access(j, jit_op_ea(j, op), 1u << kinds[k].from, false, &ok);
	} else if (is_high(kinds[k].from, op->src)) { /* AH, CH, DH, BH */
		jit_clobber(j);
		x_mov(&j->b, 2, HOST_S1, jit_rm(op->src >> 3));
		x_shift_imm(&j->b, X_SHR, 2, rm_reg(HOST_S1), 8);
		m = rm_reg(HOST_S1);
	} else {
		m = jit_rm(number(kinds[k].from, op->src));
	}
	x_ext(&j->b, kinds[k].opcode, kinds[k].to, d.is_reg ? d.base : HOST_S1, m, kinds[k].from);
	if (!d.is_reg)
		x_store(&j->b, 3, d, HOST_S1);
	return ok;
}

static bool lea(struct jit *j, const struct soft_op *op, unsigned int code)
{
	struct rm d = jit_rm(op->dst);
	unsigned int dst = d.is_reg ? d.base : HOST_S1;
	struct jit_ea ea = jit_op_ea(j, op);

	if (code == SOFT_OP_LEA64X && op->dst == SOFT_TEA) {
		/* The next ops take the address from here, if all of them can. */
		bool all = true;

		for (unsigned int i = j->i + 1; i < j->nr && !j->blk->ops[i].len; i++)
			if (j->blk->ops[i].base == SOFT_TEA &&
			    (j->blk->ops[i].idx != SOFT_ZERO || j->blk->ops[i].disp))
				all = false;
		j->tea_known = all;
		j->tea = ea;
		if (all)
			return true;
	}
	if (code == SOFT_OP_LEA16) {
		if (!jit_address(j, ea, 2, HOST_S1))
			return false;
		x_store(&j->b, 1, d, HOST_S1);
		return true;
	}
	if (!jit_address(j, ea, code == SOFT_OP_LEA32 ? 2 : 3, dst))
		return false;
	if (!d.is_reg)
		x_store(&j->b, 3, d, HOST_S1);
	return true;
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

static bool unary(struct jit *j, const struct soft_op *op, unsigned int code)
{
	unsigned int i = code - SOFT_OP_NOT8, what = i / 4, lg = i % 4;
	unsigned int guest = number(lg, op->dst);
	struct rm d = jit_rm(guest), in = d;
	bool ok;

	if (is_high(lg, op->dst))
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

/* ---- the stack ---- */

static bool stack(struct jit *j, const struct soft_op *op, unsigned int code)
{
	const struct jit_ea push = {SOFT_RSP, SOFT_ZERO, 0, -8}, pop = {SOFT_RSP, SOFT_ZERO, 0, 0},
			    leave = {SOFT_RBP, SOFT_ZERO, 0, 0};
	bool ok = true;
	struct rm m;

	switch (code) {
	case SOFT_OP_PUSH_R:
	case SOFT_OP_PUSH_I:
		m = jit_access(j, push, 8, true, &ok);
		if (code == SOFT_OP_PUSH_I)
			x_store_imm(&j->b, 3, m, op->imm);
		else
			x_store(&j->b, 3, m, jit_get(j, op->src, HOST_S1));
		x_lea(&j->b, 3, HOST_R12, rm_mem(HOST_R12, -8));
		break;
	case SOFT_OP_POP_R:
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

/* ---- multiplication: SF, ZF, AF and PF stay ---- */

static void mul(struct jit *j, const struct soft_op *op, unsigned int lg)
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

static void imul(struct jit *j, const struct soft_op *op, unsigned int lg, bool by_imm)
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

/* ---- conditions ---- */

static void cmov(struct jit *j, const struct soft_op *op, unsigned int lg)
{
	unsigned int cc = jit_cond(j, op->scale), d = jit_get(j, op->dst, HOST_S1);

	x_op(&j->b, 0x0f40 + cc, lg, d, jit_src(j, op->src));
	jit_put(j, op->dst, d);
}

/* ---- the rest ---- */

static bool misc(struct jit *j, const struct soft_op *op, unsigned int code)
{
	unsigned int a, b;

	switch (code) {
	case SOFT_OP_NOP:
		return true;
	case SOFT_OP_PUSH_R:
	case SOFT_OP_PUSH_I:
	case SOFT_OP_POP_R:
	case SOFT_OP_LEAVE:
		return stack(j, op, code);
	case SOFT_OP_MUL32:
	case SOFT_OP_MUL64:
		mul(j, op, 2 + code - SOFT_OP_MUL32);
		return true;
	case SOFT_OP_IMUL_RR32:
	case SOFT_OP_IMUL_RR64:
		imul(j, op, 2 + code - SOFT_OP_IMUL_RR32, false);
		return true;
	case SOFT_OP_IMUL_RRI32:
	case SOFT_OP_IMUL_RRI64:
		imul(j, op, 2 + code - SOFT_OP_IMUL_RRI32, true);
		return true;
	case SOFT_OP_BSWAP32:
	case SOFT_OP_BSWAP64:
		a = jit_get(j, op->dst, HOST_S1);
		x_byte(&j->b, 0x40u | (code == SOFT_OP_BSWAP64 ? 8 : 0) | a >> 3);
		x_byte(&j->b, 0x0f), x_byte(&j->b, 0xc8 | (a & 7));
		jit_put(j, op->dst, a);
		return true;
	case SOFT_OP_CDQ:
	case SOFT_OP_CQO:
		a = code == SOFT_OP_CDQ ? 2 : 3;
		jit_clobber(j);
		x_mov(&j->b, a, HOST_RDX, rm_reg(HOST_R11));
		x_shift_imm(&j->b, X_SAR, a, rm_reg(HOST_RDX), (8u << a) - 1);
		return true;
	case SOFT_OP_CWDE:
		x_ext(&j->b, 0x0fbf, 2, HOST_R11, rm_reg(HOST_R11), 1);
		return true;
	case SOFT_OP_CDQE:
		x_ext(&j->b, 0x63, 3, HOST_R11, rm_reg(HOST_R11), 2);
		return true;
	case SOFT_OP_XCHG32:
	case SOFT_OP_XCHG64:
		a = code == SOFT_OP_XCHG32 ? 2 : 3;
		x_mov(&j->b, a, HOST_S1, jit_rm(op->dst));
		x_mov(&j->b, a, HOST_S2, jit_rm(op->src));
		jit_put(j, op->dst, HOST_S2);
		jit_put(j, op->src, HOST_S1);
		return true;
	case SOFT_OP_XADD32:
	case SOFT_OP_XADD64:
		a = jit_host(op->dst);
		b = jit_host(op->src);
		if (a == HOST_NONE || b == HOST_NONE)
			return false;
		x_op(&j->b, 0x0fc1, 2 + code - SOFT_OP_XADD32, b, rm_reg(a));
		jit_set(j, SHAPE_ALL, false);
		return true;
	case SOFT_OP_HELPER:
		return jit_helper(j, op);
	default:
		return false;
	}
}

bool jit_op(struct jit *j)
{
	const struct soft_op *op = &j->blk->ops[j->i];
	unsigned int code = j->code[j->i];

	if (IN(code, ADD_RR8, TEST_MI64))
		return alu_op(j, op, code);
	if (IN(code, MOV_RR8, LDL64))
		return move(j, op, code);
	if (IN(code, EXR_Z8, EXX_S32_64))
		return extend(j, op, code);
	if (IN(code, NOT8, SAR_C64))
		return unary(j, op, code);
	if (IN(code, LEA64B, LEA16))
		return lea(j, op, code);
	if (code == SOFT_OP_SETCC || IN(code, SET_B, SET_RNS)) {
		unsigned int cc;

		if (is_high(0, op->dst))
			return false;
		cc = jit_cond(j, op->scale);
		x_setcc(&j->b, cc, jit_rm(op->dst >> 3));
		return true;
	}
	if (IN(code, CMOVCC16, CMOVCC64)) {
		if (code == SOFT_OP_CMOVCC16)
			return false;
		cmov(j, op, 1 + code - SOFT_OP_CMOVCC16);
		return true;
	}
	if (IN(code, CMOV32_B, CMOV64_RNS)) {
		cmov(j, op, code < SOFT_OP_CMOV64_B ? 2 : 3);
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
		unsigned int x = code - SOFT_OP_ADD_RR8, alu = x / 24, form = x % 24 / 4;

		return JIT_KILLS | (form >= RM ? JIT_LEAVES : 0) |
		       (alu == X_ADC || alu == X_SBB ? JIT_READS : 0);
	}
	if (IN(code, MOV_RR8, MOV_RI64) || IN(code, EXR_Z8, EXR_S32_64) ||
	    IN(code, LEA64B, LEA16) || IN(code, NOT8, NOT64) || code == SOFT_OP_NOP ||
	    IN(code, IMUL_RR32, BSWAP64) || IN(code, CDQ, CDQE) || IN(code, XCHG32, XCHG64) ||
	    IN(code, MUL32, MUL64) || IN(code, SHL_C8, SAR_C64) || IN(code, INC8, DEC64))
		return 0; /* these overwrite some flags at most, and read none that is not needed */
	if (IN(code, NEG8, NEG64) || IN(code, SHL_I8, SAR_I64))
		return JIT_KILLS;
	return JIT_READS | JIT_LEAVES;
}

bool jit_insn(struct jit *j)
{
	const struct soft_op *ops = j->blk->ops;
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
	} while (ok && j->i < j->nr && !ops[j->i].len && j->code[j->i] != SOFT_OP_END);
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
