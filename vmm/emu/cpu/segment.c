// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Segmentation, as far as 64-bit mode has any: descriptor tables, loading of selectors, the TSS,
 * FS and GS bases. AMD64 APM vol. 2, 4.8; SDM vol. 3, 3.4 and 7.
 */
#include <string.h>

#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/internal.h"

#define CR4_FSGSBASE (1ULL << 16)

#define DESC_S(d)	((d) >> 44 & 1)
#define DESC_TYPE(d)	((unsigned int)((d) >> 40 & 0xf))
#define DESC_DPL(d)	((unsigned int)((d) >> 45 & 3))
#define DESC_P(d)	((d) >> 47 & 1)
#define TYPE_CODE	8u
#define TYPE_CONFORMING 4u
#define TYPE_WRITABLE	2u
#define TYPE_READABLE	2u

void soft_desc_segment(struct kvm_segment *s, uint16_t sel, uint64_t d)
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

void soft_flat_seg(struct kvm_segment *s, uint16_t sel, unsigned int dpl, bool code)
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

/* Where @sel's descriptor is. Traps. */
static int desc_at(struct soft_vcpu *v, uint16_t sel, uint32_t ext, unsigned int bytes,
		   uint64_t *at)
{
	uint64_t base = v->gdt.base;
	uint32_t limit = v->gdt.limit;

	if (sel & 4) {
		base = v->ldt.base;
		limit = v->ldt.unusable || !v->ldt.present ? 0 : v->ldt.limit;
	}
	if ((sel & ~7u) + bytes - 1 > limit)
		return soft_gp(v, (sel & ~7u) | (sel & 4) | ext);
	*at = base + (sel & ~7u);
	return 0;
}

int soft_read_desc(struct soft_vcpu *v, uint16_t sel, uint32_t ext, uint64_t *desc)
{
	uint64_t at = 0;

	v->extra += SOFT_EFFORT_DESCRIPTOR;
	return desc_at(v, sel, ext, 8, &at) || soft_sys_read(v, at, desc, 8, 0);
}

int soft_read_cs(struct soft_vcpu *v, uint16_t sel, uint32_t ext, struct kvm_segment *out)
{
	uint32_t code = (sel & ~3u) | ext;
	uint64_t d;

	if (!(sel & ~3u))
		return soft_gp(v, ext);
	if (soft_read_desc(v, sel, ext, &d))
		return 1;
	if (!DESC_S(d) || !(DESC_TYPE(d) & TYPE_CODE))
		return soft_gp(v, code);
	if (!DESC_P(d))
		return soft_fault(v, SOFT_NP, true, code);
	soft_desc_segment(out, sel, d);
	if (out->l && out->db)
		return soft_gp(v, code);
	/* Stock kernels have 32-bit code segments for programs. It is the program that fails. */
	if (!out->l && v->whole)
		return soft_gp(v, code);
	if (!out->l)
		return soft_error(v, "code segment 0x%x is 32-bit; only 64-bit code is executed",
				  sel);
	return 0;
}

int soft_read_ss(struct soft_vcpu *v, uint16_t sel, unsigned int cpl, struct kvm_segment *out)
{
	uint32_t code = sel & ~3u;
	uint64_t d;

	if (!code) {
		if (cpl == 3 || (sel & 3) != cpl)
			return soft_gp(v, 0);
		*out = (struct kvm_segment){.selector = sel, .dpl = (uint8_t)cpl, .unusable = 1};
		return 0;
	}
	if (soft_read_desc(v, sel, 0, &d))
		return 1;
	if ((sel & 3) != cpl || !DESC_S(d) || (DESC_TYPE(d) & TYPE_CODE) ||
	    !(DESC_TYPE(d) & TYPE_WRITABLE) || DESC_DPL(d) != cpl)
		return soft_gp(v, code);
	if (!DESC_P(d))
		return soft_fault(v, SOFT_STACK, true, code);
	soft_desc_segment(out, sel, d);
	return 0;
}

/* Load DS, ES, FS or GS (SDM vol. 2, MOV). */
static int load_data(struct soft_vcpu *v, unsigned int seg, uint16_t sel)
{
	struct kvm_segment *s = &v->seg[seg];
	unsigned int type, dpl;
	uint64_t d;

	if (!(sel & ~3u)) {
		/* A null selector in FS or GS leaves the base alone on AMD's CPUs whose CPUID does
		 * not have NullSelectClearsBase; Intel's clear it. */
		*s = (struct kvm_segment){.selector = sel, .unusable = 1};
		if (v->intel && seg == SOFT_FS)
			v->r[SOFT_FSBASE] = 0;
		if (v->intel && seg == SOFT_GS)
			v->r[SOFT_GSBASE] = 0;
		return 0;
	}
	if (soft_read_desc(v, sel, 0, &d))
		return 1;
	type = DESC_TYPE(d);
	dpl = DESC_DPL(d);
	if (!DESC_S(d) || (type & (TYPE_CODE | TYPE_READABLE)) == TYPE_CODE)
		return soft_gp(v, sel & ~3u);
	if ((type & (TYPE_CODE | TYPE_CONFORMING)) != (TYPE_CODE | TYPE_CONFORMING) &&
	    ((sel & 3u) > dpl || v->cpl > dpl))
		return soft_gp(v, sel & ~3u);
	if (!DESC_P(d))
		return soft_fault(v, SOFT_NP, true, sel & ~3u);
	soft_desc_segment(s, sel, d);
	if (seg == SOFT_FS)
		v->r[SOFT_FSBASE] = s->base;
	if (seg == SOFT_GS)
		v->r[SOFT_GSBASE] = s->base;
	return 0;
}

static int load_seg(struct soft_vcpu *v, unsigned int seg, uint16_t sel)
{
	struct kvm_segment ss;

	if (seg == SOFT_CS)
		return soft_ud(v);
	if (seg != SOFT_SS)
		return load_data(v, seg, sel);
	if (soft_read_ss(v, sel, v->cpl, &ss))
		return 1;
	v->seg[SOFT_SS] = ss;
	/* Neither an interrupt nor a debug trap comes before the next instruction is done (SDM
	 * vol. 3, 6.8.3). */
	v->sti_shadow = v->brk.ss_shadow = true;
	v->step = false;
	v->attn |= SOFT_ATTN_EVENT;
	return 0;
}

int soft_sys_mov_to_seg(struct soft_vcpu *v, const struct soft_op *op)
{
	return load_seg(v, op->dst, (uint16_t)v->r[op->src]);
}

int soft_sys_pop_seg(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t x = soft_ld_slow(v, v->r[SOFT_RSP], 8);

	if (v->trap || load_seg(v, op->dst, (uint16_t)x))
		return 1;
	v->r[SOFT_RSP] += 8;
	return 0;
}

/* MOV from a segment register, STR, SLDT: op->src beyond the six means TR, LDTR. */
int soft_help_from_seg(struct soft_vcpu *v, const struct soft_op *op)
{
	uint16_t sel = op->src < SOFT_NSEGS    ? v->seg[op->src].selector
		       : op->src == SOFT_NSEGS ? v->tr.selector
					       : v->ldt.selector;

	soft_wr(v, op->dst, 1u << op->base, sel);
	return 0;
}

/* ---- LAR, LSL, VERR, VERW: SDM vol. 2; APM vol. 3 ---- */

/* Read the descriptor of @sel as these instructions do: *d, and whether there is one. Traps only
 * where the table itself cannot be read. */
static int look_up(struct soft_vcpu *v, uint16_t sel, uint64_t *d, bool *there)
{
	uint32_t limit = v->gdt.limit;

	if (sel & 4)
		limit = v->ldt.unusable || !v->ldt.present ? 0 : v->ldt.limit;
	*there = (sel & ~3u) && (sel & ~7u) + 7 <= limit;
	return *there && soft_read_desc(v, sel, 0, d);
}

/* Whether the present level and @sel's RPL may see descriptor @d. */
static bool visible(const struct soft_vcpu *v, uint16_t sel, uint64_t d)
{
	unsigned int dpl = DESC_DPL(d);

	if (DESC_S(d) &&
	    (DESC_TYPE(d) & (TYPE_CODE | TYPE_CONFORMING)) == (TYPE_CODE | TYPE_CONFORMING))
		return true;
	return v->cpl <= dpl && (sel & 3u) <= dpl;
}

static void set_zf(struct soft_vcpu *v, bool zf)
{
	soft_fl_override(v, SOFT_ZF, zf ? SOFT_ZF : 0);
}

/* op->src: register with the selector; op->idx: SOFT_LAR ... */
int soft_help_descriptor(struct soft_vcpu *v, const struct soft_op *op)
{
	/* System segments of long mode: LDT, TSS, busy TSS; LAR also sees call gates. */
	const uint32_t limits = 1u << 2 | 1u << 9 | 1u << 11, rights = limits | 1u << 12;
	uint16_t sel = (uint16_t)v->r[op->src];
	struct kvm_segment s;
	unsigned int type;
	bool there, ok;
	uint64_t d = 0;

	if (look_up(v, sel, &d, &there))
		return 1;
	type = DESC_TYPE(d);
	ok = there && visible(v, sel, d);
	switch (op->idx) {
	case SOFT_LAR:
		ok = ok && (DESC_S(d) || rights >> type & 1);
		if (ok)
			soft_wr(v, op->dst, 1u << op->base, d >> 32 & 0xffff00);
		break;
	case SOFT_LSL:
		ok = ok && (DESC_S(d) || limits >> type & 1);
		soft_desc_segment(&s, sel, d);
		if (ok)
			soft_wr(v, op->dst, 1u << op->base, s.limit);
		break;
	case SOFT_VERR:
		ok = ok && DESC_S(d) && (!(type & TYPE_CODE) || (type & TYPE_READABLE));
		break;
	default: /* VERW */
		ok = ok && DESC_S(d) && !(type & TYPE_CODE) && (type & TYPE_WRITABLE);
	}
	set_zf(v, ok);
	return 0;
}

static int load_table(struct soft_vcpu *v, struct kvm_dtable *t)
{
	uint64_t at = v->r[SOFT_TEA], base;
	uint16_t limit;

	if (v->cpl)
		return soft_gp(v, 0);
	limit = (uint16_t)soft_ld_slow(v, at, 2);
	if (v->trap)
		return 1;
	base = soft_ld_slow(v, at + 2, 8);
	if (v->trap)
		return 1;
	if (!soft_canonical(base))
		return soft_gp(v, 0);
	t->base = base;
	t->limit = limit;
	return 0;
}

int soft_sys_lgdt(struct soft_vcpu *v, const struct soft_op *op)
{
	return load_table(v, &v->gdt);
}

int soft_sys_lidt(struct soft_vcpu *v, const struct soft_op *op)
{
	return load_table(v, &v->idt);
}

static int store_table(struct soft_vcpu *v, const struct kvm_dtable *t)
{
	uint8_t buf[10];

	memcpy(buf, &t->limit, 2);
	memcpy(buf + 2, &t->base, 8);
	return soft_sys_write(v, v->r[SOFT_TEA], buf, sizeof(buf), v->cpl == 3 ? SOFT_ACC_U : 0);
}

int soft_sys_sgdt(struct soft_vcpu *v, const struct soft_op *op)
{
	return store_table(v, &v->gdt);
}

int soft_sys_sidt(struct soft_vcpu *v, const struct soft_op *op)
{
	return store_table(v, &v->idt);
}

/* A 16-byte system descriptor of @type from the GDT. */
static int system_desc(struct soft_vcpu *v, uint16_t sel, unsigned int type,
		       struct kvm_segment *out, uint64_t *at)
{
	uint64_t d[2];

	if (sel & 4)
		return soft_gp(v, sel & ~3u);
	if (desc_at(v, sel, 0, 16, at) || soft_sys_read(v, *at, d, 16, 0))
		return 1;
	if (DESC_S(d[0]) || DESC_TYPE(d[0]) != type)
		return soft_gp(v, sel & ~3u);
	if (!DESC_P(d[0]))
		return soft_fault(v, SOFT_NP, true, sel & ~3u);
	soft_desc_segment(out, sel, d[0]);
	out->base |= d[1] << 32;
	return soft_canonical(out->base) ? 0 : soft_gp(v, sel & ~3u);
}

/* Operand of LLDT and LTR; op->idx: in memory. */
static int selector(struct soft_vcpu *v, const struct soft_op *op, uint16_t *sel)
{
	if (v->cpl)
		return soft_gp(v, 0);
	*sel = (uint16_t)(op->idx ? soft_ld_slow(v, v->r[SOFT_TEA], 2) : v->r[op->src]);
	return v->trap != SOFT_TRAP_NONE;
}

int soft_sys_lldt(struct soft_vcpu *v, const struct soft_op *op)
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

int soft_sys_ltr(struct soft_vcpu *v, const struct soft_op *op)
{
	struct kvm_segment tr;
	uint16_t sel = 0;
	uint8_t busy = 0x8b; /* present, DPL 0, busy 64-bit TSS */
	uint64_t at;

	if (selector(v, op, &sel))
		return 1;
	if (!(sel & ~3u))
		return soft_gp(v, 0);
	if (system_desc(v, sel, 9, &tr, &at))
		return 1;
	busy |= (uint8_t)(tr.dpl << 5);
	if (soft_sys_write(v, at + 5, &busy, 1, 0))
		return 1;
	tr.type = 0xb;
	v->tr = tr;
	return 0;
}

int soft_tss(struct soft_vcpu *v, uint32_t off, void *buf, unsigned int bytes, uint32_t ext)
{
	if (off + bytes - 1 > v->tr.limit)
		return soft_fault(v, SOFT_TS, true, (v->tr.selector & ~7u) | ext);
	return soft_sys_read(v, v->tr.base + off, buf, bytes, 0);
}

int soft_sys_swapgs(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t x = v->r[SOFT_GSBASE];

	if (v->cpl)
		return soft_gp(v, 0);
	v->r[SOFT_GSBASE] = v->kernel_gs_base;
	v->kernel_gs_base = x;
	return 0;
}

/* RDFSBASE, RDGSBASE, WRFSBASE, WRGSBASE; op->src: which, op->idx: write. */
int soft_sys_rdwr_base(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t x;

	if (!(v->cr4 & CR4_FSGSBASE))
		return soft_ud(v);
	if (!op->idx) {
		soft_wr(v, op->dst, 1u << op->base, v->r[op->src]);
		return 0;
	}
	x = soft_rd(v, op->dst, 1u << op->base);
	if (!soft_canonical(x))
		return soft_gp(v, 0);
	v->r[op->src] = x;
	return 0;
}
