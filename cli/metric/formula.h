/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parses and computes formulas of derived metrics, such as "1000 * cache-misses / instructions".
 * metric.c calls it for metric files. The text is untrusted.
 *
 *   formula := term (("+" | "-") term)*
 *   term    := factor (("*" | "/") factor)*
 *   factor  := "-" factor | "(" formula ")" | number | event name
 *
 * An event name may contain "-" but not end with it, so a minus between two names needs a blank on
 * at least one side: "a - b" is a difference, "a-b" is one name. A number is decimal: 100, 0.5,
 * 1e9.
 */
#pragma once

#include <stddef.h>

#define FORMULA_EVENTS_MAX 16
#define FORMULA_STEPS_MAX  64
#define FORMULA_DEPTH_MAX  16 /* of parentheses and signs */

/* A step of a formula in postfix order: it pushes a value, or replaces one or two by the result. */
struct formula_step {
	enum {
		FORMULA_NUMBER,
		FORMULA_EVENT,
		FORMULA_NEGATE,
		FORMULA_ADD,
		FORMULA_SUBTRACT,
		FORMULA_MULTIPLY,
		FORMULA_DIVIDE
	} kind;
	double number; /* FORMULA_NUMBER */
	size_t event;  /* FORMULA_EVENT: index of the name */
};

struct formula {
	size_t nr_events, nr_steps;
	char *event[FORMULA_EVENTS_MAX]; /* each name once, in the order of the text */
	struct formula_step step[FORMULA_STEPS_MAX];
};

/*
 * formula_parse - parse @text into *@f; free it with formula_free(). Event names are not looked up.
 * -EINVAL: not a formula; -E2BIG: a limit above is exceeded. On error *@f is empty and @err
 * (@errlen bytes, may be NULL) has one line with the position and the expected text. Any thread.
 */
int formula_parse(struct formula *f, const char *text, char *err, size_t errlen);
/* formula_free - an empty formula (all 0) is allowed. */
void formula_free(struct formula *f);

/*
 * formula_compute - compute @f, from formula_parse(), for the event values @value, one per event.
 * -EDOM: division by 0; -ERANGE: the result is not finite; *@result is then unchanged. Any thread;
 * allocates nothing.
 */
int formula_compute(const struct formula *f, const double *value, double *result);
