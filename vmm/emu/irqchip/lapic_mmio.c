// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The local APIC's registers in memory (xAPIC mode), the match of messages with APICs, and the
 * states that a guest can produce. See lapic.h. irq.c, chip.c and lapic_save.c call these
 * functions.
 */
#include "vmm/emu/irqchip/lapic_regs.h"

/* Layout of the word of lapic_address(). */
#define ADDRESS_X2	(1ULL << 0)
#define ADDRESS_ENABLED (1ULL << 1)
#define ADDRESS_CLUSTER (1ULL << 2)
#define ADDRESS_THERE	(1ULL << 3)
#define ADDRESS_LDR(a)	((uint32_t)((a) >> 8 & 0xff))
#define ADDRESS_ID(a)	((uint32_t)((a) >> 32))

uint64_t lapic_address(const struct lapic *l)
{
	return ADDRESS_THERE | (uint64_t)l->id << 32 | (uint64_t)(l->ldr >> 24) << 8 |
	       (l->x2 ? ADDRESS_X2 : 0) | (lapic_enabled(l) ? ADDRESS_ENABLED : 0) |
	       (l->dfr >> 28 == 0xf ? 0 : ADDRESS_CLUSTER);
}

bool lapic_address_enabled(uint64_t address)
{
	return address & ADDRESS_ENABLED;
}

bool lapic_matches(uint64_t address, uint32_t dest, bool logical, bool x2)
{
	uint32_t id = ADDRESS_ID(address), ldr = ADDRESS_LDR(address);

	if (dest == (x2 ? ICR_BROADCAST : 0xff))
		return true;
	if (!logical)
		return dest == id;
	if (address & ADDRESS_X2)
		return dest >> 16 == id >> 4 && dest >> (id & 15) & 1; /* 11.12.10.2 */
	if (dest > 0xff)
		return false;
	if (address & ADDRESS_CLUSTER)
		return dest >> 4 == ldr >> 4 && (dest & ldr & 15); /* 11.6.2.2 */
	return dest & ldr;
}

/* ---- xAPIC mode: 11.4.1, table 11-1 ---- */

uint32_t lapic_mmio_read(struct lapic *l, uint32_t reg)
{
	uint64_t val = 0;

	switch (reg) {
	case REG_ID:
		return l->id << 24;
	case REG_LDR:
		return l->ldr;
	case REG_DFR:
		return l->dfr;
	case REG_ICR:
		return (uint32_t)l->icr;
	case REG_ICR_HIGH:
		return (uint32_t)(l->icr >> 32);
	case REG_EOI:
		return 0; /* write-only */
	default:
		if (reg == REG_SELF_IPI || lapic_rdmsr(l, LAPIC_MSR_BASE + reg, &val))
			lapic_error(l, ESR_REGISTER);
		return (uint32_t)val;
	}
}

void lapic_mmio_write(struct lapic *l, uint32_t reg, uint32_t val)
{
	int64_t writable;

	switch (reg) {
	case REG_ID:
	case REG_VERSION:
	case REG_PPR:
	case REG_CURRENT:
	case REG_ISR ... REG_IRR + 7:
		break; /* read-only; the ID is in CPUID, too (11.4.6) */
	case REG_LDR:
		l->ldr = val & 0xff000000;
		break;
	case REG_DFR:
		l->dfr = val | 0x0fffffff;
		break;
	case REG_ICR:
		l->icr = (l->icr & ~0xffffffffULL) | (val & (uint32_t)ICR_WRITABLE);
		lapic_send(l, l->icr);
		break;
	case REG_ICR_HIGH:
		l->icr = (uint32_t)l->icr | (uint64_t)(val & 0xff000000) << 32;
		break;
	default:
		writable = lapic_writable(l, reg);
		if (writable < 0 || reg == REG_SELF_IPI)
			lapic_error(l, ESR_REGISTER);
		else
			lapic_write(l, reg, val & (uint32_t)writable);
	}
}

/* ---- states that a guest could have produced ---- */

static bool plausible_full(const struct lapic *l)
{
	bool deadline = l->lvt[LVT_TIMER] & LVT_DEADLINE;

	if (l->tmr[0] & 0xffff)
		return false;
	if (l->x2 ? l->ldr || l->dfr != DFR_FLAT
		  : (l->ldr & 0xffffff) || (~l->dfr & 0x0fffffff) || (l->icr >> 32 & 0xffffff))
		return false;
	if (l->timer_left > l->timer_initial || l->timer_at > l->now)
		return false;
	return deadline ? !l->timer_left : !l->tsc_deadline;
}

bool lapic_plausible(const struct lapic *l)
{
	uint32_t esr = ESR_ALL | (l->full ? ESR_REGISTER : 0);

	for (int i = 0; i < LVTS; i++)
		if ((l->lvt[i] & ~lapic_lvt_writable(l, i)) ||
		    (l->lvt[i] & (LVT_STATUS | LVT_IRR)) ||
		    (!lapic_enabled(l) && !(l->lvt[i] & LVT_MASK)))
			return false;
	if (l->full && !plausible_full(l))
		return false;
	return !(l->svr & ~SVR_WRITABLE) && l->tpr <= 0xff && !(l->esr & ~esr) &&
	       !(l->esr_shown & ~esr) && !(l->icr & (~ICR_WRITABLE | ICR_STATUS)) &&
	       !(l->timer_divide & ~DIVIDE_WRITABLE) && !((l->irr[0] | l->isr[0]) & 0xffff) &&
	       (!l->offered || l->offered == lapic_next(l));
}
