/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For the tests of alarms and samplers: an engine that stops where the PMU's alarm is due, as the
 * emulator does, and the samplers, with a plain account of the moments of their samples.
 *
 * A vCPU's instruction pointer is the number of events it has executed, of every kind alike.
 */
#ifndef TESTS_UNIT_SAMPLING_BED_H
#define TESTS_UNIT_SAMPLING_BED_H

#include <stdlib.h>
#include <string.h>

#include "core_bed.h"
#include "vpmu/alarm.h"
#include "vpmu/sampler.h"

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

/* The period of a consumer with an alarm. */
struct tick {
	struct vpmu_alarm alarm;
	struct vpmu_consumer c;
	int vcpu;
	uint64_t period;
	/* what happened */
	uint64_t fires, over, last_over;
	bool set;
};

static inline uint64_t tick_fire(struct vpmu_alarm *a, uint64_t over)
{
	struct tick *t = container_of(a, struct tick, alarm);

	t->fires++;
	t->over += over;
	t->last_over = over;
	return t->period;
}

static inline void tick_set(struct tick *t, struct bed *b, struct vpmu_pcpu *p)
{
	t->alarm.fire = tick_fire;
	vpmu_alarm_set(&t->alarm, &b->ctx[t->vcpu], &t->c, p, t->period);
	t->set = true;
	t->fires = t->over = 0;
}

static inline void tick_add(struct tick *t, struct bed *b, struct vpmu_pcpu *p, int vcpu,
			    vpmu_key_t key, uint64_t period)
{
	*t = (struct tick){.vcpu = vcpu, .period = period};
	cr_assert_eq(vpmu_consumer_add(&t->c, b->vcpu[vcpu], key, p), 0);
	tick_set(t, b, p);
}

static inline void tick_del(struct tick *t, struct vpmu_pcpu *p)
{
	vpmu_alarm_clear(&t->alarm, p);
	vpmu_consumer_del(&t->c, p, NULL);
	t->set = false;
}

/* Those of @n ticks that are set end; no other alarm may be there. */
static inline void ticks_end(struct bed *b, struct tick *t, int n)
{
	for (int i = 0; i < n; i++)
		if (t[i].set)
			tick_del(&t[i], b->ctx[t[i].vcpu].pcpu);
	for (int p = 0; p < BED_PCPUS; p++) {
		vpmu_pcpu_flush(b->p[p]);
		cr_assert_eq(b->pmu[p].tally->armed, 0);
	}
}

/* A sampler's samples, by pCPU. */
struct prof {
	struct vpmu_sampler *s;
	uint64_t period;
	uint64_t samples[BED_PCPUS + 1], calls, unknown;
	uint64_t ip; /* of the newest */
	const struct vpmu_context *ctx;
	unsigned int pcpu;
	uint64_t time_ns, periods, over;
};

static inline void prof_sample(void *arg, const struct vpmu_sample *s)
{
	struct prof *f = arg;

	f->samples[s->pcpu] += s->periods;
	f->calls++;
	f->unknown += !s->where_known;
	f->ip = s->where.ip;
	f->ctx = s->ctx;
	f->pcpu = s->pcpu;
	f->time_ns = s->time_ns;
	f->periods = s->periods;
	f->over = s->over;
}

static inline int prof_open(struct prof *f, struct bed *b, struct vpmu_account *account,
			    vpmu_key_t key, uint64_t period)
{
	*f = (struct prof){.period = period};
	return vpmu_sampler_create(b->host,
				   &(struct vpmu_sampler_opts){.account = account,
							       .key = key,
							       .period = period,
							       .sample = prof_sample,
							       .arg = f},
				   &f->s);
}

static inline void prof_close(struct prof *f)
{
	vpmu_sampler_destroy(f->s);
	f->s = NULL;
}

/* ---- PMUs that are not on time, or watched ---- */

static struct vpmu_hostpmu_ops odd_ops;
static unsigned int odd_arms, odd_reads;
static void (*odd_real_arm)(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events);
static uint64_t (*odd_real_read)(struct vpmu_hostpmu *pmu, unsigned int ctr);

static inline void arm_early(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events)
{
	odd_arms++;
	odd_real_arm(pmu, ctr, events ? (events + 2) / 3 : 0);
}

static inline void arm_late(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events)
{
	odd_arms++;
	odd_real_arm(pmu, ctr, events ? events + 13 : 0);
}

static inline void arm_counted(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events)
{
	odd_arms++;
	odd_real_arm(pmu, ctr, events);
}

static inline uint64_t read_counted(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	odd_reads++;
	return odd_real_read(pmu, ctr);
}

/* All pCPUs get the same PMU with another @arm, read by calls. */
static inline void odd(struct bed *b,
		       void (*arm)(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events))
{
	odd_ops = *b->pmu[0].pmu.ops;
	odd_real_arm = odd_ops.arm;
	odd_real_read = odd_ops.read;
	odd_ops.arm = arm;
	odd_ops.read = read_counted;
	odd_arms = odd_reads = 0;
	for (int i = 0; i < BED_PCPUS; i++) {
		b->pmu[i].pmu.ops = &odd_ops;
		b->pmu[i].pmu.word = NULL;
	}
}

/* ---- the engine ---- */

static uint64_t bed_ip[BED_VCPUS]; /* events each vCPU has executed */
static struct bed *bed_now;

static inline int bed_where(struct vpmu_context *ctx, struct vpmu_where *out)
{
	*out = (struct vpmu_where){.ip = bed_ip[ctx - bed_now->ctx], .cpl = 3};
	return 0;
}

/* Again, with others of @opts, too: the bed that was begun ends. */
static inline void engine_init(struct bed *b, const struct vpmu_emupmu_opts *opts)
{
	if (b->host)
		bed_fini(b);
	bed_init(b, opts);
	bed_now = b;
	memset(bed_ip, 0, sizeof(bed_ip));
	for (int i = 0; i < BED_VCPUS; i++)
		b->ctx[i].where = bed_where;
}

/* Events until the first alarm of pCPU @p is due. */
static inline uint64_t alarm_left(const struct bed *b, int p)
{
	const struct vpmu_emu_tally *t = b->pmu[p].tally;
	uint64_t least = UINT64_MAX;

	for (uint32_t armed = t->armed; armed; armed &= armed - 1) {
		uint64_t left = vpmu_emu_alarm_left(t, &t->alarm[__builtin_ctz(armed)]);

		least = left < least ? left : least;
	}
	return least;
}

/*
 * vCPU @v, which is current on pCPU @p (-1: the host; nothing guest keys count), executes @n events
 * by instructions of @size events each; stops behind each instruction that makes an alarm due, and
 * answers it. Returns how often it stopped.
 */
static inline unsigned int engine_run(struct bed *b, int p, int v, uint64_t n, uint64_t size)
{
	unsigned int stops = 0;

	while (n) {
		uint64_t left = alarm_left(b, p), run = n;

		cr_assert_gt(left, 0, "an alarm is due when the guest is entered");
		if (left < run)
			run = (left + size - 1) / size * size;
		run = run < n ? run : n;
		if (v >= 0)
			bed_ip[v] += run;
		bed_run(b, p, run);
		n -= run;
		if (!alarm_left(b, p)) {
			vpmu_pcpu_overflow(b->p[p]);
			stops++;
		}
	}
	return stops;
}

#endif
