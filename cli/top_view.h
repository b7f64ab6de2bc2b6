/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu top shows of the difference of two readings: rates, sorted, as lines of text. The
 * screen and batch mode only print the lines. */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include "cli/top_source.h"

/* How the rows are shown: what the keys choose. Zeroed: all rows, by their first event, or by their
 * first metric if there is no event. */
struct top_look {
	size_t sort; /* column to sort by: 0 is that of the first event, and counting goes round; or
			TOP_BY_NAME */
	bool reverse;
	const char *filter; /* NULL: all rows */
	size_t first;	    /* the first column that is visible; view_fit changes it */
};
#define TOP_BY_NAME SIZE_MAX

/* A column: the state, the share of the pCPUs' time, the least share of the time in which an event
 * was counted, a metric, or an event. */
enum top_kind { TOP_STATE, TOP_SHARE, TOP_RUNNING, TOP_METRIC, TOP_EVENT };
struct top_column {
	enum top_kind kind;
	size_t index; /* TOP_METRIC, TOP_EVENT: which one */
	int width;    /* columns of the terminal, the blank to its left included */
};

struct top_view {
	const struct reading *diff;
	const struct top_fact *facts;
	const struct top_opts *o;
	double seconds; /* the differences are over so much time */
	struct top_look look;
	struct top_column *col;
	size_t nr_cols, base; /* base: the column that look.sort counts from */
	bool backends;	      /* rows are of several backends: there is a column BACKEND */
	size_t *order;	      /* rows in the order in which they are shown */
	size_t nr_rows;
	unsigned int marks; /* those that some shown value has: see top_marks.h */
	/* What view_fit decides. */
	size_t first, last; /* columns first..last-1 are visible */
	int name_width, tenant_width, backend_width;
};

/* view_init - choose and sort the rows of @src, which must outlive @v. In a tree, rows stay below
 * their parent; with a filter there is no tree. Free with view_fini. */
void view_init(struct top_view *v, const struct top_source *src, const struct top_look *look);
void view_fini(struct top_view *v);

/* view_sort_next - the column to sort by that is @by (1 or -1) beside the one of now. */
size_t view_sort_next(const struct top_view *v, int by);

/* view_fit - lay the lines out for @width columns of a terminal: as many columns as fit, and among
 * them the one to sort by. 0: everything, with whole names. Returns look.first of the next time. */
size_t view_fit(struct top_view *v, unsigned int width);

/* view_heading - the heading of column @col. */
#define VIEW_CELL 80
void view_heading(const struct top_view *v, size_t col, char buf[VIEW_CELL]);

/* view_line - the line of row @row, or of the headings (@row -1), after view_fit. */
#define VIEW_LINE 8192
void view_line(const struct top_view *v, long row, char buf[VIEW_LINE]);

/* view_has - whether there is a column for the metric or event @index. */
bool view_has(const struct top_view *v, enum top_kind kind, size_t index);

/* view_running - the least share of the time, in percent, in which an event of the row was counted.
 * Below 0: none was counted. */
double view_running(const struct top_view *v, size_t row);

/* view_rate - events per second in a cell; below 0: there is no count. */
double view_rate(const struct top_view *v, size_t row, size_t event);

#endif
