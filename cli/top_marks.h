/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The marks behind the values of vpmu top, which say that a value is not a plain count. Used by
 * top_view.c and by whoever prints what it lays out. */
#ifndef CLI_TOP_MARKS_H
#define CLI_TOP_MARKS_H

#include "cli/reading.h"

/* marks_of - the marks of @v as a set of bits. */
unsigned int marks_of(const struct val *v);

/* marks_spell - the marks of @set behind each other, "" if there are none. Returns @buf. */
#define MARKS_LEN 8
const char *marks_spell(unsigned int set, char buf[MARKS_LEN]);

/* marks_legend - what the marks of @set mean, "" if there are none. */
#define MARKS_LEGEND 128
void marks_legend(unsigned int set, char legend[MARKS_LEGEND]);

#endif
