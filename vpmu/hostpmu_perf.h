/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host PMU made of perf events, either those of one thread (a vCPU thread of the KVM engine) or
 * those of one CPU. vmm/sched/perfpmu.c makes one per vCPU thread; `vpmu check` asks what the host
 * can count.
 *
 * Hardware events are pinned: each counts all the time or not at all, so its counts are exact, and
 * the kernel never multiplexes it. Software events count on any host. A thread's PMU can also count
 * time in the guest by the TSC, from entering to leaving it, both privilege levels together:
 *
 *   ref-cycles  where there is no hardware counter; quality VPMU_Q_TSC
 *   cycles      on request, as ticks of the nominal clock; quality VPMU_Q_ESTIMATED
 *
 * Counters 0 to 29 are perf events, hardware ones first; 30 and 31 are the TSC's.
 */
#ifndef VPMU_HOSTPMU_PERF_H
#define VPMU_HOSTPMU_PERF_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/hostpmu.h"

struct perf_event_mmap_page;

struct vpmu_hostpmu_perf_opts {
	/* A CPU's number: count everything that runs there. VPMU_PERF_THREAD: count one thread,
	 * which vpmu_hostpmu_perf_set_thread names later. */
	int cpu;
	/*
	 * Thread PMUs: the TSC ticks that the thread has spent in its guest so far; monotonic.
	 * read() calls it, so it must be as cheap. NULL: this PMU does not count by the TSC.
	 */
	uint64_t (*guest_tsc)(void *arg);
	/* Makes the owner reach a safe point soon (the engine's kick). Any thread. May be NULL. */
	void (*kick)(void *arg);
	void *arg; /* for guest_tsc and kick */
	/* With guest_tsc: where there is no hardware PMU, count cycles by the nominal clock. */
	bool nominal_cycles;
};
#define VPMU_PERF_THREAD (-1)

struct vpmu_hostpmu_perf {
	struct vpmu_hostpmu pmu; /* first */
	struct vpmu_hostpmu_perf_opts opts;
	int tid; /* thread PMUs; 0: not named yet */
	struct vpmu_perf_ctr {
		vpmu_key_t key; /* 0: free */
		uint8_t kind;	/* private: see hostpmu_perf.c */
		bool lost;	/* the kernel stopped the event, so counts are missing */
		int fd;
		struct perf_event_mmap_page *page; /* or NULL */
		bool based;			   /* base is set */
		uint64_t base;			   /* first value read after the bind */
		uint64_t last;			   /* last value read */
	} ctr[VPMU_MAX_CTRS];
};

/*
 * vpmu_hostpmu_perf_init - make *@p, the caller's memory, a PMU; @opts is copied. The first call in
 * a process opens and closes a few events to find out how many the host can count at a time. Any
 * thread, before the pCPU exists. -EINVAL: @opts do not fit together; -EOPNOTSUPP: nominal_cycles,
 * but the CPU has no invariant TSC.
 */
int vpmu_hostpmu_perf_init(struct vpmu_hostpmu_perf *p, const struct vpmu_hostpmu_perf_opts *opts);

/*
 * vpmu_hostpmu_perf_set_thread - the thread to count is @tid, of this process. To be called before
 * that thread first runs a context. Until then bind refuses with -EAGAIN, so that no other thread
 * is counted by mistake. Owner, or control before there is one.
 */
void vpmu_hostpmu_perf_set_thread(struct vpmu_hostpmu_perf *p, int tid);

/* vpmu_hostpmu_perf_fini - close what is still open. The pCPU must be gone. Control. */
void vpmu_hostpmu_perf_fini(struct vpmu_hostpmu_perf *p);

/*
 * vpmu_hostpmu_perf_check - say what this host can count in guests. Calls @fn for perf events in
 * general, for the hardware counters, and for each generic and each software event. @why is one
 * line that says why not; when @ok, it is a remark or "". Stops when @fn returns non-zero and
 * returns that. Any thread; takes milliseconds.
 */
int vpmu_hostpmu_perf_check(int (*fn)(const char *what, bool ok, const char *why, void *arg),
			    void *arg);

#endif
