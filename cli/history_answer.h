/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checked answers to the request `history` (docs/protocol.md): the server may answer anything. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/reading.h"

/* history_answer_ok - returns true if all fields that the functions below and cli/since.c read are
 * valid: times ascend, and all lists of a series have a value for each. Else prints an error. */
bool history_answer_ok(const json_t *answer);

/* history_answer_time - return the end of interval @i, in ns since 1970; 0: there is none. */
uint64_t history_answer_time(const json_t *answer, size_t i);
/* history_answer_interval - return the length of an interval in ns. */
uint64_t history_answer_interval(const json_t *answer);
/* history_answer_same - return true if two elements of "series" are of the same tenant, VM and
 * event. */
bool history_answer_same(const json_t *a, const json_t *b);
/* history_answer_field - return the string @key of an element of "series"; NULL: null. */
const char *history_answer_field(const json_t *series, const char *key);

/* The sum of intervals of a series. */
struct history_sum {
	size_t ticks;		/* intervals with a count */
	uint64_t count, scaled; /* scaled: each multiplexed interval scaled up by its own share */
	uint64_t shares; /* sum over ticks of the percent of the time in which a counter counted */
	bool multiplexed, marked;  /* marked: an interval is not exact, or partial */
	char quality[QUALITY_LEN]; /* words of all, without "exact" */
};

/* history_answer_counted - return true if interval @i of the series @s has a count: there is none
 * if no counter counted the event at any time of it, though the row ran. */
bool history_answer_counted(const json_t *s, size_t i);
/* history_sum_add - add interval @i of the series @s, if it has a count. */
void history_sum_add(struct history_sum *sum, const json_t *s, size_t i);
/* history_sum_partial - if any of @ticks intervals has a count, but not all, the sum is partial. */
void history_sum_partial(struct history_sum *sum, size_t ticks);
/* history_sum_merge - add @more to @sum. */
void history_sum_merge(struct history_sum *sum, const struct history_sum *more);
/* history_sum_running - return the running share, from 0 to 1: count / scaled, so that the count
 * divided by it is what was scaled up; of a count of 0 the mean of the intervals' shares. */
double history_sum_running(const struct history_sum *sum);
