// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of known work: their number, and where they are. run.c calls this.
 *
 * Skid: an interrupt for an overflow comes some instructions late (Intel SDM vol. 3, "Precise Event
 * Based Sampling"). In the middle of a loop of a million rounds that is within the loop; a sample
 * elsewhere is the worker's code around it, or an address that is wrong.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "selftest/priv.h"

struct samples {
	atomic_uint_fast64_t periods, unknown; /* periods; of these, with the serial of no cgroup */
	uint64_t serial;
};

static void samples_take(void *arg, const struct vpmu_backend_sample *s)
{
	struct samples *n = arg;

	atomic_fetch_add(&n->periods, s->periods);
	if (s->serial != n->serial)
		atomic_fetch_add(&n->unknown, s->periods);
}

/* Returns 0, or -EOPNOTSUPP: nothing is sampled here. */
static int samples_of(struct selftest *t, const struct known *k)
{
	const uint64_t n = work_n(t, k->work), rounds = 5;
	struct samples got = {.serial = t->node[NODE_A]->serial};
	struct vpmu_sampling_opts o = {
		.key = k->key, .period = n * k->unit / 10 + 3, .sample = samples_take, .arg = &got};
	const uint64_t most = rounds * n * k->unit / o.period;
	struct vpmu_sampling_state state = {0};
	struct vpmu_sampling *s = NULL;
	struct worker w = {.to = -1, .from = -1};
	char subject[VPMU_EVENT_NAME_MAX + 32];
	uint64_t interrupts;
	int ret = worker_start(t, NODE_A, &w);

	if (!ret)
		ret = vpmu_backend_sample_start(t->node[NODE_A], &o, &s);
	interrupts = host_interrupts();
	for (uint64_t i = 0; i < rounds && !ret; i++) {
		ret = worker_do(t, &w, k->work, n);
		vpmu_backend_sample_take(t->s);
	}
	if (!ret) {
		vpmu_backend_flush_node(t->node[NODE_A]);
		vpmu_backend_sample_take(t->s);
		vpmu_backend_sample_state(s, &state);
		interrupts = t->o->exact || !k->hardware ? 0 : host_interrupts() - interrupts;
		snprintf(subject, sizeof(subject), "%s, samples", k->event);
		if (state.throttled || state.lost)
			selftest_skip(t,
				      "%s: %llu lost, the kernel has stopped sampling %llu times",
				      subject, (unsigned long long)state.lost,
				      (unsigned long long)state.throttled);
		else
			/* A CPU's event is everyone's: a period that ends in the worker may have
			 * begun in other tasks. */
			selftest_expect(t, subject, most - most / 4 - 5,
					most + most / 4 + 5 + interrupts / o.period,
					atomic_load(&got.periods), "period %llu",
					(unsigned long long)o.period);
		selftest_expect(t, "samples of an unknown cgroup", 0, 0, atomic_load(&got.unknown),
				"%s", k->event);
	}
	vpmu_backend_sample_stop(s);
	worker_end(&w);
	return ret;
}

void check_samples(struct selftest *t)
{
	unsigned int sampled = 0;
	int ret = 0;

	if (!(t->s->can & VPMU_BACKEND_SAMPLES)) {
		selftest_skip(t, "the backend does not sample");
		return;
	}
	for (const struct known *k = t->known; k < t->known + SELFTEST_KNOWN && !ret; k++) {
		ret = k->usable ? samples_of(t, k) : 0;
		sampled += k->usable && !ret;
		if (ret == -EOPNOTSUPP)
			ret = 0;
	}
	if (ret)
		selftest_give_up(t, "sampling", ret);
	else if (!sampled)
		selftest_skip(t, "no event with a known count can be sampled");
}
