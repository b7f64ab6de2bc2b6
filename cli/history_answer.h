/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checked answers to the request `history` (docs/protocol.md): the server may answer anything. */
#ifndef CLI_HISTORY_ANSWER_H
#define CLI_HISTORY_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
