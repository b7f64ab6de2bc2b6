// SPDX-License-Identifier: GPL-2.0-or-later
/* Tests of measure.c: counts, and ratios so wide that no machine misses them. */
#include <criterion/criterion.h>

#include "tests/bench/bench.h"

#define ROUNDS 201

struct work {
	uint64_t called, done, spins; /* times; how long each takes */
};

static void run_work(void *arg, uint64_t n)
{
	struct work *w = arg;

	w->called++;
	w->done += n;
	for (uint64_t i = 0; i < n * w->spins; i++)
		__asm__ volatile("" : : : "memory");
}

Test(measure, equal_work_is_flat_and_threefold_work_is_not)
{
	struct work w[4] = {{.spins = 50}, {.spins = 50}, {.spins = 50}, {.spins = 150}};
	struct bench_set set = {.nr = 4, .rounds = ROUNDS};

	for (unsigned int i = 0; i < 4; i++)
		set.c[i] = (struct bench_case){.fn = run_work, .arg = &w[i]};
	bench_measure(&set);
	cr_expect_lt(bench_flat(&set, 0, 3), 1.5);
	cr_expect_gt(bench_flat(&set, 0, 4), 1.8);
	cr_expect_gt(bench_ratio(&set, 3, 0), 1.8);
	cr_expect_lt(bench_ratio(&set, 3, 0), 5);
	cr_expect_gt(bench_units(&set, 3, BENCH_XCHG), 1.8 * bench_units(&set, 0, BENCH_XCHG));
	cr_expect_gt(set.c[3].ns, 0);
	bench_free(&set);
}

Test(measure, each_case_runs_once_per_round)
{
	struct work w[2] = {{.spins = 1}, {.spins = 1}};
	struct bench_set set = {.nr = 2,
				.rounds = ROUNDS,
				.page = true,
				.c = {{.fn = run_work, .arg = &w[0], .n = 80},
				      {.fn = run_work, .arg = &w[1], .n = 80, .no_warm = true}}};

	bench_measure(&set);
	cr_expect_eq(set.rounds, ROUNDS);
	cr_expect_eq(w[0].called, 2 * ROUNDS, "a warm-up and a batch");
	cr_expect_eq(w[0].done, ROUNDS * (80 + 10));
	cr_expect_eq(w[1].called, ROUNDS);
	cr_expect_eq(w[1].done, ROUNDS * 80);
	for (unsigned int u = 0; u < BENCH_UNITS; u++)
		for (unsigned int r = 0; r < set.rounds; r++)
			cr_expect_gt(set.unit_ns[u][r], 0);
	bench_free(&set);
}

Test(measure, rounds_can_be_limited)
{
	struct work w = {.spins = 1};
	struct bench_set set = {.nr = 1, .c = {{.fn = run_work, .arg = &w, .n = 8}}};

	bench_limit_rounds(7);
	bench_measure(&set);
	cr_expect_eq(set.rounds, 7);
	cr_expect_eq(w.called, 2 * 7);
	bench_free(&set);
}
