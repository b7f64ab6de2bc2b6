/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fake kernel behind vpmu_perf_sys, for tests of the perf host PMU: one thread with a hardware
 * PMU of general and fixed counters, and what Linux does with the events of that thread. The rules
 * are those of perf_event_open(2) and of the x86 driver:
 *
 *   - An event's time is its thread's: enabled time grows while the thread runs and the event and
 *     its group's leader are enabled; running time grows while it has a counter besides.
 *   - A group has counters for all of its enabled members or for none. It may only contain members
 *     that fit an otherwise unused PMU, and only those of one kind of core. Only the leader of a
 *     group can be pinned.
 *   - A pinned event that finds no counter goes into its error state. It reads as end of file until
 *     it is enabled anew.
 *   - A sampling event has a ring that is overwritten: a record for each overflow, and for each
 * time that the kernel throttles the event (fake_throttle).
 *   - Who waits gets a counter when an event is enabled or opened, and when the thread next gets a
 *     CPU (fake_run). It gets none when an event is disabled or closed.
 *   - Others can hold counters for good (fake.held), or alternate with us (fake.rival).
 *   - Raw event D0H fits counter 0 only, and so do cache-misses on the first of several kinds of
 *     core. Raw event EEH does not exist.
 */
#ifndef TESTS_UNIT_FAKE_PERF_H
#define TESTS_UNIT_FAKE_PERF_H

#include "perf_bed.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>

#define FAKE_FDS       64
#define FAKE_WIDTH     48
#define FAKE_RING      256 /* bytes of an event's ring */
#define FAKE_TYPE_ATOM 10
#define FAKE_READ_NS   100 /* the time of a system call of the thread */

enum fake_state { FAKE_ERROR = -2, FAKE_OFF = -1, FAKE_WAITS = 0, FAKE_COUNTS = 1 };

static struct {
	unsigned int gp;	 /* general counters */
	bool fixed;		 /* fixed counters for instructions, cycles, ref-cycles */
	unsigned int held;	 /* general counters that others hold */
	unsigned int rival;	 /* general counters that others want for half of the time */
	unsigned int kinds;	 /* of core: 0 or 2 */
	unsigned int core;	 /* the kind that the thread is on */
	bool arm;		 /* a disabled event gets into any group, as by Arm's driver */
	bool no_branches;	 /* the PMU has no such event */
	uint64_t least_period;	 /* the driver refuses shorter ones */
	bool no_interrupt;	 /* the PMU has no interrupt: its events cannot sample */
	bool user_only;		 /* like perf_event_paranoid 2 without CAP_PERFMON */
	int fail;		 /* open fails with this */
	unsigned int emu_limit;	 /* of open events; 0: FAKE_FDS */
	unsigned int hard_limit; /* the highest soft limit */
	bool other_raises;	 /* another thread raises it after an event is refused */
	bool rdpmc;		 /* events have pages */
	bool no_ring;		 /* no memory may be locked for rings */
	bool sleeps;		 /* the thread does not run while others make calls */
	bool gone;		 /* the thread has ended */
	bool bump_lock;		 /* the kernel moves the event during the next rdpmc */
	unsigned int opens, enables, reads, rdpmcs, open_fds;
	unsigned int clocks;  /* readings of a thread's CPU time */
	unsigned int most_gp; /* the most general counters that we ever had */
	unsigned int pinned_opens;
	bool rival_first;
	uint64_t cpu_ns, wall_ns;
	struct fake_event {
		bool used;
		enum fake_state state;
		int leader; /* its own fd if it is one */
		struct perf_event_attr attr;
		int tid, cpu;
		uint64_t count, enabled_ns, running_ns;
		struct perf_event_mmap_page page;
		uint8_t ring[FAKE_RING]; /* behind the page */
		bool throttled;		 /* it counts nothing, while its running time goes on */
		uint64_t counter;	 /* of 48 bits */
		int sig;		 /* for tid at an overflow; 0: not asked for */
		uint64_t period, left;
	} ev[FAKE_FDS];
	struct {
		bool used;
		int tid, sig;
		uint64_t at; /* of wall_ns; 0: off */
	} timer[2];
	int no_timer;	      /* timers cannot be made or set: fails with this */
	unsigned int signals; /* sent by overflows and timers */
} fake;

#define fake_for_each(e) for (struct fake_event *e = fake.ev; e < fake.ev + FAKE_FDS; e++)

static inline bool fake_hardware(const struct fake_event *e)
{
	return e->attr.type != PERF_TYPE_SOFTWARE;
}

static inline unsigned int fake_fixed_of(const struct perf_event_attr *attr)
{
	if (attr->type != PERF_TYPE_HARDWARE)
		return 0;
	switch (attr->config & 0xffffffff) {
	case PERF_COUNT_HW_INSTRUCTIONS:
		return 1;
	case PERF_COUNT_HW_CPU_CYCLES:
		return 2;
	case PERF_COUNT_HW_REF_CPU_CYCLES:
		return 3;
	default:
		return 0;
	}
}

static inline unsigned int fake_kind(const struct perf_event_attr *attr)
{
	if (attr->type == PERF_TYPE_HARDWARE)
		return attr->config >> 32 == FAKE_TYPE_ATOM;
	return attr->type == FAKE_TYPE_ATOM;
}

static inline bool fake_first_only(const struct perf_event_attr *attr)
{
	return (attr->type == PERF_TYPE_RAW && (attr->config & 0xff) == 0xd0) ||
	       (fake.kinds && attr->type == PERF_TYPE_HARDWARE && !fake_kind(attr) &&
		(attr->config & 0xff) == PERF_COUNT_HW_CACHE_MISSES);
}

/* The counters that are not taken. */
struct fake_room {
	unsigned int gp; /* besides counter 0 */
	bool first;	 /* counter 0 */
	bool fixed[4];	 /* by fake_fixed_of */
};

static inline struct fake_room fake_room(unsigned int taken)
{
	unsigned int gp = fake.gp > taken ? fake.gp - taken : 0;

	/* Others take the upper ones first. */
	return (struct fake_room){.gp = gp ? gp - 1 : 0,
				  .first = gp > 0,
				  .fixed = {false, fake.fixed, fake.fixed, fake.fixed}};
}

/* Give @e a counter of *@r. Events for counter 0 only must come first. */
static inline bool fake_place(struct fake_room *r, const struct fake_event *e)
{
	unsigned int fixed = fake_fixed_of(&e->attr);

	if (fake_first_only(&e->attr)) {
		if (!r->first)
			return false;
		r->first = false;
		return true;
	}
	if (fixed && r->fixed[fixed]) {
		r->fixed[fixed] = false;
		return true;
	}
	if (fixed == 3)
		return false;
	if (r->gp) {
		r->gp--;
		return true;
	}
	if (!r->first)
		return false;
	r->first = false;
	return true;
}

/* Returns true if the enabled members of @leader's group, and @more besides, fit *@r; they are
 * taken off it. */
static inline bool fake_place_group(struct fake_room *r, int leader, const struct fake_event *more)
{
	struct fake_room room = *r;

	for (int first = 1; first >= 0; first--) {
		fake_for_each(e)
		{
			if (!e->used || e->leader != leader || e == more || !fake_hardware(e) ||
			    e->state <= FAKE_OFF || fake_first_only(&e->attr) != first)
				continue;
			if (!fake_place(&room, e))
				return false;
		}
		if (more && fake_first_only(&more->attr) == first && !fake_place(&room, more))
			return false;
	}
	*r = room;
	return true;
}

static inline bool fake_enabled(const struct fake_event *e)
{
	return e->used && e->state >= FAKE_WAITS && fake.ev[e->leader].state >= FAKE_WAITS;
}

/* The group's hardware members, all of which are of one kind, or -1 if it has none. */
static inline int fake_group_kind(int leader)
{
	fake_for_each(e) if (e->used && e->leader == leader &&
			     fake_hardware(e)) return (int)fake_kind(&e->attr);
	return -1;
}

/* What user space sees of it. */
static inline void fake_pages(void)
{
	fake_for_each(e)
	{
		e->page.index = e->used && e->state == FAKE_COUNTS && e->page.cap_user_rdpmc
					? (uint32_t)(e - fake.ev) + 1
					: 0;
		e->page.time_enabled = e->enabled_ns;
		e->page.time_running = e->running_ns;
		e->page.offset = (int64_t)e->count;
		e->counter = 0;
	}
}

/* An event is stopped or closed, and its group's members if it is the leader. Nobody gets a counter
 * for that before the thread next gets a CPU, or an event is enabled. */
static inline void fake_stop(struct fake_event *stopped)
{
	fake_for_each(e) if (e->used && e->leader == (int)(stopped - fake.ev) &&
			     e->state == FAKE_COUNTS) e->state = FAKE_WAITS;
	fake_pages();
}

/* Assign the counters. */
static inline void fake_schedule(void)
{
	struct fake_room room = fake_room(fake.held);
	unsigned int before, used;

	fake_for_each(e) if (e->used && e->state == FAKE_COUNTS) e->state = FAKE_WAITS;
	before = room.gp + room.first;
	fake_for_each(e)
	{
		if (!fake_enabled(e) || !e->attr.pinned || !fake_hardware(e) ||
		    fake_kind(&e->attr) != fake.core)
			continue;
		e->state = fake_place(&room, e) ? FAKE_COUNTS : FAKE_ERROR;
	}
	used = before - room.gp - room.first;
	if (fake.rival_first)
		for (unsigned int i = 0; i < fake.rival; i++) {
			if (room.gp)
				room.gp--;
			else
				room.first = false;
		}
	for (int leader = 0; leader < FAKE_FDS; leader++) {
		struct fake_event *l = &fake.ev[leader];
		int kind;

		if (!l->used || l->leader != leader || !fake_enabled(l) ||
		    (l->attr.pinned && fake_hardware(l)))
			continue;
		kind = fake_group_kind(leader);
		before = room.gp + room.first;
		if ((kind >= 0 && kind != (int)fake.core) || !fake_place_group(&room, leader, NULL))
			continue;
		used += before - room.gp - room.first;
		fake_for_each(e) if (fake_enabled(e) && e->leader == leader) e->state = FAKE_COUNTS;
	}
	if (used > fake.most_gp)
		fake.most_gp = used;
	fake_pages();
}

static inline void fake_wall(uint64_t ns)
{
	fake.wall_ns += ns;
	for (int i = 0; i < 2; i++) {
		if (!fake.timer[i].at || fake.timer[i].at > fake.wall_ns)
			continue;
		fake.timer[i].at = 0;
		fake.signals++;
	}
}

static inline void fake_record(struct fake_event *e, const void *record, uint16_t bytes)
{
	if (!e->page.data_size)
		return;
	for (uint16_t i = 0; i < bytes; i++)
		e->ring[e->page.data_head++ % FAKE_RING] = ((const uint8_t *)record)[i];
}

/* The kernel stops @e, or lets it count again, and writes a record. */
static inline void fake_throttle(struct fake_event *e, bool on)
{
	struct {
		struct perf_event_header header;
		uint64_t time, id, stream_id;
	} r = {.header = {.type = on ? PERF_RECORD_THROTTLE : PERF_RECORD_UNTHROTTLE,
			  .size = sizeof(r)},
	       .time = fake.wall_ns};

	e->throttled = on;
	fake_record(e, &r, sizeof(r));
}

static inline void fake_overflow(struct fake_event *e, uint64_t counted)
{
	if (!e->period || counted < e->left) {
		e->left -= e->period ? counted : 0;
		return;
	}
	fake_record(e, &(struct perf_event_header){.type = PERF_RECORD_SAMPLE, .size = 8}, 8);
	e->left = e->period - (counted - e->left) % e->period;
	fake.signals += e->sig != 0;
}

/* The thread runs for @ns. @counts: and in its guest, where things happen: one event each us. */
static inline void fake_pass(uint64_t ns, bool counts)
{
	fake.cpu_ns += ns;
	fake_wall(ns);
	fake_for_each(e)
	{
		if (!fake_enabled(e))
			continue;
		e->enabled_ns += ns;
		if (e->state != FAKE_COUNTS)
			continue;
		e->running_ns += ns;
		if (counts && !e->throttled) {
			e->count += ns / 1000;
			e->counter += ns / 1000;
			fake_overflow(e, ns / 1000);
		}
	}
}

static inline void fake_run(uint64_t ns)
{
	for (unsigned int i = 0; i < 2; i++) {
		fake.rival_first = i;
		fake_schedule();
		fake_pass(ns / 2, true);
	}
	fake.rival_first = false;
	fake_schedule();
}

static inline void fake_sleep(uint64_t ns)
{
	fake_wall(ns);
}

/* ---- the calls ---- */

static inline int fake_open(const struct perf_event_attr *attr, int tid, int cpu, int group)
{
	struct fake_event new = {.used = true, .attr = *attr, .tid = tid, .cpu = cpu};
	struct fake_room room = fake_room(0);
	int fd;

	fake.opens++;
	cr_assert(!attr->freq);
	if (attr->sample_period && fake.no_interrupt && attr->type != PERF_TYPE_SOFTWARE)
		return -EOPNOTSUPP;
	cr_assert(!attr->inherit && attr->size == sizeof(*attr));
	if (fake.fail)
		return fake.fail;
	if (fake.user_only && !attr->exclude_kernel)
		return -EACCES;
	if (attr->type != PERF_TYPE_SOFTWARE) {
		cr_assert_eq(attr->read_format,
			     PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING);
		if (!fake.gp && !fake.fixed)
			return -ENOENT;
		if ((attr->type == PERF_TYPE_RAW && (attr->config & 0xff) == 0xee) ||
		    (attr->type == PERF_TYPE_HARDWARE && attr->config >> 32 && !fake.kinds))
			return -EINVAL;
		if (fake.no_branches && attr->type == PERF_TYPE_HARDWARE &&
		    (attr->config & 0xff) == PERF_COUNT_HW_BRANCH_INSTRUCTIONS)
			return -ENOENT;
		fake.pinned_opens += attr->pinned;
	}
	for (fd = 0; fd < FAKE_FDS && fake.ev[fd].used; fd++)
		;
	if (fd == FAKE_FDS || (fake.emu_limit && fake.open_fds >= fake.emu_limit)) {
		if (fake.other_raises)
			fake.emu_limit = fake.hard_limit;
		return -EMFILE;
	}
	new.leader = group >= 0 ? group : fd;
	if (group >= 0) {
		int kind = fake_group_kind(group);

		cr_assert(fake.ev[group].used && fake.ev[group].leader == group);
		if (attr->pinned ||
		    (kind >= 0 && fake_hardware(&new) && kind != (int)fake_kind(attr)))
			return -EINVAL;
	}
	if (fake_hardware(&new) && !(fake.arm && attr->disabled && group >= 0) &&
	    !fake_place_group(&room, new.leader, &new))
		return -EINVAL;
	new.state = attr->disabled ? FAKE_OFF : FAKE_WAITS;
	new.period = new.left = attr->sample_period;
	if (fake.rdpmc) {
		new.page.cap_user_rdpmc = 1;
		new.page.pmc_width = FAKE_WIDTH;
	}
	fake.ev[fd] = new;
	fake.open_fds++;
	fake_schedule();
	return fd;
}

static inline int fake_read(int fd, struct vpmu_perf_reading *r)
{
	struct fake_event *e = &fake.ev[fd];

	fake.reads++;
	cr_assert(e->used);
	if (!fake.sleeps)
		fake_pass(FAKE_READ_NS, false);
	if (e->state == FAKE_ERROR)
		return -ENODATA;
	*r = (struct vpmu_perf_reading){e->count, e->enabled_ns, e->running_ns};
	return 0;
}

static inline int fake_enable(int fd, bool on)
{
	struct fake_event *e = &fake.ev[fd];

	cr_assert(e->used);
	fake.enables++;
	if (on && e->state <= FAKE_OFF)
		e->state = FAKE_WAITS;
	else if (!on && e->state >= FAKE_WAITS)
		e->state = FAKE_OFF;
	if (on)
		fake_schedule();
	else
		fake_stop(e);
	return 0;
}

static inline struct perf_event_mmap_page *fake_map(int fd, bool ring)
{
	struct fake_event *e = &fake.ev[fd];

	if (ring && !fake.no_ring) {
		cr_assert(e->attr.use_clockid && e->attr.clockid == CLOCK_MONOTONIC);
		cr_assert_eq(fake.ev[e->leader].attr.clockid, e->attr.clockid);
		e->page.data_offset =
			offsetof(struct fake_event, ring) - offsetof(struct fake_event, page);
		e->page.data_size = FAKE_RING;
	}
	return fake.rdpmc || e->page.data_size ? &e->page : NULL;
}

static inline void fake_unmap(struct perf_event_mmap_page *page)
{
}

static inline uint64_t fake_rdpmc(uint32_t index)
{
	struct fake_event *e = &fake.ev[index];

	fake.rdpmcs++;
	if (fake.bump_lock) {
		/* scheduled out and in: the count so far moved to offset, the counter restarts */
		fake.bump_lock = false;
		e->page.lock += 2;
		e->page.offset = (int64_t)e->count;
		e->counter = 0;
		return 0xdead;
	}
	return e->counter;
}

static inline void fake_close(int fd)
{
	cr_assert(fake.ev[fd].used);
	if (fake.ev[fd].leader == fd)
		fake_for_each(e) cr_assert(!e->used || e->leader != fd || e == &fake.ev[fd],
					   "a leader goes last");
	fake.ev[fd].used = false;
	fake.open_fds--;
	fake_stop(&fake.ev[fd]);
}

/* As Linux: only an event that was opened for sampling has a period. */
static inline int fake_period(int fd, uint64_t events)
{
	struct fake_event *e = &fake.ev[fd];

	cr_assert(e->used);
	if (!e->attr.sample_period || !events || events >> 63 || events < fake.least_period)
		return -EINVAL;
	e->period = e->left = events;
	return 0;
}

static inline int fake_notify(int fd, int tid, int sig)
{
	cr_assert(fake.ev[fd].used && tid > 0);
	fake.ev[fd].sig = sig;
	return 0;
}

static inline int fake_timer_make(int tid, int sig, timer_t *id)
{
	if (fake.no_timer)
		return fake.no_timer;
	for (uintptr_t i = 0; i < 2; i++) {
		if (fake.timer[i].used)
			continue;
		fake.timer[i].used = true;
		fake.timer[i].tid = tid;
		fake.timer[i].sig = sig;
		*id = (timer_t)i;
		return 0;
	}
	return -EAGAIN;
}

static inline int fake_timer_set(timer_t id, uint64_t ns)
{
	if (fake.no_timer && ns)
		return fake.no_timer;
	fake.timer[(uintptr_t)id].at = ns ? fake.wall_ns + ns : 0;
	return 0;
}

static inline void fake_timer_end(timer_t id)
{
	cr_assert(fake.timer[(uintptr_t)id].used);
	fake.timer[(uintptr_t)id].used = false;
	fake.timer[(uintptr_t)id].at = 0;
}

/* The TSC ticks twice in a ns. */
static inline uint64_t fake_tsc_ns(uint64_t ticks)
{
	return ticks / 2;
}

static inline int fake_clock(int tid, uint64_t *ns)
{
	if (tid && fake.gone)
		return -ESRCH;
	fake.clocks += tid != 0;
	*ns = tid ? fake.cpu_ns : fake.wall_ns;
	return 0;
}

static inline void fake_more_files(void)
{
	if (fake.emu_limit)
		fake.emu_limit = fake.hard_limit;
}

/* As in sysfs, in any order. */
static inline unsigned int fake_core_types(uint32_t *types, unsigned int max)
{
	if (!fake.kinds || max < 2)
		return 0;
	types[0] = FAKE_TYPE_ATOM;
	types[1] = PERF_TYPE_RAW;
	return 2;
}

static const struct vpmu_perf_sys fake_sys = {
	.open = fake_open,
	.read = fake_read,
	.enable = fake_enable,
	.map = fake_map,
	.unmap = fake_unmap,
	.rdpmc = fake_rdpmc,
	.close = fake_close,
	.notify = fake_notify,
	.period = fake_period,
	.timer_make = fake_timer_make,
	.timer_set = fake_timer_set,
	.timer_end = fake_timer_end,
	.tsc_ns = fake_tsc_ns,
	.clock = fake_clock,
	.more_files = fake_more_files,
	.core_types = fake_core_types,
};

static inline void fake_start(unsigned int gp, bool fixed)
{
	memset(&fake, 0, sizeof(fake));
	fake.gp = gp;
	fake.fixed = fixed;
	fake.wall_ns = 1000000000;
	vpmu_perf_sys = &fake_sys;
}

#endif
