// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * More events than counters: each waits for its turn and says so; nothing is lost in the changes;
 * an estimate of a known count is near it. run.c calls this.
 */
#include <stdio.h>
#include <string.h>

#include "selftest/priv.h"

#define MANY_ROUNDS 200 /* at most, until each event has had a counter */
#define MANY_ENOUGH 20	/* percent of the time with a counter for a good estimate */

static uint64_t many_loop(const struct selftest *t)
{
	return work_n(t, WORK_LOOP) / 5;
}

static size_t many_keys(const struct selftest *t, vpmu_key_t *keys)
{
	static const char *const events[] = {"instructions:uH",
					     "branches:uH",
					     "instructions:kH",
					     "instructions:H",
					     "cycles:uH",
					     "cycles:kH",
					     "cycles:H",
					     "branches:kH",
					     "branches:H",
					     "branch-misses:uH",
					     "branch-misses:kH",
					     "branch-misses:H",
					     "ref-cycles:uH",
					     "ref-cycles:kH",
					     "cache-references:uH",
					     "cache-references:kH",
					     "cache-references:H",
					     "cache-misses:uH",
					     "cache-misses:kH",
					     "cache-misses:H",
					     "instructions:uGH",
					     "instructions:kGH",
					     "instructions:GH",
					     "cycles:uGH",
					     "cycles:kGH",
					     "cycles:GH",
					     "branches:GH",
					     "branches:uGH",
					     "page-faults",
					     "context-switches",
					     "cpu-migrations",
					     "minor-faults"};
	enum vpmu_quality q;
	char why[200];
	size_t n = 0;

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]) && n < SELFTEST_KEYS; i++)
		if (!vpmu_event_parse(events[i], vpmu_event_host_space(), &keys[n], why,
				      sizeof(why)) &&
		    vpmu_backend_can_count(t->s, keys[n], &q, why, sizeof(why)))
			n++;
	return n;
}

/* Returns true once each event of cgroup a has been counted for some of the time. */
static bool many_enough(struct selftest *t)
{
	measure_read(t);
	for (size_t i = 0; i < t->nr_keys; i++) {
		const struct vpmu_value *v = &t->value[NODE_A][i];

		if (v->supported && v->running_ns < v->enabled_ns / 20)
			return false;
	}
	return true;
}

static void many_expect(struct selftest *t, uint64_t rounds)
{
	struct bpf_backend_budget b;
	char name[VPMU_EVENT_NAME_MAX], subject[VPMU_EVENT_NAME_MAX + 16];
	unsigned int waited = 0, hardware = 0;

	for (size_t i = 0; i < t->nr_keys; i++) {
		const struct vpmu_value *v = &t->value[NODE_A][i];

		if (!v->supported)
			continue;
		hardware += vpmu_key_space(t->keys[i]) != VPMU_SPACE_SOFTWARE;
		waited += v->running_ns < v->enabled_ns;
		selftest_expect(t, "time with a counter", 0, v->enabled_ns, v->running_ns, "%s",
				vpmu_event_name(t->keys[i], name));
	}
	bpf_backend_budget(t->k, &b);
	if (b.known && hardware > b.general + b.fixed)
		selftest_expect(t, "events that waited", hardware - b.general - b.fixed, hardware,
				waited, "they share %u counters", b.general + b.fixed);
	for (const struct known *k = t->known; k < t->known + SELFTEST_KNOWN; k++) {
		const uint64_t n =
			k->unit * rounds * (k->work == WORK_FAULTS ? 1000 : many_loop(t));

		for (size_t i = 0; i < t->nr_keys && k->usable; i++) {
			const struct vpmu_value *v = &t->value[NODE_A][i];

			if (t->keys[i] != k->key || !v->supported || v->partial ||
			    v->running_ns < v->enabled_ns / 100 * MANY_ENOUGH)
				continue;
			snprintf(subject, sizeof(subject), "%s, %s", k->event,
				 v->running_ns < v->enabled_ns ? "estimated" : "counted");
			if (v->running_ns < v->enabled_ns)
				selftest_expect(t, subject, n / 2, n * 2, vpmu_value_scaled(v),
						"the estimate is not of this work");
			else /* the loop that touches pages is user mode, too */
				selftest_expect(t, subject, n, k->hardware ? n + n / 10 : n,
						v->count, "it always had a counter");
		}
	}
}

void check_many(struct selftest *t)
{
	struct worker w = {.to = -1, .from = -1};
	vpmu_key_t keys[SELFTEST_KEYS];
	uint64_t rounds = 0;
	int ret = worker_start(t, NODE_A, &w);

	if (!ret)
		ret = measure_begin(t, keys, many_keys(t, keys));
	while (!ret && rounds < MANY_ROUNDS && (rounds < 10 || !many_enough(t))) {
		ret = worker_do(t, &w, WORK_LOOP, many_loop(t));
		if (!ret)
			ret = worker_do(t, &w, WORK_FAULTS, 1000);
		rounds++;
	}
	if (!ret) {
		expect_conserved(t);
		measure_end(t);
		many_expect(t, rounds);
		expect_sum(t);
	}
	worker_end(&w);
	if (ret)
		selftest_give_up(t, "a worker", ret);
}
