/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vpmu top: what is shown (view) of the differences of two readings. The screen only draws it. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cgroup/cli/reading.h"

/* Columns of numbers: one per event, then insn per cycle when both are counted. */
struct top_view {
	const struct reading *diff;
	double seconds; /* the differences are over */
	size_t nr_cols;
	int ipc_ins, ipc_cyc; /* events of the IPC column; -1: no such column */
	size_t sort;	      /* column sorted by; nr_cols: by name */
	bool reverse;
	size_t *order; /* rows in the order they are shown */
	size_t nr_rows;
	bool modelled, scaled, estimated; /* some shown value is */
};

/* view_init - sort the rows; siblings of a tree stay together below their parent. false: out of
 * memory. @sort beyond the columns: by name. */
bool view_init(struct top_view *v, const struct reading *diff, double seconds, size_t sort,
	       bool reverse);
void view_fini(struct top_view *v);

#define VIEW_CELL 32
/* view_heading / view_cell - text of column @col: at most @width characters of interest. */
void view_heading(const struct top_view *v, size_t col, char buf[VIEW_CELL]);
void view_cell(const struct top_view *v, size_t row, size_t col, char buf[VIEW_CELL]);
/* view_name - indented by depth in a tree. */
void view_name(const struct top_view *v, size_t row, char *buf, size_t len);

#define VIEW_COL_WIDTH 13

/* view_line - a whole line for row @row (-1: the headings) of @width columns. Returns how many
 * number columns fit. */
size_t view_line(const struct top_view *v, long row, char *buf, size_t len, unsigned int width);

struct top_opts {
	const char *events, *scope, *target;
	double delay_s;
	long iterations; /* 0: until q */
	bool batch;
};

struct client;

/* top_open / top_take - a session, and the next difference of it: NULL after an error was said.
 * The result is valid until the next call. */
struct top_source {
	struct client *c;
	char *session;
	struct reading *before, *diff;
	double seconds;
};
bool top_open(struct top_source *src, struct client *c, const struct top_opts *o);
const struct reading *top_take(struct top_source *src);
void top_close(struct top_source *src);

/* top_screen - full screen until q; 0 or 1. */
int top_screen(struct top_source *src, struct top_opts *o);

#endif
