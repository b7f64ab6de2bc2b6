/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `vpmu check` and the metrics show of the hardware counters of a host that vpmud counts. */
#ifndef VPMUD_BUDGET_H
#define VPMUD_BUDGET_H

#include <stdbool.h>

#include "exporter/exposition.h"
#include "cgroup/cgroup.h"

/* budget_rows - call @row for each line about @b: what, whether all is well, why. */
void budget_rows(const struct bpf_backend_budget *b,
		 void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg);

/* budget_metrics - the same as families. What is not known is absent. */
void budget_metrics(const struct bpf_backend_budget *b, struct expo *e);

#endif
