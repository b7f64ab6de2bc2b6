// SPDX-License-Identifier: GPL-2.0-or-later
/* The lines of vpmu top: headings, cells, bars and their paint; see top_view.h, which lays them
 * out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/top_view.h"

#define LOAD_HIGH 50 /* percent */
#define LOAD_FULL 80

static enum top_paint line_load(double percent)
{
	return percent >= LOAD_FULL   ? PAINT_BAD
	       : percent >= LOAD_HIGH ? PAINT_WARN
	       : percent > 0	      ? PAINT_GOOD
				      : PAINT_DIM;
}

static enum top_paint line_state(const char *state)
{
	return !strcmp(state, "failed")	  ? PAINT_BAD
	       : !strcmp(state, "paused") ? PAINT_WARN
	       : !strcmp(state, "done")	  ? PAINT_DIM
					  : PAINT_PLAIN;
}

/* A metric that is wider than its column. */
static void line_short(double n, char buf[METRIC_TEXT])
{
	char text[SHORT_LEN];

	if (fabs(n) < 1e21)
		snprintf(buf, METRIC_TEXT, "%s%s", n < 0 ? "-" : "", out_short(fabs(n), text));
	else
		snprintf(buf, METRIC_TEXT, "%.0e", n);
}

/* Write the text of a cell. Returns its paint. */
static enum top_paint line_cell(const struct top_view *v, size_t row, size_t col,
				char buf[VIEW_CELL])
{
	const struct rrow *r = &v->diff->rows[row];
	const struct top_column *c = &v->col[col];
	const struct top_fact *fact = &v->facts[row];
	double n = view_number(v, row, col);
	char text[SHORT_LEN], number_text[METRIC_TEXT], set[MARKS_LEN];
	struct metric_value mv;

	switch (c->kind) {
	case TOP_STATE:
		if (r->kind <= ROW_TENANT)
			snprintf(buf, VIEW_CELL, "%u/%u", fact->running, fact->vms);
		else
			snprintf(buf, VIEW_CELL, "%s", *fact->state ? fact->state : "-");
		return r->kind <= ROW_TENANT ? PAINT_PLAIN : line_state(fact->state);
	case TOP_SHARE:
	case TOP_RUNNING:
		snprintf(buf, VIEW_CELL, n < 0 ? "-" : "%.1f", n);
		if (c->kind == TOP_SHARE || n < 0)
			return line_load(n);
		return n < 100 ? PAINT_WARN : PAINT_PLAIN;
	case TOP_METRIC:
		view_metric(v, row, c->index, &mv);
		if (mv.state != METRIC_NUMBER) {
			strcpy(buf, mv.state == METRIC_NOT_SUPPORTED ? "n.s." : "-");
			return PAINT_DIM;
		}
		marks_spell(marks_of(&mv.v), set);
		metric_spell(&mv, number_text);
		if (strlen(number_text) + strlen(set) >= (size_t)c->width)
			line_short(mv.number, number_text);
		snprintf(buf, VIEW_CELL, "%s%s", number_text, set);
		return marks_paint(marks_of(&mv.v));
	case TOP_EVENT:
		if (n < 0) {
			strcpy(buf, r->v[c->index].supported ? "n.c." : "n.s.");
			return PAINT_DIM;
		}
		if (view_is_clock(v->diff->events[c->index]))
			n /= 1e6; /* ns */
		snprintf(buf, VIEW_CELL, "%s%s", out_short(n, text),
			 marks_spell(marks_of(&r->v[c->index]), set));
		return marks_paint(marks_of(&r->v[c->index]));
	}
	return PAINT_PLAIN;
}

/* A line in the making. */
struct line {
	char *buf;
	unsigned char *paint; /* may be NULL */
	size_t n;
};

/* Append a blank and @text to the line, in @width columns; @width < 0: to the left of them. Only a
 * name is cut off there, never a number. */
static void line_add(struct line *l, int width, const char *text, enum top_paint paint)
{
	int room = (width < 0 ? -width : width) - 1;
	size_t before = l->n;

	if (!width || l->n >= VIEW_LINE)
		return;
	l->n += (size_t)snprintf(l->buf + l->n, VIEW_LINE - l->n, " %*.*s",
				 width < 0 ? -room : room, width < 0 ? room : VIEW_CELL, text);
	if (l->n > VIEW_LINE)
		l->n = VIEW_LINE;
	if (l->paint)
		memset(l->paint + before, (int)paint, l->n - before);
}

/* Append the bar of @percent. */
static void line_bar(struct line *l, int width, double percent)
{
	char bar[VIEW_CELL];
	int room = width - 1, full = (int)(percent * room / 100 + 0.5);

	if (width <= 0 || room >= VIEW_CELL)
		return;
	full = full < 0 ? 0 : full > room ? room : full;
	memset(bar, '|', (size_t)full);
	bar[full] = '\0';
	line_add(l, -width, bar, line_load(percent));
}

void view_line(const struct top_view *v, long row, char buf[VIEW_LINE],
	       unsigned char paint[VIEW_LINE])
{
	const struct rrow *r = row < 0 ? NULL : &v->diff->rows[row];
	struct line l = {.buf = buf, .paint = paint};
	char name[NAME_LEN], cell[VIEW_CELL];
	enum top_paint how = PAINT_PLAIN;
	size_t indent = 0;

	if (r)
		indent = view_name(v, (size_t)row, name);
	else
		strcpy(name, view_in_tenants(v) ? "NAME" : "TENANT");
	names_elide(name, indent, (size_t)v->name_width, v->tail);
	l.n = (size_t)snprintf(buf, VIEW_LINE, "%-*s", v->name_width, name);
	if (paint)
		memset(paint, r && r->gone ? PAINT_DIM : PAINT_PLAIN, l.n);
	if (v->tenant_width) {
		snprintf(name, sizeof(name), "%s", r ? r->path : "TENANT");
		names_elide(name, 0, (size_t)v->tenant_width - 1, v->tail);
		line_add(&l, -v->tenant_width, name, how);
	}
	line_add(&l, -v->backend_width, !r ? "BACKEND" : r->backend ? r->backend : "", how);
	for (size_t i = v->first; i < v->last; i++) {
		if (row < 0)
			view_heading(v, i, cell);
		else
			how = line_cell(v, (size_t)row, i, cell);
		line_add(&l, v->col[i].width, cell, how);
		if (v->col[i].kind == TOP_SHARE)
			line_bar(&l, v->bar_width, row < 0 ? 0 : v->facts[row].share);
	}
}
