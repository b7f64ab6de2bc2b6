// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Linked into each Criterion program. Criterion has judged a test when its .fini begins, so an
 * assertion that fails there is printed and forgotten. Here such a test fails. So does a program of
 * which --filter selects no test, as after one was renamed.
 */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
	bool selected = false;

	for (struct criterion_suite_stats *s = stats->suites; s; s = s->next) {
		for (struct criterion_test_stats *t = s->tests; t; t = t->next) {
			selected |= !t->test->data->disabled;
			if (t->test_status != CR_STATUS_PASSED || t->failed_asserts == 0)
				continue;
			t->test_status = CR_STATUS_FAILED;
			stats->tests_passed--;
			stats->tests_failed++;
			fprintf(stderr, "%s::%s failed in its .fini\n", s->suite->name,
				t->test->name);
		}
	}
	if (!selected) {
		stats->tests_failed++;
		fprintf(stderr, "no test is selected\n");
	}
}
