/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu profile shows of the server's answer. */
#ifndef CLI_PROFILE_VIEW_H
#define CLI_PROFILE_VIEW_H

#include <jansson.h>
#include <stdbool.h>

#include "cgroup/cli/images.h"

struct profile_format {
	bool vcpu;			/* each vCPU separately */
	bool chains;			/* the profile has call chains; text shows them too */
	bool folded, json, perf_script; /* instead of text; at most one of them */
};

/* profile_show - check @answer, the answer of profile-stop, and print it. Returns the exit status.
 */
int profile_show(const struct profile_format *format, struct images *im, const json_t *answer);

#endif
