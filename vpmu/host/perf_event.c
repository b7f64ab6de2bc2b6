// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Perf events: opening, starting, stopping and reading the events of one key. perf_group.c, perf.c
 * and perf_probe.c call this.
 *
 * A host can have several core types (Intel: cpu_core and cpu_atom; Arm: big and LITTLE). Each is a
 * PMU of its own, and an event of one PMU does not count on cores of another type. So there is one
 * event per core type. A thread is on one core at a time: its count is the sum of the events'
 * counts, its running time the sum of their running times. A raw key is an encoding for the first
 * core type only; on the others it has no event, and the running time shows this.
 */
#include "vpmu/host/perf_priv.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <linux/perf_event.h>

#include "vpmu/event/event.h"

/* ---- core types ------------------------------------------------------------------------ */

static uint32_t core_types[VPMU_PERF_TYPES];
static unsigned int nr_core_types;
static pthread_once_t core_types_once = PTHREAD_ONCE_INIT;

/* The type equal to PERF_TYPE_RAW comes first. */
static void find_core_types(void)
{
	uint32_t raw = PERF_TYPE_RAW;

	nr_core_types = vpmu_perf_sys->core_types(core_types, VPMU_PERF_TYPES);
	for (unsigned int i = 1; i < nr_core_types; i++) {
		if (core_types[i] == raw) {
			core_types[i] = core_types[0];
			core_types[0] = raw;
		}
	}
	if (nr_core_types < 2) {
		core_types[0] = raw;
		nr_core_types = 1;
	}
}

unsigned int vpmu_perf_types(uint32_t types[VPMU_PERF_TYPES])
{
	pthread_once(&core_types_once, find_core_types);
	memcpy(types, core_types, sizeof(core_types));
	return nr_core_types;
}

/* Make *@attr an event of core type @i of @n. -ENOENT: that type does not have it. */
static int perf_event_set_type(struct perf_event_attr *attr, const uint32_t *types, unsigned int i,
			       unsigned int n)
{
	if (n < 2)
		return 0;
	if (attr->type == PERF_TYPE_HARDWARE) {
		attr->config |= (uint64_t)types[i] << PERF_PMU_TYPE_SHIFT;
		return 0;
	}
	return i == 0 ? 0 : -ENOENT;
}

/* A period that is never reached. The kernel's limit is 63 bits. */
#define PERIOD_NEVER (1ULL << 62)

/* ---- opening ------------------------------------------------------------------------------ */

static int open_attr(const struct perf_event_attr *attr, int tid, int cpu, int group)
{
	int rc = vpmu_perf_sys->open(attr, tid, cpu, group);

	/* Each vCPU thread has files of its own. The usual soft limit, 1024, exists for users of
	 * select(2), which this library is not. */
	if (rc == -EMFILE) {
		vpmu_perf_sys->more_files();
		rc = vpmu_perf_sys->open(attr, tid, cpu, group);
	}
	return rc;
}

static bool is_clock(vpmu_key_t key)
{
	return vpmu_key_space(key) == VPMU_SPACE_SOFTWARE &&
	       (vpmu_key_event(key) == PERF_COUNT_SW_CPU_CLOCK ||
		vpmu_key_event(key) == PERF_COUNT_SW_TASK_CLOCK);
}

int vpmu_perf_open_leader(int tid, int cpu, bool enabled)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = !enabled,
		.exclude_kernel = 1, /* so that it needs no right to count the kernel */
		.exclude_hv = 1,
	};

	vpmu_perf_clock_attr(&attr);
	return open_attr(&attr, tid, cpu, -1);
}

static int open_one(vpmu_key_t key, struct perf_event_attr *attr,
		    const struct vpmu_perf_where *where, int group)
{
	int rc = open_attr(attr, where->tid, where->cpu, group);

	if (rc == -EACCES && is_clock(key)) {
		/* A clock counts in the kernel regardless of the attr. Without the permission to
		 * count the kernel, the attr must exclude it; the count is the same. */
		attr->exclude_kernel = 1;
		rc = open_attr(attr, where->tid, where->cpu, group);
	}
	if (rc == -EINVAL && group >= 0) {
		/* Either the event does not exist, or the group has no room for it. */
		int alone;

		attr->disabled = 1;
		alone = open_attr(attr, where->tid, where->cpu, -1);

		if (alone >= 0) {
			vpmu_perf_sys->close(alone);
			rc = -EBUSY;
		}
	}
	return rc;
}

/*
 * As open_one, but with alarms and if the PMU can interrupt, a sampling event: an event opened for
 * counting cannot be armed later. Software events except clocks stay counting events: after
 * PERF_EVENT_IOC_PERIOD the kernel treats their next event as an overflow, so rearming would make
 * every event one.
 */
static int open_alarm(vpmu_key_t key, struct perf_event_attr *attr,
		      const struct vpmu_perf_where *where, int group)
{
	int rc, fd;

	if (!where->alarm_signal || (!vpmu_perf_hardware(key) && !is_clock(key)))
		return open_one(key, attr, where, group);
	attr->sample_period = PERIOD_NEVER;
	fd = open_one(key, attr, where, group);
	if (fd >= 0) {
		rc = vpmu_perf_sys->notify(fd, where->tid, where->alarm_signal);
		if (!rc)
			return fd;
		vpmu_perf_sys->close(fd);
		return rc;
	}
	if (fd != -EOPNOTSUPP && fd != -EINVAL)
		return fd;
	attr->sample_period = 0;
	return open_one(key, attr, where, group);
}

/* Open the event of @key for core type @i of @kinds. */
static int open_kind(vpmu_key_t key, const struct vpmu_perf_where *where, const uint32_t *types,
		     unsigned int i, unsigned int kinds)
{
	bool hardware = vpmu_perf_hardware(key);
	struct perf_event_attr attr;
	int rc = vpmu_key_to_attr(key, &attr);

	if (!rc)
		rc = perf_event_set_type(&attr, types, i, kinds);
	if (rc)
		return rc;
	attr.disabled = !where->enabled;
	attr.pinned = hardware && where->pinned;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	vpmu_perf_clock_attr(&attr);
	return open_alarm(key, &attr, where, hardware && where->leader ? where->leader[i] : -1);
}

int vpmu_perf_event_open(struct vpmu_perf_event *e, vpmu_key_t key,
			 const struct vpmu_perf_where *where)
{
	uint32_t types[VPMU_PERF_TYPES];
	unsigned int kinds = vpmu_perf_hardware(key) ? vpmu_perf_types(types) : 1;
	int err = -ENOENT;

	*e = (struct vpmu_perf_event){.key = key};
	for (unsigned int i = 0; i < kinds; i++) {
		int rc = open_kind(key, where, types, i, kinds);

		if (rc >= 0) {
			e->fd[e->nr++] = rc;
		} else if (rc == -ENOENT || rc == -EINVAL || rc == -EOPNOTSUPP) {
			/* This core type does not have it. Others may. */
			if (err == -ENOENT)
				err = rc;
		} else {
			vpmu_perf_event_close(e);
			return rc;
		}
	}
	if (e->nr)
		return 0;
	memset(e, 0, sizeof(*e));
	return err;
}

void vpmu_perf_event_close(struct vpmu_perf_event *e)
{
	for (unsigned int i = 0; i < e->nr; i++) {
		if (e->ring[i].page)
			vpmu_perf_sys->unmap(e->ring[i].page);
		vpmu_perf_sys->close(e->fd[i]);
	}
	memset(e, 0, sizeof(*e));
}

void vpmu_perf_event_map(struct vpmu_perf_event *e, bool samples)
{
	bool hardware = vpmu_perf_hardware(e->key);
	bool ring = samples && (hardware || is_clock(e->key));

	if (!ring && (!hardware || e->nr > 1))
		return;
	for (unsigned int i = 0; i < e->nr; i++)
		e->ring[i].page = vpmu_perf_sys->map(e->fd[i], ring);
}

int vpmu_perf_event_enable(const struct vpmu_perf_event *e, bool on)
{
	int err = 0;

	for (unsigned int i = 0; i < e->nr; i++) {
		int rc = vpmu_perf_sys->enable(e->fd[i], on);

		if (rc)
			err = rc;
	}
	return err;
}

/* Some x86 drivers refuse periods below 32 or 128 for some events. */
#define PERIOD_SHORT 128

void vpmu_perf_event_arm(const struct vpmu_perf_event *e, uint64_t events)
{
	/* How the events split between core types is unknown in advance. Arm equal shares: one type
	 * reaches its share no later than all together reach the whole. */
	uint64_t each = events ? (events + e->nr - 1) / e->nr : PERIOD_NEVER;

	if (each > PERIOD_NEVER)
		each = PERIOD_NEVER;
	for (unsigned int i = 0; i < e->nr; i++)
		/* Refused, too, by an event that does not sample: its alarms wait for a charge. */
		if (vpmu_perf_sys->period(e->fd[i], each) && each < PERIOD_SHORT)
			vpmu_perf_sys->period(e->fd[i], PERIOD_SHORT);
}

/* ---- reading ------------------------------------------------------------------------------ */

int vpmu_perf_event_read(const struct vpmu_perf_event *e, struct vpmu_perf_reading *r)
{
	*r = (struct vpmu_perf_reading){0};
	for (unsigned int i = 0; i < e->nr; i++) {
		struct vpmu_perf_reading one;
		int rc = vpmu_perf_sys->read(e->fd[i], &one);

		if (rc)
			return rc;
		r->value += one.value;
		r->running_ns += one.running_ns;
		/* All are enabled at the same time, except for the delay between two system calls.
		 */
		if (one.enabled_ns > r->enabled_ns)
			r->enabled_ns = one.enabled_ns;
	}
	return 0;
}

/*
 * Read a counter without a system call, as described at struct perf_event_mmap_page in
 * linux/perf_event.h. Returns false if the kernel does not permit it now, or the event is not on
 * the PMU.
 *
 * The times in the page are as of the moment when the event got its counter. Both have grown
 * equally since, so their difference is valid without reading a clock.
 */
static bool read_page(const struct perf_event_mmap_page *page, struct vpmu_perf_reading *r)
{
	const volatile struct perf_event_mmap_page *pc = page;
	uint32_t seq, index;
	unsigned int shift;
	int64_t pmc;

	do {
		/* The kernel writes the page on this CPU, in an interrupt or a migration between
		 * our loads, so compiler barriers are enough. */
		seq = pc->lock;
		__asm__ volatile("" ::: "memory");
		index = pc->index;
		if (!pc->cap_user_rdpmc || !index || !pc->pmc_width || pc->pmc_width > 64)
			return false;
		shift = 64u - pc->pmc_width;
		pmc = (int64_t)(vpmu_perf_sys->rdpmc(index - 1) << shift) >> shift;
		r->value = (uint64_t)(pc->offset + pmc);
		r->enabled_ns = pc->time_enabled;
		r->running_ns = pc->time_running;
		__asm__ volatile("" ::: "memory");
	} while (pc->lock != seq);
	return true;
}

int vpmu_perf_event_read_here(const struct vpmu_perf_event *e, struct vpmu_perf_reading *r)
{
	if (e->nr == 1 && e->ring[0].page && read_page(e->ring[0].page, r))
		return 1;
	return vpmu_perf_event_read(e, r);
}

/* The kernel stores the count in the page when it removes the counter. */
bool vpmu_perf_event_last(const struct vpmu_perf_event *e, uint64_t *value)
{
	const volatile struct perf_event_mmap_page *pc = e->nr == 1 ? e->ring[0].page : NULL;

	if (!pc || pc->index)
		return false;
	*value = (uint64_t)pc->offset;
	return true;
}

int vpmu_perf_event_runs(const struct vpmu_perf_event *e)
{
	struct vpmu_perf_reading first, second;
	int rc = vpmu_perf_event_read(e, &first);

	if (!rc)
		rc = vpmu_perf_event_read(e, &second);
	if (rc)
		return rc;
	if (second.enabled_ns == first.enabled_ns)
		return VPMU_PERF_UNKNOWN;
	return second.running_ns > first.running_ns;
}
