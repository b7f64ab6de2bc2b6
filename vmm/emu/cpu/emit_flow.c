// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops, continued: stack, conditions, transfers of control, strings.
 * Compare-and-jump pairs are fused here.
 */
#include "vmm/emu/cpu/emit.h"

/* ---- stack ---- */

static struct emu_op *stack_op(struct emu_op *op)
{
	op->flags |= EMU_OPF_SS;
	return op;
}

bool emit_push(struct emit *e, unsigned int arg)
{
	bool wide = e->zi->operand_width != 16;
	struct emu_op *op;
	unsigned int src;

	if (emit_is_imm(e, 0)) {
		if (wide) {
			stack_op(emit_add(e, EMU_OP_PUSH_I))->imm = emit_imm(e, 0);
			return true;
		}
		op = emit_add(e, EMU_OP_MOV_RI64);
		op->dst = src = EMU_T0;
		op->imm = emit_imm(e, 0);
	} else if (emit_is_reg(e, 0) && e->zo[0].reg.value > ZYDIS_REGISTER_R15) {
		op = emit_helper(e, emu_help_from_seg, 3, 0); /* PUSH FS, PUSH GS */
		op->src = e->zo[0].reg.value - ZYDIS_REGISTER_ES;
		op->dst = src = EMU_T0;
	} else {
		src = emit_src(e, 0);
	}
	op = wide ? emit_add(e, EMU_OP_PUSH_R) : emit_helper(e, emu_help_push16, 1, 0);
	stack_op(op)->src = (uint8_t)src;
	return true;
}

bool emit_pop(struct emit *e, unsigned int arg)
{
	bool wide = e->zi->operand_width != 16;
	struct emit_mem m;
	struct emu_op *op;

	if (emit_is_mem(e, 0)) {
		/* An RSP-based destination is computed after the increment (SDM, POP). */
		emit_mem(e, 0, &m);
		if (e->zo[0].mem.base == ZYDIS_REGISTER_RSP ||
		    e->zo[0].mem.base == ZYDIS_REGISTER_ESP)
			*(m.base == EMU_TEA ? &e->c->ops[e->c->nr_ops - 1].disp : &m.disp) +=
				wide ? 8 : 2;
		op = emit_add(e, EMU_OP_LEA64X);
		emit_set_mem(op, &m);
		op->dst = EMU_TEA;
		stack_op(emit_helper(e, emu_help_popm, wide ? 3 : 1, m.ss));
		return true;
	}
	if (e->zo[0].reg.value > ZYDIS_REGISTER_R15) {
		if (!wide)
			return false;
		op = stack_op(emit_sysop(e, emu_sys_pop_seg));
		op->dst = e->zo[0].reg.value - ZYDIS_REGISTER_ES;
		return true;
	}
	op = wide ? emit_add(e, EMU_OP_POP_R) : emit_helper(e, emu_help_pop16, 1, 0);
	stack_op(op)->dst = (uint8_t)emit_reg(e, 0);
	return true;
}

bool emit_leave(struct emit *e, unsigned int arg)
{
	if (e->zi->operand_width == 16)
		return false;
	stack_op(emit_add(e, EMU_OP_LEAVE));
	return true;
}

bool emit_enter(struct emit *e, unsigned int arg)
{
	struct emu_op *op;

	if (e->zi->operand_width == 16 || (emit_imm(e, 1) & 31))
		return false; /* nested frames, which compilers do not emit */
	op = stack_op(emit_helper(e, emu_help_enter, 3, 0));
	op->imm = emit_imm(e, 0) & 0xffff;
	return true;
}

/* ---- conditions ---- */

/* Index in OPS_CC14 of condition @cc on a known state, or -1. */
static int known_cond(enum emu_fclass fc, unsigned int cc)
{
	static const int8_t sub[16] = {-1, -1, 0, 1, 2, 3, 4, 5, -1, -1, -1, -1, 6, 7, 8, 9};
	static const int8_t res[16] = {-1, -1, -1, -1, 10, 11, -1, -1,
				       12, 13, -1, -1, -1, -1, -1, -1};

	switch (fc) {
	case EMU_FC_SUB:
		return sub[cc];
	case EMU_FC_LOGIC:
		return cc == 8 || cc == 9 ? res[cc] : sub[cc];
	case EMU_FC_ADD:
		return cc == 2 || cc == 3 ? sub[cc] : res[cc];
	case EMU_FC_RES:
		return res[cc];
	default:
		return -1;
	}
}

/* Index in OPS_CC6 for a jump after TEST, or -1. */
static int test_cond(unsigned int cc)
{
	/* With b = 0, S is L, NS is GE, BE is E, A is NE. */
	static const int8_t idx[16] = {-1, -1, -1, -1, 0, 1, 0, 1, 2, 3, -1, -1, 2, 3, 4, 5};

	return idx[cc];
}

/* The fused opcode of @first followed by a jump on @cc, or 0. */
static unsigned int fused(unsigned int first, unsigned int cc)
{
	static const struct {
		uint16_t first, cmp;
	} cmps[] = {
		{EMU_OP_CMP_RR8, EMU_OP_CJ_RR8_B},   {EMU_OP_CMP_RR32, EMU_OP_CJ_RR32_B},
		{EMU_OP_CMP_RR64, EMU_OP_CJ_RR64_B}, {EMU_OP_CMP_RI8, EMU_OP_CJ_RI8_B},
		{EMU_OP_CMP_RI32, EMU_OP_CJ_RI32_B}, {EMU_OP_CMP_RI64, EMU_OP_CJ_RI64_B},
		{EMU_OP_CMP_RM32, EMU_OP_CJ_RX32_B}, {EMU_OP_CMP_RM64, EMU_OP_CJ_RX64_B},
		{EMU_OP_CMP_RX32, EMU_OP_CJ_RX32_B}, {EMU_OP_CMP_RX64, EMU_OP_CJ_RX64_B},
		{EMU_OP_CMP_MR32, EMU_OP_CJ_MR32_B}, {EMU_OP_CMP_MR64, EMU_OP_CJ_MR64_B},
		{EMU_OP_CMP_MI8, EMU_OP_CJ_MI8_B},   {EMU_OP_CMP_MI32, EMU_OP_CJ_MI32_B},
		{EMU_OP_CMP_MI64, EMU_OP_CJ_MI64_B},
	};
	static const struct {
		uint16_t first, test;
	} tests[] = {
		{EMU_OP_TEST_RR8, EMU_OP_TJ_RR8_E},   {EMU_OP_TEST_RR32, EMU_OP_TJ_RR32_E},
		{EMU_OP_TEST_RR64, EMU_OP_TJ_RR64_E}, {EMU_OP_TEST_RI8, EMU_OP_TJ_RI8_E},
		{EMU_OP_TEST_RI32, EMU_OP_TJ_RI32_E},
	};
	int k = known_cond(EMU_FC_SUB, cc);

	for (unsigned int i = 0; k >= 0 && i < sizeof(cmps) / sizeof(cmps[0]); i++)
		if (cmps[i].first == first)
			return cmps[i].cmp + (unsigned int)k;
	k = test_cond(cc);
	for (unsigned int i = 0; k >= 0 && i < sizeof(tests) / sizeof(tests[0]); i++)
		if (tests[i].first == first)
			return tests[i].test + (unsigned int)k;
	if (cc != 4 && cc != 5)
		return 0;
	switch (first) {
	case EMU_OP_ADD_RI32:
		return EMU_OP_ADDJ32_RE + (cc & 1);
	case EMU_OP_ADD_RI64:
		return EMU_OP_ADDJ64_RE + (cc & 1);
	case EMU_OP_SUB_RI32:
		return EMU_OP_SUBJ32_RE + (cc & 1);
	case EMU_OP_SUB_RI64:
		return EMU_OP_SUBJ64_RE + (cc & 1);
	case EMU_OP_DEC32:
		return EMU_OP_DECJ32_RE + (cc & 1);
	case EMU_OP_DEC64:
		return EMU_OP_DECJ64_RE + (cc & 1);
	}
	return 0;
}

bool emit_setcc(struct emit *e, unsigned int cc)
{
	int k = known_cond(e->c->fclass, cc);
	struct emit_mem m;
	struct emu_op *op;

	op = emit_add(e, k < 0 ? EMU_OP_SETCC : EMU_OP_SET_B + (unsigned int)k);
	op->scale = (uint8_t)cc;
	op->dst = (uint8_t)(emit_is_mem(e, 0) ? emit_t0(0) : emit_reg(e, 0));
	if (emit_is_mem(e, 0)) {
		emit_mem(e, 0, &m);
		op = emit_add(e, EMU_OP_STX8);
		emit_set_mem(op, &m);
		op->src = (uint8_t)emit_t0(0);
	}
	return true;
}

bool emit_cmov(struct emit *e, unsigned int cc)
{
	unsigned int lg = emit_lg(e, 0), src = emit_src(e, 1);
	int k = lg < 2 ? -1 : known_cond(e->c->fclass, cc);
	struct emu_op *op;

	op = emit_add(e, k < 0 ? EMU_OP_CMOVCC16 + lg - 1
			       : (lg == 2 ? EMU_OP_CMOV32_B : EMU_OP_CMOV64_B) + (unsigned int)k);
	op->scale = (uint8_t)cc;
	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)src;
	return true;
}

/* ---- transfers of control ---- */

/* Returns true if a branch is in the closed list. Far transfers are not. On AMD's CPUs an
 * operand-size prefix without REX.W makes the target of a near branch 16-bit, which is not in the
 * list. Intel's CPUs ignore the prefix. */
static bool near_only(const struct emit *e)
{
	bool narrow = (e->zi->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) && !e->zi->raw.rex.W &&
		      !e->c->intel;

	return e->zi->meta.branch_type != ZYDIS_BRANCH_TYPE_FAR && !narrow;
}

static void ends(struct emit *e, struct emu_op *op, unsigned int flags, uint32_t branch)
{
	e->c->ended = true;
	e->c->branch = branch;
	op->flags |= (uint8_t)flags;
	if (flags & EMU_OPF_TAKEN)
		e->c->target = e->next + (uint64_t)emit_imm(e, 0);
}

bool emit_jcc(struct emit *e, unsigned int cc)
{
	struct emu_code *c = e->c;
	int k = known_cond(c->fclass, cc);
	unsigned int pair = 0, prev = c->nr_ops - 1;
	struct emu_op *op;

	if (!near_only(e))
		return false;
	if (c->nr_ops && c->ops[prev].len)
		pair = fused(c->code[prev], cc);
	op = emit_add(e, k < 0 ? EMU_OP_JCC : EMU_OP_J_B + (unsigned int)k);
	op->scale = (uint8_t)cc;
	if (pair) {
		op->unfused = c->code[prev];
		c->code[prev] = (uint16_t)pair;
		c->ops[prev].flags |= EMU_OPF_FUSED;
	}
	ends(e, op, EMU_OPF_TAKEN | EMU_OPF_FALL, VPMU_LBR_JCC);
	return true;
}

bool emit_jmp(struct emit *e, unsigned int arg)
{
	struct emu_op *op;
	unsigned int src;

	if (!near_only(e))
		return false;
	if (emit_is_imm(e, 0)) {
		ends(e, emit_add(e, EMU_OP_JMP), EMU_OPF_TAKEN, VPMU_LBR_REL_JMP);
		return true;
	}
	src = emit_src(e, 0);
	op = emit_add(e, EMU_OP_JMP_R);
	op->src = (uint8_t)src;
	ends(e, op, 0, VPMU_LBR_IND_JMP);
	return true;
}

bool emit_call(struct emit *e, unsigned int arg)
{
	struct emu_op *op;
	unsigned int src;

	if (!near_only(e))
		return false;
	if (emit_is_imm(e, 0)) {
		op = emit_add(e, EMU_OP_CALL);
		ends(e, op, EMU_OPF_TAKEN, VPMU_LBR_REL_CALL);
	} else {
		src = emit_src(e, 0);
		op = emit_add(e, EMU_OP_CALL_R);
		op->src = (uint8_t)src;
		ends(e, op, 0, VPMU_LBR_IND_CALL);
	}
	stack_op(op)->imm = (int64_t)e->next;
	return true;
}

bool emit_ret(struct emit *e, unsigned int arg)
{
	bool imm = emit_is_imm(e, 0) && e->zi->operand_count_visible;
	struct emu_op *op;

	if (e->zi->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) {
		if (e->zi->operand_width != 64)
			return false;
		op = stack_op(emit_sysop(e, emu_sys_retf));
		op->imm = imm ? emit_imm(e, 0) & 0xffff : 0;
		return true;
	}
	if (!near_only(e))
		return false;
	op = stack_op(emit_add(e, imm ? EMU_OP_RETI : EMU_OP_RET));
	op->imm = imm ? emit_imm(e, 0) & 0xffff : 0;
	ends(e, op, 0, VPMU_LBR_RET);
	return true;
}

bool emit_loop(struct emit *e, unsigned int opcode)
{
	struct emu_op *op;

	if (!near_only(e))
		return false;
	op = emit_add(e, opcode);
	if (e->zi->address_width == 32)
		op->flags |= EMU_OPF_A32;
	ends(e, op, EMU_OPF_TAKEN | EMU_OPF_FALL, VPMU_LBR_JCC);
	return true;
}

/* ---- strings: @arg is kind << 2 | log2 of the element ---- */

bool emit_string(struct emit *e, unsigned int arg)
{
	ZydisInstructionAttributes a = e->zi->attributes;
	struct emu_op *op;

	if (e->zi->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
		return false; /* SSE's MOVSD and CMPSD have the same names */
	op = emit_helper(e, emu_help_string, arg & 3, arg >> 2);
	if (a & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE))
		op->flags |= EMU_OPF_REP;
	if (a & ZYDIS_ATTRIB_HAS_REPNE) /* all but CMPS and SCAS treat it as REP */
		op->flags |= arg >> 2 >= STR_CMPS ? EMU_OPF_REPNE : EMU_OPF_REP;
	if (e->zi->address_width == 32)
		op->flags |= EMU_OPF_A32;
	if (op->flags & (EMU_OPF_REP | EMU_OPF_REPNE)) {
		e->c->code[e->c->nr_ops - 1] = EMU_OP_STRING_REP;
		e->c->full = true;
	}
	op->src = a & ZYDIS_ATTRIB_HAS_SEGMENT_FS   ? EMU_FSBASE
		  : a & ZYDIS_ATTRIB_HAS_SEGMENT_GS ? EMU_GSBASE
						    : EMU_ZERO;
	return true;
}
