// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu stat --since; see stat.h. A first answer over the whole range names rows and events, then
 * slices of it that fit in an answer give the intervals, which are added up as they come.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/error.h"
#include "cli/history_answer.h"
#include "cli/history_range.h"
#include "cli/output.h"
#include "cli/names.h"
#include "cli/places.h"
#include "cli/reading.h"
#include "cli/stat.h"
#include "cli/table.h"
#include "cli/when.h"
#include "service/program/memory.h"
#include "vpmu/event/event.h"

#define EVENTS_MAX 64 /* of a request */
#define GAPS_MAX   8  /* lines */

/* An event of a row, in the order of the server's answers. */
struct past_series {
	const json_t *json; /* in the first answer */
	size_t row, event;
};

struct past {
	const struct since_opts *o;
	struct history_range range;
	const char *target;
	json_t *first; /* the answer for the whole range */
	struct past_series *series;
	size_t nr;
	struct reading *r;	 /* rows and events; values are set when it is printed */
	struct history_sum *sum; /* of the reading that is in work: [row * nr_events + event] */
	/* Of the answer in work: its series, and their places in series above. */
	const json_t **json;
	const struct past_series **of;
	size_t nr_of;
	uint64_t last_ns, begin_ns; /* end of the last interval; begin of the reading in work */
	size_t ticks, each;	    /* intervals in the reading in work, and at most; 0: no limit */
	uint64_t gap_ns;	    /* where the gap in work begins; 0: none */
	size_t gaps;
	bool shown;
};

/* ---- rows ----------------------------------------------------------------------------------- */

static unsigned int past_depth(const char *path)
{
	unsigned int n = 0;

	for (const char *s = path; *s; s++)
		n += *s == '/' && s[1];
	return n < ROW_DEPTH_MAX ? n : ROW_DEPTH_MAX - 1;
}

static size_t past_row(struct past *p, const json_t *s)
{
	struct reading *r = p->r;
	const char *path = history_answer_field(s, "tenant"), *vm = history_answer_field(s, "vm");
	struct rrow *row = r->nr_rows ? &r->rows[r->nr_rows - 1] : NULL;

	if (row && !strcmp(row->path, path) && !strcmp(row->vm ? row->vm : "", vm ? vm : ""))
		return r->nr_rows - 1;
	row = &r->rows[r->nr_rows];
	*row = (struct rrow){
		.order = r->nr_rows,
		.kind = vm			 ? ROW_VM
			: !strcmp(path, "/")	 ? ROW_ROOT
			: !strcmp(path, "/host") ? ROW_HOST
						 : ROW_TENANT,
		.depth = past_depth(path) + (vm != NULL),
		.path = xstrdup(path),
		.vm = xstrdup(vm),
		.backend = xstrdup(history_answer_field(s, "backend")),
	};
	return r->nr_rows++;
}

static size_t past_event(struct past *p, const char *name)
{
	struct reading *r = p->r;

	for (size_t e = 0; e < r->nr_events; e++)
		if (!strcmp(r->events[e], name))
			return e;
	r->events = xreallocarray(r->events, r->nr_events + 1, sizeof(*r->events));
	r->events[r->nr_events] = xstrdup(name);
	return r->nr_events++;
}

/* Events that were asked for and have no count have a column, too. A name may differ from the
 * session's. */
static void past_asked(struct past *p)
{
	enum vpmu_space raw = vpmu_event_host_space();
	vpmu_key_t keys[EVENTS_MAX], kept;
	char *names[EVENTS_MAX] = {0}, why[200];
	size_t n = EVENTS_MAX, have = p->r->nr_events;

	if (!have || !p->o->what->events ||
	    vpmu_event_parse_list(p->o->what->events, raw, keys, names, &n, why, sizeof(why)))
		return; /* the server has refused such a list */
	for (size_t i = 0; i < n; i++) {
		bool found = false;

		for (size_t e = 0; e < have && !found; e++)
			found = !vpmu_event_parse(p->r->events[e], raw, &kept, why, sizeof(why)) &&
				kept == keys[i];
		if (!found)
			past_event(p, names[i]);
		free(names[i]);
	}
}

/* Parents before children: "/" sorts before all other bytes. */
static int past_by_path(const void *a, const void *b)
{
	const struct rrow *x = a, *y = b;
	const unsigned char *s = (const unsigned char *)x->path,
			    *t = (const unsigned char *)y->path;

	if (x->kind <= ROW_HOST || y->kind <= ROW_HOST) /* as in a session */
		return (x->kind > y->kind) - (x->kind < y->kind);
	while (*s && *s == *t) {
		s++;
		t++;
	}
	if (*s != *t)
		return !*s ? -1 : !*t ? 1 : *s == '/' ? -1 : *t == '/' ? 1 : *s < *t ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* With a count in the range, and without --for-each only the target itself. */
static bool past_wants(const struct past *p, const json_t *s)
{
	if (!json_is_integer(json_array_get(json_object_get(s, "delta"), 0)))
		return false;
	return strcmp(p->o->what->scope, "none") || *p->target != '/' ||
	       !strcmp(history_answer_field(s, "tenant"), p->target);
}

static void past_rows(struct past *p)
{
	const json_t *list = json_object_get(p->first, "series"), *s;
	size_t n = json_array_size(list), i;

	p->series = xcalloc(n + 1, sizeof(*p->series));
	p->r->rows = xcalloc(n + 1, sizeof(*p->r->rows));
	json_array_foreach (list, i, s) {
		if (!past_wants(p, s))
			continue;
		p->series[p->nr].json = s;
		p->series[p->nr].row = past_row(p, s);
		p->series[p->nr++].event = past_event(p, history_answer_field(s, "event"));
	}
	past_asked(p);
	for (i = 0; i < p->r->nr_rows; i++)
		p->r->rows[i].v = xcalloc(p->r->nr_events, sizeof(*p->r->rows[i].v));
	p->sum = xcalloc(p->r->nr_rows * p->r->nr_events + 1, sizeof(*p->sum));
	if (p->r->nr_rows)
		qsort(p->r->rows, p->r->nr_rows, sizeof(*p->r->rows), past_by_path);
	p->r->target = xstrdup(p->target);
	p->r->scope = xstrdup(p->o->what->scope);
}

/* ---- adding up ------------------------------------------------------------------------------ */

/* The running share is history_sum_running(). */
static void past_val(const struct past *p, struct history_sum *sum, struct val *v)
{
	*v = (struct val){.supported = true, .variance = -1, .count = sum->count};
	if (!sum->ticks)
		return;
	history_sum_partial(sum, p->ticks);
	memcpy(v->quality, sum->quality, sizeof(v->quality));
	if (!*v->quality)
		strcpy(v->quality, "exact");
	v->enabled_ns = v->running_ns = sum->ticks * p->range.step_ns;
	if (sum->multiplexed) {
		/* If each multiplexed interval was 0, nothing was scaled up; it is an estimate all
		 * the same. */
		const bool up = sum->count < sum->scaled;

		v->estimate = sum->scaled;
		v->running_ns = up ? sum->count : sum->shares;
		v->enabled_ns = up ? sum->scaled : sum->ticks * 100;
	}
}

static void past_print(struct past *p)
{
	const struct format_opts *f = p->o->format;
	struct reading *r = p->r;
	FILE *to = out_stream(f);

	if (!p->ticks)
		return;
	for (size_t i = 0; i < r->nr_rows; i++)
		for (size_t e = 0; e < r->nr_events; e++)
			past_val(p, &p->sum[r->rows[i].order * r->nr_events + e], &r->rows[i].v[e]);
	r->start_ns = p->begin_ns;
	r->end_ns = p->last_ns;
	r->age_ns = p->last_ns - p->begin_ns;
	if (p->o->interval_s <= 0) {
		table_print_as(f, r, NULL);
	} else if (f->json) {
		out_json(f, r, -1);
	} else {
		if (!p->shown)
			out_lines_heading(f, r);
		out_lines(f, r, 0);
	}
	p->shown = true;
	fflush(to);
	memset(p->sum, 0, r->nr_rows * r->nr_events * sizeof(*p->sum));
	p->ticks = 0;
	p->begin_ns = p->last_ns;
}

/* ---- intervals ------------------------------------------------------------------------------ */

static void past_gap_end(struct past *p)
{
	char from[WHEN_LEN], to[WHEN_LEN];

	if (p->gap_ns && ++p->gaps <= GAPS_MAX)
		cli_error("stat: nothing was counted from %s to %s", when_text(p->gap_ns, from),
			  when_text(p->last_ns, to));
	p->gap_ns = 0;
}

/* Both answers have the same order; this one may lack some series. */
static void past_answer(void *arg, const json_t *answer)
{
	const json_t *list = json_object_get(answer, "series"), *s;
	struct past *p = arg;
	size_t k, at = 0;

	p->nr_of = 0;
	p->of = xreallocarray(p->of, json_array_size(list) + 1, sizeof(*p->of));
	p->json = xreallocarray(p->json, json_array_size(list) + 1, sizeof(*p->json));
	json_array_foreach (list, k, s) {
		size_t i = at;

		while (i < p->nr && !history_answer_same(p->series[i].json, s))
			i++;
		if (i == p->nr)
			continue;
		at = i + 1;
		p->of[p->nr_of] = &p->series[i];
		p->json[p->nr_of++] = s;
	}
}

static void past_tick(void *arg, uint64_t begin_ns, uint64_t end_ns, size_t i)
{
	size_t nr, k;
	struct past *p = arg;
	bool counted = false;

	if (!p->last_ns)
		p->begin_ns = begin_ns;
	p->last_ns = begin_ns;
	nr = i == SIZE_MAX ? 0 : p->nr_of;
	for (k = 0; k < nr && !counted; k++)
		counted = history_answer_counted(p->json[k], i);
	if (counted)
		past_gap_end(p);
	else if (!p->gap_ns)
		p->gap_ns = begin_ns;
	p->last_ns = end_ns;
	p->ticks++;
	for (k = 0; k < nr; k++)
		history_sum_add(&p->sum[p->of[k]->row * p->r->nr_events + p->of[k]->event],
				p->json[k], i);
	if (p->each && p->ticks == p->each)
		past_print(p);
}

static bool past_walk(struct past *p)
{
	const struct history_visit v = {.answer = past_answer, .tick = past_tick, .arg = p};

	if (!history_range_walk(&p->range, json_array_size(json_object_get(p->first, "series")),
				&v))
		return false;
	past_gap_end(p);
	if (p->gaps > GAPS_MAX)
		cli_error("stat: and %zu more gaps", p->gaps - GAPS_MAX);
	past_print(p);
	return true;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool past_find(struct past *p, uint64_t until_ns)
{
	const struct history_range *r = &p->range;
	char from[WHEN_LEN], to[WHEN_LEN];

	p->first = history_range_first(&p->range, until_ns);
	if (!p->first)
		return false;
	past_rows(p);
	if (!p->nr)
		cli_error("stat: nothing was kept of %s%s%s from %s to %s: no session counted it; "
			  "see history in vpmud.conf(5)",
			  r->events ? r->events : "", r->events ? " of " : "", p->target,
			  when_text(r->from_ns, from), when_text(until_ns, to));
	return p->nr != 0;
}

static bool past_each(struct past *p)
{
	uint64_t ms = p->range.step_ns / 1000000, want = (uint64_t)(p->o->interval_s * 1000 + 0.5);

	if (p->o->interval_s <= 0)
		return true;
	if (want < ms || want % ms) {
		cli_error("stat: -I: %llu ms is invalid; expected a multiple of %llu ms, the "
			  "interval of what is kept",
			  (unsigned long long)want, (unsigned long long)ms);
		return false;
	}
	p->each = want / ms;
	return true;
}

static void past_free(struct past *p)
{
	reading_free(p->r);
	free(p->series);
	free(p->json);
	free(p->of);
	free(p->sum);
	json_decref(p->first);
}

/* All that the user may see, as without a target in a session: "/", or a reader's only tenant. NULL
 * after an error was printed. */
static char *since_all(const struct what_opts *what, struct client *c)
{
	char *err, *all = NULL;
	json_t *list = client_try(c, json_pack("{s:s}", "cmd", "list"), &err);
	const json_t *nodes = json_object_get(list, "nodes"), *node;
	const char *top = history_answer_field(json_array_get(nodes, 0), "path"), *path;
	size_t n = top ? strlen(top) : 0, i;
	bool several = false;

	free(err);
	json_array_foreach (nodes, i, node) {
		path = history_answer_field(node, "path");
		several |= n > 1 && path && (strncmp(path, top, n) || (path[n] && path[n] != '/'));
	}
	if (several && !strcmp(what->scope, "none"))
		cli_error("stat: --since: you may see several tenants; give -t or --for-each");
	else
		all = xstrdup(n && !several ? top : "/");
	json_decref(list);
	return all;
}

int since_run(const struct since_opts *o, struct client *c)
{
	const struct what_opts *what = o->what;
	char *target = what->nr_targets ? places_target(c, what->kind[0], what->target[0])
					: since_all(what, c);
	struct past p = {.o = o, .r = xcalloc(1, sizeof(struct reading))};
	uint64_t since_ns, until_ns;
	bool ok = false;

	history_range_times("stat", o->past, &since_ns, &until_ns);
	if (target) {
		p.target = names_target(c, target);
		/* Without --for-each the only row is the target's, which for a VM is its own. */
		p.range = (struct history_range){.c = c,
						 .cmd = "stat",
						 .target = p.target,
						 .scope = strcmp(what->scope, "none") ? what->scope
							  : *p.target == '/'	      ? "tenant"
										      : "vm",
						 .events = what->events};
		ok = history_range_clip(&p.range, since_ns, until_ns) && past_each(&p) &&
		     past_find(&p, until_ns) && past_walk(&p);
	}
	past_free(&p);
	free(target);
	return ok ? 0 : 1;
}
