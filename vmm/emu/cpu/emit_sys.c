// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops, continued: flags, atomics without operands of their own, and
 * system instructions. Each of the latter is a block of its own.
 */
#include "vmm/emu/cpu/emit.h"

bool emit_cbw(struct emit *e, unsigned int arg)
{
	emit_helper(e, arg ? emu_help_cwd : emu_help_cbw, 1, 0);
	return true;
}

bool emit_flagop(struct emit *e, unsigned int kind)
{
	emit_helper(e, emu_help_flagop, 0, kind);
	return true;
}

bool emit_ahf(struct emit *e, unsigned int is_store)
{
	emit_helper(e, is_store ? emu_help_sahf : emu_help_lahf, 0, 0);
	return true;
}

bool emit_fence(struct emit *e, unsigned int arg)
{
	emit_helper(e, emu_help_fence, 0, 0);
	return true;
}

/* Call @fn of @src for operand 0: a register, or 16 bits of memory. */
static void to_word(struct emit *e, emu_op_fn *fn, unsigned int src)
{
	bool mem = emit_is_mem(e, 0);
	struct emu_op *op = emit_helper(e, fn, mem ? 1 : emit_lg(e, 0), 0);
	struct emit_mem m;

	op->src = (uint8_t)src;
	op->dst = mem ? EMU_T0 : (uint8_t)emit_reg(e, 0);
	if (!mem)
		return;
	emit_mem(e, 0, &m);
	op = emit_add(e, EMU_OP_STX16);
	emit_set_mem(op, &m);
	op->src = EMU_T0;
}

/* MOV to and from segment, control and debug registers. */
bool emit_mov_special(struct emit *e)
{
	bool to = emit_is_reg(e, 0) && e->zo[0].reg.value > ZYDIS_REGISTER_R15;
	ZydisRegister r = e->zo[to ? 0 : 1].reg.value;
	struct emu_op *op;
	unsigned int src;

	if (r >= ZYDIS_REGISTER_ES && r <= ZYDIS_REGISTER_GS) {
		if (to) {
			if (emit_is_mem(e, 1)) { /* always 16 bits */
				struct emit_mem m;

				emit_mem(e, 1, &m);
				op = emit_add(e, EMU_OP_LDX16);
				emit_set_mem(op, &m);
				op->dst = src = EMU_T0;
			} else {
				src = emit_reg(e, 1);
			}
			op = emit_sysop(e, emu_sys_mov_to_seg);
			op->dst = (uint8_t)(r - ZYDIS_REGISTER_ES);
			op->src = (uint8_t)src;
			return true;
		}
		to_word(e, emu_help_from_seg, (unsigned int)(r - ZYDIS_REGISTER_ES));
		return true;
	}
	if (r >= ZYDIS_REGISTER_CR0 && r <= ZYDIS_REGISTER_CR15) {
		op = emit_sysop(e, to ? emu_sys_mov_to_cr : emu_sys_mov_from_cr);
		op->scale = (uint8_t)(r - ZYDIS_REGISTER_CR0);
	} else if (r >= ZYDIS_REGISTER_DR0 && r <= ZYDIS_REGISTER_DR15) {
		op = emit_sysop(e, to ? emu_sys_mov_to_dr : emu_sys_mov_from_dr);
		op->scale = (uint8_t)(r - ZYDIS_REGISTER_DR0);
	} else {
		return false;
	}
	op->dst = op->src = (uint8_t)emit_reg(e, to ? 1 : 0);
	return true;
}

/* LAR, LSL, VERR, VERW: the selector has 16 bits, in a register or in memory. */
bool emit_descriptor(struct emit *e, unsigned int which)
{
	unsigned int i = which == EMU_LAR || which == EMU_LSL ? 1 : 0, src;
	struct emu_op *op;
	struct emit_mem m;

	if (emit_is_mem(e, i)) {
		emit_mem(e, i, &m);
		op = emit_add(e, EMU_OP_LDX16);
		emit_set_mem(op, &m);
		op->dst = src = EMU_T0;
	} else {
		src = emit_reg(e, i);
	}
	op = emit_helper(e, emu_help_descriptor, i ? emit_lg(e, 0) : 0, which);
	op->src = (uint8_t)src;
	op->dst = i ? (uint8_t)emit_reg(e, 0) : 0;
	return true;
}

bool emit_xlat(struct emit *e, unsigned int arg)
{
	struct emu_op *op = emit_helper(e, emu_help_xlat, e->zi->address_width == 32 ? 2 : 3, 0);

	op->src = EMU_ZERO;
	for (unsigned int i = 0; i < e->zi->operand_count; i++)
		if (emit_is_mem(e, i))
			op->src = emit_seg(e, i);
	return true;
}

#define EMIT_SYS_FN(name, fn) [SYS_##name] = emu_sys_##fn
static emu_op_fn *const sys_fn[] = {EMIT_SYS(EMIT_SYS_FN)};

bool emit_system(struct emit *e, unsigned int which)
{
	bool stack = false, mem;
	struct emu_op *op;

	switch (which) {
	case SYS_STR:
	case SYS_SLDT:
		to_word(e, emu_help_from_seg, which == SYS_STR ? EMU_NSEGS : EMU_NSEGS + 1);
		return true;
	case SYS_LGDT:
	case SYS_LIDT:
	case SYS_SGDT:
	case SYS_SIDT:
	case SYS_INVLPG:
		emit_tea(e, 0);
		stack = e->zo[0].mem.segment == ZYDIS_REGISTER_SS;
		break;
	case SYS_SMSW:
		to_word(e, emu_help_smsw, 0);
		return true;
	case SYS_LMSW:
	case SYS_LLDT:
	case SYS_LTR:
		/* The privilege check precedes the access, so the instruction loads by itself. */
		mem = emit_is_mem(e, 0);
		if (mem)
			emit_tea(e, 0);
		op = emit_sysop(e, sys_fn[which]);
		op->scale = (uint8_t)which;
		op->idx = mem;
		op->src = mem ? 0 : (uint8_t)emit_reg(e, 0);
		op->flags |= mem && e->zo[0].mem.segment == ZYDIS_REGISTER_SS ? EMU_OPF_SS : 0;
		return true;
	case SYS_PUSHF:
	case SYS_POPF:
		if (e->zi->operand_width == 32)
			return false;
		stack = true;
		break;
	case SYS_SYSRET:
		if (e->zi->operand_width != 64)
			return false; /* to 32-bit code */
		break;
	case SYS_SYSEXIT:
		/* Without REX.W it leads to 32-bit code. AMD's CPUs lack the instruction in long
		 * mode. */
		if (e->c->intel && e->zi->operand_width != 64)
			return false;
		break;
	case SYS_IRETQ:
		stack = true;
		break;
	}
	op = emit_sysop(e, sys_fn[which]);
	op->scale = (uint8_t)which;
	op->flags |= stack ? EMU_OPF_SS : 0;
	switch (which) {
	case SYS_PUSHF:
	case SYS_POPF:
		op->base = e->zi->operand_width == 16 ? 1 : 3;
		break;
	case SYS_RDBASE:
	case SYS_WRBASE:
		op->base = (uint8_t)emit_lg(e, 0);
		op->idx = which == SYS_WRBASE;
		op->src = e->zi->mnemonic == ZYDIS_MNEMONIC_RDFSBASE ||
					  e->zi->mnemonic == ZYDIS_MNEMONIC_WRFSBASE
				  ? EMU_FSBASE
				  : EMU_GSBASE;
		op->dst = (uint8_t)emit_reg(e, 0);
		break;
	case SYS_RDTSCP:
		op->idx = 1;
		break;
	case SYS_IN: /* IN accumulator, port */
		op->base = (uint8_t)emit_lg(e, 0);
		op->src = emit_is_imm(e, 1) ? EMIT_IMM : EMU_RDX;
		op->imm = emit_is_imm(e, 1) ? emit_imm(e, 1) & 0xff : 0;
		break;
	case SYS_OUT: /* OUT port, accumulator */
		op->base = (uint8_t)emit_lg(e, 1);
		op->src = emit_is_imm(e, 0) ? EMIT_IMM : EMU_RDX;
		op->imm = emit_is_imm(e, 0) ? emit_imm(e, 0) & 0xff : 0;
		break;
	case SYS_INT:
		op->imm = emit_imm(e, 0) & 0xff;
		op->idx = 0;
		break;
	case SYS_INT3:
		op->imm = EMU_BP;
		op->idx = 1;
		break;
	}
	return true;
}
