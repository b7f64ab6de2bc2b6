// SPDX-License-Identifier: GPL-2.0-or-later
/* Collects the counts of `vpmu report`; see report.h. A missing count is null, never 0. A row that
 * ends and one that begins with its name are one series: the page knows rows by their names. */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report.h"
#include "service/program/memory.h"

/* Made from the time that a row ran, where task-clock is not counted. */
#define CPU_TIME "cpu-time"

struct report_series {
	size_t session;
	char *row; /* its backend and names, which have no blanks */
	char *event;
	bool cpu_time; /* CPU_TIME, made here, not an event of the reading */
	json_t *json;  /* borrowed: of the list */
	json_t *delta; /* borrowed: of json */
	uint64_t count, enabled_ns, running_ns;
	char words[64]; /* of all qualities, but "exact" */
};

void report_data_init(struct report_data *d)
{
	*d = (struct report_data){.times = json_array(), .list = json_array()};
}

static void report_series_free(void *p)
{
	struct report_series *s = p;

	free(s->row);
	free(s->event);
	free(s);
}

void report_data_fini(struct report_data *d)
{
	tdestroy(d->series, report_series_free);
	json_decref(d->times);
	json_decref(d->list);
	*d = (struct report_data){0};
}

static int report_series_order(const void *a, const void *b)
{
	const struct report_series *x = a, *y = b;
	int ret;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	if (x->cpu_time != y->cpu_time)
		return x->cpu_time - y->cpu_time;
	ret = strcmp(x->row, y->row);
	return ret ? ret : strcmp(x->event, y->event);
}

/* Fill up to @n values with null: the row was not there. */
static void report_series_pad(const struct report_series *s, size_t n)
{
	while (json_array_size(s->delta) < n)
		json_array_append_new(s->delta, json_null());
}

static bool report_in_ns(const char *event)
{
	static const char *const clocks[] = {CPU_TIME,	  "task-clock", "cpu-clock",
					     "run-delay", "steal",	"idle-time"};
	size_t len = strcspn(event, ":");

	for (size_t i = 0; i < sizeof(clocks) / sizeof(*clocks); i++)
		if (!strncmp(event, clocks[i], len) && !clocks[i][len])
			return true;
	return false;
}

/* @name: see struct report_series. */
static struct report_series *report_series_of(struct report_data *d, size_t session, char *name,
					      const struct rrow *row, const char *event,
					      bool cpu_time)
{
	struct report_series key = {.session = session,
				    .row = name,
				    .event = (char *)event,
				    .cpu_time = cpu_time},
			     *s;
	void *found = tfind(&key, &d->series, report_series_order);

	if (found)
		return *(struct report_series **)found;
	s = xcalloc(1, sizeof(*s));
	*s = key;
	s->row = xstrdup(name);
	s->event = xstrdup(event);
	s->json = json_pack("{s:s, s:s?, s:s, s:s, s:[]}", "tenant", row->path, "vm", row->vm,
			    "event", event, "unit", report_in_ns(event) ? "ns" : "", "delta");
	if (!s->json) /* the strings of an answer are UTF-8 */
		memory_out();
	if (row->backend)
		json_object_set_new(s->json, "backend", json_string(row->backend));
	s->delta = json_object_get(s->json, "delta");
	json_array_append_new(d->list, s->json);
	if (!tsearch(s, &d->series, report_series_order))
		memory_out();
	return s;
}

static json_t *report_number(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

/* Add @count to the interval after the first @n. @counted: false: it is not known. */
static void report_series_count(struct report_series *s, size_t n, bool counted, uint64_t count)
{
	const json_t *has;

	report_series_pad(s, n);
	has = json_array_get(s->delta, n); /* of another row of this name */
	count += (uint64_t)json_integer_value(has);
	if (!has)
		json_array_append_new(s->delta, counted ? report_number(count) : json_null());
	else if (counted)
		json_array_set_new(s->delta, n, report_number(count));
}

/* Remember the words of @quality that are new. */
static void report_series_words(struct report_series *s, const char *quality)
{
	char all[sizeof(((struct val *)NULL)->quality)], *word, *save;

	snprintf(all, sizeof(all), "%s", quality);
	for (word = strtok_r(all, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		size_t len = strlen(s->words);
		struct val v = {0};

		snprintf(v.quality, sizeof(v.quality), "%.31s", s->words);
		if (!strcmp(word, "exact") || val_has(&v, word) ||
		    len + strlen(word) + 2 > sizeof(v.quality))
			continue;
		snprintf(s->words + len, sizeof(s->words) - len, "%s%s", len ? " " : "", word);
	}
}

static void report_add_value(struct report_data *d, size_t session, char *name,
			     const struct reading *r, const struct rrow *row, size_t e)
{
	struct report_series *s = report_series_of(d, session, name, row, r->events[e], false);
	const struct val *v = &row->v[e];
	const char *why = row->error ? row->error : v->supported ? NULL : reading_why(r, row, e);
	bool counted = v->supported && !row->error && (v->running_ns || v->count || !v->enabled_ns);

	report_series_count(s, json_array_size(d->times), counted, val_scaled(v));
	s->count += v->count;
	s->enabled_ns += v->enabled_ns;
	s->running_ns += v->running_ns < v->enabled_ns ? v->running_ns : v->enabled_ns;
	if (counted)
		report_series_words(s, v->quality);
	if (row->error || !v->supported)
		json_object_set_new(s->json, "why",
				    json_string(why ? why : "the host cannot count it"));
}

/* The time that the row ran, as in vpmu top. */
static void report_add_time(struct report_data *d, size_t session, char *name,
			    const struct reading *r, const struct rrow *row)
{
	struct report_series *s;
	bool known = false;
	uint64_t max = 0;

	for (size_t e = 0; e < r->nr_events; e++) {
		if (!row->v[e].supported)
			continue;
		if (!strcmp(r->events[e], "task-clock"))
			return;
		known = true;
		max = row->v[e].enabled_ns > max ? row->v[e].enabled_ns : max;
	}
	s = report_series_of(d, session, name, row, CPU_TIME, true);
	report_series_count(s, json_array_size(d->times), known && !row->error, max);
	s->count += row->vm ? max : 1; /* 0 is a time, but not of a VM without a known vCPU */
	if (row->backend && !strcmp(row->backend, "emulator"))
		report_series_words(s, "modelled");
}

void report_data_add(struct report_data *d, uint64_t time_ns, struct reading *const *readings,
		     size_t n)
{
	uint64_t dropped = 0; /* each reading has all since the attach */

	for (size_t i = 0; i < n; i++) {
		const struct reading *r = readings[i];

		for (size_t k = 0; r && k < r->nr_rows; k++) {
			const struct rrow *row = &r->rows[k];
			char *name = xasprintf("%s %s %s", row->backend ? row->backend : "",
					       row->path, row->vm ? row->vm : "");

			report_add_time(d, i, name, r, row);
			for (size_t e = 0; e < r->nr_events; e++)
				report_add_value(d, i, name, r, row, e);
			free(name);
		}
		dropped += r ? r->dropped : 0;
	}
	d->dropped = dropped > d->dropped ? dropped : d->dropped;
	json_array_append_new(d->times, report_number(time_ns));
}

static void report_series_end(const void *node, VISIT visit, void *arg)
{
	const struct report_series *s = *(const struct report_series *const *)node;
	const struct report_data *d = arg;

	if (visit != postorder && visit != leaf)
		return;
	report_series_pad(s, json_array_size(d->times));
	/* As in perf: what never ran was not counted. */
	if (!s->count && !s->running_ns && !json_object_get(s->json, "why"))
		for (size_t i = 0; i < json_array_size(s->delta); i++)
			json_array_set_new(s->delta, i, json_null());
	if (*s->words)
		json_object_set_new(s->json, "quality", json_string(s->words));
	if (s->running_ns < s->enabled_ns)
		json_object_set_new(s->json, "running",
				    json_real((double)s->running_ns / (double)s->enabled_ns));
}

json_t *report_data_end(struct report_data *d)
{
	twalk_r(d->series, report_series_end, d);
	return json_incref(d->list);
}
