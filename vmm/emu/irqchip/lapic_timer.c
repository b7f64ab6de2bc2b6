// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The timer of a local APIC: SDM vol. 3, 11.5.4. Its input runs at 1 GHz, with the VM's clock. Only
 * for APICs that lapic_init_full() made; lapic.c, irq.c, clock.c
 * and msr.c call these functions.
 */
#include "vmm/emu/irqchip/lapic.h"

#define LVT_TIMER     1 /* in lapic.lvt */
#define LVT_MASK      (1u << 16)
#define LVT_MODE      (3u << 17)
#define MODE_ONESHOT  (0u << 17)
#define MODE_PERIODIC (1u << 17)
#define MODE_DEADLINE (2u << 17)

static uint32_t mode(const struct lapic *l)
{
	return l->lvt[LVT_TIMER] & LVT_MODE;
}

/* Figure 11-10: bits 3, 1 and 0 give 2, 4, 8, 16, 32, 64, 128, 1. */
static unsigned int lapic_timer_shift(const struct lapic *l)
{
	unsigned int bits = (l->timer_divide >> 1 & 4) | (l->timer_divide & 3);

	return (bits + 1) & 7;
}

uint32_t lapic_timer_current(const struct lapic *l)
{
	uint64_t passed = (l->now - l->timer_at) >> lapic_timer_shift(l);

	return passed < l->timer_left ? l->timer_left - (uint32_t)passed : 0;
}

uint64_t lapic_timer_due(const struct lapic *l)
{
	uint64_t tsc = l->now + l->tsc_offset;

	if (mode(l) == MODE_DEADLINE) {
		if (!l->tsc_deadline)
			return LAPIC_NEVER;
		if (tsc >= l->tsc_deadline)
			return l->now;
		return l->tsc_deadline - tsc < LAPIC_NEVER - l->now ? l->now + l->tsc_deadline - tsc
								    : LAPIC_NEVER;
	}
	if (!l->timer_left || mode(l) == LVT_MODE)
		return LAPIC_NEVER;
	return l->timer_at + ((uint64_t)l->timer_left << lapic_timer_shift(l));
}

void lapic_timer_expire(struct lapic *l)
{
	uint64_t due = lapic_timer_due(l),
		 period = (uint64_t)l->timer_initial << lapic_timer_shift(l);

	if (due > l->now)
		return;
	if (mode(l) == MODE_DEADLINE) {
		l->tsc_deadline = 0;
	} else if (mode(l) == MODE_PERIODIC && period) {
		/* Missed periods raise one interrupt: IRR has one bit per vector. */
		l->timer_at = l->now - (l->now - due) % period;
		l->timer_left = l->timer_initial;
	} else {
		l->timer_left = 0;
	}
	if (!(l->lvt[LVT_TIMER] & LVT_MASK))
		lapic_accept(l, l->lvt[LVT_TIMER] & 0xff, false);
}

uint64_t lapic_rd_deadline(const struct lapic *l)
{
	return mode(l) == MODE_DEADLINE ? l->tsc_deadline : 0;
}

/* 11.5.4.1: in other modes a write is ignored. */
void lapic_wr_deadline(struct lapic *l, uint64_t x)
{
	if (mode(l) == MODE_DEADLINE)
		l->tsc_deadline = x;
}

/* In TSC-deadline mode a write is ignored. */
void lapic_timer_wr_initial(struct lapic *l, uint32_t x)
{
	if (mode(l) == MODE_DEADLINE)
		return;
	l->timer_initial = x;
	l->timer_left = x;
	l->timer_at = l->now;
}

/* The count continues at the new rate. */
void lapic_timer_wr_divide(struct lapic *l, uint32_t x)
{
	l->timer_left = lapic_timer_current(l);
	l->timer_at = l->now;
	l->timer_divide = x;
}

/* A change to or from TSC-deadline mode disarms the timer (11.5.4.1). */
void lapic_timer_wr_lvt(struct lapic *l, uint32_t x)
{
	if ((mode(l) == MODE_DEADLINE) == ((x & LVT_MODE) == MODE_DEADLINE))
		return;
	l->tsc_deadline = 0;
	l->timer_left = 0;
}
