/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by hostpmu_perf*.c and their test: the few system calls behind a table, so that the test
 * can play a kernel with a hardware PMU where there is none; and what the host was found to have.
 */
#ifndef VPMU_HOSTPMU_PERF_PRIV_H
#define VPMU_HOSTPMU_PERF_PRIV_H

#include "vpmu/hostpmu_perf.h"

struct perf_event_attr;

struct vpmu_perf_sys {
	/* perf_event_open without a group: fd or -errno. @tid 0: the calling thread; -1: all. */
	int (*open)(const struct perf_event_attr *attr, int tid, int cpu);
	/* 0; -ENODATA: the kernel put the pinned event into its error state; -errno. */
	int (*read)(int fd, uint64_t *value);
	/* The event's page, or NULL. */
	struct perf_event_mmap_page *(*map)(int fd);
	void (*unmap)(struct perf_event_mmap_page *page);
	uint64_t (*rdpmc)(uint32_t index);
	void (*close)(int fd);
};
extern const struct vpmu_perf_sys *vpmu_perf_sys; /* set by tests only, before any use */

/* How many hardware events can count at one time. */
struct vpmu_perf_capacity {
	unsigned int gp;    /* any key */
	unsigned int fixed; /* more, for one generic event each: */
	uint16_t fixed_event[3];
	int rc; /* why gp is 0 */
};
#define VPMU_PERF_MAX_GP 16

/* Found on the first call in the process. Any thread. */
const struct vpmu_perf_capacity *vpmu_perf_capacity(void);

/* The attr to count @key with, and open it for @tid or @cpu (one of them -1). fd or -errno. */
int vpmu_perf_open(vpmu_key_t key, int tid, int cpu);

/* Whether the host can count @key, by trying once: 0 or -errno, cached. @cpu -1: in threads. */
int vpmu_perf_probe(vpmu_key_t key, int cpu);

#endif
