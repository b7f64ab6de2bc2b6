/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON written as text, for answers that would need very many jansson objects, such as a reading of
 * 10,000 tenants. The caller writes commas and brackets; jansson quotes strings. Running out of
 * memory is sticky: the text is valid only if json_text_ok.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0 is an empty text. */
struct json_text {
	char *text; /* @len bytes and a NUL; NULL: empty */
	size_t len, room;
	bool failed;
};

/* Append @text as it is; a number in decimal; @text as a JSON string. */
void json_text_add(struct json_text *t, const char *text);
void json_text_number(struct json_text *t, uint64_t n);
void json_text_string(struct json_text *t, const char *text);
/* The same behind @before, which is appended as it is: a comma, a key. */
void json_text_count(struct json_text *t, const char *before, uint64_t n);
void json_text_field(struct json_text *t, const char *before, const char *text);

static inline bool json_text_ok(const struct json_text *t)
{
	return t->text && !t->failed;
}

/* json_text_free - free the text; @t is empty again. */
void json_text_free(struct json_text *t);
