/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Merges call stacks with counts into a tree. `vpmu profile` and `vpmu lbr` print it as folded
 * stacks, one line "outermost;...;innermost COUNT" per stack, for flamegraph.pl, speedscope and
 * similar tools. The output depends only on the counts, not on the order of additions.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A function at one place of the tree. The root has no name. */
struct frame {
	char *name;
	uint64_t self;	      /* samples with this innermost frame */
	uint64_t total;	      /* self, and the samples of all frames below */
	struct frame **child; /* the functions called from here, sorted by name */
	size_t nr, cap;
};

/*
 * stacks_add - add @count samples of the stack @name[0..n), outermost frame first, to the tree
 * @root. A zeroed struct is an empty tree. The names are copied.
 */
void stacks_add(struct frame *root, const char *const *name, size_t n, uint64_t count);

/* stacks_free - free everything below @root. The tree is empty afterwards. */
void stacks_free(struct frame *root);

/*
 * stacks_print_folded - print one line per stack, sorted by name. A ';' or a control character in a
 * name is printed as '_', so that a name never creates a frame or a line.
 */
void stacks_print_folded(const struct frame *root, FILE *f);
