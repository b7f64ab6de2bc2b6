// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The local APIC's registers: SDM vol. 3, chapter 11. Registers and reserved bits of x2APIC mode:
 * 11.12.1, table 11-6.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "vmm/emu/irqchip/lapic_regs.h"

/* Bits of each entry that can be written without #GP (11.5.1; CMCI: 16.5). No TSC-deadline
 * timer. */
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

void lapic_init_full(struct lapic *l, unsigned int id, bool deadline)
{
	uint64_t now = l->now, tsc_offset = l->tsc_offset;

	lapic_init(l, id);
	l->full = true;
	l->deadline = deadline;
	l->dfr = DFR_FLAT;
	l->now = now;
	l->tsc_offset = tsc_offset;
}

/* 11.12.5.1: the logical ID, the destination format and the ICR are lost; the halves of the ICR
 * become one register. */
void lapic_enter_x2apic(struct lapic *l)
{
	l->x2 = true;
	l->icr = 0;
	l->ldr = 0;
	l->dfr = DFR_FLAT;
}

/* ---- interrupts: pending and in service ---- */

static void lapic_set_bit(uint32_t *set, unsigned int vector)
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

/* 11.5.3: kept until the guest writes ESR, even if the error entry is masked. */
void lapic_error(struct lapic *l, uint32_t bits)
{
	uint32_t entry = l->lvt[LVT_ERROR];

	l->esr |= bits;
	if (entry & LVT_MASK)
		return;
	if ((entry & LVT_VECTOR) < FIRST_VECTOR)
		l->esr |= ESR_RECEIVE;
	else
		lapic_set_bit(l->irr, entry & LVT_VECTOR);
}

/* A fixed interrupt arrives. */
void lapic_accept(struct lapic *l, unsigned int vector, bool level)
{
	if (!lapic_enabled(l))
		return; /* 11.4.7.2 */
	if (vector < FIRST_VECTOR) {
		lapic_error(l, ESR_RECEIVE);
		return;
	}
	lapic_set_bit(l->irr, vector);
	/* TMR holds the trigger mode of the last arrival (11.8.4). */
	if (level)
		lapic_set_bit(l->tmr, vector);
	else
		clear_bit(l->tmr, vector);
}

void lapic_pmi(struct lapic *l, bool automask)
{
	uint32_t entry = l->lvt[LVT_PERF];

	if (entry & LVT_MASK)
		return;
	switch (entry & LVT_MODE) {
	case MODE_FIXED:
		lapic_accept(l, entry & LVT_VECTOR, false);
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
	lapic_set_bit(l->isr, l->offered);
	l->offered = 0;
}

/* 11.8.3.1: the higher of the class of TPR and the class in service; on a tie models differ. */
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

/* With interrupt controllers the caller finds the destinations. */
static void send_full(struct lapic *l, uint64_t icr)
{
	unsigned int mode = icr & LVT_MODE;

	if ((mode == MODE_FIXED || mode == MODE_LOWEST) && (icr & LVT_VECTOR) < FIRST_VECTOR)
		lapic_error(l, ESR_SEND);
	/* With the self shorthand only fixed delivery is valid: table 11-3. */
	if ((icr & ICR_SHORTHAND) == SHORTHAND_SELF && mode != MODE_FIXED)
		return;
	/* The level de-assert of an INIT only set arbitration IDs: 11.6.1. */
	if (mode == MODE_INIT && (icr & ICR_TRIGGER) && !(icr & ICR_LEVEL))
		return;
	l->sends = true;
	l->icr_sent = icr;
}

void lapic_send(struct lapic *l, uint64_t icr)
{
	unsigned int vector = icr & LVT_VECTOR;
	bool self = to_self(l, icr);

	if (l->full) {
		send_full(l, icr);
		return;
	}

	switch (icr & LVT_MODE) {
	case MODE_LOWEST:
		lapic_error(
			l, ESR_REDIRECTIBLE); /* not supported, as on real CPUs: 11.5.3, 11.6.2.4 */
		break;
	case MODE_FIXED:
		if (vector < FIRST_VECTOR)
			lapic_error(l, self ? ESR_SEND | ESR_RECEIVE : ESR_SEND);
		else if (self)
			lapic_accept(l, vector, false);
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
static int lapic_lvt_of(uint32_t reg)
{
	if (reg == REG_CMCI)
		return LVT_CMCI;
	return reg >= REG_LVT && reg < REG_LVT + LVTS - 1 ? (int)(reg - REG_LVT) + LVT_TIMER : -1;
}

/* The registers that are read as they are kept: @nr of them from @reg on. */
static const struct {
	uint8_t reg, nr;
	uint16_t at;
} kept[] = {
	{REG_ID, 1, offsetof(struct lapic, id)},
	{REG_TPR, 1, offsetof(struct lapic, tpr)},
	{REG_SVR, 1, offsetof(struct lapic, svr)},
	{REG_ISR, 8, offsetof(struct lapic, isr)},
	{REG_TMR, 8, offsetof(struct lapic, tmr)},
	{REG_IRR, 8, offsetof(struct lapic, irr)},
	{REG_ESR, 1, offsetof(struct lapic, esr_shown)},
	{REG_CMCI, 1, offsetof(struct lapic, lvt[LVT_CMCI])},
	{REG_LVT, LVTS - 1, offsetof(struct lapic, lvt[LVT_TIMER])},
	{REG_INITIAL, 1, offsetof(struct lapic, timer_initial)},
	{REG_DIVIDE, 1, offsetof(struct lapic, timer_divide)},
};

int lapic_rdmsr(const struct lapic *l, uint32_t msr, uint64_t *val)
{
	uint32_t reg = msr - LAPIC_MSR_BASE;

	if (reg >= LAPIC_MSR_COUNT)
		return -ENOENT;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		uint32_t n = reg - kept[i].reg, x;

		if (n >= kept[i].nr)
			continue;
		memcpy(&x, (const char *)l + kept[i].at + n * sizeof(x), sizeof(x));
		*val = x;
		return 0;
	}
	if (reg == REG_VERSION)
		*val = VERSION;
	else if (reg == REG_PPR)
		*val = ppr(l);
	else if (reg == REG_LDR)
		*val = ldr(l);
	else if (reg == REG_ICR)
		*val = l->icr;
	else if (reg == REG_CURRENT)
		*val = l->full ? lapic_timer_current(l) : 0;
	else
		return -EFAULT; /* write-only, or does not exist */
	return 0;
}

uint32_t lapic_lvt_writable(const struct lapic *l, int i)
{
	return lvt_writable[i] | (i == LVT_TIMER && l->deadline ? LVT_DEADLINE : 0);
}

int64_t lapic_writable(const struct lapic *l, uint32_t reg)
{
	int i = lapic_lvt_of(reg);

	if (i >= 0)
		return lapic_lvt_writable(l, i);
	switch (reg) {
	case REG_TPR:
	case REG_SELF_IPI:
		return 0xff;
	case REG_EOI:
	case REG_ESR:
		return 0;
	case REG_SVR:
		return SVR_WRITABLE;
	case REG_INITIAL:
		return UINT32_MAX;
	case REG_DIVIDE:
		return DIVIDE_WRITABLE;
	default:
		return -1;
	}
}

static void lapic_write_lvt(struct lapic *l, int i, uint32_t val)
{
	val = (val & ~(LVT_STATUS | LVT_IRR)) | (lapic_enabled(l) ? 0 : LVT_MASK);
	if (i == LVT_TIMER && l->full)
		lapic_timer_wr_lvt(l, val);
	l->lvt[i] = val;
}

static void lapic_write_eoi(struct lapic *l)
{
	unsigned int vector = highest(l->isr);

	clear_bit(l->isr, vector); /* vector 0 is never in service */
	if (l->tmr[vector / 32] >> vector % 32 & 1)
		l->ended = (uint8_t)vector;
}

void lapic_write(struct lapic *l, uint32_t reg, uint32_t val)
{
	switch (reg) {
	case REG_TPR:
		l->tpr = val;
		break;
	case REG_EOI:
		lapic_write_eoi(l);
		break;
	case REG_SVR:
		l->svr = val;
		/* 11.4.7.2: disabled by software, all entries are masked. */
		for (int i = 0; i < LVTS && !lapic_enabled(l); i++)
			l->lvt[i] |= LVT_MASK;
		break;
	case REG_ESR:
		l->esr_shown = l->esr;
		l->esr = 0;
		break;
	case REG_INITIAL:
		if (l->full)
			lapic_timer_wr_initial(l, val);
		else
			l->timer_initial = val;
		break;
	case REG_DIVIDE:
		if (l->full)
			lapic_timer_wr_divide(l, val);
		else
			l->timer_divide = val;
		break;
	case REG_SELF_IPI:
		lapic_send(l, SHORTHAND_SELF | MODE_FIXED | val);
		break;
	default:
		lapic_write_lvt(l, lapic_lvt_of(reg), val);
	}
}

int lapic_wrmsr(struct lapic *l, uint32_t msr, uint64_t val)
{
	uint32_t reg = msr - LAPIC_MSR_BASE;
	int64_t writable;

	if (reg >= LAPIC_MSR_COUNT)
		return -ENOENT;
	if (reg == REG_ICR) {
		val &= ~ICR_STATUS;
		if (val & ~ICR_WRITABLE)
			return -EFAULT;
		l->icr = val;
		lapic_send(l, val);
		return 0;
	}
	writable = lapic_writable(l, reg);
	if (writable < 0 || val & ~(uint64_t)writable)
		return -EFAULT; /* read-only, does not exist, or a reserved bit */
	lapic_write(l, reg, (uint32_t)val);
	return 0;
}
