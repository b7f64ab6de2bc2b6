// SPDX-License-Identifier: LGPL-2.1-or-later
/* The word nearest to a mistyped one; see nearest.h. */
#include <ctype.h>
#include <stddef.h>
#include <string.h>

#include "vpmu/util/nearest.h"

/* Case-insensitive edit distance of @a and @b, limited to @cap + 1. */
static unsigned int nearest_distance(const char *a, const char *b, unsigned int cap)
{
	enum { MAX = 64 };
	size_t la = strlen(a), lb = strlen(b), i, j;
	unsigned int row[MAX + 1];

	if (la > MAX || lb > MAX || (la > lb ? la - lb : lb - la) > cap)
		return cap + 1;
	for (j = 0; j <= lb; j++)
		row[j] = (unsigned int)j;
	for (i = 1; i <= la; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i;
		for (j = 1; j <= lb; j++) {
			unsigned int same = tolower((unsigned char)a[i - 1]) ==
					    tolower((unsigned char)b[j - 1]);
			unsigned int best = diagonal + !same;

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[lb] > cap ? cap + 1 : row[lb];
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
