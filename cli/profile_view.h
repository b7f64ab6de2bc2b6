/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Formats the server's answer for vpmu profile. */
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
	bool chains;	       /* the profile has call chains; text includes them */
	bool folded, json;     /* instead of text; no more than one of these and data */
	enum data_format data; /* DATA_NONE, DATA_PERF_SCRIPT or DATA_PPROF */
	FILE *f;	       /* for folded stacks and data; all else goes to standard output */
	int64_t start_ns, duration_ns; /* of the profile; start since the epoch */
};

/* profile_show - check @answer, of profile-stop, and print it. Returns the exit status. */
int profile_show(const struct profile_format *format, struct images *im, const json_t *answer);

#endif
