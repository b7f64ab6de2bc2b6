// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Histograms and call chains in answers, for the commands of profiles and captures:
 * docs/protocol.md. Control thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "service/commands.h"
#include "service/request.h"
#include "service/traces.h"

/* Fields common to rows and chains. */
static json_t *trace_object(const struct trace *t)
{
	const struct who *w = t->who;
	json_t *obj =
		json_pack("{s:s*, s:s*, s:s*, s:o}", "vm", w && *w->vm ? w->vm : NULL, "tenant",
			  w ? w->tenant : NULL, "side", vpmu_side_name((enum vpmu_side)t->side),
			  "samples", json_u64(t->samples));

	if (w && w->vcpu >= 0)
		json_object_set_new(obj, "vcpu", json_integer(w->vcpu));
	if (t->pid)
		json_object_set_new(obj, "pid", json_integer(t->pid));
	if (t->pid && t->first_ns)
		json_object_set_new(obj, "first-ns", json_u64(t->first_ns));
	if (t->known && t->cpl != TRACE_CPL_UNKNOWN)
		json_object_set_new(obj, "cpl", json_integer(t->cpl));
	return obj;
}

static json_t *row_object(const struct trace *t)
{
	json_t *obj = trace_object(t);

	if (t->known)
		json_object_set_new(obj, "ip", command_address(t->ip[0]));
	return obj;
}

static json_t *chain_object(const struct trace *t)
{
	json_t *obj = trace_object(t), *chain = json_array(), *times = json_array();

	for (unsigned int i = 0; i < t->nr; i++) {
		/* Unknown: the sample's address, or a call from a level that is not recorded. */
		bool known = i ? t->ip[i] != VPMU_LBR_FROM_FILTERED : t->known;

		json_array_append_new(chain, known ? command_address(t->ip[i]) : json_null());
	}
	json_object_set_new(obj, "chain", chain);
	for (size_t i = 0; i < t->nr_times; i++)
		json_array_append_new(times, json_integer((json_int_t)t->time_ns[i]));
	command_array(obj, "times", times);
	return obj;
}

int command_traces(json_t *resp, const char *key, const struct traces *t, size_t max, bool chains)
{
	const struct trace **all = traces_sorted(t);
	json_t *array = json_array();
	uint64_t other = t->other;
	char name[32];

	for (size_t i = 0; all && i < t->nr; i++) {
		if (i < max)
			json_array_append_new(array,
					      chains ? chain_object(all[i]) : row_object(all[i]));
		else
			other += all[i]->samples;
	}
	json_object_set_new(resp, key, array);
	free(all);
	snprintf(name, sizeof(name), "nr-%s", key);
	json_object_set_new(resp, name, json_integer((json_int_t)t->nr));
	snprintf(name, sizeof(name), "other-%s", key);
	json_object_set_new(resp, name, json_u64(other));
	return all ? 0 : -ENOMEM;
}
