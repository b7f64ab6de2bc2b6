/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints the lines below a table of counts, for table.c: remarks on values, and why some are
 * missing. It must never change the reading. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/metrics.h"

/* legend_print - explain everything but plain counts: rows with errors, events and metrics without
 * a number, each word of a quality, scaling, dropped rows. @ms: NULL: no metrics. Returns true if
 * anything was printed. */
bool legend_print(FILE *to, const struct reading *r, const struct metrics *ms);

/* legend_as_of - print as of when @r is, how long it took to read it, and of which time its counts
 * are, in a line that begins with @mark. Nothing if the server does not report it. */
void legend_as_of(FILE *to, const char *mark, const struct reading *r);

/* legend_meanings - print the description of each metric, for tables, which have no room for it. */
void legend_meanings(FILE *to, const struct metrics *ms);
