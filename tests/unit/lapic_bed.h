/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A local APIC and a CPU that takes its events when the test says so. */
#ifndef TESTS_UNIT_LAPIC_BED_H
#define TESTS_UNIT_LAPIC_BED_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "vmm/emu/irqchip/lapic.h"
#include "tests/random.h"

/* A CPU that takes events at the test's command. */
static struct {
	int vector; /* queued; -1: none */
	bool nmi;
} cpu;

enum {
	ID = 0x802,
	VERSION,
	TPR = 0x808,
	PPR = 0x80a,
	EOI,
	LDR = 0x80d,
	SVR = 0x80f,
	ISR = 0x810,
	TMR = 0x818,
	IRR = 0x820,
	ESR = 0x828,
	CMCI = 0x82f,
	ICR = 0x830,
	TIMER = 0x832,
	THERMAL,
	LVTPC,
	LINT0,
	LINT1,
	LVTERR,
	INITIAL,
	CURRENT,
	DIVIDE = 0x83e,
	SELF
};

#define MASKED 0x10000ull
#define NMI    0x400ull

static struct lapic l;

static uint64_t rd(uint32_t msr)
{
	uint64_t x = 0xdead;

	cr_assert_eq(lapic_rdmsr(&l, msr, &x), 0, "RDMSR %#x", msr);
	return x;
}

static void wr(uint32_t msr, uint64_t x)
{
	cr_assert_eq(lapic_wrmsr(&l, msr, x), 0, "WRMSR %#x = %#lx", msr, (unsigned long)x);
}

/* #GP, and nothing has changed. */
static void wr_gp(uint32_t msr, uint64_t x)
{
	struct lapic before = l;

	cr_assert_eq(lapic_wrmsr(&l, msr, x), -EFAULT, "WRMSR %#x = %#lx", msr, (unsigned long)x);
	cr_assert_eq(memcmp(&before, &l, sizeof(l)), 0, "WRMSR %#x = %#lx", msr, (unsigned long)x);
}

/* The vCPU's part when the APIC has changed (vmm/emu/irqchip/irq.c). */
static void inject(void)
{
	if (l.nmi && !cpu.nmi) {
		cpu.nmi = true;
		l.nmi = false;
	}
	l.offered = (uint8_t)lapic_next(&l);
	cpu.vector = l.offered ? l.offered : -1;
}

/* The guest takes the queued vector. Returns it, -1: none. */
static int take(void)
{
	int vector = cpu.vector;

	cpu.vector = -1;
	if (l.offered)
		lapic_taken(&l);
	return vector;
}

/* The vector that the guest takes now, -1: none. */
static inline int next(void)
{
	inject();
	return take();
}

/* ESR as it is now; it is empty afterwards. */
static inline uint64_t esr(void)
{
	wr(ESR, 0);
	return rd(ESR);
}

/* Returns true if an interrupt waits to be delivered. */
static bool waits(void)
{
	return l.nmi || lapic_next(&l);
}

static void init(void)
{
	memset(&l, 0xee, sizeof(l));
	lapic_init(&l, 0);
	cpu.vector = -1;
	cpu.nmi = false;
}

static void init_enabled(void)
{
	init();
	wr(SVR, 0x1ff);
}

#endif
