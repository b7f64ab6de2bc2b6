/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guests of tests/preload have in common that test a PMU: they find it, count with it and take
 * PMIs from it. guest.c is 32-bit code, hostile.c 64-bit. A guest has its own interrupts: @pmis,
 * which its handler of VECTOR counts.
 */
#ifndef PRELOAD_GUEST_H
#define PRELOAD_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/preload/machine.h"

#define LAPIC  0xfee00000u
#define LVTPC  0x340
#define VECTOR 0x40u

/* Bounds of loops, in the guest's own work: a PMI that never comes is an error. */
#define WORK	   500u
#define WORK_UNITS 100000u

volatile uint32_t pmis;

static void cpuid(uint32_t leaf, uint32_t r[4])
{
	__asm__ volatile("cpuid"
			 : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3])
			 : "a"(leaf), "c"(0));
}

static void put_hex(const char *what, uint64_t v)
{
	char text[17];

	put(what);
	for (int i = 0; i < 16; i++)
		text[i] = "0123456789abcdef"[v >> (60 - 4 * i) & 15];
	text[16] = 0;
	put(" ");
	put(text);
	put("\n");
}

static void end(const char *why)
{
	put(why);
	put("\n");
	outb(DEBUGEXIT, why[0] == 'd' ? 0 : 1); /* "done": status 1 */
	for (;;)
		__asm__ volatile("hlt");
}

static void expect(bool ok, const char *what)
{
	put(ok ? "ok: " : "WRONG: ");
	put(what);
	put("\n");
	if (!ok)
		end("wrong");
}

/* The multiboot information has the command line, if bit 2 of its flags is set: the image's path,
 * a blank, and what -append has. */
static const char *append(const uint32_t *info)
{
	const char *s = info[0] & 4 ? (const char *)(uintptr_t)info[4] : "", *last = "";

	for (; *s; s++)
		if (*s == ' ')
			last = s + 1;
	return last;
}

static void arm_lvtpc(void)
{
	*(volatile uint32_t *)(LAPIC + LVTPC) = VECTOR;
}

static void work(void)
{
	for (volatile uint32_t i = 0; i < WORK; i++)
		;
}

/* ---- the PMU: one counter of reference cycles, which a host without a PMU counts, too ---- */

static bool intel, v2;
static uint32_t ctr, sel;	  /* counter and control of the one that counts */
static uint32_t other, other_sel; /* of one that stands still and keeps a value */
static uint32_t status, clear;

static void pmu_find(void)
{
	uint32_t r[4];

	cpuid(0, r);
	intel = r[1] == 0x756e6547;
	if (intel) {
		cpuid(0xa, r);
		put_hex("leaf 0AH EAX", r[0]);
		expect((r[0] & 0xff) >= 2, "an architectural PMU");
		v2 = true;
		ctr = 0x30b; /* fixed counter 2 */
		sel = 0x38d;
		other = 0xc2;
		other_sel = 0x187;
		status = 0x38e;
		clear = 0x390;
		return;
	}
	cpuid(0x80000001, r);
	expect(r[2] >> 23 & 1, "PERFCTR_CORE");
	cpuid(0xa, r);
	expect(!r[0], "no architectural PMU besides");
	cpuid(0x80000000, r);
	if (r[0] >= 0x80000022) {
		cpuid(0x80000022, r);
		v2 = r[0] & 1;
	}
	if (v2)
		put_hex("leaf 80000022H EBX", r[1]);
	put(v2 ? "PerfMonV2\n" : "no PerfMonV2\n");
	ctr = 0xc0010201;
	sel = 0xc0010200;
	other = 0xc0010205;
	other_sel = 0xc0010204;
	status = 0xc0000300;
	clear = 0xc0000302;
}

static void pmu_start(bool interrupts_on)
{
	if (intel) {
		wrmsr(sel, interrupts_on ? 0xb00 : 0x300);
		wrmsr(0x38f, 1ull << 34);
		return;
	}
	/* event 120H, unit mask 1: user and kernel, enabled */
	wrmsr(sel,
	      1ull << 32 | 0x20 | 0x100 | 3u << 16 | 1u << 22 | (interrupts_on ? 1u << 20 : 0));
	if (v2)
		wrmsr(0xc0000301, 1);
}

static void pmu_stop(void)
{
	wrmsr(sel, 0);
}

static void count(void)
{
	uint64_t t0, c0, c1, t1;

	wrmsr(ctr, 0);
	pmu_start(false);
	t0 = rdtsc();
	c0 = rdmsr(ctr);
	for (int i = 0; i < 5; i++)
		work();
	c1 = rdmsr(ctr);
	t1 = rdtsc();
	put_hex("counted", c1 - c0);
	put_hex("of TSC", t1 - t0);
	expect(c1 > c0, "the counter counts");
	expect(c1 - c0 <= t1 - t0, "no more than the TSC");
	pmu_stop();
	c0 = rdmsr(ctr);
	work();
	expect(rdmsr(ctr) == c0, "it stands still when it is off");
}

static void pmi(void)
{
	uint32_t before;

	for (int round = 0; round < 3; round++) {
		before = pmis;
		arm_lvtpc();
		wrmsr(ctr, (1ull << 48) - 3000000);
		pmu_start(true);
		for (uint32_t i = 0; i < WORK_UNITS && pmis == before; i++)
			work();
		pmu_stop();
		expect(pmis == before + 1, "a PMI");
		expect(rdmsr(ctr) < 1ull << 47, "the counter has wrapped");
		if (v2) {
			uint64_t bit = intel ? 1ull << 34 : 1;

			expect(rdmsr(status) & bit, "the status shows it");
			wrmsr(clear, bit);
			expect(!(rdmsr(status) & bit), "the status is cleared");
		}
	}
}

#endif
