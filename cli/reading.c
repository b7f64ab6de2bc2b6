// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses, merges and subtracts readings; see reading.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/field.h"
#include "cli/reading.h"
#include "service/program/memory.h"

#define ROW_NUMBER_BITS 48 /* the others number merged readings */

static const char *const kinds[] = {"root", "host", "tenant", "vm", "vcpu"};

const char *row_kind_name(enum row_kind kind)
{
	return kinds[kind];
}

/* ---- parsing ------------------------------------------------------------------------------ */

/* Invalid fields are recorded in @f and replaced by harmless values. */

static void parse_val(struct fields *f, const json_t *o, struct val *v)
{
	snprintf(v->quality, sizeof(v->quality), "%s", field_string(f, o, "quality"));
	v->supported = field_bool(f, o, "supported");
	v->count = field_u64(f, o, "count");
	v->enabled_ns = field_u64(f, o, "enabled-ns");
	v->running_ns = field_u64(f, o, "running-ns");
	v->age_ns = field_u64_or(f, o, "age-ns", 0);
	v->variance = -1;
}

/* Row numbers can exceed 32 bits: a server that starts again leaves some out. */
static uint64_t parse_row_number(struct fields *f, const json_t *o)
{
	const json_t *v = json_object_get(o, "row");
	json_int_t n = json_integer_value(v);

	if (json_is_integer(v) && n >= 0 && !(n >> ROW_NUMBER_BITS))
		return (uint64_t)n;
	field_wrong(f, "row");
	return 0;
}

static void parse_row(struct fields *f, const json_t *o, struct rrow *row, size_t nr_events)
{
	const json_t *values = field_array(f, o, "values");
	const char *kind = field_string(f, o, "kind");

	while (row->kind < ROW_VCPU && strcmp(kind, kinds[row->kind]) != 0)
		row->kind++;
	if (strcmp(kind, kinds[row->kind]) != 0)
		field_wrong(f, "kind");
	row->id = parse_row_number(f, o);
	row->depth = field_int(f, o, "depth", ROW_DEPTH_MAX);
	row->late_ns = field_u64_or(f, o, "late-ns", 0);
	row->gone = field_bool_or(f, o, "gone", false);
	if (row->kind == ROW_VCPU)
		row->vcpu = field_int(f, o, "vcpu", INT32_MAX);
	row->v = xcalloc(nr_events, sizeof(*row->v));
	row->path = xstrdup(field_string(f, o, "path"));
	row->vm = row->kind >= ROW_VM ? xstrdup(field_string(f, o, "vm")) : NULL;
	row->error = xstrdup(field_string_or(f, o, "error", NULL));
	row->backend = xstrdup(field_string_or(f, o, "backend", NULL));
	/* Tenants' names are taken from the path. */
	if (row->path[0] != '/')
		field_wrong(f, "path");
	if (json_array_size(values) != nr_events)
		field_wrong(f, "values");
	for (size_t e = 0; e < nr_events && !f->wrong; e++)
		parse_val(f, json_array_get(values, e), &row->v[e]);
}

static void parse_events(struct fields *f, const json_t *list, struct reading *r)
{
	size_t n = json_array_size(list);

	if (!n)
		field_wrong(f, "events");
	r->events = xcalloc(n + 1, sizeof(*r->events));
	for (size_t i = 0; i < n; i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (!name)
			field_wrong(f, "events");
		r->events[r->nr_events++] = xstrdup(name ? name : "");
	}
}

/* Append a copy. */
static void reading_add_unsupported(struct reading *r, const char *backend, const char *event,
				    const char *why)
{
	r->unsupported =
		xreallocarray(r->unsupported, r->nr_unsupported + 1, sizeof(*r->unsupported));
	r->unsupported[r->nr_unsupported++] =
		(struct unsupported){xstrdup(backend), xstrdup(event), xstrdup(why)};
}

/* Optional: some servers do not report it. */
static void parse_unsupported(struct fields *f, const json_t *answer, struct reading *r)
{
	const json_t *item, *list = json_object_get(answer, "unsupported");
	size_t i;

	if (list)
		field_array(f, answer, "unsupported");
	json_array_foreach (list, i, item) {
		const char *backend = field_string(f, item, "backend");
		const char *event = field_string(f, item, "event");

		reading_add_unsupported(r, backend, event, field_string(f, item, "why"));
	}
}

static void reading_parse_answer(struct fields *f, const json_t *answer, struct reading *r)
{
	const json_t *rows = field_array(f, answer, "rows");
	size_t n = json_array_size(rows);

	r->age_ns = field_u64(f, answer, "age-ns");
	r->to.ns = field_u64_or(f, answer, "as-of-ns", r->age_ns);
	r->to.width_ns = field_u64_or(f, answer, "width-ns", UINT64_MAX);
	r->to_us = field_u64_or(f, answer, "as-of-us", 0);
	r->from.ns = r->to.ns - r->age_ns;
	r->from.width_ns = field_u64_or(f, answer, "start-width-ns", UINT64_MAX);
	r->dropped = field_u64(f, answer, "dropped");
	r->rows = xcalloc(n + 1, sizeof(*r->rows));
	r->session = xstrdup(field_string(f, answer, "session"));
	r->target = xstrdup(field_string(f, answer, "target"));
	r->scope = xstrdup(field_string(f, answer, "scope"));
	if (json_is_string(json_object_get(answer, "cpus")))
		r->cpus = xstrdup(field_string(f, answer, "cpus"));
	if (json_is_string(json_object_get(answer, "metrics")))
		r->metrics = xstrdup(field_string(f, answer, "metrics"));
	parse_events(f, field_array(f, answer, "events"), r);
	parse_unsupported(f, answer, r);
	while (r->nr_rows < n && !f->wrong) {
		struct rrow *row = &r->rows[r->nr_rows];

		row->order = r->nr_rows++;
		parse_row(f, json_array_get(rows, row->order), row, r->nr_events);
	}
}

static const char *reading_backend_of(const struct rrow *row)
{
	return row->backend ? row->backend : "";
}

static int by_backend(const void *a, const void *b)
{
	const struct rrow *x = a, *y = b;
	int ret = strcmp(reading_backend_of(x), reading_backend_of(y));

	return ret ? ret : x->order < y->order ? -1 : 1;
}

/* Return true if the target VM or tenant no longer exists. */
static bool target_gone(const struct reading *r)
{
	bool vm = r->target[0] != '/';
	size_t n = 0;

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];

		if (!vm && (row->kind > ROW_TENANT || strcmp(row->path, r->target) != 0))
			continue;
		if (!row->gone)
			return false;
		n++;
	}
	return n > 0;
}

struct reading *reading_parse(const json_t *answer)
{
	struct reading *r = xcalloc(1, sizeof(*r));
	struct fields f = {0};

	reading_parse_answer(&f, answer, r);
	if (!fields_ok(&f)) {
		reading_free(r);
		return NULL;
	}
	if (r->nr_rows)
		qsort(r->rows, r->nr_rows, sizeof(*r->rows), by_backend);
	r->target_gone = target_gone(r);
	return r;
}

static void free_row(struct rrow *row)
{
	free(row->path);
	free(row->vm);
	free(row->error);
	free(row->backend);
	free(row->v);
}

void reading_free(struct reading *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->nr_rows; i++)
		free_row(&r->rows[i]);
	for (size_t e = 0; e < r->nr_events; e++)
		free(r->events[e]);
	for (size_t i = 0; i < r->nr_unsupported; i++) {
		free(r->unsupported[i].backend);
		free(r->unsupported[i].event);
		free(r->unsupported[i].why);
	}
	free(r->unsupported);
	free(r->rows);
	free(r->events);
	free(r->session);
	free(r->target);
	free(r->scope);
	free(r->cpus);
	free(r->metrics);
	free(r);
}

/* ---- union -------------------------------------------------------------------------------- */

static const struct unsupported *find_unsupported(const struct reading *r, const char *backend,
						  const char *event)
{
	for (size_t i = 0; i < r->nr_unsupported; i++)
		if (strcmp(r->unsupported[i].backend, backend) == 0 &&
		    strcmp(r->unsupported[i].event, event) == 0)
			return &r->unsupported[i];
	return NULL;
}

const char *reading_why(const struct reading *r, const struct rrow *row, size_t e)
{
	const struct unsupported *u =
		row->v[e].supported ? NULL
				    : find_unsupported(r, reading_backend_of(row), r->events[e]);

	return u ? u->why : NULL;
}

/* Add the unsupported events of @from to @to. */
static void copy_unsupported(struct reading *to, const struct reading *from)
{
	for (size_t i = 0; i < from->nr_unsupported; i++) {
		const struct unsupported *u = &from->unsupported[i];

		if (!find_unsupported(to, u->backend, u->event))
			reading_add_unsupported(to, u->backend, u->event, u->why);
	}
}

static int reading_by_name(const void *a, const void *b)
{
	const struct rrow *x = *(const struct rrow *const *)a, *y = *(const struct rrow *const *)b;
	int ret = strcmp(reading_backend_of(x), reading_backend_of(y));

	if (!ret)
		ret = strcmp(x->path, y->path);
	if (!ret)
		ret = strcmp(x->vm ? x->vm : "", y->vm ? y->vm : "");
	if (!ret)
		ret = (x->kind > y->kind) - (x->kind < y->kind);
	if (!ret)
		ret = (x->vcpu > y->vcpu) - (x->vcpu < y->vcpu);
	return ret ? ret : x->gone - y->gone;
}

/* Let the rows of each backend begin at depth 0. */
static void level(struct reading *r)
{
	for (size_t first = 0, last; first < r->nr_rows; first = last) {
		unsigned int min = ROW_DEPTH_MAX;

		for (last = first;
		     last < r->nr_rows && strcmp(reading_backend_of(&r->rows[first]),
						 reading_backend_of(&r->rows[last])) == 0;
		     last++)
			min = r->rows[last].depth < min ? r->rows[last].depth : min;
		for (size_t i = first; i < last; i++)
			r->rows[i].depth -= min;
	}
}

/* Let @a include the time of @b. */
static void moment_add(struct moment *a, const struct moment *b)
{
	uint64_t begin = a->ns - a->width_ns, other = b->ns - b->width_ns;
	bool known = a->width_ns != UINT64_MAX && b->width_ns != UINT64_MAX;

	a->ns = b->ns > a->ns ? b->ns : a->ns;
	a->width_ns = known ? a->ns - (other < begin ? other : begin) : UINT64_MAX;
}

void reading_merge(struct reading *into, struct reading *from)
{
	const struct rrow **names = xcalloc(into->nr_rows + 1, sizeof(*names));
	struct rrow *rows = xcalloc(into->nr_rows + from->nr_rows + 1, sizeof(*rows));
	char *target = xasprintf("%s,%s", into->target, from->target);
	size_t n = into->nr_rows;

	copy_unsupported(into, from);
	into->to_us = from->to.ns > into->to.ns ? from->to_us : into->to_us;
	moment_add(&into->from, &from->from);
	moment_add(&into->to, &from->to);
	level(into);
	level(from);
	for (size_t i = 0; i < n; i++) {
		rows[i] = into->rows[i];
		names[i] = &into->rows[i];
	}
	qsort(names, n, sizeof(*names), reading_by_name);
	into->nr_merged++;
	for (size_t i = 0; i < from->nr_rows; i++) {
		const struct rrow *row = &from->rows[i];

		if (bsearch(&row, names, n, sizeof(*names), reading_by_name)) {
			free_row(&from->rows[i]);
			continue;
		}
		rows[into->nr_rows] = *row;
		rows[into->nr_rows].order = into->nr_rows;
		rows[into->nr_rows++].id |= (uint64_t)into->nr_merged << ROW_NUMBER_BITS;
	}
	for (size_t i = 0; i < n; i++)
		rows[i].order = i;
	free(names);
	free(into->rows);
	free(into->target);
	into->rows = rows;
	into->target = target;
	into->dropped += from->dropped;
	qsort(into->rows, into->nr_rows, sizeof(*into->rows), by_backend);
	from->nr_rows = 0;
	reading_free(from);
}

/* ---- backends ---------------------------------------------------------------------------------
 */

size_t reading_backends(const struct reading *r)
{
	size_t n = r->nr_rows > 0;

	for (size_t i = 1; i < r->nr_rows; i++)
		n += strcmp(reading_backend_of(&r->rows[i - 1]), reading_backend_of(&r->rows[i])) !=
		     0;
	return n;
}

const char *reading_backend(const struct reading *r)
{
	return reading_backends(r) == 1 ? r->rows[0].backend : NULL;
}

/* ---- differences -------------------------------------------------------------------------- */

static int reading_by_id(const void *a, const void *b)
{
	const struct rrow *x = *(const struct rrow *const *)a, *y = *(const struct rrow *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* Take @word out of @quality, a list with blanks in between. */
static void quality_drop(char quality[QUALITY_LEN], const char *word)
{
	char words[QUALITY_LEN], *rest = words, *w;

	strcpy(words, quality);
	*quality = '\0';
	while ((w = strsep(&rest, " ")))
		if (strcmp(w, word))
			quality_add(quality, w);
	if (!*quality)
		strcpy(quality, "exact");
}

/* What was late before @was is so no longer. The time is less after a vpmud that was killed before
 * it had saved it. */
static void row_subtract_late(struct rrow *row, const struct rrow *was, size_t nr_events)
{
	if (!was->late_ns)
		return;
	row->late_ns = row->late_ns > was->late_ns ? row->late_ns - was->late_ns : 0;
	for (size_t e = 0; !row->late_ns && e < nr_events; e++)
		quality_drop(row->v[e].quality, "late");
}

static uint64_t reading_more(uint64_t now, uint64_t was)
{
	return now > was ? now - was : 0;
}

static void val_subtract(struct val *now, const struct val *was)
{
	/* Counts only grow, unless the event has become unsupported or begins anew. */
	if (now->supported && now->count < was->count) {
		if (!strcmp(now->quality, "exact"))
			*now->quality = '\0';
		quality_add(now->quality, "partial");
	}
	now->count = reading_more(now->count, was->count);
	now->enabled_ns = reading_more(now->enabled_ns, was->enabled_ns);
	now->running_ns = reading_more(now->running_ns, was->running_ns);
	/* What was missing then came since. */
	if (was->age_ns > now->age_ns)
		now->age_ns = was->age_ns;
}

void reading_subtract(struct reading *now, const struct reading *before)
{
	const struct rrow **sorted;

	/* Another session has got the name: its counts began after @before. */
	if (before && before->to_us && now->from.ns > before->to.ns)
		return;
	if (before)
		now->from = before->to;
	if (!before || !before->nr_rows || before->nr_events != now->nr_events)
		return;
	sorted = xcalloc(before->nr_rows, sizeof(*sorted));
	for (size_t i = 0; i < before->nr_rows; i++)
		sorted[i] = &before->rows[i];
	qsort(sorted, before->nr_rows, sizeof(*sorted), reading_by_id);
	for (size_t i = 0; i < now->nr_rows; i++) {
		const struct rrow *row = &now->rows[i], **was;

		was = bsearch(&row, sorted, before->nr_rows, sizeof(*sorted), reading_by_id);
		if (was)
			row_subtract_late(&now->rows[i], *was, now->nr_events);
		for (size_t e = 0; was && e < now->nr_events; e++)
			val_subtract(&row->v[e], &(*was)->v[e]);
	}
	free(sorted);
}

static void copy_row(const struct rrow *from, struct rrow *to, size_t nr_events)
{
	*to = *from;
	to->path = xstrdup(from->path);
	to->vm = xstrdup(from->vm);
	to->error = xstrdup(from->error);
	to->backend = xstrdup(from->backend);
	to->v = xcalloc(nr_events, sizeof(*to->v));
	memcpy(to->v, from->v, nr_events * sizeof(*to->v));
}

static struct reading *copy_of(const struct reading *r)
{
	struct reading *c = xmalloc(sizeof(*c));

	*c = *r;
	c->nr_unsupported = 0;
	c->unsupported = NULL;
	c->session = xstrdup(r->session);
	c->target = xstrdup(r->target);
	c->scope = xstrdup(r->scope);
	c->cpus = xstrdup(r->cpus);
	c->metrics = xstrdup(r->metrics);
	copy_unsupported(c, r);
	c->events = xcalloc(r->nr_events + 1, sizeof(*c->events));
	for (size_t e = 0; e < r->nr_events; e++)
		c->events[e] = xstrdup(r->events[e]);
	c->rows = xcalloc(r->nr_rows + 1, sizeof(*c->rows));
	for (size_t i = 0; i < r->nr_rows; i++)
		copy_row(&r->rows[i], &c->rows[i], r->nr_events);
	return c;
}

struct reading *reading_difference(struct reading *now, struct reading **before)
{
	struct reading *diff;

	if (!now)
		return NULL;
	diff = copy_of(now);
	reading_subtract(diff, *before);
	reading_free(*before);
	*before = now;
	return diff;
}
