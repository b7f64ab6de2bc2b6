// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops, continued: MMX, and SSE to SSE4.2. An instruction becomes a
 * call of a helper in simd.c or mmx.c, with the stub that computes its result.
 */
#include "vmm/emu/cpu/emit.h"

static bool is_class(const struct emit *e, unsigned int i, ZydisRegisterClass class)
{
	return i < e->zi->operand_count_visible && emit_is_reg(e, i) &&
	       ZydisRegisterGetClass(e->zo[i].reg.value) == class;
}

static bool is_xmm(const struct emit *e, unsigned int i)
{
	return is_class(e, i, ZYDIS_REGCLASS_XMM);
}

static bool is_mmx(const struct emit *e, unsigned int i)
{
	return is_class(e, i, ZYDIS_REGCLASS_MMX);
}

/* The number of a register of any class. */
static unsigned int emit_simd_number(const struct emit *e, unsigned int i)
{
	if (is_xmm(e, i) || is_mmx(e, i))
		return (unsigned int)ZydisRegisterGetId(e->zo[i].reg.value);
	return emit_reg(e, i);
}

/* The mandatory prefix: the last F2 or F3, else 66 (SDM vol. 2, 2.1.2). */
static unsigned int prefix_of(const struct emit *e)
{
	if (e->zi->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX)
		return e->zi->raw.vex.pp;
	for (unsigned int i = 0; i < e->zi->raw.prefix_count; i++)
		if (e->zi->raw.prefixes[i].type == ZYDIS_PREFIX_TYPE_MANDATORY)
			switch (e->zi->raw.prefixes[i].value) {
			case 0x66:
				return SIMD_66;
			case 0xf3:
				return SIMD_F3;
			case 0xf2:
				return SIMD_F2;
			}
	return SIMD_NP;
}

static unsigned int emit_simd_bytes_of(const struct emit *e, unsigned int i)
{
	return e->zo[i].size / 8u;
}

static bool legacy(const struct emit *e)
{
	return e->zi->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
}

/* No EVEX prefix. The instructions with a VEX prefix here have no vector as destination. */
static bool plain(const struct emit *e)
{
	return legacy(e) || e->zi->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX;
}

/* REX.W, or VEX.W. */
static bool emit_simd_wide(const struct emit *e)
{
	return legacy(e) ? e->zi->raw.rex.W : e->zi->raw.vex.W;
}

/* A shift by a constant runs the stub of the shift by a register, which holds the constant. */
static const uint8_t *shift_stub(const struct emit *e)
{
	unsigned int reg = e->zi->raw.modrm.reg, opcode = e->zi->opcode - 0x71;

	/* /2 right, /4 arithmetic, /6 left */
	return emu_simd_stub(prefix_of(e), (reg == 2 ? 0xd1 : reg == 4 ? 0xe1 : 0xf1) + opcode);
}

static bool shift_imm(struct emit *e)
{
	unsigned int count = (unsigned int)emit_imm(e, 1) & 0xff;
	struct emu_op *op;

	if (e->zi->mnemonic == ZYDIS_MNEMONIC_PSLLDQ || e->zi->mnemonic == ZYDIS_MNEMONIC_PSRLDQ) {
		op = emit_helper(e, emu_help_simd_shift, 0,
				 e->zi->mnemonic == ZYDIS_MNEMONIC_PSRLDQ ? SIMD_RIGHT : 0);
		op->scale = (uint8_t)(count > 16 ? 16 : count);
	} else {
		op = emit_helper(e, is_mmx(e, 0) ? emu_help_mmx_shift : emu_help_simd_count, 0, 0);
		op->scale = (uint8_t)count;
		op->imm = (int64_t)(uintptr_t)shift_stub(e);
	}
	op->dst = (uint8_t)emit_simd_number(e, 0);
	return true;
}

/* The stub of an instruction of @class. NULL: there is none. */
static const uint8_t *emit_simd_stub(const struct emit *e, unsigned int class)
{
	unsigned int prefix = prefix_of(e), opcode = e->zi->opcode,
		     n = e->zi->operand_count_visible;
	bool has_imm = n > 2 && emit_is_imm(e, n - 1); /* it is part of the stub */
	unsigned int imm = has_imm ? (unsigned int)emit_imm(e, n - 1) & 0xff : 0;

	switch (e->zi->opcode_map) {
	case ZYDIS_OPCODE_MAP_0F:
		if ((class == SIMD_CVT_TO_R && emit_lg(e, 0) == 3) ||
		    (class == SIMD_CVT_FROM_R && emit_lg(e, 1) == 3))
			return emu_wide_stub(prefix, opcode);
		return has_imm ? emu_imm_stub(prefix, opcode, imm) : emu_simd_stub(prefix, opcode);
	case ZYDIS_OPCODE_MAP_0F38:
		return prefix > SIMD_66 ? NULL : emu_stub_38 + (prefix * 256 + opcode) * 8;
	case ZYDIS_OPCODE_MAP_0F3A:
		/* INSERTPS from memory has one source (SDM vol. 2). */
		if (e->zi->mnemonic == ZYDIS_MNEMONIC_INSERTPS && emit_is_mem(e, 1))
			imm &= 0x3f;
		return emu_3a_stub(prefix, opcode, emit_simd_wide(e), imm);
	default:
		return NULL;
	}
}

/* PEXTRx and EXTRACTPS to memory. */
static bool extract_to_mem(struct emit *e, const uint8_t *stub)
{
	struct emu_op *op =
		emit_fp_helper(e, emu_help_simd_extract, 0, emit_simd_bytes_of(e, 0), 0);

	op->src = (uint8_t)emit_simd_number(e, 1);
	op->imm = (int64_t)(uintptr_t)stub;
	return true;
}

/* The SIMD_* flags of an instruction of @class. */
static unsigned int emit_simd_flags_of(const struct emit *e, unsigned int class)
{
	switch (class) {
	case SIMD_ARITH:
		return SIMD_FP;
	case SIMD_ARITH_LONG:
		return SIMD_FP | SIMD_LONG;
	case SIMD_COMPARE:
		return SIMD_FP | SIMD_FLAGS;
	case SIMD_TO_R:
		return SIMD_TO_GPR;
	case SIMD_FROM_R:
		return SIMD_FROM_GPR;
	case SIMD_CVT_TO_R:
		return SIMD_TO_GPR | SIMD_FP;
	case SIMD_CVT_FROM_R:
		return SIMD_FROM_GPR | SIMD_FP;
	case SIMD_CVT_MMX:
		/* With a memory operand, neither CVTPI2PD nor, on AMD's CPUs, CVTPI2PS changes the
		 * x87 state (measured on family 1AH; SDM vol. 2, CVTPI2PD). */
		return SIMD_FP |
		       (e->zi->mnemonic == ZYDIS_MNEMONIC_CVTPI2PD ||
					(e->zi->mnemonic == ZYDIS_MNEMONIC_CVTPI2PS && !e->c->intel)
				? SIMD_STAYS
				: 0);
	default:
		return 0;
	}
}

bool emit_simd(struct emit *e, unsigned int class)
{
	unsigned int mem = emit_is_mem(e, 1) ? 1 : EMIT_NO_MEM,
		     flags = emit_simd_flags_of(e, class);
	unsigned int bytes = mem == 1 ? emit_simd_bytes_of(e, 1) : 0;
	bool mmx = is_mmx(e, 0) || is_mmx(e, 1) || class == SIMD_CVT_MMX;
	emu_op_fn *fn;
	const uint8_t *stub;
	struct emu_op *op;

	if (!plain(e))
		return false;
	if (class == SIMD_SHIFT && emit_is_imm(e, 1))
		return shift_imm(e);
	stub = emit_simd_stub(e, class);
	if (!stub)
		return false;
	if (class == SIMD_TO_R && emit_is_mem(e, 0))
		return extract_to_mem(e, stub);
	if (bytes == 16 && legacy(e))
		flags |= SIMD_ALIGN;
	if (mmx) {
		fn = emu_help_mmx;
		flags |= is_mmx(e, 0) ? SIMD_MMX : 0;
		flags |= is_mmx(e, 1) || (mem == 1 && (class != SIMD_CVT_MMX || is_xmm(e, 0)))
				 ? SIMD_SRC_MMX
				 : 0;
		flags |= is_xmm(e, 0) || is_xmm(e, 1) || class == SIMD_CVT_MMX ? SIMD_XMM : 0;
	} else if (flags & (SIMD_TO_GPR | SIMD_FROM_GPR) || class == SIMD_COMPARE) {
		fn = emu_help_simd_gpr;
	} else {
		fn = flags & SIMD_FP ? emu_help_simd_fp : emu_help_simd;
	}
	op = emit_fp_helper(e, fn, mem, bytes, flags);
	op->dst = (uint8_t)emit_simd_number(e, 0);
	op->src = mem == 1 ? 0 : (uint8_t)emit_simd_number(e, 1);
	op->scale = flags & SIMD_TO_GPR ? (uint8_t)emit_lg(e, 0) : 0;
	op->imm = (int64_t)(uintptr_t)stub;
	if (class == SIMD_COMPARE)
		e->fc = EMU_FC_UNKNOWN;
	return true;
}

/* ---- moves ---- */

static bool mmx_mov(struct emit *e)
{
	unsigned int mem = emit_is_mem(e, 0) ? 0 : emit_is_mem(e, 1) ? 1 : EMIT_NO_MEM, kind, bytes;
	struct emu_op *op;

	if (mem != EMIT_NO_MEM)
		kind = mem ? MMX_LOAD : MMX_STORE;
	else if (is_mmx(e, 0))
		kind = is_mmx(e, 1) ? MMX_MOVE : is_xmm(e, 1) ? MMX_FROM_XMM : MMX_FROM_GPR;
	else
		kind = is_xmm(e, 0) ? MMX_TO_XMM : MMX_TO_GPR;
	bytes = mem != EMIT_NO_MEM     ? emit_simd_bytes_of(e, mem)
		: kind == MMX_FROM_GPR ? emit_simd_bytes_of(e, 1)
		: kind == MMX_TO_GPR   ? emit_simd_bytes_of(e, 0)
				       : 0;
	op = emit_fp_helper(e, emu_help_mmx_mov, mem, bytes,
			    is_xmm(e, 0) || is_xmm(e, 1) ? SIMD_XMM : 0);
	op->base = (uint8_t)bytes;
	op->scale = (uint8_t)kind;
	op->dst = mem == 0 ? 0 : (uint8_t)emit_simd_number(e, 0);
	op->src = mem == 1 ? 0 : (uint8_t)emit_simd_number(e, 1);
	return true;
}

static bool emit_simd_reg_mov(struct emit *e, unsigned int kind)
{
	struct emu_op *op = emit_helper(e, emu_help_simd_mov, 0, 0);

	if (!is_xmm(e, 0))
		kind = emit_lg(e, 0) == 3 ? MOV_TO64 : MOV_TO32;
	else if (!is_xmm(e, 1))
		kind = emit_lg(e, 1) == 3 ? MOV_FROM64 : MOV_FROM32;
	op->scale = (uint8_t)kind;
	op->dst = (uint8_t)emit_simd_number(e, 0);
	op->src = (uint8_t)emit_simd_number(e, 1);
	return true;
}

bool emit_simd_mov(struct emit *e, unsigned int arg)
{
	unsigned int mem = emit_is_mem(e, 0) ? 0 : emit_is_mem(e, 1) ? 1 : EMIT_NO_MEM, flags;
	struct emu_op *op;

	if (!legacy(e))
		return false;
	if (is_mmx(e, 0) || is_mmx(e, 1))
		return mmx_mov(e);
	if (mem == EMIT_NO_MEM)
		return emit_simd_reg_mov(e, arg & 15);
	flags = arg & MOVE_ALIGNED	       ? SIMD_ALIGN | SIMD_STRICT
		: arg & (MOVE_LOW | MOVE_HIGH) ? 0
					       : SIMD_ZERO;
	op = emit_fp_helper(e, mem ? emu_help_simd_load : emu_help_simd_store, mem,
			    emit_simd_bytes_of(e, mem), flags);
	op->scale = arg & MOVE_HIGH ? 8 : 0;
	op->dst = mem ? (uint8_t)emit_simd_number(e, 0) : 0;
	op->src = mem ? 0 : (uint8_t)emit_simd_number(e, 1);
	return true;
}

bool emit_maskmov(struct emit *e, unsigned int mmx)
{
	unsigned int mem = 0;
	struct emu_op *op;

	while (mem < e->zi->operand_count && !emit_is_mem(e, mem))
		mem++;
	if (mem == e->zi->operand_count || !plain(e))
		return false;
	op = emit_fp_helper(e, emu_help_maskmov, mem, mmx ? 8 : 16, mmx ? SIMD_MMX : 0);
	op->dst = (uint8_t)emit_simd_number(e, mem == 0 ? 1 : 0);
	op->src = (uint8_t)emit_simd_number(e, mem == 2 ? 1 : 2);
	return true;
}

/* PCMPESTRI, PCMPESTRM, PCMPISTRI, PCMPISTRM. */
bool emit_pcmpstr(struct emit *e, unsigned int kind)
{
	unsigned int mem = emit_is_mem(e, 1) ? 1 : EMIT_NO_MEM;
	const uint8_t *stub = emit_simd_stub(e, SIMD_PLAIN);
	struct emu_op *op;

	if (!plain(e) || !stub)
		return false;
	op = emit_fp_helper(e, emu_help_pcmpstr, mem, mem == 1 ? 16 : 0, kind);
	op->scale = emit_simd_wide(e);
	op->dst = (uint8_t)emit_simd_number(e, 0);
	op->src = mem == 1 ? 0 : (uint8_t)emit_simd_number(e, 1);
	op->imm = (int64_t)(uintptr_t)stub;
	e->fc = EMU_FC_UNKNOWN;
	return true;
}

/* BLENDVPS, BLENDVPD, PBLENDVB. @bytes: of an element. */
bool emit_blendv(struct emit *e, unsigned int bytes)
{
	unsigned int mem = emit_is_mem(e, 1) ? 1 : EMIT_NO_MEM;
	struct emu_op *op;

	if (!legacy(e))
		return false;
	op = emit_fp_helper(e, emu_help_blendv, mem, mem == 1 ? 16 : 0, SIMD_ALIGN);
	op->scale = (uint8_t)bytes;
	op->dst = (uint8_t)emit_simd_number(e, 0);
	op->src = mem == 1 ? 0 : (uint8_t)emit_simd_number(e, 1);
	return true;
}

/* Not an SSE instruction for CR0 and CR4. */
bool emit_crc32(struct emit *e, unsigned int arg)
{
	unsigned int lg = emit_lg(e, 1), src;
	struct emu_op *op;

	if (!legacy(e))
		return false;
	src = emit_src(e, 1);
	op = emit_helper(e, emu_help_crc32, lg, 0);
	op->dst = (uint8_t)emit_reg(e, 0);
	op->src = (uint8_t)src;
	return true;
}
