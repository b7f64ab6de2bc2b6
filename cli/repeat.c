// SPDX-License-Identifier: GPL-2.0-or-later
/* The means of several runs: see stat.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/stat.h"
#include "service/program/memory.h"

double mean_error(const double *x, size_t n, double *error)
{
	double mean = 0, squares = 0;

	for (size_t i = 0; i < n; i++)
		mean += x[i] / (double)n;
	for (size_t i = 0; i < n; i++)
		squares += (x[i] - mean) * (x[i] - mean);
	*error = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : 0;
	return mean;
}

static const struct rrow *repeat_find(const struct reading *r, uint64_t id, size_t hint)
{
	if (hint < r->nr_rows && r->rows[hint].id == id)
		return &r->rows[hint];
	for (size_t i = 0; i < r->nr_rows; i++)
		if (r->rows[i].id == id)
			return &r->rows[i];
	return NULL;
}

/* Return the mean of event @e of row @i of @last, which lacks what any run lacks. @x has room for
 * @n values. */
static struct val mean_of(const struct reading *last, size_t i, size_t e,
			  struct reading *const *run, size_t n, double *x)
{
	unsigned __int128 count = 0, enabled = 0, running = 0;
	struct val out = last->rows[i].v[e];
	double mean, error;

	*out.quality = '\0';
	for (size_t k = 0; k < n; k++) {
		const struct rrow *row = repeat_find(run[k], last->rows[i].id, i);
		const struct val *v = row ? &row->v[e] : NULL;

		quality_add(out.quality, v ? v->quality : "");
		out.age_ns = v && v->age_ns > out.age_ns ? v->age_ns : out.age_ns;
		x[k] = v ? (double)val_scaled(v) : 0;
		count += v ? v->count : 0;
		enabled += v ? v->enabled_ns : 0;
		running += v ? v->running_ns : 0;
	}
	if (!*out.quality)
		strcpy(out.quality, "exact");
	mean = mean_error(x, n, &error);
	out.count = (uint64_t)((count + n / 2) / n);
	out.enabled_ns = (uint64_t)((enabled + n - 1) / n);
	out.running_ns = (uint64_t)((running + n - 1) / n);
	out.variance = mean > 0 ? 100 * error / mean : 0;
	return out;
}

void repeat_mean(struct reading *last, struct reading *const *run, size_t n)
{
	size_t nr = last->nr_rows * last->nr_events;
	struct val *v = xcalloc(nr + 1, sizeof(*v));
	double *x = xcalloc(n + 1, sizeof(*x));

	last->to_us = 0; /* the mean is of several times */
	for (size_t k = 0; k < nr; k++)
		v[k] = mean_of(last, k / last->nr_events, k % last->nr_events, run, n, x);
	/* Only now: @last may be one of the runs. */
	for (size_t k = 0; k < nr; k++)
		last->rows[k / last->nr_events].v[k % last->nr_events] = v[k];
	for (size_t k = 0; k < n * last->nr_rows; k++) {
		struct rrow *row = &last->rows[k / n];
		const struct rrow *one = repeat_find(run[k % n], row->id, k / n);

		row->late_ns = one && one->late_ns > row->late_ns ? one->late_ns : row->late_ns;
	}
	free(v);
	free(x);
}
