/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Times in double, and medians: for tests and benchmarks that measure. */
#pragma once

#include <stdlib.h>

#include "vpmu/util/clock.h"

/* @clock in s. */
static inline double clock_s(clockid_t clock)
{
	return (double)clock_ns(clock) * 1e-9;
}

/* For qsort() of double. */
static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts @v. */
static inline double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}
