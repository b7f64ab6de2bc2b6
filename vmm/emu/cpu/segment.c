// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Segmentation in 64-bit mode: descriptor tables, loading of selectors, the TSS, FS and GS bases.
 * AMD64 APM vol. 2, 4.8; SDM vol. 3, 3.4 and 7.
 */
#include <string.h>

#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/svm/svm.h"

#define CR4_FSGSBASE (1ULL << 16)

#define DESC_S(d)	((d) >> 44 & 1)
#define DESC_TYPE(d)	((unsigned int)((d) >> 40 & 0xf))
#define DESC_DPL(d)	((unsigned int)((d) >> 45 & 3))
#define DESC_P(d)	((d) >> 47 & 1)
#define TYPE_CODE	8u
#define TYPE_CONFORMING 4u
#define TYPE_WRITABLE	2u
#define TYPE_READABLE	2u

void emu_desc_segment(struct kvm_segment *s, uint16_t sel, uint64_t d)
{
	uint32_t limit = (uint32_t)((d & 0xffff) | (d >> 32 & 0xf0000));

	*s = (struct kvm_segment){
		.base = (d >> 16 & 0xffffff) | (d >> 32 & 0xff000000),
		.limit = d >> 55 & 1 ? limit << 12 | 0xfff : limit,
		.selector = sel,
		.type = (uint8_t)DESC_TYPE(d),
		.present = (uint8_t)DESC_P(d),
		.dpl = (uint8_t)DESC_DPL(d),
		.db = d >> 54 & 1,
		.s = (uint8_t)DESC_S(d),
		.l = d >> 53 & 1,
		.g = d >> 55 & 1,
		.avl = d >> 52 & 1,
	};
}

void emu_flat_seg(struct kvm_segment *s, uint16_t sel, unsigned int dpl, bool code)
{
	*s = (struct kvm_segment){
		.limit = ~0u,
		.selector = sel,
		.type = code ? 0xb : 0x3,
		.present = 1,
		.dpl = (uint8_t)dpl,
		.db = !code,
		.s = 1,
		.l = code,
		.g = 1,
	};
}

/* Set *at to the address of @sel's descriptor. Traps. */
static int desc_at(struct emu_vcpu *v, uint16_t sel, uint32_t ext, unsigned int bytes, uint64_t *at)
{
	uint64_t base = v->gdt.base;
	uint32_t limit = v->gdt.limit;

	if (sel & 4) {
		base = v->ldt.base;
		limit = v->ldt.unusable || !v->ldt.present ? 0 : v->ldt.limit;
	}
	if ((sel & ~7u) + bytes - 1 > limit)
		return emu_gp(v, (sel & ~7u) | (sel & 4) | ext);
	*at = base + (sel & ~7u);
	return 0;
}

int emu_read_desc(struct emu_vcpu *v, uint16_t sel, uint32_t ext, uint64_t *desc)
{
	uint64_t at = 0;

	v->extra += EMU_EFFORT_DESCRIPTOR;
	return desc_at(v, sel, ext, 8, &at) || emu_sys_read(v, at, desc, 8, 0);
}

int emu_read_cs(struct emu_vcpu *v, uint16_t sel, uint32_t ext, struct kvm_segment *out)
{
	uint32_t code = (sel & ~3u) | ext;
	uint64_t d;

	if (!(sel & ~3u))
		return emu_gp(v, ext);
	if (emu_read_desc(v, sel, ext, &d))
		return 1;
	if (!DESC_S(d) || !(DESC_TYPE(d) & TYPE_CODE))
		return emu_gp(v, code);
	if (!DESC_P(d))
		return emu_fault(v, EMU_NP, true, code);
	emu_desc_segment(out, sel, d);
	if (out->l && out->db)
		return emu_gp(v, code);
	/* Stock kernels have 32-bit code segments for programs: fail the program, not the VM. */
	if (!out->l && v->whole)
		return emu_gp(v, code);
	if (!out->l)
		return emu_error(v, "code segment 0x%x is 32-bit; only 64-bit code is executed",
				 sel);
	return 0;
}

int emu_read_ss(struct emu_vcpu *v, uint16_t sel, unsigned int cpl, struct kvm_segment *out)
{
	uint32_t code = sel & ~3u;
	uint64_t d;

	if (!code) {
		if (cpl == 3 || (sel & 3) != cpl)
			return emu_gp(v, 0);
		*out = (struct kvm_segment){.selector = sel, .dpl = (uint8_t)cpl, .unusable = 1};
		return 0;
	}
	if (emu_read_desc(v, sel, 0, &d))
		return 1;
	if ((sel & 3) != cpl || !DESC_S(d) || (DESC_TYPE(d) & TYPE_CODE) ||
	    !(DESC_TYPE(d) & TYPE_WRITABLE) || DESC_DPL(d) != cpl)
		return emu_gp(v, code);
	if (!DESC_P(d))
		return emu_fault(v, EMU_STACK, true, code);
	emu_desc_segment(out, sel, d);
	return 0;
}

/* Load DS, ES, FS or GS (SDM vol. 2, MOV). */
static int load_data(struct emu_vcpu *v, unsigned int seg, uint16_t sel)
{
	struct kvm_segment *s = &v->seg[seg];
	unsigned int type, dpl;
	uint64_t d;

	if (!(sel & ~3u)) {
		/* A null selector in FS or GS keeps the base on AMD's CPUs without
		 * NullSelectClearsBase (CPUID); Intel's clear it. */
		*s = (struct kvm_segment){.selector = sel, .unusable = 1};
		if (v->intel && seg == EMU_FS)
			v->r[EMU_FSBASE] = 0;
		if (v->intel && seg == EMU_GS)
			v->r[EMU_GSBASE] = 0;
		return 0;
	}
	if (emu_read_desc(v, sel, 0, &d))
		return 1;
	type = DESC_TYPE(d);
	dpl = DESC_DPL(d);
	if (!DESC_S(d) || (type & (TYPE_CODE | TYPE_READABLE)) == TYPE_CODE)
		return emu_gp(v, sel & ~3u);
	if ((type & (TYPE_CODE | TYPE_CONFORMING)) != (TYPE_CODE | TYPE_CONFORMING) &&
	    ((sel & 3u) > dpl || v->cpl > dpl))
		return emu_gp(v, sel & ~3u);
	if (!DESC_P(d))
		return emu_fault(v, EMU_NP, true, sel & ~3u);
	emu_desc_segment(s, sel, d);
	if (seg == EMU_FS)
		v->r[EMU_FSBASE] = s->base;
	if (seg == EMU_GS)
		v->r[EMU_GSBASE] = s->base;
	return 0;
}

static int load_seg(struct emu_vcpu *v, unsigned int seg, uint16_t sel)
{
	struct kvm_segment ss;

	if (seg == EMU_CS)
		return emu_ud(v);
	if (seg != EMU_SS)
		return load_data(v, seg, sel);
	if (emu_read_ss(v, sel, v->cpl, &ss))
		return 1;
	v->seg[EMU_SS] = ss;
	/* Neither an interrupt nor a debug trap comes before the next instruction is done (SDM vol.
	 * 3, 6.8.3). */
	v->sti_shadow = v->brk.ss_shadow = true;
	v->step = false;
	v->attn |= EMU_ATTN_EVENT;
	return 0;
}

int emu_sys_mov_to_seg(struct emu_vcpu *v, const struct emu_op *op)
{
	return load_seg(v, op->dst, (uint16_t)v->r[op->src]);
}

int emu_sys_pop_seg(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x = emu_ld_slow(v, v->r[EMU_RSP], 8);

	if (v->trap || load_seg(v, op->dst, (uint16_t)x))
		return 1;
	v->r[EMU_RSP] += 8;
	return 0;
}

/* MOV from a segment register, STR, SLDT; op->src: segment, or beyond the six TR, then LDTR. */
int emu_help_from_seg(struct emu_vcpu *v, const struct emu_op *op)
{
	uint16_t sel = op->src < EMU_NSEGS    ? v->seg[op->src].selector
		       : op->src == EMU_NSEGS ? v->tr.selector
					      : v->ldt.selector;

	if (unlikely(v->guest) && op->src >= EMU_NSEGS &&
	    emu_svm_read(v, op, op->src == EMU_NSEGS ? VMEXIT_TR_READ : VMEXIT_LDTR_READ))
		return 1;
	emu_wr(v, op->dst, 1u << op->base, sel);
	return 0;
}

/* ---- LAR, LSL, VERR, VERW: SDM vol. 2; APM vol. 3 ---- */

/* Read the descriptor of @sel into *d; *there is false if it does not exist. Traps only if the
 * table itself cannot be read. */
static int segment_look_up(struct emu_vcpu *v, uint16_t sel, uint64_t *d, bool *there)
{
	uint32_t limit = v->gdt.limit;

	if (sel & 4)
		limit = v->ldt.unusable || !v->ldt.present ? 0 : v->ldt.limit;
	*there = (sel & ~3u) && (sel & ~7u) + 7 <= limit;
	return *there && emu_read_desc(v, sel, 0, d);
}

/* Returns true if the CPL and @sel's RPL may see descriptor @d. */
static bool visible(const struct emu_vcpu *v, uint16_t sel, uint64_t d)
{
	unsigned int dpl = DESC_DPL(d);

	if (DESC_S(d) &&
	    (DESC_TYPE(d) & (TYPE_CODE | TYPE_CONFORMING)) == (TYPE_CODE | TYPE_CONFORMING))
		return true;
	return v->cpl <= dpl && (sel & 3u) <= dpl;
}

static void set_zf(struct emu_vcpu *v, bool zf)
{
	emu_fl_override(v, EMU_ZF, zf ? EMU_ZF : 0);
}

/* op->src: register with the selector; op->idx: EMU_LAR ... */
int emu_help_descriptor(struct emu_vcpu *v, const struct emu_op *op)
{
	/* System segments of long mode: LDT, TSS, busy TSS. LAR accepts call gates, too. */
	const uint32_t limits = 1u << 2 | 1u << 9 | 1u << 11, rights = limits | 1u << 12;
	uint16_t sel = (uint16_t)v->r[op->src];
	struct kvm_segment s;
	unsigned int type;
	bool there, ok;
	uint64_t d = 0;

	if (segment_look_up(v, sel, &d, &there))
		return 1;
	type = DESC_TYPE(d);
	ok = there && visible(v, sel, d);
	switch (op->idx) {
	case EMU_LAR:
		ok = ok && (DESC_S(d) || rights >> type & 1);
		if (ok)
			emu_wr(v, op->dst, 1u << op->base, d >> 32 & 0xffff00);
		break;
	case EMU_LSL:
		ok = ok && (DESC_S(d) || limits >> type & 1);
		emu_desc_segment(&s, sel, d);
		if (ok)
			emu_wr(v, op->dst, 1u << op->base, s.limit);
		break;
	case EMU_VERR:
		ok = ok && DESC_S(d) && (!(type & TYPE_CODE) || (type & TYPE_READABLE));
		break;
	default: /* VERW */
		ok = ok && DESC_S(d) && !(type & TYPE_CODE) && (type & TYPE_WRITABLE);
	}
	set_zf(v, ok);
	return 0;
}

static int load_table(struct emu_vcpu *v, struct kvm_dtable *t)
{
	uint64_t at = v->r[EMU_TEA], base;
	uint16_t limit;

	if (v->cpl)
		return emu_gp(v, 0);
	limit = (uint16_t)emu_ld_slow(v, at, 2);
	if (v->trap)
		return 1;
	base = emu_ld_slow(v, at + 2, 8);
	if (v->trap)
		return 1;
	if (!emu_canonical(base))
		return emu_gp(v, 0);
	t->base = base;
	t->limit = limit;
	return 0;
}

int emu_sys_lgdt(struct emu_vcpu *v, const struct emu_op *op)
{
	return load_table(v, &v->gdt);
}

int emu_sys_lidt(struct emu_vcpu *v, const struct emu_op *op)
{
	return load_table(v, &v->idt);
}

static int store_table(struct emu_vcpu *v, const struct kvm_dtable *t)
{
	uint8_t buf[10];

	memcpy(buf, &t->limit, 2);
	memcpy(buf + 2, &t->base, 8);
	return emu_sys_write(v, v->r[EMU_TEA], buf, sizeof(buf), v->cpl == 3 ? EMU_ACC_U : 0);
}

int emu_sys_sgdt(struct emu_vcpu *v, const struct emu_op *op)
{
	return store_table(v, &v->gdt);
}

int emu_sys_sidt(struct emu_vcpu *v, const struct emu_op *op)
{
	return store_table(v, &v->idt);
}

/* Read a 16-byte system descriptor of @type from the GDT. */
static int system_desc(struct emu_vcpu *v, uint16_t sel, unsigned int type, struct kvm_segment *out,
		       uint64_t *at)
{
	uint64_t d[2];

	if (sel & 4)
		return emu_gp(v, sel & ~3u);
	if (desc_at(v, sel, 0, 16, at) || emu_sys_read(v, *at, d, 16, 0))
		return 1;
	if (DESC_S(d[0]) || DESC_TYPE(d[0]) != type)
		return emu_gp(v, sel & ~3u);
	if (!DESC_P(d[0]))
		return emu_fault(v, EMU_NP, true, sel & ~3u);
	emu_desc_segment(out, sel, d[0]);
	out->base |= d[1] << 32;
	return emu_canonical(out->base) ? 0 : emu_gp(v, sel & ~3u);
}

/* Read the operand of LLDT or LTR; op->idx: from memory. */
static int selector(struct emu_vcpu *v, const struct emu_op *op, uint16_t *sel)
{
	if (v->cpl)
		return emu_gp(v, 0);
	*sel = (uint16_t)(op->idx ? emu_ld_slow(v, v->r[EMU_TEA], 2) : v->r[op->src]);
	return v->trap != EMU_TRAP_NONE;
}

int emu_sys_lldt(struct emu_vcpu *v, const struct emu_op *op)
{
	struct kvm_segment ldt = {.unusable = 1};
	uint64_t at;
	uint16_t sel = 0;

	if (selector(v, op, &sel))
		return 1;
	ldt.selector = sel;
	if ((sel & ~3u) && system_desc(v, sel, 2, &ldt, &at))
		return 1;
	v->ldt = ldt;
	return 0;
}

int emu_sys_ltr(struct emu_vcpu *v, const struct emu_op *op)
{
	struct kvm_segment tr;
	uint16_t sel = 0;
	uint8_t busy = 0x8b; /* present, DPL 0, busy 64-bit TSS */
	uint64_t at;

	if (selector(v, op, &sel))
		return 1;
	if (!(sel & ~3u))
		return emu_gp(v, 0);
	if (system_desc(v, sel, 9, &tr, &at))
		return 1;
	busy |= (uint8_t)(tr.dpl << 5);
	if (emu_sys_write(v, at + 5, &busy, 1, 0))
		return 1;
	tr.type = 0xb;
	v->tr = tr;
	return 0;
}

int emu_tss(struct emu_vcpu *v, uint32_t off, void *buf, unsigned int bytes, uint32_t ext)
{
	if (off + bytes - 1 > v->tr.limit)
		return emu_fault(v, EMU_TS, true, (v->tr.selector & ~7u) | ext);
	return emu_sys_read(v, v->tr.base + off, buf, bytes, 0);
}

int emu_sys_swapgs(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x = v->r[EMU_GSBASE];

	if (v->cpl)
		return emu_gp(v, 0);
	v->r[EMU_GSBASE] = v->kernel_gs_base;
	v->kernel_gs_base = x;
	return 0;
}

/* RDFSBASE, RDGSBASE, WRFSBASE, WRGSBASE; op->src: register; op->idx: write. */
int emu_sys_rdwr_base(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x;

	if (!(v->cr4 & CR4_FSGSBASE))
		return emu_ud(v);
	if (!op->idx) {
		emu_wr(v, op->dst, 1u << op->base, v->r[op->src]);
		return 0;
	}
	x = emu_rd(v, op->dst, 1u << op->base);
	if (!emu_canonical(x))
		return emu_gp(v, 0);
	v->r[op->src] = x;
	return 0;
}
