// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/cli.h"
#include "cgroup/cli/reading.h"

static const char *const kinds[] = {"root", "host", "tenant", "vm", "vcpu"};

const char *row_kind_name(enum row_kind kind)
{
	return kinds[kind];
}

/* ---- parsing ------------------------------------------------------------------------------ */

/* Text of the server goes to a terminal: no control characters. */
static char *text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));
	char *copy = s ? strdup(s) : NULL;

	for (char *p = copy; p && *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	return copy;
}

static bool get_u64(const json_t *obj, const char *key, uint64_t *out)
{
	const char *s = json_string_value(json_object_get(obj, key));
	char *end;

	if (!s || *s < '0' || *s > '9')
		return false;
	errno = 0;
	*out = strtoull(s, &end, 10);
	return !*end && !errno;
}

static bool parse_val(const json_t *o, struct val *v)
{
	const char *q = json_string_value(json_object_get(o, "quality"));

	if (!q || !json_is_boolean(json_object_get(o, "supported")))
		return false;
	snprintf(v->quality, sizeof(v->quality), "%s", q);
	v->supported = json_is_true(json_object_get(o, "supported"));
	return get_u64(o, "count", &v->count) && get_u64(o, "enabled-ns", &v->enabled_ns) &&
	       get_u64(o, "running-ns", &v->running_ns);
}

static bool parse_row(const json_t *o, struct rrow *row, size_t nr_events)
{
	const json_t *values = json_object_get(o, "values");
	const char *kind = json_string_value(json_object_get(o, "kind"));

	while (kind && row->kind <= ROW_VCPU && strcmp(kind, kinds[row->kind]) != 0)
		row->kind++;
	row->id = (uint64_t)json_integer_value(json_object_get(o, "row"));
	row->depth = (unsigned int)json_integer_value(json_object_get(o, "depth")) & 0xff;
	row->vcpu = (unsigned int)json_integer_value(json_object_get(o, "vcpu"));
	row->gone = json_is_true(json_object_get(o, "gone"));
	row->path = text(o, "path");
	row->vm = text(o, "vm");
	row->error = text(o, "error");
	row->v = calloc(nr_events, sizeof(*row->v));
	if (!kind || row->kind > ROW_VCPU || !row->path || !row->v ||
	    (row->kind >= ROW_VM && !row->vm) || json_array_size(values) != nr_events)
		return false;
	for (size_t e = 0; e < nr_events; e++)
		if (!parse_val(json_array_get(values, e), &row->v[e]))
			return false;
	return true;
}

static bool parse_events(const json_t *list, struct reading *r)
{
	size_t n = json_array_size(list);

	r->events = calloc(n ? n : 1, sizeof(*r->events));
	if (!n || !r->events)
		return false;
	for (; r->nr_events < n; r->nr_events++) {
		const char *s = json_string_value(json_array_get(list, r->nr_events));

		r->events[r->nr_events] = s ? strdup(s) : NULL;
		if (!r->events[r->nr_events])
			return false;
	}
	return true;
}

struct reading *reading_parse(const json_t *answer)
{
	const json_t *rows = json_object_get(answer, "rows");
	struct reading *r = calloc(1, sizeof(*r));
	size_t n = json_array_size(rows);

	if (!r)
		goto bad;
	r->session = text(answer, "session");
	r->target = text(answer, "target");
	r->scope = text(answer, "scope");
	if (!r->session || !r->target || !r->scope || !get_u64(answer, "age-ns", &r->age_ns) ||
	    !get_u64(answer, "dropped", &r->dropped) || !json_is_array(rows) ||
	    !parse_events(json_object_get(answer, "events"), r))
		goto bad;
	r->rows = calloc(n ? n : 1, sizeof(*r->rows));
	if (!r->rows)
		goto bad;
	while (r->nr_rows < n) {
		r->nr_rows++;
		if (!parse_row(json_array_get(rows, r->nr_rows - 1), &r->rows[r->nr_rows - 1],
			       r->nr_events))
			goto bad;
	}
	return r;
bad:
	reading_free(r);
	cli_error("the server's answer is none of vpmu's protocol");
	return NULL;
}

void reading_free(struct reading *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->nr_rows; i++) {
		free(r->rows[i].path);
		free(r->rows[i].vm);
		free(r->rows[i].error);
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

/* ---- differences -------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	const struct rrow *x = *(const struct rrow *const *)a, *y = *(const struct rrow *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

void reading_subtract(struct reading *now, const struct reading *before)
{
	const struct rrow **sorted;

	if (!before || !before->nr_rows || before->nr_events != now->nr_events)
		return;
	sorted = calloc(before->nr_rows, sizeof(*sorted));
	if (!sorted)
		return;
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

bool val_not_counted(const struct rrow *row, const struct val *v)
{
	/* As perf: what did not run was not counted, be it that it never ran at all. But when the
	 * host never ran for lack of idle time, its part of the whole is just 0. */
	return row->error || (!v->running_ns && (v->enabled_ns || row->kind != ROW_HOST));
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
