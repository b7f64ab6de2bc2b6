// SPDX-License-Identifier: GPL-2.0-or-later
/* Explains empty results; see profile.h. */
#include <stdio.h>
#include <string.h>

#include "cli/field.h"
#include "cli/profile.h"

/* The VMs of a target, by state. */
struct states {
	unsigned int all, running, paused, ended;
};

static bool is_of(const char *target, const char *path, const char *vm)
{
	size_t n = strlen(target);

	if (*target != '/')
		return strcmp(vm, target) == 0;
	if (strcmp(target, "/host") == 0 && strcmp(path, "/") == 0) /* of vpmu-vmm */
		return true;
	return n == 1 || (strncmp(path, target, n) == 0 && (!path[n] || path[n] == '/'));
}

static void count_states(const json_t *list, const char *target, struct states *s)
{
	struct fields f = {0};
	const json_t *nodes = field_array(&f, list, "nodes"), *node;
	size_t i;

	json_array_foreach (nodes, i, node) {
		const char *vm = field_string_or(&f, node, "vm", NULL);
		const char *state = field_string_or(&f, node, "state", "running");

		if (!vm || !is_of(target, field_string(&f, node, "path"), vm))
			continue;
		s->all++;
		s->running += strcmp(state, "running") == 0;
		s->paused += strcmp(state, "paused") == 0;
		s->ended += strcmp(state, "done") == 0 || strcmp(state, "failed") == 0;
	}
}

bool why_not_running(struct client *c, const char *target, char why[WHY_LEN])
{
	json_t *list = client_silent(c, "list");
	bool vm = *target != '/', known = list != NULL;
	struct states s = {0};

	count_states(list, target, &s);
	json_decref(list);
	if (s.running)
		snprintf(why, WHY_LEN, "nothing of it ran in that time");
	else if (!s.all)
		snprintf(why, WHY_LEN,
			 vm ? "it was removed" : "nothing of it ran, and it has no VMs");
	else if (vm && s.paused)
		snprintf(why, WHY_LEN, "it is paused; `vpmu resume %.64s` lets it run", target);
	else if (vm)
		snprintf(why, WHY_LEN, "it has ended");
	else
		snprintf(why, WHY_LEN, "none of its VMs runs: %u paused, %u ended", s.paused,
			 s.ended);
	return known && !s.running;
}
