// SPDX-License-Identifier: GPL-2.0-or-later
/* Layout of vpmu top; see top_view.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/top_view.h"
#include "service/program/memory.h"

#define NAME_MIN      14
#define STATE_WIDTH   9
#define SHARE_WIDTH   7
#define EVENT_MIN     10
#define METRIC_MIN    9
#define BACKEND_WIDTH 9
#define NAME_CAP      40 /* longer names and paths are elided */
#define TENANT_ROOM   28 /* a column of names this wide includes the tenant of a VM */
#define BAR_MIN	      6	 /* columns of the bar of CPU%, with a blank */
#define BAR_MAX	      21

/* ---- values ------------------------------------------------------------------------------- */

double view_rate(const struct top_view *v, size_t row, size_t event)
{
	const struct rrow *r = &v->diff->rows[row];

	if (!val_counted(r, &r->v[event]))
		return -1;
	return (double)val_scaled(&r->v[event]) / v->seconds;
}

double view_running(const struct top_view *v, size_t row)
{
	const struct rrow *r = &v->diff->rows[row];
	double least = -1;

	for (size_t e = 0; e < v->diff->nr_events; e++) {
		double percent = val_percent(&r->v[e]);

		if (val_counted(r, &r->v[e]) && (least < 0 || percent < least))
			least = percent;
	}
	return least;
}

void view_metric(const struct top_view *v, size_t row, size_t metric, struct metric_value *mv)
{
	metric_value(&v->o->format.metrics->m[metric], v->diff, &v->diff->rows[row], mv);
}

double view_number(const struct top_view *v, size_t row, size_t col)
{
	static const char *const states[] = {"failed", "done", "paused", "running"};
	const struct top_column *c = &v->col[col];
	const struct top_fact *fact = &v->facts[row];
	struct metric_value mv;

	switch (c->kind) {
	case TOP_STATE:
		for (size_t i = 0; i < 4; i++)
			if (strcmp(fact->state, states[i]) == 0)
				return (double)i;
		return fact->vms ? (double)fact->running : -1;
	case TOP_SHARE:
		return fact->share;
	case TOP_RUNNING:
		return view_running(v, row);
	case TOP_METRIC:
		view_metric(v, row, c->index, &mv);
		return mv.state == METRIC_NUMBER ? mv.number : -1;
	case TOP_EVENT:
		return view_rate(v, row, c->index);
	}
	return -1;
}

/* ---- order -------------------------------------------------------------------------------- */

static int top_view_compare(const struct top_view *v, size_t a, size_t b)
{
	int ret;

	if (v->look.sort == TOP_BY_NAME) {
		const struct rrow *x = &v->diff->rows[a], *y = &v->diff->rows[b];

		ret = strcmp(x->path, y->path);
		if (!ret && x->vm && y->vm)
			ret = strcmp(x->vm, y->vm);
		if (!ret)
			ret = x->vcpu < y->vcpu ? -1 : x->vcpu > y->vcpu;
	} else {
		double x = view_number(v, a, v->look.sort), y = view_number(v, b, v->look.sort);

		ret = x > y ? -1 : x < y;
	}
	if (ret)
		return v->look.reverse ? -ret : ret;
	return a < b ? -1 : a > b;
}

static int by_view(const void *a, const void *b, void *v)
{
	return top_view_compare(v, *(const size_t *)a, *(const size_t *)b);
}

/* Return true if rows are shown below their parents. */
static bool is_tree(const struct top_view *v)
{
	return v->diff->nr_rows && v->diff->rows[0].kind <= ROW_TENANT && !v->look.filter;
}

/* Sort the rows first..last-1, which are whole subtrees, and append them to @out. */
static void order_tree(struct top_view *v, size_t first, size_t last, size_t **out)
{
	const struct rrow *rows = v->diff->rows;
	size_t *tops = xcalloc(last - first + 1, sizeof(*tops)), n = 0;

	for (size_t i = first; i < last;) {
		tops[n++] = i++;
		while (i < last && rows[i].depth > rows[tops[n - 1]].depth)
			i++;
	}
	qsort_r(tops, n, sizeof(*tops), by_view, v);
	for (size_t i = 0; i < n; i++) {
		size_t end = tops[i] + 1;

		while (end < last && rows[end].depth > rows[tops[i]].depth)
			end++;
		*(*out)++ = tops[i];
		if (end > tops[i] + 1)
			order_tree(v, tops[i] + 1, end, out);
	}
	free(tops);
}

static bool top_view_matches(const struct top_view *v, const struct rrow *row)
{
	char name[NAME_LEN];

	if (!v->look.filter)
		return true;
	out_name(row, name);
	return strstr(name, v->look.filter) || strstr(row->path, v->look.filter);
}

/* ---- columns ------------------------------------------------------------------------------ */

bool view_is_clock(const char *event)
{
	size_t n = strcspn(event, ":");

	return (n == 10 && !strncmp(event, "task-clock", n)) ||
	       (n == 9 && !strncmp(event, "cpu-clock", n));
}

static bool top_view_is_percent(const struct metric *m)
{
	return m->unit && !strcmp(m->unit, "%");
}

void view_heading(const struct top_view *v, size_t col, char buf[VIEW_CELL])
{
	static const char *const fixed[] = {
		[TOP_STATE] = "STATE", [TOP_SHARE] = "CPU%", [TOP_RUNNING] = "RUN%"};
	const struct top_column *c = &v->col[col];

	if (c->kind == TOP_EVENT) {
		snprintf(buf, VIEW_CELL, "%.70s%s", v->diff->events[c->index],
			 view_is_clock(v->diff->events[c->index]) ? ",ms" : "");
	} else if (c->kind == TOP_METRIC) {
		snprintf(buf, VIEW_CELL, "%.70s", v->o->format.metrics->m[c->index].label);
		/* Not the modifiers: :u and :U would be two things. */
		for (char *p = buf; *p && *p != ':'; p++)
			*p = (char)toupper((unsigned char)*p);
		if (top_view_is_percent(v->o->format.metrics->m[c->index].metric))
			strcat(buf, "%");
	} else {
		snprintf(buf, VIEW_CELL, "%s",
			 c->kind == TOP_STATE && !view_in_tenants(v) ? "VMS" : fixed[c->kind]);
	}
}

/* Add a column with room for its heading and @min columns. */
static void add_column(struct top_view *v, enum top_kind kind, size_t index, int min)
{
	struct top_column *c = &v->col[v->nr_cols];
	char heading[VIEW_CELL];

	*c = (struct top_column){.kind = kind, .index = index, .width = min};
	view_heading(v, v->nr_cols++, heading);
	if (c->width < (int)strlen(heading) + 2)
		c->width = (int)strlen(heading) + 2;
}

/* Return true if some shown row has a multiplexed value. */
static bool some_scaled(const struct top_view *v)
{
	for (size_t i = 0; i < v->nr_rows; i++) {
		double running = view_running(v, v->order[i]);

		if (running >= 0 && running < 100)
			return true;
	}
	return false;
}

/* Return true if a metric is to be shown: it was requested, or some row may have a number. */
static bool has_metric(const struct top_view *v, size_t metric)
{
	struct metric_value mv;

	for (size_t i = 0; v->o->metrics_optional && i < v->nr_rows; i++) {
		view_metric(v, v->order[i], metric, &mv);
		if (mv.state != METRIC_NOT_SUPPORTED && mv.state != METRIC_NO_EVENT)
			return true;
	}
	return !v->o->metrics_optional;
}

/* Return true if event @e is counted for metrics only. */
static bool hidden(const struct top_view *v, size_t e)
{
	const char *p = v->o->metrics_only, *name = v->diff->events[e];
	size_t n = strlen(name);

	while (p && *p) {
		p += *p == ',';
		if (strncmp(p, name, n) == 0 && (!p[n] || p[n] == ','))
			return true;
		p += strcspn(p, ",");
	}
	return false;
}

static void make_columns(struct top_view *v)
{
	const struct metrics *metrics = v->o->format.metrics;
	const struct reading *r = v->diff;

	v->col = xcalloc(r->nr_events + metrics->nr + 3, sizeof(*v->col));
	add_column(v, TOP_STATE, 0, STATE_WIDTH);
	add_column(v, TOP_SHARE, 0, SHARE_WIDTH);
	if (some_scaled(v))
		add_column(v, TOP_RUNNING, 0, SHARE_WIDTH);
	v->base = v->nr_cols;
	for (size_t k = 0; k < metrics->nr; k++)
		if (has_metric(v, k))
			add_column(v, TOP_METRIC, k, METRIC_MIN);
	if (v->base == v->nr_cols)
		v->base = 0;
	for (size_t e = 0, first = v->nr_cols; e < r->nr_events; e++) {
		if (hidden(v, e))
			continue;
		v->base = first;
		add_column(v, TOP_EVENT, e, EVENT_MIN);
	}
}

bool view_has(const struct top_view *v, enum top_kind kind, size_t index)
{
	for (size_t i = 0; i < v->nr_cols; i++)
		if (v->col[i].kind == kind && v->col[i].index == index)
			return true;
	return false;
}

/* Return the marks of all shown values. */
static unsigned int all_marks(const struct top_view *v)
{
	struct metric_value mv;
	unsigned int marks = 0;

	for (size_t i = 0; i < v->nr_rows; i++) {
		const struct rrow *row = &v->diff->rows[v->order[i]];

		for (size_t c = 0; c < v->nr_cols; c++) {
			size_t index = v->col[c].index;

			if (v->col[c].kind == TOP_EVENT && val_counted(row, &row->v[index]))
				marks |= marks_of(&row->v[index]);
			if (v->col[c].kind != TOP_METRIC)
				continue;
			view_metric(v, v->order[i], index, &mv);
			if (mv.state == METRIC_NUMBER)
				marks |= marks_of(&mv.v);
		}
	}
	return marks;
}

void view_init(struct top_view *v, const struct top_source *src, const struct top_look *look)
{
	const struct reading *diff = src->diff;
	size_t *out;

	*v = (struct top_view){.diff = diff,
			       .facts = src->facts,
			       .o = src->o,
			       .seconds = src->seconds > 0 ? src->seconds : 1,
			       .look = *look,
			       .backends = reading_backends(diff) > 1};
	v->order = xcalloc(diff->nr_rows + 1, sizeof(*v->order));
	for (size_t i = 0; i < diff->nr_rows; i++)
		if (top_view_matches(v, &diff->rows[i]))
			v->order[v->nr_rows++] = i;
	make_columns(v);
	if (look->sort != TOP_BY_NAME)
		v->look.sort = (look->sort + v->base) % v->nr_cols;
	v->marks = all_marks(v);
	out = v->order;
	if (is_tree(v))
		order_tree(v, 0, v->nr_rows, &out);
	else
		qsort_r(v->order, v->nr_rows, sizeof(*v->order), by_view, v);
}

void view_fini(struct top_view *v)
{
	free(v->order);
	free(v->col);
	v->order = NULL;
	v->col = NULL;
}

size_t view_sort_next(const struct top_view *v, int by)
{
	size_t n = v->nr_cols, now = v->look.sort;

	if (now == TOP_BY_NAME)
		now = by > 0 ? n - 1 : 0;
	now = (now + n + (size_t)by) % n;
	return (now + n - v->base) % n;
}

/* ---- layout ------------------------------------------------------------------------------- */

size_t view_name(const struct top_view *v, size_t row, char buf[NAME_LEN])
{
	const struct rrow *r = &v->diff->rows[row], *top = &v->diff->rows[0];
	unsigned int indent = is_tree(v) && r->depth > top->depth ? r->depth - top->depth : 0;
	size_t n;

	if (indent)
		snprintf(buf, NAME_LEN, "%*s%s", (int)(2 * indent), "", strrchr(r->path, '/') + 1);
	else
		out_name(r, buf);
	n = strlen(buf);
	if (r->gone)
		snprintf(buf + n, NAME_LEN - n, " (gone)");
	return 2 * indent;
}

bool view_in_tenants(const struct top_view *v)
{
	return v->diff->nr_rows && v->diff->rows[0].kind > ROW_TENANT;
}

/* The room that the longest names need, and the paths of tenants with a blank. */
static void view_measure(const struct top_view *v, int *names, int *tenants)
{
	char name[NAME_LEN];

	*names = (int)strlen("TENANT");
	*tenants = view_in_tenants(v) ? (int)strlen(" TENANT") : 0;
	for (size_t i = 0; i < v->nr_rows; i++) {
		const char *path = v->diff->rows[v->order[i]].path;

		view_name(v, v->order[i], name);
		if ((int)strlen(name) > *names)
			*names = (int)strlen(name);
		if (*tenants && (int)strlen(path) + 1 > *tenants)
			*tenants = (int)strlen(path) + 1;
	}
}

/* Divide the @room beside the columns between names, tenants and the bar. */
static void view_fit_names(struct top_view *v, int room)
{
	int names, tenants;

	view_measure(v, &names, &tenants);
	names = names < NAME_MIN ? NAME_MIN : names > NAME_CAP ? NAME_CAP : names;
	tenants = room < TENANT_ROOM ? 0 : tenants > NAME_CAP ? NAME_CAP : tenants;
	if (names + tenants > room)
		names = tenants && names > room / 2 ? room / 2 : names;
	v->tenant_width = names + tenants > room ? (tenants ? room - names : 0) : tenants;
	v->name_width = names > room ? room : names;
	if (v->name_width < 1)
		v->name_width = 1;
	room -= v->name_width + v->tenant_width;
	for (size_t i = v->first; i < v->last && room >= BAR_MIN; i++)
		if (v->col[i].kind == TOP_SHARE)
			v->bar_width = room < BAR_MAX ? room : BAR_MAX;
}

size_t view_fit(struct top_view *v, unsigned int width)
{
	int room, used = 0;

	v->backend_width = v->backends ? BACKEND_WIDTH : 0;
	v->bar_width = 0;
	if (!width) {
		v->first = 0;
		v->last = v->nr_cols;
		view_measure(v, &v->name_width, &v->tenant_width);
		return v->look.first;
	}
	room = (int)width - v->backend_width - NAME_MIN;
	v->first = v->look.first < v->nr_cols ? v->look.first : 0;
	if (v->look.sort < v->first)
		v->first = v->look.sort;
	for (size_t i = v->first; v->look.sort != TOP_BY_NAME && i <= v->look.sort; i++) {
		used += v->col[i].width;
		while (used > room && v->first < i)
			used -= v->col[v->first++].width;
	}
	used = 0;
	for (v->last = v->first; v->last < v->nr_cols; v->last++) {
		if (used + v->col[v->last].width > room && v->last > v->first)
			break;
		used += v->col[v->last].width;
	}
	/* Use the remaining room for columns to the left. */
	while (v->first && used + v->col[v->first - 1].width <= room)
		used += v->col[--v->first].width;
	view_fit_names(v, (int)width - v->backend_width - used);
	return v->first;
}
