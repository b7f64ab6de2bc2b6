// SPDX-License-Identifier: GPL-2.0-or-later
/* What vpmud saves of its VMs and rules for the next one; see tree_priv.h. The file is untrusted: a
 * field that does not fit is treated as absent. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vpmud/tree_priv.h"

static bool is_saved(const json_t *saved, const struct tree_vm *v)
{
	const char *s = json_string_value(json_object_get(saved, "start"));
	char start[24];

	snprintf(start, sizeof(start), "%" PRIu64, v->vm->start_time);
	return json_integer_value(json_object_get(saved, "pid")) == v->vm->pid && s &&
	       !strcmp(s, start);
}

const char *tree_saved_text(const struct tree *t, const struct tree_vm *v, const char *key)
{
	const json_t *o;
	size_t i;

	json_array_foreach (json_object_get(t->saved, "vms"), i, o) {
		if (is_saved(o, v))
			return json_string_value(json_object_get(o, key));
	}
	return NULL;
}

bool tree_saved_for_another(const struct tree *t, const struct tree_vm *v, const char *name)
{
	char proc[32];
	const json_t *o;
	size_t i;

	json_array_foreach (json_object_get(t->saved, "vms"), i, o) {
		const char *s = json_string_value(json_object_get(o, "node"));

		if (!s || strcmp(s, name) || is_saved(o, v))
			continue;
		snprintf(proc, sizeof(proc), "/proc/%" JSON_INTEGER_FORMAT,
			 json_integer_value(json_object_get(o, "pid")));
		if (!access(proc, F_OK))
			return true;
	}
	return false;
}

json_t *tree_vm_save(const struct tree_vm *v)
{
	json_t *o = json_pack("{s:i, s:o}", "pid", v->vm->pid, "start",
			      json_sprintf("%" PRIu64, v->vm->start_time));

	/* A string that is not UTF-8 is left out. */
	if (v->libvirt)
		json_object_set_new(o, "kind", json_string("libvirt"));
	if (v->metadata)
		json_object_set_new(o, "tenant", json_string(v->metadata));
	if (v->shared)
		json_object_set_new(o, "shared", json_string(v->vm->cgroup));
	if (v->node) {
		json_object_set_new(o, "name", json_string(v->vm->name));
		json_object_set_new(o, "node", json_string(v->node->name));
	}
	return o;
}

/* A section: its path, and the patterns. */
static json_t *rule_save(const struct rule *rule)
{
	json_t *o = json_pack("[s+]", rule->path, rule->each ? "/*" : "");
	bool ok = o;

	for (size_t i = 0; i < rule->cgroup.nr && ok; i++)
		ok = !json_array_append_new(o, json_string(rule->cgroup.text[i]));
	if (ok)
		return o;
	json_decref(o);
	return NULL;
}

json_t *tree_rules_save(const struct rules *r)
{
	json_t *all = json_array();

	for (size_t i = 0; i < r->nr; i++) {
		if (!r->rule[i].cgroup.nr || !json_array_append_new(all, rule_save(&r->rule[i])))
			continue;
		json_decref(all);
		return NULL;
	}
	return all;
}

static bool rule_had(struct rules *r, const json_t *saved)
{
	const char *path = json_string_value(json_array_get(saved, 0)), *text;
	struct rule *rule;

	if (!path || rules_add(r, path, &rule, NULL, 0))
		return false;
	for (size_t i = 1; i < json_array_size(saved); i++) {
		text = json_string_value(json_array_get(saved, i));
		if (!text || !cgroup_pattern_ok(text) || patterns_add(&rule->cgroup, text))
			return false;
	}
	return true;
}

bool tree_rules_had(const json_t *saved, struct rules *out)
{
	bool ok = json_is_array(saved);

	for (size_t i = 0; i < json_array_size(saved) && ok; i++)
		ok = rule_had(out, json_array_get(saved, i));
	if (!ok)
		rules_fini(out);
	return ok;
}
