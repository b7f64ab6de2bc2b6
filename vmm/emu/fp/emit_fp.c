// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops, continued: x87, and the instructions for the state of x87 and
 * SSE. All of these become helper calls. A memory operand's address is in EMU_TEA.
 */
#include "vmm/emu/cpu/emit.h"

struct emu_op *emit_fp_helper(struct emit *e, emu_op_fn *fn, unsigned int mem, unsigned int bytes,
			      unsigned int flags)
{
	bool is_mem = mem != EMIT_NO_MEM;
	struct emu_op *op;

	if (is_mem)
		emit_tea(e, mem);
	op = emit_helper(e, fn, is_mem ? bytes : 0, flags);
	if (is_mem && e->zo[mem].mem.segment == ZYDIS_REGISTER_SS)
		op->flags |= EMU_OPF_SS;
	if (e->zi->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX)
		op->flags |= EMU_OPF_VEX;
	return op;
}

static unsigned int mem_operand(const struct emit *e)
{
	for (unsigned int i = 0; i < e->zi->operand_count_visible; i++)
		if (emit_is_mem(e, i))
			return i;
	return EMIT_NO_MEM;
}

/* Returns the kind of a control instruction (x87.c, SDM vol. 1, 8.3.11), or -1. */
static int control(unsigned int opcode, unsigned int modrm)
{
	static const int8_t d9[8] = {-1, -1, -1, -1, X87_LDENV, X87_LDCW, X87_STENV, X87_STCW},
			    dd[8] = {-1, -1, -1, -1, X87_RSTOR, -1, X87_SAVE, X87_STSW};

	if (modrm < 0xc0)
		return opcode == 0xd9	? d9[modrm >> 3 & 7]
		       : opcode == 0xdd ? dd[modrm >> 3 & 7]
					: -1;
	if (opcode == 0xdb && modrm == 0xe2)
		return X87_CLEX;
	if (opcode == 0xdb && modrm == 0xe3)
		return X87_INIT;
	return opcode == 0xdf && modrm == 0xe0 ? X87_STSW_AX : -1;
}

/* Returns true if the instruction writes its memory operand. */
static bool stores(const struct emit *e, unsigned int mem)
{
	return mem != EMIT_NO_MEM && (e->zo[mem].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
}

bool emit_x87(struct emit *e, unsigned int long_)
{
	unsigned int opcode = e->zi->opcode, mem = mem_operand(e);
	unsigned int modrm = (unsigned int)e->zi->raw.modrm.mod << 6 |
			     (unsigned int)e->zi->raw.modrm.reg << 3 | e->zi->raw.modrm.rm;
	unsigned int bytes = mem == EMIT_NO_MEM ? 0 : e->zo[mem].size / 8u, flags = 0;
	int what = control(opcode, modrm);
	struct emu_op *op;

	if (e->zi->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY || opcode < 0xd8 || opcode > 0xdf)
		return false;
	if (what >= 0) {
		if (what == X87_LDCW || what == X87_LDENV || what == X87_RSTOR)
			flags |= X87_WAIT;
		if (what >= X87_LDENV && e->zi->operand_width == 16)
			flags |= X87_SMALL;
		if (what == X87_LDENV || what == X87_STENV)
			bytes = flags & X87_SMALL ? 14 : 28;
		if (what == X87_RSTOR || what == X87_SAVE)
			bytes = flags & X87_SMALL ? 94 : 108;
		op = emit_fp_helper(e, emu_help_x87_control, mem, bytes, flags);
		op->scale = (uint8_t)what;
	} else {
		flags = (stores(e, mem) ? X87_STORE : 0) | (long_ ? X87_LONG : 0);
		/* FCOMI, FCOMIP, FUCOMI, FUCOMIP */
		if ((opcode == 0xdb || opcode == 0xdf) && modrm >= 0xe8 && modrm < 0xf8) {
			flags |= X87_FLAGS;
			e->fc = EMU_FC_UNKNOWN;
		}
		op = emit_fp_helper(e, emu_help_x87, mem, bytes, flags);
		op->scale = mem == EMIT_NO_MEM
				    ? 0
				    : (uint8_t)(e->zo[mem].mem.segment - ZYDIS_REGISTER_ES);
	}
	op->dst = (uint8_t)(opcode - 0xd8);
	op->src = (uint8_t)modrm;
	op->imm = (int64_t)e->rip;
	return true;
}

bool emit_fwait(struct emit *e, unsigned int arg)
{
	emit_helper(e, emu_help_fwait, 0, 0);
	return true;
}

bool emit_fxstate(struct emit *e, unsigned int which)
{
	bool wide = e->zi->mnemonic == ZYDIS_MNEMONIC_FXSAVE64 ||
		    e->zi->mnemonic == ZYDIS_MNEMONIC_FXRSTOR64;

	switch (which) {
	case FX_SAVE:
		emit_fp_helper(e, emu_help_fxsave, 0, wide, 0);
		break;
	case FX_RSTOR:
		emit_fp_helper(e, emu_help_fxrstor, 0, wide, 0);
		break;
	default:
		emit_fp_helper(e, emu_help_mxcsr, 0, which == FX_STMXCSR, 0);
	}
	return true;
}

bool emit_xsave(struct emit *e, unsigned int which)
{
	bool wide = e->zi->operand_width == 64;

	if (which & XS_RSTOR)
		emit_fp_helper(e, emu_help_xrstor, 0, wide, which & ~(unsigned int)XS_RSTOR);
	else
		emit_fp_helper(e, emu_help_xsave, 0, wide, which);
	return true;
}

bool emit_clflush(struct emit *e, unsigned int arg)
{
	emit_fp_helper(e, emu_help_clflush, 0, 1, 0);
	return true;
}

bool emit_emms(struct emit *e, unsigned int arg)
{
	emit_helper(e, emu_help_emms, 0, 0);
	return true;
}
