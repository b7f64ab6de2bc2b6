// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Formulas of derived metrics; see formula.h. No library in Debian fits: libmatheval reports
 * neither the position of an error nor the expected text, and libmuparser and libfparser are C++.
 * None supports names that contain "-" and ":". Nothing here may recurse deeper than
 * FORMULA_DEPTH_MAX.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/metric/formula.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#define DIGITS	"0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
/* Characters of event names, as in vpmu_event_parse(). */
#define NAME LETTERS DIGITS "-.:="

struct parser {
	struct formula *f;
	const char *text, *at;
	unsigned int depth;
	char *err;
	size_t errlen;
};

static int parse_sum(struct parser *p);

static int formula_wrong(struct parser *p, int ret, const char *what)
{
	return fail(ret, p->err, p->errlen, "formula, character %zu: %s",
		    (size_t)(p->at - p->text) + 1, what);
}

/* The next character that is no blank. */
static char formula_peek(struct parser *p)
{
	p->at += strspn(p->at, " \t");
	return *p->at;
}

static int add_step(struct parser *p, struct formula_step step)
{
	if (p->f->nr_steps == FORMULA_STEPS_MAX)
		return formula_wrong(
			p, -E2BIG,
			"the formula is too long; expected up to 64 names, numbers and operators");
	p->f->step[p->f->nr_steps++] = step;
	return 0;
}

static int parse_number(struct parser *p)
{
	char *end;
	size_t n = strspn(p->at, DIGITS ".");
	double number;

	/* strtod() also parses other numbers, such as hexadecimal ones. */
	if (p->at[n] == 'e' || p->at[n] == 'E') {
		n++;
		n += p->at[n] == '-' || p->at[n] == '+';
		n += strspn(p->at + n, DIGITS);
	}
	number = strtod(p->at, &end);
	if (end != p->at + n || (*end && strchr(NAME, *end) && *end != '-') || !isfinite(number))
		return formula_wrong(p, -EINVAL,
				     "not a number; expected numbers such as 100, 0.5 and 1e9");
	p->at = end;
	return add_step(p, (struct formula_step){.kind = FORMULA_NUMBER, .number = number});
}

static int formula_parse_name(struct parser *p)
{
	size_t n = strspn(p->at, NAME), i = 0;
	struct formula *f = p->f;

	while (p->at[n - 1] == '-')
		n--;
	while (i < f->nr_events && (strncmp(f->event[i], p->at, n) != 0 || f->event[i][n]))
		i++;
	if (i == f->nr_events) {
		if (i == FORMULA_EVENTS_MAX)
			return formula_wrong(p, -E2BIG, "too many events; expected up to 16");
		f->event[f->nr_events++] = xstrndup(p->at, n);
	}
	p->at += n;
	return add_step(p, (struct formula_step){.kind = FORMULA_EVENT, .event = i});
}

static int parse_parentheses(struct parser *p)
{
	int ret;

	p->at++;
	ret = parse_sum(p);
	if (ret)
		return ret;
	if (formula_peek(p) != ')')
		return formula_wrong(p, -EINVAL, "\")\" is missing; expected + - * / )");
	p->at++;
	return 0;
}

static int parse_factor(struct parser *p)
{
	char c = formula_peek(p);
	int ret;

	if (c && strchr(DIGITS ".", c))
		return parse_number(p);
	if (c && strchr(LETTERS, c))
		return formula_parse_name(p);
	if (c != '(' && c != '-')
		return formula_wrong(p, -EINVAL, "expected the name of an event, a number, ( or -");
	if (p->depth == FORMULA_DEPTH_MAX)
		return formula_wrong(
			p, -E2BIG,
			"nested too deeply; expected up to 16 levels of parentheses and signs");
	p->depth++;
	if (c == '(') {
		ret = parse_parentheses(p);
	} else {
		p->at++;
		ret = parse_factor(p);
		if (!ret)
			ret = add_step(p, (struct formula_step){.kind = FORMULA_NEGATE});
	}
	p->depth--;
	return ret;
}

static int parse_product(struct parser *p)
{
	int ret = parse_factor(p);

	while (!ret && (formula_peek(p) == '*' || *p->at == '/')) {
		char c = *p->at++;

		ret = parse_factor(p);
		if (!ret)
			ret = add_step(p, (struct formula_step){.kind = c == '*' ? FORMULA_MULTIPLY
										 : FORMULA_DIVIDE});
	}
	return ret;
}

static int parse_sum(struct parser *p)
{
	int ret = parse_product(p);

	while (!ret && (formula_peek(p) == '+' || *p->at == '-')) {
		char c = *p->at++;

		ret = parse_product(p);
		if (!ret)
			ret = add_step(p,
				       (struct formula_step){.kind = c == '+' ? FORMULA_ADD
									      : FORMULA_SUBTRACT});
	}
	return ret;
}

int formula_parse(struct formula *f, const char *text, char *err, size_t errlen)
{
	struct parser p = {.f = f, .text = text, .at = text, .err = err, .errlen = errlen};
	int ret;

	*f = (struct formula){0};
	ret = parse_sum(&p);
	if (!ret && formula_peek(&p))
		ret = formula_wrong(&p, -EINVAL, "expected + - * / or the end of the formula");
	if (!ret && !f->nr_events)
		ret = fail(-EINVAL, err, errlen,
			   "formula without events; expected a formula of at least one event");
	if (ret)
		formula_free(f);
	return ret;
}

void formula_free(struct formula *f)
{
	for (size_t i = 0; i < f->nr_events; i++)
		free(f->event[i]);
	*f = (struct formula){0};
}

int formula_compute(const struct formula *f, const double *value, double *result)
{
	/* Each step pushes no more than one value. */
	double stack[FORMULA_STEPS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < f->nr_steps; i++) {
		const struct formula_step *s = &f->step[i];

		switch (s->kind) {
		case FORMULA_NUMBER:
			stack[n++] = s->number;
			continue;
		case FORMULA_EVENT:
			stack[n++] = value[s->event];
			continue;
		case FORMULA_NEGATE:
			stack[n - 1] = -stack[n - 1];
			continue;
		case FORMULA_ADD:
			stack[n - 2] += stack[n - 1];
			break;
		case FORMULA_SUBTRACT:
			stack[n - 2] -= stack[n - 1];
			break;
		case FORMULA_MULTIPLY:
			stack[n - 2] *= stack[n - 1];
			break;
		case FORMULA_DIVIDE:
			if (stack[n - 1] == 0)
				return -EDOM;
			stack[n - 2] /= stack[n - 1];
			break;
		}
		n--;
	}
	if (n != 1 || !isfinite(stack[0]))
		return -ERANGE;
	*result = stack[0];
	return 0;
}
