// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The perf events of one host PMU: their group, the parked events that wait to be bound again, and
 * the check that the group still counts after an event was added. perf.c calls this when it binds
 * and unbinds, never when it reads.
 *
 * A group has counters for all of its enabled members or for none. One member too many would stop
 * all of them: no event that was seen to do so may stay enabled.
 */
#include <errno.h>
#include <string.h>

#include "vpmu/host/perf_priv.h"

bool vpmu_perf_in_group(const struct vpmu_hostpmu_perf *p, vpmu_key_t key)
{
	return vpmu_perf_hardware(key) && !p->opts.pinned;
}

/* Close the group after its last event, so that an idle PMU has no files open. */
static void close_group(struct vpmu_hostpmu_perf *p)
{
	unsigned int i;

	for (i = 0; i < VPMU_MAX_CTRS; i++) {
		if (p->ctr[i].event.nr && vpmu_perf_in_group(p, p->ctr[i].event.key))
			return;
	}
	for (i = 0; i < VPMU_PERF_PARKED; i++) {
		if (p->parked[i].event.nr && vpmu_perf_in_group(p, p->parked[i].event.key))
			return;
	}
	for (i = 0; i < VPMU_PERF_TYPES; i++) {
		if (p->leader[i] >= 0)
			vpmu_perf_sys->close(p->leader[i]);
		p->leader[i] = -1;
	}
}

static int open_group(struct vpmu_hostpmu_perf *p, const struct vpmu_perf_where *where)
{
	uint32_t types[VPMU_PERF_TYPES];
	unsigned int kinds = vpmu_perf_types(types);

	for (unsigned int i = 0; i < kinds; i++) {
		int rc;

		if (p->leader[i] >= 0)
			continue;
		rc = vpmu_perf_open_leader(where->tid, where->cpu, true);
		if (rc < 0)
			return rc;
		p->leader[i] = rc;
	}
	return 0;
}

static int perf_group_open_event(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e,
				 vpmu_key_t key)
{
	struct vpmu_perf_where where = {
		.tid = p->opts.cpu == VPMU_PERF_THREAD ? p->tid : -1,
		.cpu = p->opts.cpu,
		.leader = vpmu_perf_in_group(p, key) ? p->leader : NULL,
		.pinned = p->opts.pinned,
		.alarm_signal = p->opts.alarm_signal,
	};
	int rc = where.leader ? open_group(p, &where) : 0;

	if (!rc)
		rc = vpmu_perf_event_open(e, key, &where);
	if (rc) {
		close_group(p);
		return rc;
	}
	if (p->opts.cpu == VPMU_PERF_THREAD)
		vpmu_perf_event_map(e, p->opts.alarm_signal);
	return 0;
}

/* Park stopped event @e until its key is bound again, or close it if there is no room. Software
 * events are not parked: they are never multiplexed. */
static void park(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e)
{
	for (unsigned int i = 0; vpmu_perf_hardware(e->key) && i < VPMU_PERF_PARKED; i++) {
		if (p->parked[i].event.nr)
			continue;
		p->parked[i].event = *e;
		p->parked[i].polls = p->polls;
		memset(e, 0, sizeof(*e));
		return;
	}
	vpmu_perf_event_close(e);
}

static bool unpark(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e, vpmu_key_t key)
{
	for (unsigned int i = 0; i < VPMU_PERF_PARKED; i++) {
		if (p->parked[i].event.key != key)
			continue;
		*e = p->parked[i].event;
		memset(&p->parked[i], 0, sizeof(p->parked[i]));
		return true;
	}
	return false;
}

/* vpmu_perf_event_runs for the group, by one of its events. */
static int group_runs(const struct vpmu_hostpmu_perf *p)
{
	for (unsigned int i = 0; i < VPMU_MAX_CTRS; i++) {
		if (p->ctr[i].event.nr && vpmu_perf_in_group(p, p->ctr[i].event.key))
			return vpmu_perf_event_runs(&p->ctr[i].event);
	}
	return VPMU_PERF_UNKNOWN;
}

/*
 * Make the kernel schedule the group now. It does so when an event is enabled but not when one is
 * disabled: a group that was one event too large would stand still until its thread is next
 * scheduled.
 */
static void restart_group(const struct vpmu_hostpmu_perf *p)
{
	for (unsigned int i = 0; i < VPMU_PERF_TYPES; i++) {
		if (p->leader[i] < 0)
			continue;
		vpmu_perf_sys->enable(p->leader[i], false);
		vpmu_perf_sys->enable(p->leader[i], true);
	}
}

/*
 * Start @e and check that it counts. A pinned event without a counter fails at once. If the group
 * had counters before and has none with @e, @e is one too many: its counter is in use elsewhere, or
 * two events need the same one. (A kernel that starts @e only at the next context switch leaves the
 * others running until then.)
 */
static int perf_group_start(struct vpmu_hostpmu_perf *p, const struct vpmu_perf_event *e)
{
	int before = vpmu_perf_in_group(p, e->key) ? group_runs(p) : VPMU_PERF_UNKNOWN;
	int rc = vpmu_perf_event_enable(e, true);

	if (rc)
		return rc;
	rc = vpmu_perf_event_runs(e);
	if (rc == -ENODATA || (rc == 0 && before == 1 && group_runs(p) == 0))
		rc = -EBUSY;
	if (rc >= 0)
		return 0;
	vpmu_perf_event_enable(e, false);
	if (vpmu_perf_in_group(p, e->key))
		restart_group(p);
	return rc;
}

/*
 * A thread opens an event for each key that is not parked, in the exits of its guest: an event that
 * exists cannot be changed to count another key (PERF_EVENT_IOC_MODIFY_ATTRIBUTES takes breakpoints
 * only); and one to find out if the host has a key that is new. So many per time at most; beyond,
 * the key waits, as without a counter.
 */
#define OPENS_MAX 64
#define OPENS_NS  10000000ull /* of the thread's time */

bool vpmu_perf_may_open(struct vpmu_hostpmu_perf *p)
{
	uint64_t now;

	if (p->opts.cpu != VPMU_PERF_THREAD)
		return true;
	if (!p->opens || p->opens == OPENS_MAX) {
		if (vpmu_perf_sys->clock(p->tid, &now))
			return false;
		if (p->opens && now - p->opens_ns < OPENS_NS)
			return false;
		p->opens = 0;
		p->opens_ns = now;
	}
	p->opens++;
	return true;
}

int vpmu_perf_take(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e, vpmu_key_t key)
{
	int rc = 0;

	if (!unpark(p, e, key))
		rc = vpmu_perf_may_open(p) ? perf_group_open_event(p, e, key) : -EAGAIN;
	if (rc)
		return rc;
	rc = perf_group_start(p, e);
	if (rc)
		park(p, e);
	return rc;
}

void vpmu_perf_put(struct vpmu_hostpmu_perf *p, struct vpmu_perf_event *e, bool lost)
{
	bool of_group = vpmu_perf_in_group(p, e->key);

	vpmu_perf_event_enable(e, false);
	park(p, e);
	if (lost && of_group)
		restart_group(p);
}

void vpmu_perf_close_waiting(struct vpmu_hostpmu_perf *p, unsigned int ticks)
{
	for (unsigned int i = 0; i < VPMU_PERF_PARKED; i++) {
		if (p->parked[i].event.nr && p->polls - p->parked[i].polls >= ticks)
			vpmu_perf_event_close(&p->parked[i].event);
	}
	close_group(p);
}

/* ---- a group that has no counters --------------------------------------------------------- */

/* A group without counters for this long, while its thread ran, loses events. Multiplexed events
 * get a counter after a few milliseconds. */
#define LOST_NS 100000000ULL
/* Ticks between attempts to use one more general counter than others seemed to leave. */
#define ROOM_TICKS 16

/* The general counters that are not left to others. */
static unsigned int usable(const struct vpmu_hostpmu_perf *p)
{
	const struct vpmu_perf_capacity c = vpmu_perf_capacity();

	return vpmu_perf_usable(&c, p->opts.leave_counters);
}

static unsigned int nr_general(const struct vpmu_hostpmu_perf *p)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < VPMU_PERF_CTR_FIXED; i++)
		n += p->ctr[i].kind == KIND_PERF;
	return n;
}

static void set_room(struct vpmu_hostpmu_perf *p, unsigned int room)
{
	p->room = room ? room : 1;
	p->room_polls = p->polls;
	p->room_tried = false;
}

/*
 * Every ROOM_TICKS, offer one more general counter than others seemed to leave. In that tick all
 * waiting keys are tried on it. If it is unused at the next tick, each of them was one too many:
 * withdraw it, so that the keys are multiplexed on the available counters.
 */
void vpmu_perf_group_room(struct vpmu_hostpmu_perf *p)
{
	unsigned int since = p->polls - p->room_polls;

	if (p->room == VPMU_PERF_MAX_GP)
		return;
	if (p->room_tried && since == 1 && nr_general(p) < p->room) {
		set_room(p, p->room - 1);
	} else if (since >= ROOM_TICKS) {
		set_room(p, p->room < usable(p) ? p->room + 1 : VPMU_PERF_MAX_GP);
		p->room_tried = true;
	}
}

/* True if @c stands still only when its group has no counters: all core types have its event. */
static bool is_witness(const struct vpmu_hostpmu_perf *p, const struct vpmu_perf_ctr *c)
{
	uint32_t types[VPMU_PERF_TYPES];

	return c->kind == KIND_PERF && vpmu_perf_in_group(p, c->key) &&
	       c->event.nr == vpmu_perf_types(types);
}

/*
 * One event too many stalls the whole group. If others took counters, several of ours can be too
 * many, and after the removal of one event another key would take its place. So half of the general
 * counters are released and no longer offered (vpmu_perf_group_room). With fewer than two in use,
 * the event bound last is released.
 *
 * With several core types, an event that only some of them have also stands still while its thread
 * is on the others. That must not make it lost (is_witness).
 */
uint32_t vpmu_perf_group_lost(struct vpmu_hostpmu_perf *p)
{
	struct vpmu_perf_ctr *last = NULL;
	uint32_t lost = 0;

	for (unsigned int i = 0; i < VPMU_PERF_CTR_SOFTWARE; i++) {
		struct vpmu_perf_ctr *c = &p->ctr[i];

		if (is_witness(p, c) && (!last || c->bind > last->bind))
			last = c;
	}
	if (!last)
		p->counted_ns = p->clock_ns;
	if (p->clock_ns - p->counted_ns < LOST_NS)
		return 0;
	p->counted_ns = p->clock_ns;
	if (nr_general(p) < 2) {
		lost = 1u << (last - p->ctr);
	} else {
		set_room(p, nr_general(p) / 2);
		lost = (uint32_t)vpmu_perf_bits(p->room, VPMU_PERF_CTR_FIXED - p->room);
	}
	for (unsigned int i = 0; i < VPMU_PERF_CTR_SOFTWARE; i++) {
		if (p->ctr[i].kind == KIND_FREE)
			lost &= ~(1u << i);
		else if (lost & 1u << i)
			p->ctr[i].lost = true;
	}
	return lost;
}
