/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host PMU made of perf events: those of one thread (a vCPU thread of the KVM engine), or those
 * of one CPU.
 *
 * Hardware events are pinned: they count all the time or not at all, so that what is counted is
 * exact; the kernel never multiplexes them behind libvpmu's back. Software events count on any
 * host. Where there is no hardware PMU, a thread's PMU offers ref-cycles in guests (both privilege
 * levels together) as TSC ticks between entering and leaving the guest, quality VPMU_Q_TSC, and on
 * request cycles as the same ticks of the nominal clock, quality VPMU_Q_ESTIMATED.
 *
 * Counters: the first ones take hardware and software keys, as the host has them; the last two are
 * the TSC's.
 */
#ifndef VPMU_HOSTPMU_PERF_H
#define VPMU_HOSTPMU_PERF_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/hostpmu.h"

struct perf_event_mmap_page;

struct vpmu_hostpmu_perf_opts {
	/*
	 * >= 0: a PMU of CPU @cpu: everything that runs there. VPMU_PERF_THREAD: of one thread,
	 * named later by vpmu_hostpmu_perf_set_thread.
	 */
	int cpu;
	/*
	 * Thread PMUs: TSC ticks that the thread spent in its guest so far, monotonic; called from
	 * read(), so as cheap as that. NULL: what vpmu_hostpmu_perf_add_tsc was given.
	 */
	uint64_t (*guest_tsc)(void *arg);
	/* Makes the owner reach a safe point soon (engine kick); any thread. May be NULL. */
	void (*kick)(void *arg);
	void *arg; /* of guest_tsc and kick */
	/* Thread PMUs: without a hardware PMU, count cycles as ticks of the nominal clock. */
	bool nominal_cycles;
};
#define VPMU_PERF_THREAD (-1)

struct vpmu_hostpmu_perf {
	struct vpmu_hostpmu pmu; /* first */
	struct vpmu_hostpmu_perf_opts opts;
	int tid;      /* thread PMUs; 0: not named yet */
	uint64_t tsc; /* what add_tsc was given */
	struct vpmu_perf_ctr {
		vpmu_key_t key; /* 0: free */
		uint8_t kind;	/* private: see hostpmu_perf.c */
		bool lost;	/* the kernel stopped it: counts are missing */
		int fd;
		struct perf_event_mmap_page *page; /* or NULL */
		bool based;			   /* base is set */
		uint64_t base;			   /* first value read after the bind */
		uint64_t last;			   /* last value read */
	} ctr[VPMU_MAX_CTRS];
};

/*
 * vpmu_hostpmu_perf_init - @p is the caller's memory, @opts is copied. Looks once per process what
 * the host can count at a time (opens and closes a few events). -EINVAL: bad @opts; -EOPNOTSUPP:
 * nominal_cycles without an invariant TSC. Any thread, before the pCPU exists.
 */
int vpmu_hostpmu_perf_init(struct vpmu_hostpmu_perf *p, const struct vpmu_hostpmu_perf_opts *opts);

/* vpmu_hostpmu_perf_set_thread - count thread @tid (of this process) from now on. Before it first
 * runs a context; until then bind refuses with -EAGAIN, so that nobody else's thread is counted.
 * Owner, or control before there is one. */
void vpmu_hostpmu_perf_set_thread(struct vpmu_hostpmu_perf *p, int tid);

/* vpmu_hostpmu_perf_add_tsc - the thread spent @ticks more TSC ticks in its guest. For PMUs
 * without opts.guest_tsc. Owner. */
void vpmu_hostpmu_perf_add_tsc(struct vpmu_hostpmu_perf *p, uint64_t ticks);

/* vpmu_hostpmu_perf_fini - closes what is still bound. The pCPU must be gone. Control. */
void vpmu_hostpmu_perf_fini(struct vpmu_hostpmu_perf *p);

/*
 * vpmu_hostpmu_perf_check - what this host can count in guests, and why not: calls @fn for perf
 * events as such, the hardware counters, every generic and software event and the TSC, with
 * @ok and one line @why (never NULL; "" or a remark when @ok). Stops when @fn returns non-zero and
 * returns that. Any thread; takes milliseconds.
 */
int vpmu_hostpmu_perf_check(int (*fn)(const char *what, bool ok, const char *why, void *arg),
			    void *arg);

#endif
