/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by hostpmu_perf.c, hostpmu_perf_probe.c and their tests: a table of the few system calls,
 * so that a test can act as a kernel with a hardware PMU; and what the host was found to have.
 */
#ifndef VPMU_HOSTPMU_PERF_PRIV_H
#define VPMU_HOSTPMU_PERF_PRIV_H

#include "vpmu/hostpmu_perf.h"

struct perf_event_attr;

struct vpmu_perf_sys {
	/* perf_event_open without a group: fd or -errno. @tid 0: the calling thread; -1: all. */
	int (*open)(const struct perf_event_attr *attr, int tid, int cpu);
	/* 0, or -ENODATA: the kernel has put the pinned event into its error state; or -errno. */
	int (*read)(int fd, uint64_t *value);
	/* The event's page, or NULL. */
	struct perf_event_mmap_page *(*map)(int fd);
	void (*unmap)(struct perf_event_mmap_page *page);
	uint64_t (*rdpmc)(uint32_t index);
	void (*close)(int fd);
};
extern const struct vpmu_perf_sys *vpmu_perf_sys; /* only tests set it, before any use */

/* How many hardware events can count at the same time. */
struct vpmu_perf_capacity {
	unsigned int gp;    /* for any hardware key */
	unsigned int fixed; /* besides, for one generic event each: */
	uint16_t fixed_event[3];
	int rc; /* why gp is 0 */
};
#define VPMU_PERF_MAX_GP 16

/* Found out by the first call in the process. Any thread. */
const struct vpmu_perf_capacity *vpmu_perf_capacity(void);

/* Open an event that counts @key, of thread @tid or of CPU @cpu; the other one is -1. The file
 * descriptor, or -errno. */
int vpmu_perf_open(vpmu_key_t key, int tid, int cpu);

/* Whether the host can count @key on CPU @cpu, or in threads if @cpu is -1: 0 or -errno. Tries it
 * once and remembers the answer. */
int vpmu_perf_probe(vpmu_key_t key, int cpu);

#endif
