// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The local APIC's registers: SDM vol. 3, chapter 11. Which registers and reserved bits there are
 * in x2APIC mode: 11.12.1, table 11-6.
 */
#include <errno.h>
#include <string.h>

#include "vmm/soft/lapic.h"

enum { LVT_CMCI, LVT_TIMER, LVT_THERMAL, LVT_PERF, LVT_LINT0, LVT_LINT1, LVT_ERROR, LVTS };

/* MSRs, as offsets from LAPIC_MSR_BASE. */
enum {
	REG_ID = 0x02,
	REG_VERSION = 0x03,
	REG_TPR = 0x08,
	REG_PPR = 0x0a,
	REG_EOI = 0x0b,
	REG_LDR = 0x0d,
	REG_SVR = 0x0f,
	REG_ISR = 0x10, /* 8 each */
	REG_TMR = 0x18,
	REG_IRR = 0x20,
	REG_ESR = 0x28,
	REG_CMCI = 0x2f,
	REG_ICR = 0x30,
	REG_LVT = 0x32, /* timer, thermal, performance, LINT0, LINT1, error */
	REG_INITIAL = 0x38,
	REG_CURRENT = 0x39,
	REG_DIVIDE = 0x3e,
	REG_SELF_IPI = 0x3f
};

/* An integrated APIC (10H..15H) with LVTS entries, 11.4.8. */
#define VERSION (0x14u | (LVTS - 1) << 16)

#define SVR_ENABLE   (1u << 8)
#define SVR_WRITABLE 0x1ffu /* no focus checking, no EOI-broadcast suppression: 11.9 */

#define LVT_MASK     (1u << 16)
#define LVT_STATUS   (1u << 12) /* delivery status: read-only, nothing is ever under way */
#define LVT_IRR	     (1u << 14) /* LINT: likewise read-only */
#define LVT_VECTOR   0xffu
#define LVT_MODE     (7u << 8)
#define MODE_FIXED   (0u << 8)
#define MODE_LOWEST  (1u << 8)
#define MODE_NMI     (4u << 8)
#define LVT_POLARITY (1u << 13)
#define LVT_TRIGGER  (1u << 15)
#define LVT_PERIODIC (1u << 17)

#define ESR_REDIRECTIBLE (1u << 4)
#define ESR_SEND	 (1u << 5)
#define ESR_RECEIVE	 (1u << 6)

#define ICR_WRITABLE	0xffffffff000ccfffULL
#define ICR_STATUS	(1ULL << 12) /* gone in x2APIC mode (11.12.9); processors ignore it */
#define ICR_LOGICAL	(1u << 11)
#define ICR_SHORTHAND	(3u << 18)
#define SHORTHAND_NONE	(0u << 18)
#define SHORTHAND_SELF	(1u << 18)
#define SHORTHAND_ALL	(2u << 18)
#define ICR_BROADCAST	0xffffffffu
#define DIVIDE_WRITABLE 0xbu

#define FIRST_VECTOR 16 /* 11.5.2: those below are illegal */

/* What can be written to each entry without #GP (11.5.1; CMCI: 16.5). No TSC-deadline timer. */
static const uint32_t lvt_writable[LVTS] = {
	[LVT_CMCI] = LVT_VECTOR | LVT_MODE | LVT_STATUS | LVT_MASK,
	[LVT_TIMER] = LVT_VECTOR | LVT_STATUS | LVT_MASK | LVT_PERIODIC,
	[LVT_THERMAL] = LVT_VECTOR | LVT_MODE | LVT_STATUS | LVT_MASK,
	[LVT_PERF] = LVT_VECTOR | LVT_MODE | LVT_STATUS | LVT_MASK,
	[LVT_LINT0] = LVT_VECTOR | LVT_MODE | LVT_STATUS | LVT_POLARITY | LVT_IRR | LVT_TRIGGER |
		      LVT_MASK,
	[LVT_LINT1] = LVT_VECTOR | LVT_MODE | LVT_STATUS | LVT_POLARITY | LVT_IRR | LVT_TRIGGER |
		      LVT_MASK,
	[LVT_ERROR] = LVT_VECTOR | LVT_STATUS | LVT_MASK,
};

void lapic_init(struct lapic *l, unsigned int id)
{
	*l = (struct lapic){.id = id, .svr = 0xff}; /* 11.4.7.1 */
	for (int i = 0; i < LVTS; i++)
		l->lvt[i] = LVT_MASK;
}

/* ---- interrupts: who waits, who is in service ---- */

static void set_bit(uint32_t *set, unsigned int vector)
{
	set[vector / 32] |= 1u << vector % 32;
}

static void clear_bit(uint32_t *set, unsigned int vector)
{
	set[vector / 32] &= ~(1u << vector % 32);
}

/* The highest vector of @set, 0 when it is empty. */
static unsigned int highest(const uint32_t *set)
{
	for (int i = 7; i >= 0; i--)
		if (set[i])
			return (unsigned int)i * 32 + 31 - (unsigned int)__builtin_clz(set[i]);
	return 0;
}

static bool enabled(const struct lapic *l)
{
	return l->svr & SVR_ENABLE;
}

/* 11.5.3: kept until the guest writes ESR, whatever the mask of the error entry says. */
static void error(struct lapic *l, uint32_t bits)
{
	uint32_t entry = l->lvt[LVT_ERROR];

	l->esr |= bits;
	if (entry & LVT_MASK)
		return;
	if ((entry & LVT_VECTOR) < FIRST_VECTOR)
		l->esr |= ESR_RECEIVE;
	else
		set_bit(l->irr, entry & LVT_VECTOR);
}

/* A fixed interrupt arrives. */
static void accept(struct lapic *l, unsigned int vector)
{
	if (!enabled(l))
		return; /* 11.4.7.2 */
	if (vector < FIRST_VECTOR)
		error(l, ESR_RECEIVE);
	else
		set_bit(l->irr, vector);
}

void lapic_pmi(struct lapic *l, bool automask)
{
	uint32_t entry = l->lvt[LVT_PERF];

	if (entry & LVT_MASK)
		return;
	switch (entry & LVT_MODE) {
	case MODE_FIXED:
		accept(l, entry & LVT_VECTOR);
		break;
	case MODE_NMI:
		l->nmi = true;
		break;
	default:
		break; /* SMI: there is no SMM; the others are not for this entry (11.5.1) */
	}
	if (automask)
		l->lvt[LVT_PERF] |= LVT_MASK;
}

unsigned int lapic_next(const struct lapic *l)
{
	unsigned int vector = highest(l->irr);

	return vector >> 4 > highest(l->isr) >> 4 ? vector : 0;
}

void lapic_taken(struct lapic *l)
{
	clear_bit(l->irr, l->offered);
	set_bit(l->isr, l->offered);
	l->offered = 0;
}

/* 11.8.3.1: the higher class of TPR and of what is in service; on a tie models differ. */
static uint32_t ppr(const struct lapic *l)
{
	uint32_t isr = highest(l->isr) & 0xf0;

	return (l->tpr & 0xf0) >= isr ? l->tpr : isr;
}

/* ---- IPIs ---- */

static uint32_t ldr(const struct lapic *l)
{
	return (l->id & 0xffff0) << 12 | 1u << (l->id & 15); /* 11.12.10.2 */
}

static bool to_self(const struct lapic *l, uint64_t icr)
{
	uint32_t dest = (uint32_t)(icr >> 32);

	switch (icr & ICR_SHORTHAND) {
	case SHORTHAND_SELF:
	case SHORTHAND_ALL:
		return true;
	case SHORTHAND_NONE:
		if (dest == ICR_BROADCAST)
			return true;
		if (icr & ICR_LOGICAL)
			return !((dest ^ ldr(l)) & 0xffff0000) && (dest & ldr(l) & 0xffff);
		return dest == l->id;
	default:
		return false; /* all but self */
	}
}

static void send(struct lapic *l, uint64_t icr)
{
	unsigned int vector = icr & LVT_VECTOR;
	bool self = to_self(l, icr);

	switch (icr & LVT_MODE) {
	case MODE_LOWEST:
		error(l, ESR_REDIRECTIBLE); /* not supported, as on real ones: 11.5.3, 11.6.2.4 */
		break;
	case MODE_FIXED:
		if (vector < FIRST_VECTOR)
			error(l, self ? ESR_SEND | ESR_RECEIVE : ESR_SEND);
		else if (self)
			accept(l, vector);
		break;
	case MODE_NMI:
		/* With the self shorthand only fixed delivery is valid: table 11-3. */
		if (self && (icr & ICR_SHORTHAND) != SHORTHAND_SELF)
			l->nmi = true;
		break;
	default:
		break;
	}
}

/* ---- registers ---- */

/* Index of the LVT entry at @reg, or -1. */
static int lvt_of(uint32_t reg)
{
	if (reg == REG_CMCI)
		return LVT_CMCI;
	return reg >= REG_LVT && reg < REG_LVT + LVTS - 1 ? (int)(reg - REG_LVT) + LVT_TIMER : -1;
}

int lapic_rdmsr(const struct lapic *l, uint32_t msr, uint64_t *val)
{
	uint32_t reg = msr - LAPIC_MSR_BASE;

	if (reg >= LAPIC_MSR_COUNT)
		return -ENOENT;
	if (lvt_of(reg) >= 0) {
		*val = l->lvt[lvt_of(reg)];
		return 0;
	}
	switch (reg) {
	case REG_ID:
		*val = l->id;
		return 0;
	case REG_VERSION:
		*val = VERSION;
		return 0;
	case REG_TPR:
		*val = l->tpr;
		return 0;
	case REG_PPR:
		*val = ppr(l);
		return 0;
	case REG_LDR:
		*val = ldr(l);
		return 0;
	case REG_SVR:
		*val = l->svr;
		return 0;
	case REG_ISR ... REG_ISR + 7:
		*val = l->isr[reg - REG_ISR];
		return 0;
	case REG_TMR ... REG_TMR + 7:
		*val = 0; /* nothing is level-triggered */
		return 0;
	case REG_IRR ... REG_IRR + 7:
		*val = l->irr[reg - REG_IRR];
		return 0;
	case REG_ESR:
		*val = l->esr_shown;
		return 0;
	case REG_ICR:
		*val = l->icr;
		return 0;
	case REG_INITIAL:
		*val = l->timer_initial;
		return 0;
	case REG_CURRENT:
		*val = 0;
		return 0;
	case REG_DIVIDE:
		*val = l->timer_divide;
		return 0;
	default:
		return -EFAULT; /* write-only, or none */
	}
}

static void write_svr(struct lapic *l, uint32_t val)
{
	l->svr = val;
	/* 11.4.7.2: disabled by software, all entries are masked. */
	for (int i = 0; i < LVTS && !enabled(l); i++)
		l->lvt[i] |= LVT_MASK;
}

static void write_lvt(struct lapic *l, int i, uint32_t val)
{
	l->lvt[i] = (val & ~(LVT_STATUS | LVT_IRR)) | (enabled(l) ? 0 : LVT_MASK);
}

int lapic_wrmsr(struct lapic *l, uint32_t msr, uint64_t val)
{
	uint32_t reg = msr - LAPIC_MSR_BASE, low = (uint32_t)val;
	int i = lvt_of(reg);

	if (reg >= LAPIC_MSR_COUNT)
		return -ENOENT;
	if (reg == REG_ICR) {
		val &= ~ICR_STATUS;
		if (val & ~ICR_WRITABLE)
			return -EFAULT;
		l->icr = val;
		send(l, val);
		return 0;
	}
	if (val >> 32)
		return -EFAULT;
	if (i >= 0) {
		if (low & ~lvt_writable[i])
			return -EFAULT;
		write_lvt(l, i, low);
		return 0;
	}
	switch (reg) {
	case REG_TPR:
		if (low & ~0xffu)
			return -EFAULT;
		l->tpr = low;
		return 0;
	case REG_EOI:
		if (low)
			return -EFAULT;
		clear_bit(l->isr, highest(l->isr)); /* vector 0 is never in it */
		return 0;
	case REG_SVR:
		if (low & ~SVR_WRITABLE)
			return -EFAULT;
		write_svr(l, low);
		return 0;
	case REG_ESR:
		if (low)
			return -EFAULT;
		l->esr_shown = l->esr;
		l->esr = 0;
		return 0;
	case REG_INITIAL:
		l->timer_initial = low;
		return 0;
	case REG_DIVIDE:
		if (low & ~DIVIDE_WRITABLE)
			return -EFAULT;
		l->timer_divide = low;
		return 0;
	case REG_SELF_IPI:
		if (low & ~0xffu)
			return -EFAULT;
		send(l, SHORTHAND_SELF | MODE_FIXED | low);
		return 0;
	default:
		return -EFAULT; /* read-only, or none */
	}
}

/* ---- snapshots ---- */

#define TAG	0x4350414cu /* "LAPC" */
#define FORMAT	1
#define ESR_ALL (ESR_REDIRECTIBLE | ESR_SEND | ESR_RECEIVE)

void lapic_save(const struct lapic *l, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG, FORMAT);

	vpmu_blob_u32(b, l->id);
	vpmu_blob_u32(b, l->svr);
	vpmu_blob_u32(b, l->tpr);
	vpmu_blob_u32(b, l->esr);
	vpmu_blob_u32(b, l->esr_shown);
	vpmu_blob_u64(b, l->icr);
	vpmu_blob_u32(b, l->timer_initial);
	vpmu_blob_u32(b, l->timer_divide);
	for (int i = 0; i < LVTS; i++)
		vpmu_blob_u32(b, l->lvt[i]);
	for (int i = 0; i < 8; i++) {
		vpmu_blob_u32(b, l->irr[i]);
		vpmu_blob_u32(b, l->isr[i]);
	}
	vpmu_blob_u8(b, l->nmi);
	vpmu_blob_u8(b, l->offered);
	vpmu_blob_end(b, section);
}

/* What the guest could have brought about, and nothing else. */
static bool plausible(const struct lapic *l)
{
	for (int i = 0; i < LVTS; i++)
		if ((l->lvt[i] & ~lvt_writable[i]) || (l->lvt[i] & (LVT_STATUS | LVT_IRR)) ||
		    (!enabled(l) && !(l->lvt[i] & LVT_MASK)))
			return false;
	return !(l->svr & ~SVR_WRITABLE) && l->tpr <= 0xff && !(l->esr & ~ESR_ALL) &&
	       !(l->esr_shown & ~ESR_ALL) && !(l->icr & (~ICR_WRITABLE | ICR_STATUS)) &&
	       !(l->timer_divide & ~DIVIDE_WRITABLE) && !((l->irr[0] | l->isr[0]) & 0xffff) &&
	       (!l->offered || l->offered == lapic_next(l));
}

int lapic_load(struct lapic *l, struct vpmu_blob_reader *r)
{
	struct vpmu_blob_reader s;
	struct lapic n = {0};
	uint16_t version;

	if (!vpmu_blob_get_section(r, TAG, &version, &s) || version != FORMAT)
		return -EINVAL;
	n.id = vpmu_blob_get_u32(&s);
	n.svr = vpmu_blob_get_u32(&s);
	n.tpr = vpmu_blob_get_u32(&s);
	n.esr = vpmu_blob_get_u32(&s);
	n.esr_shown = vpmu_blob_get_u32(&s);
	n.icr = vpmu_blob_get_u64(&s);
	n.timer_initial = vpmu_blob_get_u32(&s);
	n.timer_divide = vpmu_blob_get_u32(&s);
	for (int i = 0; i < LVTS; i++)
		n.lvt[i] = vpmu_blob_get_u32(&s);
	for (int i = 0; i < 8; i++) {
		n.irr[i] = vpmu_blob_get_u32(&s);
		n.isr[i] = vpmu_blob_get_u32(&s);
	}
	n.nmi = vpmu_blob_get_bool(&s);
	n.offered = vpmu_blob_get_u8(&s);
	if (!vpmu_blob_done(&s) || n.id != l->id || !plausible(&n))
		return -EINVAL;
	*l = n;
	return 0;
}
