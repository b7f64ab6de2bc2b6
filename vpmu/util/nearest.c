// SPDX-License-Identifier: LGPL-2.1-or-later
/* The word nearest to a mistyped one; see nearest.h. */
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "vpmu/util/nearest.h"

static bool nearest_same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Case-insensitive edit distance of @a and @b, limited to @cap + 1. Two letters in the wrong order
 * are one edit. */
static unsigned int nearest_distance(const char *a, const char *b, unsigned int cap)
{
	enum { MAX = 64 };
	size_t la = strlen(a), lb = strlen(b), i, j;
	unsigned int rows[3][MAX + 1]; /* row i is in i % 3 */

	if (la > MAX || lb > MAX || (la > lb ? la - lb : lb - la) > cap)
		return cap + 1;
	for (j = 0; j <= lb; j++)
		rows[0][j] = (unsigned int)j;
	for (i = 1; i <= la; i++) {
		unsigned int *row = rows[i % 3], *above = rows[(i - 1) % 3];

		row[0] = (unsigned int)i;
		for (j = 1; j <= lb; j++) {
			unsigned int best = above[j - 1] + !nearest_same(a[i - 1], b[j - 1]);

			if (above[j] + 1 < best)
				best = above[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			if (i > 1 && j > 1 && nearest_same(a[i - 1], b[j - 2]) &&
			    nearest_same(a[i - 2], b[j - 1]) && rows[(i - 2) % 3][j - 2] + 1 < best)
				best = rows[(i - 2) % 3][j - 2] + 1;
			row[j] = best;
		}
	}
	return rows[la % 3][lb] > cap ? cap + 1 : rows[la % 3][lb];
}

void vpmu_nearest_init(struct vpmu_nearest *n, const char *word)
{
	n->word = word;
	n->best = NULL;
	/* Suggest only if no more than a third of the word differs. */
	n->distance = (unsigned int)strlen(word) / 3 + 1;
}

void vpmu_nearest_try(struct vpmu_nearest *n, const char *candidate)
{
	unsigned int d;

	if (!n->distance || !candidate)
		return;
	d = nearest_distance(n->word, candidate, n->distance - 1);
	if (d < n->distance) {
		n->distance = d;
		n->best = candidate;
	}
}
