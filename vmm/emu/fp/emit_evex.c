// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops, continued: EVEX prefixes. Almost every instruction becomes a
 * call of emu_help_evex() with a description (evex.h) that comes from the operands as decoded;
 * only gathers and scatters have helpers of their own.
 */
#include "vmm/emu/fp/evex.h"

#define EVEX_IS(map, prefix, opcode) EVEX_OPCODE(map, 0, prefix, opcode)

/* map, prefix and opcode, without W */
static unsigned int emit_evex_which(const struct emit *e)
{
	return EVEX_IS((unsigned int)e->zi->opcode_map, e->zi->raw.evex.pp, e->zi->opcode);
}

/* The visible operand with this encoding, or -1. */
static int emit_evex_operand(const struct emit *e, ZydisOperandEncoding encoding)
{
	for (unsigned int i = 0; i < e->zi->operand_count_visible; i++)
		if (e->zo[i].encoding == encoding)
			return (int)i;
	return -1;
}

static ZydisRegisterClass emit_evex_class(const struct emit *e, int i)
{
	return i >= 0 && emit_is_reg(e, (unsigned int)i) ? ZydisRegisterGetClass(e->zo[i].reg.value)
							 : ZYDIS_REGCLASS_INVALID;
}

static bool emit_evex_is_gpr(ZydisRegisterClass class)
{
	return class == ZYDIS_REGCLASS_GPR32 || class == ZYDIS_REGCLASS_GPR64;
}

static uint8_t emit_evex_number(const struct emit *e, int i)
{
	return emit_evex_class(e, i) == ZYDIS_REGCLASS_INVALID
		       ? EVEX_NONE
		       : (uint8_t)ZydisRegisterGetId(e->zo[i].reg.value);
}

static unsigned int emit_evex_lg(unsigned int bits)
{
	return bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
}

/* Raises floating-point exceptions. */
static bool emit_evex_raises(const struct emit *e)
{
	switch (e->zi->meta.exception_class) {
	case ZYDIS_EXCEPTION_CLASS_E2:
	case ZYDIS_EXCEPTION_CLASS_E3:
	case ZYDIS_EXCEPTION_CLASS_E3NF:
	case ZYDIS_EXCEPTION_CLASS_E11:
		return true;
	default:
		return false;
	}
}

/* VRCP14xx, VRSQRT14xx, VFPCLASSxx: no exceptions, but DAZ and FTZ. */
static bool emit_evex_quiet(const struct emit *e)
{
	switch (emit_evex_which(e)) {
	case EVEX_IS(2, SIMD_66, 0x4c):
	case EVEX_IS(2, SIMD_66, 0x4d):
	case EVEX_IS(2, SIMD_66, 0x4e):
	case EVEX_IS(2, SIMD_66, 0x4f):
	case EVEX_IS(3, SIMD_66, 0x66):
	case EVEX_IS(3, SIMD_66, 0x67):
		return true;
	default:
		return false;
	}
}

/* Memory is read in whole: classes without fault suppression (SDM vol. 2, 2.8). Zydis 4.0 has
 * another class for VDBPSADBW and VCVTNE2PS2BF16. */
static bool emit_evex_whole(const struct emit *e)
{
	unsigned int which = emit_evex_which(e);

	if (which == EVEX_IS(3, SIMD_66, 0x42) || which == EVEX_IS(2, SIMD_F2, 0x72))
		return true;
	switch (e->zi->meta.exception_class) {
	case ZYDIS_EXCEPTION_CLASS_E1NF:
	case ZYDIS_EXCEPTION_CLASS_E4NF:
	case ZYDIS_EXCEPTION_CLASS_E5NF:
	case ZYDIS_EXCEPTION_CLASS_E6NF:
	case ZYDIS_EXCEPTION_CLASS_E9NF:
		return true;
	default:
		return false;
	}
}

/* The destination is a source, too, or the mask chooses between two sources. */
static bool emit_evex_kept(const struct emit *e)
{
	unsigned int opcode = e->zi->opcode, prefix = e->zi->raw.evex.pp;

	if (prefix == SIMD_F3)
		return e->zi->opcode_map == ZYDIS_OPCODE_MAP_0F38 && opcode == 0x52;
	if (prefix != SIMD_66)
		return false;
	if (e->zi->opcode_map == ZYDIS_OPCODE_MAP_0F3A)
		return opcode == 0x25 || opcode == 0x54 || opcode == 0x55;
	if (e->zi->opcode_map != ZYDIS_OPCODE_MAP_0F38)
		return false;
	return (opcode >= 0x50 && opcode <= 0x53) || (opcode >= 0x64 && opcode <= 0x66) ||
	       (opcode >= 0x70 && opcode <= 0x73) || (opcode >= 0x75 && opcode <= 0x77) ||
	       (opcode >= 0x7d && opcode <= 0x7f) || opcode >= 0x96;
}

/* Of a store. */
static enum evex_store emit_evex_store(const struct emit *e)
{
	unsigned int opcode = e->zi->opcode;

	if (e->zi->opcode_map == ZYDIS_OPCODE_MAP_0F)
		return opcode == 0x17 ? EVEX_STORE_UPPER : EVEX_STORE_REG;
	return e->zi->opcode_map == ZYDIS_OPCODE_MAP_0F3A && opcode >= 0x14 && opcode <= 0x17
		       ? EVEX_STORE_RDX
		       : EVEX_STORE_RM;
}

static void emit_evex_memory(const struct emit *e, unsigned int rm, union evex_op *x)
{
	unsigned int lg = emit_evex_lg(e->zo[rm].element_size), bits = e->zo[rm].size;
	bool broadcast = e->zi->avx.broadcast.mode != ZYDIS_BROADCAST_MODE_INVALID;
	unsigned int opcode = emit_evex_which(e);

	/* Dot products have source elements of fewer bytes. */
	if (!broadcast && e->zo[0].size == bits && lg < x->lg)
		lg = x->lg;
	x->mem_lg = lg;
	x->broadcast = broadcast;
	x->whole = emit_evex_whole(e);
	x->scalar = !broadcast && bits == 8u << lg;
	x->align = e->zi->meta.exception_class == ZYDIS_EXCEPTION_CLASS_E1 ||
		   e->zi->meta.exception_class == ZYDIS_EXCEPTION_CLASS_E1NF;
	x->packed = opcode == EVEX_IS(2, SIMD_66, 0x62) || opcode == EVEX_IS(2, SIMD_66, 0x63) ||
		    (opcode >= EVEX_IS(2, SIMD_66, 0x88) && opcode <= EVEX_IS(2, SIMD_66, 0x8b));
	if (e->zo[rm].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
		x->store = emit_evex_store(e);
}

/* What differs between the guest's instruction and its stub. Returns the stub's number or -1. */
static int emit_evex_stub(const struct emit *e, bool mem, union evex_op *x)
{
	unsigned int map = (unsigned int)e->zi->opcode_map, prefix = e->zi->raw.evex.pp;
	unsigned int opcode = e->zi->opcode, n = e->zi->operand_count_visible;
	unsigned int imm = n && emit_is_imm(e, n - 1) ? (unsigned int)emit_imm(e, n - 1) & 0xff : 0;
	bool w = e->zi->raw.evex.W;

	switch (EVEX_IS(map, prefix, opcode)) {
	case EVEX_IS(1, SIMD_66, 0x12): /* VMOVLPD */
	case EVEX_IS(1, SIMD_66, 0x16): /* VMOVHPD */
	case EVEX_IS(1, SIMD_NP, 0x12):
		x->prepare = opcode == 0x12 && mem ? EVEX_UPPER : EVEX_AS_IS;
		prefix = SIMD_NP;
		w = false;
		break;
	case EVEX_IS(1, SIMD_66, 0x71):
	case EVEX_IS(1, SIMD_66, 0x72):
	case EVEX_IS(1, SIMD_66, 0x73):
		x->count = imm;
		x->prepare = EVEX_SHIFT;
		switch (e->zi->raw.modrm.reg) {
		case 0:
		case 1:
			x->prepare = w ? EVEX_ROTATE_Q : EVEX_ROTATE_D;
			map = 2;
			opcode = 0x14 + e->zi->raw.modrm.reg;
			break;
		case 3:
		case 7:
			imm = imm > 15 ? 16 : imm;
			x->prepare = e->zi->raw.modrm.reg == 7 ? EVEX_BYTES_LEFT : EVEX_AS_IS;
			imm = e->zi->raw.modrm.reg == 7 ? 16 - imm : imm;
			map = 3;
			opcode = 0x0f;
			break;
		case 4:
			opcode += 0xe1 - 0x71;
			break;
		default:
			opcode += (e->zi->raw.modrm.reg == 2 ? 0xd1 : 0xf1) - 0x71;
		}
		break;
	case EVEX_IS(2, SIMD_66, 0x1a): /* VBROADCASTF32X4 and the like: VMOVDQA */
	case EVEX_IS(2, SIMD_66, 0x1b):
	case EVEX_IS(2, SIMD_66, 0x5a):
	case EVEX_IS(2, SIMD_66, 0x5b):
	case EVEX_IS(2, SIMD_66, 0x2a): /* VMOVNTDQA */
		map = 1;
		opcode = 0x6f;
		break;
	case EVEX_IS(3, SIMD_66, 0x21): /* VINSERTPS */
		imm &= mem ? 0x3f : 0xff;
		break;
	default:
		break;
	}
	return emu_evex_find(map, prefix, w, x->length, opcode, imm);
}

static enum evex_to emit_evex_to(const struct emit *e, bool store)
{
	ZydisRegisterClass class = emit_evex_class(e, 0);
	bool rm = e->zo[0].encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM;
	unsigned int opcode = e->zi->opcode;

	if (store)
		return EVEX_TO_NOTHING;
	if (e->zi->opcode_map == ZYDIS_OPCODE_MAP_0F && (opcode == 0x2e || opcode == 0x2f))
		return EVEX_TO_FLAGS;
	if (class == ZYDIS_REGCLASS_MASK)
		return EVEX_TO_K;
	if (emit_evex_is_gpr(class))
		return rm ? EVEX_TO_RDX : EVEX_TO_RCX;
	return rm ? EVEX_TO_RM : EVEX_TO_REG;
}

bool emit_evex(struct emit *e, unsigned int long_)
{
	int rm = emit_evex_operand(e, ZYDIS_OPERAND_ENCODING_MODRM_RM), stub;
	int vvvv = emit_evex_operand(e, ZYDIS_OPERAND_ENCODING_NDSNDD);
	int reg = emit_evex_operand(e, ZYDIS_OPERAND_ENCODING_MODRM_REG);
	int mask = emit_evex_operand(e, ZYDIS_OPERAND_ENCODING_MASK);
	const ZydisDecodedInstructionAvx *avx = &e->zi->avx;
	union evex_op x = {.imm = 0};
	bool mem = rm >= 0 && emit_is_mem(e, (unsigned int)rm);
	struct emu_op *op;

	if (e->zi->encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX || rm < 0)
		return false;
	x.mask = mask < 0 ? 0 : emit_evex_number(e, mask);
	x.zero = e->zi->raw.evex.z;
	x.kept = emit_evex_kept(e);
	x.sae = avx->has_sae || emit_evex_quiet(e);
	x.fp = emit_evex_raises(e) || emit_evex_quiet(e);
	x.round = (unsigned int)avx->rounding.mode; /* RN, RD, RU, RZ, as in MXCSR */
	x.length = avx->vector_length == 512 ? 2 : avx->vector_length == 256;
	x.lg = emit_evex_lg(
		e->zo[emit_evex_class(e, 0) == ZYDIS_REGCLASS_MASK ? rm : 0].element_size);
	x.scalar = x.kept && e->zi->meta.exception_class == ZYDIS_EXCEPTION_CLASS_E3;
	x.long_ = long_;
	if (mem)
		emit_evex_memory(e, (unsigned int)rm, &x);
	x.to = emit_evex_to(e, x.store);
	stub = emit_evex_stub(e, mem, &x);
	if (stub < 0)
		return false;
	x.stub = (unsigned int)stub;
	op = emit_fp_helper(e, emu_help_evex, mem ? (unsigned int)rm : EMIT_NO_MEM,
			    mem ? e->zo[rm].size / 8u : 0, 0);
	op->dst = emit_evex_number(e, reg);
	op->src = mem ? EVEX_NONE : emit_evex_number(e, rm);
	op->scale = emit_evex_number(e, vvvv);
	if (vvvv == 0) { /* a shift by a constant */
		op->dst = op->scale;
		op->scale = EVEX_NONE;
	}
	/* Vector registers are in z[], general and opmask registers are not. */
	if (!mem && emit_evex_is_gpr(emit_evex_class(e, rm)))
		op->idx |= EVEX_RM_GPR;
	if (!mem && emit_evex_class(e, rm) == ZYDIS_REGCLASS_MASK)
		op->idx |= EVEX_RM_K;
	op->imm = x.imm;
	if (x.to == EVEX_TO_FLAGS)
		e->fc = EMU_FC_UNKNOWN;
	return true;
}

/* Gathers and scatters. @kind: log2 of the bytes of an index, and of an element. */
bool emit_evex_gather(struct emit *e, unsigned int kind)
{
	int rm = emit_evex_operand(e, ZYDIS_OPERAND_ENCODING_MODRM_RM);
	int reg = emit_evex_operand(e, ZYDIS_OPERAND_ENCODING_MODRM_REG);
	const ZydisDecodedOperandMem *z;
	union evex_op x = {.imm = 0};
	unsigned int seg;
	struct emu_op *op;

	if (e->zi->encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX || rm < 0 ||
	    !emit_is_mem(e, (unsigned int)rm))
		return false;
	z = &e->zo[rm].mem;
	seg = emit_seg(e, (unsigned int)rm);
	x.mask = emit_evex_number(e, emit_evex_operand(e, ZYDIS_OPERAND_ENCODING_MASK));
	x.length = e->zi->raw.evex.L2 ? 2 : e->zi->raw.evex.L;
	x.lg = kind >> 2;
	x.mem_lg = kind & 3; /* of an index */
	x.count = z->scale;
	x.store = rm == 0;
	op = emit_add(e, EMU_OP_LEA64X);
	op->dst = EMU_TEA;
	/* As in emit_mem(): Zydis 4.0 takes no base for [r13d]. */
	if (e->zi->raw.modrm.mod || e->zi->raw.sib.base != 5)
		op->base = (uint8_t)emu_gpr(z->base);
	op->idx = (uint8_t)seg;
	op->disp = z->disp.has_displacement ? z->disp.value : 0;
	op = emit_helper(e, emu_help_evex_gather, 0, seg);
	op->dst = emit_evex_number(e, reg);
	op->scale = (uint8_t)ZydisRegisterGetId(z->index);
	op->flags = (uint8_t)((z->segment == ZYDIS_REGISTER_SS ? EMU_OPF_SS : 0) |
			      (e->zi->address_width == 32 ? EMU_OPF_A32 : 0));
	op->imm = x.imm;
	return true;
}

bool emit_evex_row(struct emit *e, const struct emu_isa_row *row)
{
	if (row->fn == emit_evex || row->fn == emit_evex_gather)
		return row->fn(e, row->arg);
	if (row->fn == emit_avx_gather)
		return emit_evex_gather(e, row->arg);
	return emit_evex(e, row->fn == emit_avx && row->arg == VEX_LONG);
}
