/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The means of several runs of a command, for `vpmu stat -r`. */
#ifndef CLI_REPEAT_H
#define CLI_REPEAT_H

#include "cli/reading.h"

/* mean_error - the mean of the @n values @x, at least one. *error: the standard error of the mean,
 * sqrt(variance / n), as perf stat -r shows it; 0 if there is one value. */
double mean_error(const double *x, size_t n, double *error);

/*
 * repeat_mean - make @last, the difference over the last run, the mean of the @n differences @run.
 * Rows are matched by id; a row that a run does not have was 0 in it. Each value gets its variance.
 * @last may be one of @run.
 */
void repeat_mean(struct reading *last, struct reading *const *run, size_t n);

#endif
