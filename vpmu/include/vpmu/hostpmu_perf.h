/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A host PMU made of perf events, either those of one thread (a vCPU thread of the KVM engine) or
 * those of one CPU. vmm/sched/perfpmu.c makes one per vCPU thread; `vpmu check` asks what the host
 * can count.
 *
 * How hardware events are opened:
 *
 *   default  All hardware events of a PMU are in one group and are not pinned. So the kernel counts
 *            all of them at the same time or none, and what is computed from two of them (cycles
 *            per instruction) is about the same time. When others want the counters, the kernel
 *            lets the group take turns with them. Time without counters is a gap (gap_ns).
 *   pinned   Each event is pinned and alone. The kernel gives it a counter ahead of everybody who
 *            is not pinned, so there are no gaps unless another pinned event takes the counter.
 *            That is for hosts where nobody else counts: pinned events of the host leave a guest's
 *            own vPMU counting nothing.
 *
 * Without alarms (alarm_signal), all events are counting events. With them, events of a thread are
 * opened as sampling events from the start, since the kernel lets only these be armed, with a
 * period that they never reach; arm() gives them the distance to the next alarm. A sampling event
 * that the kernel throttles, because it interrupts too often, stands still: that time is a gap,
 * too.
 *
 * Software events count on any host. A thread's PMU can also count time in the guest by the TSC,
 * from entering to leaving it, both privilege levels together:
 *
 *   ref-cycles  where there is no hardware counter; quality VPMU_Q_TSC
 *   cycles      on request, as ticks of the nominal clock; quality VPMU_Q_ESTIMATED
 *
 * now() is the CPU time of the thread, or the wall clock for the PMU of a CPU.
 */
#ifndef VPMU_HOSTPMU_PERF_H
#define VPMU_HOSTPMU_PERF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "vpmu/hostpmu.h"

struct perf_event_mmap_page;

/* The default of leave_counters. */
#define VPMU_PERF_LEAVE 2

struct vpmu_hostpmu_perf_opts {
	/* A CPU's number: count everything that runs there. VPMU_PERF_THREAD: count one thread,
	 * which vpmu_hostpmu_perf_set_thread names later. */
	int cpu;
	/* So many of the CPU's general counters are never used: they are for the host's own perf,
	 * the NMI watchdog, and the vPMUs of other VMs. At least one is used all the same. */
	unsigned int leave_counters;
	bool pinned;
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
	/*
	 * Thread PMUs: arm() makes this signal come to the thread when the alarm is due; 0: no
	 * alarms. A perf event sends it when it overflows. A timer sends it for what is counted by
	 * the TSC: no earlier than VPMU_PERF_ALARM_MIN_NS from now, and too early if the thread had
	 * no CPU meanwhile. Whoever handles it lets the owner call vpmu_pcpu_overflow.
	 */
	int alarm_signal;
};
#define VPMU_PERF_ALARM_MIN_NS 20000
#define VPMU_PERF_THREAD       (-1)

/* The most kinds of core of a host, each of which is a PMU of its own to the kernel. */
#define VPMU_PERF_TYPES	 3
#define VPMU_PERF_PARKED 16

/* What counts a key: a perf event for each kind of core that can count it. */
struct vpmu_perf_event {
	vpmu_key_t key;	 /* 0: none */
	unsigned int nr; /* of fd and page */
	int fd[VPMU_PERF_TYPES];
	struct vpmu_perf_ring {
		struct perf_event_mmap_page *page; /* of the fd, or NULL */
		/* private: perf_throttle.c */
		uint64_t at;	     /* of the ring: what was read */
		uint64_t stopped_at; /* throttled since then; 0: it is not */
	} ring[VPMU_PERF_TYPES];
};

struct vpmu_hostpmu_perf {
	struct vpmu_hostpmu pmu; /* first */
	struct vpmu_hostpmu_perf_opts opts;
	int tid;	       /* thread PMUs; 0: not named yet */
	uint64_t clock_ns;     /* what now() returned last */
	uint64_t clock_offset; /* now() minus the clock of the thread */
	uint32_t fresh;	       /* counters that were read since now() was called */
	uint64_t binds;	       /* grows with each bind */
	unsigned int polls;    /* calls of lost() */
	/* General counters that others seem to leave us; it starts as, and is at most, what
	 * leave_counters leaves. */
	unsigned int room;
	unsigned int room_polls; /* polls when room last changed */
	bool room_tried;	 /* room has just grown */
	uint64_t counted_ns;	 /* clock_ns when an event of the group was last seen to count */
	struct vpmu_perf_ctr {
		uint8_t kind; /* private: see hostpmu_perf.c */
		bool lost;    /* pinned: the kernel has stopped the event */
		bool based;   /* base and base_gap_ns are set */
		bool armed;
		vpmu_key_t key;
		struct vpmu_perf_event event;
		uint64_t base;	       /* first value read after the bind */
		uint64_t last;	       /* last value read */
		uint64_t base_gap_ns;  /* enabled - running of the event at the first reading */
		uint64_t gap_ns;       /* since then without a count, as of the last good reading */
		uint64_t throttled_ns; /* part of that: stopped by throttling */
		uint64_t running_ns;   /* of the event, in the last good reading */
		uint64_t seen_ns;      /* now() behind that reading */
		uint64_t bind;	       /* binds when it was bound */
	} ctr[VPMU_MAX_CTRS];
	/* Alarms of what is counted by the TSC, from the first one on. */
	struct {
		bool made;
		timer_t id;
	} timer[2];
	int leader[VPMU_PERF_TYPES]; /* of the groups: an event that counts nothing; -1: none */
	/* Events that were unbound lately. They are disabled, and enabled again when their keys get
	 * their next turn. */
	struct {
		struct vpmu_perf_event event;
		unsigned int polls; /* when it was parked */
	} parked[VPMU_PERF_PARKED];
};

/*
 * vpmu_hostpmu_perf_init - make *@p, the caller's memory, a PMU; @opts is copied. The first call in
 * a process opens and closes a few events, none of which counts, to find out how many the host can
 * count at a time. Any thread, before the pCPU exists. -EINVAL: @opts do not fit together;
 * -EOPNOTSUPP: nominal_cycles, but the CPU has no invariant TSC.
 */
int vpmu_hostpmu_perf_init(struct vpmu_hostpmu_perf *p, const struct vpmu_hostpmu_perf_opts *opts);

/*
 * vpmu_hostpmu_perf_set_thread - the thread to count is @tid, of this process. To be called before
 * that thread first runs a context. Until then bind refuses with -EAGAIN, so that no other thread
 * is counted by mistake, and now() stands still. Owner, or control before there is one.
 */
void vpmu_hostpmu_perf_set_thread(struct vpmu_hostpmu_perf *p, int tid);

/* vpmu_hostpmu_perf_fini - close what is still open. The pCPU must be gone. Control. */
void vpmu_hostpmu_perf_fini(struct vpmu_hostpmu_perf *p);

/*
 * vpmu_hostpmu_perf_why_not - write one line to @why (@whylen bytes) that says why this host does
 * not count @key with perf events: for a key that it does not count. Any thread; takes milliseconds
 * the first time.
 */
void vpmu_hostpmu_perf_why_not(vpmu_key_t key, char *why, size_t whylen);

/*
 * vpmu_hostpmu_perf_check - say what this host can count in guests while @leave_counters are left
 * to others. Calls @fn for perf events in general, for the hardware counters, and for each generic
 * and each software event. @why is one line that says why not; when @ok, it is a remark or "".
 * Stops when @fn returns non-zero and returns that. Any thread; takes milliseconds.
 */
int vpmu_hostpmu_perf_check(unsigned int leave_counters,
			    int (*fn)(const char *what, bool ok, const char *why, void *arg),
			    void *arg);

#endif
