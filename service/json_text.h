/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON that is written as text, for answers that would be very many objects of jansson: a reading
 * of 10,000 tenants. The caller puts the commas and brackets; strings are quoted by jansson. A
 * json_text that has run out of memory stays so: only json_text_ok makes the text valid.
 */
#ifndef SERVICE_JSON_TEXT_H
#define SERVICE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0 is an empty text. */
struct json_text {
	char *text; /* @len bytes, and a NUL behind them; NULL: nothing yet */
	size_t len, room;
	bool failed;
};

/* Append @text as it is; a number in decimal; @text as a JSON string. */
void json_text_add(struct json_text *t, const char *text);
void json_text_number(struct json_text *t, uint64_t n);
void json_text_string(struct json_text *t, const char *text);

static inline bool json_text_ok(const struct json_text *t)
{
	return t->text && !t->failed;
}

/* json_text_free - the text; @t is empty again. */
void json_text_free(struct json_text *t);

#endif
