// SPDX-License-Identifier: GPL-2.0-or-later
/* Elided names of vpmu top; see top_view.h. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top_view.h"
#include "service/program/memory.h"

#define DOTS ".."

/* Return true if @p is in a character of UTF-8, behind its first byte. */
static bool names_inside(const char *p)
{
	return ((unsigned char)*p & 0xc0) == 0x80;
}

void names_elide(char *name, size_t indent, size_t width, int tail)
{
	size_t len = strlen(name), dots = strlen(DOTS), keep, end;

	if (len <= width)
		return;
	if (indent + dots + 2 > width)
		indent = 0;
	if (dots + 2 > width) {
		while (width && names_inside(name + width))
			width--;
		name[width] = '\0';
		return;
	}
	keep = width - indent - dots;
	end = keep * (size_t)tail / 100;
	keep -= end;
	while (keep && names_inside(name + indent + keep))
		keep--;
	while (end && names_inside(name + len - end))
		end--;
	memcpy(name + indent + keep, DOTS, dots);
	memmove(name + indent + keep + dots, name + len - end, end + 1);
}

static int names_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Return how many of the names, elided with @tail, look like another one. @text: an entry for each
 * row. */
static size_t names_same(const struct top_view *v, int tail, char **text)
{
	size_t n = 0, same = 0;
	char name[NAME_LEN];

	for (size_t i = 0; i < v->nr_rows; i++) {
		size_t indent = view_name(v, v->order[i], name);

		if (strlen(name) <= (size_t)v->name_width)
			continue;
		names_elide(name, indent, (size_t)v->name_width, tail);
		text[n++] = xstrdup(name);
	}
	if (n > 1)
		qsort(text, n, sizeof(*text), names_compare);
	for (size_t i = 1; i < n; i++)
		same += !strcmp(text[i - 1], text[i]);
	while (n)
		free(text[--n]);
	return same;
}

void names_choose(struct top_view *v)
{
	static const int tails[] = {50, 75, 25, 100, 0};
	char **text = xcalloc(v->nr_rows + 1, sizeof(*text));
	size_t least = SIZE_MAX;

	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]) && least; i++) {
		size_t same = names_same(v, tails[i], text);

		if (same < least) {
			least = same;
			v->tail = tails[i];
		}
	}
	free(text);
}
