/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints samples like `perf script --ns -F comm,pid,time,period,event,ip,sym,dso`, for FlameGraph's
 * stackcollapse-perf.pl and speedscope. Called by vpmu profile and vpmu lbr.
 */
#ifndef CLI_PERF_SCRIPT_H
#define CLI_PERF_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/chain.h"
#include "cli/field.h"
#include "cli/images.h"

/* Each sample stands for @period events. */
struct perf_script_about {
	const char *event;
	uint64_t period;
};

/* Information missing from the output. */
struct perf_script_gaps {
	uint64_t left_out; /* samples left out: the server had no room for their call chains */
	bool no_times;	   /* the server had no room for all of the requested times */
};

/* perf_script_print - print each sample of @answer (of profile-stop, or lbr-detach with chains) to
 * @f: by time if each has one, else chain by chain. Invalid fields are recorded in @fields. */
void perf_script_print(const struct perf_script_about *about, struct fields *fields,
		       struct images *im, const json_t *answer, FILE *f,
		       struct perf_script_gaps *gaps);

#endif
