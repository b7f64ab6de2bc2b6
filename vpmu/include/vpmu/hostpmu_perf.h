/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A host PMU made of perf events, either of one thread (a vCPU thread of the KVM engine) or of one
 * CPU. vmm/sched/perfpmu.c makes one per vCPU thread; `vpmu check` lists the events that the host
 * can count.
 *
 * How hardware events are opened:
 *
 *   default  All hardware events of a PMU are in one unpinned group. The kernel counts all of them
 *            at the same time or none, so ratios (cycles per instruction) refer to the same time.
 *            When others need the counters, the kernel multiplexes the group with them. Time
 *            without counters is a gap (gap_ns).
 *   pinned   Each event is pinned and in no group. The kernel prefers it to all unpinned events, so
 *            there are no gaps unless another pinned event takes the counter. For hosts without
 *            other users of the counters: pinned host events stop a guest's own vPMU.
 *
 * A thread opens an event when a key is bound, and one to find out if the host has a key that is
 * new, at most 64 in 10 ms of its time; beyond, bind returns -EAGAIN. Recently unbound events stay
 * open, so that multiplexing opens none.
 *
 * Without alarms (alarm_signal), all events are counting events. With alarms, a thread's events are
 * opened as sampling events, because the kernel arms only these, with a period that is never
 * reached; arm() sets the period to the next alarm. While the kernel throttles a sampling event
 * that interrupts too often, it stands still; that time is a gap, too.
 *
 * Software events count on any host. A thread's PMU can also count TSC ticks between entering and
 * leaving the guest, for both privilege levels together:
 *
 *   ref-cycles  where there is no hardware counter; quality VPMU_Q_TSC
 *   cycles      if requested (nominal_cycles), as ticks of the nominal clock; VPMU_Q_ESTIMATED
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

#ifdef __cplusplus
extern "C" {
#endif

struct perf_event_mmap_page;

/* The default of leave_counters. */
#define VPMU_PERF_LEAVE 2

struct vpmu_hostpmu_perf_opts {
	/* A CPU's number: count all threads on that CPU. VPMU_PERF_THREAD: count one thread, set
	 * later by vpmu_hostpmu_perf_set_thread. */
	int cpu;
	/* General counters of the CPU to leave for the host's own perf, the NMI watchdog, and the
	 * vPMUs of other VMs. At least one is used in any case. */
	unsigned int leave_counters;
	bool pinned;
	/*
	 * Thread PMUs: returns the TSC ticks that the thread has spent in its guest so far;
	 * monotonic. Called by read(), so it must be as cheap. NULL: no counting by the TSC.
	 */
	uint64_t (*guest_tsc)(void *arg);
	/* Makes the owner reach a safe point soon (the engine's kick). May be NULL. Any thread. */
	void (*kick)(void *arg);
	void *arg; /* for guest_tsc and kick */
	/* With guest_tsc: count cycles by the nominal clock if there is no hardware PMU. */
	bool nominal_cycles;
	/*
	 * Thread PMUs: the signal sent to the thread when an alarm set by arm() is due; 0: no
	 * alarms. Perf events send it on overflow. For TSC counts a timer sends it: no earlier than
	 * VPMU_PERF_ALARM_MIN_NS from now, and too early if the thread lost its CPU. The handler
	 * must make the owner call vpmu_pcpu_overflow. Ticks (vpmu_pcpu_tick) must come each few
	 * seconds: an alarm 2^40 events away is armed by one.
	 */
	int alarm_signal;
};
#define VPMU_PERF_ALARM_MIN_NS 20000
#define VPMU_PERF_THREAD       (-1)

/* Limit of core types of a host; the kernel has a PMU for each. */
#define VPMU_PERF_TYPES	 3
#define VPMU_PERF_PARKED 16

/* The perf events for one key: one for each core type that can count it. */
struct vpmu_perf_event {
	vpmu_key_t key;	 /* 0: none */
	unsigned int nr; /* entries of fd and ring */
	int fd[VPMU_PERF_TYPES];
	struct vpmu_perf_ring {
		struct perf_event_mmap_page *page; /* of the fd, or NULL */
		/* private: perf_throttle.c */
		uint64_t at;	     /* ring position up to which records were read */
		uint64_t stopped_at; /* throttled since then; 0: not throttled */
	} ring[VPMU_PERF_TYPES];
};

struct vpmu_hostpmu_perf {
	struct vpmu_hostpmu pmu; /* first */
	struct vpmu_hostpmu_perf_opts opts;
	int tid;	       /* thread PMUs; 0: not set yet */
	uint64_t clock_ns;     /* what now() returned last */
	uint64_t clock_offset; /* now() minus the clock of the thread */
	bool hold, held;       /* vpmu_hostpmu_perf_hold; now() has read the clock since */
	uint32_t fresh;	       /* counters read since the last now() */
	uint64_t binds;	       /* grows with each bind */
	unsigned int polls;    /* calls of lost() */
	/* General counters that other users seem to leave; no more of them are offered. */
	unsigned int room;
	unsigned int room_polls; /* polls when room last changed */
	bool room_tried;	 /* room has just grown */
	unsigned int opens;	 /* events opened since opens_ns, of the thread's clock */
	uint64_t opens_ns;
	uint64_t counted_ns; /* clock_ns when an event of the group was last seen to count */
	struct vpmu_perf_ctr {
		uint8_t kind; /* private: see perf.c */
		bool lost;    /* the kernel has stopped the event, or a stalled group gave it up */
		bool based;   /* base and base_gap_ns are set */
		bool armed;   /* the event or timer has a period */
		vpmu_key_t key;
		struct vpmu_perf_event event;
		uint64_t base;	      /* first value read after the bind */
		uint64_t last;	      /* last value read */
		uint64_t due;	      /* its value at a far alarm; 0: none */
		uint64_t base_gap_ns; /* enabled - running of the event at the first reading */
		uint64_t gap_ns; /* time without counting since then, as of the last good reading */
		uint64_t throttled_ns; /* part of gap_ns: throttled */
		uint64_t running_ns;   /* of the event, in the last good reading */
		uint64_t seen_ns;      /* now() after that reading */
		uint64_t bind;	       /* binds when it was bound */
	} ctr[VPMU_MAX_CTRS];
	/* For alarms of TSC counts; created on first use. */
	struct {
		bool made;
		bool retry; /* it could not be set */
		timer_t id;
		uint64_t due; /* guest_tsc of an alarm to retry */
	} timer[2];
	int leader[VPMU_PERF_TYPES]; /* group leaders: dummy events; -1: none */
	/* Recently unbound events, disabled. They are enabled again when their keys are bound
	 * again. */
	struct {
		struct vpmu_perf_event event;
		unsigned int polls; /* when it was parked */
	} parked[VPMU_PERF_PARKED];
};

/*
 * vpmu_hostpmu_perf_init - initialize *@p, the caller's memory, before its pCPU is created; @opts
 * is copied. Returns 0; -EINVAL: inconsistent @opts; -EOPNOTSUPP: nominal_cycles, but the CPU has
 * no invariant TSC. Any thread.
 */
int vpmu_hostpmu_perf_init(struct vpmu_hostpmu_perf *p, const struct vpmu_hostpmu_perf_opts *opts);

/*
 * vpmu_hostpmu_perf_set_thread - set the thread to count, @tid of this process, before it first
 * runs a context. Until then bind returns -EAGAIN, so that no other thread is counted by mistake,
 * and now() stands still. Owner, or control before there is one.
 */
void vpmu_hostpmu_perf_set_thread(struct vpmu_hostpmu_perf *p, int tid);

/*
 * vpmu_hostpmu_perf_hold - while @on, now() reads the clock once and then stands still, unless an
 * event was without a counter meanwhile. For the answer to one exit of a guest, which charges many
 * times. Owner.
 */
static inline void vpmu_hostpmu_perf_hold(struct vpmu_hostpmu_perf *p, bool on)
{
	p->hold = on;
	p->held = false;
}

/* vpmu_hostpmu_perf_fini - close all events. The pCPU must have been destroyed. Control. */
void vpmu_hostpmu_perf_fini(struct vpmu_hostpmu_perf *p);

/*
 * vpmu_hostpmu_perf_why_not - write one line to @why (@whylen bytes) with the reason why this host
 * cannot count @key with perf events. Any thread; takes milliseconds the first time.
 */
void vpmu_hostpmu_perf_why_not(vpmu_key_t key, char *why, size_t whylen);

/*
 * vpmu_hostpmu_perf_check - report the events that this host can count in guests while
 * @leave_counters are left to others. Calls @fn for perf events in general, for the hardware
 * counters, and for each generic and each software event, until it returns non-zero. @why is one
 * line: the reason if not @ok, else a remark or "". Returns 0 or @fn's value. Any thread; takes
 * milliseconds.
 */
int vpmu_hostpmu_perf_check(unsigned int leave_counters,
			    int (*fn)(const char *what, bool ok, const char *why, void *arg),
			    void *arg);

#ifdef __cplusplus
}
#endif

#endif
