/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Formulas of derived metrics, such as "1000 * cache-misses / instructions": parsing and computing.
 * metric.c parses those of metric files. The text is hostile.
 *
 *   formula := term (("+" | "-") term)*
 *   term    := factor (("*" | "/") factor)*
 *   factor  := "-" factor | "(" formula ")" | number | event name
 *
 * An event name may contain "-", but does not end with it. So a minus between two names needs a
 * blank on at least one side: "a - b" is a difference, "a-b" is one name. A number is decimal: 100,
 * 0.5, 1e9.
 */
#ifndef CLI_METRIC_FORMULA_H
#define CLI_METRIC_FORMULA_H

#include <stddef.h>

#define FORMULA_EVENTS_MAX 16
#define FORMULA_STEPS_MAX  64
#define FORMULA_DEPTH_MAX  16 /* of parentheses and signs */

/* One step of a formula in postfix order: it puts a value on the stack, or takes one or two off it
 * and puts the result there. */
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
 * formula_parse - parse @text into *@f, which formula_free must free. Names of events are not
 * looked up here. -EINVAL: not a formula; -E2BIG: a limit above is exceeded. Then *@f is
 * empty and
 * @err (@errlen bytes, may be NULL) has one line that says at which character what is wrong and
 * what is accepted. Any thread.
 */
int formula_parse(struct formula *f, const char *text, char *err, size_t errlen);
/* formula_free - an empty formula (all 0) is allowed. */
void formula_free(struct formula *f);

/*
 * formula_compute - the result of @f when its events have the values @value, one for each event of
 * @f. -EDOM: it divides by 0; -ERANGE: the result is no finite number. Then *@result is unchanged.
 * @f comes from formula_parse. Any thread; allocates nothing.
 */
int formula_compute(const struct formula *f, const double *value, double *result);

#endif
