/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the two tests of the perf host PMU. */
#ifndef TESTS_UNIT_PERF_BED_H
#define TESTS_UNIT_PERF_BED_H

#include <criterion/criterion.h>

#include <errno.h>
#include <semaphore.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "vpmu/event/event.h"
#include "vpmu/host/perf_priv.h"

#define UK	    (VPMU_KEY_USR | VPMU_KEY_OS)
#define CTR_TSC	    30
#define CTR_NOMINAL 31

static inline vpmu_key_t sw_key(unsigned int ev)
{
	return vpmu_key_make(VPMU_SPACE_SOFTWARE, (uint16_t)ev,
			     UK | VPMU_KEY_GUEST | VPMU_KEY_HOST);
}

static inline int gettid_(void)
{
	return (int)syscall(SYS_gettid);
}

/* A PMU of the calling thread. */
static inline void thread_pmu(struct vpmu_hostpmu_perf *p)
{
	struct vpmu_hostpmu_perf_opts opts = {.cpu = VPMU_PERF_THREAD};

	cr_assert(!vpmu_hostpmu_perf_init(p, &opts));
	vpmu_hostpmu_perf_set_thread(p, gettid_());
}

/* Bind @key to the first counter that can count it. */
static inline unsigned int bind_key(struct vpmu_hostpmu_perf *p, vpmu_key_t key)
{
	uint32_t ctrs = p->pmu.ops->eligible(&p->pmu, key);
	unsigned int ctr;

	cr_assert(ctrs);
	for (ctr = (unsigned int)__builtin_ctz(ctrs); p->ctr[ctr].key; ctr++)
		;
	cr_assert(ctrs & 1u << ctr);
	cr_assert(!p->pmu.ops->bind(&p->pmu, ctr, key));
	return ctr;
}

static inline uint64_t read_ctr(struct vpmu_hostpmu_perf *p, unsigned int ctr)
{
	return p->pmu.ops->read(&p->pmu, ctr);
}

/* ---- properties that the PMU relies on, of the fake kernel and of the real one ---- */

static inline struct vpmu_perf_reading reading_of(int fd)
{
	struct vpmu_perf_reading r;

	cr_assert(!vpmu_perf_sys->read(fd, &r));
	return r;
}

/* Which times of @fd's event grow from one reading to the next. */
struct growing {
	bool enabled_ns, running_ns;
};

static inline struct growing growing(int fd)
{
	struct vpmu_perf_reading a = reading_of(fd), b = reading_of(fd);

	return (struct growing){b.enabled_ns > a.enabled_ns, b.running_ns > a.running_ns};
}

#define GROWS(fd, field) (growing(fd).field)

/* A group of software events of the calling thread: when its times stand still. */
static inline void group_rules(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		/* Of the same PMU as the leader, as hardware events are once the kernel has moved
		 * the leader to theirs. (Linux 6.18 does not start a clock in such a group before
		 * the next context switch: clocks are PMUs of their own.) */
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.exclude_kernel = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	const int leader = vpmu_perf_open_leader(0, -1, false);
	struct vpmu_perf_reading r;
	int off, on;

	cr_assert_geq(leader, 0);
	/* All events of a group have the same clock. */
	vpmu_perf_clock_attr(&attr);
	on = vpmu_perf_sys->open(&attr, 0, -1, leader);
	attr.disabled = 1;
	off = vpmu_perf_sys->open(&attr, 0, -1, leader);
	cr_assert(on >= 0 && off >= 0);
	/* A group with a leader that is off has no time, whatever its members have: this asks how
	 * many counters there are. */
	cr_expect(!GROWS(on, enabled_ns) && !GROWS(off, enabled_ns));
	cr_assert(!vpmu_perf_sys->enable(leader, true));
	cr_expect(GROWS(on, enabled_ns) && GROWS(on, running_ns));
	cr_expect(!GROWS(off, enabled_ns));
	/* A member is stopped and goes on by itself. Its count stays: this is a turn. */
	cr_assert(!vpmu_perf_sys->enable(on, false));
	r = reading_of(on);
	cr_expect(!GROWS(on, enabled_ns) && !GROWS(on, running_ns));
	cr_assert(!vpmu_perf_sys->enable(off, true));
	cr_expect(GROWS(off, running_ns) && !GROWS(on, enabled_ns));
	cr_assert(!vpmu_perf_sys->enable(on, true));
	cr_expect(GROWS(on, running_ns));
	cr_expect(reading_of(on).enabled_ns > r.enabled_ns && reading_of(on).value >= r.value);
	/* Only a leader can be pinned. */
	attr.pinned = 1;
	cr_expect_eq(vpmu_perf_sys->open(&attr, 0, -1, leader), -EINVAL);
	vpmu_perf_sys->close(on);
	vpmu_perf_sys->close(off);
	vpmu_perf_sys->close(leader);
}

static inline void spin(void)
{
	for (volatile unsigned int i = 0; i < 1000000; i++)
		;
}

/* A thread that reports its tid, then works at each go. */
struct sleeper {
	sem_t go, done;
	int tid;
};

static inline void *sleeper(void *arg)
{
	struct sleeper *s = arg;

	s->tid = gettid_();
	sem_post(&s->done);
	sem_wait(&s->go);
	spin();
	sem_post(&s->done);
	sem_wait(&s->go);
	return NULL;
}

/* The raw key of @config in the vendor space of the CPU that the test runs on. */
static inline vpmu_key_t fake_raw(uint64_t config)
{
	enum vpmu_space space = VPMU_SPACE_AMD;
	struct perf_event_attr attr;
	vpmu_key_t key = vpmu_key_from_raw(space, config, UK | VPMU_KEY_GUEST);

	if (vpmu_key_to_attr(key, &attr))
		key = vpmu_key_from_raw(VPMU_SPACE_INTEL, config, UK | VPMU_KEY_GUEST);
	return key;
}

#endif
