// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * BMI1 and BMI2 on general registers, which have VEX encodings, and MOVBE: their emitters, and the
 * helpers that these emit. The table in isa.c names the emitters.
 */
#include <immintrin.h>

#include "vmm/emu/cpu/emit.h"

/* The operand that may be in memory is op->src; the one that VEX.vvvv encodes is op->scale. */
bool emit_bmi(struct emit *e, unsigned int kind)
{
	unsigned int rm, vvvv, lg = emit_lg(e, 0);
	struct emu_op *op;

	if (e->zi->encoding != ZYDIS_INSTRUCTION_ENCODING_VEX)
		return false;
	rm = kind == BMI_ANDN || kind == BMI_MULX || kind == BMI_PDEP || kind == BMI_PEXT ? 2 : 1;
	vvvv = BMI_IS_BLS(kind) ? 0 : rm == 2 ? 1 : 2;
	rm = emit_src(e, rm);
	op = emit_helper(e, emu_help_bmi, lg, kind);
	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)rm;
	if (kind == BMI_RORX)
		op->imm = emit_imm(e, 2) & 0xff;
	else
		op->scale = (uint8_t)emit_reg(e, vvvv);
	if (kind <= BMI_BZHI)
		e->fc = EMU_FC_UNKNOWN;
	return true;
}

/* Flags that the manuals leave undefined: docs/internals/emulator.md, "Undefined flags". */
static void bmi_flags(struct emu_vcpu *v, unsigned int lg, uint64_t result, bool carry)
{
	emu_fl_raw(v, emu_fl_zsp(emu_sext(result, lg)) | (carry ? EMU_CF : 0));
}

__attribute__((target("bmi2"))) static uint64_t bmi_pdep(uint64_t x, uint64_t mask)
{
	return _pdep_u64(x, mask);
}

__attribute__((target("bmi2"))) static uint64_t bmi_pext(uint64_t x, uint64_t mask)
{
	return _pext_u64(x, mask);
}

static uint64_t bmi_extract(uint64_t x, uint64_t control)
{
	unsigned int start = control & 0xff, len = control >> 8 & 0xff;

	x = start < 64 ? x >> start : 0;
	return len < 64 ? x & ((1ULL << len) - 1) : x;
}

/* op->base: log2 of the operands' bytes, 2 or 3; op->idx: BMI_*. */
int emu_help_bmi(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base, bits = 8u << lg, n;
	uint64_t x = emu_zext(v->r[op->src], lg), y = emu_zext(v->r[op->scale], lg), r = 0;

	n = (unsigned int)y & (bits - 1);
	switch (op->idx) {
	case BMI_ANDN:
		r = ~y & x;
		bmi_flags(v, lg, r, false);
		break;
	case BMI_BEXTR:
		r = bmi_extract(x, y);
		emu_fl_raw(v, (emu_fl_zsp(r) & ~EMU_SF) | EMU_AF);
		break;
	case BMI_BLSI:
		r = x & -x;
		bmi_flags(v, lg, r, x);
		break;
	case BMI_BLSMSK:
		r = x ^ (x - 1);
		bmi_flags(v, lg, r, !x);
		break;
	case BMI_BLSR:
		r = x & (x - 1);
		bmi_flags(v, lg, r, !x);
		break;
	case BMI_BZHI:
		n = y & 0xff;
		r = n < bits ? x & ((1ULL << n) - 1) : x;
		bmi_flags(v, lg, r, n >= bits);
		break;
	case BMI_MULX: { /* equal destinations hold the upper half */
		unsigned __int128 p = (unsigned __int128)x * emu_zext(v->r[EMU_RDX], lg);

		emu_wr(v, op->scale, bits / 8, (uint64_t)p);
		r = (uint64_t)(p >> bits);
		break;
	}
	case BMI_PDEP:
		r = bmi_pdep(y, x);
		break;
	case BMI_PEXT:
		r = bmi_pext(y, x);
		break;
	case BMI_RORX:
		n = (unsigned int)op->imm & (bits - 1);
		r = n ? x >> n | x << (bits - n) : x;
		break;
	case BMI_SARX:
		r = (uint64_t)((int64_t)emu_sext(x, lg) >> n);
		break;
	case BMI_SHLX:
		r = x << n;
		break;
	case BMI_SHRX:
		r = x >> n;
		break;
	}
	emu_wr(v, op->dst, bits / 8, r);
	return 0;
}

/* MOVBE is a move and a BSWAP, which has no form for 16 bits. */
bool emit_movbe(struct emit *e, unsigned int arg)
{
	bool store = emit_is_mem(e, 0);
	unsigned int lg = emit_lg(e, 0), reg = emit_reg(e, store), to = store ? EMU_T0 : reg;
	struct emit_mem m;
	struct emu_op *op;

	emit_mem(e, !store, &m);
	if (store) {
		op = emit_add(e, EMU_OP_MOV_RR64);
		op->dst = EMU_T0;
		op->src = (uint8_t)reg;
	} else {
		emit_load(e, &m, lg, to);
	}
	op = lg == 1 ? emit_helper(e, emu_help_movbe16, 0, 0)
		     : emit_add(e, EMU_OP_BSWAP32 + (lg - 2));
	op->dst = (uint8_t)to;
	if (store)
		emit_store(e, &m, lg, EMU_T0);
	return true;
}

int emu_help_movbe16(struct emu_vcpu *v, const struct emu_op *op)
{
	emu_wr(v, op->dst, 2, __builtin_bswap16((uint16_t)v->r[op->dst]));
	return 0;
}
