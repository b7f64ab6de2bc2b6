/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vpmu profile: its options, and what it makes of the server's answer. */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include "cgroup/cli/cli.h"
#include "cgroup/cli/symbols.h"

struct profile_opts {
	const char *event, *period, *target;
	double duration_s; /* below 0: none */
	bool vcpu, folded, json, chains;
};

/* profile_show - print @answer (of profile-stop). Returns the exit status; errors were printed. */
int profile_show(const struct profile_opts *o, struct images *im, const json_t *answer);

#endif
