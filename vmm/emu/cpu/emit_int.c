// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops, continued: integer arithmetic, bits, moves, exchanges.
 */
#include "vmm/emu/cpu/emit.h"

/* A locked read-modify-write of operand @m, which is memory, with the register @src. */
static bool emit_int_locked(struct emit *e, unsigned int m, unsigned int kind, unsigned int src)
{
	struct emu_op *op;

	emit_tea(e, m);
	op = emit_helper(e, emu_help_locked, emit_lg(e, m), kind);
	op->src = (uint8_t)src;
	op->flags |= e->zo[m].mem.segment == ZYDIS_REGISTER_SS ? EMU_OPF_SS : 0;
	return true;
}

/* XADD or CMPXCHG of the registers @dst and @src. @op32: the first of the handlers; @fn: the helper
 * for the small sizes. */
static void exchange_regs(struct emit *e, unsigned int op32, emu_op_fn *fn, unsigned int dst,
			  unsigned int src)
{
	unsigned int lg = emit_lg(e, 0);
	struct emu_op *op = lg < 2 ? emit_helper(e, fn, lg, 0) : emit_add(e, op32 + (lg - 2));

	op->dst = (uint8_t)dst;
	op->src = (uint8_t)src;
}

/* Begin an exchange with memory operand @i in a VM of one vCPU: load the operand, *m, into EMU_T0.
 * Compute the address first, since the other operand may be part of it. */
static unsigned int exchange_begin(struct emit *e, unsigned int i, struct emit_mem *m)
{
	unsigned int lg = emit_lg(e, i);
	struct emu_op *op;

	*m = (struct emit_mem){.base = EMU_TEA, .idx = EMU_ZERO};
	m->ss = e->zo[i].mem.segment == ZYDIS_REGISTER_SS;
	emit_tea(e, i);
	op = emit_add(e, EMU_OP_LDL8 + lg);
	emit_set_mem(op, m);
	op->dst = (uint8_t)emit_t0(lg);
	return emit_t0(lg);
}

static bool emit_int_exchange(struct emit *e, unsigned int op32, emu_op_fn *fn, unsigned int kind)
{
	unsigned int src = emit_reg(e, 1), t0;
	struct emit_mem m;

	if (!emit_is_mem(e, 0)) {
		exchange_regs(e, op32, fn, emit_reg(e, 0), src);
		return true;
	}
	if (!e->c->alone)
		return emit_int_locked(e, 0, kind, src);
	t0 = exchange_begin(e, 0, &m);
	exchange_regs(e, op32, fn, t0, src);
	emit_store(e, &m, emit_lg(e, 0), t0);
	return true;
}

/* ---- arithmetic ---- */

bool emit_alu(struct emit *e, unsigned int alu)
{
	unsigned int lg = emit_lg(e, 0);
	unsigned int base = EMU_OP_ADD_RR8 + alu * 24 + lg; /* 6 forms of 4 sizes */
	struct emit_mem m;
	struct emu_op *op;

	e->fc = alu == ALU_ADD			   ? EMU_FC_ADD
		: alu == ALU_SUB || alu == ALU_CMP ? EMU_FC_SUB
		: alu == ALU_ADC || alu == ALU_SBB ? EMU_FC_UNKNOWN
						   : EMU_FC_LOGIC;
	if (emit_is_mem(e, 0)) {
		if (emit_locked(e)) {
			e->fc = EMU_FC_UNKNOWN;
			if (!emit_is_imm(e, 1))
				return emit_int_locked(e, 0, alu, emit_reg(e, 1));
			op = emit_add(e, EMU_OP_MOV_RI64);
			op->dst = EMU_T0;
			op->imm = emit_imm(e, 1);
			return emit_int_locked(e, 0, alu, emit_t0(lg));
		}
		if (emit_lock_prefix(e)) { /* in a VM of one vCPU */
			unsigned int t0 = emit_rmw_begin(e, 0, &m);

			op = emit_add(e, base + (emit_is_imm(e, 1) ? 4 : 0));
			op->dst = (uint8_t)t0;
			if (emit_is_imm(e, 1))
				op->imm = emit_imm(e, 1);
			else
				op->src = (uint8_t)emit_reg(e, 1);
			emit_rmw_end(e, 0, &m);
			return true;
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
		op = emit_add(e, base + (m.idx == EMU_ZERO ? 8 : 12));
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
		return emit_int_locked(e, 0,
				       opcode == EMU_OP_NOT8   ? LOCKED_NOT
				       : opcode == EMU_OP_NEG8 ? LOCKED_NEG
				       : opcode == EMU_OP_INC8 ? LOCKED_INC
							       : LOCKED_DEC,
				       0);
	e->fc = opcode == EMU_OP_NEG8 ? EMU_FC_SUB : EMU_FC_RES;
	dst = emit_rmw_begin(e, 0, &m);
	emit_add(e, opcode + lg)->dst = (uint8_t)dst;
	emit_rmw_end(e, 0, &m);
	return true;
}

bool emit_shift(struct emit *e, unsigned int which)
{
	unsigned int lg = emit_lg(e, 0), dst, count = 0;
	struct emit_mem m;
	struct emu_op *op;

	dst = emit_rmw_begin(e, 0, &m);
	if (emit_is_imm(e, 1)) {
		count = (unsigned int)emit_imm(e, 1) & (lg == 3 ? 63 : 31);
		if (count) {
			op = emit_add(e, EMU_OP_SHL_I8 + which * 4 + lg);
			op->imm = count;
			e->fc = EMU_FC_RES;
		} else {
			op = emit_add(e, EMU_OP_MOV_RR8 + lg);
			op->src = (uint8_t)dst;
			e->fc = e->c->fclass;
		}
	} else {
		op = emit_add(e, EMU_OP_SHL_C8 + which * 4 + lg);
	}
	op->dst = (uint8_t)dst;
	emit_rmw_end(e, 0, &m);
	return true;
}

/* A helper that modifies operand 0. */
static struct emu_op *emit_int_modify(struct emit *e, emu_op_fn *fn, unsigned int kind)
{
	struct emit_mem m;
	unsigned int dst = emit_rmw_begin(e, 0, &m);
	struct emu_op *op = emit_helper(e, fn, emit_lg(e, 0), kind);

	op->dst = (uint8_t)dst;
	emit_rmw_end(e, 0, &m);
	return op;
}

bool emit_rotate(struct emit *e, unsigned int kind)
{
	struct emu_op *op = emit_int_modify(e, emu_help_rotate, kind);

	op->src = emit_is_imm(e, 1) ? EMIT_IMM : EMU_RCX * 8;
	op->imm = emit_is_imm(e, 1) ? emit_imm(e, 1) : 0;
	return true;
}

bool emit_shiftd(struct emit *e, unsigned int right)
{
	struct emu_op *op = emit_int_modify(e, emu_help_shiftd, right);

	op->src = (uint8_t)emit_reg(e, 1);
	op->scale = !emit_is_imm(e, 2);
	op->imm = emit_is_imm(e, 2) ? emit_imm(e, 2) : 0;
	return true;
}

bool emit_mul(struct emit *e, unsigned int which)
{
	static int (*const fn[])(struct emu_vcpu *, const struct emu_op *) = {
		emu_help_mul, emu_help_imul1, emu_help_div, emu_help_idiv};
	unsigned int lg = emit_lg(e, 0), src = emit_src(e, 0);

	if (which == 0 && lg >= 2)
		emit_add(e, EMU_OP_MUL32 + (lg - 2))->src = (uint8_t)src;
	else
		emit_helper(e, fn[which], lg, 0)->src = (uint8_t)src;
	return true;
}

bool emit_imul(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0), n = e->zi->operand_count_visible, src;
	struct emu_op *op;

	if (n == 1)
		return emit_mul(e, 1);
	src = emit_src(e, 1);
	if (lg == 1) {
		op = emit_helper(e, n == 3 ? emu_help_imul3 : emu_help_imul2, lg, 0);
	} else {
		op = emit_add(e,
			      n == 3 ? EMU_OP_IMUL_RRI32 + (lg - 2) : EMU_OP_IMUL_RR32 + (lg - 2));
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
	struct emit_mem m = {.base = EMU_TEA, .idx = EMU_ZERO};
	struct emu_op *op;

	if (emit_is_mem(e, 0)) {
		/* A register's bit offset addresses memory around the operand. */
		emit_tea(e, 0);
		m.ss = e->zo[0].mem.segment == ZYDIS_REGISTER_SS;
		if (by_reg) {
			op = emit_helper(e, emu_help_btea, lg, emit_seg(e, 0));
			op->src = (uint8_t)emit_reg(e, 1);
			if (e->zi->address_width == 32)
				op->flags |= EMU_OPF_A32;
		}
		if (emit_locked(e)) {
			if (!by_reg) {
				op = emit_add(e, EMU_OP_MOV_RI64);
				op->dst = EMU_T0;
				op->imm = emit_imm(e, 1);
			}
			op = emit_helper(e, emu_help_locked, lg, LOCKED_BTS + kind - 1);
			op->src = (uint8_t)(by_reg ? emit_reg(e, 1) : EMU_T0);
			op->flags |= m.ss ? EMU_OPF_SS : 0;
			return true;
		}
		op = emit_add(e, (emit_lock_prefix(e) ? EMU_OP_LDL8
				  : kind	      ? EMU_OP_LDW8
						      : EMU_OP_LDX8) +
					 lg);
		emit_set_mem(op, &m);
		op->dst = EMU_T0;
		dst = EMU_T0;
	} else {
		dst = emit_reg(e, 0);
	}
	op = emit_helper(e, emu_help_bt, lg, kind);
	op->dst = (uint8_t)dst;
	op->src = by_reg ? (uint8_t)emit_reg(e, 1) : EMIT_IMM;
	op->imm = by_reg ? 0 : emit_imm(e, 1);
	if (kind && emit_is_mem(e, 0))
		emit_store(e, &m, lg, EMU_T0);
	return true;
}

bool emit_scan(struct emit *e, unsigned int kind)
{
	unsigned int lg = emit_lg(e, 0), src = emit_src(e, 1);
	struct emu_op *op = emit_helper(e, emu_help_scan, lg, kind);

	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)src;
	return true;
}

bool emit_bswap(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0);
	struct emu_op *op = lg == 1 ? emit_helper(e, emu_help_bswap16, lg, 0)
				    : emit_add(e, EMU_OP_BSWAP32 + (lg - 2));

	op->dst = (uint8_t)emit_reg(e, 0);
	return true;
}

/* ---- moves ---- */

bool emit_mov(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0);
	struct emit_mem m;
	struct emu_op *op;

	for (unsigned int i = 0; i < 2; i++)
		if (emit_is_reg(e, i) && e->zo[i].reg.value > ZYDIS_REGISTER_R15)
			return emit_mov_special(e);
	if (emit_is_mem(e, 0)) {
		emit_mem(e, 0, &m);
		if (emit_is_imm(e, 1)) {
			op = emit_add(e, EMU_OP_STI8 + lg);
			emit_set_mem(op, &m);
			op->imm = emit_imm(e, 1);
		} else {
			emit_store(e, &m, lg, emit_reg(e, 1));
		}
	} else if (emit_is_mem(e, 1)) {
		emit_mem(e, 1, &m);
		emit_load(e, &m, lg, emit_reg(e, 0));
	} else if (emit_is_imm(e, 1)) {
		op = emit_add(e, lg == 2 ? EMU_OP_MOV_RI64 : EMU_OP_MOV_RI8 + lg);
		op->dst = (uint8_t)emit_reg(e, 0);
		op->imm = lg == 2 ? (int64_t)(uint32_t)emit_imm(e, 1) : emit_imm(e, 1);
	} else {
		op = emit_add(e, EMU_OP_MOV_RR8 + lg);
		op->dst = (uint8_t)emit_reg(e, 0);
		op->src = (uint8_t)emit_reg(e, 1);
	}
	return true;
}

bool emit_movx(struct emit *e, unsigned int is_signed)
{
	unsigned int to = emit_lg(e, 0), from = emit_lg(e, 1), kind, src;
	struct emit_mem m;
	struct emu_op *op;

	if (from == to)
		return emit_mov(e, 0);
	if (to == 1 && from == 2 && e->c->intel) {
		/* MOVSXD with a 16-bit operand: AMD's CPUs read 32 bits, Intel's 16. */
		if (emit_is_mem(e, 1)) {
			emit_mem(e, 1, &m);
			emit_load(e, &m, 1, emit_reg(e, 0));
		} else {
			op = emit_add(e, EMU_OP_MOV_RR8 + 1);
			op->dst = (uint8_t)emit_reg(e, 0);
			op->src = (uint8_t)emit_reg(e, 1);
		}
		return true;
	}
	if (to == 1) {
		src = emit_src(e, 1);
		op = emit_helper(e, emu_help_extend, from, is_signed);
		op->dst = (uint8_t)emit_reg(e, 0);
		op->src = (uint8_t)src;
		return true;
	}
	/* The order of OPS_EXT_KINDS. */
	kind = !is_signed ? from : from == 2 ? 6 : 2 + from * 2 + (to - 2);
	if (emit_is_mem(e, 1)) {
		emit_mem(e, 1, &m);
		op = emit_add(e, (m.idx == EMU_ZERO ? EMU_OP_EXB_Z8 : EMU_OP_EXX_Z8) + kind);
		emit_set_mem(op, &m);
	} else {
		op = emit_add(e, EMU_OP_EXR_Z8 + kind);
		op->src = (uint8_t)emit_reg(e, 1);
	}
	op->dst = (uint8_t)emit_reg(e, 0);
	return true;
}

bool emit_lea(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0);
	struct emit_mem m;
	struct emu_op *op;

	emit_mem(e, 1, &m);
	op = emit_add(e, lg == 1	     ? EMU_OP_LEA16
			 : lg == 2	     ? EMU_OP_LEA32
			 : m.idx == EMU_ZERO ? EMU_OP_LEA64B
					     : EMU_OP_LEA64X);
	emit_set_mem(op, &m);
	op->dst = (uint8_t)emit_reg(e, 0);
	return true;
}

bool emit_simple(struct emit *e, unsigned int opcode)
{
	emit_add(e, opcode);
	return true;
}

bool emit_hint(struct emit *e, unsigned int arg)
{
	/* 0F 0D, PREFETCHW, with a register operand: #UD on AMD's CPUs, a NOP on Intel's. */
	if (e->zi->opcode_map == ZYDIS_OPCODE_MAP_0F && e->zi->opcode == 0x0d &&
	    e->zi->raw.modrm.mod == 3 && !e->c->intel)
		emit_sysop(e, emu_sys_ud);
	else
		emit_add(e, EMU_OP_NOP);
	return true;
}

bool emit_xchg(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 0);
	unsigned int m = emit_is_mem(e, 0) ? 0 : 1;
	struct emit_mem mem;
	struct emu_op *op;

	if (emit_is_mem(e, m) && e->c->alone) {
		unsigned int reg = emit_reg(e, !m), t0 = exchange_begin(e, m, &mem);

		emit_store(e, &mem, lg, reg);
		op = emit_add(e, EMU_OP_MOV_RR8 + lg);
		op->dst = (uint8_t)reg;
		op->src = (uint8_t)t0;
		return true;
	}
	if (emit_is_mem(e, m)) /* locked, with or without the prefix */
		return emit_int_locked(e, m, LOCKED_XCHG, emit_reg(e, !m));
	op = lg < 2 ? emit_helper(e, emu_help_xchg, lg, 0) : emit_add(e, EMU_OP_XCHG32 + (lg - 2));
	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)emit_reg(e, 1);
	return true;
}

bool emit_pause(struct emit *e, unsigned int arg)
{
	bool w = e->zi->raw.rex.W;
	struct emu_op *op;

	if (!e->zi->raw.rex.B || e->c->intel) {
		if (e->c->yields)
			return emit_system(e, SYS_PAUSE);
		emit_add(e, EMU_OP_NOP);
		return true;
	}
	/* With REX.B the opcode is XCHG r8, rAX, and AMD's CPUs ignore F3 (measured). Intel's take
	 * it for PAUSE, as Zydis does. */
	if (!w && (e->zi->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE))
		op = emit_helper(e, emu_help_xchg, 1, 0);
	else
		op = emit_add(e, w ? EMU_OP_XCHG64 : EMU_OP_XCHG32);
	op->dst = EMU_R8;
	op->src = EMU_RAX;
	return true;
}

bool emit_xadd(struct emit *e, unsigned int arg)
{
	return emit_int_exchange(e, EMU_OP_XADD32, emu_help_xadd, LOCKED_XADD);
}

bool emit_cmpxchg(struct emit *e, unsigned int arg)
{
	return emit_int_exchange(e, EMU_OP_CMPXCHG32, emu_help_cmpxchg, LOCKED_CMPXCHG);
}

bool emit_cmpxchgb(struct emit *e, unsigned int lg)
{
	emit_tea(e, 0);
	emit_helper(e, emu_help_cmpxchgb, lg, 0)->flags |=
		e->zo[0].mem.segment == ZYDIS_REGISTER_SS ? EMU_OPF_SS : 0;
	return true;
}
