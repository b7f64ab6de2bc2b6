// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>

#include "cli/stacks.h"
#include "service/program/memory.h"

/* Return the position of @name among the children, present or not. */
static size_t position(const struct frame *f, const char *name)
{
	size_t low = 0, high = f->nr;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(f->child[mid]->name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct frame *child_named(struct frame *f, const char *name)
{
	size_t at = position(f, name);
	struct frame *c;

	if (at < f->nr && strcmp(f->child[at]->name, name) == 0)
		return f->child[at];
	if (f->nr == f->cap) {
		f->cap = f->cap ? f->cap * 2 : 4;
		f->child = xreallocarray(f->child, f->cap, sizeof(*f->child));
	}
	c = xcalloc(1, sizeof(*c));
	c->name = xstrdup(name);
	memmove(&f->child[at + 1], &f->child[at], (f->nr - at) * sizeof(*f->child));
	f->child[at] = c;
	f->nr++;
	return c;
}

void stacks_add(struct frame *root, const char *const *name, size_t n, uint64_t count)
{
	struct frame *f = root;

	f->total += count;
	for (size_t i = 0; i < n; i++) {
		f = child_named(f, name[i]);
		f->total += count;
	}
	f->self += count;
}

void stacks_free(struct frame *root)
{
	for (size_t i = 0; i < root->nr; i++) {
		free(root->child[i]->name);
		stacks_free(root->child[i]);
		free(root->child[i]);
	}
	free(root->child);
	*root = (struct frame){0};
}

/* ---- folded ------------------------------------------------------------------------------- */

/* The path from the root to a frame: one link per frame. */
struct path {
	const struct path *up; /* NULL: the outermost */
	const char *name;
};

static void folded_path(const struct path *p, FILE *f)
{
	if (p->up) {
		folded_path(p->up, f);
		fputc(';', f);
	}
	for (const char *c = p->name; *c; c++)
		fputc(*c == ';' || (unsigned char)*c < 0x20 || *c == 0x7f ? '_' : *c, f);
}

static void folded_below(const struct frame *fr, const struct path *p, FILE *f)
{
	if (fr->self && p) {
		folded_path(p, f);
		fprintf(f, " %llu\n", (unsigned long long)fr->self);
	}
	for (size_t i = 0; i < fr->nr; i++) {
		const struct path next = {.up = p, .name = fr->child[i]->name};

		folded_below(fr->child[i], &next, f);
	}
}

void stacks_print_folded(const struct frame *root, FILE *f)
{
	folded_below(root, NULL, f);
}
