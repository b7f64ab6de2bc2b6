// SPDX-License-Identifier: GPL-2.0-or-later
/* libFuzzer: metric files. A valid one can be computed with any counts; any other has
 * in one clean line, and leaves nothing behind. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "cli/metric/metric.h"

static void check_metric(const struct metric *m)
{
	static const double counts[] = {0, 1, 3, 1e9, 18446744073709551615.0};
	double value[FORMULA_EVENTS_MAX], result = NAN;
	size_t n = sizeof(counts) / sizeof(counts[0]);

	if (!m->name || !m->name[0] || !m->description || !m->text || !m->unit || !m->file ||
	    !m->formula.nr_events)
		abort();
	for (size_t from = 0; from < n; from++) {
		for (size_t i = 0; i < m->formula.nr_events; i++)
			value[i] = counts[(from + i) % n];
		if (!formula_compute(&m->formula, value, &result) && !isfinite(result))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct metric_set set = {0};
	char err[600] = "";

	if (metric_set_text(&set, "f", (const char *)data, size, err, sizeof(err))) {
		if (set.nr || set.metric || strncmp(err, "f:", 2))
			abort();
		fuzz_clean_line(err, true);
	}
	for (size_t i = 0; i < set.nr; i++)
		check_metric(&set.metric[i]);
	metric_set_free(&set);
	return 0;
}
