// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Context switches on the running kernel: each tenant has as many as the scheduler counts for its
 * tasks, to the count. Where the program finds the number of switches of a CPU in the kernel there
 * is no event for them; a perf event of the test's own must count the same.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

#define WORKERS 3
#define ROUNDS	20
#define NAPS	50

static const vpmu_key_t key[1] = {SW(PERF_COUNT_SW_CONTEXT_SWITCHES)};

struct worker {
	int start[2], done[2];
	pid_t pid;
	struct vpmu_counting *c;
};

static void nap(void *arg)
{
	const struct worker *w = arg;
	const struct timespec short_time = {0, 1000};
	char c;

	close(w->start[1]); /* so that the end of the test is an end */
	while (read(w->start[0], &c, 1) == 1) {
		for (unsigned int i = 0; i < NAPS; i++)
			nanosleep(&short_time, NULL);
		cr_assert_eq(write(w->done[1], &c, 1), 1);
	}
}

/* How often the scheduler has switched away from @pid, or -1 while it runs or is about to. */
static long switches_of(pid_t pid)
{
	long n = 0, more;
	char path[64], line[256];
	bool sleeps = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	cr_assert(f);
	while (fgets(line, sizeof(line), f)) {
		sleeps |= !strncmp(line, "State:\tS", 8);
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &more) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %ld", &more) == 1)
			n += more;
	}
	fclose(f);
	return sleeps ? n : -1;
}

/* Of a task on this CPU: so while we run it has been switched away from. */
static long wait_until_asleep(pid_t pid)
{
	long n;

	while ((n = switches_of(pid)) < 0)
		usleep(1000);
	return n;
}

Test(bpf_backend_switches, are_the_schedulers_for_each_tenant)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct worker w[WORKERS];
	struct vpmu_counting *list = NULL;
	unsigned int right = 0, checked = 0;
	struct bpf_backend_usage u;
	uint64_t missed;
	char name[8], c = 0;

	bed_run_on(0, sched_getcpu());
	for (unsigned int i = 0; i < WORKERS; i++) {
		struct vpmu_backend_node *n;

		snprintf(name, sizeof(name), "w%u", i);
		n = bed_tenant(s->root, name);
		cr_assert(!pipe(w[i].start) && !pipe(w[i].done));
		w[i].pid = bed_spawn(name, nap, &w[i]);
		w[i].c = list = bed_counting(n, key, 1, list);
	}
	bed_attach(list);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		uint64_t before[WORKERS], got;
		unsigned int wrong = 0;
		long was[WORKERS], is;

		bpf_backend_usage(k, &u);
		missed = u.missed;

		for (unsigned int i = 0; i < WORKERS; i++) {
			was[i] = wait_until_asleep(w[i].pid);
			before[i] = bed_value(w[i].c);
		}
		for (unsigned int i = 0; i < WORKERS; i++)
			cr_assert_eq(write(w[i].start[1], &c, 1), 1);
		for (unsigned int i = 0; i < WORKERS; i++)
			cr_assert_eq(read(w[i].done[0], &c, 1), 1);
		for (unsigned int i = 0; i < WORKERS; i++) {
			is = wait_until_asleep(w[i].pid) - was[i];
			got = bed_value(w[i].c) - before[i];
			right += got == (uint64_t)is;
			wrong += got != (uint64_t)is;
		}
		usleep(1000); /* a switch of this CPU, by which one before it may be missed */
		bpf_backend_usage(k, &u);
		if (u.missed == missed) {
			checked++;
			cr_expect_eq(wrong, 0, "round %u: %u of %u tenants", round, wrong, WORKERS);
		}
	}
	printf("# %u rounds, in %u of them the kernel hid no switch; right %u times of %u\n",
	       ROUNDS, checked, right, ROUNDS * WORKERS);
	cr_expect_gt(checked, 0);
	bed_done(k);
}

Test(bpf_backend_switches, are_those_of_a_perf_event)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *c = bed_counting(s->root, key, 1, NULL);
	uint64_t low, high, got = 0;
	int64_t least = INT64_MIN, most = INT64_MAX;
	struct bed_counters truth;
	struct bpf_backend_usage u;

	bed_cgroup("a");
	bed_cgroup("b");
	for (unsigned int i = 0; i < 4; i++)
		bed_spawn(i % 2 ? "a" : "b", work_switches, NULL);
	bed_counters(&truth, key[0]);
	bed_attach(c);
	bpf_backend_usage(k, &u);
	cr_expect_eq(u.events, k->sees_hidden ? 0 : truth.nr);
	/* How far the event is ahead is one number, which is within the bounds of each reading. */
	for (unsigned int i = 0; i < 500; i++) {
		low = bed_counters_read(&truth);
		got = bed_value(c);
		high = bed_counters_read(&truth);
		if ((int64_t)(low - got) > least)
			least = (int64_t)(low - got);
		if ((int64_t)(high - got) < most)
			most = (int64_t)(high - got);
		usleep(1000);
	}
	cr_expect_gt(bed_conserved(s), 0);
	printf("# %s; %lu switches; the test's own event is ahead by %lld to %lld\n",
	       k->sees_hidden ? "no event" : "an event", got, (long long)least, (long long)most);
	cr_expect_gt(got, 1000);
	/* Each CPU's switch that goes on may be in one of the two already. */
	cr_expect_leq(least, most + (int64_t)truth.nr);
	bed_counters_close(&truth);
	bed_done(k);
}

/* Where the kernel's number of switches cannot be read, rows say that they are not exact; the sum
 * is.
 */
Test(bpf_backend_switches, are_partial_if_an_event_counts_them)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *row, *sum;

	k->sees_hidden = false;
	row = bed_counting(bed_tenant(s->root, "a"), key, 1, NULL);
	sum = bed_counting(s->root, key, 1, NULL);
	bed_attach(row);
	bed_attach(sum);
	bed_spawn("a", work_switches, NULL);
	usleep(100000);
	cr_expect_gt(bed_value(row), 0);
	cr_expect(row->values[0].partial);
	cr_expect_gt(bed_value(sum), 0);
	cr_expect(!sum->values[0].partial);
	bed_done(k);
}
