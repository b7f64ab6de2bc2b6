// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/repeat.c: means of several runs and how far they scatter. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/stat.h"

Test(cli_repeat, mean_and_error)
{
	double x[] = {2, 4, 4, 4, 5, 5, 7, 9}, error;

	cr_assert_float_eq(mean_error(x, 8, &error), 5, 1e-12);
	/* Squares add up to 32: sqrt(32 / 7 / 8). */
	cr_assert_float_eq(error, sqrt(32.0 / 7 / 8), 1e-12);
	cr_assert_float_eq(mean_error(x, 1, &error), 2, 1e-12);
	cr_assert_eq(error, 0);
}

/* A reading with rows of these ids and counts; each counted in @running of @enabled ns. */
static struct reading *reading_of(const char *ids, const uint64_t *count, uint64_t enabled,
				  uint64_t running)
{
	char rows[1024] = "", text[2048];
	struct reading *r;
	size_t n = 0;
	json_t *answer;

	for (size_t i = 0; ids[i]; i++)
		n += (size_t)snprintf(
			rows + n, sizeof(rows) - n,
			"%s{\"row\":%c,\"kind\":\"tenant\",\"depth\":1,\"path\":\"/t%c\","
			"\"values\":[{\"count\":\"%llu\",\"enabled-ns\":\"%llu\",\"running-ns\":"
			"\"%llu\",\"quality\":\"exact\",\"supported\":true}]}",
			i ? "," : "", ids[i], ids[i], (unsigned long long)count[i],
			(unsigned long long)enabled, (unsigned long long)running);
	snprintf(text, sizeof(text),
		 "{\"session\":\"s\",\"target\":\"/\",\"scope\":\"tenant\",\"age-ns\":\"1\","
		 "\"dropped\":\"0\",\"events\":[\"cycles\"],\"rows\":[%s]}",
		 rows);
	answer = json_loads(text, 0, NULL);
	cr_assert(answer, "%s", text);
	r = reading_parse(answer);
	cr_assert(r);
	json_decref(answer);
	return r;
}

Test(cli_repeat, rows_are_matched_by_id)
{
	/* Row 3 comes in the second run only; rows stand in another order there. */
	struct reading *run[] = {
		reading_of("12", (uint64_t[]){100, 7}, 10, 10),
		reading_of("321", (uint64_t[]){30, 7, 200}, 20, 20),
		reading_of("123", (uint64_t[]){300, 7, 0}, 30, 30),
	};
	const struct rrow *row = run[2]->rows;

	repeat_mean(run[2], run, 3);
	cr_assert_eq(row[0].v[0].count, 200);
	cr_assert_float_eq(row[0].v[0].variance, 100 * sqrt(10000.0 / 3) / 200, 1e-9);
	cr_assert_eq(row[0].v[0].enabled_ns, 20);
	cr_assert_eq(row[1].v[0].count, 7);
	cr_assert_float_eq(row[1].v[0].variance, 0, 1e-12);
	cr_assert_eq(row[2].v[0].count, 10);
	cr_assert_float_eq(row[2].v[0].variance, 100 * sqrt(300.0 / 3) / 10, 1e-9);
	cr_assert(val_is_scaled(&row[2].v[0]) == false);
	for (size_t i = 0; i < 3; i++)
		reading_free(run[i]);
}

Test(cli_repeat, scaled_counts)
{
	/* Counted in half of the time: 100 means 200. */
	struct reading *run[] = {
		reading_of("1", (uint64_t[]){100}, 20, 10),
		reading_of("1", (uint64_t[]){100}, 20, 10),
	};

	repeat_mean(run[1], run, 2);
	cr_assert_eq(val_scaled(&run[1]->rows[0].v[0]), 200);
	cr_assert_float_eq(val_percent(&run[1]->rows[0].v[0]), 50, 1e-9);
	cr_assert_float_eq(run[1]->rows[0].v[0].variance, 0, 1e-12);
	reading_free(run[0]);
	reading_free(run[1]);
}

Test(cli_repeat, a_mean_has_the_quality_of_all_runs)
{
	struct reading *run[] = {
		reading_of("1", (uint64_t[]){100}, 20, 20),
		reading_of("1", (uint64_t[]){100}, 20, 20),
		reading_of("1", (uint64_t[]){100}, 20, 20),
	};
	const struct rrow *row = run[2]->rows;

	strcpy(run[0]->rows[0].v[0].quality, "late");
	run[0]->rows[0].late_ns = 700;
	strcpy(run[1]->rows[0].v[0].quality, "partial aged");
	run[1]->rows[0].v[0].age_ns = 30;
	repeat_mean(run[2], run, 3);
	cr_expect(val_has(&row->v[0], "late") && val_has(&row->v[0], "partial") &&
			  val_has(&row->v[0], "aged") && !val_has(&row->v[0], "exact"),
		  "%s", row->v[0].quality);
	cr_expect_eq(row->late_ns, 700);
	cr_expect_eq(row->v[0].age_ns, 30);
	for (size_t i = 0; i < 3; i++)
		reading_free(run[i]);
}
