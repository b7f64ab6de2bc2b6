// SPDX-License-Identifier: GPL-2.0-or-later
/* A reading as its final output for people: see table.h. */
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/error.h"
#include "cgroup/cli/output.h"
#include "cgroup/cli/table.h"
#include "cgroup/cli/terminal.h"

#define CELL_LEN 80

static bool counted(const struct rrow *row, size_t e)
{
	return val_counted(row, &row->v[e]);
}

/* " (modelled)" for a quality that is not exact, else "". */
static const char *in_brackets(const char *quality, char buf[CELL_LEN])
{
	buf[0] = '\0';
	if (quality && out_not_exact(quality))
		snprintf(buf, CELL_LEN, " (%s)", quality);
	return buf;
}

/* Explain each quality that some value has, once. Returns whether there was one. */
static bool print_qualities(const struct reading *r)
{
	const char *seen[8];
	size_t n = 0, k;

	for (size_t i = 0; i < r->nr_rows; i++) {
		for (size_t e = 0; e < r->nr_events; e++) {
			const char *q = r->rows[i].v[e].quality;

			if (!counted(&r->rows[i], e) || !out_not_exact(q))
				continue;
			for (k = 0; k < n && strcmp(seen[k], q) != 0; k++)
				;
			if (k < n || n == sizeof(seen) / sizeof(seen[0]))
				continue;
			seen[n++] = q;
			printf(" %s\n", out_quality(q));
		}
	}
	return n > 0;
}

/* Explain what is not a plain count. Returns whether anything was printed. */
static bool print_legend(const struct reading *r)
{
	bool any = false, scaled = false;

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];

		if (row->error) {
			printf(" %s%s%s: not counted: %s\n", row->path, row->vm ? " " : "",
			       row->vm ? row->vm : "", row->error);
			any = true;
		}
		for (size_t e = 0; e < r->nr_events; e++)
			scaled |= counted(row, e) && val_is_scaled(&row->v[e]);
	}
	any |= print_qualities(r);
	if (scaled)
		puts(" (n%): the event was counted in n% of the time and the count scaled up to "
		     "all of it");
	if (r->dropped)
		printf(" %llu rows of removed VMs or tenants were dropped; their counts are in the "
		       "tenants above them\n",
		       (unsigned long long)r->dropped);
	return any || scaled || r->dropped;
}

static void print_title(const struct reading *r)
{
	const char *plane = reading_plane(r);

	printf("\n Performance counter stats for ");
	if (strcmp(r->scope, "none"))
		printf("each %s of ", r->scope);
	printf("'%s'", r->target);
	if (plane)
		printf(" (plane: %s)", plane);
	puts(":\n");
}

/* ---- one row: lines like those of perf stat ----------------------------------------------- */

/* Print instructions per cycle behind the instructions. @pad: blanks up to the column of notes. */
static void print_ipc(const struct reading *r, const struct rrow *row, size_t e, int pad)
{
	int c = reading_ipc_pair(r, e);
	const struct val *cycles = c < 0 ? NULL : &row->v[c];
	char quality[CELL_LEN];

	if (!cycles || !counted(row, e) || !counted(row, (size_t)c) || !val_scaled(cycles))
		return;
	printf("%*s  # %6.2f  insn per cycle%s", pad, "",
	       (double)val_scaled(&row->v[e]) / (double)val_scaled(cycles),
	       in_brackets(cycles->quality, quality));
}

static void print_row(const struct reading *r, const struct rrow *row)
{
	char buf[GROUP_LEN];
	int pad;

	for (size_t e = 0; e < r->nr_events; e++) {
		const struct val *v = &row->v[e];

		printf(" %20s      %s", out_spell(row, v, buf, true), r->events[e]);
		if (counted(row, e)) {
			pad = strlen(r->events[e]) < 24 ? 24 - (int)strlen(r->events[e]) : 0;
			print_ipc(r, row, e, pad);
			if (out_not_exact(v->quality))
				printf("%*s  (%s)", pad, "", v->quality);
			if (val_is_scaled(v))
				printf("%*s  (%.2f%%)", out_not_exact(v->quality) ? 0 : pad, "",
				       val_percent(v));
		}
		putchar('\n');
	}
	if (row->gone)
		puts("\n It was removed. These are its final counts.");
}

/* ---- several rows: a table ---------------------------------------------------------------- */

/* The quality that all counted values of event @e have, or NULL when they differ. */
static const char *common_quality(const struct reading *r, size_t e)
{
	const char *q = NULL;

	for (size_t i = 0; i < r->nr_rows; i++) {
		if (!counted(&r->rows[i], e))
			continue;
		if (q && strcmp(q, r->rows[i].v[e].quality) != 0)
			return NULL;
		q = r->rows[i].v[e].quality;
	}
	return q ? q : "exact";
}

/* The count of event @e in row @i. The quality is in the heading if all rows have the same. */
static void cell_text(const struct reading *r, size_t i, size_t e, const char *common,
		      char buf[CELL_LEN])
{
	const struct rrow *row = &r->rows[i];
	const struct val *v = &row->v[e];
	char number[GROUP_LEN], quality[CELL_LEN];
	size_t n;

	n = (size_t)snprintf(buf, CELL_LEN, "%s", out_spell(row, v, number, true));
	if (!counted(row, e))
		return;
	if (!common)
		n += (size_t)snprintf(buf + n, CELL_LEN - n, "%s",
				      in_brackets(v->quality, quality));
	if (val_is_scaled(v))
		snprintf(buf + n, CELL_LEN - n, " (%.2f%%)", val_percent(v));
}

static void heading(const struct reading *r, size_t e, const char *common, char buf[CELL_LEN])
{
	char quality[CELL_LEN];

	snprintf(buf, CELL_LEN, "%.48s%.20s", r->events[e], in_brackets(common, quality));
}

static size_t event_width(const struct reading *r, size_t e, const char *common)
{
	char buf[CELL_LEN];
	size_t max;

	heading(r, e, common, buf);
	max = strlen(buf);
	for (size_t i = 0; i < r->nr_rows; i++) {
		cell_text(r, i, e, common, buf);
		if (strlen(buf) > max)
			max = strlen(buf);
	}
	return max + 1;
}

/* Whether row @i is the first one of its plane. */
static bool begins_plane(const struct reading *r, size_t i)
{
	const char *plane = r->rows[i].plane, *before = i ? r->rows[i - 1].plane : NULL;

	return !i || strcmp(plane ? plane : "", before ? before : "") != 0;
}

static void row_label(const struct reading *r, size_t i, char buf[NAME_LEN])
{
	const struct rrow *row = &r->rows[i];
	size_t n;

	/* In a tree a tenant shows the last part of its path. The top shows its whole path. */
	if (row->kind <= ROW_TENANT && row->depth > r->rows[0].depth && !begins_plane(r, i))
		snprintf(buf, NAME_LEN, "%s", strrchr(row->path, '/') + 1);
	else
		out_name(row, buf);
	n = strlen(buf);
	if (row->gone)
		snprintf(buf + n, NAME_LEN - n, " (gone)");
}

/* What stands left of the counts. */
struct layout {
	bool tree;	     /* rows are tenants */
	bool planes;	     /* a column PLANE */
	size_t width;	     /* columns of text, separators included */
	const char **common; /* common_quality of each event */
};

static size_t label_width(const struct reading *r, const struct layout *l)
{
	size_t max = strlen("TENANT"), path = max, plane = strlen("PLANE");
	char buf[NAME_LEN];

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];
		size_t n;

		row_label(r, i, buf);
		n = strlen(buf);
		if (l->tree && row->depth > r->rows[0].depth)
			n += 2 * (row->depth - r->rows[0].depth);
		if (n > max)
			max = n;
		if (strlen(row->path) > path)
			path = strlen(row->path);
		if (row->plane && strlen(row->plane) > plane)
			plane = strlen(row->plane);
	}
	return max + (l->tree ? 0 : 1 + path) + (l->planes ? 1 + plane : 0);
}

static void add_columns(struct libscols_table *t, const struct reading *r, const struct layout *l,
			size_t first, size_t last)
{
	char buf[CELL_LEN];

	scols_table_new_column(t,
			       l->tree			   ? "TENANT"
			       : r->rows[0].kind == ROW_VM ? "VM"
							   : "VCPU",
			       0, l->tree ? SCOLS_FL_TREE : 0);
	if (!l->tree)
		scols_table_new_column(t, "TENANT", 0, 0);
	if (l->planes)
		scols_table_new_column(t, "PLANE", 0, 0);
	for (size_t e = first; e < last; e++) {
		heading(r, e, l->common[e], buf);
		scols_table_new_column(t, buf, 0, SCOLS_FL_RIGHT);
	}
}

/* Print the events first..last-1 as one table. */
static void print_block(const struct reading *r, const struct layout *l, size_t first, size_t last)
{
	struct libscols_line *at[ROW_DEPTH_MAX + 1] = {NULL}; /* the last line of each depth */
	struct libscols_table *t = scols_new_table();
	char cell[CELL_LEN], name[NAME_LEN];

	if (!t) {
		cli_error("out of memory");
		return;
	}
	scols_table_enable_nowrap(t, 0);
	scols_table_set_termforce(t, SCOLS_TERMFORCE_NEVER);
	add_columns(t, r, l, first, last);
	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];
		struct libscols_line *parent = NULL, *line;
		size_t col = 0;

		if (begins_plane(r, i)) /* each plane has a tree of its own */
			memset(at, 0, sizeof(at));
		for (unsigned int d = row->depth; l->tree && d-- && !parent;)
			parent = at[d];
		line = scols_table_new_line(t, parent);
		if (!line)
			break;
		at[row->depth] = line;
		memset(&at[row->depth + 1], 0, (ROW_DEPTH_MAX - row->depth) * sizeof(at[0]));
		row_label(r, i, name);
		scols_line_set_data(line, col++, name);
		if (!l->tree)
			scols_line_set_data(line, col++, row->path);
		if (l->planes)
			scols_line_set_data(line, col++, row->plane ? row->plane : "");
		for (size_t e = first; e < last; e++) {
			cell_text(r, i, e, l->common[e], cell);
			scols_line_set_data(line, col++, cell);
		}
	}
	scols_print_table(t);
	scols_unref_table(t);
}

static void print_rows(const struct reading *r, unsigned int width)
{
	struct layout l = {.tree = r->rows[0].kind <= ROW_TENANT,
			   .planes = reading_planes(r) > 1,
			   .common = calloc(r->nr_events, sizeof(*l.common))};
	size_t first = 0;

	if (!l.common) {
		cli_error("out of memory");
		return;
	}
	l.width = label_width(r, &l);
	for (size_t e = 0; e < r->nr_events; e++)
		l.common[e] = common_quality(r, e);
	while (first < r->nr_events) {
		size_t used = l.width + event_width(r, first, l.common[first]), last = first + 1;

		while (last < r->nr_events &&
		       (!width || used + event_width(r, last, l.common[last]) <= width)) {
			used += event_width(r, last, l.common[last]);
			last++;
		}
		print_block(r, &l, first, last);
		first = last;
		if (first < r->nr_events)
			putchar('\n');
	}
	free(l.common);
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* @width: of the terminal; 0: no limit. */
static void print_text(const struct reading *r, unsigned int width)
{
	print_title(r);
	if (!r->nr_rows)
		puts(" Nothing was counted: no such tenant or VM was there.");
	else if (strcmp(r->scope, "none") == 0 && r->nr_rows == 1)
		print_row(r, &r->rows[0]);
	else
		print_rows(r, width);
	putchar('\n');
	if (print_legend(r))
		putchar('\n');
	printf(" %20.9f seconds time elapsed\n\n", (double)r->age_ns / 1e9);
}

void table_print_as(const struct format_opts *format, const struct reading *r)
{
	if (format->json)
		out_json(r, -1);
	else if (format->sep)
		out_csv(r, -1, format->sep);
	else
		print_text(r, terminal_width());
}
