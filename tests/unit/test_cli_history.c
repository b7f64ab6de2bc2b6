// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/history_answer.c: what a sum of intervals of the past is; `vpmu stat --since` and `vpmu
 * report
 * --since` have the same. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "cli/history_answer.h"

/* A series as a server answers it. Without @more there is neither running nor quality. */
static json_t *series_of(const char *delta, const char *more)
{
	char text[400];
	json_t *s;

	snprintf(text, sizeof(text), "{\"delta\":[%s]%s}", delta, more);
	s = json_loads(text, 0, NULL);
	cr_assert(s, "%s", text);
	return s;
}

Test(cli_history, sums_of_intervals)
{
	static const struct {
		int line;
		const char *delta, *more;
		size_t ticks;
		uint64_t count, scaled;
		double running;
		const char *quality; /* with "partial" */
		bool marked;
	} row[] = {
		{__LINE__, "1,2,3", "", 3, 6, 6, 1, "", false},
		{__LINE__, "0,0", "", 2, 0, 0, 1, "", false},
		{__LINE__, "null,null", "", 0, 0, 0, 1, "", false},
		{__LINE__, "1,null,3", "", 2, 4, 4, 1, "partial", true},
		/* Each interval is scaled by its own share; together they were counted to 60 %. */
		{__LINE__, "10,20", ",\"running\":[100,50]", 2, 30, 50, 0.6, "", false},
		/* No counter counted the event: nothing is known, which is not 0. */
		{__LINE__, "0,20", ",\"running\":[0,50]", 1, 20, 40, 0.5, "partial", true},
		{__LINE__, "0", ",\"running\":[0]", 0, 0, 0, 0, "", false},
		{__LINE__, "0,7", ",\"running\":[0,100]", 1, 7, 7, 1, "partial", true},
		/* Counted for less than 1 %. */
		{__LINE__, "3", ",\"running\":[0]", 1, 3, 300, 0.01, "", false},
		/* 0 events in part of the time are a count. */
		{__LINE__, "0,0", ",\"running\":[20,40]", 2, 0, 0, 0.3, "", false},
		{__LINE__, "1,2,3", ",\"quality\":[\"ok\",\"exact aged\",\"modelled\"]", 3, 6, 6, 1,
		 "aged modelled", true},
		/* The quality of an interval without a count says nothing. */
		{__LINE__, "1,null", ",\"quality\":[\"ok\",\"aged\"]", 1, 1, 1, 1, "partial", true},
		{__LINE__, "9223372036854775807", ",\"running\":[1]", 1, INT64_MAX, UINT64_MAX, 0.5,
		 "", false},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		json_t *s = series_of(row[i].delta, row[i].more);
		size_t n = json_array_size(json_object_get(s, "delta"));
		struct history_sum all = {0}, parts = {0};

		for (size_t k = 0; k < n; k++) {
			struct history_sum one = {0};

			cr_expect_eq(history_answer_counted(s, k),
				     (history_sum_add(&one, s, k), one.ticks == 1), "line %d",
				     row[i].line);
			history_sum_add(&all, s, k);
			history_sum_merge(&parts, &one);
		}
		history_sum_partial(&all, n);
		history_sum_partial(&parts, n);
		cr_expect(!memcmp(&all, &parts, sizeof(all)), "line %d: the sum of sums",
			  row[i].line);
		cr_expect_eq(all.ticks, row[i].ticks, "line %d: %zu", row[i].line, all.ticks);
		cr_expect_eq(all.count, row[i].count, "line %d: %lu", row[i].line, all.count);
		cr_expect_eq(all.scaled, row[i].scaled, "line %d: %lu", row[i].line, all.scaled);
		cr_expect_float_eq(history_sum_running(&all), row[i].running, 1e-9, "line %d: %g",
				   row[i].line, history_sum_running(&all));
		cr_expect_str_eq(all.quality, row[i].quality, "line %d: %s", row[i].line,
				 all.quality);
		cr_expect_eq(all.marked, row[i].marked, "line %d", row[i].line);
		json_decref(s);
	}
}
