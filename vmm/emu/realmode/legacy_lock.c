// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Locked instructions of 16- and 32-bit code, see legacy.h: processors that start at the same time
 * use them to wait for each other, to count themselves and to claim their stacks. They share the
 * helpers of 64-bit mode, so they are atomic against those. legacy_insn.c calls this file.
 */
#include "vmm/emu/realmode/legacy.h"

/* The kind of emu_help_locked() for @m, or -1. */
static int kind_of(ZydisMnemonic m)
{
	static const struct {
		ZydisMnemonic mnemonic;
		int kind;
	} kinds[] = {{ZYDIS_MNEMONIC_ADD, ALU_ADD},	      {ZYDIS_MNEMONIC_OR, ALU_OR},
		     {ZYDIS_MNEMONIC_ADC, ALU_ADC},	      {ZYDIS_MNEMONIC_SBB, ALU_SBB},
		     {ZYDIS_MNEMONIC_AND, ALU_AND},	      {ZYDIS_MNEMONIC_SUB, ALU_SUB},
		     {ZYDIS_MNEMONIC_XOR, ALU_XOR},	      {ZYDIS_MNEMONIC_INC, LOCKED_INC},
		     {ZYDIS_MNEMONIC_DEC, LOCKED_DEC},	      {ZYDIS_MNEMONIC_NEG, LOCKED_NEG},
		     {ZYDIS_MNEMONIC_NOT, LOCKED_NOT},	      {ZYDIS_MNEMONIC_BTS, LOCKED_BTS},
		     {ZYDIS_MNEMONIC_BTR, LOCKED_BTR},	      {ZYDIS_MNEMONIC_BTC, LOCKED_BTC},
		     {ZYDIS_MNEMONIC_XADD, LOCKED_XADD},      {ZYDIS_MNEMONIC_XCHG, LOCKED_XCHG},
		     {ZYDIS_MNEMONIC_CMPXCHG, LOCKED_CMPXCHG}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].mnemonic == m)
			return kinds[i].kind;
	return -1;
}

/* Set EMU_TEA to the linear address of the memory operand, plus @skip bytes. Traps. */
static int legacy_lock_address(struct legacy *l, unsigned int bytes, int64_t skip)
{
	const ZydisDecodedOperandMem *m = &l->zo[0].mem;
	uint64_t mask = l->zi->address_width == 16 ? 0xffff : 0xffffffff;
	uint64_t off = (legacy_address(l, m) + (uint64_t)skip) & mask;

	return legacy_linear(l->v, legacy_segment(l->v, m->segment), off, bytes, true,
			     &l->v->r[EMU_TEA]);
}

int legacy_locked(struct legacy *l)
{
	const ZydisDecodedOperand *with = &l->zo[1];
	int kind = kind_of(l->zi->mnemonic);
	unsigned int n = l->zo[0].size / 8u;
	struct emu_op op = {.base = (uint8_t)__builtin_ctz(n)};
	struct emu_vcpu *v = l->v;
	int64_t skip = 0;

	if (l->zi->mnemonic == ZYDIS_MNEMONIC_CMPXCHG8B) {
		op.base = 2; /* log2 of half the operand */
		return legacy_lock_address(l, n, 0) || emu_help_cmpxchgb(v, &op);
	}
	if (kind < 0)
		return -1;
	op.idx = (uint8_t)kind;
	op.src = (uint8_t)emit_t0(op.base);
	if (l->zi->operand_count_visible > 1 && with->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		v->r[EMU_T0] = with->imm.value.u;
	} else if (l->zi->operand_count_visible > 1) {
		op.src = (uint8_t)emu_gpr(with->reg.value);
		/* A bit number in a register addresses memory beyond the operand (SDM vol. 2, BTS).
		 */
		if (kind == LOCKED_BTS || kind == LOCKED_BTR || kind == LOCKED_BTC)
			skip = ((int64_t)emu_sext(emu_rd(v, op.src, n), op.base) >> (3 + op.base)) *
			       n;
	}
	return legacy_lock_address(l, n, skip) || emu_help_locked(v, &op);
}
