// SPDX-License-Identifier: GPL-2.0-or-later
/* What counting adds to a context switch: the BPF backend, perf and empty programs in one run. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/kernel/kbench.h"

#define PLAYS	 6    /* of one measurement; the best one counts, for others use the CPU too */
#define SWITCHES 8000 /* of a play */

struct candidate {
	const char *name;
	enum who who;
	unsigned int tenants;
	int events; /* 4, 8, or 0: four that a switch does not count */
	int a, b;   /* the workers' cgroups */
	double ns[MAX_ROUNDS];
	bool ran[MAX_ROUNDS];
	bool never; /* it cannot run here; see why */
	char why[256];
	double best, added; /* after all rounds */
};

static double measure(struct candidate *c, enum work work, int cpu)
{
	unsigned int switches = work == WORK_YIELD ? 4 * SWITCHES : SWITCHES;
	double ns;

	if (!who_start(c->who, c->tenants, c->events, cpu, c->why, sizeof(c->why))) {
		c->never = true;
		return -1;
	}
	ns = play(work, c->a, c->b, cpu, switches);
	for (int i = 1; i < PLAYS; i++) {
		double more = play(work, c->a, c->b, cpu, switches);

		ns = more < ns ? more : ns;
	}
	who_stop();
	return ns;
}

/* The median of @c's cost over @base in the rounds that measured it. */
static double median_added(const struct candidate *c, const struct candidate *base,
			   unsigned int rounds)
{
	double v[MAX_ROUNDS];
	unsigned int n = 0;

	for (unsigned int r = 0; r < rounds; r++)
		if (c->ran[r] && base->ran[r])
			v[n++] = c->ns[r] - base->ns[r];
	return n ? median(v, n) : 0;
}

/* Others use the CPU, too: that only makes a round dearer. */
static double best(const struct candidate *c, unsigned int rounds)
{
	double ns = -1;

	for (unsigned int r = 0; r < rounds; r++)
		if (c->ran[r] && (ns < 0 || c->ns[r] < ns))
			ns = c->ns[r];
	return ns;
}

static const struct candidate *find(const struct candidate *c, unsigned int n, enum who who,
				    unsigned int tenants, int events, int a, int b)
{
	for (unsigned int i = 0; i < n; i++)
		if (c[i].who == who && c[i].tenants == tenants && c[i].events == events &&
		    c[i].a == a && c[i].b == b)
			return &c[i];
	return NULL;
}

static void print_ratio(const char *what, unsigned int tenants, const struct candidate *a,
			const struct candidate *b, double goal)
{
	if (a && b && a->best >= 0 && b->best >= 0 && b->added > 0)
		printf("%-52s %7u %6.2f   goal %.2f\n", what, tenants, a->added / b->added, goal);
}

/* The goals are ratios of one run. */
static void print_ratios(const struct candidate *c, unsigned int n)
{
	static const struct {
		const char *name;
		int a, b;
	} kinds[] = {{"within one tenant", 0, 0},
		     {"uncounted, one cgroup", 2, 2},
		     {"uncounted, two cgroups", 2, 3}};
	const struct candidate *least = NULL, *most = NULL;

	for (unsigned int i = 0; i < n; i++) {
		unsigned int t = c[i].tenants;

		if (c[i].who != BACKEND || c[i].a == c[i].b || c[i].a != 0 || !t)
			continue;
		if (c[i].events == 4) {
			print_ratio("4 events / perf --for-each-cgroup, 4 events", t, &c[i],
				    find(c, n, PERF, t, 4, 0, 1), 0.3);
			least = !least || c[i].added < least->added ? &c[i] : least;
			most = !most || c[i].added > most->added ? &c[i] : most;
		}
		print_ratio(c[i].events == 4 ? "4 events / perf --bpf-counters, 4 events"
					     : "8 events / perf --bpf-counters, 4 events",
			    t, &c[i], find(c, n, BPERF, t, 4, 0, 1), c[i].events == 4 ? 0.5 : 0.75);
	}
	if (least != most)
		print_ratio("4 events, the dearest number of tenants / the cheapest", most->tenants,
			    most, least, 1);
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		int a = kinds[i].a, b = kinds[i].b, other = a != b;
		const struct candidate *full = find(c, n, BACKEND, 2, 4, a, b);
		char what[100];

		snprintf(what, sizeof(what), "%s / empty tp_btf", kinds[i].name);
		print_ratio(what, 2, full, find(c, n, EMPTY_BTF, 0, 4, 0, other), 1.2);
		snprintf(what, sizeof(what), "%s / empty tp_btf and its events", kinds[i].name);
		print_ratio(what, 2, full, find(c, n, EMPTY_EVENTS, 0, 4, 0, other), 1.2);
		snprintf(what, sizeof(what), "%s, faults / empty tp_btf", kinds[i].name);
		print_ratio(what, 2, find(c, n, BACKEND, 2, 0, a, b),
			    find(c, n, EMPTY_BTF, 0, 4, 0, other), 1.2);
	}
}

static void print(struct candidate *c, const struct candidate *base, unsigned int rounds)
{
	if (c->best < 0) {
		printf("%-44s %7u %6d   cannot run here: %s\n", c->name, c->tenants, c->events,
		       c->why);
		return;
	}
	c->added = c->best - base->best;
	printf("%-44s %7u %6d %9.0f %9.0f %9.0f\n", c->name, c->tenants, c->events, c->best,
	       c->added, median_added(c, base, rounds));
}

static struct candidate cases[64];
static unsigned int nr_cases;

static void add(const char *name, enum who who, unsigned int tenants, int events, int a, int b)
{
	struct candidate *c = &cases[nr_cases++];

	c->name = name;
	c->who = who;
	c->tenants = tenants;
	c->events = events;
	c->a = a;
	c->b = b;
}

void bench_switch(enum work work, unsigned int rounds, const unsigned int *tenants, unsigned int nr,
		  int cpu)
{
	struct candidate *c = cases;
	unsigned int n;

	add("nothing", NOBODY, 0, 4, 0, 1);
	add("nothing, one cgroup", NOBODY, 0, 4, 0, 0);
	add("empty program, tp_btf", EMPTY_BTF, 0, 4, 0, 1);
	add("empty program, tp_btf, one cgroup", EMPTY_BTF, 0, 4, 0, 0);
	add("empty program, raw_tp", EMPTY_TP, 0, 4, 0, 1);
	add("empty program, raw_tp, one cgroup", EMPTY_TP, 0, 4, 0, 0);
	add("empty program, cgroup-switches", EMPTY_CG, 0, 4, 0, 1);
	add("empty program, cgroup-switches, one cgroup", EMPTY_CG, 0, 4, 0, 0);
	add("the 4 events alone", EVENTS, 0, 4, 0, 1);
	add("the 4 events alone, one cgroup", EVENTS, 0, 4, 0, 0);
	add("the 4 events, empty tp_btf", EMPTY_EVENTS, 0, 4, 0, 1);
	add("the 4 events, empty tp_btf, one cgroup", EMPTY_EVENTS, 0, 4, 0, 0);
	add("vpmu, nobody counts", BACKEND, 0, 4, 0, 1);
	add("vpmu, within one tenant", BACKEND, 2, 4, 0, 0);
	add("vpmu, uncounted tasks of one cgroup", BACKEND, 2, 4, 2, 2);
	add("vpmu, uncounted tasks of two cgroups", BACKEND, 2, 4, 2, 3);
	add("vpmu, within one tenant, 4 kinds of faults", BACKEND, 2, 0, 0, 0);
	add("vpmu, uncounted, one cgroup, 4 kinds of faults", BACKEND, 2, 0, 2, 2);
	add("vpmu, uncounted, two cgroups, 4 kinds of faults", BACKEND, 2, 0, 2, 3);
	ground_need(4);
	for (unsigned int i = 0; i < nr; i++) {
		ground_need(tenants[i] < 4 ? 4 : tenants[i]);
		for (int events = 4; events <= 8; events += 4) {
			add("vpmu", BACKEND, tenants[i], events, 0, 1);
			add("perf --bpf-counters", BPERF, tenants[i], events, 0, 1);
			add("perf", PERF, tenants[i], events, 0, 1);
		}
	}
	n = nr_cases;
	for (unsigned int r = 0; r < rounds; r++) {
		for (unsigned int i = 0; i < n; i++) {
			if (c[i].never)
				continue;
			c[i].ns[r] = measure(&c[i], work, cpu);
			c[i].ran[r] = c[i].ns[r] >= 0;
		}
	}
	printf("%-44s %7s %6s %9s %9s %9s\n", "added CPU ns per switch", "tenants", "events",
	       "best ns", "added", "median");
	for (unsigned int i = 0; i < n; i++)
		c[i].best = best(&c[i], rounds);
	for (unsigned int i = 0; i < n; i++)
		print(&c[i], &c[c[i].a == c[i].b], rounds);
	print_ratios(c, n);
}
