/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The marks after the values of vpmu top that are not plain counts. Used by top_view.c and its
 * callers. */
#ifndef CLI_TOP_MARKS_H
#define CLI_TOP_MARKS_H

#include "cli/reading.h"

/* marks_of - return the marks of @v as a set of bits. */
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

#endif
