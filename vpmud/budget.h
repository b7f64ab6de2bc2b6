/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The rows of `vpmu check` about hardware counters, built from the backend's budget. report.c calls
 * it. */
#ifndef VPMUD_BUDGET_H
#define VPMUD_BUDGET_H

#include <stdbool.h>

#include "cgroup/cgroup.h"

/* budget_rows - call @row for each line about @b: a name, whether it is in order, and the
 * reason. */
void budget_rows(const struct bpf_backend_budget *b,
		 void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg);

#endif
