/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the ring into which the kernel writes samples of a perf event. events.c and branches.c call
 * this. Records are untrusted data: nothing outside of the ring is read, and malformed records are
 * counted and skipped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/perf_event.h>

/* Newer than some distributions' headers. */
#define RING_SAMPLE_CGROUP (1ULL << 21) /* PERF_SAMPLE_CGROUP */

/* Supported fields; perf_event_attr.sample_type must be a subset that includes RING_FIXED. */
#define RING_FIXED (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

#define RING_CALLS_MAX	  63 /* of a call chain; outer callers are dropped */
#define RING_BRANCHES_MAX 64

struct ring {
	struct perf_event_mmap_page *page;
	uint8_t *data;
	size_t bytes; /* of data: a power of two, at least 4096 */
};

/* The interrupted code: PERF_RECORD_MISC_CPUMODE_MASK of the record. */
enum ring_mode {
	RING_UNKNOWN,
	RING_KERNEL,
	RING_USER,
	RING_HYPERVISOR,
	RING_GUEST_KERNEL,
	RING_GUEST_USER
};

/* A sample. Valid only during the call that delivers it. */
struct ring_sample {
	enum ring_mode mode;
	uint64_t ip;
	uint32_t pid, tid; /* in the initial pid namespace; 0: the idle task */
	uint64_t time_ns;  /* of the event's clock */
	uint32_t cpu;
	uint64_t cgroup; /* id; 0: unknown */
	/* Callers, innermost first, without @ip itself. Empty for guests. */
	uint64_t calls[RING_CALLS_MAX];
	unsigned int nr_calls;
	const struct perf_branch_entry *branches; /* newest first */
	unsigned int nr_branches;
};

/* Other records of the ring since its start. */
struct ring_counts {
	uint64_t lost;	    /* lost samples, from PERF_RECORD_LOST */
	uint64_t throttled; /* how often the kernel stopped the event for a while */
	uint64_t bad;	    /* malformed records */
};

/* ring_init - initialize for memory at @base: a control page, then @bytes of data. */
void ring_init(struct ring *r, void *base, size_t page_size, size_t bytes);

/* ring_read - call take() for every sample in the ring, oldest first, and release its memory to the
 * kernel. Returns the ring's fill level before, in percent. One thread at a time. */
unsigned int ring_read(struct ring *r, uint64_t sample_type, struct ring_counts *counts,
		       void (*take)(const struct ring_sample *s, void *arg), void *arg);

/* ring_newest - call take() for the newest sample of a ring that the kernel writes backwards
 * (write_backward) and whose output is paused (PERF_EVENT_IOC_PAUSE_OUTPUT). Returns false if there
 * is none. */
bool ring_newest(const struct ring *r, uint64_t sample_type, struct ring_counts *counts,
		 void (*take)(const struct ring_sample *s, void *arg), void *arg);
