// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Preemption by other tenants on the running kernel: tasks of two tenants share one CPU. What the
 * program counts is compared with the kernel's own number of involuntary switches of each task, and
 * with how often a real-time task of the other tenant took the CPU.
 */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"
#include "vpmu/util/clock.h"

#define WORKERS 3
#define NAPS	200
#define BURN_MS 150

static const vpmu_key_t key[2] = {
	VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST | VPMU_SCHED_PREEMPTED |
		(vpmu_key_t)VPMU_SPACE_SCHED << VPMU_KEY_SPACE_SHIFT,
	SW(PERF_COUNT_SW_CONTEXT_SWITCHES),
};

/* Each in a cgroup of its own; the first two are of one tenant. */
static struct worker {
	int start[2], done[2];
	pid_t pid;
	struct vpmu_backend_node *n;
	struct vpmu_counting *c;
	uint64_t switches; /* involuntary ones so far */
} workers[WORKERS];
static const char *const names[WORKERS] = {"a1", "a2", "b"};
static volatile struct {
	bool stop;
	bool ready[WORKERS], runs[WORKERS];
} * shared; /* with the workers */

/* Burns, and sleeps now and then: switches of its own will, too. */
static void burn_and_nap(void)
{
	const struct timespec short_time = {0, 1000};
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + BURN_MS * 1000000ULL;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {
		for (uint64_t part = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 300000;
		     clock_ns(CLOCK_THREAD_CPUTIME_ID) < part;)
			;
		nanosleep(&short_time, NULL);
	}
}

static void set_policy(int policy, int priority)
{
	const struct sched_param p = {.sched_priority = priority};

	cr_assert_eq(sched_setscheduler(0, policy, &p), 0);
}

/* Real-time tasks that never sleep keep all others from the CPU: those that have yet to become one,
 * or the parent. So none begins before all are. */
static void wait_for_all(unsigned int i)
{
	const struct timespec nap = {0, 1000000};

	shared->ready[i] = true;
	while (!shared->ready[0] || !shared->ready[1] || !shared->ready[2])
		nanosleep(&nap, NULL);
}

/* Gives the CPU to its sibling now and then, to which nothing else of the host is equal. */
static void yield(unsigned int i)
{
	set_policy(SCHED_RR, 1);
	wait_for_all(i);
	while (!shared->stop) {
		shared->runs[i] = true;
		for (uint64_t part = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 300000;
		     clock_ns(CLOCK_THREAD_CPUTIME_ID) < part;)
			;
		sched_yield();
	}
	set_policy(SCHED_OTHER, 0);
}

/* Takes the CPU from the one that runs, NAPS times. */
static void take(unsigned int i)
{
	const struct timespec nap = {0, 1000000};

	set_policy(SCHED_FIFO, 2);
	wait_for_all(i);
	while (!shared->runs[0] || !shared->runs[1])
		nanosleep(&nap, NULL);
	for (unsigned int n = 0; n < NAPS; n++)
		nanosleep(&nap, NULL);
	shared->stop = true; /* as long as it has a priority above theirs */
	set_policy(SCHED_OTHER, 0);
}

static void work(void *arg)
{
	const struct worker *w = arg;
	char c;

	bed_run_on(0, 0);
	close(w->start[1]);
	while (read(w->start[0], &c, 1) == 1) {
		if (c == 'n')
			burn_and_nap();
		else if (c == 't')
			take((unsigned int)(w - workers));
		else
			yield((unsigned int)(w - workers));
		cr_assert_eq(write(w->done[1], &c, 1), 1);
	}
}

/* The involuntary switches of a task that sleeps. */
static uint64_t involuntary(pid_t pid)
{
	unsigned long n = 0;
	char path[64], line[256];
	bool sleeps = false;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	while (!sleeps) {
		FILE *f = fopen(path, "re");

		cr_assert(f);
		while (fgets(line, sizeof(line), f)) {
			sleeps |= !strncmp(line, "State:\tS", 8);
			sscanf(line, "nonvoluntary_ctxt_switches: %lu", &n);
		}
		fclose(f);
		if (!sleeps)
			usleep(1000);
	}
	return n;
}

struct bed {
	struct bpf_backend *k;
	struct vpmu_counting *a, *other, *list;
};

static void bed_make(struct bed *b)
{
	static const bool cpu_0[1024] = {true};
	struct vpmu_backend_node *a;

	b->k = bed_open(NULL);
	cr_assert_leq(b->k->nr_cpus, sizeof(cpu_0));
	shared = bed_share(sizeof(*shared));
	a = bed_node(bpf_as_backend(b->k)->root);
	b->a = b->list = bed_counting(a, key, 2, NULL);
	b->other = b->list = bed_counting(bpf_as_backend(b->k)->other, key, 2, b->list);
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct worker *w = &workers[i];

		cr_assert_eq(pipe(w->start) | pipe(w->done), 0);
		w->n = bed_tenant(i < 2 ? a : bpf_as_backend(b->k)->root, names[i]);
		w->pid = bed_spawn(names[i], work, w);
		w->c = b->list = bed_counting(w->n, key, 2, b->list);
	}
	for (struct vpmu_counting *c = b->list; c; c = c->next)
		c->cpus = cpu_0;
	bed_attach(b->list);
}

/* Each worker in turn does the job in @jobs; ' ': none. Afterwards all values are current. */
static void bed_run(struct bed *b, const char *jobs)
{
	char c;

	shared->stop = false;
	for (unsigned int i = 0; i < WORKERS; i++)
		workers[i].switches = involuntary(workers[i].pid);
	for (unsigned int i = 0; i < WORKERS; i++)
		if (jobs[i] != ' ')
			cr_assert_eq(write(workers[i].start[1], &jobs[i], 1), 1);
	for (unsigned int i = 0; i < WORKERS; i++)
		if (jobs[i] != ' ')
			cr_assert_eq(read(workers[i].done[0], &c, 1), 1);
	for (unsigned int i = 0; i < WORKERS; i++)
		workers[i].switches = involuntary(workers[i].pid) - workers[i].switches;
	bed_read(b->list);
}

/* A single task per tenant: the task that takes its place is of another one. */
Test(cgroup_preempted, without_a_sibling_it_is_every_involuntary_switch)
{
	struct bed b;

	bed_make(&b);
	bed_run(&b, "n n");
	for (unsigned int i = 0; i < WORKERS; i += 2) {
		const struct vpmu_value *v = &workers[i].c->values[0];

		printf("# %s: %lu of %lu involuntary switches to others, of %lu switches%s\n",
		       names[i], v->count, workers[i].switches, workers[i].c->values[1].count,
		       v->partial ? ", partial" : "");
		cr_expect(v->supported);
		cr_expect_gt(workers[i].switches, 0);
		cr_expect_gt(workers[i].c->values[1].count, workers[i].switches,
			     "all switches were involuntary: nothing is told apart");
		if (v->partial)
			cr_expect_leq(v->count, workers[i].switches);
		else
			cr_expect_eq(v->count, workers[i].switches);
	}
	cr_expect_eq(b.a->values[0].count, workers[0].c->values[0].count);
	cr_expect_eq(workers[1].c->values[0].count, 0);
	bed_done(b.k);
}

/* Two tasks of one tenant that give the CPU to each other, and one of another that takes it NAPS
 * times. */
Test(cgroup_preempted, a_sibling_is_no_other)
{
	uint64_t others, own;
	struct bed b;

	bed_make(&b);
	bed_run(&b, "yyt");
	others = b.a->values[0].count;
	own = workers[0].switches + workers[1].switches - others;
	printf("# %lu involuntary switches to another tenant, %lu to the own; the other one and "
	       "the host left the CPU %lu and %lu times%s\n",
	       others, own, workers[2].c->values[1].count, b.other->values[1].count,
	       b.a->values[0].partial ? " (partial)" : "");
	cr_expect_eq(others, workers[0].c->values[0].count + workers[1].c->values[0].count);
	cr_expect_leq(others, workers[0].switches + workers[1].switches);
	cr_expect_gt(own, 0);
	/* Whoever took the CPU has left it; the last one may still be there. */
	cr_expect_leq(others, workers[2].c->values[1].count + b.other->values[1].count + WORKERS);
	if (!b.a->values[0].partial)
		cr_expect_geq(others, NAPS);
	bed_done(b.k);
}
