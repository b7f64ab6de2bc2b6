/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu profile shows of the server's answer. */
#ifndef CLI_PROFILE_VIEW_H
#define CLI_PROFILE_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/images.h"
#include "cli/options.h"

struct profile_format {
	bool vcpu;	       /* each vCPU separately */
	bool chains;	       /* the profile has call chains; text shows them too */
	bool folded, json;     /* instead of text; at most one of these and data */
	enum data_format data; /* DATA_NONE, DATA_PERF_SCRIPT or DATA_PPROF */
	FILE *f; /* where folded stacks and data go; all else goes to standard output */
	int64_t start_ns, duration_ns; /* since 1970; of the profile */
};

/* profile_show - check @answer, the answer of profile-stop, and print it. Returns the exit status.
 */
int profile_show(const struct profile_format *format, struct images *im, const json_t *answer);

#endif
