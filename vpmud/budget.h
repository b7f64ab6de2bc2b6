/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `vpmu check` shows of the hardware counters of a host that vpmud counts. */
#ifndef VPMUD_BUDGET_H
#define VPMUD_BUDGET_H

#include <stdbool.h>

#include "cgroup/cgroup.h"

/* budget_rows - call @row for each line about @b: what, whether all is well, why. */
void budget_rows(const struct bpf_backend_budget *b,
		 void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg);

#endif
