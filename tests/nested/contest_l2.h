/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest of tests/nested/contest.c: code without an operating system, in its own section, that
 * treats its PMU as Linux's driver does. The VMM copies it into the guest's RAM.
 */
#ifndef TESTS_NESTED_CONTEST_L2_H
#define TESTS_NESTED_CONTEST_L2_H

#include <stdint.h>

/* The guest's memory, mapped to itself. */
enum {
	L2_RAM = 2 << 20,
	L2_PML4 = 0x2000, /* and two further tables */
	L2_GDT = 0x5000,
	L2_IDT = 0x6000,
	L2_JOB = 0x7000,
	L2_CODE = 0x8000,
	L2_STACK = 0x80000,
};
enum { L2_PORT_UNIT = 0xf4, L2_PORT_DONE = 0xf5 };

enum l2_row {
	L2_PLAIN,  /* the PMU is not touched */
	L2_COUNT,  /* each unit: all events are started, and read at its end, as at context switches
		    */
	L2_ROTATE, /* more events than counters, which are multiplexed after each unit */
	L2_SAMPLE, /* the first event interrupts after each period */
};

enum { L2_EVENTS = 10, L2_COUNTERS = 6 };

struct l2_job {
	uint32_t row;
	uint32_t v2;	 /* there are PerfMonV2's global registers */
	uint32_t events; /* in select[] */
	uint64_t units;
	uint64_t loop; /* a unit is 2 * loop instructions, and an OUT */
	uint64_t period;
	uint64_t select[L2_EVENTS];
	/* Results: */
	uint64_t pmis;
	uint64_t none; /* PMIs without an overflow */
	uint64_t count[L2_EVENTS];
	uint64_t value[L2_EVENTS]; /* of the counter, when the event last had one */
};

extern const char __start_l2[], __stop_l2[]; /* the section, by the linker */
extern const char l2_start[], l2_nmi[];

#endif
