/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The counts of `vpmu report` that vpmud has kept: those of a page of the past, and those with
 * which the page compares (docs/report.md). Only report.c uses it.
 */
#ifndef CLI_REPORT_PAST_H
#define CLI_REPORT_PAST_H

#include <jansson.h>
#include <stdint.h>

#include "cli/client.h"
#include "cli/options.h"

struct report_past {
	uint64_t start_ns, interval_ns;
	json_t *times, *series; /* as in the page's data */
};

/* report_past_read - read what is kept of the time @past of @events (NULL: all). Returns false
 * after an error was printed. report_past_fini - free it. */
bool report_past_read(struct client *c, const struct past_opts *past, const char *events,
		      struct report_past *out);
void report_past_fini(struct report_past *p);

/* report_past_baseline - return the page's "baseline": cycles, instructions and CPU time of all
 * that is kept. NULL: nothing is, or this server keeps nothing. */
json_t *report_past_baseline(struct client *c);

#endif
