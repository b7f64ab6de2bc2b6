// SPDX-License-Identifier: GPL-2.0-or-later
/* JSON as text, see json_text.h. The commands write it; server.c makes the answer's line of it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "service/json_text.h"

static int json_text_append(const char *bytes, size_t len, void *arg)
{
	struct json_text *t = arg;
	size_t room = t->room ? t->room : 4096;
	char *more;

	if (t->failed)
		return -1;
	while (room - t->len < len + 1)
		room *= 2;
	if (room != t->room) {
		more = realloc(t->text, room);
		if (!more) {
			t->failed = true;
			return -1;
		}
		t->text = more;
		t->room = room;
	}
	memcpy(t->text + t->len, bytes, len);
	t->len += len;
	t->text[t->len] = '\0';
	return 0;
}

void json_text_add(struct json_text *t, const char *text)
{
	json_text_append(text, strlen(text), t);
}

void json_text_number(struct json_text *t, uint64_t n)
{
	char digits[20], *at = digits + sizeof(digits);

	do {
		*--at = (char)('0' + n % 10);
	} while (n /= 10);
	json_text_append(at, (size_t)(digits + sizeof(digits) - at), t);
}

/* The number of bytes at the start of @text that a JSON string has as they are. */
static size_t json_text_plain(const char *text)
{
	size_t n = 0;

	while (text[n] >= ' ' && text[n] <= '~' && text[n] != '"' && text[n] != '\\')
		n++;
	return n;
}

void json_text_string(struct json_text *t, const char *text)
{
	size_t plain = json_text_plain(text);
	json_t *s;

	/* Nearly all: names and paths. */
	if (!text[plain]) {
		json_text_append("\"", 1, t);
		json_text_append(text, plain, t);
		json_text_append("\"", 1, t);
		return;
	}
	s = json_string(text);
	if (!s || json_dump_callback(s, json_text_append, t, JSON_ENCODE_ANY | JSON_COMPACT))
		t->failed = true;
	json_decref(s);
}

void json_text_count(struct json_text *t, const char *before, uint64_t n)
{
	json_text_add(t, before);
	json_text_number(t, n);
}

void json_text_field(struct json_text *t, const char *before, const char *text)
{
	json_text_add(t, before);
	json_text_string(t, text);
}

void json_text_free(struct json_text *t)
{
	free(t->text);
	*t = (struct json_text){0};
}
