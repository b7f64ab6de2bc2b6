/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `vpmu check` prints as text: the verdict first, rows of one cause as one, states by design
 * apart from problems. JSON has every row. Pure but for standard output; rows have been checked.
 */
#ifndef CLI_CHECK_VIEW_H
#define CLI_CHECK_VIEW_H

#include <jansson.h>

/* check_view_split - move the rows of @rows that are so by design to the array @design. */
void check_view_split(json_t *rows, json_t *design);

/* check_view_fold - return a new array in which the rows of @rows with one backend, reason and
 * state are one row, at the place of the first. The caller frees it. */
json_t *check_view_fold(const json_t *rows);

/* check_view_verdict - print in one line how many problems the folded @rows and @holders have, and
 * which. */
void check_view_verdict(const json_t *rows, const json_t *holders);

#endif
