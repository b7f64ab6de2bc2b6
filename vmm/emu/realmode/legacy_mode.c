// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Segment, control and table registers in 16- and 32-bit code, and far transfers, see legacy.h. CPL
 * is 0.
 */
#include "vmm/emu/realmode/legacy.h"
#include "vmm/emu/svm/svm.h"

#define EFER_KNOWN 0x901ULL /* SCE LME NXE */

/* ---- loading segment registers ---- */

static void real_segment(struct emu_vcpu *v, unsigned int seg, uint16_t sel)
{
	struct kvm_segment *s = &v->seg[seg];

	/* The limit and the rights are unchanged (SDM vol. 3, 10.9.1). */
	s->selector = sel;
	s->base = (uint64_t)sel << 4;
	s->unusable = 0;
	if (seg == EMU_CS || s->type & 8) {
		s->type = 3;
		s->dpl = 0;
	}
}

int legacy_load_segment(struct emu_vcpu *v, unsigned int seg, uint16_t sel)
{
	struct kvm_segment s = {.selector = sel, .unusable = 1};
	uint64_t d;

	if (!(v->cr0 & CR0_PE)) {
		real_segment(v, seg, sel);
	} else if (!(sel & ~3u)) {
		if (seg == EMU_SS)
			return emu_gp(v, 0);
		v->seg[seg] = s;
	} else {
		if (emu_read_desc(v, sel, 0, &d))
			return 1;
		emu_desc_segment(&s, sel, d);
		if (!s.s || (s.type & 0xa) == 8 ||
		    (seg == EMU_SS && ((s.type & 0xa) != 2 || s.dpl || sel & 3)))
			return emu_gp(v, sel & ~3u);
		if (!s.present)
			return emu_fault(v, seg == EMU_SS ? EMU_STACK : EMU_NP, true, sel & ~3u);
		v->seg[seg] = s;
	}
	if (seg == EMU_FS)
		v->r[EMU_FSBASE] = v->seg[seg].base;
	if (seg == EMU_GS)
		v->r[EMU_GSBASE] = v->seg[seg].base;
	return 0;
}

int legacy_far_to(struct legacy *l, uint16_t sel, uint64_t off)
{
	struct emu_vcpu *v = l->v;
	struct kvm_segment s = v->seg[EMU_CS];
	uint64_t d;

	if (!(v->cr0 & CR0_PE)) {
		if (off > s.limit)
			return emu_gp(v, 0);
		real_segment(v, EMU_CS, sel);
	} else {
		if (!(sel & ~3u))
			return emu_gp(v, 0);
		if (emu_read_desc(v, sel, 0, &d))
			return 1;
		emu_desc_segment(&s, sel, d);
		if (!s.s || !(s.type & 8) || s.dpl || sel & 3)
			return emu_gp(v, sel & ~3u);
		if (!s.present)
			return emu_fault(v, EMU_NP, true, sel & ~3u);
		if (!(v->efer & EFER_LMA))
			s.l = 0;
		if (s.l ? s.db : off > s.limit)
			return emu_gp(v, s.l ? sel & ~3u : 0);
		v->seg[EMU_CS] = s;
	}
	l->next = off;
	l->taken = true;
	return 0;
}

int legacy_far_jump(struct legacy *l)
{
	const ZydisDecodedOperand *o = &l->zo[0];
	uint64_t off, sel;

	if (o->type == ZYDIS_OPERAND_TYPE_POINTER)
		return legacy_far_to(l, o->ptr.segment, o->ptr.offset);
	return legacy_far_pointer(l, o, &off, &sel) || legacy_far_to(l, (uint16_t)sel, off);
}

/* ---- control registers and EFER ---- */

/* Paging can be turned on only for 64-bit mode, and never off: the emulator walks four-level
 * tables. */
static int set_cr0(struct emu_vcpu *v, uint64_t x)
{
	if (x >> 32 || ((x & CR0_NW) && !(x & CR0_CD)) || ((x & CR0_PG) && !(x & CR0_PE)))
		return emu_gp(v, 0);
	if (x & CR0_PG & ~v->cr0) {
		if (!(v->efer & EFER_LME) || !(v->cr4 & CR4_PAE))
			return emu_error(v,
					 "CR0 = 0x%llx turns on paging with EFER 0x%llx and CR4 "
					 "0x%llx; only that of 64-bit mode is modelled",
					 (unsigned long long)x, (unsigned long long)v->efer,
					 (unsigned long long)v->cr4);
		v->efer |= EFER_LMA;
	} else if (v->cr0 & CR0_PG & ~x) {
		v->efer &= ~EFER_LMA;
	}
	v->cr0 = (x & CR0_WRITABLE) | CR0_ET;
	emu_tlb_flush(v);
	return 0;
}

static int set_cr4(struct emu_vcpu *v, uint64_t x)
{
	if ((x & ~emu_cr4_writable(v)) || ((v->efer & EFER_LMA) && !(x & CR4_PAE)))
		return emu_gp(v, 0);
	v->cr4 = x;
	emu_tlb_flush(v);
	return 0;
}

int legacy_mov_cr(struct legacy *l)
{
	bool to = l->zo[0].reg.value >= ZYDIS_REGISTER_CR0 &&
		  l->zo[0].reg.value <= ZYDIS_REGISTER_CR15;
	unsigned int gpr = emu_gpr(l->zo[to ? 1 : 0].reg.value);
	struct emu_op op = {.dst = (uint8_t)gpr,
			    .src = (uint8_t)gpr,
			    .scale = (uint8_t)(l->zo[to ? 0 : 1].reg.value - ZYDIS_REGISTER_CR0)};
	uint64_t x = (uint32_t)l->v->r[gpr];

	if (!to) {
		int rc = emu_sys_mov_from_cr(l->v, &op);

		if (!rc)
			l->v->r[gpr] = (uint32_t)l->v->r[gpr];
		return rc;
	}
	switch (op.scale) {
	case 0:
		return set_cr0(l->v, x);
	case 4:
		return set_cr4(l->v, x);
	default:
		return emu_set_cr(l->v, op.scale, x);
	}
}

int legacy_wrmsr(struct legacy *l)
{
	struct emu_op op = {.ev = emu_insn_events(l->zi, l->zo, 0)};
	struct emu_vcpu *v = l->v;
	uint64_t x = (uint32_t)v->r[EMU_RAX] | v->r[EMU_RDX] << 32;
	uint64_t known = EFER_KNOWN | (v->intel ? 0 : EFER_AIBRSE);

	if ((uint32_t)v->r[EMU_RCX] != MSR_EFER || (v->efer & EFER_LMA))
		return emu_sys_wrmsr(v, &op);
	if (unlikely(v->guest) && emu_svm_msr(v, MSR_EFER, true))
		return 1;
	known |= emu_svm_efer(v);
	if (x & ~(known | EFER_LMA))
		return emu_gp(v, 0);
	v->efer = (x & known) | (v->guest ? EFER_SVME : 0);
	return 0;
}

int legacy_load_system(struct legacy *l)
{
	bool ltr = l->zi->mnemonic == ZYDIS_MNEMONIC_LTR;
	struct kvm_segment s = {.unusable = 1};
	struct emu_vcpu *v = l->v;
	uint8_t byte;
	uint16_t sel;
	uint64_t d;

	if (l->zo[0].type != ZYDIS_OPERAND_TYPE_REGISTER || !(v->cr0 & CR0_PE))
		return -1;
	sel = (uint16_t)v->r[emu_gpr(l->zo[0].reg.value)];
	if (!ltr && (sel & ~3u))
		return -1;
	if (!ltr) {
		s.selector = sel;
		v->ldt = s;
		return 0;
	}
	if (!(sel & ~3u) || (sel & 4))
		return emu_gp(v, sel & ~3u);
	if (emu_read_desc(v, sel, 0, &d))
		return 1;
	emu_desc_segment(&s, sel, d);
	if (s.s || s.type != 9)
		return emu_gp(v, sel & ~3u);
	if (!s.present)
		return emu_fault(v, EMU_NP, true, sel & ~3u);
	byte = (uint8_t)(d >> 40) | 2; /* busy */
	if (emu_sys_write(v, v->gdt.base + (sel & ~7u) + 5, &byte, 1, 0))
		return 1;
	s.type = 0xb;
	v->tr = s;
	return 0;
}

int legacy_load_table(struct legacy *l)
{
	struct kvm_dtable *t = l->zi->mnemonic == ZYDIS_MNEMONIC_LGDT ? &l->v->gdt : &l->v->idt;
	const ZydisDecodedOperand *o = &l->zo[0];
	const struct kvm_segment *s = legacy_segment(l->v, o->mem.segment);
	uint64_t at = legacy_address(l, &o->mem), limit, base;

	if (legacy_load(l->v, s, at, 2, &limit) || legacy_load(l->v, s, at + 2, 4, &base))
		return 1;
	t->limit = (uint16_t)limit;
	t->base = base & (l->zi->operand_width == 16 ? 0xffffff : 0xffffffff);
	return 0;
}
