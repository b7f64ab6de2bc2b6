// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Further instructions of 16- and 32-bit code, see legacy.h: what a compiler emits for it, and
 * string instructions. Firmware of guests of SVM consists of them. The arithmetic is that of 64-bit
 * mode (cpu/arith.c).
 */
#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/realmode/legacy.h"
#include "vmm/emu/svm/svm.h"

#define STRING_STEP   64u /* elements without a safe point */
#define STRING_EFFORT 40u /* of an element */

int legacy_op(struct legacy *l)
{
	struct emu_op op = {.idx = (uint8_t)l->row->arg, .ev = emu_insn_events(l->zi, l->zo, 0)};

	return l->row->op(l->v, &op);
}

/* Execute the row's helper with operand 0 in EMU_T0 and, if @put, store that again. A store that
 * traps leaves the flags alone. */
static int arith_in_t0(struct legacy *l, struct emu_op *op, bool put)
{
	struct emu_vcpu *v = l->v;
	uint64_t flags = emu_get_rflags(v);

	op->base = (uint8_t)legacy_insn_lg(l, 0);
	op->dst = (uint8_t)emit_t0(op->base);
	if (legacy_insn_get(l, 0, &v->r[EMU_T0]) || l->row->op(v, op))
		return 1;
	if (!put || !legacy_insn_put(l, 0, v->r[EMU_T0]))
		return 0;
	emu_put_rflags(v, flags);
	return 1;
}

int legacy_multiply(struct legacy *l)
{
	struct emu_op op = {.src = (uint8_t)emit_t0(legacy_insn_lg(l, 0))};

	return arith_in_t0(l, &op, false);
}

int legacy_rotate(struct legacy *l)
{
	bool imm = l->zo[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	struct emu_op op = {.idx = (uint8_t)l->row->arg, .src = imm ? EMIT_IMM : EMU_RCX};

	op.imm = imm ? (int64_t)(l->zo[1].imm.value.u & 0xff) : 0;
	return arith_in_t0(l, &op, true);
}

int legacy_imul(struct legacy *l)
{
	unsigned int n = l->zi->operand_count_visible, lg = legacy_insn_lg(l, 0);
	uint64_t x, y;
	int64_t r;

	if (n == 1)
		return legacy_multiply(l);
	if (legacy_insn_get(l, n == 3 ? 1 : 0, &x) || legacy_insn_get(l, n - 1, &y))
		return 1;
	r = (int64_t)emu_sext(x, lg) * (int64_t)emu_sext(y, lg);
	emu_fl_override(l->v, EMU_CF | EMU_OF,
			r != (int64_t)emu_sext((uint64_t)r, lg) ? EMU_CF | EMU_OF : 0);
	return legacy_insn_put(l, 0, (uint64_t)r); /* a register */
}

int legacy_shiftd(struct legacy *l)
{
	bool imm = l->zo[2].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	struct emu_op op = {.idx = (uint8_t)l->row->arg,
			    .scale = !imm,
			    .src = (uint8_t)emu_gpr(l->zo[1].reg.value)};

	op.imm = imm ? (int64_t)l->zo[2].imm.value.u : 0;
	return arith_in_t0(l, &op, true);
}

int legacy_scan(struct legacy *l)
{
	struct emu_op op = {.idx = (uint8_t)l->row->arg,
			    .base = (uint8_t)legacy_insn_lg(l, 0),
			    .dst = (uint8_t)emu_gpr(l->zo[0].reg.value)};

	op.src = (uint8_t)emit_t0(op.base);
	return legacy_insn_get(l, 1, &l->v->r[EMU_T0]) || emu_help_scan(l->v, &op);
}

/* MOVZX, MOVSX */
int legacy_movx(struct legacy *l)
{
	bool is_signed = l->zi->mnemonic == ZYDIS_MNEMONIC_MOVSX;
	uint64_t x;

	return legacy_insn_get(l, 1, &x) ||
	       legacy_insn_put(l, 0, is_signed ? emu_sext(x, legacy_insn_lg(l, 1)) : x);
}

int legacy_bswap(struct legacy *l)
{
	uint64_t x;

	if (l->zo[0].size != 32)
		return -1; /* undefined */
	return legacy_insn_get(l, 0, &x) || legacy_insn_put(l, 0, __builtin_bswap32((uint32_t)x));
}

int legacy_cwde(struct legacy *l)
{
	emu_wr(l->v, EMU_RAX, 4, (uint64_t)(int16_t)l->v->r[EMU_RAX]);
	return 0;
}

int legacy_cdq(struct legacy *l)
{
	emu_wr(l->v, EMU_RDX, 4, l->v->r[EMU_RAX] & 0x80000000 ? 0xffffffff : 0);
	return 0;
}

/* FNINIT, FNSTCW, FNSTSW: a boot loader's search for an FPU. */
int legacy_x87(struct legacy *l)
{
	unsigned int what = l->row->arg;
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
int legacy_string(struct legacy *l)
{
	bool load = l->row->arg & LEGACY_LOAD, store = l->row->arg & LEGACY_STORE;
	unsigned int bytes = l->zo[0].size / 8u, n = l->zi->address_width / 8u;
	struct emu_vcpu *v = l->v;

	if (l->zi->meta.category != ZYDIS_CATEGORY_STRINGOP) /* MOVSD of SSE2 */
		return -1;
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
int legacy_string_port(struct legacy *l)
{
	bool in = l->row->arg & LEGACY_STORE;
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
