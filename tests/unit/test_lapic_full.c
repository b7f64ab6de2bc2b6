// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/emu/lapic, with interrupt controllers: registers in memory, destinations, level-triggered
 * interrupts, all modes of the timer (SDM vol. 3, chapter 11). */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "vmm/emu/irqchip/lapic.h"

#define MASKED 0x10000u

enum {
	ID = 0x02,
	VERSION,
	TPR = 0x08,
	APR,
	PPR,
	EOI,
	RRD,
	LDR,
	DFR,
	SVR,
	ISR = 0x10,
	TMR = 0x18,
	IRR = 0x20,
	ESR = 0x28,
	CMCI = 0x2f,
	ICR = 0x30,
	ICR_HIGH,
	TIMER = 0x32,
	LVTPC = 0x34,
	LINT0,
	LVTERR = 0x37,
	INITIAL,
	CURRENT,
	DIVIDE = 0x3e
};

static struct lapic l;

static uint32_t rd(uint32_t reg)
{
	return lapic_mmio_read(&l, reg);
}

static void wr(uint32_t reg, uint32_t val)
{
	lapic_mmio_write(&l, reg, val);
}

static void init(void)
{
	memset(&l, 0, sizeof(l));
	l.now = 1000;
	lapic_init_full(&l, 5, true);
}

static void init_enabled(void)
{
	init();
	wr(SVR, 0x1ff);
}

/* ESR as it is now; it is empty afterwards. */
static uint32_t esr(void)
{
	wr(ESR, 0);
	return rd(ESR);
}

Test(lapic_full, reset_values, .init = init)
{
	cr_assert_eq(rd(ID), 5u << 24);
	cr_assert_eq(rd(VERSION), 0x00060014);
	cr_assert_eq(rd(SVR), 0xff);
	cr_assert_eq(rd(DFR), 0xffffffff);
	cr_assert_eq(rd(LDR) | rd(ICR) | rd(ICR_HIGH) | rd(INITIAL) | rd(CURRENT) | rd(DIVIDE), 0);
	for (uint32_t reg = TIMER; reg <= LVTERR; reg++)
		cr_assert_eq(rd(reg), MASKED);
	cr_assert_eq(lapic_timer_due(&l), LAPIC_NEVER);
}

/* Table 11-1: which registers there are; the others are an error that ESR shows. Which bits can be
 * written; the others are ignored. */
Test(lapic_full, map)
{
	static const struct {
		uint32_t reg, bits;
	} rows[] = {
		{ID, 0},
		{VERSION, 0},
		{TPR, 0xff},
		{PPR, 0},
		{EOI, 0},
		{LDR, 0xff000000},
		{DFR, 0xf0000000},
		{SVR, 0x1ff},
		{ESR, 0},
		{CMCI, 0x107ff},
		{ICR, 0xccfff},
		{ICR_HIGH, 0xff000000},
		{TIMER, 0x700ff},
		{TIMER + 1, 0x107ff},
		{LVTPC, 0x107ff},
		{LINT0, 0x1a7ff},
		{LINT0 + 1, 0x1a7ff},
		{LVTERR, 0x100ff},
		{INITIAL, 0xffffffff},
		{CURRENT, 0},
		{DIVIDE, 0xb},
	};

	for (uint32_t reg = 0; reg < 256; reg++) {
		bool there = reg >= ISR && reg < ESR;
		uint32_t bits = 0;

		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			if (rows[i].reg == reg) {
				there = true;
				bits = rows[i].bits;
			}
		init_enabled();
		rd(reg);
		cr_assert_eq(esr(), there ? 0 : 0x80, "reading %#x", reg);
		init_enabled();
		if (reg == SVR)
			bits &= ~0x100u; /* 0 disables the others; tested below */
		for (unsigned int bit = 0; bit < 32; bit++) {
			uint32_t x = 1u << bit, was, got;

			init_enabled();
			wr(reg, 0);
			if (reg == SVR)
				x |= 0x100;
			was = reg == ESR ? 0 : rd(reg);
			wr(reg, x);
			got = reg == ESR ? 0 : rd(reg);
			if (reg != CURRENT && reg != EOI)
				cr_assert_eq(got & ~was & ~0x100u, bits & x & ~0x100u & ~was,
					     "%#x bit %u: %#x, before %#x", reg, bit, got, was);
		}
		init_enabled();
		wr(reg, 0);
		if (reg != ESR && reg != ICR)
			cr_assert_eq(esr(), there ? 0 : 0x80, "writing %#x", reg);
	}
}

/* Disabled by software: masked entries stay so, and fixed interrupts are dropped. */
Test(lapic_full, software_disable, .init = init)
{
	wr(TIMER, 0x40);
	cr_assert_eq(rd(TIMER), 0x40 | MASKED);
	lapic_accept(&l, 0x55, false);
	cr_assert_eq(lapic_next(&l), 0);
	cr_assert_not(lapic_address_enabled(lapic_address(&l)));
	wr(SVR, 0x1ff);
	lapic_accept(&l, 0x55, false);
	cr_assert_eq(lapic_next(&l), 0x55);
	cr_assert(lapic_address_enabled(lapic_address(&l)));
}

/* 11.6.2: physical, flat, cluster, x2APIC; broadcasts. */
Test(lapic_full, destinations, .init = init_enabled)
{
	static const struct {
		int line;
		uint32_t ldr, dfr, dest;
		bool logical, x2_target, x2_message, match;
	} rows[] = {
		{__LINE__, 0, ~0u, 5, false, false, false, true},
		{__LINE__, 0, ~0u, 4, false, false, false, false},
		{__LINE__, 0, ~0u, 0xff, false, false, false, true},
		{__LINE__, 0, ~0u, 0xff, false, false, true, false},
		{__LINE__, 0, ~0u, 0xffffffff, false, false, true, true},
		{__LINE__, 0, ~0u, 0x105, false, false, true, false},
		{__LINE__, 0x20000000, ~0u, 0x60, true, false, false, true},
		{__LINE__, 0x20000000, ~0u, 0x50, true, false, false, false},
		{__LINE__, 0x20000000, ~0u, 0x120, true, false, true, false},
		{__LINE__, 0x32000000, 0x0fffffff, 0x36, true, false, false, true},
		{__LINE__, 0x32000000, 0x0fffffff, 0x34, true, false, false, false},
		{__LINE__, 0x32000000, 0x0fffffff, 0x26, true, false, false, false},
		{__LINE__, 0x32000000, 0x0fffffff, 0xff, true, false, false, true},
		{__LINE__, 0, ~0u, 5, false, true, true, true},
		{__LINE__, 0, ~0u, 5, false, true, false, true},
		{__LINE__, 0, ~0u, 0x20, true, true, true, true},  /* cluster 0, bit 5 */
		{__LINE__, 0, ~0u, 0x20, true, true, false, true}, /* from an I/O APIC */
		{__LINE__, 0, ~0u, 0x10020, true, true, true, false},
		{__LINE__, 0, ~0u, 0x10, true, true, true, false},
		{__LINE__, 0, ~0u, 0xffffffff, true, true, true, true},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		init_enabled();
		wr(LDR, rows[i].ldr);
		wr(DFR, rows[i].dfr);
		if (rows[i].x2_target)
			lapic_enter_x2apic(&l);
		cr_assert_eq(lapic_matches(lapic_address(&l), rows[i].dest, rows[i].logical,
					   rows[i].x2_message),
			     rows[i].match, "line %d", rows[i].line);
	}
}

/* To x2APIC mode: what goes and what stays (11.12.5.1). */
Test(lapic_full, to_x2apic, .init = init_enabled)
{
	static const struct {
		uint32_t reg;
		uint64_t value;
	} stay[] = {{LDR, 0x20}, {ICR, 0}, {TPR, 0x30}, {LVTPC, 0x400}, {INITIAL, 500}};
	uint64_t x;

	wr(LDR, 0x12000000);
	wr(DFR, 0x0fffffff);
	wr(ICR_HIGH, 0x07000000);
	wr(TPR, 0x30);
	wr(LVTPC, 0x400);
	wr(TIMER, 0x20040);
	wr(INITIAL, 500);
	lapic_accept(&l, 0x66, true);
	lapic_enter_x2apic(&l);
	for (size_t i = 0; i < sizeof(stay) / sizeof(stay[0]); i++) {
		cr_assert_eq(lapic_rdmsr(&l, 0x800 + stay[i].reg, &x), 0, "%#x", stay[i].reg);
		cr_assert_eq(x, stay[i].value, "%#x", stay[i].reg);
	}
	cr_assert_eq(lapic_next(&l), 0x66);
	cr_assert_eq(lapic_rdmsr(&l, 0x800 + DFR, &x), -EFAULT);
	cr_assert_eq(lapic_rdmsr(&l, 0x800 + ICR_HIGH, &x), -EFAULT);
	/* Bit 18 of the timer's entry only with the TSC-deadline mode. */
	cr_assert_eq(lapic_wrmsr(&l, 0x800 + TIMER, 0x40040), 0);
	l.deadline = false;
	cr_assert_eq(lapic_wrmsr(&l, 0x800 + TIMER, 0x40040), -EFAULT);
}

/* TMR has the trigger mode of a vector's last arrival, and the end of a level-triggered one is
 * broadcast. */
Test(lapic_full, level_triggered, .init = init_enabled)
{
	for (int level = 0; level < 2; level++) {
		lapic_accept(&l, 0x71, level);
		cr_assert_eq(rd(TMR + 3), level ? 1u << 17 : 0);
		l.offered = (uint8_t)lapic_next(&l);
		lapic_taken(&l);
		l.ended = 0;
		wr(EOI, 0);
		cr_assert_eq(l.ended, level ? 0x71 : 0);
	}
	/* An illegal vector is an error. */
	lapic_accept(&l, 15, true);
	cr_assert_eq(esr(), 0x40);
}

/* Messages sent, and errors that only ESR has. */
Test(lapic_full, sending, .init = init_enabled)
{
	static const struct {
		int line;
		uint32_t icr;
		bool sends;
		uint32_t esr;
	} rows[] = {
		{__LINE__, 0x4041, true, 0},	/* fixed */
		{__LINE__, 0x4003, true, 0x20}, /* illegal vector */
		{__LINE__, 0x4141, true, 0},	/* lowest priority */
		{__LINE__, 0x44441, false, 0},	/* NMI with the self shorthand: table 11-3 */
		{__LINE__, 0x44041, true, 0},	{__LINE__, 0x4500, true, 0}, /* INIT */
		{__LINE__, 0x8500, false, 0},				     /* its de-assert */
		{__LINE__, 0x4612, true, 0},				     /* SIPI */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		l.sends = false;
		wr(ICR_HIGH, 3u << 24);
		cr_assert_not(l.sends, "the low half sends");
		wr(ICR, rows[i].icr);
		cr_assert_eq(l.sends, rows[i].sends, "line %d", rows[i].line);
		cr_assert_eq(esr(), rows[i].esr, "line %d", rows[i].line);
		if (l.sends)
			cr_assert_eq(l.icr_sent, 3ull << 56 | rows[i].icr);
	}
}

/* ---- the timer ---- */

/* The vector that came, 0: none; it is over. */
static unsigned int comes(void)
{
	unsigned int vector = lapic_next(&l);

	if (vector) {
		l.offered = (uint8_t)vector;
		lapic_taken(&l);
		wr(EOI, 0);
	}
	return vector;
}

/* The vector that has come at @now. */
static unsigned int at(uint64_t now)
{
	l.now = now;
	lapic_timer_expire(&l);
	return comes();
}

Test(lapic_full, one_shot)
{
	/* Figure 11-10. */
	static const struct {
		uint32_t bits, by;
	} divide[] = {{0, 2}, {1, 4}, {2, 8}, {3, 16}, {8, 32}, {9, 64}, {10, 128}, {11, 1}};

	for (size_t i = 0; i < 8; i++) {
		uint64_t due;

		init_enabled();
		wr(TIMER, 0x40);
		wr(DIVIDE, divide[i].bits);
		wr(INITIAL, 100);
		due = lapic_timer_due(&l);
		cr_assert_eq(due, 1000 + 100 * divide[i].by);
		cr_assert_eq(rd(CURRENT), 100);
		l.now += 30 * divide[i].by;
		cr_assert_eq(rd(CURRENT), 70);
		l.now = due - 1;
		cr_assert_eq(rd(CURRENT), 1);
		lapic_timer_expire(&l);
		cr_assert_eq(comes(), 0, "too early");
		cr_assert_eq(at(due), 0x40);
		cr_assert_eq(rd(CURRENT), 0);
		cr_assert_eq(lapic_timer_due(&l), LAPIC_NEVER);
		cr_assert_eq(rd(INITIAL), 100);
	}
}

Test(lapic_full, periodic, .init = init_enabled)
{
	wr(TIMER, 0x20040);
	wr(DIVIDE, 0xb);
	wr(INITIAL, 100);
	for (unsigned int i = 1; i < 5; i++) {
		cr_assert_eq(lapic_timer_due(&l), 1000 + 100 * i);
		cr_assert_eq(at(1000 + 100 * i + i), 0x40);
		cr_assert_eq(rd(CURRENT), 100 - i, "no drift");
	}
	/* Many were missed: one interrupt, and the phase stays. */
	cr_assert_eq(at(5050), 0x40);
	cr_assert_eq(comes(), 0);
	cr_assert_eq(lapic_timer_due(&l), 5100);
	/* A new count begins now; 0 stops it. */
	wr(INITIAL, 10);
	cr_assert_eq(lapic_timer_due(&l), 5060);
	wr(INITIAL, 0);
	cr_assert_eq(lapic_timer_due(&l), LAPIC_NEVER);
	/* The shortest period does not come twice in one instant. */
	wr(INITIAL, 1);
	l.now = lapic_timer_due(&l);
	lapic_timer_expire(&l);
	cr_assert_gt(lapic_timer_due(&l), l.now);
}

/* A masked timer counts; unmasking does not bring back what expired. */
Test(lapic_full, masked_timer, .init = init_enabled)
{
	wr(TIMER, 0x40 | MASKED);
	wr(DIVIDE, 0xb);
	wr(INITIAL, 100);
	cr_assert_eq(at(l.now + 100), 0);
	wr(TIMER, 0x40);
	cr_assert_eq(comes(), 0);
	cr_assert_eq(lapic_timer_due(&l), LAPIC_NEVER);
}

/* The count goes on from where it is. */
Test(lapic_full, divide_change, .init = init_enabled)
{
	wr(TIMER, 0x40);
	wr(DIVIDE, 0xb);
	wr(INITIAL, 100);
	l.now += 40;
	wr(DIVIDE, 1);
	cr_assert_eq(rd(CURRENT), 60);
	cr_assert_eq(lapic_timer_due(&l), 1040 + 60 * 4);
}

/* 11.5.4.1 */
Test(lapic_full, tsc_deadline, .init = init_enabled)
{
	l.tsc_offset = 500; /* the TSC is 1500 */
	lapic_wr_deadline(&l, 9999);
	cr_assert_eq(lapic_rd_deadline(&l), 0, "in another mode it is ignored");
	wr(TIMER, 0x40040);
	wr(INITIAL, 77);
	cr_assert_eq(rd(CURRENT), 0, "ignored in this mode");
	lapic_wr_deadline(&l, 2500);
	cr_assert_eq(lapic_timer_due(&l), 2000);
	cr_assert_eq(lapic_rd_deadline(&l), 2500);
	cr_assert_eq(at(1999), 0);
	cr_assert_eq(at(2000), 0x40);
	cr_assert_eq(lapic_rd_deadline(&l), 0, "disarmed");
	/* In the past: at once. 0 disarms. Too far for the clock: never. */
	lapic_wr_deadline(&l, 1);
	cr_assert_eq(lapic_timer_due(&l), l.now);
	lapic_wr_deadline(&l, 0);
	cr_assert_eq(lapic_timer_due(&l), LAPIC_NEVER);
	lapic_wr_deadline(&l, ~0ull);
	cr_assert_geq(lapic_timer_due(&l), LAPIC_NEVER - 1000);
	/* A change of the mode disarms, in both directions. */
	wr(TIMER, 0x40);
	cr_assert_eq(lapic_rd_deadline(&l), 0);
	cr_assert_eq(lapic_timer_due(&l), LAPIC_NEVER);
	wr(INITIAL, 100);
	cr_assert_neq(lapic_timer_due(&l), LAPIC_NEVER);
	wr(TIMER, 0x40040);
	cr_assert_eq(lapic_timer_due(&l), LAPIC_NEVER);
	/* One-shot and periodic do not. */
	wr(TIMER, 0x40);
	wr(INITIAL, 100);
	wr(TIMER, 0x20040);
	cr_assert_neq(lapic_timer_due(&l), LAPIC_NEVER);
}

/* PMIs in xAPIC mode, by the entry in memory. */
Test(lapic_full, pmi, .init = init_enabled)
{
	wr(LVTPC, 0x400);
	lapic_pmi(&l, true);
	cr_assert(l.nmi);
	cr_assert_eq(rd(LVTPC), 0x400 | MASKED, "Intel masks");
	l.nmi = false;
	lapic_pmi(&l, true);
	cr_assert_not(l.nmi);
	wr(LVTPC, 0x45);
	lapic_pmi(&l, false);
	cr_assert_eq(comes(), 0x45);
	cr_assert_eq(rd(LVTPC), 0x45);
}
