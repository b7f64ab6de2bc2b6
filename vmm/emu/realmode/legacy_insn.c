// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The instructions of 16- and 32-bit code, see legacy.h. CPL is 0, and memory is reached through
 * segments with a base and a limit (SDM vol. 3, 3.4 and 21.1). Expand-down segments are refused.
 * Nothing changes before the last check of an instruction.
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
	bool code = s->type & 8;

	if (s->unusable || off + bytes - 1 > s->limit || (!code && (s->type & 4)) ||
	    (write && (v->cr0 & CR0_PE) && (code || !(s->type & 2))))
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

static unsigned int legacy_insn_bytes_of(const struct legacy *l, unsigned int i)
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

/* ---- flags ---- */

static void set_flags(struct emu_vcpu *v, enum emu_fk kind, unsigned int bytes, uint64_t a,
		      uint64_t b)
{
	unsigned int lg = (unsigned int)__builtin_ctz(bytes);
	bool carry = kind == EMU_FK_INC || kind == EMU_FK_DEC || kind == EMU_FK_SHL ||
		     kind == EMU_FK_SHR;

	v->fl_kind = (uint32_t)kind * 4 + lg;
	v->fl_a = emu_sext(a, lg);
	v->fl_b = carry ? b : emu_sext(b, lg);
}

static bool carry(const struct emu_vcpu *v)
{
	return emu_flags(v) & EMU_CF;
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

static int push(struct emu_vcpu *v, unsigned int bytes, uint64_t x)
{
	return legacy_push(v, bytes, &x, 1);
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

static int legacy_insn_mov(struct legacy *l)
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

static int alu(struct legacy *l, unsigned int kind, bool keep)
{
	unsigned int n = legacy_insn_bytes_of(l, 0);
	enum emu_fk fk = EMU_FK_SUB;
	uint64_t a, b, res, cf = carry(l->v);

	if (legacy_insn_get(l, 0, &a) || legacy_insn_get(l, 1, &b))
		return 1;
	switch (kind) {
	case ALU_ADD:
		res = a + b;
		fk = EMU_FK_ADD;
		break;
	case ALU_ADC:
		res = a + b + cf;
		fk = cf ? EMU_FK_ADC : EMU_FK_ADD;
		break;
	case ALU_SUB:
		res = a - b;
		break;
	case ALU_SBB:
		res = a - b - cf;
		fk = cf ? EMU_FK_SBB : EMU_FK_SUB;
		break;
	case ALU_AND:
		res = a & b;
		break;
	case ALU_OR:
		res = a | b;
		break;
	default:
		res = a ^ b;
	}
	if (keep && legacy_insn_put(l, 0, res))
		return 1;
	if (kind == ALU_SUB || kind == ALU_SBB)
		set_flags(l->v, fk, n, a, b);
	else
		set_flags(l->v, fk, n, res, kind == ALU_ADD || kind == ALU_ADC ? b : 0);
	return 0;
}

static int negate(struct legacy *l)
{
	uint64_t a;

	if (legacy_insn_get(l, 0, &a) || legacy_insn_put(l, 0, 0 - a))
		return 1;
	set_flags(l->v, EMU_FK_SUB, legacy_insn_bytes_of(l, 0), 0, a);
	return 0;
}

static int inc_dec(struct legacy *l, bool dec)
{
	bool cf = carry(l->v);
	uint64_t a;

	if (legacy_insn_get(l, 0, &a))
		return 1;
	a += dec ? -1ULL : 1;
	if (legacy_insn_put(l, 0, a))
		return 1;
	set_flags(l->v, dec ? EMU_FK_DEC : EMU_FK_INC, legacy_insn_bytes_of(l, 0), a, cf);
	return 0;
}

static int legacy_insn_shift(struct legacy *l, bool left)
{
	unsigned int n = legacy_insn_bytes_of(l, 0), bits = n * 8;
	uint64_t a, by, cf;

	if (legacy_insn_get(l, 0, &a) || legacy_insn_get(l, 1, &by))
		return 1;
	by &= 31;
	if (!by)
		return 0;
	if (l->zi->mnemonic == ZYDIS_MNEMONIC_SAR)
		a = emu_sext(a, (unsigned int)__builtin_ctz(n)); /* and is 64 bits wide */
	else if (by > bits)
		return -1; /* the carry is undefined */
	cf = left ? a >> (bits - by) & 1 : a >> (by - 1) & 1;
	a = left ? a << by : (uint64_t)((int64_t)a >> by);
	if (legacy_insn_put(l, 0, a))
		return 1;
	set_flags(l->v, left ? EMU_FK_SHL : EMU_FK_SHR, n, a, cf);
	return 0;
}

/* BT, BTS, BTR. With memory and a register as index, which would move the address, they are not
 * supported. */
static int bit(struct legacy *l)
{
	unsigned int n = legacy_insn_bytes_of(l, 0);
	uint64_t a, i, res;

	if (l->zo[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
	    l->zo[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return -1;
	if (legacy_insn_get(l, 0, &a) || legacy_insn_get(l, 1, &i))
		return 1;
	i &= n * 8 - 1;
	res = a;
	if (l->zi->mnemonic == ZYDIS_MNEMONIC_BTS)
		res |= 1ULL << i;
	else if (l->zi->mnemonic == ZYDIS_MNEMONIC_BTR)
		res &= ~(1ULL << i);
	if (l->zi->mnemonic != ZYDIS_MNEMONIC_BT && legacy_insn_put(l, 0, res))
		return 1;
	emu_fl_override(l->v, EMU_CF, a >> i & 1 ? EMU_CF : 0);
	return 0;
}

static int call_insn(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u;
	uint64_t off, back = l->next;

	if (l->zi->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return legacy_stack(l);
	if (near_target(l, &off))
		return 1;
	off &= n == 2 ? 0xffff : 0xffffffff;
	if (off > l->v->seg[EMU_CS].limit)
		return emu_gp(l->v, 0);
	return push(l->v, n, back) || near_to(l, off);
}

static int ret_insn(struct legacy *l)
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

static int jump_insn(struct legacy *l)
{
	uint64_t off;

	if (l->zi->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return legacy_far_jump(l);
	return near_target(l, &off) || near_to(l, off);
}

/* The condition of a Jcc is in its opcode. */
static int branch(struct legacy *l)
{
	uint64_t off;

	if (!emu_cc(l->v, l->zi->opcode & 0xf))
		return 0;
	return near_target(l, &off) || near_to(l, off);
}

static int legacy_insn_lea(struct legacy *l)
{
	emu_wr(l->v, emu_gpr(l->zo[0].reg.value), legacy_insn_bytes_of(l, 0),
	       legacy_address(l, &l->zo[1].mem));
	return 0;
}

static int zero_extend(struct legacy *l)
{
	uint64_t x;

	return legacy_insn_get(l, 1, &x) || legacy_insn_put(l, 0, x);
}

/* An XCHG with memory is always locked. */
static int legacy_insn_exchange(struct legacy *l)
{
	uint64_t a, b;

	if (l->zo[0].type == ZYDIS_OPERAND_TYPE_MEMORY)
		return legacy_locked(l);
	return legacy_insn_get(l, 0, &a) || legacy_insn_get(l, 1, &b) || legacy_insn_put(l, 0, b) ||
	       legacy_insn_put(l, 1, a);
}

static int port(struct legacy *l, bool in)
{
	const ZydisDecodedOperand *o = &l->zo[in ? 1 : 0];
	struct emu_op op = {.base = (uint8_t)__builtin_ctz(legacy_insn_bytes_of(l, in ? 0 : 1)),
			    .ev = emu_insn_events(l->zi, l->zo, 0)};

	op.src = o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? EMIT_IMM : EMU_RDX;
	op.imm = o->type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? (int64_t)(o->imm.value.u & 0xff) : 0;
	return in ? emu_sys_in(l->v, &op) : emu_sys_out(l->v, &op);
}

static int flag(struct emu_vcpu *v, uint64_t clear, uint64_t set)
{
	emu_put_rflags(v, (emu_get_rflags(v) & ~clear) | set);
	return 0;
}

int emu_legacy_insn(struct legacy *l)
{
	struct emu_op op = {.ev = emu_insn_events(l->zi, l->zo, 0)};
	struct emu_vcpu *v = l->v;

	if (l->zi->attributes & ZYDIS_ATTRIB_HAS_REPNE)
		return -1;
	if (l->zi->attributes & ZYDIS_ATTRIB_HAS_LOCK)
		return legacy_locked(l);
	if (l->zi->meta.category == ZYDIS_CATEGORY_COND_BR &&
	    l->zi->mnemonic != ZYDIS_MNEMONIC_LOOP && l->zi->mnemonic != ZYDIS_MNEMONIC_LOOPE &&
	    l->zi->mnemonic != ZYDIS_MNEMONIC_LOOPNE && l->zi->mnemonic != ZYDIS_MNEMONIC_JCXZ &&
	    l->zi->mnemonic != ZYDIS_MNEMONIC_JECXZ)
		return branch(l);
	switch (l->zi->mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
		return legacy_insn_mov(l);
	case ZYDIS_MNEMONIC_MOVZX:
		return zero_extend(l);
	case ZYDIS_MNEMONIC_LEA:
		return legacy_insn_lea(l);
	case ZYDIS_MNEMONIC_XCHG:
		return legacy_insn_exchange(l);
	case ZYDIS_MNEMONIC_ADD:
		return alu(l, ALU_ADD, true);
	case ZYDIS_MNEMONIC_SUB:
		return alu(l, ALU_SUB, true);
	case ZYDIS_MNEMONIC_ADC:
		return alu(l, ALU_ADC, true);
	case ZYDIS_MNEMONIC_SBB:
		return alu(l, ALU_SBB, true);
	case ZYDIS_MNEMONIC_NEG:
		return negate(l);
	case ZYDIS_MNEMONIC_CMP:
		return alu(l, ALU_SUB, false);
	case ZYDIS_MNEMONIC_AND:
		return alu(l, ALU_AND, true);
	case ZYDIS_MNEMONIC_TEST:
		return alu(l, ALU_AND, false);
	case ZYDIS_MNEMONIC_OR:
		return alu(l, ALU_OR, true);
	case ZYDIS_MNEMONIC_XOR:
		return alu(l, ALU_XOR, true);
	case ZYDIS_MNEMONIC_INC:
		return inc_dec(l, false);
	case ZYDIS_MNEMONIC_DEC:
		return inc_dec(l, true);
	case ZYDIS_MNEMONIC_SHL:
		return legacy_insn_shift(l, true);
	case ZYDIS_MNEMONIC_SHR:
	case ZYDIS_MNEMONIC_SAR:
		return legacy_insn_shift(l, false);
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
		return bit(l);
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFD:
	case ZYDIS_MNEMONIC_POP:
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFD:
		return legacy_stack(l);
	case ZYDIS_MNEMONIC_CALL:
		return call_insn(l);
	case ZYDIS_MNEMONIC_RET:
		return ret_insn(l);
	case ZYDIS_MNEMONIC_JMP:
		return jump_insn(l);
	case ZYDIS_MNEMONIC_NOP:
	case ZYDIS_MNEMONIC_PAUSE:
	case ZYDIS_MNEMONIC_ENDBR32:
	case ZYDIS_MNEMONIC_ENDBR64:
	case ZYDIS_MNEMONIC_WBINVD:
	case ZYDIS_MNEMONIC_INVD:
		return 0;
	case ZYDIS_MNEMONIC_CLI:
		return flag(v, EMU_IF, 0);
	case ZYDIS_MNEMONIC_STI:
		v->sti_shadow = !(v->rflags & EMU_IF);
		return flag(v, 0, EMU_IF);
	case ZYDIS_MNEMONIC_RDTSC:
		return emu_sys_rdtsc(v, &op);
	case ZYDIS_MNEMONIC_STD:
		return flag(v, 0, EMU_DF);
	case ZYDIS_MNEMONIC_SGDT:
	case ZYDIS_MNEMONIC_SIDT:
	case ZYDIS_MNEMONIC_LEAVE:
	case ZYDIS_MNEMONIC_PUSHA:
	case ZYDIS_MNEMONIC_PUSHAD:
	case ZYDIS_MNEMONIC_POPA:
	case ZYDIS_MNEMONIC_POPAD:
	case ZYDIS_MNEMONIC_INT:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_LDS:
	case ZYDIS_MNEMONIC_LES:
	case ZYDIS_MNEMONIC_LSS:
	case ZYDIS_MNEMONIC_LFS:
	case ZYDIS_MNEMONIC_LGS:
		return legacy_stack(l);
	case ZYDIS_MNEMONIC_CLD:
		return flag(v, EMU_DF, 0);
	case ZYDIS_MNEMONIC_HLT:
		return emu_sys_hlt(v, &op);
	case ZYDIS_MNEMONIC_CPUID:
		return emu_sys_cpuid(v, &op);
	case ZYDIS_MNEMONIC_RDMSR:
		return emu_sys_rdmsr(v, &op);
	case ZYDIS_MNEMONIC_WRMSR:
		return legacy_wrmsr(l);
	case ZYDIS_MNEMONIC_LGDT:
		return legacy_load_table(l, &v->gdt);
	case ZYDIS_MNEMONIC_LIDT:
		return legacy_load_table(l, &v->idt);
	case ZYDIS_MNEMONIC_IN:
		return port(l, true);
	case ZYDIS_MNEMONIC_OUT:
		return port(l, false);
	default:
		return legacy_arith(l);
	}
}
