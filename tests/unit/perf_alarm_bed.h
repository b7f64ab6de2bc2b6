/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A vCPU thread with one counter of its guest and an alarm on it. */
#ifndef TESTS_UNIT_PERF_ALARM_BED_H
#define TESTS_UNIT_PERF_ALARM_BED_H

#include "perf_core_bed.h"
#include "vpmu/alarm.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <x86intrin.h>

#define REF_CYCLES vpmu_key_generic(VPMU_EV_REF_CYCLES, UK)
#define SIGNAL	   (SIGRTMIN + 9)

static uint64_t guest_ticks;

static inline uint64_t ticks(void *arg)
{
	return *(uint64_t *)arg;
}

struct alarm {
	struct vpmu_alarm a; /* first */
	uint64_t period, fired, latest;
};

static inline uint64_t fire(struct vpmu_alarm *a, uint64_t over)
{
	struct alarm *m = (struct alarm *)a;

	m->fired++;
	m->latest = over > m->latest ? over : m->latest;
	return m->period;
}

struct bed {
	struct perf_core k;
	struct vpmu_consumer guest;
	struct alarm alarm;
};

static inline void begin_with(struct bed *b, struct vpmu_hostpmu_perf_opts opts)
{
	memset(b, 0, sizeof(*b));
	opts.alarm_signal = SIGNAL;
	perf_core_begin(&b->k, opts);
}

static inline void set_alarm(struct bed *b, vpmu_key_t key, uint64_t period)
{
	cr_assert(!vpmu_consumer_add(&b->guest, b->k.vm, key, b->k.pcpu));
	b->alarm.a.fire = fire;
	b->alarm.period = period;
	vpmu_alarm_set(&b->alarm.a, &b->k.ctx, &b->guest, b->k.pcpu, period);
}

/* The guest runs for @us and leaves only when a signal takes it out. */
static inline unsigned int run_guest(struct bed *b, unsigned int us)
{
	unsigned int exits = 0;

	for (unsigned int done = 0; done < us; done += 2) {
		unsigned int before = fake.signals;

		guest_ticks += 2 * 2000;
		fake_run(2000);
		if (fake.signals == before)
			continue;
		exits++;
		vpmu_pcpu_overflow(b->k.pcpu);
	}
	return exits;
}

static inline struct vpmu_value value(struct bed *b)
{
	return perf_core_read(&b->k, &b->guest);
}

static inline uint64_t counted(struct bed *b)
{
	return value(b).count;
}

static inline struct fake_event *event_of(uint64_t config)
{
	struct fake_event *found = NULL;

	fake_for_each(e)
	{
		if (!e->used || e->attr.type != PERF_TYPE_HARDWARE ||
		    (e->attr.config & 0xff) != config)
			continue;
		cr_assert(!found, "two events of one key");
		found = e;
	}
	return found;
}

static inline void end(struct bed *b)
{
	vpmu_alarm_clear(&b->alarm.a, b->k.pcpu);
	vpmu_consumer_del(&b->guest, b->k.pcpu, NULL);
	perf_core_end(&b->k);
	cr_expect(!fake.timer[0].used && !fake.timer[1].used);
}

/* The bed of the test that runs. */
static struct bed b;

/* An alarm on @key, which is counted by the TSC if it is ref-cycles. */
static inline void begin_alarm(vpmu_key_t key, uint64_t period)
{
	begin_with(&b, key == REF_CYCLES ? (struct vpmu_hostpmu_perf_opts){.guest_tsc = ticks,
									   .arg = &guest_ticks}
					 : (struct vpmu_hostpmu_perf_opts){0});
	set_alarm(&b, key, period);
}

static inline void end_last(void)
{
	if (b.k.host)
		end(&b);
}

static inline void setup(void)
{
	fake_start(4, false);
}

#endif
