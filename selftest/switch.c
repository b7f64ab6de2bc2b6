// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Context switches between two cgroups on one CPU: their number, and their cost with and without
 * counting. The cost is a line about the host: there is no right one. run.c calls this.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "selftest/priv.h"
#include "vpmu/util/clock.h"
#include "vpmu/util/proctext.h"

/* On a busy CPU others run for milliseconds after each yield. Then one short round is enough. */
enum { SWITCH_ROUNDS = 5, SWITCH_YIELDS = 4000, SWITCH_FEW = 400, SWITCH_PROBE = 50 };
static const uint64_t switch_busy_ns = 500000; /* of a yield */
/* Each worker begins and ends a round in a read(2), where it may be in either round. */
enum { SWITCH_EDGES = 4 };

/* How often @w has lost its CPU. */
static uint64_t switch_of(const struct worker *w)
{
	/* The last one first, as the text ends behind a line that was found. */
	static const char *const names[] = {"nonvoluntary_ctxt_switches:",
					    "voluntary_ctxt_switches:"};
	char status[65536], *field; /* the user's groups come first, and can be thousands */
	uint64_t sum = 0;

	proctext_read(status, sizeof(status), "/proc/%d/status", (int)w->pid);
	for (int i = 0; i < 2; i++) {
		field = proctext_field(status, names[i]);
		sum += field ? strtoull(field, NULL, 10) : 0;
	}
	return sum;
}

/* The CPU time of @w, which is its own whatever else runs. */
static uint64_t switch_ns(const struct worker *w)
{
	clockid_t clock;

	return clock_getcpuclockid(w->pid, &clock) ? 0 : clock_ns(clock);
}

/* Both yield the CPU to each other, @n times each; *@least: the lowest cost so far. */
static int switch_round(struct selftest *t, const struct worker w[2], uint64_t n,
			uint64_t *switches, uint64_t *least)
{
	uint64_t ns = switch_ns(&w[0]) + switch_ns(&w[1]);
	int ret = 0;

	*switches = switch_of(&w[0]) + switch_of(&w[1]);
	for (int i = 0; i < 2 && !ret; i++)
		ret = worker_begin(t, &w[i], WORK_YIELD, n);
	for (int i = 0; i < 2 && !ret; i++)
		ret = worker_wait(t, &w[i]);
	*switches = switch_of(&w[0]) + switch_of(&w[1]) - *switches;
	ns = switch_ns(&w[0]) + switch_ns(&w[1]) - ns;
	if (!ret && *switches >= n && ns / *switches < *least)
		*least = ns / *switches;
	return ret;
}

/* *@whole: the rounds whose counts say that they are whole. */
static int switch_counted(struct selftest *t, const struct worker w[2], uint64_t n,
			  const vpmu_key_t *keys, size_t nr, uint64_t *least, unsigned int *whole)
{
	uint64_t switches, seen;
	int ret = measure_begin(t, keys, nr);

	if (!ret)
		ret = switch_round(t, w, n, &switches, least);
	if (ret)
		return ret;
	measure_end(t);
	if (measure_partial(t))
		return 0; /* the next round may be whole */
	++*whole;
	seen = t->value[NODE_A][0].count + t->value[NODE_B][0].count;
	selftest_expect(t, "context-switches",
			switches > SWITCH_EDGES ? switches - SWITCH_EDGES : 0,
			switches + SWITCH_EDGES, seen, "of both workers, by /proc/PID/status");
	return 0;
}

void check_switch(struct selftest *t)
{
	struct worker w[2] = {{.to = -1, .from = -1}, {.to = -1, .from = -1}};
	vpmu_key_t keys[1 + SELFTEST_KNOWN];
	uint64_t plain = UINT64_MAX, counted = UINT64_MAX, switches, ns, n;
	unsigned int whole = 0;
	bool busy;
	char why[200];
	size_t nr = 1;
	int ret = vpmu_event_parse("context-switches", vpmu_event_host_space(), &keys[0], why,
				   sizeof(why));

	for (const struct known *k = t->known; k < t->known + SELFTEST_KNOWN; k++)
		if (k->usable)
			keys[nr++] = k->key;
	for (unsigned int i = 0; i < 2 && !ret; i++) {
		ret = worker_start(t, i, &w[i]);
		if (!ret)
			ret = worker_do(t, &w[i], WORK_PIN, t->cpus[0]);
	}
	ns = clock_ns(CLOCK_MONOTONIC);
	if (!ret)
		ret = switch_round(t, w, SWITCH_PROBE, &switches, &plain);
	busy = clock_ns(CLOCK_MONOTONIC) - ns > SWITCH_PROBE * switch_busy_ns;
	n = busy ? SWITCH_FEW : SWITCH_YIELDS;
	plain = busy ? 0 : UINT64_MAX; /* not measured */
	for (int i = 0; i < SWITCH_ROUNDS && !ret && !(busy && whole); i++) {
		if (!busy)
			ret = switch_round(t, w, n, &switches, &plain);
		if (!ret)
			ret = switch_counted(t, w, n, keys, nr, &counted, &whole);
	}
	if (ret)
		selftest_give_up(t, "a worker", ret);
	else if (plain == UINT64_MAX || counted == UINT64_MAX)
		selftest_skip(t, "the workers did not switch to each other");
	else if (!whole)
		selftest_skip(t, "partial, %d times", SWITCH_ROUNDS);
	else if (busy)
		selftest_fact(t, "switch cost", "not measured: CPU %u is busy", t->cpus[0]);
	else
		selftest_fact(t, "switch cost",
			      "%" PRIu64 " ns from one cgroup to another, %" PRIu64
			      " ns while %zu events are counted",
			      plain, counted, nr);
	for (int i = 0; i < 2; i++)
		worker_end(&w[i]);
}
