// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Segment, control and table registers in 16- and 32-bit code, and far transfers, see legacy.h. CPL
 * is 0. legacy_insn.c calls this file.
 */
#include "vmm/emu/realmode/legacy.h"

#define CR0_PE	     (1ULL << 0)
#define CR0_ET	     (1ULL << 4)
#define CR0_NW	     (1ULL << 29)
#define CR0_CD	     (1ULL << 30)
#define CR0_PG	     (1ULL << 31)
#define CR0_WRITABLE 0xe005003fULL
#define CR4_PAE	     (1ULL << 5)
#define CR4_WRITABLE 0x1107ffULL
#define EFER_LME     (1ULL << 8)
#define EFER_LMA     (1ULL << 10)
#define EFER_KNOWN   0x901ULL /* SCE LME NXE */
#define EFER_AIBRSE  (1ULL << 21)
#define MSR_EFER     0xc0000080u

/* ---- loading segment registers ---- */

static void real_segment(struct soft_vcpu *v, unsigned int seg, uint16_t sel)
{
	struct kvm_segment *s = &v->seg[seg];

	/* The limit and the rights stay what they were (SDM vol. 3, 10.9.1). */
	s->selector = sel;
	s->base = (uint64_t)sel << 4;
	s->unusable = 0;
	if (seg == SOFT_CS || s->type & 8) {
		s->type = 3;
		s->dpl = 0;
	}
}

int legacy_load_segment(struct soft_vcpu *v, unsigned int seg, uint16_t sel)
{
	struct kvm_segment s = {.selector = sel, .unusable = 1};
	uint64_t d;

	if (!(v->cr0 & CR0_PE)) {
		real_segment(v, seg, sel);
	} else if (!(sel & ~3u)) {
		if (seg == SOFT_SS)
			return soft_gp(v, 0);
		v->seg[seg] = s;
	} else {
		if (soft_read_desc(v, sel, 0, &d))
			return 1;
		soft_desc_segment(&s, sel, d);
		if (!s.s || (s.type & 0xa) == 8 ||
		    (seg == SOFT_SS && ((s.type & 0xa) != 2 || s.dpl || sel & 3)))
			return soft_gp(v, sel & ~3u);
		if (!s.present)
			return soft_fault(v, seg == SOFT_SS ? SOFT_STACK : SOFT_NP, true,
					  sel & ~3u);
		v->seg[seg] = s;
	}
	if (seg == SOFT_FS)
		v->r[SOFT_FSBASE] = v->seg[seg].base;
	if (seg == SOFT_GS)
		v->r[SOFT_GSBASE] = v->seg[seg].base;
	return 0;
}

/* Transfer to @sel:@off. Only code of CPL 0: everything else is #GP here. */
int legacy_far_to(struct legacy *l, uint16_t sel, uint64_t off)
{
	struct soft_vcpu *v = l->v;
	struct kvm_segment s = v->seg[SOFT_CS];
	uint64_t d;

	if (!(v->cr0 & CR0_PE)) {
		if (off > s.limit)
			return soft_gp(v, 0);
		real_segment(v, SOFT_CS, sel);
	} else {
		if (!(sel & ~3u))
			return soft_gp(v, 0);
		if (soft_read_desc(v, sel, 0, &d))
			return 1;
		soft_desc_segment(&s, sel, d);
		if (!s.s || !(s.type & 8) || s.dpl || sel & 3)
			return soft_gp(v, sel & ~3u);
		if (!s.present)
			return soft_fault(v, SOFT_NP, true, sel & ~3u);
		if (!(v->efer & EFER_LMA))
			s.l = 0;
		if (s.l ? s.db : off > s.limit)
			return soft_gp(v, s.l ? sel & ~3u : 0);
		v->seg[SOFT_CS] = s;
	}
	l->next = off;
	l->taken = true;
	return 0;
}

int legacy_far_jump(struct legacy *l)
{
	const ZydisDecodedOperand *o = &l->zo[0];
	const struct kvm_segment *s;
	unsigned int bytes = l->zi->operand_width / 8u;
	uint64_t off, sel;

	if (o->type == ZYDIS_OPERAND_TYPE_POINTER)
		return legacy_far_to(l, o->ptr.segment, o->ptr.offset);
	s = legacy_segment(l->v, o->mem.segment);
	if (legacy_load(l->v, s, legacy_address(l, &o->mem), bytes, &off) ||
	    legacy_load(l->v, s, legacy_address(l, &o->mem) + bytes, 2, &sel))
		return 1;
	return legacy_far_to(l, (uint16_t)sel, off);
}

/* ---- control registers and EFER ---- */

/* Paging can be turned on for 64-bit mode only, and never off: the soft machine walks tables of
 * four levels. */
static int set_cr0(struct soft_vcpu *v, uint64_t x)
{
	if (x >> 32 || ((x & CR0_NW) && !(x & CR0_CD)) || ((x & CR0_PG) && !(x & CR0_PE)))
		return soft_gp(v, 0);
	if (x & CR0_PG & ~v->cr0) {
		if (!(v->efer & EFER_LME) || !(v->cr4 & CR4_PAE))
			return soft_error(v,
					  "CR0 = 0x%llx turns on paging with EFER 0x%llx and CR4 "
					  "0x%llx; only that of 64-bit mode is modelled",
					  (unsigned long long)x, (unsigned long long)v->efer,
					  (unsigned long long)v->cr4);
		v->efer |= EFER_LMA;
	} else if (v->cr0 & CR0_PG & ~x) {
		v->efer &= ~EFER_LMA;
	}
	v->cr0 = (x & CR0_WRITABLE) | CR0_ET;
	soft_tlb_flush(v);
	return 0;
}

static int set_cr4(struct soft_vcpu *v, uint64_t x)
{
	if ((x & ~CR4_WRITABLE) || ((v->efer & EFER_LMA) && !(x & CR4_PAE)))
		return soft_gp(v, 0);
	v->cr4 = x;
	soft_tlb_flush(v);
	return 0;
}

int legacy_mov_cr(struct legacy *l)
{
	bool to = l->zo[0].reg.value >= ZYDIS_REGISTER_CR0 &&
		  l->zo[0].reg.value <= ZYDIS_REGISTER_CR15;
	unsigned int gpr = soft_gpr(l->zo[to ? 1 : 0].reg.value);
	struct soft_op op = {.dst = (uint8_t)gpr,
			     .src = (uint8_t)gpr,
			     .scale = (uint8_t)(l->zo[to ? 0 : 1].reg.value - ZYDIS_REGISTER_CR0)};
	uint64_t x = (uint32_t)l->v->r[gpr];

	if (!to) {
		int rc = soft_sys_mov_from_cr(l->v, &op);

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
		return soft_set_cr(l->v, op.scale, x);
	}
}

int legacy_wrmsr(struct legacy *l)
{
	struct soft_op op = {.ev = soft_insn_events(l->zi, l->zo, 0)};
	struct soft_vcpu *v = l->v;
	uint64_t x = (uint32_t)v->r[SOFT_RAX] | v->r[SOFT_RDX] << 32;
	uint64_t known = EFER_KNOWN | (v->intel ? 0 : EFER_AIBRSE);

	if ((uint32_t)v->r[SOFT_RCX] != MSR_EFER || (v->efer & EFER_LMA))
		return soft_sys_wrmsr(v, &op);
	if (x & ~(known | EFER_LMA))
		return soft_gp(v, 0);
	v->efer = x & known;
	return 0;
}

int legacy_load_table(struct legacy *l, struct kvm_dtable *t)
{
	const ZydisDecodedOperand *o = &l->zo[0];
	const struct kvm_segment *s = legacy_segment(l->v, o->mem.segment);
	uint64_t at = legacy_address(l, &o->mem), limit, base;

	if (legacy_load(l->v, s, at, 2, &limit) || legacy_load(l->v, s, at + 2, 4, &base))
		return 1;
	t->limit = (uint16_t)limit;
	t->base = base & (l->zi->operand_width == 16 ? 0xffffff : 0xffffffff);
	return 0;
}
