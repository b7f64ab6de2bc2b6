// SPDX-License-Identifier: GPL-2.0-or-later
/* Rows of `vpmu check` about hardware counters; see report.h. Unknown values are reported as
 * unknown. */
#include <stdio.h>

#include "vpmud/report.h"

void budget_rows(const struct bpf_backend_budget *b,
		 void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg)
{
	char why[400];

	if (b->known && b->general)
		snprintf(why, sizeof(why),
			 "each CPU has %u general and %u fixed ones (%s); %u general %s left to "
			 "others",
			 b->general, b->fixed, b->from, b->left,
			 b->left == 1 ? "one is" : "ones are");
	else
		snprintf(why, sizeof(why),
			 "number of counters unknown: %s. The kernel alone assigns them; set "
			 "counters=N in vpmud.conf to leave some to others",
			 b->from);
	row("hardware counters", b->known && b->general, why, arg);
	if (b->turns)
		snprintf(why, sizeof(why),
			 "%u, which are multiplexed: values show their running share", b->keys);
	else
		snprintf(why, sizeof(why), "%u, which take no turns", b->keys);
	row("hardware events in use", !b->turns, why, arg);
	if (b->mediated)
		row("guests' events", false,
		    "not counted: KVM gives guests the counters for themselves while they run "
		    "(enable_mediated_pmu); events with :H count the host",
		    arg);
}
