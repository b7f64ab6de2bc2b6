/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vpmud's own state: its rows of `vpmu check` and its part of `sharing`. The daemon calls it, on
 * the event loop's thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "vpmud/discover/discover.h"
#include "cgroup/cgroup.h"
#include "vpmud/guests.h"
#include "vpmud/tree.h"

struct report {
	struct bpf_backend *kernel;
	const struct disc *disc;
	struct tree *tree;
	const char *cgroup_root;
	size_t sections;	     /* [tenant] sections of the configuration */
	const struct guests *guests; /* NULL: no events for guests */
	const char *reload_error;    /* error of the last reload; "": it succeeded */
};

/* report_check - append rows to @rows: missing privileges; with @all, everything about vpmud. */
void report_check(const struct report *r, json_t *rows, bool all);

/* report_pids - return a text if vpmud is in a PID namespace of its own, where no thread of a VM
 * can be counted. NULL: it is not, or unknown. */
const char *report_pids(void);

/* report_figures - add to the answer of `sharing`: "kernel", counters and the backend's usage; and
 * "guests" (@guests, may be NULL). */
void report_figures(struct bpf_backend *kernel, const struct guests *guests, json_t *resp);

/* budget.c: the rows about hardware counters, built from the backend's budget. */
/* budget_rows - call @row for each line about @b: a name, whether it is in order, and the
 * reason. */
void budget_rows(const struct bpf_backend_budget *b,
		 void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg);
