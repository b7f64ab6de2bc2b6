// SPDX-License-Identifier: GPL-2.0-or-later
/* The sessions behind vpmu top: see top.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top.h"
#include "service/program/memory.h"

#define KEY_LEN 512

/* ---- states ------------------------------------------------------------------------------- */

/* Count a VM for the tenant @path on @backend. */
static void count_vm(json_t *tenants, const char *backend, const char *path, bool runs)
{
	char key[KEY_LEN];
	json_int_t n;

	snprintf(key, sizeof(key), "%s %s", backend, path);
	n = json_integer_value(json_object_get(tenants, key));
	/* Upper half: running VMs; lower half: all. */
	json_object_set_new(tenants, key, json_integer(n + 1 + (runs ? 1LL << 32 : 0)));
}

/* Count a VM for tenant @path and all tenants above. */
static void count_up(json_t *tenants, const char *backend, const char *path, bool runs)
{
	char part[KEY_LEN], *slash;

	count_vm(tenants, backend, "/", runs);
	if (strcmp(path, "/") == 0) {
		count_vm(tenants, backend, "/host", runs);
		return;
	}
	snprintf(part, sizeof(part), "%s", path);
	while (*part && (slash = strrchr(part, '/'))) {
		count_vm(tenants, backend, part, runs);
		*slash = '\0';
	}
}

/* The states of all VMs by name, and the numbers of VMs of all tenants. */
static void top_source_collect(const json_t *list, json_t *states, json_t *tenants)
{
	json_t *node;
	size_t i;

	json_array_foreach (json_object_get(list, "nodes"), i, node) {
		const char *vm = json_string_value(json_object_get(node, "vm"));
		const char *path = json_string_value(json_object_get(node, "path"));
		const char *backend = json_string_value(json_object_get(node, "backend"));
		json_t *state = json_object_get(node, "state");

		if (!vm || !path || !json_is_string(state))
			continue;
		json_object_set(states, vm, state);
		count_up(tenants, backend ? backend : "", path,
			 strcmp(json_string_value(state), "running") == 0);
	}
}

static void add_states(struct top_source *src)
{
	json_t *states = json_object(), *tenants = json_object(), *list;

	list = client_silent(src->c, "list");
	top_source_collect(list, states, tenants);
	for (size_t i = 0; i < src->diff->nr_rows; i++) {
		const struct rrow *row = &src->diff->rows[i];
		struct top_fact *fact = &src->facts[i];
		const char *state = json_string_value(json_object_get(states, row->vm));
		char key[KEY_LEN];
		json_int_t n;

		snprintf(fact->state, sizeof(fact->state), "%s", state ? state : "");
		if (row->kind > ROW_TENANT)
			continue;
		snprintf(key, sizeof(key), "%s %s", row->backend ? row->backend : "", row->path);
		n = json_integer_value(json_object_get(tenants, key));
		fact->running = (unsigned int)(n >> 32);
		fact->vms = (unsigned int)n;
	}
	json_decref(list);
	json_decref(states);
	json_decref(tenants);
}

/* ---- shares ------------------------------------------------------------------------------- */

/* Return the time that a row ran. */
static uint64_t time_of(const struct reading *r, const struct rrow *row)
{
	uint64_t max = 0;

	for (size_t e = 0; e < r->nr_events; e++)
		max = row->v[e].enabled_ns > max ? row->v[e].enabled_ns : max;
	return max;
}

/* Return true if the time of a row is known: an unsupported event has none. */
static bool has_time(const struct reading *r, const struct rrow *row)
{
	for (size_t e = 0; e < r->nr_events; e++)
		if (row->v[e].supported)
			return true;
	return false;
}

/* Return how many pCPUs @backend has that are always counted: the time of / per time; below 0:
 * unknown. */
static double all_cpus(const struct reading *r, const char *backend)
{
	for (size_t i = 0; r && reading_seconds(r) > 0 && i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];

		if (row->kind == ROW_ROOT && strcmp(row->backend ? row->backend : "", backend) == 0)
			return (double)time_of(r, row) / 1e9 / reading_seconds(r);
	}
	return -1;
}

/* Return how many percent of the pCPUs' time of @row's backend are @ns of @r. */
static double percent_of(const struct reading *host, const struct reading *r,
			 const struct rrow *row, uint64_t ns)
{
	const char *backend = row->backend ? row->backend : "";
	double cpus = all_cpus(r, backend), seconds = reading_seconds(r), percent;

	if (cpus < 0)
		cpus = all_cpus(host, backend);
	if (cpus < 0)
		return -1;
	percent = cpus > 0 && seconds > 0 ? (double)ns / 1e7 / seconds / cpus : 0;
	return percent > 100 ? 100 : percent; /* the two were read at different times */
}

/* Return the row of / with the idle time; NULL: unknown. */
static const struct rrow *idle_row(const struct reading *idling)
{
	for (size_t i = 0; idling && i < idling->nr_rows; i++)
		if (idling->rows[i].v[0].supported)
			return &idling->rows[i];
	return NULL;
}

static double share(const struct reading *host, const struct reading *r, const struct rrow *row,
		    const struct rrow *idle)
{
	uint64_t ns = time_of(r, row);

	if (!has_time(r, row))
		return -1;
	if (idle && row->kind == ROW_HOST)
		ns -= ns < idle->v[0].count ? ns : idle->v[0].count;
	return percent_of(host, r, row, ns);
}

static void add_shares(struct top_source *src)
{
	struct reading *host = src->host.nr ? sessions_read(&src->host, SESSION_READ) : NULL;
	struct reading *diff = reading_difference(host, &src->host_before);
	struct reading *now = src->idling.nr ? sessions_read(&src->idling, SESSION_READ) : NULL;
	struct reading *idling = reading_difference(now, &src->idling_before);
	const struct rrow *idle = idle_row(idling);

	src->idle = idle ? percent_of(diff, src->diff, idle, idle->v[0].count) : -1;
	for (size_t i = 0; i < src->diff->nr_rows; i++)
		src->facts[i].share = share(diff, src->diff, &src->diff->rows[i], idle);
	reading_free(idling);
	reading_free(diff);
}

/* ---- life --------------------------------------------------------------------------------- */

/* Count @events of / as well, silently omitted without permission. */
static void open_host(struct top_source *src, struct sessions *s, const char *events)
{
	char *err;
	json_t *resp = client_try(src->c,
				  json_pack("{s:s, s:s}", "cmd", "attach", "events", events), &err);
	const char *name = json_string_value(json_object_get(resp, "session"));

	if (name)
		sessions_named(s, src->c, name);
	json_decref(resp);
	free(err);
}

bool top_open(struct top_source *src, struct client *c, const struct top_opts *o)
{
	*src = (struct top_source){.c = c, .o = o};
	if (!sessions_attach(&src->sessions, c, &o->what, NULL))
		return false;
	open_host(src, &src->host, o->what.events);
	if (!o->what.cpus) /* else the time of / is of these CPUs only */
		open_host(src, &src->idling, "idle-time");
	return top_take(src) != NULL;
}

const struct reading *top_take(struct top_source *src)
{
	struct reading *diff =
		reading_difference(sessions_read(&src->sessions, SESSION_READ), &src->before);

	if (!diff)
		return NULL;
	src->age_s = (double)src->before->age_ns / 1e9;
	src->seconds = reading_seconds(diff);
	reading_free(src->diff);
	src->diff = diff;
	free(src->facts);
	src->facts = xcalloc(diff->nr_rows + 1, sizeof(*src->facts));
	add_shares(src);
	add_states(src);
	return client_lost(src->c) ? NULL : diff;
}

static void top_source_detach(struct client *c, struct sessions *s)
{
	json_t *resp;
	char *err;

	for (size_t i = 0; i < s->nr && !client_lost(c); i++) {
		resp = client_try(
			c, json_pack("{s:s, s:s}", "cmd", "detach", "session", s->name[i]), &err);
		json_decref(resp);
		free(err);
	}
	sessions_fini(s);
}

void top_close(struct top_source *src)
{
	top_source_detach(src->c, &src->sessions);
	top_source_detach(src->c, &src->host);
	top_source_detach(src->c, &src->idling);
	reading_free(src->diff);
	reading_free(src->before);
	reading_free(src->host_before);
	reading_free(src->idling_before);
	free(src->facts);
	*src = (struct top_source){0};
}
