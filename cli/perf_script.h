/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A profile's samples in the format of `perf script --ns -F comm,pid,time,period,event,ip,sym,dso`,
 * which FlameGraph's stackcollapse-perf.pl and speedscope read. vpmu profile
 * and vpmu lbr call this.
 */
#ifndef CLI_PERF_SCRIPT_H
#define CLI_PERF_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/chain.h"
#include "cli/field.h"
#include "cli/images.h"

/* What each sample is: @period events. */
struct perf_script_about {
	const char *event;
	uint64_t period;
};

/* What a file does not say. */
struct perf_script_gaps {
	uint64_t left_out; /* samples that are not in it: the server had no room for their call
			      chains */
	bool no_times;	   /* times were asked for, and the server had no room for all of them */
};

/* perf_script_print - print each sample of @answer, of profile-stop or lbr-detach with chains, to
 * @f: in the order of their times if each has one, else chain by chain. Wrong fields are in
 * @fields. */
void perf_script_print(const struct perf_script_about *about, struct fields *fields,
		       struct images *im, const json_t *answer, FILE *f,
		       struct perf_script_gaps *gaps);

/* perf_script_who - who ran, as a command name: "web-1/vcpu0", a tenant's path or "[host]". Returns
 * @buf. */
#define WHO_LEN 300
const char *perf_script_who(const struct origin *o, char buf[WHO_LEN]);

#endif
