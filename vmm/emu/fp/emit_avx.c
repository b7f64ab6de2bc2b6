// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops, continued: AVX, AVX2, FMA and F16C. Each becomes a call of a
 * helper in avx.c, avx_perm.c or avx_mem.c. Those without a vector as destination differ from SSE
 * only in the check for availability, so emit_simd.c has them.
 */
#include "vmm/emu/fp/avx.h"

static unsigned int emit_avx_class(const struct emit *e, unsigned int i)
{
	return emit_is_reg(e, i) ? ZydisRegisterGetClass(e->zo[i].reg.value)
				 : ZYDIS_REGCLASS_INVALID;
}

/* The number of register operand @i, of any class. */
static uint8_t emit_avx_number(const struct emit *e, unsigned int i)
{
	unsigned int class = emit_avx_class(e, i);

	return class == ZYDIS_REGCLASS_XMM || class == ZYDIS_REGCLASS_YMM
		       ? (uint8_t)ZydisRegisterGetId(e->zo[i].reg.value)
		       : (uint8_t)emit_reg(e, i);
}

/* op->scale */
static uint8_t emit_avx_scale(const struct emit *e)
{
	uint8_t scale = 0;

	for (unsigned int i = 0; i < e->zi->operand_count_visible; i++) {
		if (emit_avx_class(e, i) == ZYDIS_REGCLASS_YMM || e->zo[i].size == 256)
			scale |= AVX_256;
		if (e->zo[i].encoding == ZYDIS_OPERAND_ENCODING_NDSNDD)
			scale |= emit_avx_number(e, i);
	}
	return scale;
}

/* The operand that ModRM.rm encodes. */
static unsigned int emit_avx_rm(const struct emit *e)
{
	unsigned int i = 0;

	while (e->zo[i].encoding != ZYDIS_OPERAND_ENCODING_MODRM_RM)
		i++;
	return i;
}

/* The immediate byte, or 0. */
static unsigned int emit_avx_imm(const struct emit *e)
{
	unsigned int n = e->zi->operand_count_visible;

	return n && emit_is_imm(e, n - 1) ? (unsigned int)emit_imm(e, n - 1) & 0xff : 0;
}

/* Call @fn with ModRM.rm as second operand. op->dst is the first visible operand. */
static struct emu_op *emit_avx_op(struct emit *e, emu_op_fn *fn, unsigned int flags)
{
	unsigned int rm = emit_avx_rm(e);
	bool mem = emit_is_mem(e, rm);
	struct emu_op *op =
		emit_fp_helper(e, fn, mem ? rm : EMIT_NO_MEM, mem ? e->zo[rm].size / 8u : 0, flags);

	op->dst = emit_is_reg(e, 0) ? emit_avx_number(e, 0) : 0;
	op->src = mem ? 0 : emit_avx_number(e, rm);
	op->scale = emit_avx_scale(e);
	return op;
}

static bool emit_avx_vex(const struct emit *e)
{
	return e->zi->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX;
}

/* A shift by a constant: the stub of the shift by a register. */
static bool emit_avx_shift_imm(struct emit *e)
{
	unsigned int digit = e->zi->raw.modrm.reg, opcode = e->zi->opcode - 0x71;
	unsigned int count = emit_avx_imm(e);
	struct emu_op *op = emit_fp_helper(e, emu_help_avx, EMIT_NO_MEM, 0, AVX_COUNT);
	const uint8_t *stub = emu_simd_stub(SIMD_66, (digit == 2   ? 0xd1
						      : digit == 4 ? 0xe1
								   : 0xf1) +
							     opcode);

	op->dst = emit_avx_number(e, 0);
	op->src = (uint8_t)count;
	/* VEX.vvvv is the destination, and the source is the first operand of the stub. */
	op->scale = (emit_avx_scale(e) & AVX_256) | emit_avx_number(e, 1);
	op->imm = (int64_t)(uintptr_t)stub;
	return true;
}

/* The stub of the SSE instruction with this opcode, and what to add for lane 1. NULL: none. */
static const uint8_t *emit_avx_stub(const struct emit *e, int64_t *lane1)
{
	unsigned int imm = emit_avx_imm(e), opcode = e->zi->opcode, imm1 = imm;
	unsigned int prefix = e->zi->raw.vex.pp;

	switch (e->zi->opcode_map) {
	case ZYDIS_OPCODE_MAP_0F:
		if (opcode == 0xc6 && prefix == SIMD_66)
			imm1 = imm >> 2;
		*lane1 = (int64_t)imm1 - imm;
		return emit_is_imm(e, e->zi->operand_count_visible - 1u)
			       ? emu_imm_stub(prefix, opcode, imm)
			       : emu_simd_stub(prefix, opcode);
	case ZYDIS_OPCODE_MAP_0F38:
		return emu_stub_38 + (prefix * 256 + opcode) * 8;
	case ZYDIS_OPCODE_MAP_0F3A:
		if (e->zi->mnemonic == ZYDIS_MNEMONIC_VINSERTPS && emit_is_mem(e, emit_avx_rm(e)))
			imm &= 0x3f;
		imm1 = opcode == 0x0c	? imm >> 4
		       : opcode == 0x0d ? imm >> 2
		       : opcode == 0x42 ? imm >> 3
					: imm;
		*lane1 = (int64_t)imm1 - imm;
		return emu_3a_stub(prefix, opcode, false, imm);
	default:
		return NULL;
	}
}

bool emit_avx(struct emit *e, unsigned int kind)
{
	static const uint8_t flags[] = {
		[VEX_PLAIN] = 0,
		[VEX_ARITH] = SIMD_FP,
		[VEX_LONG] = SIMD_FP | SIMD_LONG,
		[VEX_COMPARE] = SIMD_FP,
		[VEX_SHIFT] = AVX_SHARED,
		[VEX_WIDEN_2] = AVX_WIDEN(1),
		[VEX_WIDEN_4] = AVX_WIDEN(2),
		[VEX_WIDEN_8] = AVX_WIDEN(3),
		[VEX_WIDEN_FP] = SIMD_FP | AVX_WIDEN(1),
		[VEX_NARROW] = SIMD_FP | AVX_NARROW,
		[VEX_FMA] = SIMD_FP | AVX_THREE,
		[VEX_PH2PS] = SIMD_FP | AVX_WIDEN(1),
	};
	unsigned int opcode = e->zi->opcode;
	int64_t lane1 = 0;
	const uint8_t *stub;

	if (!emit_avx_vex(e))
		return false;
	if (kind == VEX_SHIFT && emit_is_imm(e, 2))
		return emit_avx_shift_imm(e);
	if (kind == VEX_COMPARE)
		stub = emu_stub_cmp + (e->zi->raw.vex.pp * 32u + (emit_avx_imm(e) & 31)) * 8;
	else if (kind == VEX_FMA)
		stub = emu_stub_fma + (e->zi->raw.vex.W * 42u + opcode - 0x96) * 8;
	else if (kind == VEX_PH2PS)
		stub = emu_stub_ph2ps;
	else
		stub = emit_avx_stub(e, &lane1);
	if (!stub)
		return false;
	emit_avx_op(e, emu_help_avx, flags[kind])->imm =
		(int64_t)((uint64_t)(uintptr_t)stub | (uint64_t)lane1 << AVX_LANE1);
	return true;
}

/* VPINSRx, VCVTSI2SS, VCVTSI2SD. @flags: SIMD_FP or 0. */
bool emit_avx_gpr(struct emit *e, unsigned int flags)
{
	unsigned int opcode = e->zi->opcode, prefix = e->zi->raw.vex.pp, imm = emit_avx_imm(e);
	bool wide = e->zi->raw.vex.W;
	const uint8_t *stub;

	if (!emit_avx_vex(e))
		return false;
	if (e->zi->opcode_map == ZYDIS_OPCODE_MAP_0F3A)
		stub = emu_3a_stub(prefix, opcode, wide, imm);
	else if (flags)
		stub = wide ? emu_wide_stub(prefix, opcode) : emu_simd_stub(prefix, opcode);
	else
		stub = emu_imm_stub(prefix, opcode, imm);
	if (!stub)
		return false;
	emit_avx_op(e, emu_help_avx_gpr, flags)->imm = (int64_t)(uintptr_t)stub;
	return true;
}

bool emit_avx_ps2ph(struct emit *e, unsigned int arg)
{
	struct emu_op *op;

	if (!emit_avx_vex(e))
		return false;
	op = emit_avx_op(e, emu_help_avx_ps2ph, SIMD_FP);
	op->src = emit_avx_number(e, 1);
	op->imm = (int64_t)(uintptr_t)(emu_stub_ps2ph + (emit_avx_imm(e) & 7) * 8);
	return true;
}

bool emit_avx_bits(struct emit *e, unsigned int kind)
{
	if (!emit_avx_vex(e))
		return false;
	emit_avx_op(e, emu_help_avx_bits, kind);
	if (!(kind & AVX_TO_GPR))
		e->fc = EMU_FC_UNKNOWN;
	return true;
}

bool emit_avx_perm(struct emit *e, unsigned int kind)
{
	struct emu_op *op;
	unsigned int n = e->zi->operand_count_visible;

	if (!emit_avx_vex(e))
		return false;
	if ((kind == PERM_PS || kind == PERM_PD) && !emit_is_imm(e, n - 1))
		kind += PERM_PS_VAR - PERM_PS;
	op = emit_avx_op(e, emu_help_avx_perm, kind);
	op->imm = e->zo[n - 1].encoding == ZYDIS_OPERAND_ENCODING_IS4
			  ? emit_avx_number(e, n - 1) << 4
			  : (int64_t)emit_avx_imm(e);
	return true;
}

bool emit_avx_extract(struct emit *e, unsigned int arg)
{
	bool mem = emit_is_mem(e, 0);
	struct emu_op *op;

	if (!emit_avx_vex(e))
		return false;
	op = emit_avx_op(e, mem ? emu_help_avx_extract : emu_help_avx_perm, mem ? 0 : PERM_EXTRACT);
	op->src = emit_avx_number(e, 1);
	op->imm = emit_avx_imm(e);
	return true;
}

bool emit_avx_zero(struct emit *e, unsigned int all)
{
	if (!emit_avx_vex(e))
		return false;
	emit_fp_helper(e, emu_help_avx_zero, EMIT_NO_MEM, 0, 0)->scale = (uint8_t)all;
	return true;
}

/* @bytes of an element. */
bool emit_avx_maskmov(struct emit *e, unsigned int bytes)
{
	bool store = emit_is_mem(e, 0);
	struct emu_op *op;

	if (!emit_avx_vex(e))
		return false;
	op = emit_avx_op(e, emu_help_avx_maskmov, bytes | (store ? AVX_STORE : 0));
	op->dst = emit_avx_number(e, store ? 2 : 0);
	return true;
}

/* @kind: log2 of the bytes of an index, and of an element. */
bool emit_avx_gather(struct emit *e, unsigned int kind)
{
	const ZydisDecodedOperandMem *z = &e->zo[1].mem;
	unsigned int seg = emit_seg(e, 1), base = emu_gpr(z->base);
	unsigned int scale = z->scale == 8 ? 3 : z->scale == 4 ? 2 : z->scale == 2 ? 1 : 0;
	struct emu_op *op;

	if (!emit_avx_vex(e) || !emit_is_mem(e, 1))
		return false;
	op = emit_add(e, EMU_OP_LEA64X);
	op->dst = EMU_TEA;
	op->base = (uint8_t)base;
	op->idx = (uint8_t)seg;
	op->disp = z->disp.has_displacement ? z->disp.value : 0;
	op = emit_helper(e, emu_help_avx_gather, 0, seg);
	op->dst = emit_avx_number(e, 0);
	op->scale = (uint8_t)(emit_avx_number(e, 2) | (e->zi->raw.vex.L ? AVX_256 : 0));
	op->imm = GATHER((unsigned int)ZydisRegisterGetId(z->index), scale, kind & 3, kind >> 2);
	op->flags = (uint8_t)((z->segment == ZYDIS_REGISTER_SS ? EMU_OPF_SS : 0) |
			      (e->zi->address_width == 32 ? EMU_OPF_A32 : 0));
	return true;
}

/* ---- moves ---- */

static bool emit_avx_reg_mov(struct emit *e, unsigned int kind)
{
	unsigned int n = e->zi->operand_count_visible, to = emit_avx_class(e, 0);
	struct emu_op *op;

	if (to != ZYDIS_REGCLASS_XMM && to != ZYDIS_REGCLASS_YMM) {
		op = emit_fp_helper(e, emu_help_simd_mov, EMIT_NO_MEM, 0, 0);
		op->scale = emit_lg(e, 0) == 3 ? MOV_TO64 : MOV_TO32;
		op->dst = (uint8_t)emit_reg(e, 0);
		op->src = emit_avx_number(e, 1);
		return true;
	}
	if (kind == MOV_ZERO64 && emit_avx_class(e, 1) != ZYDIS_REGCLASS_XMM)
		kind = emit_lg(e, 1) == 3 ? MOV_FROM64 : MOV_FROM32;
	op = emit_fp_helper(e, emu_help_avx_mov, EMIT_NO_MEM, 0, kind);
	op->dst = emit_avx_number(e, 0);
	op->src = emit_avx_number(e, n - 1);
	op->scale = emit_avx_scale(e);
	return true;
}

bool emit_avx_mov(struct emit *e, unsigned int arg)
{
	unsigned int n = e->zi->operand_count_visible, flags = 0;
	bool store = emit_is_mem(e, 0);
	struct emu_op *op;

	if (!emit_avx_vex(e))
		return false;
	if (!store && !emit_is_mem(e, n - 1))
		return emit_avx_reg_mov(e, arg & 15);
	if (arg & MOVE_ALIGNED)
		flags |= SIMD_ALIGN | SIMD_STRICT;
	if (arg & MOVE_HIGH)
		flags |= SIMD_RIGHT;
	else if (!store && !(arg & MOVE_LOW))
		flags |= SIMD_ZERO;
	op = emit_avx_op(e, store ? emu_help_avx_store : emu_help_avx_load, flags);
	if (store)
		op->src = emit_avx_number(e, n - 1);
	return true;
}
