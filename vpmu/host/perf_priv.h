/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the perf_*.c files, vpmu/kvm and tests: the table of system calls, so that a test can
 * act as a kernel with a hardware PMU; the probed capacity of the host; and events.
 */
#pragma once

#include "vpmu/hostpmu_perf.h"

struct perf_event_attr;

/* The result of read(2) for an event with PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING. */
struct vpmu_perf_reading {
	uint64_t value;
	uint64_t enabled_ns; /* time its thread ran while it was enabled */
	uint64_t running_ns; /* part of enabled_ns: it had a counter */
};

struct vpmu_perf_sys {
	/* perf_event_open: fd or -errno. @tid 0: the calling thread; -1: all. @group: the fd of the
	 * leader, or -1. */
	int (*open)(const struct perf_event_attr *attr, int tid, int cpu, int group);
	/* 0, or -ENODATA: the kernel has put the pinned event into its error state; or -errno. */
	int (*read)(int fd, struct vpmu_perf_reading *r);
	int (*enable)(int fd, bool on); /* PERF_EVENT_IOC_ENABLE or _DISABLE */
	/* The event's page, followed by a ring of one page if @ring and if the kernel permits that
	 * much locked memory (then data_size is set); or NULL. */
	struct perf_event_mmap_page *(*map)(int fd, bool ring);
	void (*unmap)(struct perf_event_mmap_page *page);
	uint64_t (*rdpmc)(uint32_t index);
	void (*close)(int fd);
	/* Signal @sig to thread @tid whenever sampling event @fd overflows. 0 or -errno. */
	int (*notify)(int fd, int tid, int sig);
	/* Overflow after @events more events, and again after each @events. 0 or -errno. */
	int (*period)(int fd, uint64_t events);
	/* A one-shot timer that sends @sig to thread @tid of this process. timer_set: after @ns; 0
	 * disarms it. 0 or -errno. */
	int (*timer_make)(int tid, int sig, timer_t *id);
	int (*timer_set)(timer_t id, uint64_t ns);
	void (*timer_end)(timer_t id);
	/* Convert @ticks of the TSC to ns. */
	uint64_t (*tsc_ns)(uint64_t ticks);
	/* The CPU time in ns of thread @tid of this process, or the wall clock if @tid is 0. -errno
	 * if the thread has ended. */
	int (*clock)(int tid, uint64_t *ns);
	/* Raise the limit of open files. */
	void (*more_files)(void);
	/* Store the perf types of the core types' PMUs, up to @max, and return their number; 0 or
	 * 1: all cores are alike. */
	unsigned int (*core_types)(uint32_t *types, unsigned int max);
};
extern const struct vpmu_perf_sys *vpmu_perf_sys; /* only tests set it, before any use */

/* ---- perf_probe.c: capacity of the host ---- */

/* The number of hardware events that can count at a time if there are no other users. */
struct vpmu_perf_capacity {
	unsigned int gp;    /* for any hardware key */
	unsigned int fixed; /* additional, for one generic event each: */
	uint16_t fixed_event[3];
	unsigned int kinds; /* number of core types */
	int rc;		    /* why gp is 0 */
};
#define VPMU_PERF_MAX_GP 10

/* Counter numbers: general ones, then three fixed ones, then these. */
#define VPMU_PERF_CTR_FIXED    VPMU_PERF_MAX_GP
#define VPMU_PERF_CTR_SOFTWARE (VPMU_PERF_MAX_GP + 3) /* software events, up to */
#define VPMU_PERF_CTR_TSC      (VPMU_MAX_CTRS - 2) /* ticks of the TSC, by the thread's own time */
#define VPMU_PERF_CTR_NOMINAL  (VPMU_MAX_CTRS - 1) /* the same as cycles */

enum vpmu_perf_kind { KIND_FREE = 0, KIND_PERF, KIND_TSC, KIND_NOMINAL };

/* Probes the host in the first call of the process, and again later after an error that may pass.
 * Any thread; takes no lock. */
struct vpmu_perf_capacity vpmu_perf_capacity(void);

/* The number of general counters to use while @leave are left to others. */
unsigned int vpmu_perf_usable(const struct vpmu_perf_capacity *c, unsigned int leave);

/*
 * vpmu_perf_probe - returns 0 if the host can count @key on CPU @cpu, or in threads if @cpu is -1;
 * else -errno. Opens an event, reads it and caches the result: permanently if it depends on the
 * hardware only, for a second otherwise. Takes no lock.
 * vpmu_perf_probed - *@rc: the same, from the cache only. Returns false if it is not there.
 */
int vpmu_perf_probe(vpmu_key_t key, int cpu);
bool vpmu_perf_probed(vpmu_key_t key, int cpu, int *rc);

/* True if error @rc of an open is transient: counters in use, too many files, out of memory. */
bool vpmu_perf_passes(int rc);

/* The number of the calling thread, without a system call but for its first time. */
int vpmu_perf_this_tid(void);

/* True if events of @key use hardware counters. */
static inline bool vpmu_perf_hardware(vpmu_key_t key)
{
	return vpmu_key_space(key) != VPMU_SPACE_SOFTWARE;
}

/* @n bits from bit @from. */
static inline uint64_t vpmu_perf_bits(unsigned int from, unsigned int n)
{
	return ((1ULL << n) - 1) << from;
}

/* ---- perf_event.c: events ---- */

/* Target and options of an event. */
struct vpmu_perf_where {
	int tid, cpu;	   /* as for perf_event_open */
	const int *leader; /* the group's leader for each core type; NULL: no group */
	bool pinned;
	bool enabled;	  /* enabled when opened */
	int alarm_signal; /* open a sampling event that sends this to tid; 0: a counting event */
};

/* Store the perf types of the host's core types, and return their number, at least 1. */
unsigned int vpmu_perf_types(uint32_t types[VPMU_PERF_TYPES]);

/* Open a dummy event as the leader of a group. fd or -errno. */
int vpmu_perf_open_leader(int tid, int cpu, bool enabled);

/*
 * vpmu_perf_event_open - fill in *@e: an event for @key on each core type that has it, disabled
 * unless where->enabled.
 * -errno if no core type can count it, or files or permissions are missing.
 * vpmu_perf_event_close - unmap and close *@e, which may be empty.
 */
int vpmu_perf_event_open(struct vpmu_perf_event *e, vpmu_key_t key,
			 const struct vpmu_perf_where *where);
void vpmu_perf_event_close(struct vpmu_perf_event *e);

/* vpmu_perf_event_map - map the page of @e, an event of a thread, to read it without a system call,
 * and, if it samples, its ring. Failures are ignored. */
void vpmu_perf_event_map(struct vpmu_perf_event *e, bool samples);

/* vpmu_perf_event_enable - start or stop @e, keeping its count and times. 0 or -errno. */
int vpmu_perf_event_enable(const struct vpmu_perf_event *e, bool on);

/* vpmu_perf_event_read - read the sum over all core types. 0, -ENODATA (see vpmu_perf_sys) or
 * -errno.
 * vpmu_perf_event_read_here - likewise, for an event of the calling thread; without a system call
 * if possible, and then returns 1. */
int vpmu_perf_event_read(const struct vpmu_perf_event *e, struct vpmu_perf_reading *r);
int vpmu_perf_event_read_here(const struct vpmu_perf_event *e, struct vpmu_perf_reading *r);

/* vpmu_perf_event_last - get the count of an event that the kernel has stopped. Returns false if
 * unknown. */
bool vpmu_perf_event_last(const struct vpmu_perf_event *e, uint64_t *value);

/* vpmu_perf_event_runs - returns 1 if enabled event @e has a counter now, 0 if not,
 * VPMU_PERF_UNKNOWN if its thread does not run; or an error of vpmu_perf_event_read. */
#define VPMU_PERF_UNKNOWN 2
int vpmu_perf_event_runs(const struct vpmu_perf_event *e);

/* vpmu_perf_event_arm - make @e overflow after @events more, or never (0). With several core types
 * it may be early, with few events up to 127 late. An event that cannot sample is not armed. */
void vpmu_perf_event_arm(const struct vpmu_perf_event *e, uint64_t events);

/* ---- perf_throttle.c: throttled events. Owner ---- */

/* Select the clock of vpmu_perf_sys->clock(0) for the event's records. All events of a group must
 * use the same clock. */
void vpmu_perf_clock_attr(struct perf_event_attr *attr);

/* vpmu_perf_event_stopped - returns the wall-clock time in ns for which @e was throttled since the
 * last call; UINT64_MAX: throttled for an unknown time. */
uint64_t vpmu_perf_event_stopped(struct vpmu_perf_event *e);

/* ---- perf_alarm.c: alarms. Owner ---- */

/* vpmu_perf_timer_arm - set timer @n to @ticks of the TSC from now; 0: disarm it. Without a timer
 * (they take queued signals, of which a user has a limited number) the alarm comes at the guest's
 * next exit, or later.
 * vpmu_perf_timers_retry - set those that could not be set, for what is left. At ticks.
 * vpmu_perf_timers_end - delete the timers. */
void vpmu_perf_timer_arm(struct vpmu_hostpmu_perf *p, unsigned int n, uint64_t ticks);
void vpmu_perf_timers_retry(struct vpmu_hostpmu_perf *p);
void vpmu_perf_timers_end(struct vpmu_hostpmu_perf *p);

/* Implementations for vpmu_perf_sys. */
int vpmu_perf_sys_notify(int fd, int tid, int sig);
int vpmu_perf_sys_period(int fd, uint64_t events);
int vpmu_perf_sys_timer_make(int tid, int sig, timer_t *id);
int vpmu_perf_sys_timer_set(timer_t id, uint64_t ns);
void vpmu_perf_sys_timer_end(timer_t id);
uint64_t vpmu_perf_sys_tsc_ns(uint64_t ticks);

/* ---- perf_group.c: the events of one PMU. Owner ---- */

/* True if the thread may open an event now: so many per time at most. */
bool vpmu_perf_may_open(struct vpmu_hostpmu_perf *p);

/* True if events of @key belong to the group. */
bool vpmu_perf_in_group(const struct vpmu_hostpmu_perf *p, vpmu_key_t key);

/*
 * vpmu_perf_take - fill in *@e, which is empty: start an event for @key, a parked one if there is
 * one. -EBUSY: it gets no counter, or the group would no longer count; or another -errno. *@e is
 * then empty.
 * vpmu_perf_put - stop *@e, which becomes empty, and park its event. @lost: it stalled the group,
 * which must be rescheduled.
 * vpmu_perf_close_waiting - close the events that have been parked for @ticks ticks or more.
 */
int vpmu_perf_take(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e, vpmu_key_t key);
void vpmu_perf_put(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e, bool lost);
void vpmu_perf_close_waiting(struct vpmu_hostpmu_perf *p, unsigned int ticks);

/* At ticks:
 * vpmu_perf_group_lost - returns the events that are released since the group has no counters, or
 * 0. vpmu_perf_group_room - every ROOM_TICKS, offer one more general counter than others seemed to
 * leave. */
uint32_t vpmu_perf_group_lost(struct vpmu_hostpmu_perf *p);
void vpmu_perf_group_room(struct vpmu_hostpmu_perf *p);
