// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Interrupts of real mode and instructions with several values on the stack, see legacy.h: 16-bit
 * firmware of guests of SVM needs them. SDM vol. 3, 21.1.4; APM vol. 3, INT, IRET.
 */
#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/realmode/legacy.h"

#define POPF_BITS 0x257fd5u /* loaded by POPF at CPL 0, without IOPL and TF: ID AC RF NT ... */
#define EFLAGS_AC (1u << 18)

static bool stack_real(const struct emu_vcpu *v)
{
	return !(v->cr0 & CR0_PE);
}

int emu_legacy_interrupt(struct emu_vcpu *v, uint8_t vec)
{
	uint64_t flags = emu_get_rflags(v), entry,
		 frame[3] = {flags, v->seg[EMU_CS].selector, v->rip};
	bool single = v->single;
	int rc;

	if (vec * 4u + 3 > v->idt.limit)
		return emu_error(v, "interrupt %u in real mode beyond the limit 0x%x of its table",
				 vec, v->idt.limit);
	v->single = true; /* stores may hit decoded code */
	entry = emu_ld_slow(v, v->idt.base + vec * 4u, 4);
	rc = v->trap != EMU_TRAP_NONE || legacy_push(v, 2, frame, 3);
	v->single = single;
	if (rc)
		return 1;
	emu_put_rflags(v, flags & ~((uint64_t)(EMU_IF | EMU_TF | EMU_RF | EFLAGS_AC)));
	v->seg[EMU_CS].selector = (uint16_t)(entry >> 16);
	v->seg[EMU_CS].base = (entry >> 16) << 4;
	v->rip = entry & 0xffff;
	v->sti_shadow = v->brk.ss_shadow = false;
	v->halted = false;
	return 0;
}

static int stack_put_flags(struct emu_vcpu *v, unsigned int bytes, uint64_t x)
{
	uint64_t f = emu_get_rflags(v), bits = POPF_BITS | EMU_IOPL;

	if (x & EMU_TF)
		return emu_error(v, "single-stepping of 16- or 32-bit code");
	if (bytes == 2)
		x |= f & ~0xffffULL;
	emu_put_rflags(v, ((f & ~bits) | (x & bits)) & ~EMU_RF);
	return 0;
}

int legacy_pushv(struct legacy *l)
{
	uint64_t x;

	return legacy_insn_get(l, 0, &x) || legacy_push(l->v, l->zi->operand_width / 8u, &x, 1);
}

int legacy_pushf(struct legacy *l)
{
	uint64_t x = emu_get_rflags(l->v) & ~(EMU_VM | EMU_RF);

	return legacy_push(l->v, l->zi->operand_width / 8u, &x, 1);
}

int legacy_pop(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u;
	ZydisRegister r = l->zo[0].type == ZYDIS_OPERAND_TYPE_REGISTER ? l->zo[0].reg.value
								       : ZYDIS_REGISTER_NONE;
	struct emu_vcpu *v = l->v;
	uint64_t x, sp = v->r[EMU_RSP];

	if (legacy_insn_peek(v, 0, n, &x))
		return 1;
	if (r >= ZYDIS_REGISTER_ES && r <= ZYDIS_REGISTER_GS) {
		if (legacy_load_segment(v, r - ZYDIS_REGISTER_ES, (uint16_t)x))
			return 1;
		legacy_insn_drop(v, n);
		return 0;
	}
	legacy_insn_drop(v, n); /* an address in ESP is that behind it (SDM vol. 2, POP) */
	if (!legacy_insn_put(l, 0, x))
		return 0;
	v->r[EMU_RSP] = sp;
	return 1;
}

int legacy_popf(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u;
	uint64_t x;

	if (legacy_insn_peek(l->v, 0, n, &x) || stack_put_flags(l->v, n, x))
		return 1;
	legacy_insn_drop(l->v, n);
	return 0;
}

/* The order of both: AX CX DX BX SP BP SI DI, which are registers 0 to 7. */
int legacy_push_all(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u;
	uint64_t x[8];

	for (unsigned int i = 0; i < 8; i++)
		x[i] = emu_rd(l->v, i, n);
	return legacy_push(l->v, n, x, 8);
}

int legacy_pop_all(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u;
	uint64_t x[8];

	for (unsigned int i = 0; i < 8; i++)
		if (legacy_insn_peek(l->v, (7 - i) * n, n, &x[i]))
			return 1;
	for (unsigned int i = 0; i < 8; i++)
		if (i != EMU_RSP)
			emu_wr(l->v, i, n, x[i]);
	legacy_insn_drop(l->v, 8 * n);
	return 0;
}

int legacy_int(struct legacy *l)
{
	struct emu_vcpu *v = l->v;
	uint64_t rip = v->rip;

	if (!stack_real(v))
		return -1;
	v->rip = l->next;
	if (emu_legacy_interrupt(v, (uint8_t)l->zo[0].imm.value.u)) {
		v->rip = rip;
		return 1;
	}
	l->next = v->rip;
	l->taken = true;
	return 0;
}

int legacy_iret(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u;
	struct emu_vcpu *v = l->v;
	uint64_t off, sel, flags;

	if (!stack_real(v))
		return -1;
	if (legacy_insn_peek(v, 0, n, &off) || legacy_insn_peek(v, n, n, &sel) ||
	    legacy_insn_peek(v, 2 * n, n, &flags))
		return 1;
	if (flags & EMU_TF)
		return emu_error(v, "single-stepping of 16- or 32-bit code");
	if (legacy_far_to(l, (uint16_t)sel, off) || stack_put_flags(v, n, flags))
		return 1;
	legacy_insn_drop(v, 3 * n);
	v->nmi_masked = false;
	return 0;
}

int legacy_far_pointer(struct legacy *l, const ZydisDecodedOperand *o, uint64_t *off, uint64_t *sel)
{
	const struct kvm_segment *s = legacy_segment(l->v, o->mem.segment);
	uint64_t at = legacy_address(l, &o->mem);
	unsigned int n = l->zi->operand_width / 8u;

	return legacy_load(l->v, s, at, n, off) || legacy_load(l->v, s, at + n, 2, sel);
}

/* Only in real mode, where nothing can fail behind the stores. */
int legacy_far_call(struct legacy *l)
{
	uint64_t off, sel, frame[2] = {l->v->seg[EMU_CS].selector, l->next};

	if (!stack_real(l->v))
		return -1;
	if (l->zo[0].type == ZYDIS_OPERAND_TYPE_POINTER) {
		off = l->zo[0].ptr.offset;
		sel = l->zo[0].ptr.segment;
	} else if (legacy_far_pointer(l, &l->zo[0], &off, &sel)) {
		return 1;
	}
	if (off > l->v->seg[EMU_CS].limit)
		return emu_gp(l->v, 0);
	return legacy_push(l->v, l->zi->operand_width / 8u, frame, 2) ||
	       legacy_far_to(l, (uint16_t)sel, off);
}

int legacy_load_far(struct legacy *l)
{
	uint64_t off, sel;

	if (legacy_far_pointer(l, &l->zo[1], &off, &sel) ||
	    legacy_load_segment(l->v, l->row->arg, (uint16_t)sel))
		return 1;
	return legacy_insn_put(l, 0, off); /* a register */
}

/* The base has 32 bits at every operand size, as on AMD's CPUs (APM vol. 3, SGDT). */
int legacy_store_table(struct legacy *l)
{
	const struct kvm_dtable *t =
		l->zi->mnemonic == ZYDIS_MNEMONIC_SGDT ? &l->v->gdt : &l->v->idt;
	const struct kvm_segment *s = legacy_segment(l->v, l->zo[0].mem.segment);
	uint64_t at = legacy_address(l, &l->zo[0].mem);

	return legacy_insn_store(l->v, s, at, 2, t->limit) ||
	       legacy_insn_store(l->v, s, at + 2, 4, t->base);
}

int legacy_leave(struct legacy *l)
{
	unsigned int n = l->zi->operand_width / 8u, width = l->v->seg[EMU_SS].db ? 4 : 2;
	struct emu_vcpu *v = l->v;
	uint64_t bp = emu_rd(v, EMU_RBP, width), x;

	if (legacy_load(v, &v->seg[EMU_SS], bp, n, &x))
		return 1;
	emu_wr(v, EMU_RSP, width, bp);
	legacy_insn_drop(v, n);
	emu_wr(v, EMU_RBP, n, x);
	return 0;
}
