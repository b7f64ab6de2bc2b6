/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counts of `vpmu report`: a series of each event of each row, with a delta for each interval.
 * The form is that of the page's data (docs/report.md). Only report.c uses it.
 */
#ifndef CLI_REPORT_DATA_H
#define CLI_REPORT_DATA_H

#include <jansson.h>
#include <stdint.h>

#include "cli/reading.h"

struct report_data {
	json_t *times; /* the end of each interval, ns since 1970 */
	void *series;  /* tsearch(3) tree of struct report_series */
	json_t *list;  /* the same as JSON, in the order in which rows appeared */
	uint64_t dropped;
};

void report_data_init(struct report_data *d);
void report_data_fini(struct report_data *d);

/*
 * report_data_add - add the counts of one interval, that ended at @time_ns: @readings[0..n),
 * differences, of one session each. NULL: none of that session.
 */
void report_data_add(struct report_data *d, uint64_t time_ns, struct reading *const *readings,
		     size_t n);

/* report_data_end - return the array of all series; it belongs to the caller. No more calls but
 * report_data_fini(). */
json_t *report_data_end(struct report_data *d);

#endif
