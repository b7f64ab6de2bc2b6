/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of vpmu profile. profile_view.c formats the server's answer. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/images.h"
#include "cli/options.h"

struct profile_format {
	bool vcpu;	       /* each vCPU separately */
	bool chains;	       /* the profile has call chains; text includes them */
	bool folded, json;     /* instead of text; no more than one of these and data */
	enum data_format data; /* DATA_NONE, DATA_PERF_SCRIPT or DATA_PPROF */
	FILE *f;	       /* for folded stacks and data; all else goes to standard output */
	int64_t start_ns, duration_ns; /* of the profile; start since the epoch */
};

/* profile_show - check @answer, of profile-stop, and print it. Returns the exit status. */
int profile_show(const struct profile_format *format, struct images *im, const json_t *answer);

/* frequency.c: perf's -F, the period of a profile for a number of samples per second. */
#define FREQUENCY_MAX 100000

struct client;

/*
 * frequency_period - write the period with which @event of @target makes @hz samples in each second
 * that one CPU runs the target, in digits, to @period. Of a clock event that is exact; of others
 * the rate is measured first, for FREQUENCY_MEASURE_S. False after an error was printed. Call
 * cli_wait_init() before.
 */
#define FREQUENCY_MEASURE_S 0.2
#define FREQUENCY_LEN	    24
bool frequency_period(struct client *c, const char *event, const char *target, long hz,
		      char period[FREQUENCY_LEN]);

/* why.c explains empty results of vpmu profile and vpmu lbr. */
/* why_not_running - returns true if no VM of @target is running. @why: the reason, for an error
 * line; set even if one is. */
#define WHY_LEN 256
bool why_not_running(struct client *c, const char *target, char why[WHY_LEN]);
