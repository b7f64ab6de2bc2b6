/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How vpmud is: its rows of `vpmu check`, and its part of `sharing`. Event loop's thread. */
#ifndef VPMUD_REPORT_H
#define VPMUD_REPORT_H

#include <jansson.h>

#include "vpmud/discover/discover.h"
#include "cgroup/cgroup.h"
#include "vpmud/tree.h"

struct report {
	struct bpf_backend *kernel;
	const struct disc *disc;
	struct tree *tree;
	const char *cgroup_root;
	size_t sections;	  /* of tenants, in the configuration */
	const char *reload_error; /* why the last reload was refused; "": it was not */
};

/* report_check - append rows: what vpmud may not do; with @all everything about it. A row that does
 * not fit in memory is left out. */
void report_check(const struct report *r, json_t *rows, bool all);

/* report_pids - why no thread of a VM can be counted: vpmud is in a PID namespace of its own. NULL:
 * it is not, or nobody knows. */
const char *report_pids(void);

/* report_figures - add "kernel" to the answer of `sharing`: counters, and what the backend holds.
 * -ENOMEM. */
int report_figures(struct bpf_backend *kernel, json_t *resp);

#endif
