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

/* marks_legend - explain the marks of @set, "" if there are none. */
#define MARKS_LEGEND 128
void marks_legend(unsigned int set, char legend[MARKS_LEGEND]);

#endif
