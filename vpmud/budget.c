// SPDX-License-Identifier: GPL-2.0-or-later
/* What `vpmu check` and the metrics show of hardware counters; see budget.h. What is not known is
 * said to be so.
 */
#include <stdio.h>

#include "vpmud/budget.h"

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
			 "not known how many a CPU has: %s. The kernel alone gives them out, and "
			 "none "
			 "is left to others, until counters in vpmud.conf says how many",
			 b->from);
	row("hardware counters", b->known && b->general, why, arg);
	if (b->turns)
		snprintf(why, sizeof(why),
			 "%u, which take turns: values show for which part of the time they were "
			 "counted",
			 b->keys);
	else
		snprintf(why, sizeof(why), "%u, which take no turns", b->keys);
	row("hardware events in use", !b->turns, why, arg);
	if (b->mediated)
		row("guests' events", false,
		    "not counted: KVM gives guests the counters for themselves while they run "
		    "(enable_mediated_pmu); events with :H count the host",
		    arg);
}

void budget_metrics(const struct bpf_backend_budget *b, struct expo *e)
{
	bool known = b->known && b->general;

	expo_family(e, "vpmu_cpu_counters", EXPO_GAUGE, NULL,
		    "Hardware counters of each CPU: for any event, or for one event each.");
	if (known) {
		expo_u64(e, "kind=\"general\"", b->general, 0);
		expo_u64(e, "kind=\"fixed\"", b->fixed, 0);
	}
	expo_family(e, "vpmu_cpu_counters_left", EXPO_GAUGE, NULL,
		    "General hardware counters of each CPU that are left to others.");
	if (known)
		expo_u64(e, "", b->left, 0);
	expo_family(e, "vpmu_cpu_counters_missing", EXPO_GAUGE, NULL,
		    "1 if it is not known how many hardware counters a CPU has.");
	if (!known)
		expo_u64(e, "reason=\"unknown\"", 1, 0);
	expo_family(e, "vpmu_cpu_keys", EXPO_GAUGE, NULL,
		    "Distinct events in use that need a hardware counter.");
	expo_u64(e, "", b->keys, 0);
	expo_family(e, "vpmu_cpu_keys_take_turns", EXPO_GAUGE, NULL,
		    "1 if there are more events than counters, so that each is counted a part of "
		    "the time.");
	expo_u64(e, "", b->turns, 0);
	expo_family(e, "vpmu_guests_have_counters", EXPO_GAUGE, NULL,
		    "1 if KVM gives guests the counters for themselves, so that their events are "
		    "not counted.");
	expo_u64(e, "", b->mediated, 0);
}
