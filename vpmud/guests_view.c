// SPDX-License-Identifier: GPL-2.0-or-later
/* What `list`, `check` and `sharing` show of guests' counters; see guests.h. */
#include <inttypes.h>
#include <stdio.h>

#include "service/request.h"
#include "vpmu/event/event.h"
#include "vpmud/guests_priv.h"

unsigned int guests_bound(const struct guests *g)
{
	return g ? g->nr_binds : 0;
}

void guests_vm_info(const struct guests *g, const struct node *vm, json_t *obj)
{
	const struct vmm *v = g ? g->vmms : NULL;
	char name[VPMU_EVENT_NAME_MAX];

	while (v && v->vm != vm->serial)
		v = v->next;
	if (!v)
		return;
	if (v->nr_binds)
		json_object_set_new(obj, "guest-counters", json_integer(v->nr_binds));
	if (v->denials.denied) {
		json_object_set_new(obj, "denied", json_sprintf("%" PRIu64, v->denials.denied));
		json_object_set_new(obj, "denied-last",
				    json_string(vpmu_event_name(v->denials.denied_last, name)));
	}
	if (v->denials.full)
		json_object_set_new(obj, "refused", json_sprintf("%" PRIu64, v->denials.full));
}

void guests_check(const struct guests *g,
		  void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg)
{
	const struct guest_denials *d = g ? &g->denials : NULL;
	char why[400], name[VPMU_EVENT_NAME_MAX];

	if (!g)
		return;
	snprintf(why, sizeof(why), "%u of %u VM%s; %u of %d distinct events", g->nr_binds,
		 g->nr_vmms - g->nr_strangers, g->nr_vmms - g->nr_strangers == 1 ? "" : "s",
		 g->quotas.all.nr, GUEST_KEYS_MAX);
	row("counters of guests", true, why, arg);
	if (d->denied) {
		snprintf(why, sizeof(why), "%" PRIu64 " times; the newest: %s, of VM %s", d->denied,
			 vpmu_event_name(d->denied_last, name), g->denied_by);
		row("events denied to guests", false, why, arg);
	}
	if (d->full) {
		snprintf(why, sizeof(why), "%" PRIu64 " refused; the newest: %s, of VM %s", d->full,
			 vpmu_event_name(d->full_last, name), g->full_by);
		row("guests beyond their quota", false, why, arg);
	}
	if (g->dropped) {
		snprintf(why, sizeof(why),
			 "%" PRIu64 ", %" PRIu64 " of them of VMs that sent invalid requests",
			 g->dropped, g->invalid);
		row("VMMs dropped", !g->invalid, why, arg);
	}
}

/* For each event, how many guests' vCPUs and how many values of operators share its counter. */
static json_t *guests_events(const struct guests *g)
{
	json_t *events = json_array();
	char name[VPMU_EVENT_NAME_MAX];

	for (int i = 0; i < GUEST_KEYS_MAX; i++) {
		unsigned int guests = g->quotas.all.refs[i], users;

		if (!guests)
			continue;
		users = bpf_backend_users(g->o.kernel, g->quotas.key[i]);
		json_array_append_new(events,
				      json_pack("{s:s, s:I, s:I}", "event",
						vpmu_event_name(g->quotas.key[i], name), "guests",
						(json_int_t)guests, "operators",
						(json_int_t)(users > guests ? users - guests : 0)));
	}
	return events;
}

void guests_figures(const struct guests *g, json_t *resp)
{
	if (g)
		json_object_set_new(resp, "guests",
				    json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "vms",
					      (json_int_t)(g->nr_vmms - g->nr_strangers),
					      "counters", (json_int_t)g->nr_binds, "denied",
					      json_u64(g->denials.denied), "refused",
					      json_u64(g->denials.full), "dropped",
					      json_u64(g->dropped), "ended", json_u64(g->ended),
					      "events", guests_events(g)));
}
