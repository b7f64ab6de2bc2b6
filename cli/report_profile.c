// SPDX-License-Identifier: GPL-2.0-or-later
/* Samples the host for `vpmu report`; see report.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/chain.h"
#include "cli/field.h"
#include "cli/images.h"
#include "cli/report.h"
#include "cli/stacks.h"
#include "service/program/memory.h"

#define PRUNE 2000 /* functions below this part of all samples are summed up */

struct report_profile {
	struct client *c;
	struct images *im;
	json_t *answer; /* of profile-start; NULL: none */
	char *error;	/* why there is none */
};

/* Some hundred samples a second on a busy CPU. Tried in this order; the first one that the server
 * can sample. */
static const struct {
	const char *event, *period;
} report_samples[] = {
	{"instructions", "100000"}, /* on the emulator, which is slower; see report_profile_start */
	{"cycles", "10000000"},
	{"cpu-clock", "5000000"},
};

/* Return true if the server's emulator runs VMs. */
static bool report_has_emulator(struct client *c)
{
	json_t *list = client_silent(c, "list");
	const json_t *node, *name;
	bool has = false;
	size_t i;

	json_array_foreach (json_object_get(list, "nodes"), i, node) {
		name = json_object_get(node, "backend");
		has |= json_is_string(name) && !strcmp(json_string_value(name), "emulator");
	}
	json_decref(list);
	return has;
}

struct report_profile *report_profile_start(struct client *c)
{
	struct report_profile *p = xcalloc(1, sizeof(*p));
	size_t first = report_has_emulator(c) ? 0 : 1;

	p->c = c;
	p->im = images_load(c);
	if (!p->im) {
		p->error = xstrdup("the server does not list its VMs");
		return p;
	}
	for (size_t i = first; i < sizeof(report_samples) / sizeof(*report_samples) && !p->answer;
	     i++) {
		free(p->error);
		p->error = NULL;
		p->answer = client_try(c,
				       json_pack("{s:s, s:s, s:s, s:b}", "cmd", "profile-start",
						 "event", report_samples[i].event, "period",
						 report_samples[i].period, "lbr", 1),
				       &p->error);
	}
	if (!p->answer && !p->error)
		p->error = xstrdup("the server cannot sample");
	return p;
}

static json_t *report_tree(const struct frame *f, uint64_t least)
{
	json_t *below = json_array();
	uint64_t other = 0;

	for (size_t i = 0; i < f->nr; i++) {
		if (f->child[i]->total >= least)
			json_array_append_new(below, report_tree(f->child[i], least));
		else
			other += f->child[i]->total;
	}
	if (other)
		json_array_append_new(below, json_pack("[s, I, []]", "[other]", (json_int_t)other));
	return json_pack("[s, I, o]", f->name ? f->name : "", (json_int_t)f->total, below);
}

static json_t *report_profile_json(struct images *im, const json_t *a)
{
	struct fields f = {0};
	struct frame root = {0};
	json_t *out = json_object();
	uint64_t n;
	static const struct {
		const char *key, *name;
	} numbers[] = {{"samples", "samples"},
		       {"lost", "lost"},
		       {"period", "period"},
		       {"throttled", "throttled"},
		       {"nobodys", "nobodys"}};
	uint64_t enabled_ns = field_u64_or(&f, a, "enabled-ns", 0);
	uint64_t running_ns = field_u64_or(&f, a, "running-ns", 0);

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		n = field_u64_or(&f, a, numbers[i].key, 0);
		json_object_set_new(out, numbers[i].name, json_integer((json_int_t)n));
	}
	if (running_ns < enabled_ns)
		json_object_set_new(out, "running",
				    json_real((double)running_ns / (double)enabled_ns));
	json_object_set_new(out, "event", json_string(field_string(&f, a, "event")));
	json_object_set_new(out, "backend", json_string(field_string_or(&f, a, "backend", "")));
	json_object_set_new(out, "note", json_string(field_string_or(&f, a, "note", "")));
	chains_look(&f, im, a);
	chains_add(&f, im, a, &root);
	if (!f.wrong) {
		n = root.total / PRUNE;
		json_object_set_new(out, "pruned", json_boolean(n > 1));
		json_object_set_new(out, "root", report_tree(&root, n));
	} else {
		json_object_set_new(
			out, "error",
			json_string("the server's answer does not follow the protocol"));
	}
	stacks_free(&root);
	return out;
}

json_t *report_profile_end(struct report_profile *p)
{
	const char *name = json_string_value(json_object_get(p->answer, "profile"));
	json_t *stop = NULL, *out;
	char *err = NULL;

	if (p->answer && !client_lost(p->c) && images_refresh(p->im, p->c) == 0)
		stop = client_try(p->c,
				  json_pack("{s:s, s:s*}", "cmd", "profile-stop", "profile", name),
				  &err);
	if (stop)
		out = report_profile_json(p->im, stop);
	else
		out = json_pack("{s:s}", "error",
				p->error ? p->error
				: err	 ? err
					 : "the server went away");
	json_decref(stop);
	json_decref(p->answer);
	images_free(p->im);
	free(p->error);
	free(err);
	free(p);
	return out;
}
