// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF backend when counters are few and when CPUs come and go, on hardware counters that are
 * exact: nothing is lost, nothing is counted twice, and missing counts are marked.
 */
#include <stdlib.h>
#include <time.h>

#include "tests/beds/bed.h"
#include "tests/beds/tenants.h"
#include "tests/beds/workload.h"

#define LOOPS 6

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void start_loops(struct looper l[LOOPS], uint64_t n, unsigned int times)
{
	char name[24];

	for (unsigned int i = 0; i < LOOPS; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		looper_make(&l[i], name, n, times);
	}
	usleep(10000); /* until all of them wait */
	for (unsigned int i = 0; i < LOOPS; i++)
		looper_start(&l[i]);
}

static void end_loops(struct looper l[LOOPS])
{
	for (unsigned int i = 0; i < LOOPS; i++)
		looper_end(&l[i]);
}

/* ---- turns -------------------------------------------------------------------------------- */

static const char *const twelve[] = {"instructions:uGH",
				     "cycles:uGH",
				     "instructions:kGH",
				     "cycles:kGH",
				     "instructions:GH",
				     "cycles:GH",
				     "instructions:uH",
				     "cycles:uH",
				     "instructions:kH",
				     "cycles:kH",
				     "instructions:H",
				     "cycles:H",
				     NULL};

/* What an event daemon does. */
static void tend_for(struct bpf_backend *k, uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end) {
		usleep(20000);
		bpf_backend_tend(k);
	}
}

/*
 * Twelve keys, and two events of another tool, which are neither pinned nor first. The tool's
 * events always have a counter. The keys are multiplexed: each account's time is the same for all
 * keys, cycles and instructions have the same part of it, and the counts of that part are exact.
 * Cycles are nanoseconds here.
 */
Test(bed_budget, keys_take_turns_and_others_count)
{
	const struct bpf_backend_opts opts = {.leave_counters = 2};
	struct looper l[LOOPS];
	struct bpf_backend_budget b;
	struct tenants t;
	int other[2];

	bed_one_cpu();
	cgroups_apart(); /* loops move themselves into their tenants while all is counted */
	tenants_open_as(&t, LOOPS, twelve, &opts);
	other[0] = bed_open("instructions:GH", -1, 0, -1);
	other[1] = bed_open("instructions:uGH", -1, 0, -1);
	bed_enable(other[0], true);
	bed_enable(other[1], true);
	tenants_attach(&t, t.nr_keys, true);
	bpf_backend_budget(t.k, &b);
	printf("%u general counters (%s), %u fixed; %u left to others\n", b.general, b.from,
	       b.fixed, b.left);
	cr_expect(b.known && b.turns && b.left == 2);
	cr_expect_eq(b.keys, 12u);
	start_loops(l, 200000, 1500);
	tend_for(t.k, 4000000000u);
	tenants_conserved(&t, 1);
	end_loops(l);
	tenants_conserved(&t, 1);
	/* bed_count fails if the event ever had no counter. */
	cr_expect(bed_count(other[0]) > bed_count(other[1]));
	tenants_detach(&t);
	tenants_root_is_all(&t);
	for (unsigned int i = 0; i < LOOPS; i++) {
		uint64_t all = tenants_value(&t, i, 0)->enabled_ns, share = 0;

		for (unsigned int k = 0; k < t.nr_keys; k++) {
			const struct vpmu_value *v = tenants_value(&t, i, k);

			cr_expect(v->supported && !v->partial);
			cr_expect_eq(v->enabled_ns, all);
			cr_expect(v->running_ns > all / 10 && v->running_ns < all,
				  "tenant %u, %s: %lu of %lu ns", i, twelve[k], v->running_ns, all);
			cr_expect_eq(v->running_ns, tenants_value(&t, i, k ^ 1)->running_ns);
			share += 100 * v->running_ns / all;
			if (i == 0)
				printf("%-18s count %10lu scaled %10lu running %3u %%\n", twelve[k],
				       v->count, vpmu_value_scaled(v),
				       (unsigned int)(100 * v->running_ns / all));
		}
		cr_expect_lt(llabs((long long)(tenants_value(&t, i, 5)->count -
					       tenants_value(&t, i, 5)->running_ns)),
			     (long long)all / 1000);
		printf("tenant %u: on average %lu %%; cycles:GH %lu in %lu ns\n", i,
		       share / t.nr_keys, tenants_value(&t, i, 5)->count,
		       tenants_value(&t, i, 5)->running_ns);
	}
	close(other[0]);
	close(other[1]);
	tenants_close(&t);
}

/* Nothing but one task runs on CPU 1, so nothing is charged there for many turns. Its time without
 * a counter is lost all the same. */
Test(bed_budget, a_task_that_never_switches)
{
	const struct bpf_backend_opts opts = {.leave_counters = 2};
	struct tenants t;
	struct looper l;

	bed_cpu1(true);
	bed_run_on(1);
	tenants_open_as(&t, 1, twelve, &opts);
	looper_make(&l, "t0", 100000000, 10);
	bed_run_on(0);
	tenants_attach(&t, t.nr_keys, true);
	looper_start(&l);
	for (int i = 0; i < 12; i++) {
		usleep(100000);
		bpf_backend_tend(t.k);
	}
	looper_end(&l);
	tenants_conserved(&t, 2);
	tenants_detach(&t);
	tenants_root_is_all(&t);
	for (unsigned int k = 0; k < t.nr_keys; k++) {
		const struct vpmu_value *v = tenants_value(&t, 0, k);

		cr_expect_lt(v->running_ns, v->enabled_ns);
		if (k == 5)
			printf("cycles:GH %lu in %lu of %lu ns\n", v->count, v->running_ns,
			       v->enabled_ns);
	}
	cr_expect_lt(llabs((long long)(tenants_value(&t, 0, 5)->count -
				       tenants_value(&t, 0, 5)->running_ns)),
		     1000000);
	tenants_close(&t);
}

/* ---- CPUs that come and go ---------------------------------------------------------------- */

static const char *const events[] = {"instructions:GH", "cycles:GH",	    "instructions:uGH",
				     "page-faults",	"context-switches", NULL};

/* No account can have run longer than all CPUs together. */
static void times_are_possible(const struct tenants *t, uint64_t since_ns)
{
	uint64_t all = 2 * (now_ns() - since_ns);

	for (unsigned int i = 0; i < t->nr_tenants + 2; i++) {
		for (unsigned int k = 0; k < t->nr_keys; k++) {
			const struct vpmu_value *v = tenants_value(t, i, k);

			cr_expect(v->supported);
			cr_expect_leq(v->running_ns, v->enabled_ns);
			cr_expect_leq(v->enabled_ns, all + all / 50,
				      "row %u, key %u: %lu ns of %lu", i, k, v->enabled_ns, all);
		}
	}
}

/* The backend looks while CPU 1 is away. The CPU's work before it has new events is lost
 * time, and no value is partial. */
Test(bed_budget, a_cpu_that_goes_and_comes)
{
	struct looper l[LOOPS];
	struct tenants t;
	uint64_t begin;

	bed_cpu1(true);
	tenants_open(&t, LOOPS, events);
	usleep(3000000); /* an attach that is long ago must not count */
	begin = now_ns();
	tenants_attach(&t, t.nr_keys, true);
	start_loops(l, 20000, 400);
	for (int i = 0; i < 12; i++) {
		usleep(3000);
		tenants_conserved(&t, 2);
		bed_cpu1(false);
		tenants_conserved(&t, 1);
		usleep(3000);
		bed_cpu1(true);
		usleep(i % 2 ? 3000 : 0);
	}
	end_loops(l);
	tenants_conserved(&t, 2);
	tenants_detach(&t);
	tenants_root_is_all(&t);
	times_are_possible(&t, begin);
	for (unsigned int i = 0; i < t.nr_tenants; i++) {
		const struct vpmu_value *v = tenants_value(&t, i, 2);

		cr_expect_not(v->partial);
		cr_expect(v->count > 0 && v->running_ns > 0);
	}
	tenants_close(&t);
}

/*
 * CPU 1 does nothing but go and come, so it does not see the events that it gets, and a key is
 * attached while it is away. Whatever it takes up in the end must not be the difference of
 * the events of two times or of two keys.
 */
Test(bed_budget, a_cpu_that_comes_back_and_sleeps)
{
	static const char *const two[] = {"instructions:GH", "cycles:GH", NULL};
	static const char *const one[] = {"cycles:uGH", NULL};
	struct tenants t;
	struct vpmu_value value = {0};
	struct vpmu_counting *c;
	vpmu_key_t key;
	char why[256];
	size_t failed;

	bed_run_on(0);
	bed_cpu1(true);
	tenants_open(&t, 2, two);
	cr_assert(!vpmu_event_parse(one[0], vpmu_event_host_space(), &key, why, sizeof(why)));
	c = vpmu_counting_new(t.source->root, &key, 1, &value);
	tenants_attach(&t, t.nr_keys, true);
	for (int i = 0; i < 10; i++) {
		bed_cpu1(false);
		if (i % 3)
			bpf_backend_tend(t.k); /* else the backend has not noticed */
		usleep(1100000);
		if (i == 4)
			cr_assert(!vpmu_backend_attach(c, &failed));
		bed_cpu1(true);
		bpf_backend_tend(t.k);
		usleep(i % 2 ? 1100000 : 2000);
	}
	bpf_backend_tend(t.k);
	t.nr_keys++; /* and the one of the root */
	tenants_conserved(&t, 2);
	t.nr_keys--;
	vpmu_backend_detach(c);
	cr_expect(value.supported && value.count > 0);
	tenants_detach(&t);
	tenants_root_is_all(&t);
	vpmu_counting_free(c);
	tenants_close(&t);
}

/* Between two looks of the backend a CPU has gone and come back. It is unknown which tasks ran
 * there since: values counted before are marked partial, those attached later are not.
 */
Test(bed_budget, a_cpu_that_was_away_unseen)
{
	struct tenants t;

	bed_run_on(0);
	bed_cpu1(true);
	tenants_open(&t, 1, events);
	for (int i = 0; i < 2; i++) {
		tenants_attach(&t, t.nr_keys, true);
		for (int j = 0; j <= i; j++) {
			usleep(1100000);
			tenants_conserved(&t, 2);
			if (j)
				break;
			bed_cpu1(false);
			bed_cpu1(true);
		}
		usleep(1100000);
		tenants_conserved(&t, 2);
		tenants_detach(&t);
		cr_expect(tenants_value(&t, 2, 0)->partial);
	}
	tenants_attach(&t, t.nr_keys, true);
	usleep(1100000);
	tenants_detach(&t);
	cr_expect_not(tenants_value(&t, 2, 0)->partial);
	tenants_close(&t);
}
