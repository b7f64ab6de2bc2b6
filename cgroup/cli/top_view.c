// SPDX-License-Identifier: GPL-2.0-or-later
/* What vpmu top shows: see top_view.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/output.h"
#include "cgroup/cli/top_view.h"

#define NAME_MIN    16
#define COL_WIDTH   13
#define PLANE_WIDTH 8
#define TENANT_ROOM 28 /* a column of names of so much width shows the tenant of a VM as well */

/* The value of a cell, by which its column is sorted; below 0: there is none. */
static double number(const struct top_view *v, size_t row, size_t col)
{
	const struct rrow *r = &v->diff->rows[row];

	if (col == v->diff->nr_events) {
		double ins = number(v, row, (size_t)v->ipc_ins);
		double cyc = number(v, row, (size_t)v->ipc_cyc);

		return ins >= 0 && cyc > 0 ? ins / cyc : -1;
	}
	if (!val_counted(r, &r->v[col]))
		return -1;
	return (double)val_scaled(&r->v[col]) / v->seconds;
}

static int compare(const struct top_view *v, size_t a, size_t b)
{
	int ret;

	if (v->sort >= v->nr_cols) {
		const struct rrow *x = &v->diff->rows[a], *y = &v->diff->rows[b];

		ret = strcmp(x->path, y->path);
		if (!ret && x->vm && y->vm)
			ret = strcmp(x->vm, y->vm);
		if (!ret)
			ret = x->vcpu < y->vcpu ? -1 : x->vcpu > y->vcpu;
	} else {
		double x = number(v, a, v->sort), y = number(v, b, v->sort);

		ret = x > y ? -1 : x < y;
	}
	if (ret)
		return v->reverse ? -ret : ret;
	return a < b ? -1 : a > b;
}

static int by_view(const void *a, const void *b, void *v)
{
	return compare(v, *(const size_t *)a, *(const size_t *)b);
}

static bool is_tree(const struct top_view *v)
{
	return v->nr_rows && v->diff->rows[0].kind <= ROW_TENANT;
}

/* Put the rows first..last-1, which are whole subtrees, in order and append them to @out. */
static bool order_tree(struct top_view *v, size_t first, size_t last, size_t **out)
{
	const struct rrow *rows = v->diff->rows;
	size_t *tops = calloc(last - first + 1, sizeof(*tops)), n = 0;
	bool ok = tops != NULL;

	for (size_t i = first; ok && i < last;) {
		tops[n++] = i++;
		while (i < last && rows[i].depth > rows[tops[n - 1]].depth)
			i++;
	}
	if (ok)
		qsort_r(tops, n, sizeof(*tops), by_view, v);
	for (size_t i = 0; ok && i < n; i++) {
		size_t end = tops[i] + 1;

		while (end < last && rows[end].depth > rows[tops[i]].depth)
			end++;
		*(*out)++ = tops[i];
		if (end > tops[i] + 1)
			ok = order_tree(v, tops[i] + 1, end, out);
	}
	free(tops);
	return ok;
}

bool view_init(struct top_view *v, const struct reading *diff, double seconds, size_t sort,
	       bool reverse)
{
	size_t *out;

	*v = (struct top_view){.diff = diff,
			       .seconds = seconds > 0 ? seconds : 1,
			       .nr_cols = diff->nr_events,
			       .ipc_ins = -1,
			       .ipc_cyc = -1,
			       .sort = sort,
			       .reverse = reverse,
			       .planes = reading_planes(diff) > 1,
			       .nr_rows = diff->nr_rows};
	for (size_t e = 0; e < diff->nr_events && v->ipc_cyc < 0; e++) {
		v->ipc_cyc = reading_ipc_pair(diff, e);
		v->ipc_ins = (int)e;
	}
	v->nr_cols += v->ipc_cyc >= 0;
	v->order = calloc(diff->nr_rows + 1, sizeof(*v->order));
	if (!v->order)
		return false;
	out = v->order;
	for (size_t i = 0; i < v->nr_rows; i++) {
		v->order[i] = i;
		for (size_t e = 0; e < diff->nr_events; e++) {
			const struct val *val = &diff->rows[i].v[e];

			if (!val_counted(&diff->rows[i], val))
				continue;
			v->scaled |= val_is_scaled(val);
			v->modelled |= strcmp(val->quality, "modelled") == 0;
			v->estimated |=
				strcmp(val->quality, "modelled") && out_not_exact(val->quality);
		}
	}
	if (is_tree(v))
		return order_tree(v, 0, v->nr_rows, &out);
	qsort_r(v->order, v->nr_rows, sizeof(*v->order), by_view, v);
	return true;
}

void view_fini(struct top_view *v)
{
	free(v->order);
	v->order = NULL;
}

void view_heading(const struct top_view *v, size_t col, char buf[VIEW_CELL])
{
	if (col >= v->diff->nr_events)
		snprintf(buf, VIEW_CELL, "IPC");
	else
		snprintf(buf, VIEW_CELL, "%.12s", v->diff->events[col]);
}

/* '*' scaled up, '~' modelled, '?' any other quality that is not exact. */
static const char *mark(const struct val *v)
{
	if (val_is_scaled(v))
		return "*";
	if (strcmp(v->quality, "modelled") == 0)
		return "~";
	return out_not_exact(v->quality) ? "?" : "";
}

static void cell_text(const struct top_view *v, size_t row, size_t col, char buf[VIEW_CELL])
{
	const struct rrow *r = &v->diff->rows[row];
	double n = number(v, row, col);
	char text[SHORT_LEN];

	if (col >= v->diff->nr_events) {
		if (n < 0)
			snprintf(buf, VIEW_CELL, "-");
		else
			snprintf(buf, VIEW_CELL, "%.2f%s", n, mark(&r->v[v->ipc_cyc]));
		return;
	}
	if (n < 0)
		snprintf(buf, VIEW_CELL, "%s", r->v[col].supported ? "n.c." : "n.s.");
	else
		snprintf(buf, VIEW_CELL, "%s%s", out_short(n, text), mark(&r->v[col]));
}

/* The name of row @row. In a tree it is indented by depth, and the last part of the path. */
static void row_name(const struct top_view *v, size_t row, char buf[NAME_LEN])
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
}

/* What stands left of the numbers, @width columns wide: the name, the tenant of a VM if there is
 * room, the plane if there are several. */
static size_t left_part(const struct top_view *v, long row, char *buf, size_t len,
			unsigned int width)
{
	int plane_width = v->planes ? PLANE_WIDTH : 0;
	int room = (int)width - plane_width, name_width = room;
	const struct rrow *r = row < 0 ? NULL : &v->diff->rows[row];
	char name[NAME_LEN];
	size_t n;

	if (r)
		row_name(v, (size_t)row, name);
	else
		snprintf(name, sizeof(name), "%s", is_tree(v) ? "TENANT" : "NAME");
	if (!is_tree(v) && room >= TENANT_ROOM)
		name_width = room / 2;
	n = (size_t)snprintf(buf, len, "%-*.*s", name_width, name_width, name);
	if (name_width < room && n < len)
		n += (size_t)snprintf(buf + n, len - n, " %-*.*s", room - name_width - 1,
				      room - name_width - 1, r ? r->path : "TENANT");
	if (v->planes && n < len)
		n += (size_t)snprintf(buf + n, len - n, " %-*.*s", plane_width - 1, plane_width - 1,
				      !r	 ? "PLANE"
				      : r->plane ? r->plane
						 : "");
	return n;
}

void view_line(const struct top_view *v, long row, char *buf, size_t len, unsigned int width)
{
	unsigned int left_min = NAME_MIN + (v->planes ? PLANE_WIDTH : 0);
	size_t fit = width > left_min ? (width - left_min) / COL_WIDTH : 0, n;
	char cell[VIEW_CELL];

	if (fit > v->nr_cols)
		fit = v->nr_cols;
	n = left_part(v, row, buf, len, width - (unsigned int)fit * COL_WIDTH);
	for (size_t i = 0; i < fit && n < len; i++) {
		/* IPC stays when not all columns fit: it says most. */
		size_t col = i + 1 == fit && v->ipc_cyc >= 0 ? v->nr_cols - 1 : i;

		if (row < 0)
			view_heading(v, col, cell);
		else
			cell_text(v, (size_t)row, col, cell);
		n += (size_t)snprintf(buf + n, len - n, "%*s", COL_WIDTH, cell);
	}
}

void view_marks(const struct top_view *v, char legend[VIEW_MARKS])
{
	snprintf(legend, VIEW_MARKS, "%s%s%s", v->modelled ? "  ~ modelled" : "",
		 v->estimated ? "  ? estimated, tsc or partial" : "",
		 v->scaled ? "  * counted in a part of the time, scaled up" : "");
}
