/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lays out the difference of two readings for vpmu top: rates, sorted, as lines of text. The screen
 * and batch mode only print the lines. */
#pragma once

#include <stddef.h>

#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/reading.h"
#include "cli/top.h"

/* The view selected by keys. Zeroed: all rows, sorted by the first event, or by the first metric if
 * there is no event. */
struct top_look {
	size_t sort; /* column to sort by: 0 is the first event, wrapping around; or TOP_BY_NAME */
	bool reverse;
	const char *filter; /* NULL: all rows */
	size_t first;	    /* first visible column; set by view_fit() */
};
#define TOP_BY_NAME SIZE_MAX

/* A column: the state, the share of the pCPUs' time, the least running share of an event, a metric,
 * or an event. */
enum top_kind { TOP_STATE, TOP_SHARE, TOP_RUNNING, TOP_METRIC, TOP_EVENT };
struct top_column {
	enum top_kind kind;
	size_t index; /* TOP_METRIC, TOP_EVENT: which one */
	int width;    /* terminal columns, including the blank to its left */
};

struct top_view {
	const struct reading *diff;
	const struct top_fact *facts;
	const struct top_opts *o;
	double seconds; /* interval of the differences */
	struct top_look look;
	struct top_column *col;
	size_t nr_cols, base; /* base: column 0 of look.sort */
	bool backends;	      /* several backends: a column BACKEND */
	size_t *order;	      /* rows in display order */
	size_t nr_rows;
	unsigned int marks; /* set of marks shown: top_marks.c */
	/* Set by view_fit(). */
	size_t first, last; /* columns first..last-1 are visible */
	int name_width, tenant_width, backend_width;
	int bar_width; /* of the bar behind CPU%, with a blank; 0: none */
	int tail;      /* percent of an elided name that is its end; top_names.c */
};

/* view_init - select and sort the rows of @src, which must outlive @v. In a tree, rows stay below
 * their parent; a filter disables the tree. Free with view_fini(). */
void view_init(struct top_view *v, const struct top_source *src, const struct top_look *look);
void view_fini(struct top_view *v);

/* view_sort_next - return the sort column next to the current one, in direction @by (1 or -1). */
size_t view_sort_next(const struct top_view *v, int by);

/* view_fit - lay out the lines for @width terminal columns: as many columns as fit, including the
 * sort column. 0: everything, with whole names. Returns look.first for the next time. */
size_t view_fit(struct top_view *v, unsigned int width);

/* view_heading - write the heading of column @col. */
#define VIEW_CELL 80
void view_heading(const struct top_view *v, size_t col, char buf[VIEW_CELL]);

/* view_line - write the line of row @row, or of the headings (@row -1), after view_fit(). @paint
 * (NULL: not wanted): an enum top_paint for each byte. */
#define VIEW_LINE 8192
void view_line(const struct top_view *v, long row, char buf[VIEW_LINE],
	       unsigned char paint[VIEW_LINE]);

/* view_name - write the name of row @row; in a tree the last part of the path, indented by depth.
 * Returns the bytes of the indentation. */
size_t view_name(const struct top_view *v, size_t row, char buf[NAME_LEN]);

/* view_is_clock - returns true if @event counts nanoseconds. */
bool view_is_clock(const char *event);

/* view_in_tenants - returns true if rows have a tenant beside their name. */
bool view_in_tenants(const struct top_view *v);

/* view_number - return the sort value of a cell; below 0: none. */
double view_number(const struct top_view *v, size_t row, size_t col);

/* view_metric - compute the metric @metric of row @row. */
void view_metric(const struct top_view *v, size_t row, size_t metric, struct metric_value *mv);

/* view_has - returns true if there is a column for the metric or event @index. */
bool view_has(const struct top_view *v, enum top_kind kind, size_t index);

/* view_running - return the least running share of the row's events in percent; below 0: none was
 * counted. */
double view_running(const struct top_view *v, size_t row);

/* view_rate - return the events per second of a cell; below 0: no count. */
double view_rate(const struct top_view *v, size_t row, size_t event);

/* top_names.c: long names are elided so that they stay distinguishable: the middle is left out
 * where that is enough, else another part.
 * names_elide - shorten @name, of which the first @indent bytes stay, in place to @width bytes.
 * @tail: percent of what is left of it that is its end. No character of UTF-8 is cut. */
void names_elide(char *name, size_t indent, size_t width, int tail);

/* names_choose - set v->tail so that as few names of the rows as possible look the same. */
void names_choose(struct top_view *v);

/* top_marks.c: the marks after values that are not plain counts.
 * marks_of - return the marks of @v as a set of bits. */
unsigned int marks_of(const struct val *v);

/* marks_spell - write the marks of @set, "" if there are none. Returns @buf. */
#define MARKS_LEN 8
const char *marks_spell(unsigned int set, char buf[MARKS_LEN]);

/* How a part of a line is painted. */
enum top_paint {
	PAINT_PLAIN,
	PAINT_DIM,   /* no value, or nothing happens */
	PAINT_GOOD,  /* a moderate load */
	PAINT_MODEL, /* modelled */
	PAINT_WARN,  /* a high load; a value that is estimated or scaled up */
	PAINT_BAD,   /* a full load; a value that lacks something */
	PAINT_NR
};

/* marks_paint - return the paint of a value with the marks @set: that of the worst. */
enum top_paint marks_paint(unsigned int set);

/* marks_legend - explain the marks of @set, "" if there are none. */
#define MARKS_LEGEND 128
void marks_legend(unsigned int set, char legend[MARKS_LEGEND]);
