// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops: operands, and the integer instructions. An instruction gets a
 * handler of its own where that pays; the rest is decomposed (load to SOFT_T0, operate, store) or
 * calls a helper. A decomposed instruction checks its store first (LDW), so that a fault finds
 * nothing changed.
 */
#include "vmm/soft/emit.h"

struct soft_op *emit_add(struct emit *e, unsigned int opcode)
{
	struct soft_code *c = e->c;
	struct soft_op *op = &c->ops[c->nr_ops];

	c->code[c->nr_ops++] = (uint16_t)opcode;
	*op = (struct soft_op){.base = SOFT_ZERO, .idx = SOFT_ZERO};
	return op;
}

struct soft_op *emit_helper(struct emit *e, int (*fn)(struct soft_vcpu *, const struct soft_op *),
			    unsigned int lg, unsigned int kind)
{
	struct soft_op *op = emit_add(e, SOFT_OP_HELPER);

	op->fn = fn;
	op->base = (uint8_t)lg;
	op->idx = (uint8_t)kind;
	return op;
}

struct soft_op *emit_sysop(struct emit *e, int (*fn)(struct soft_vcpu *, const struct soft_op *))
{
	struct soft_op *op = emit_add(e, SOFT_OP_SYS);

	op->fn = fn;
	e->c->ended = e->c->solo = true;
	return op;
}

/* ---- operands ---- */

static unsigned int gpr(ZydisRegister r)
{
	if (r >= ZYDIS_REGISTER_AL && r <= ZYDIS_REGISTER_BL)
		return (unsigned int)(r - ZYDIS_REGISTER_AL) * 8;
	if (r >= ZYDIS_REGISTER_AH && r <= ZYDIS_REGISTER_BH)
		return (unsigned int)(r - ZYDIS_REGISTER_AH) * 8 + 1;
	if (r >= ZYDIS_REGISTER_SPL && r <= ZYDIS_REGISTER_R15B)
		return (unsigned int)(r - ZYDIS_REGISTER_SPL + SOFT_RSP) * 8;
	if (r >= ZYDIS_REGISTER_AX && r <= ZYDIS_REGISTER_R15W)
		return (unsigned int)(r - ZYDIS_REGISTER_AX);
	if (r >= ZYDIS_REGISTER_EAX && r <= ZYDIS_REGISTER_R15D)
		return (unsigned int)(r - ZYDIS_REGISTER_EAX);
	if (r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15)
		return (unsigned int)(r - ZYDIS_REGISTER_RAX);
	return SOFT_ZERO;
}

unsigned int emit_reg(const struct emit *e, unsigned int i)
{
	return gpr(e->zo[i].reg.value);
}

/* Register that holds the segment base of memory operand @i. */
static uint8_t emit_seg(const struct emit *e, unsigned int i)
{
	const ZydisDecodedOperandMem *z = &e->zo[i].mem;

	if (z->type == ZYDIS_MEMOP_TYPE_AGEN) /* LEA has none */
		return SOFT_ZERO;
	return z->segment == ZYDIS_REGISTER_FS	 ? SOFT_FSBASE
	       : z->segment == ZYDIS_REGISTER_GS ? SOFT_GSBASE
						 : SOFT_ZERO;
}

void emit_mem(struct emit *e, unsigned int i, struct emit_mem *m)
{
	const ZydisDecodedOperandMem *z = &e->zo[i].mem;
	uint8_t seg = emit_seg(e, i);
	struct soft_op *op;

	*m = (struct emit_mem){.base = SOFT_ZERO, .idx = SOFT_ZERO};
	m->disp = z->disp.has_displacement ? z->disp.value : 0;
	m->ss = z->segment == ZYDIS_REGISTER_SS;
	if (z->base == ZYDIS_REGISTER_RIP || z->base == ZYDIS_REGISTER_EIP)
		m->disp += (int64_t)e->next;
	else
		m->base = (uint8_t)gpr(z->base);
	if ((e->zi->attributes & ZYDIS_ATTRIB_HAS_SIB) && e->zi->raw.modrm.mod == 0 &&
	    e->zi->raw.sib.base == 5) {
		/* disp32 without a base, whatever REX.B says (SDM vol. 2, table 2-3). Zydis 4.0
		 * takes it for [r13d] when the address size is 32 bits. */
		m->base = SOFT_ZERO;
		m->disp = e->zi->raw.disp.value;
	}
	if (z->index != ZYDIS_REGISTER_NONE) {
		m->idx = (uint8_t)gpr(z->index);
		m->scale = (uint8_t)(z->scale == 8 ? 3 : z->scale == 4 ? 2 : z->scale == 2 ? 1 : 0);
	}
	if (e->zi->address_width == 32 || (seg != SOFT_ZERO && m->idx != SOFT_ZERO)) {
		op = emit_add(e, e->zi->address_width == 32 ? SOFT_OP_LEA32 : SOFT_OP_LEA64X);
		emit_set_mem(op, m);
		op->dst = SOFT_TEA;
		m->base = SOFT_TEA;
		m->idx = SOFT_ZERO;
		m->scale = 0;
		m->disp = 0;
	}
	if (seg != SOFT_ZERO)
		m->idx = seg;
}

void emit_set_mem(struct soft_op *op, const struct emit_mem *m)
{
	op->base = m->base;
	op->idx = m->idx;
	op->scale = m->scale;
	op->disp = m->disp;
	if (m->ss)
		op->flags |= SOFT_OPF_SS;
}

void emit_tea(struct emit *e, unsigned int i)
{
	struct emit_mem m;
	struct soft_op *op;

	emit_mem(e, i, &m);
	op = emit_add(e, SOFT_OP_LEA64X);
	emit_set_mem(op, &m);
	op->dst = SOFT_TEA;
}

static struct soft_op *load(struct emit *e, const struct emit_mem *m, unsigned int lg,
			    unsigned int dst)
{
	struct soft_op *op = emit_add(e, (m->idx == SOFT_ZERO ? SOFT_OP_LDB8 : SOFT_OP_LDX8) + lg);

	emit_set_mem(op, m);
	op->dst = (uint8_t)dst;
	return op;
}

static struct soft_op *store(struct emit *e, const struct emit_mem *m, unsigned int lg,
			     unsigned int src)
{
	struct soft_op *op = emit_add(e, (m->idx == SOFT_ZERO ? SOFT_OP_STB8 : SOFT_OP_STX8) + lg);

	emit_set_mem(op, m);
	op->src = (uint8_t)src;
	return op;
}

unsigned int emit_src(struct emit *e, unsigned int i)
{
	unsigned int lg = emit_lg(e, i);
	struct emit_mem m;

	if (!emit_is_mem(e, i))
		return emit_reg(e, i);
	emit_mem(e, i, &m);
	load(e, &m, lg, emit_t0(lg));
	return emit_t0(lg);
}

unsigned int emit_rmw_begin(struct emit *e, unsigned int i, struct emit_mem *m)
{
	unsigned int lg = emit_lg(e, i);
	struct soft_op *op;

	if (!emit_is_mem(e, i))
		return emit_reg(e, i);
	emit_mem(e, i, m);
	op = emit_add(e, SOFT_OP_LDW8 + lg);
	emit_set_mem(op, m);
	op->dst = (uint8_t)emit_t0(lg);
	return emit_t0(lg);
}

void emit_rmw_end(struct emit *e, unsigned int i, const struct emit_mem *m)
{
	unsigned int lg = emit_lg(e, i);

	if (emit_is_mem(e, i))
		store(e, m, lg, emit_t0(lg));
}

/* A LOCK-prefixed read-modify-write of operand 0 with the register @src. */
static bool locked(struct emit *e, unsigned int kind, unsigned int src)
{
	struct soft_op *op;

	emit_tea(e, 0);
	op = emit_helper(e, soft_help_locked, emit_lg(e, 0), kind);
	op->src = (uint8_t)src;
	op->flags |= e->zo[0].mem.segment == ZYDIS_REGISTER_SS ? SOFT_OPF_SS : 0;
	return true;
}

/* ---- arithmetic ---- */

bool emit_alu(struct emit *e, unsigned int alu)
{
	unsigned int lg = emit_lg(e, 0);
	unsigned int base = SOFT_OP_ADD_RR8 + alu * 24 + lg; /* 6 forms of 4 sizes */
	struct emit_mem m;
	struct soft_op *op;

	e->fc = alu == ALU_ADD			   ? SOFT_FC_ADD
		: alu == ALU_SUB || alu == ALU_CMP ? SOFT_FC_SUB
		: alu == ALU_ADC || alu == ALU_SBB ? SOFT_FC_UNKNOWN
						   : SOFT_FC_LOGIC;
	if (emit_is_mem(e, 0)) {
		if (emit_locked(e)) {
			e->fc = SOFT_FC_UNKNOWN;
			if (!emit_is_imm(e, 1))
				return locked(e, alu, emit_reg(e, 1));
			op = emit_add(e, SOFT_OP_MOV_RI64);
			op->dst = SOFT_T0;
			op->imm = emit_imm(e, 1);
			return locked(e, alu, emit_t0(lg));
		}
		emit_mem(e, 0, &m);
		op = emit_add(e, base + (emit_is_imm(e, 1) ? 20 : 16));
		emit_set_mem(op, &m);
		if (emit_is_imm(e, 1))
			op->imm = emit_imm(e, 1);
		else
			op->src = (uint8_t)emit_reg(e, 1);
		return true;
	}
	if (emit_is_mem(e, 1)) {
		emit_mem(e, 1, &m);
		op = emit_add(e, base + (m.idx == SOFT_ZERO ? 8 : 12));
		emit_set_mem(op, &m);
	} else if (emit_is_imm(e, 1)) {
		op = emit_add(e, base + 4);
		op->imm = emit_imm(e, 1);
	} else {
		op = emit_add(e, base);
		op->src = (uint8_t)emit_reg(e, 1);
	}
	op->dst = (uint8_t)emit_reg(e, 0);
	return true;
}

bool emit_unary(struct emit *e, unsigned int opcode)
{
	unsigned int lg = emit_lg(e, 0), dst;
	struct emit_mem m;

	if (emit_locked(e))
		return locked(e,
			      opcode == SOFT_OP_NOT8   ? LOCKED_NOT
			      : opcode == SOFT_OP_NEG8 ? LOCKED_NEG
			      : opcode == SOFT_OP_INC8 ? LOCKED_INC
						       : LOCKED_DEC,
			      0);
	e->fc = opcode == SOFT_OP_NEG8 ? SOFT_FC_SUB : SOFT_FC_RES;
	dst = emit_rmw_begin(e, 0, &m);
	emit_add(e, opcode + lg)->dst = (uint8_t)dst;
	emit_rmw_end(e, 0, &m);
	return true;
}

bool emit_shift(struct emit *e, unsigned int which)
{
	unsigned int lg = emit_lg(e, 0), dst, count = 0;
	struct emit_mem m;
	struct soft_op *op;

	dst = emit_rmw_begin(e, 0, &m);
	if (emit_is_imm(e, 1)) {
		count = (unsigned int)emit_imm(e, 1) & (lg == 3 ? 63 : 31);
		if (count) {
			op = emit_add(e, SOFT_OP_SHL_I8 + which * 4 + lg);
			op->imm = count;
			e->fc = SOFT_FC_RES;
		} else {
			op = emit_add(e, SOFT_OP_MOV_RR8 + lg);
			op->src = (uint8_t)dst;
			e->fc = e->c->fclass;
		}
	} else {
		op = emit_add(e, SOFT_OP_SHL_C8 + which * 4 + lg);
	}
	op->dst = (uint8_t)dst;
	emit_rmw_end(e, 0, &m);
	return true;
}

bool emit_rotate(struct emit *e, unsigned int kind)
{
	unsigned int lg = emit_lg(e, 0), dst;
	struct emit_mem m;
	struct soft_op *op;

	dst = emit_rmw_begin(e, 0, &m);
	op = emit_helper(e, soft_help_rotate, lg, kind);
	op->dst = (uint8_t)dst;
	op->src = emit_is_imm(e, 1) ? EMIT_IMM : SOFT_RCX * 8;
	op->imm = emit_is_imm(e, 1) ? emit_imm(e, 1) : 0;
	emit_rmw_end(e, 0, &m);
	return true;
}

bool emit_shiftd(struct emit *e, unsigned int right)
{
	unsigned int lg = emit_lg(e, 0), dst;
	struct emit_mem m;
	struct soft_op *op;

	dst = emit_rmw_begin(e, 0, &m);
	op = emit_helper(e, soft_help_shiftd, lg, right);
	op->dst = (uint8_t)dst;
	op->src = (uint8_t)emit_reg(e, 1);
	op->scale = !emit_is_imm(e, 2);
	op->imm = emit_is_imm(e, 2) ? emit_imm(e, 2) : 0;
	emit_rmw_end(e, 0, &m);
	return true;
}

bool emit_mul(struct emit *e, unsigned int which)
{
	static int (*const fn[])(struct soft_vcpu *, const struct soft_op *) = {
		soft_help_mul, soft_help_imul1, soft_help_div, soft_help_idiv};
	unsigned int lg = emit_lg(e, 0), src = emit_src(e, 0);

	emit_helper(e, fn[which], lg, 0)->src = (uint8_t)src;
	return true;
}

bool emit_imul(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0), n = e->zi->operand_count_visible, src;
	struct soft_op *op;

	if (n == 1)
		return emit_mul(e, 1);
	src = emit_src(e, 1);
	if (lg == 1) {
		op = emit_helper(e, n == 3 ? soft_help_imul3 : soft_help_imul2, lg, 0);
	} else {
		op = emit_add(e, n == 3 ? SOFT_OP_IMUL_RRI32 + (lg - 2)
					: SOFT_OP_IMUL_RR32 + (lg - 2));
	}
	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)src;
	if (n == 3)
		op->imm = emit_imm(e, 2);
	return true;
}

bool emit_bt(struct emit *e, unsigned int kind)
{
	unsigned int lg = emit_lg(e, 0), dst;
	bool by_reg = emit_is_reg(e, 1);
	struct emit_mem m = {.base = SOFT_TEA, .idx = SOFT_ZERO};
	struct soft_op *op;

	if (emit_is_mem(e, 0)) {
		/* A register's bit offset addresses memory around the operand. */
		emit_tea(e, 0);
		m.ss = e->zo[0].mem.segment == ZYDIS_REGISTER_SS;
		if (by_reg) {
			op = emit_helper(e, soft_help_btea, lg, emit_seg(e, 0));
			op->src = (uint8_t)emit_reg(e, 1);
			if (e->zi->address_width == 32)
				op->flags |= SOFT_OPF_A32;
		}
		if (emit_locked(e)) {
			if (!by_reg) {
				op = emit_add(e, SOFT_OP_MOV_RI64);
				op->dst = SOFT_T0;
				op->imm = emit_imm(e, 1);
			}
			op = emit_helper(e, soft_help_locked, lg, LOCKED_BTS + kind - 1);
			op->src = (uint8_t)(by_reg ? emit_reg(e, 1) : SOFT_T0);
			op->flags |= m.ss ? SOFT_OPF_SS : 0;
			return true;
		}
		op = emit_add(e, (kind ? SOFT_OP_LDW8 : SOFT_OP_LDX8) + lg);
		emit_set_mem(op, &m);
		op->dst = SOFT_T0;
		dst = SOFT_T0;
	} else {
		dst = emit_reg(e, 0);
	}
	op = emit_helper(e, soft_help_bt, lg, kind);
	op->dst = (uint8_t)dst;
	op->src = by_reg ? (uint8_t)emit_reg(e, 1) : EMIT_IMM;
	op->imm = by_reg ? 0 : emit_imm(e, 1);
	if (kind && emit_is_mem(e, 0))
		store(e, &m, lg, SOFT_T0);
	return true;
}

bool emit_scan(struct emit *e, unsigned int kind)
{
	unsigned int lg = emit_lg(e, 0), src = emit_src(e, 1);
	struct soft_op *op = emit_helper(e, soft_help_scan, lg, kind);

	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)src;
	return true;
}

bool emit_bswap(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0);
	struct soft_op *op = lg == 1 ? emit_helper(e, soft_help_bswap16, lg, 0)
				     : emit_add(e, SOFT_OP_BSWAP32 + (lg - 2));

	op->dst = (uint8_t)emit_reg(e, 0);
	return true;
}

/* ---- moves ---- */

bool emit_mov(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0);
	struct emit_mem m;
	struct soft_op *op;

	for (unsigned int i = 0; i < 2; i++)
		if (emit_is_reg(e, i) && e->zo[i].reg.value > ZYDIS_REGISTER_R15)
			return emit_mov_special(e);
	if (emit_is_mem(e, 0)) {
		emit_mem(e, 0, &m);
		if (emit_is_imm(e, 1)) {
			op = emit_add(e, SOFT_OP_STI8 + lg);
			emit_set_mem(op, &m);
			op->imm = emit_imm(e, 1);
		} else {
			store(e, &m, lg, emit_reg(e, 1));
		}
	} else if (emit_is_mem(e, 1)) {
		emit_mem(e, 1, &m);
		load(e, &m, lg, emit_reg(e, 0));
	} else if (emit_is_imm(e, 1)) {
		op = emit_add(e, lg == 2 ? SOFT_OP_MOV_RI64 : SOFT_OP_MOV_RI8 + lg);
		op->dst = (uint8_t)emit_reg(e, 0);
		op->imm = lg == 2 ? (int64_t)(uint32_t)emit_imm(e, 1) : emit_imm(e, 1);
	} else {
		op = emit_add(e, SOFT_OP_MOV_RR8 + lg);
		op->dst = (uint8_t)emit_reg(e, 0);
		op->src = (uint8_t)emit_reg(e, 1);
	}
	return true;
}

bool emit_movx(struct emit *e, unsigned int is_signed)
{
	unsigned int to = emit_lg(e, 0), from = emit_lg(e, 1), kind, src;
	struct emit_mem m;
	struct soft_op *op;

	if (from == to)
		return emit_mov(e, 0);
	if (to == 1) {
		src = emit_src(e, 1);
		op = emit_helper(e, soft_help_extend, from, is_signed);
		op->dst = (uint8_t)emit_reg(e, 0);
		op->src = (uint8_t)src;
		return true;
	}
	/* The order of OPS_EXT_KINDS. */
	kind = !is_signed ? from : from == 2 ? 6 : 2 + from * 2 + (to - 2);
	if (emit_is_mem(e, 1)) {
		emit_mem(e, 1, &m);
		op = emit_add(e, (m.idx == SOFT_ZERO ? SOFT_OP_EXB_Z8 : SOFT_OP_EXX_Z8) + kind);
		emit_set_mem(op, &m);
	} else {
		op = emit_add(e, SOFT_OP_EXR_Z8 + kind);
		op->src = (uint8_t)emit_reg(e, 1);
	}
	op->dst = (uint8_t)emit_reg(e, 0);
	return true;
}

bool emit_lea(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0);
	struct emit_mem m;
	struct soft_op *op;

	emit_mem(e, 1, &m);
	op = emit_add(e, lg == 1	      ? SOFT_OP_LEA16
			 : lg == 2	      ? SOFT_OP_LEA32
			 : m.idx == SOFT_ZERO ? SOFT_OP_LEA64B
					      : SOFT_OP_LEA64X);
	emit_set_mem(op, &m);
	op->dst = (uint8_t)emit_reg(e, 0);
	return true;
}

bool emit_simple(struct emit *e, unsigned int opcode)
{
	emit_add(e, opcode);
	return true;
}

bool emit_xchg(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0);
	unsigned int m = emit_is_mem(e, 0) ? 0 : 1;
	struct soft_op *op;

	if (emit_is_mem(e, m)) { /* locked, with or without the prefix */
		emit_tea(e, m);
		op = emit_helper(e, soft_help_locked, lg, LOCKED_XCHG);
		op->src = (uint8_t)emit_reg(e, !m);
		op->flags |= e->zo[m].mem.segment == ZYDIS_REGISTER_SS ? SOFT_OPF_SS : 0;
		return true;
	}
	op = lg < 2 ? emit_helper(e, soft_help_xchg, lg, 0)
		    : emit_add(e, SOFT_OP_XCHG32 + (lg - 2));
	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)emit_reg(e, 1);
	return true;
}

bool emit_pause(struct emit *e, unsigned int arg)
{
	bool w = e->zi->raw.rex.W;
	struct soft_op *op;

	if (!e->zi->raw.rex.B) {
		emit_add(e, SOFT_OP_NOP);
		return true;
	}
	/* With REX.B the opcode is XCHG r8, rAX, and F3 is ignored (measured); Zydis 4.0 calls it
	 * PAUSE all the same. */
	if (!w && (e->zi->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE))
		op = emit_helper(e, soft_help_xchg, 1, 0);
	else
		op = emit_add(e, w ? SOFT_OP_XCHG64 : SOFT_OP_XCHG32);
	op->dst = SOFT_R8;
	op->src = SOFT_RAX;
	return true;
}

bool emit_xadd(struct emit *e, unsigned int arg)
{
	struct soft_op *op;

	if (emit_is_mem(e, 0))
		return locked(e, LOCKED_XADD, emit_reg(e, 1));
	op = emit_helper(e, soft_help_xadd, emit_lg(e, 0), 0);
	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)emit_reg(e, 1);
	return true;
}

bool emit_cmpxchg(struct emit *e, unsigned int arg)
{
	struct soft_op *op;

	if (emit_is_mem(e, 0))
		return locked(e, LOCKED_CMPXCHG, emit_reg(e, 1));
	op = emit_helper(e, soft_help_cmpxchg, emit_lg(e, 0), 0);
	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)emit_reg(e, 1);
	return true;
}

bool emit_cmpxchgb(struct emit *e, unsigned int lg)
{
	emit_tea(e, 0);
	emit_helper(e, soft_help_cmpxchgb, lg, 0)->flags |=
		e->zo[0].mem.segment == ZYDIS_REGISTER_SS ? SOFT_OPF_SS : 0;
	return true;
}
