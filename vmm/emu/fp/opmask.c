// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AVX-512: the instructions on opmask registers k0 to k7, which have VEX encodings (SDM vol. 2, 2.6
 * and the pages of KADDW and following). Emitter and helper; isa_avx.c has the rows.
 */
#include "vmm/emu/fp/avx.h"

static bool opmask_is_k(const struct emit *e, unsigned int i)
{
	return emit_is_reg(e, i) &&
	       ZydisRegisterGetClass(e->zo[i].reg.value) == ZYDIS_REGCLASS_MASK;
}

static uint8_t opmask_number(const struct emit *e, unsigned int i)
{
	return opmask_is_k(e, i) ? (uint8_t)ZydisRegisterGetId(e->zo[i].reg.value)
				 : (uint8_t)emit_reg(e, i);
}

/* @arg: OPMASK_* and the log2 of the operands' bytes. */
bool emit_opmask(struct emit *e, unsigned int arg)
{
	unsigned int kind = arg & ~3u, n = e->zi->operand_count_visible, mem = EMIT_NO_MEM;
	struct emu_op *op;

	for (unsigned int i = 0; i < n; i++)
		if (emit_is_mem(e, i))
			mem = i;
	if (kind == OPMASK_MOV && mem != EMIT_NO_MEM)
		kind = mem ? OPMASK_LOAD : OPMASK_STORE;
	else if (kind == OPMASK_MOV && !opmask_is_k(e, 0))
		kind = OPMASK_TO_R;
	else if (kind == OPMASK_MOV && !opmask_is_k(e, 1))
		kind = OPMASK_FROM_R;
	op = emit_fp_helper(e, emu_help_opmask, mem, mem == EMIT_NO_MEM ? 0 : 1u << (arg & 3), 0);
	op->scale = (uint8_t)(kind | (arg & 3));
	op->dst = mem == 0 ? 0 : opmask_number(e, 0);
	if (emit_is_imm(e, n - 1)) {
		op->src = opmask_number(e, 1);
		op->imm = emit_imm(e, n - 1) & 0xff;
	} else {
		op->src = mem == n - 1 ? 0 : opmask_number(e, n - 1);
		op->imm = n == 3 ? opmask_number(e, 1) : 0;
	}
	if (kind == OPMASK_TEST || kind == OPMASK_ORTEST)
		e->fc = EMU_FC_UNKNOWN;
	return true;
}

static uint64_t opmask_result(unsigned int kind, unsigned int bits, uint64_t a, uint64_t b,
			      unsigned int count)
{
	switch (kind) {
	case OPMASK_AND:
		return a & b;
	case OPMASK_ANDN:
		return ~a & b;
	case OPMASK_OR:
		return a | b;
	case OPMASK_XOR:
		return a ^ b;
	case OPMASK_XNOR:
		return ~(a ^ b);
	case OPMASK_NOT:
		return ~b;
	case OPMASK_ADD:
		return a + b;
	case OPMASK_UNPACK: /* the halves of @bits */
		return a << bits / 2 | (b & (~0ULL >> (64 - bits / 2)));
	case OPMASK_SHIFTL:
		return count < bits ? b << count : 0;
	case OPMASK_SHIFTR:
		return count < bits ? b >> count : 0;
	default:
		return b;
	}
}

/* op->scale: OPMASK_* and log2 of the bytes; op->dst and op->src: registers; op->imm: VEX.vvvv, or
 * the count of a shift. */
int emu_help_opmask(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int kind = op->scale & ~3u, bits = 8u << (op->scale & 3);
	uint64_t mask = ~0ULL >> (64 - bits), *k = v->fpu.k, a, b = 0;

	if (emu_fp_avx512(v))
		return 1;
	if (kind == OPMASK_STORE)
		return emu_simd_store(v, op, &k[op->src]);
	if (kind == OPMASK_LOAD && emu_simd_load(v, op, &b))
		return 1;
	if (kind == OPMASK_FROM_R)
		b = v->r[op->src];
	else if (kind != OPMASK_LOAD)
		b = k[op->src];
	b &= mask;
	if (kind == OPMASK_TO_R) {
		v->r[op->dst] = b;
	} else if (kind == OPMASK_TEST || kind == OPMASK_ORTEST) {
		bool or = kind == OPMASK_ORTEST;

		a = k[op->dst] & mask;
		emu_fl_raw(v, ((or ? a | b : a & b) ? 0 : EMU_ZF) |
				      ((or ? (a | b) == mask : !(~a & b)) ? EMU_CF : 0));
	} else {
		a = k[op->imm & 7] & mask;
		k[op->dst] = opmask_result(kind, bits, a, b, (unsigned int)op->imm) & mask;
	}
	return 0;
}
