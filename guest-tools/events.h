/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The named events of the guest tools, their encodings by vendor, and the parser of event lists
 * (-e). No system calls: tests also build this for the host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_id {
	EV_INSTRUCTIONS,
	EV_CYCLES,
	EV_REF_CYCLES,
	EV_BRANCHES,
	EV_BRANCHES_TAKEN,
	EV_BRANCHES_CONDITIONAL,
	EV_LOADS,
	EV_STORES,
	EV_BRANCH_MISSES,
	EV_CACHE_REFERENCES,
	EV_CACHE_MISSES,
	EV_RAW, /* rHEX: umask and event select as in perf */
	EV_NR
};

#define EVENT_NAME_MAX 40

struct event {
	enum event_id id;
	bool usr, os;		   /* counted at CPL 3, CPL 0 */
	uint32_t config;	   /* EV_RAW: umask << 8 | event */
	char name[EVENT_NAME_MAX]; /* as given */
};

struct event_desc {
	const char *name, *alias;
	uint16_t intel;	 /* umask << 8 | event select; 0: none */
	uint64_t amd;	 /* as intel, with event select bits 11:8 at 35:32 as in PerfEvtSeln */
	int8_t fixed;	 /* Intel fixed counter, -1: none */
	int8_t arch_bit; /* bit of CPUID 0AH EBX that is set if the event is missing, -1: none */
};

extern const struct event_desc event_table[EV_RAW];

#define EVENTS_MAX 32

/* The default of -e: 8 counters over 7 events, in the usual groups. */
#define EVENTS_DEFAULT                                                                             \
	"{instructions,cycles},{instructions,branches,branches-taken},{loads,stores},ref-cycles"

/*
 * events_parse - append the events of the comma separated list of @len bytes at @s to ev[], which
 * has *@n of EVENTS_MAX. {groups} have no effect, because all counters are started together.
 * Returns false on an error, with one line in @err.
 */
bool events_parse(const char *s, size_t len, struct event *ev, size_t *n, char *err,
		  size_t err_size);

/* event_same - returns true if both count the same event at the same privilege levels. */
bool event_same(const struct event *a, const struct event *b);
