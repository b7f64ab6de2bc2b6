// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Operands of 16- and 32-bit code, moves and near transfers, see legacy.h. CPL is 0, and memory is
 * reached through segments with a base and a limit (SDM vol. 3, 3.4 and 21.1). Expand-down segments
 * are refused. Nothing changes before the last check of an instruction.
 */
#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/realmode/legacy.h"

/* ---- segments and memory ---- */

struct kvm_segment *legacy_segment(struct emu_vcpu *v, ZydisRegister r)
{
	return &v->seg[r >= ZYDIS_REGISTER_ES && r <= ZYDIS_REGISTER_GS ? r - ZYDIS_REGISTER_ES
									: EMU_DS];
}

int legacy_linear(struct emu_vcpu *v, const struct kvm_segment *s, uint64_t off, unsigned int bytes,
		  bool write, uint64_t *la)
{
	uint8_t vec = s == &v->seg[EMU_SS] ? EMU_STACK : EMU_GP;
	bool code = s->type & 8, denied = write && code;

	/* Data can be read, code never be written; bit 1 permits the other access. */
	if (write || code)
		denied |= !(s->type & 2);
	if (s->unusable || off + bytes - 1 > s->limit || (!code && (s->type & 4)) ||
	    (denied && (v->cr0 & CR0_PE)))
		return emu_fault(v, vec, true, 0);
	*la = (uint32_t)(s->base + off);
	return 0;
}

int legacy_load(struct emu_vcpu *v, const struct kvm_segment *s, uint64_t off, unsigned int bytes,
		uint64_t *x)
{
	uint64_t la = 0;

	if (legacy_linear(v, s, off, bytes, false, &la))
		return 1;
	*x = emu_ld_slow(v, la, bytes);
	return v->trap != EMU_TRAP_NONE;
}

int legacy_insn_store(struct emu_vcpu *v, const struct kvm_segment *s, uint64_t off,
		      unsigned int bytes, uint64_t x)
{
	uint64_t la = 0;

	return legacy_linear(v, s, off, bytes, true, &la) || emu_st_slow(v, la, bytes, x);
}

/* ---- operands ---- */

uint64_t legacy_address(const struct legacy *l, const ZydisDecodedOperandMem *m)
{
	uint64_t mask = l->zi->address_width == 16 ? 0xffff : 0xffffffff, at = 0;

	if (m->disp.has_displacement)
		at += (uint64_t)m->disp.value;
	if (m->base != ZYDIS_REGISTER_NONE)
		at += l->v->r[emu_gpr(m->base)] & mask;
	if (m->index != ZYDIS_REGISTER_NONE)
		at += (l->v->r[emu_gpr(m->index)] & mask) * m->scale;
	return at & mask;
}

unsigned int legacy_insn_bytes_of(const struct legacy *l, unsigned int i)
{
	return l->zo[i].size / 8u;
}

int legacy_insn_get(struct legacy *l, unsigned int i, uint64_t *x)
{
	const ZydisDecodedOperand *o = &l->zo[i];
	struct emu_vcpu *v = l->v;

	switch (o->type) {
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		*x = o->imm.value.u;
		return 0;
	case ZYDIS_OPERAND_TYPE_REGISTER:
		if (o->reg.value >= ZYDIS_REGISTER_ES && o->reg.value <= ZYDIS_REGISTER_GS)
			*x = legacy_segment(v, o->reg.value)->selector;
		else
			*x = emu_rd(v, emu_gpr(o->reg.value), legacy_insn_bytes_of(l, i));
		return 0;
	default:
		return legacy_load(v, legacy_segment(v, o->mem.segment), legacy_address(l, &o->mem),
				   legacy_insn_bytes_of(l, i), x);
	}
}

int legacy_insn_put(struct legacy *l, unsigned int i, uint64_t x)
{
	const ZydisDecodedOperand *o = &l->zo[i];

	if (o->type == ZYDIS_OPERAND_TYPE_MEMORY)
		return legacy_insn_store(l->v, legacy_segment(l->v, o->mem.segment),
					 legacy_address(l, &o->mem), legacy_insn_bytes_of(l, i), x);
	emu_wr(l->v, emu_gpr(o->reg.value), legacy_insn_bytes_of(l, i), x);
	return 0;
}

/* ---- the stack ---- */

static uint64_t stack_mask(const struct emu_vcpu *v)
{
	return v->seg[EMU_SS].db ? 0xffffffff : 0xffff;
}

static void set_sp(struct emu_vcpu *v, uint64_t sp)
{
	emu_wr(v, EMU_RSP, v->seg[EMU_SS].db ? 4 : 2, sp);
}

int legacy_push(struct emu_vcpu *v, unsigned int bytes, const uint64_t *x, unsigned int n)
{
	uint64_t sp = v->r[EMU_RSP];

	for (unsigned int i = 0; i < n; i++) {
		sp = (sp - bytes) & stack_mask(v);
		if (legacy_insn_store(v, &v->seg[EMU_SS], sp, bytes, x[i]))
			return 1;
	}
	set_sp(v, sp);
	return 0;
}

int legacy_insn_peek(struct emu_vcpu *v, unsigned int skip, unsigned int bytes, uint64_t *x)
{
	return legacy_load(v, &v->seg[EMU_SS], (v->r[EMU_RSP] + skip) & stack_mask(v), bytes, x);
}

void legacy_insn_drop(struct emu_vcpu *v, unsigned int bytes)
{
	set_sp(v, v->r[EMU_RSP] + bytes);
}

/* ---- near transfers ---- */

static int near_to(struct legacy *l, uint64_t off)
{
	off &= l->zi->operand_width == 16 ? 0xffff : 0xffffffff;
	if (off > l->v->seg[EMU_CS].limit)
		return emu_gp(l->v, 0);
	l->next = off;
	l->taken = true;
	return 0;
}

static int near_target(struct legacy *l, uint64_t *off)
{
	if (legacy_insn_get(l, 0, off))
		return 1;
	if (l->zo[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE && l->zo[0].imm.is_relative)
		*off += l->next;
	return 0;
}

/* ---- instructions by kind ---- */

int legacy_mov(struct legacy *l)
{
	ZydisRegister r = l->zo[0].type == ZYDIS_OPERAND_TYPE_REGISTER ? l->zo[0].reg.value
								       : ZYDIS_REGISTER_NONE;
	ZydisRegister from = l->zo[1].type == ZYDIS_OPERAND_TYPE_REGISTER ? l->zo[1].reg.value
									  : ZYDIS_REGISTER_NONE;
	uint64_t x;

	if ((r >= ZYDIS_REGISTER_CR0 && r <= ZYDIS_REGISTER_CR15) ||
	    (from >= ZYDIS_REGISTER_CR0 && from <= ZYDIS_REGISTER_CR15))
		return legacy_mov_cr(l);
	if ((r >= ZYDIS_REGISTER_DR0 && r <= ZYDIS_REGISTER_DR15) ||
	    (from >= ZYDIS_REGISTER_DR0 && from <= ZYDIS_REGISTER_DR15) || r == ZYDIS_REGISTER_CS)
		return -1;
	if (legacy_insn_get(l, 1, &x))
		return 1;
	if (r >= ZYDIS_REGISTER_ES && r <= ZYDIS_REGISTER_GS)
		return legacy_load_segment(l->v, r - ZYDIS_REGISTER_ES, (uint16_t)x);
	return legacy_insn_put(l, 0, x);
}

int legacy_call(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u;
	uint64_t off, back = l->next;

	if (l->zi->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return legacy_far_call(l);
	if (near_target(l, &off))
		return 1;
	off &= n == 2 ? 0xffff : 0xffffffff;
	if (off > l->v->seg[EMU_CS].limit)
		return emu_gp(l->v, 0);
	return legacy_push(l->v, n, &back, 1) || near_to(l, off);
}

int legacy_ret(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u;
	bool far = l->zi->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;
	unsigned int more = l->zo[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE
				    ? (unsigned int)l->zo[0].imm.value.u
				    : 0;
	uint64_t off, sel;

	if (legacy_insn_peek(l->v, 0, n, &off) || (far && legacy_insn_peek(l->v, n, n, &sel)))
		return 1;
	if (far ? legacy_far_to(l, (uint16_t)sel, off) : near_to(l, off))
		return 1;
	legacy_insn_drop(l->v, (far ? 2 * n : n) + more);
	return 0;
}

int legacy_jmp(struct legacy *l)
{
	uint64_t off;

	if (l->zi->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return legacy_far_jump(l);
	return near_target(l, &off) || near_to(l, off);
}

/* The condition of a Jcc is in its opcode. */
int legacy_jcc(struct legacy *l)
{
	uint64_t off;

	if (!emu_cc(l->v, l->zi->opcode & 0xf))
		return 0;
	return near_target(l, &off) || near_to(l, off);
}

int legacy_lea(struct legacy *l)
{
	emu_wr(l->v, emu_gpr(l->zo[0].reg.value), legacy_insn_bytes_of(l, 0),
	       legacy_address(l, &l->zo[1].mem));
	return 0;
}

int legacy_port(struct legacy *l)
{
	bool in = l->zi->mnemonic == ZYDIS_MNEMONIC_IN;
	const ZydisDecodedOperand *o = &l->zo[in ? 1 : 0];
	struct emu_op op = {.base = (uint8_t)__builtin_ctz(legacy_insn_bytes_of(l, in ? 0 : 1)),
			    .ev = emu_insn_events(l->zi, l->zo, 0)};

	op.src = o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? EMIT_IMM : EMU_RDX;
	op.imm = o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? (int64_t)(o->imm.value.u & 0xff) : 0;
	return in ? emu_sys_in(l->v, &op) : emu_sys_out(l->v, &op);
}
