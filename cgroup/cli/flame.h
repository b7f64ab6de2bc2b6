/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stacks added up to a tree, and the tree as folded lines ("a;b;c 12", the input of flame graph
 * tools) or as a flame graph in SVG. Output depends on the counts alone, not on the order in which
 * they came.
 */
#ifndef CLI_FLAME_H
#define CLI_FLAME_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct frame {
	char *name;
	uint64_t self;	/* samples that end here */
	uint64_t total; /* and those that go on above */
	struct frame **child;
	size_t nr, cap; /* sorted by name */
};

/* flame_add - @count for the stack @name[0..n), outermost first, below @root (all zero at first).
 * Names are copied; 0 or -ENOMEM (then part of it may have been counted). */
int flame_add(struct frame *root, const char *const *name, size_t n, uint64_t count);
/* flame_free - everything below @root; it is empty afterwards. */
void flame_free(struct frame *root);

/* flame_folded - one line per stack, in order of names. A ';' or control character in a name
 * becomes
 * '_'. */
void flame_folded(const struct frame *root, FILE *f);

/* flame_svg - a whole SVG document. @title and @note (one line under it) may have any bytes, as
 * names may: what XML does not take is escaped or replaced by '?'. Widths are shares of all
 * samples; frames narrower than a tenth of a pixel are left out. */
void flame_svg(const struct frame *root, const char *title, const char *note, FILE *f);

#endif
