// SPDX-License-Identifier: GPL-2.0-or-later
/* The answer of `read` or `detach` as plain structures: see reading.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/error.h"
#include "cgroup/cli/field.h"
#include "cgroup/cli/reading.h"

static const char *const kinds[] = {"root", "host", "tenant", "vm", "vcpu"};

const char *row_kind_name(enum row_kind kind)
{
	return kinds[kind];
}

/* ---- parsing ------------------------------------------------------------------------------ */

/*
 * The parsers below return false when memory ran out. A wrong field is in @f, and the result then
 * has harmless values.
 */

static bool copy(const char *text, char **out)
{
	*out = text ? strdup(text) : NULL;
	return !text || *out;
}

static void parse_val(struct fields *f, const json_t *o, struct val *v)
{
	snprintf(v->quality, sizeof(v->quality), "%s", field_string(f, o, "quality"));
	v->supported = field_bool(f, o, "supported");
	v->count = field_u64(f, o, "count");
	v->enabled_ns = field_u64(f, o, "enabled-ns");
	v->running_ns = field_u64(f, o, "running-ns");
}

static bool parse_row(struct fields *f, const json_t *o, struct rrow *row, size_t nr_events)
{
	const json_t *values = field_array(f, o, "values");
	const char *kind = field_string(f, o, "kind");

	while (row->kind < ROW_VCPU && strcmp(kind, kinds[row->kind]) != 0)
		row->kind++;
	if (strcmp(kind, kinds[row->kind]) != 0)
		field_wrong(f, "kind");
	row->id = field_int(f, o, "row", UINT32_MAX);
	row->depth = field_int(f, o, "depth", ROW_DEPTH_MAX);
	row->gone = field_bool_or(f, o, "gone", false);
	if (row->kind == ROW_VCPU)
		row->vcpu = field_int(f, o, "vcpu", INT32_MAX);
	row->v = calloc(nr_events, sizeof(*row->v));
	if (!row->v || !copy(field_string(f, o, "path"), &row->path) ||
	    !copy(row->kind >= ROW_VM ? field_string(f, o, "vm") : NULL, &row->vm) ||
	    !copy(field_string_or(f, o, "error", NULL), &row->error) ||
	    !copy(field_string_or(f, o, "plane", NULL), &row->plane))
		return false;
	/* Names of tenants are cut out of the path. */
	if (row->path[0] != '/')
		field_wrong(f, "path");
	if (json_array_size(values) != nr_events)
		field_wrong(f, "values");
	for (size_t e = 0; e < nr_events && !f->wrong; e++)
		parse_val(f, json_array_get(values, e), &row->v[e]);
	return true;
}

static bool parse_events(struct fields *f, const json_t *list, struct reading *r)
{
	size_t n = json_array_size(list);

	if (!n)
		field_wrong(f, "events");
	r->events = calloc(n + 1, sizeof(*r->events));
	if (!r->events)
		return false;
	for (size_t i = 0; i < n; i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (!name)
			field_wrong(f, "events");
		if (!copy(name ? name : "", &r->events[i]))
			return false;
		r->nr_events++;
	}
	return true;
}

static bool parse_answer(struct fields *f, const json_t *answer, struct reading *r)
{
	const json_t *rows = field_array(f, answer, "rows");
	size_t n = json_array_size(rows);

	r->age_ns = field_u64(f, answer, "age-ns");
	r->dropped = field_u64(f, answer, "dropped");
	r->rows = calloc(n + 1, sizeof(*r->rows));
	if (!r->rows || !copy(field_string(f, answer, "session"), &r->session) ||
	    !copy(field_string(f, answer, "target"), &r->target) ||
	    !copy(field_string(f, answer, "scope"), &r->scope) ||
	    !parse_events(f, field_array(f, answer, "events"), r))
		return false;
	while (r->nr_rows < n && !f->wrong) {
		struct rrow *row = &r->rows[r->nr_rows];

		row->order = r->nr_rows++;
		if (!parse_row(f, json_array_get(rows, row->order), row, r->nr_events))
			return false;
	}
	return true;
}

static const char *plane_of(const struct rrow *row)
{
	return row->plane ? row->plane : "";
}

static int by_plane(const void *a, const void *b)
{
	const struct rrow *x = a, *y = b;
	int ret = strcmp(plane_of(x), plane_of(y));

	return ret ? ret : x->order < y->order ? -1 : 1;
}

struct reading *reading_parse(const json_t *answer)
{
	struct reading *r = calloc(1, sizeof(*r));
	struct fields f = {0};

	if (!r || !parse_answer(&f, answer, r)) {
		cli_error("out of memory");
		reading_free(r);
		return NULL;
	}
	if (!fields_ok(&f)) {
		reading_free(r);
		return NULL;
	}
	if (r->nr_rows)
		qsort(r->rows, r->nr_rows, sizeof(*r->rows), by_plane);
	return r;
}

void reading_free(struct reading *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->nr_rows; i++) {
		free(r->rows[i].path);
		free(r->rows[i].vm);
		free(r->rows[i].error);
		free(r->rows[i].plane);
		free(r->rows[i].v);
	}
	for (size_t e = 0; e < r->nr_events; e++)
		free(r->events[e]);
	free(r->rows);
	free(r->events);
	free(r->session);
	free(r->target);
	free(r->scope);
	free(r);
}

/* ---- planes --------------------------------------------------------------------------------- */

size_t reading_planes(const struct reading *r)
{
	size_t n = r->nr_rows > 0;

	for (size_t i = 1; i < r->nr_rows; i++)
		n += strcmp(plane_of(&r->rows[i - 1]), plane_of(&r->rows[i])) != 0;
	return n;
}

const char *reading_plane(const struct reading *r)
{
	return reading_planes(r) == 1 ? r->rows[0].plane : NULL;
}

/* ---- differences -------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	const struct rrow *x = *(const struct rrow *const *)a, *y = *(const struct rrow *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

bool reading_subtract(struct reading *now, const struct reading *before)
{
	const struct rrow **sorted;

	if (!before || !before->nr_rows || before->nr_events != now->nr_events)
		return true;
	sorted = calloc(before->nr_rows, sizeof(*sorted));
	if (!sorted)
		return false;
	for (size_t i = 0; i < before->nr_rows; i++)
		sorted[i] = &before->rows[i];
	qsort(sorted, before->nr_rows, sizeof(*sorted), by_id);
	for (size_t i = 0; i < now->nr_rows; i++) {
		const struct rrow *row = &now->rows[i], **was;

		was = bsearch(&row, sorted, before->nr_rows, sizeof(*sorted), by_id);
		for (size_t e = 0; was && e < now->nr_events; e++) {
			row->v[e].count -= (*was)->v[e].count;
			row->v[e].enabled_ns -= (*was)->v[e].enabled_ns;
			row->v[e].running_ns -= (*was)->v[e].running_ns;
		}
	}
	free(sorted);
	return true;
}

/* ---- values ------------------------------------------------------------------------------- */

uint64_t val_scaled(const struct val *v)
{
	unsigned __int128 n = (unsigned __int128)v->count * v->enabled_ns;

	if (!v->running_ns || v->running_ns >= v->enabled_ns)
		return v->count;
	n /= v->running_ns;
	return n > UINT64_MAX ? UINT64_MAX : (uint64_t)n;
}

double val_percent(const struct val *v)
{
	return v->enabled_ns ? 100.0 * (double)v->running_ns / (double)v->enabled_ns : 100.0;
}

bool val_is_scaled(const struct val *v)
{
	return v->running_ns < v->enabled_ns;
}

bool val_counted(const struct rrow *row, const struct val *v)
{
	if (!v->supported || row->error)
		return false;
	/* As perf: an event that never ran was not counted, also when the row itself never ran. The
	 * host is different: where no CPU was idle, its part of the whole is 0. */
	return v->running_ns || (!v->enabled_ns && row->kind == ROW_HOST);
}

static size_t base_len(const char *event)
{
	return strcspn(event, ":");
}

int reading_ipc_pair(const struct reading *r, size_t e)
{
	const char *ins = r->events[e];
	size_t n = base_len(ins);

	if (n != strlen("instructions") || strncmp(ins, "instructions", n) != 0)
		return -1;
	for (size_t i = 0; i < r->nr_events; i++) {
		const char *c = r->events[i];
		size_t m = base_len(c);

		if (((m == 6 && strncmp(c, "cycles", m) == 0) ||
		     (m == 10 && strncmp(c, "cpu-cycles", m) == 0)) &&
		    strcmp(c + m, ins + n) == 0)
			return (int)i;
	}
	return -1;
}
