// SPDX-License-Identifier: GPL-2.0-or-later
/* The text of `vpmu check`; see check.h. host.c calls it. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/check.h"

#define NAMES_MAX 240 /* bytes of the names of folded rows, and of those in the verdict */

static const char *check_text(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "";
}

static bool check_is_ok(const json_t *row)
{
	return json_is_true(json_object_get(row, "ok"));
}

void check_view_split(json_t *rows, json_t *design)
{
	size_t i = 0;

	while (i < json_array_size(rows)) {
		json_t *row = json_array_get(rows, i);

		if (check_is_ok(row) ||
		    !remedy_by_design(check_text(row, "what"), check_text(row, "why"))) {
			i++;
			continue;
		}
		json_array_append(design, row);
		json_array_remove(rows, i);
	}
}

/* Bytes of "KVM: ", with which vpmu-vmm marks the rows of a backend; 0: none. */
static size_t check_prefix(const char *what)
{
	const char *end = strstr(what, ": ");

	return end ? (size_t)(end - what) + 2 : 0;
}

static bool check_one_cause(const json_t *a, const json_t *b)
{
	const char *x = check_text(a, "what"), *y = check_text(b, "what");
	size_t n = check_prefix(x);

	return check_is_ok(a) == check_is_ok(b) && n == check_prefix(y) && !strncmp(x, y, n) &&
	       !strcmp(check_text(a, "why"), check_text(b, "why")) &&
	       !strcmp(check_text(a, "backend"), check_text(b, "backend"));
}

/* Append @name to the list of *@len bytes in @list, or "..." once it is full. */
static void check_list(char list[NAMES_MAX + 8], size_t *len, const char *name)
{
	size_t n = strlen(name);

	if (*len > NAMES_MAX)
		return;
	if (*len + n + 2 > NAMES_MAX) {
		strcpy(list + *len, *len ? ", ..." : "...");
		*len = NAMES_MAX + 1;
		return;
	}
	*len += (size_t)sprintf(list + *len, "%s%s", *len ? ", " : "", name);
}

/* Return the row for @rows[first] and all later ones of its cause, which are marked in @taken. */
static json_t *check_fold_one(const json_t *rows, size_t first, json_t *taken)
{
	json_t *row = json_array_get(rows, first), *other, *one;
	const char *what = check_text(row, "what"), *why = check_text(row, "why");
	char list[NAMES_MAX + 8] = "";
	size_t len = 0, more = 0;

	for (size_t i = first + 1; i < json_array_size(rows); i++) {
		other = json_array_get(rows, i);
		if (!check_one_cause(row, other))
			continue;
		check_list(list, &len, check_text(other, "what") + check_prefix(what));
		json_array_set_new(taken, i, json_true());
		more++;
	}
	one = json_copy(row);
	if (!more)
		return one;
	json_object_set_new(one, "what", json_sprintf("%s and %zu more", what, more));
	json_object_set_new(one, "why", json_sprintf("%s%salso %s", why, *why ? "; " : "", list));
	return one;
}

json_t *check_view_fold(const json_t *rows)
{
	json_t *folded = json_array(), *taken = json_array();
	size_t n = json_array_size(rows);

	for (size_t i = 0; i < n; i++)
		json_array_append_new(taken, json_false());
	for (size_t i = 0; i < n; i++)
		if (!json_is_true(json_array_get(taken, i)))
			json_array_append_new(folded, check_fold_one(rows, i, taken));
	json_decref(taken);
	return folded;
}

void check_view_verdict(const json_t *rows, const json_t *holders)
{
	const json_t *const of[2] = {rows, holders};
	char list[NAMES_MAX + 8] = "";
	size_t len = 0, problems = 0, i;
	const json_t *row;

	for (int k = 0; k < 2; k++)
		json_array_foreach (of[k], i, row) {
			if (check_is_ok(row))
				continue;
			check_list(list, &len, check_text(row, "what"));
			problems++;
		}
	if (problems)
		printf("%zu problem%s: %s\n\n", problems, problems == 1 ? "" : "s", list);
	else
		puts("no problem found\n");
}
