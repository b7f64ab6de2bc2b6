/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of `vpmu report`, which report.c uses. Their JSON has the form of the page's data
 * (docs/report.md).
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "cli/client.h"
#include "cli/options.h"
#include "cli/reading.h"

/* ---- report_data.c: the counts, a series of each event of each row with a delta for each interval
 */

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

/* ---- report_past.c: what vpmud has kept, for a page of the past and to compare with -------------
 */

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

/* ---- report_profile.c: a profile of the whole host, a tree of functions below each VM and tenant
 * - */

struct report_profile;

/* report_profile_start - start sampling. It never fails the report: the page has the reason. */
struct report_profile *report_profile_start(struct client *c);

/* report_profile_end - stop it and return the page's "profile"; frees @p. */
json_t *report_profile_end(struct report_profile *p);

/* ---- report_cpus.c: the CPUs that each VM and tenant ran on: a VM waits for those of its own ----
 */

struct report_cpus;

/* report_cpus_start - count on each CPU apart, from now on. NULL: the server cannot, or there are
 * too many CPUs; nothing is printed. */
struct report_cpus *report_cpus_start(struct client *c, unsigned int nr_cpus);

/* report_cpus_end - return the page's "cpus", or NULL; frees @p, which may be NULL. */
json_t *report_cpus_end(struct report_cpus *p);
