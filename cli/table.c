// SPDX-License-Identifier: GPL-2.0-or-later
/* A reading as final output; see table.h. */
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/legend.h"
#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/when.h"
#include "service/program/memory.h"

#define CELL_LEN 80

static bool counted(const struct rrow *row, size_t e)
{
	return val_counted(row, &row->v[e]);
}

static void print_title(FILE *to, const struct reading *r, const struct run_info *run)
{
	const char *backend = reading_backend(r);

	fputs("\n Performance counter stats for ", to);
	if (strcmp(r->scope, "none"))
		fprintf(to, "each %s of ", r->scope);
	fprintf(to, "'%s'", r->target);
	if (r->cpus)
		fprintf(to, " on CPUs %s", r->cpus);
	if (backend)
		fprintf(to, " (backend: %s)", backend);
	if (run && run->runs > 1)
		fprintf(to, " (%zu runs)", run->runs);
	fputs(":\n\n", to);
}

/* ---- one row: lines like those of perf stat ----------------------------------------------- */

/* Print a metric: the number, the name, the unit in place of perf's remarks, and the quality. */
static void table_print_metric(FILE *to, const struct reading *r, const struct rrow *row,
			       const struct chosen_metric *m)
{
	char buf[METRIC_TEXT], labels[LABELS_LEN];
	struct metric_value mv;

	metric_value(m, r, row, &mv);
	fprintf(to, " %20s      %-24s", metric_spell(&mv, buf), m->label);
	if (*m->metric->unit)
		fprintf(to, "  # %s", m->metric->unit);
	if (mv.state == METRIC_NUMBER)
		fputs(out_labels(mv.v.quality, NULL, labels), to);
	if (mv.state == METRIC_NUMBER && val_is_scaled(&mv.v))
		fprintf(to, "  (%.2f%%)", val_percent(&mv.v));
	fputc('\n', to);
}

static void table_print_row(const struct format_opts *f, const struct reading *r,
			    const struct rrow *row)
{
	char buf[GROUP_LEN], labels[LABELS_LEN], variance[VARIANCE_LEN];
	FILE *to = out_stream(f);

	for (size_t e = 0; e < r->nr_events; e++) {
		const struct val *v = &row->v[e];
		int pad = strlen(r->events[e]) < 24 ? 24 - (int)strlen(r->events[e]) : 0;
		double ipc = out_auto_ipc(f, r, row, e);
		const char *unit = out_unit(r->events[e]);

		fprintf(to, " %20s %-4s %s", out_spell_in(unit, row, v, buf, !f->plain), unit,
			r->events[e]);
		if (ipc >= 0) {
			fprintf(to, "%*s  # %6.2f  insn per cycle%s", pad, "", ipc,
				out_labels(v->quality, row->v[reading_ipc_pair(r, e)].quality,
					   labels));
			pad = 0;
		}
		if (counted(row, e) && *out_labels(v->quality, NULL, labels)) {
			fprintf(to, "%*s %s", pad, "", labels);
			pad = 0;
		}
		if (counted(row, e) && val_is_scaled(v)) {
			fprintf(to, "%*s  (%.2f%%)", pad, "", val_percent(v));
			pad = 0;
		}
		if (counted(row, e) && *out_variance(v, variance))
			fprintf(to, "%*s%s", pad, "", variance);
		fputc('\n', to);
	}
	for (size_t k = 0; f->metrics && k < f->metrics->nr; k++)
		table_print_metric(to, r, row, &f->metrics->m[k]);
	if (row->gone)
		fputs("\n It was removed. These are its final counts.\n", to);
}

/* ---- several rows: a table ---------------------------------------------------------------- */

/* The layout of a table. */
struct layout {
	bool tree;     /* rows are tenants */
	bool below;    /* rows are VMs or vCPUs, below lines of their tenants */
	bool backends; /* a column BACKEND */
	bool group;    /* thousands separators */
	FILE *to;
	size_t width;		       /* columns of text left of the counts, separators included */
	const struct metrics *metrics; /* NULL: none */
	/* Columns of numbers: events, then metrics. */
	size_t nr_cols;
	struct common {
		bool same; /* all values of the column have this quality */
		char quality[sizeof(((struct val *)NULL)->quality)];
	} * common;
};

/* The contents of a cell. */
struct cell {
	char text[METRIC_TEXT > GROUP_LEN ? METRIC_TEXT : GROUP_LEN]; /* without remarks */
	bool counted;
	struct val v; /* quality and times */
};

static void get_cell(const struct layout *l, const struct reading *r, size_t i, size_t c,
		     struct cell *cell)
{
	const struct rrow *row = &r->rows[i];
	char buf[sizeof(cell->text)];
	struct metric_value mv;

	if (c < r->nr_events) {
		cell->v = row->v[c];
		cell->counted = counted(row, c);
		snprintf(cell->text, sizeof(cell->text), "%s",
			 out_spell_in(out_unit(r->events[c]), row, &cell->v, buf, l->group));
		return;
	}
	metric_value(&l->metrics->m[c - r->nr_events], r, row, &mv);
	cell->v = mv.v;
	cell->counted = mv.state == METRIC_NUMBER;
	snprintf(cell->text, sizeof(cell->text), "%s", metric_spell(&mv, buf));
}

/* Find the common quality of all counted values of column @c. */
static void common_quality(const struct layout *l, const struct reading *r, size_t c)
{
	struct common *common = &l->common[c];
	struct cell cell;
	bool any = false;

	*common = (struct common){.same = true, .quality = "exact"};
	for (size_t i = 0; i < r->nr_rows; i++) {
		get_cell(l, r, i, c, &cell);
		if (!cell.counted)
			continue;
		if (any && strcmp(common->quality, cell.v.quality) != 0)
			common->same = false;
		memcpy(common->quality, cell.v.quality, sizeof(common->quality));
		any = true;
	}
}

/* Format the number in column @c of row @i, with its quality unless the heading has it. */
static void table_cell_text(const struct layout *l, const struct reading *r, size_t i, size_t c,
			    char buf[CELL_LEN])
{
	char labels[LABELS_LEN], variance[VARIANCE_LEN];
	struct cell cell;
	size_t n;

	get_cell(l, r, i, c, &cell);
	n = (size_t)snprintf(buf, CELL_LEN, "%s", cell.text);
	if (!cell.counted)
		return;
	if (!l->common[c].same)
		n += (size_t)snprintf(buf + n, CELL_LEN - n, "%s",
				      out_labels(cell.v.quality, NULL, labels));
	if (val_is_scaled(&cell.v))
		n += (size_t)snprintf(buf + n, CELL_LEN - n, " (%.2f%%)", val_percent(&cell.v));
	snprintf(buf + n, CELL_LEN - n, "%s", out_variance(&cell.v, variance));
}

static void heading(const struct layout *l, const struct reading *r, size_t c, char buf[CELL_LEN])
{
	const char *unit = c < r->nr_events ? out_unit(r->events[c]) : "";
	char labels[LABELS_LEN];

	snprintf(buf, CELL_LEN, *unit ? "%.40s(%s)%.48s" : "%.48s%s%.48s",
		 c < r->nr_events ? r->events[c] : l->metrics->m[c - r->nr_events].label, unit,
		 l->common[c].same ? out_labels(l->common[c].quality, NULL, labels) : "");
}

static size_t column_width(const struct layout *l, const struct reading *r, size_t c)
{
	char buf[CELL_LEN];
	size_t max;

	heading(l, r, c, buf);
	max = strlen(buf);
	for (size_t i = 0; i < r->nr_rows; i++) {
		table_cell_text(l, r, i, c, buf);
		if (strlen(buf) > max)
			max = strlen(buf);
	}
	return max + 1;
}

/* Return true if row @i is the first one of its backend. */
static bool begins_backend(const struct reading *r, size_t i)
{
	const char *backend = r->rows[i].backend, *before = i ? r->rows[i - 1].backend : NULL;

	return !i || strcmp(backend ? backend : "", before ? before : "") != 0;
}

static void row_label(const struct reading *r, size_t i, char buf[NAME_LEN])
{
	const struct rrow *row = &r->rows[i];
	size_t n;

	/* In a tree, all tenants but the top show only the last part of their path. */
	if (row->kind <= ROW_TENANT && row->depth > r->rows[0].depth && !begins_backend(r, i))
		snprintf(buf, NAME_LEN, "%s", strrchr(row->path, '/') + 1);
	else
		out_name(row, buf);
	n = strlen(buf);
	if (row->gone)
		snprintf(buf + n, NAME_LEN - n, " (gone)");
}

/* Return the number of tenants in this path: 2 for "/acme/web". */
static size_t nr_above(const char *path)
{
	size_t n = 0;

	while ((path = strchr(path, '/'))) {
		path++;
		n++;
	}
	return n;
}

static size_t label_width(const struct reading *r, const struct layout *l)
{
	size_t max = strlen("TENANT"), path = max, backend = strlen("BACKEND");
	char buf[NAME_LEN];

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];
		size_t n;

		row_label(r, i, buf);
		n = strlen(buf);
		if (l->tree && row->depth > r->rows[0].depth)
			n += 2 * (row->depth - r->rows[0].depth);
		if (l->below)
			n = 2 * (nr_above(row->path) + 1) +
			    (n > strlen(row->path) ? n : strlen(row->path));
		if (n > max)
			max = n;
		if (strlen(row->path) > path)
			path = strlen(row->path);
		if (row->backend && strlen(row->backend) > backend)
			backend = strlen(row->backend);
	}
	return max + (l->tree || l->below ? 0 : 1 + path) + (l->backends ? 1 + backend : 0);
}

/* The heading of the column of names. */
static const char *row_heading(const struct reading *r, const struct layout *l)
{
	for (size_t i = 1; i < r->nr_rows; i++)
		if ((r->rows[i].kind <= ROW_TENANT) != (r->rows[0].kind <= ROW_TENANT))
			return "NAME";
	return l->tree ? "TENANT" : r->rows[0].kind == ROW_VM ? "VM" : "VCPU";
}

static void add_columns(struct libscols_table *t, const struct reading *r, const struct layout *l,
			size_t first, size_t last)
{
	char buf[CELL_LEN];

	scols_table_new_column(t, l->below ? "NAME" : row_heading(r, l), 0,
			       l->tree || l->below ? SCOLS_FL_TREE : 0);
	if (!l->tree && !l->below)
		scols_table_new_column(t, "TENANT", 0, 0);
	if (l->backends)
		scols_table_new_column(t, "BACKEND", 0, 0);
	for (size_t e = first; e < last; e++) {
		heading(l, r, e, buf);
		scols_table_new_column(t, buf, 0, SCOLS_FL_RIGHT);
	}
}

/* The lines above the last row of a table of VMs or vCPUs: its tenants, and the VM of a vCPU. */
struct above {
	struct libscols_line *line[ROW_DEPTH_MAX + 2];
	char name[ROW_DEPTH_MAX + 2][NAME_LEN];
	size_t nr;
};

/* Return the line of depth @depth with @name, reused if it is also that of the last row. */
static struct libscols_line *line_above(struct above *a, struct libscols_table *t, size_t depth,
					const char *name)
{
	if (depth < a->nr && strcmp(a->name[depth], name) == 0)
		return a->line[depth];
	a->line[depth] = scols_table_new_line(t, depth ? a->line[depth - 1] : NULL);
	snprintf(a->name[depth], NAME_LEN, "%s", name);
	a->nr = depth + 1;
	if (!a->line[depth])
		memory_out();
	scols_line_set_data(a->line[depth], 0, name);
	return a->line[depth];
}

/* Return the line above @row: its tenant, or the VM of a vCPU. */
static struct libscols_line *place_below(struct above *a, struct libscols_table *t,
					 const struct rrow *row)
{
	struct libscols_line *line = NULL;
	char name[NAME_LEN];
	const char *p = row->path;
	size_t depth = 0;

	while (*p && depth <= ROW_DEPTH_MAX) {
		size_t n = 1 + strcspn(p + 1, "/");

		/* The top has its whole path. */
		snprintf(name, sizeof(name), "%.*s", (int)(depth ? n - 1 : n), depth ? p + 1 : p);
		line = line_above(a, t, depth++, name);
		p += n;
	}
	return row->kind == ROW_VCPU ? line_above(a, t, depth, row->vm) : line;
}

/* Print the columns first..last-1 as one table. */
static void print_block(const struct reading *r, const struct layout *l, size_t first, size_t last)
{
	struct libscols_line *at[ROW_DEPTH_MAX + 1] = {NULL}; /* the last line of each depth */
	struct libscols_table *t = scols_new_table();
	struct above *above = xcalloc(1, sizeof(*above));
	char cell[CELL_LEN], name[NAME_LEN];

	if (!t)
		memory_out();
	scols_table_enable_nowrap(t, 0);
	scols_table_set_termforce(t, SCOLS_TERMFORCE_NEVER);
	scols_table_set_stream(t, l->to);
	add_columns(t, r, l, first, last);
	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];
		struct libscols_line *parent = NULL, *line;
		size_t col = 0;

		if (begins_backend(r, i)) { /* one tree per backend */
			memset(at, 0, sizeof(at));
			above->nr = 0;
		}
		for (unsigned int d = row->depth; l->tree && d-- && !parent;)
			parent = at[d];
		if (l->below)
			parent = place_below(above, t, row);
		line = scols_table_new_line(t, parent);
		if (!line)
			memory_out();
		at[row->depth] = line;
		memset(&at[row->depth + 1], 0, (ROW_DEPTH_MAX - row->depth) * sizeof(at[0]));
		row_label(r, i, name);
		scols_line_set_data(line, col++, name);
		if (!l->tree && !l->below)
			scols_line_set_data(line, col++, row->path);
		if (l->backends)
			scols_line_set_data(line, col++, row->backend ? row->backend : "");
		for (size_t e = first; e < last; e++) {
			table_cell_text(l, r, i, e, cell);
			scols_line_set_data(line, col++, cell);
		}
	}
	scols_print_table(t);
	scols_unref_table(t);
	free(above);
}

static void print_rows(const struct format_opts *f, const struct reading *r, unsigned int width)
{
	struct layout l = {.group = !f->plain,
			   .to = out_stream(f),
			   .tree = r->rows[0].kind <= ROW_TENANT,
			   .below = f->tree && r->rows[0].kind > ROW_TENANT,
			   .backends = reading_backends(r) > 1,
			   .metrics = f->metrics,
			   .nr_cols = r->nr_events + (f->metrics ? f->metrics->nr : 0)};
	size_t first = 0;

	l.common = xcalloc(l.nr_cols, sizeof(*l.common));
	l.width = label_width(r, &l);
	for (size_t c = 0; c < l.nr_cols; c++)
		common_quality(&l, r, c);
	while (first < l.nr_cols) {
		size_t used = l.width + column_width(&l, r, first), last = first + 1;

		while (last < l.nr_cols && (!width || used + column_width(&l, r, last) <= width)) {
			used += column_width(&l, r, last);
			last++;
		}
		print_block(r, &l, first, last);
		first = last;
		if (first < l.nr_cols)
			fputc('\n', l.to);
	}
	free(l.common);
}

/* ---- the whole output --------------------------------------------------------------------- */

static void print_times(FILE *to, const struct reading *r, const struct run_info *run)
{
	char from[WHEN_LEN], until[WHEN_LEN];

	if (r->end_ns) {
		fprintf(to, " %20.9f seconds, from %s to %s\n\n", (double)r->age_ns / 1e9,
			when_text(r->start_ns, from), when_text(r->end_ns, until));
		return;
	}
	if (!run) {
		fprintf(to, " %20.9f seconds time elapsed\n\n", (double)r->age_ns / 1e9);
		return;
	}
	if (run->runs > 1)
		fprintf(to, " %20.9f +- %.9f seconds time elapsed  ( +-%6.2f%% )\n\n",
			run->elapsed_s, run->elapsed_error_s,
			run->elapsed_s > 0 ? 100 * run->elapsed_error_s / run->elapsed_s : 0);
	else
		fprintf(to, " %20.9f seconds time elapsed\n\n", run->elapsed_s);
	fprintf(to, " %20.9f seconds user\n %20.9f seconds sys\n\n", run->user_s, run->sys_s);
}

/* @width: of the terminal; 0: no limit. */
static void table_print_text(const struct format_opts *f, const struct reading *r,
			     const struct run_info *run, unsigned int width)
{
	bool one = strcmp(r->scope, "none") == 0 && r->nr_rows == 1;
	FILE *to = out_stream(f);

	print_title(to, r, run);
	if (!r->nr_rows)
		fputs(" Nothing was counted: no such tenant or VM was there.\n", to);
	else if (one)
		table_print_row(f, r, &r->rows[0]);
	else
		print_rows(f, r, width);
	if (f->metrics && r->nr_rows && !one)
		legend_meanings(to, f->metrics);
	fputc('\n', to);
	if (legend_print(to, r, f->metrics))
		fputc('\n', to);
	if (f->verbose)
		legend_as_of(to, "", r);
	print_times(to, r, run);
}

void table_print_as(const struct format_opts *f, const struct reading *r,
		    const struct run_info *run)
{
	if (f->json)
		out_json(f, r, -1);
	else if (f->sep)
		out_csv(f, r, -1);
	else
		table_print_text(f, r, run, terminal_width(out_stream(f)));
}
