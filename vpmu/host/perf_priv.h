/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the hostpmu_perf files and their tests: a table of the few system calls, so that a test
 * can act as a kernel with a hardware PMU; what the host was found to have; and events.
 */
#ifndef VPMU_HOST_PERF_PRIV_H
#define VPMU_HOST_PERF_PRIV_H

#include "vpmu/hostpmu_perf.h"

struct perf_event_attr;

/* What read(2) gives for an event with PERF_FORMAT_TOTAL_TIME_ENABLED and _RUNNING. */
struct vpmu_perf_reading {
	uint64_t value;
	uint64_t enabled_ns; /* its thread ran while it was enabled */
	uint64_t running_ns; /* part of that: it had a counter */
};

struct vpmu_perf_sys {
	/* perf_event_open: fd or -errno. @tid 0: the calling thread; -1: all. @group: the fd of the
	 * leader, or -1. */
	int (*open)(const struct perf_event_attr *attr, int tid, int cpu, int group);
	/* 0, or -ENODATA: the kernel has put the pinned event into its error state; or -errno. */
	int (*read)(int fd, struct vpmu_perf_reading *r);
	int (*enable)(int fd, bool on); /* PERF_EVENT_IOC_ENABLE or _DISABLE */
	/* The event's page, with a ring of one page behind it if @ring and if the kernel allows
	 * that much locked memory (data_size says so); or NULL. */
	struct perf_event_mmap_page *(*map)(int fd, bool ring);
	void (*unmap)(struct perf_event_mmap_page *page);
	uint64_t (*rdpmc)(uint32_t index);
	void (*close)(int fd);
	/* Signal @sig to thread @tid whenever sampling event @fd overflows. 0 or -errno. */
	int (*notify)(int fd, int tid, int sig);
	/* Overflow after @events more events, and again after each @events. 0 or -errno. */
	int (*period)(int fd, uint64_t events);
	/* A timer that signals @sig to thread @tid of this process, once. timer_set: after @ns, or
	 * never if that is 0. 0 or -errno. */
	int (*timer_make)(int tid, int sig, timer_t *id);
	int (*timer_set)(timer_t id, uint64_t ns);
	void (*timer_end)(timer_t id);
	/* How many ns @ticks of the TSC take. */
	uint64_t (*tsc_ns)(uint64_t ticks);
	/* The CPU time in ns of thread @tid of this process, or the wall clock if @tid is 0. -errno
	 * when there is no such thread any more. */
	int (*clock)(int tid, uint64_t *ns);
	/* Raise the limit of open files. False: it cannot be raised. */
	bool (*more_files)(void);
	/* The perf types of the PMUs of the kinds of core, at most @max. The return value is their
	 * number; 0 or 1: all cores are alike. */
	unsigned int (*core_types)(uint32_t *types, unsigned int max);
};
extern const struct vpmu_perf_sys *vpmu_perf_sys; /* only tests set it, before any use */

/* ---- perf_probe.c: what the host can count ---- */

/* How many hardware events can count at the same time, if nobody else counts. */
struct vpmu_perf_capacity {
	unsigned int gp;    /* for any hardware key */
	unsigned int fixed; /* besides, for one generic event each: */
	uint16_t fixed_event[3];
	unsigned int kinds; /* of core */
	int rc;		    /* why gp is 0 */
};
#define VPMU_PERF_MAX_GP 10

/* What the first call in the process that succeeds finds out. Any thread. */
struct vpmu_perf_capacity vpmu_perf_capacity(void);

/* How many of the general counters are used while @leave are left to others. */
unsigned int vpmu_perf_usable(const struct vpmu_perf_capacity *c, unsigned int leave);

/*
 * Whether the host can count @key on CPU @cpu, or in threads if @cpu is -1: 0 or -errno. Opens an
 * event and reads it, and remembers the answer: for good if it is about the hardware, and for a
 * second if it can change.
 */
int vpmu_perf_probe(vpmu_key_t key, int cpu);

/* Whether -errno @rc of an open can pass without anybody's doing: counters in use, no files or no
 * memory just now. */
bool vpmu_perf_passes(int rc);

/* Whether events of @key use hardware counters. */
static inline bool vpmu_perf_hardware(vpmu_key_t key)
{
	return vpmu_key_space(key) != VPMU_SPACE_SOFTWARE;
}

/* ---- perf_event.c: events ---- */

/* Whose events, and where they belong. */
struct vpmu_perf_where {
	int tid, cpu;	   /* as for perf_event_open */
	const int *leader; /* the group's leader for each kind of core; NULL: no group */
	bool pinned;
	bool enabled;	  /* from the start */
	int alarm_signal; /* a sampling event that sends this to tid; 0: a counting event */
};

/* The kinds of core: their perf types in @types, and their number, at least 1. */
unsigned int vpmu_perf_types(uint32_t types[VPMU_PERF_TYPES]);

/* Open an event that counts nothing, as the leader of a group. fd or -errno. */
int vpmu_perf_open_leader(int tid, int cpu, bool enabled);

/*
 * vpmu_perf_event_open - fill in *@e: an event for @key on each kind of core that has it. It is
 * disabled unless @where says otherwise.
 * -errno when no kind of core can count it, or when files or rights are missing.
 * vpmu_perf_event_close - the end of *@e, which may be empty; unmaps it.
 */
int vpmu_perf_event_open(struct vpmu_perf_event *e, vpmu_key_t key,
			 const struct vpmu_perf_where *where);
void vpmu_perf_event_close(struct vpmu_perf_event *e);

/* vpmu_perf_event_map - map what can be mapped of @e, an event of a thread: its page, to read it
 * without a system call, and, if it samples, its ring. */
void vpmu_perf_event_map(struct vpmu_perf_event *e, bool samples);

/* vpmu_perf_event_enable - start or stop @e. Its count and times stay. 0 or -errno. */
int vpmu_perf_event_enable(const struct vpmu_perf_event *e, bool on);

/* vpmu_perf_event_read - the sum over all kinds of core. 0, -ENODATA (see vpmu_perf_sys) or -errno.
 * vpmu_perf_event_read_here - the same, for an event of the calling thread: 1 if it has a counter
 * and the kernel allows to read that without a system call. */
int vpmu_perf_event_read(const struct vpmu_perf_event *e, struct vpmu_perf_reading *r);
int vpmu_perf_event_read_here(const struct vpmu_perf_event *e, struct vpmu_perf_reading *r);

/* vpmu_perf_event_last - the count of an event that the kernel has stopped. False: unknown. */
bool vpmu_perf_event_last(const struct vpmu_perf_event *e, uint64_t *value);

/* vpmu_perf_event_runs - whether enabled event @e has a counter now: 1 or 0; VPMU_PERF_UNKNOWN: its
 * thread does not run, so nobody can tell; or as vpmu_perf_event_read. */
#define VPMU_PERF_UNKNOWN 2
int vpmu_perf_event_runs(const struct vpmu_perf_event *e);

/* vpmu_perf_event_arm - let @e overflow after @events more, or never (0). An event of several kinds
 * of core may be early. An event that cannot sample is not armed. */
void vpmu_perf_event_arm(const struct vpmu_perf_event *e, uint64_t events);

/* ---- perf_throttle.c: events that the kernel has stopped. Owner ---- */

/* Make the records of an event have times of vpmu_perf_sys->clock(0). All events of a group must
 * have the same clock. */
void vpmu_perf_clock_attr(struct perf_event_attr *attr);

/* vpmu_perf_event_stopped - for how many ns since the last call @e was throttled, as a clock on the
 * wall shows it; UINT64_MAX: it was, and nobody knows for how long. */
uint64_t vpmu_perf_event_stopped(struct vpmu_perf_event *e);

/* ---- perf_alarm.c: alarms. Owner ---- */

/* vpmu_perf_timer_arm - alarm after @ticks of the TSC, or none (0), by timer @n.
 * vpmu_perf_timers_end - there is no alarm any more. */
void vpmu_perf_timer_arm(struct vpmu_hostpmu_perf *p, unsigned int n, uint64_t ticks);
void vpmu_perf_timers_end(struct vpmu_hostpmu_perf *p);

/* Of vpmu_perf_sys. */
int vpmu_perf_sys_notify(int fd, int tid, int sig);
int vpmu_perf_sys_period(int fd, uint64_t events);
int vpmu_perf_sys_timer_make(int tid, int sig, timer_t *id);
int vpmu_perf_sys_timer_set(timer_t id, uint64_t ns);
void vpmu_perf_sys_timer_end(timer_t id);
uint64_t vpmu_perf_sys_tsc_ns(uint64_t ticks);

/* ---- perf_group.c: the events of one PMU. Owner ---- */

/* Whether the event of @key is one of the group's. */
bool vpmu_perf_in_group(const struct vpmu_hostpmu_perf *p, vpmu_key_t key);

/*
 * vpmu_perf_take - fill in *@e, which is empty: start an event for @key, one that waits if there is
 * one. -EBUSY: it finds no counter, or the group would count no longer; or another -errno. Then *@e
 * is empty.
 * vpmu_perf_put - stop *@e, which becomes empty. Its event waits for the key's next turn. @lost:
 * the group stood still because of it, and can go on. vpmu_perf_close_waiting - close the events
 * that have waited for @ticks ticks or more.
 */
int vpmu_perf_take(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e, vpmu_key_t key);
void vpmu_perf_put(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e, bool lost);
void vpmu_perf_close_waiting(struct vpmu_hostpmu_perf *p, unsigned int ticks);

#endif
