// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/metric/formula.c: what formulas mean, and how a wrong one is refused. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/metric/formula.h"

/* The value of event "a", "b", ... is 10, 20, ...; that of "zero" is 0. */
static double value_of(const char *event)
{
	return strcmp(event, "zero") ? 10 * (event[0] - 'a' + 1) : 0;
}

static int compute(const char *text, double *result)
{
	double value[FORMULA_EVENTS_MAX];
	struct formula f;
	char err[200] = "";
	int ret = formula_parse(&f, text, err, sizeof(err));

	cr_assert_eq(ret, 0, "%s: %s", text, err);
	for (size_t i = 0; i < f.nr_events; i++)
		value[i] = value_of(f.event[i]);
	ret = formula_compute(&f, value, result);
	formula_free(&f);
	return ret;
}

Test(metric_formula, results)
{
	static const struct {
		int line;
		const char *text;
		double result;
	} cases[] = {
		{__LINE__, "a", 10},
		{__LINE__, " a ", 10},
		{__LINE__, "a / b", 0.5},
		{__LINE__, "a/b", 0.5},
		{__LINE__, "a + b * c", 610},
		{__LINE__, "(a + b) * c", 900},
		{__LINE__, "c - b - a", 0},
		{__LINE__, "c - (b - a)", 20},
		{__LINE__, "d / b / a", 0.2},
		{__LINE__, "d / (b / a)", 20},
		{__LINE__, "a - b", -10},
		{__LINE__, "a -b", -10},
		{__LINE__, "a- b", -10},
		{__LINE__, "a - -b", 30},
		{__LINE__, "-a * -b", 200},
		{__LINE__, "-(a + b)", -30},
		{__LINE__, "1000 * a / d", 250},
		{__LINE__, "1e3*a", 10000},
		{__LINE__, "0.5 * a", 5},
		{__LINE__, ".5 * a", 5},
		{__LINE__, "2.*a", 20},
		{__LINE__, "a+1e-1", 10.1},
		{__LINE__, "a + a * a", 110},
		{__LINE__, "100 * a:G / (a:G + b:H)", 100.0 / 3},
		{__LINE__, "skl::BR:NEAR=1 * a", 1900},
		{__LINE__, "((((((((((((((((a))))))))))))))))", 10},
		{__LINE__, "zero / a", 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		double result = NAN;

		cr_expect_eq(compute(cases[i].text, &result), 0, "line %d", cases[i].line);
		cr_expect(fabs(result - cases[i].result) < 1e-9, "line %d: %g", cases[i].line,
			  result);
	}
}

Test(metric_formula, each_event_once)
{
	struct formula f;

	cr_assert_eq(formula_parse(&f, "branches-taken / (branches-taken - branches)", NULL, 0), 0);
	cr_assert_eq(f.nr_events, 2);
	cr_expect_str_eq(f.event[0], "branches-taken");
	cr_expect_str_eq(f.event[1], "branches");
	formula_free(&f);
	cr_expect_eq(f.nr_events + f.nr_steps, 0);
}

Test(metric_formula, no_number)
{
	double result = 7;

	cr_expect_eq(compute("a / zero", &result), -EDOM);
	cr_expect_eq(compute("zero / zero", &result), -EDOM);
	cr_expect_eq(compute("a / (b - a - a)", &result), -EDOM);
	cr_expect_eq(compute("1e300 * a * 1e300", &result), -ERANGE);
	cr_expect_eq(compute("1e300 * 1e300 * a - 1e300 * 1e300 * a", &result), -ERANGE);
	cr_expect_eq(result, 7, "a result was written");
}

Test(metric_formula, refused)
{
	static const struct {
		int line, ret;
		const char *text, *says; /* part of the message */
	} cases[] = {
		{__LINE__, -EINVAL, "", "character 1: expected the name of an event"},
		{__LINE__, -EINVAL, "  ", "character 3"},
		{__LINE__, -EINVAL, "100", "without events"},
		{__LINE__, -EINVAL, "a b", "character 3: expected + - * /"},
		{__LINE__, -EINVAL, "a +", "character 4"},
		{__LINE__, -EINVAL, "a + * b", "character 5"},
		{__LINE__, -EINVAL, "(a + b", "\")\" is missing"},
		{__LINE__, -EINVAL, "a + b)", "character 6"},
		{__LINE__, -EINVAL, "()", "character 2"},
		{__LINE__, -EINVAL, "a % b", "character 3"},
		{__LINE__, -EINVAL, "0x10 * a", "not a number"},
		{__LINE__, -EINVAL, "1.2.3 * a", "not a number"},
		{__LINE__, -EINVAL, "1e * a", "not a number"},
		{__LINE__, -EINVAL, "1e999 * a", "not a number"},
		{__LINE__, -EINVAL, "2a", "not a number"},
		{__LINE__, -EINVAL, ". * a", "not a number"},
		{__LINE__, -EINVAL, "a * \xff", "character 5"},
		{__LINE__, -EINVAL, "+a", "character 1"},
		{__LINE__, -E2BIG, "(((((((((((((((((a)))))))))))))))))", "up to 16 levels"},
		{__LINE__, -E2BIG, "-----------------a", "up to 16 levels"},
		{__LINE__, -E2BIG, "a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q", "too many events"},
	};
	struct formula f;
	char err[200];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err[0] = '\0';
		cr_expect_eq(formula_parse(&f, cases[i].text, err, sizeof(err)), cases[i].ret,
			     "line %d", cases[i].line);
		cr_expect(strstr(err, cases[i].says), "line %d: %s", cases[i].line, err);
		cr_expect_eq(f.nr_events + f.nr_steps, 0, "line %d", cases[i].line);
	}
}

/* As many steps as there may be, and one more. */
Test(metric_formula, long_formulas)
{
	char text[3 * FORMULA_STEPS_MAX] = "a", err[200];
	double result;

	for (size_t steps = 1; steps + 2 < FORMULA_STEPS_MAX; steps += 2)
		strcat(text, "+a");
	cr_expect_eq(compute(text, &result), 0);
	cr_expect_eq(result, 10 * (FORMULA_STEPS_MAX / 2));
	strcat(text, "+a");
	cr_expect_eq(formula_parse(&(struct formula){0}, text, err, sizeof(err)), -E2BIG);
	cr_expect(strstr(err, "too long"), "%s", err);
}
