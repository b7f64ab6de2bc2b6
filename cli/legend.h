/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The lines below a table of counts, for table.c: what is not a plain count, and why something has
 * no count. It never changes the reading. */
#ifndef CLI_LEGEND_H
#define CLI_LEGEND_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/metrics.h"

/* legend_print - explain what is not a plain count: rows with errors, events and metrics without a
 * number, each word of a quality, scaling, rows that were dropped. Returns whether anything was
 * printed.
 * @ms: NULL: no metrics. */
bool legend_print(FILE *to, const struct reading *r, const struct metrics *ms);

/* legend_meanings - what each metric is, for tables, which have no room for it. */
void legend_meanings(FILE *to, const struct metrics *ms);

#endif
