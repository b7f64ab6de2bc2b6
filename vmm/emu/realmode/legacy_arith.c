// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Further instructions of 16- and 32-bit code, see legacy.h: what a compiler emits for it, and
 * string instructions. Firmware of guests of SVM consists of them. The arithmetic is that of 64-bit
 * mode (cpu/arith.c). legacy_insn.c calls this file for what it does not have itself.
 */
#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/realmode/legacy.h"
#include "vmm/emu/svm/svm.h"

#define STRING_STEP   64u /* elements without a safe point */
#define STRING_EFFORT 40u /* of an element */

/* Execute @fn with operand 0 in EMU_T0 and, if @put, store that again. A store that traps leaves
 * the flags alone. */
static int arith_in_t0(struct legacy *l, emu_op_fn *fn, struct emu_op *op, bool put)
{
	struct emu_vcpu *v = l->v;
	uint64_t flags = emu_get_rflags(v);

	op->base = (uint8_t)__builtin_ctz(l->zo[0].size / 8u);
	op->dst = (uint8_t)emit_t0(op->base);
	if (op->src != EMIT_IMM && op->src != EMU_RCX)
		op->src = op->dst;
	if (legacy_insn_get(l, 0, &v->r[EMU_T0]) || fn(v, op))
		return 1;
	if (!put || !legacy_insn_put(l, 0, v->r[EMU_T0]))
		return 0;
	emu_put_rflags(v, flags);
	return 1;
}

static int arith_rotate(struct legacy *l, unsigned int kind)
{
	bool imm = l->zo[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	struct emu_op op = {.idx = (uint8_t)kind, .src = imm ? EMIT_IMM : EMU_RCX};

	op.imm = imm ? (int64_t)(l->zo[1].imm.value.u & 0xff) : 0;
	return arith_in_t0(l, emu_help_rotate, &op, true);
}

static int arith_imul(struct legacy *l)
{
	unsigned int n = l->zi->operand_count_visible,
		     lg = (unsigned int)__builtin_ctz(l->zo[0].size / 8u);
	struct emu_op op = {0};
	uint64_t x, y;
	int64_t r;

	if (n == 1)
		return arith_in_t0(l, emu_help_imul1, &op, false);
	if (legacy_insn_get(l, n == 3 ? 1 : 0, &x) || legacy_insn_get(l, n - 1, &y))
		return 1;
	r = (int64_t)emu_sext(x, lg) * (int64_t)emu_sext(y, lg);
	emu_fl_override(l->v, EMU_CF | EMU_OF,
			r != (int64_t)emu_sext((uint64_t)r, lg) ? EMU_CF | EMU_OF : 0);
	return legacy_insn_put(l, 0, (uint64_t)r); /* a register */
}

static int arith_shiftd(struct legacy *l, bool right)
{
	bool imm = l->zo[2].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	struct emu_op op = {.idx = right, .scale = !imm};
	struct emu_vcpu *v = l->v;
	uint64_t flags = emu_get_rflags(v);

	op.imm = imm ? (int64_t)l->zo[2].imm.value.u : 0;
	op.base = (uint8_t)__builtin_ctz(l->zo[0].size / 8u);
	op.dst = (uint8_t)emit_t0(op.base);
	op.src = (uint8_t)emu_gpr(l->zo[1].reg.value);
	if (legacy_insn_get(l, 0, &v->r[EMU_T0]) || emu_help_shiftd(v, &op))
		return 1;
	if (!legacy_insn_put(l, 0, v->r[EMU_T0]))
		return 0;
	emu_put_rflags(v, flags);
	return 1;
}

static int arith_scan(struct legacy *l, unsigned int kind)
{
	struct emu_op op = {.idx = (uint8_t)kind, .dst = (uint8_t)emu_gpr(l->zo[0].reg.value)};

	op.base = (uint8_t)__builtin_ctz(l->zo[0].size / 8u);
	op.src = (uint8_t)emit_t0(op.base);
	return legacy_insn_get(l, 1, &l->v->r[EMU_T0]) || emu_help_scan(l->v, &op);
}

static int arith_flag(struct emu_vcpu *v, unsigned int kind)
{
	struct emu_op op = {.idx = (uint8_t)kind};

	return emu_help_flagop(v, &op);
}

/* FNINIT, FNSTCW, FNSTSW: a boot loader's search for an FPU. */
static int arith_x87(struct legacy *l, unsigned int what)
{
	struct emu_op op = {.scale = (uint8_t)what, .dst = 0xdb - 0xd8, .src = 0xe3}; /* FNINIT */
	const ZydisDecodedOperandMem *m = &l->zo[0].mem;
	struct emu_vcpu *v = l->v;

	if (what == X87_STSW && l->zo[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
		op.scale = X87_STSW_AX;
	else if (what != X87_INIT && legacy_linear(v, legacy_segment(v, m->segment),
						   legacy_address(l, m), 2, true, &v->r[EMU_TEA]))
		return 1;
	return emu_help_x87_control(v, &op);
}

/* ---- strings ---- */

static void string_move(struct legacy *l, unsigned int reg, unsigned int bytes)
{
	unsigned int n = l->zi->address_width / 8u;
	struct emu_vcpu *v = l->v;
	uint64_t by = emu_get_rflags(v) & EMU_DF ? 0 - (uint64_t)bytes : bytes;

	emu_wr(v, reg, n, emu_rd(v, reg, n) + by);
}

/* One element of MOVS, STOS or LODS. */
static int string_element(struct legacy *l, unsigned int bytes, bool load, bool store)
{
	unsigned int n = l->zi->address_width / 8u;
	struct emu_vcpu *v = l->v;
	uint64_t x = emu_rd(v, EMU_RAX, bytes);

	if (load && legacy_load(v, legacy_segment(v, l->zo[1].mem.segment), emu_rd(v, EMU_RSI, n),
				bytes, &x))
		return 1;
	if (store && legacy_insn_store(v, &v->seg[EMU_ES], emu_rd(v, EMU_RDI, n), bytes, x))
		return 1;
	if (!store)
		emu_wr(v, EMU_RAX, bytes, x);
	if (load)
		string_move(l, EMU_RSI, bytes);
	if (store)
		string_move(l, EMU_RDI, bytes);
	v->extra += STRING_EFFORT;
	return 0;
}

/* Each element may trap: what is done is done, and the instruction goes on there. */
static int legacy_string(struct legacy *l, bool load, bool store)
{
	unsigned int bytes = l->zo[0].size / 8u, n = l->zi->address_width / 8u;
	struct emu_vcpu *v = l->v;

	if (!(l->zi->attributes & ZYDIS_ATTRIB_HAS_REP))
		return string_element(l, bytes, load, store);
	if (!emu_rd(v, EMU_RCX, n)) {
		v->adj_loads -= load; /* no access takes place */
		v->adj_stores -= store;
		return 0;
	}
	for (unsigned int i = 0; i < STRING_STEP; i++) {
		if (string_element(l, bytes, load, store))
			return 1;
		emu_wr(v, EMU_RCX, n, emu_rd(v, EMU_RCX, n) - 1);
		v->extra_cycles++;
		if (!emu_rd(v, EMU_RCX, n))
			return 0;
	}
	return LEGACY_AGAIN;
}

/* INS, OUTS: only their intercept (APM vol. 2, 15.10.2). */
static int string_port(struct legacy *l, bool in)
{
	const ZydisDecodedOperandMem *m = &l->zo[in ? 0 : 1].mem;
	unsigned int seg = (unsigned int)(legacy_segment(l->v, m->segment) - l->v->seg);
	uint32_t info = 1u << 2 | (l->zi->attributes & ZYDIS_ATTRIB_HAS_REP ? 1u << 3 : 0) |
			(in ? EMU_ES : seg) << 10;

	if (!l->v->guest)
		return -1;
	return emu_svm_port(l->v, (uint16_t)l->v->r[EMU_RDX], l->zo[in ? 0 : 1].size / 8u, in, info)
		       ? 1
		       : -1;
}

int legacy_arith(struct legacy *l)
{
	struct emu_vcpu *v = l->v;
	struct emu_op op = {0};
	uint64_t x;

	if (l->zi->meta.category == ZYDIS_CATEGORY_SETCC)
		return legacy_insn_put(l, 0, emu_cc(v, l->zi->opcode & 0xf));
	if (l->zi->meta.category == ZYDIS_CATEGORY_CMOV)
		return legacy_insn_get(l, 1, &x) ||
		       (emu_cc(v, l->zi->opcode & 0xf) && legacy_insn_put(l, 0, x));
	switch (l->zi->mnemonic) {
	case ZYDIS_MNEMONIC_NOT:
		return legacy_insn_get(l, 0, &x) || legacy_insn_put(l, 0, ~x);
	case ZYDIS_MNEMONIC_ROL:
		return arith_rotate(l, ROT_ROL);
	case ZYDIS_MNEMONIC_ROR:
		return arith_rotate(l, ROT_ROR);
	case ZYDIS_MNEMONIC_RCL:
		return arith_rotate(l, ROT_RCL);
	case ZYDIS_MNEMONIC_RCR:
		return arith_rotate(l, ROT_RCR);
	case ZYDIS_MNEMONIC_SHLD:
		return arith_shiftd(l, false);
	case ZYDIS_MNEMONIC_SHRD:
		return arith_shiftd(l, true);
	case ZYDIS_MNEMONIC_BSF:
		return arith_scan(l, SCAN_BSF);
	case ZYDIS_MNEMONIC_BSR:
		return arith_scan(l, SCAN_BSR);
	case ZYDIS_MNEMONIC_MUL:
		return arith_in_t0(l, emu_help_mul, &op, false);
	case ZYDIS_MNEMONIC_IMUL:
		return arith_imul(l);
	case ZYDIS_MNEMONIC_DIV:
		return arith_in_t0(l, emu_help_div, &op, false);
	case ZYDIS_MNEMONIC_IDIV:
		return arith_in_t0(l, emu_help_idiv, &op, false);
	case ZYDIS_MNEMONIC_MOVSX:
		return legacy_insn_get(l, 1, &x) ||
		       legacy_insn_put(
			       l, 0, emu_sext(x, (unsigned int)__builtin_ctz(l->zo[1].size / 8u)));
	case ZYDIS_MNEMONIC_BSWAP:
		if (l->zo[0].size != 32)
			return -1; /* undefined */
		return legacy_insn_get(l, 0, &x) ||
		       legacy_insn_put(l, 0, __builtin_bswap32((uint32_t)x));
	case ZYDIS_MNEMONIC_CBW:
		return emu_help_cbw(v, &op);
	case ZYDIS_MNEMONIC_CWDE:
		emu_wr(v, EMU_RAX, 4, (uint64_t)(int16_t)v->r[EMU_RAX]);
		return 0;
	case ZYDIS_MNEMONIC_CWD:
		return emu_help_cwd(v, &op);
	case ZYDIS_MNEMONIC_CDQ:
		emu_wr(v, EMU_RDX, 4, v->r[EMU_RAX] & 0x80000000 ? 0xffffffff : 0);
		return 0;
	case ZYDIS_MNEMONIC_FNINIT:
		return arith_x87(l, X87_INIT);
	case ZYDIS_MNEMONIC_FNSTCW:
		return arith_x87(l, X87_STCW);
	case ZYDIS_MNEMONIC_FNSTSW:
		return arith_x87(l, X87_STSW);
	case ZYDIS_MNEMONIC_LLDT:
	case ZYDIS_MNEMONIC_LTR:
		return legacy_load_system(l);
	case ZYDIS_MNEMONIC_CLC:
		return arith_flag(v, FLAG_CLC);
	case ZYDIS_MNEMONIC_STC:
		return arith_flag(v, FLAG_STC);
	case ZYDIS_MNEMONIC_CMC:
		return arith_flag(v, FLAG_CMC);
	case ZYDIS_MNEMONIC_MOVSB:
	case ZYDIS_MNEMONIC_MOVSW:
		return legacy_string(l, true, true);
	case ZYDIS_MNEMONIC_MOVSD: /* also the name of one of SSE2 */
		return l->zi->meta.category == ZYDIS_CATEGORY_STRINGOP
			       ? legacy_string(l, true, true)
			       : -1;
	case ZYDIS_MNEMONIC_STOSB:
	case ZYDIS_MNEMONIC_STOSW:
	case ZYDIS_MNEMONIC_STOSD:
		return legacy_string(l, false, true);
	case ZYDIS_MNEMONIC_LODSB:
	case ZYDIS_MNEMONIC_LODSW:
	case ZYDIS_MNEMONIC_LODSD:
		return legacy_string(l, true, false);
	case ZYDIS_MNEMONIC_INSB:
	case ZYDIS_MNEMONIC_INSW:
	case ZYDIS_MNEMONIC_INSD:
		return string_port(l, true);
	case ZYDIS_MNEMONIC_OUTSB:
	case ZYDIS_MNEMONIC_OUTSW:
	case ZYDIS_MNEMONIC_OUTSD:
		return string_port(l, false);
	default:
		return -1;
	}
}
