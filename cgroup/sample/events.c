// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sampling events of whole CPUs, see events.h: opening them with the features of this kernel,
 * sharing them, reading their rings. A sample must reach every user that was there when it was
 * taken, and no other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/sample/events.h"
#include "vpmu/event/event.h"

/* Newer than some distributions' headers. */
#define FORMAT_LOST (1U << 4) /* PERF_FORMAT_LOST, Linux 6.0 */

/* A ring holds some thousand samples. The kernel limits the memory of all rings of a user
 * (perf_event_mlock_kb), so smaller ones are tried, too. */
#define RING_BYTES     (256u << 10)
#define RING_BYTES_MIN (8u << 10)

struct cpu_event {
	int fd; /* -1: none */
	uint64_t sample_type;
	struct ring ring;
	struct ring_counts counts;
	struct ring_counts gone; /* of former events: the CPU was offline meanwhile */
};

/* An event and a ring on each CPU. */
struct sample_set {
	struct sample_set *next;
	struct sample_spec spec;
	struct sample_user *users;
	struct cpu_event cpu[];
};

struct samples {
	const struct sample_sys *sys;
	unsigned int nr_cpus;
	const bool *use;
	size_t page;
	bool no_cgroups, no_lost; /* not supported by this kernel */
	struct sample_set *sets;
};

struct samples *samples_create(unsigned int nr_cpus, const bool *use, const struct sample_sys *sys)
{
	struct samples *ss = calloc(1, sizeof(*ss));

	if (!ss)
		return NULL;
	ss->sys = sys ? sys : &sample_sys_real;
	ss->nr_cpus = nr_cpus;
	ss->use = use;
	ss->page = (size_t)sysconf(_SC_PAGESIZE);
	return ss;
}

void samples_destroy(struct samples *ss)
{
	free(ss);
}

/* ---- one event ---------------------------------------------------------------------------- */

static int try_open(const struct samples *ss, const struct sample_spec *spec, unsigned int cpu,
		    uint64_t *sample_type)
{
	struct perf_event_attr attr;
	int ret = vpmu_key_to_attr(spec->key, &attr);

	if (ret)
		return ret;
	attr.sample_type = RING_FIXED | (spec->chains ? PERF_SAMPLE_CALLCHAIN : 0) |
			   (ss->no_cgroups ? 0 : RING_SAMPLE_CGROUP);
	attr.read_format = ss->no_lost ? 0 : FORMAT_LOST;
	attr.sample_period = spec->period;
	attr.use_clockid = 1;
	attr.clockid = CLOCK_MONOTONIC;
	attr.disabled = 1;
	/* No wakeups: the ring is polled. */
	attr.watermark = 1;
	attr.wakeup_watermark = UINT32_MAX;
	*sample_type = attr.sample_type;
	return ss->sys->open(&attr, -1, (int)cpu);
}

/* EINVAL does not say which feature is missing: drop the newest ones in turn, and remember a
 * success for later events. */
static int events_open_event(struct samples *ss, const struct sample_spec *spec, unsigned int cpu,
			     uint64_t *sample_type)
{
	static const struct {
		bool no_cgroups, no_lost;
	} lacks[] = {{true, false}, {false, true}, {true, true}};
	const struct samples before = *ss;
	int ret = try_open(ss, spec, cpu, sample_type);

	for (size_t i = 0; ret == -EINVAL && i < sizeof(lacks) / sizeof(lacks[0]); i++) {
		ss->no_cgroups = before.no_cgroups || lacks[i].no_cgroups;
		ss->no_lost = before.no_lost || lacks[i].no_lost;
		ret = try_open(ss, spec, cpu, sample_type);
	}
	if (ret < 0) { /* the cause is something else */
		ss->no_cgroups = before.no_cgroups;
		ss->no_lost = before.no_lost;
	}
	return ret;
}

static int map_ring(const struct samples *ss, struct cpu_event *e)
{
	void *base = NULL;
	int ret = -ENOMEM;

	for (size_t bytes = RING_BYTES; bytes >= RING_BYTES_MIN && bytes >= ss->page; bytes /= 2) {
		ret = ss->sys->map(e->fd, ss->page + bytes, true, &base);
		if (!ret) {
			ring_init(&e->ring, base, ss->page, bytes);
			return 0;
		}
		if (ret != -EPERM && ret != -ENOMEM)
			return ret;
	}
	return -ENOMEM;
}

static void close_event(const struct samples *ss, struct cpu_event *e)
{
	if (e->fd < 0)
		return;
	if (e->ring.page)
		ss->sys->unmap(e->ring.page, ss->page + e->ring.bytes);
	ss->sys->close(e->fd);
	*e = (struct cpu_event){.fd = -1, .gone = e->gone};
}

static int open_cpu(struct samples *ss, struct sample_set *set, unsigned int cpu)
{
	struct cpu_event *e = &set->cpu[cpu];
	int ret;

	e->fd = events_open_event(ss, &set->spec, cpu, &e->sample_type);
	if (e->fd < 0) {
		ret = e->fd;
		e->fd = -1;
		return ret;
	}
	ret = map_ring(ss, e);
	if (ret)
		close_event(ss, e);
	return ret;
}

static int enable_cpu(const struct samples *ss, struct cpu_event *e)
{
	int ret = ss->sys->control(e->fd, PERF_EVENT_IOC_ENABLE, 0);

	if (ret)
		close_event(ss, e);
	return ret;
}

/* ---- rings -------------------------------------------------------------------------------- */

static void take_one(const struct ring_sample *s, void *arg)
{
	const struct sample_set *set = arg;

	for (struct sample_user *u = set->users; u; u = u->next)
		u->take(u, s);
}

static unsigned int take_set(struct sample_set *set, unsigned int nr_cpus)
{
	unsigned int fullest = 0;

	for (unsigned int cpu = 0; cpu < nr_cpus; cpu++) {
		struct cpu_event *e = &set->cpu[cpu];
		unsigned int percent;

		if (e->fd < 0)
			continue;
		percent = ring_read(&e->ring, e->sample_type, &e->counts, take_one, set);
		if (percent > fullest)
			fullest = percent;
	}
	return fullest;
}

unsigned int samples_take(struct samples *ss)
{
	unsigned int fullest = 0;

	for (struct sample_set *set = ss->sets; set; set = set->next) {
		unsigned int percent = take_set(set, ss->nr_cpus);

		if (percent > fullest)
			fullest = percent;
	}
	return fullest;
}

/* PERF_RECORD_LOST is only written with the next sample; the event's own number is current. */
static uint64_t lost_of(const struct samples *ss, const struct cpu_event *e)
{
	uint64_t lost = 0;

	if (ss->no_lost || ss->sys->lost(e->fd, &lost) || lost < e->counts.lost)
		return e->counts.lost;
	return lost;
}

/* All losses on the CPU of @e so far. */
static struct ring_counts events_cpu_counts(const struct samples *ss, const struct cpu_event *e)
{
	struct ring_counts all = e->gone;

	if (e->fd < 0)
		return all;
	all.lost += lost_of(ss, e);
	all.throttled += e->counts.throttled;
	all.bad += e->counts.bad;
	return all;
}

/* @cpus: those to add up; NULL: all. */
static void set_counts(const struct samples *ss, const struct sample_set *set, const bool *cpus,
		       struct ring_counts *out)
{
	*out = (struct ring_counts){0};
	for (unsigned int cpu = 0; cpu < ss->nr_cpus; cpu++) {
		struct ring_counts one;

		if (cpus && !cpus[cpu])
			continue;
		one = events_cpu_counts(ss, &set->cpu[cpu]);
		out->lost += one.lost;
		out->throttled += one.throttled;
		out->bad += one.bad;
	}
}

void samples_counts(const struct samples *ss, const struct sample_user *u, struct ring_counts *out)
{
	set_counts(ss, u->set, u->cpus, out);
	out->lost -= u->before.lost;
	out->throttled -= u->before.throttled;
	out->bad -= u->before.bad;
}

/* ---- sets --------------------------------------------------------------------------------- */

static void free_set(struct samples *ss, struct sample_set *set)
{
	struct sample_set **link = &ss->sets;

	while (*link && *link != set)
		link = &(*link)->next;
	if (*link)
		*link = set->next;
	for (unsigned int cpu = 0; cpu < ss->nr_cpus; cpu++)
		close_event(ss, &set->cpu[cpu]);
	free(set);
}

/* Maps errors to those of samples_open and samples_start. */
static int events_answer(int ret)
{
	switch (ret) {
	case -ENOMEM:
	case -EMFILE:
	case -ENFILE:
		return ret == -ENFILE ? -EMFILE : ret;
	case -EACCES:
	case -EPERM:
		return -EACCES;
	default:
		return -EOPNOTSUPP;
	}
}

static int open_set(struct samples *ss, const struct sample_spec *spec, struct sample_set **out)
{
	struct sample_set *set = calloc(1, sizeof(*set) + ss->nr_cpus * sizeof(set->cpu[0]));
	int error = -ENODEV, ret;
	bool any = false;

	if (!set)
		return -ENOMEM;
	set->spec = *spec;
	for (unsigned int cpu = 0; cpu < ss->nr_cpus; cpu++)
		set->cpu[cpu].fd = -1;
	for (unsigned int cpu = 0; cpu < ss->nr_cpus; cpu++) {
		if (!ss->use[cpu])
			continue;
		ret = open_cpu(ss, set, cpu);
		any |= !ret;
		/* A CPU that is going offline, or without such an event, has no samples. But lack
		 * of memory or files would leave unnoticed holes. */
		if (ret == -ENOMEM || ret == -EMFILE || ret == -ENFILE) {
			free_set(ss, set);
			return events_answer(ret);
		}
		if (ret && error == -ENODEV)
			error = ret;
	}
	if (!any) {
		free_set(ss, set);
		return events_answer(error);
	}
	set->next = ss->sets;
	ss->sets = set;
	*out = set;
	return 0;
}

static bool events_same(const struct sample_spec *a, const struct sample_spec *b)
{
	return a->key == b->key && a->period == b->period && a->chains == b->chains;
}

int samples_open(struct samples *ss, const struct sample_spec *spec, struct sample_user *u)
{
	struct sample_set *set = ss->sets;
	unsigned int nr = 0;
	int ret = 0;

	for (struct sample_set *s = ss->sets; s; s = s->next)
		nr++;
	while (set && !events_same(&set->spec, spec))
		set = set->next;
	if (!set)
		ret = nr == SAMPLE_SETS_MAX ? -E2BIG : open_set(ss, spec, &set);
	if (!ret)
		u->set = set;
	return ret;
}

int samples_start(struct samples *ss, struct sample_user *u)
{
	struct sample_set *set = u->set;
	int error = 0, ret;
	bool any = set->users;

	u->before = (struct ring_counts){0}; /* the first user of a set */
	if (set->users) {
		take_set(set, ss->nr_cpus); /* earlier samples are not this user's */
		set_counts(ss, set, u->cpus, &u->before);
	}
	for (unsigned int cpu = 0; !set->users && cpu < ss->nr_cpus; cpu++) {
		if (set->cpu[cpu].fd < 0)
			continue;
		ret = enable_cpu(ss, &set->cpu[cpu]);
		any |= !ret;
		error = ret ? ret : error;
	}
	if (!any)
		return events_answer(error);
	u->next = set->users;
	set->users = u;
	return 0;
}

void samples_stop(struct samples *ss, struct sample_user *u)
{
	struct sample_set *set = u->set;
	struct sample_user **link = &set->users;

	take_set(set, ss->nr_cpus);
	while (*link && *link != u)
		link = &(*link)->next;
	if (*link)
		*link = u->next;
	u->set = NULL;
	if (!set->users)
		free_set(ss, set);
}

void samples_cpus(struct samples *ss)
{
	for (struct sample_set *set = ss->sets; set; set = set->next) {
		for (unsigned int cpu = 0; cpu < ss->nr_cpus; cpu++) {
			struct cpu_event *e = &set->cpu[cpu];

			if (ss->use[cpu] && e->fd < 0) {
				if (set->users && !open_cpu(ss, set, cpu))
					enable_cpu(ss, e);
			} else if (!ss->use[cpu] && e->fd >= 0) {
				ring_read(&e->ring, e->sample_type, &e->counts, take_one, set);
				e->gone = events_cpu_counts(ss, e);
				close_event(ss, e);
			}
		}
	}
}
