// SPDX-License-Identifier: GPL-2.0-or-later
/* The marks of vpmu top: see top_view.h. */
#include <stdio.h>
#include <string.h>

#include "cli/top_view.h"

/* Properties of a value and their marks. A value can have several. */
static const struct {
	char mark;
	const char *word; /* of the quality; NULL: scaled up */
	const char *text;
	enum top_paint paint;
} marks[] = {
	{'~', "modelled", "modelled", PAINT_MODEL},
	{'?', "estimated", "estimated or tsc", PAINT_WARN},
	{'?', "tsc", "estimated or tsc", PAINT_WARN},
	{'!', "partial", "partial", PAINT_BAD},
	{'@', "aged", "aged", PAINT_BAD},
	{'<', "late", "late", PAINT_WARN},
	{'*', NULL, "scaled up", PAINT_WARN},
};
#define NR_MARKS (sizeof(marks) / sizeof(marks[0]))

_Static_assert(NR_MARKS < MARKS_LEN, "room for all marks");

unsigned int marks_of(const struct val *v)
{
	unsigned int set = 0;

	for (size_t i = 0; i < NR_MARKS; i++)
		if (marks[i].word ? val_has(v, marks[i].word) : val_is_scaled(v))
			set |= 1u << i;
	return set;
}

const char *marks_spell(unsigned int set, char buf[MARKS_LEN])
{
	size_t n = 0;

	for (size_t i = 0; i < NR_MARKS; i++)
		if ((set & 1u << i) && !(n && buf[n - 1] == marks[i].mark))
			buf[n++] = marks[i].mark;
	buf[n] = '\0';
	return buf;
}

enum top_paint marks_paint(unsigned int set)
{
	enum top_paint worst = PAINT_PLAIN;

	for (size_t i = 0; i < NR_MARKS; i++)
		if ((set & 1u << i) && marks[i].paint > worst)
			worst = marks[i].paint;
	return worst;
}

void marks_legend(unsigned int set, char legend[MARKS_LEGEND])
{
	size_t n = 0;

	legend[0] = '\0';
	for (size_t i = 0; i < NR_MARKS; i++) {
		if (!(set & 1u << i) || (n && strstr(legend, marks[i].text)))
			continue;
		n += (size_t)snprintf(legend + n, MARKS_LEGEND - n, "  %c %s", marks[i].mark,
				      marks[i].text);
	}
}
