/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu top shows of the difference of two readings: rates, sorted, as lines of text. The
 * screen and batch mode only print the lines. */
#ifndef CLI_TOP_VIEW_H
#define CLI_TOP_VIEW_H

#include "cgroup/cli/reading.h"

/* The columns are one per event, then instructions per cycle (IPC) when both are counted. */
struct top_view {
	const struct reading *diff;
	double seconds; /* the differences are over so much time */
	size_t nr_cols;
	int ipc_ins, ipc_cyc; /* events of the column IPC; ipc_cyc -1: there is none */
	size_t sort;	      /* column to sort by; nr_cols or more: by name */
	bool reverse;
	bool planes;   /* rows are of several planes: there is a column PLANE */
	size_t *order; /* rows in the order in which they are shown */
	size_t nr_rows;
	bool modelled, estimated, scaled; /* some shown value has the mark of this */
};

/* view_init - sort the rows of @diff, which must outlive @v. In a tree, rows stay below their
 * parent. false: out of memory. Call view_fini in both cases. */
bool view_init(struct top_view *v, const struct reading *diff, double seconds, size_t sort,
	       bool reverse);
void view_fini(struct top_view *v);

/* view_heading - the heading of column @col. */
#define VIEW_CELL 32
void view_heading(const struct top_view *v, size_t col, char buf[VIEW_CELL]);

/* view_line - the line of row @row, or of the headings (@row -1), @width columns wide. */
void view_line(const struct top_view *v, long row, char *buf, size_t len, unsigned int width);

/* view_marks - what the marks behind the shown values mean, "" if there are none. @legend has room
 * for 128 bytes. */
#define VIEW_MARKS 128
void view_marks(const struct top_view *v, char legend[VIEW_MARKS]);

#endif
