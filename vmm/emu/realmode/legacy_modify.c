// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instructions of 16- and 32-bit code that modify an operand, plain and locked, see legacy.h.
 * Processors that start at the same time use locked ones to wait for each other, to count
 * themselves and to claim their stacks. They share the helpers of 64-bit mode (cpu/atomic.c), so
 * they are atomic against those.
 */
#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/realmode/legacy.h"

static bool modify_is_bit(unsigned int kind)
{
	return kind >= LOCKED_BTS && kind <= LOCKED_BTC;
}

/* A bit number in a register addresses memory beyond the operand: only with LOCK. */
int legacy_modify(struct legacy *l)
{
	struct emu_op op = {.base = (uint8_t)legacy_insn_lg(l, 0), .idx = l->row->arg & 63};
	bool two = l->zi->operand_count_visible > 1,
	     reg = two && l->zo[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
	struct emu_vcpu *v = l->v;
	uint64_t a, b = 0;

	if (l->row->arg & LEGACY_LOCKED ||
	    (modify_is_bit(op.idx) && reg && l->zo[0].type == ZYDIS_OPERAND_TYPE_MEMORY))
		return -1;
	if (reg)
		op.src = (uint8_t)emu_gpr(l->zo[1].reg.value);
	if (legacy_insn_get(l, 0, &a) || (two && legacy_insn_get(l, 1, &b)))
		return 1;
	if (!(l->row->arg & LEGACY_TEST) && legacy_insn_put(l, 0, emu_atomic_result(v, &op, a, b)))
		return 1;
	emu_atomic_finish(v, &op, a, b);
	return 0;
}

int legacy_shift(struct legacy *l)
{
	bool left = l->zi->mnemonic == ZYDIS_MNEMONIC_SHL;
	unsigned int lg = legacy_insn_lg(l, 0), bits = 8u << lg;
	uint64_t a, by, cf;

	if (legacy_insn_get(l, 0, &a) || legacy_insn_get(l, 1, &by))
		return 1;
	by &= 31;
	if (!by)
		return 0;
	if (l->zi->mnemonic == ZYDIS_MNEMONIC_SAR)
		a = emu_sext(a, lg); /* and is 64 bits wide */
	else if (by > bits)
		return -1; /* the carry is undefined */
	cf = left ? a >> (bits - by) & 1 : a >> (by - 1) & 1;
	a = left ? a << by : (uint64_t)((int64_t)a >> by);
	if (legacy_insn_put(l, 0, a))
		return 1;
	emu_fl_set(l->v, left ? EMU_FK(SHL, lg) : EMU_FK(SHR, lg), emu_sext(a, lg), cf);
	return 0;
}

/* Set EMU_TEA to the linear address of the memory operand, plus @skip bytes. Traps. */
static int modify_address(struct legacy *l, unsigned int bytes, int64_t skip)
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
	unsigned int kind = l->row->arg & ~(LEGACY_TEST | LEGACY_LOCKED);
	unsigned int n = l->zo[0].size / 8u;
	struct emu_op op = {.base = (uint8_t)__builtin_ctz(n)};
	struct emu_vcpu *v = l->v;
	int64_t skip = 0;

	if (l->row->fn != legacy_modify)
		return -1;
	if (kind == LEGACY_CMPXCHG8B) {
		op.base = 2; /* log2 of half the operand */
		return modify_address(l, n, 0) || emu_help_cmpxchgb(v, &op);
	}
	op.idx = (uint8_t)kind;
	op.src = (uint8_t)emit_t0(op.base);
	if (l->zi->operand_count_visible > 1 && with->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		v->r[EMU_T0] = with->imm.value.u;
	} else if (l->zi->operand_count_visible > 1) {
		op.src = (uint8_t)emu_gpr(with->reg.value);
		/* A bit number in a register addresses memory beyond the operand (SDM vol. 2, BTS).
		 */
		if (modify_is_bit(kind))
			skip = ((int64_t)emu_sext(emu_rd(v, op.src, n), op.base) >> (3 + op.base)) *
			       n;
	}
	return modify_address(l, n, skip) || emu_help_locked(v, &op);
}
