// SPDX-License-Identifier: GPL-2.0-or-later
/* The final output of stat for people: lines like perf stat's, or a table of rows by events. */
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/cli.h"
#include "cgroup/cli/output.h"

#define CELL_LEN 80

static const struct {
	const char *quality, *text;
} legends[] = {
	{"modelled", "modelled: from the soft machine's fixed cost table, not from hardware"},
	{"estimated", "estimated: derived from the nominal clock, not counted"},
	{"partial",
	 "partial: some of it ran where the event cannot be counted; that part is missing"},
	{"tsc", "tsc: time stamp counter between entering and leaving the guest"},
};

const char *out_quality(const char *quality)
{
	for (size_t i = 0; i < sizeof(legends) / sizeof(legends[0]); i++)
		if (strcmp(quality, legends[i].quality) == 0)
			return legends[i].text;
	return quality;
}

static bool counted(const struct rrow *row, size_t e)
{
	return row->v[e].supported && !val_not_counted(row, &row->v[e]);
}

/* What has to be said about values that are not plain counts; whether there was something. */
static bool print_legend(const struct reading *r)
{
	bool any = false, scaled = false, seen[sizeof(legends) / sizeof(legends[0])] = {false};

	for (size_t i = 0; i < r->nr_rows; i++) {
		if (r->rows[i].error) {
			printf(" %s%s%s: not counted: %s\n", r->rows[i].path,
			       r->rows[i].vm ? " " : "", r->rows[i].vm ? r->rows[i].vm : "",
			       r->rows[i].error);
			any = true;
		}
		for (size_t e = 0; e < r->nr_events; e++) {
			const struct val *v = &r->rows[i].v[e];

			if (!counted(&r->rows[i], e))
				continue;
			scaled |= val_is_scaled(v);
			for (size_t q = 0; q < sizeof(legends) / sizeof(legends[0]); q++)
				seen[q] |= strcmp(v->quality, legends[q].quality) == 0;
		}
	}
	for (size_t q = 0; q < sizeof(legends) / sizeof(legends[0]); q++) {
		if (!seen[q])
			continue;
		printf(" %s\n", legends[q].text);
		any = true;
	}
	if (scaled)
		puts(" (n%): counted in n% of the time it ran, and scaled up to all of it");
	if (r->dropped)
		printf(" %llu rows of removed VMs or tenants were dropped; their counts are in the "
		       "tenants above them\n",
		       (unsigned long long)r->dropped);
	return any || scaled || r->dropped;
}

static void print_title(const struct reading *r)
{
	if (strcmp(r->scope, "none") == 0)
		printf("\n Performance counter stats for '%s':\n\n", r->target);
	else
		printf("\n Performance counter stats for each %s of '%s':\n\n", r->scope,
		       r->target);
}

/* ---- one row: perf stat's lines ------------------------------------------------------------- */

/* @pad: blanks that line up what follows the event's name. */
static void print_ipc(const struct reading *r, const struct rrow *row, size_t e, int pad)
{
	int c = reading_ipc_pair(r, e);
	const struct val *cycles = c < 0 ? NULL : &row->v[c];

	if (!cycles || !counted(row, e) || !counted(row, (size_t)c) || !val_scaled(cycles))
		return;
	printf("%*s  # %6.2f  insn per cycle%s%s%s", pad, "",
	       (double)val_scaled(&row->v[e]) / (double)val_scaled(cycles),
	       strcmp(cycles->quality, "exact") ? " (" : "",
	       strcmp(cycles->quality, "exact") ? cycles->quality : "",
	       strcmp(cycles->quality, "exact") ? ")" : "");
}

static void print_row(const struct reading *r, const struct rrow *row)
{
	char buf[GROUP_LEN];
	int pad;

	for (size_t e = 0; e < r->nr_events; e++) {
		const struct val *v = &row->v[e];

		if (!v->supported) {
			printf(" %20s      %s\n", "<not supported>", r->events[e]);
			continue;
		}
		if (val_not_counted(row, v)) {
			printf(" %20s      %s\n", "<not counted>", r->events[e]);
			continue;
		}
		pad = strlen(r->events[e]) < 24 ? 24 - (int)strlen(r->events[e]) : 0;
		printf(" %20s      %s", out_group(val_scaled(v), buf), r->events[e]);
		print_ipc(r, row, e, pad);
		if (strcmp(v->quality, "exact"))
			printf("%*s  (%s)", pad, "", v->quality);
		if (val_is_scaled(v))
			printf("%*s  (%.2f%%)", strcmp(v->quality, "exact") ? 0 : pad, "",
			       val_percent(v));
		putchar('\n');
	}
	if (row->gone)
		puts("\n It was removed: these are its final counts.");
}

/* ---- many rows: a table --------------------------------------------------------------------- */

/* The one quality of all counted values of event @e, or NULL when they differ. */
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

static void cell_text(const struct reading *r, size_t i, size_t e, const char *common, char *buf)
{
	const struct rrow *row = &r->rows[i];
	const struct val *v = &row->v[e];
	char number[GROUP_LEN];
	size_t n;

	if (!counted(row, e)) {
		snprintf(buf, CELL_LEN, "<not %s>", v->supported ? "counted" : "supported");
		return;
	}
	n = (size_t)snprintf(buf, CELL_LEN, "%s", out_group(val_scaled(v), number));
	if (!common && strcmp(v->quality, "exact"))
		n += (size_t)snprintf(buf + n, CELL_LEN - n, " (%s)", v->quality);
	if (val_is_scaled(v))
		snprintf(buf + n, CELL_LEN - n, " (%.2f%%)", val_percent(v));
}

static void heading(const struct reading *r, size_t e, const char *common, char *buf)
{
	snprintf(buf, CELL_LEN, "%.48s%s%s%s", r->events[e],
		 common && strcmp(common, "exact") ? " (" : "",
		 common && strcmp(common, "exact") ? common : "",
		 common && strcmp(common, "exact") ? ")" : "");
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

static void row_label(const struct reading *r, const struct rrow *row, char *buf, size_t len)
{
	size_t n;

	/* In a tree, the last component; a tree's top shows its whole path. */
	if (row->kind <= ROW_TENANT)
		snprintf(buf, len, "%s",
			 row->depth > r->rows[0].depth ? strrchr(row->path, '/') + 1 : row->path);
	else if (row->kind == ROW_VM)
		snprintf(buf, len, "%s", row->vm);
	else
		snprintf(buf, len, "%s/%u", row->vm, row->vcpu);
	n = strlen(buf);
	if (row->gone)
		snprintf(buf + n, len - n, " (gone)");
}

/* Width of the columns left of the counts. */
static size_t label_width(const struct reading *r, bool tree)
{
	size_t max = 6, path = 6;
	char buf[320];

	for (size_t i = 0; i < r->nr_rows; i++) {
		size_t n;

		row_label(r, &r->rows[i], buf, sizeof(buf));
		n = strlen(buf) + (tree ? 2 * (r->rows[i].depth - r->rows[0].depth) : 0);
		if (n > max)
			max = n;
		if (strlen(r->rows[i].path) > path)
			path = strlen(r->rows[i].path);
	}
	return tree ? max : max + 1 + path;
}

/* Events first..last-1 as one table. */
static void print_block(const struct reading *r, size_t first, size_t last, bool tree,
			const char *const *common)
{
	struct libscols_table *t = scols_new_table();
	struct libscols_line *at[256] = {NULL}; /* last line of each depth */
	char buf[320];

	if (!t)
		return;
	scols_table_enable_nowrap(t, 0);
	scols_table_set_termforce(t, SCOLS_TERMFORCE_NEVER);
	scols_table_new_column(t,
			       tree			   ? "TENANT"
			       : r->rows[0].kind == ROW_VM ? "VM"
							   : "VCPU",
			       0, tree ? SCOLS_FL_TREE : 0);
	if (!tree)
		scols_table_new_column(t, "TENANT", 0, 0);
	for (size_t e = first; e < last; e++) {
		heading(r, e, common[e], buf);
		scols_table_new_column(t, buf, 0, SCOLS_FL_RIGHT);
	}
	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];
		struct libscols_line *parent = NULL, *line;
		size_t col = 0;

		for (unsigned int d = row->depth; tree && d-- && !parent;)
			parent = at[d];
		line = scols_table_new_line(t, parent);
		if (!line)
			break;
		at[row->depth] = line;
		memset(&at[row->depth + 1], 0, (255 - row->depth) * sizeof(at[0]));
		row_label(r, row, buf, sizeof(buf));
		scols_line_set_data(line, col++, buf);
		if (!tree)
			scols_line_set_data(line, col++, row->path);
		for (size_t e = first; e < last; e++) {
			cell_text(r, i, e, common[e], buf);
			scols_line_set_data(line, col++, buf);
		}
	}
	scols_print_table(t);
	scols_unref_table(t);
}

static void print_table(const struct reading *r, unsigned int width)
{
	const char **common = calloc(r->nr_events, sizeof(*common));
	bool tree = r->rows[0].kind <= ROW_TENANT;
	size_t label = label_width(r, tree), first = 0;

	for (size_t e = 0; common && e < r->nr_events; e++)
		common[e] = common_quality(r, e);
	while (common && first < r->nr_events) {
		size_t used = label + event_width(r, first, common[first]), last = first + 1;

		while (last < r->nr_events &&
		       (!width || used + event_width(r, last, common[last]) <= width)) {
			used += event_width(r, last, common[last]);
			last++;
		}
		print_block(r, first, last, tree, common);
		first = last;
		if (first < r->nr_events)
			putchar('\n');
	}
	free(common);
}

void out_total(const struct reading *r, unsigned int width)
{
	print_title(r);
	if (!r->nr_rows)
		puts(" nothing to count: no such tenant or VM was there");
	else if (strcmp(r->scope, "none") == 0 && r->nr_rows == 1)
		print_row(r, &r->rows[0]);
	else
		print_table(r, width);
	putchar('\n');
	if (print_legend(r))
		putchar('\n');
	printf(" %20.9f seconds time elapsed\n\n", (double)r->age_ns / 1e9);
}
