/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A vCPU thread whose keys are counted on the fake kernel of fake_perf.h, and what its readers see.
 */
#ifndef TESTS_UNIT_PERF_COUNT_BED_H
#define TESTS_UNIT_PERF_COUNT_BED_H

#include "conserved.h"
#include "perf_core_bed.h"

#define BRANCHES vpmu_key_generic(VPMU_EV_BRANCHES, UK)
#define KEYS_MAX 16

struct bed {
	struct perf_core k;
	struct vpmu_consumer c[KEYS_MAX];
	unsigned int nr;
};

static inline void begin(struct bed *b, unsigned int leave, bool pinned)
{
	memset(b, 0, sizeof(*b));
	perf_core_begin(&b->k,
			(struct vpmu_hostpmu_perf_opts){.leave_counters = leave, .pinned = pinned});
}

static inline struct vpmu_consumer *count(struct bed *b, vpmu_key_t key)
{
	struct vpmu_consumer *c = &b->c[b->nr++];
	int rc = vpmu_consumer_add(c, b->k.vm, key, NULL);

	cr_assert(!rc || rc == -EOPNOTSUPP);
	return c;
}

static inline struct vpmu_value read_now(struct bed *b, const struct vpmu_consumer *c)
{
	return perf_core_read(&b->k, c);
}

/* The guest runs for @ms, and its pCPU ticks every @each ms. */
static inline void run_ticking(struct bed *b, unsigned int ms, unsigned int each)
{
	for (unsigned int done = 0; done < ms; done += each) {
		fake_run(each * MS);
		vpmu_pcpu_tick(b->k.pcpu);
	}
}

static inline void end(struct bed *b)
{
	conserved(b->k.host);
	while (b->nr)
		vpmu_consumer_del(&b->c[--b->nr], NULL, NULL);
	perf_core_end(&b->k);
}

/* The bed of the test that runs. */
static struct bed b;

static inline void end_last(void)
{
	if (b.k.host)
		end(&b);
}

static inline void setup(void)
{
	fake_start(4, true);
}

/* Percent of its time that @v was counted. */
static inline unsigned int share(const struct vpmu_value *v)
{
	return v->enabled_ns ? (unsigned int)(v->running_ns * 100 / v->enabled_ns) : 0;
}

static inline bool exact(const struct vpmu_value *v)
{
	return v->supported && v->quality == VPMU_Q_EXACT && !v->partial;
}

#endif
