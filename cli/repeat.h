/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The means of several runs of a command, for `vpmu stat -r`. */
#ifndef CLI_REPEAT_H
#define CLI_REPEAT_H

#include "cli/reading.h"

/* mean_error - return the mean of the @n >= 1 values @x. *@error: the standard error of the mean,
 * sqrt(variance / n), as in perf stat -r; 0 for one value. */
double mean_error(const double *x, size_t n, double *error);

/*
 * repeat_mean - set @last, the difference over the last run, to the mean of the @n differences
 * @run. Rows are matched by id; a row missing in a run counts as 0. Each value gets its variance.
 * @last may be one of @run.
 */
void repeat_mean(struct reading *last, struct reading *const *run, size_t n);

#endif
