/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A profile's samples in the format of `perf script -F comm,pid,period,event,ip,sym,dso`, which
 * FlameGraph's stackcollapse-perf.pl reads. vpmu profile and vpmu lbr call this.
 */
#ifndef CLI_PERF_SCRIPT_H
#define CLI_PERF_SCRIPT_H

#include <stdint.h>
#include <stdio.h>

#include "cgroup/cli/chain.h"
#include "cgroup/cli/field.h"
#include "cgroup/cli/images.h"

/* What each sample is: @period events. */
struct perf_script_about {
	const char *event;
	uint64_t period;
};

/* perf_script_print - print each sample of @answer, of profile-stop or lbr-detach with chains, to
 * @f. Wrong fields are in @fields. *@left_out: how many samples are not among them, because the
 * server had no room for their call chains. 0 or -ENOMEM. */
int perf_script_print(const struct perf_script_about *about, struct fields *fields,
		      struct images *im, const json_t *answer, FILE *f, uint64_t *left_out);

/* perf_script_who - who ran, as a command name: "web-1/vcpu0", a tenant's path or "[host]". Returns
 * @buf. */
#define WHO_LEN 300
const char *perf_script_who(const struct origin *o, char buf[WHO_LEN]);

#endif
