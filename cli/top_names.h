/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Elides long names of vpmu top so that they stay distinguishable: the middle is left out where
 * that is enough, else another part. Used by top_view.c and top_line.c. */
#ifndef CLI_TOP_NAMES_H
#define CLI_TOP_NAMES_H

#include <stddef.h>

struct top_view;

/* names_elide - shorten @name, of which the first @indent bytes stay, in place to @width bytes.
 * @tail: percent of what is left of it that is its end. No character of UTF-8 is cut. */
void names_elide(char *name, size_t indent, size_t width, int tail);

/* names_choose - set v->tail so that as few names of the rows as possible look the same. */
void names_choose(struct top_view *v);

#endif
