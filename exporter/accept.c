// SPDX-License-Identifier: GPL-2.0-or-later
/* Parses lists of the form "a;p=1;q=0.5, b"; see http.h. It must never write to its input or read
 * beyond its end. */
#include <string.h>
#include <strings.h>

#include "exporter/http.h"

/* A part of the text, trimmed. */
struct span {
	const char *at;
	size_t len;
};

static struct span trim(const char *at, size_t len)
{
	while (len && (*at == ' ' || *at == '\t'))
		at++, len--;
	while (len && (at[len - 1] == ' ' || at[len - 1] == '\t'))
		len--;
	return (struct span){at, len};
}

/* Return the text up to @sep or the end; *@rest is set to the part after it, NULL at the end. */
static struct span accept_next(const char **rest, const char *end, char sep)
{
	const char *at = *rest, *stop = memchr(at, sep, (size_t)(end - at));

	*rest = stop ? stop + 1 : NULL;
	return trim(at, (size_t)((stop ? stop : end) - at));
}

static bool accept_is(struct span s, const char *text)
{
	return s.len == strlen(text) && !strncasecmp(s.at, text, s.len);
}

/* Parse a weight such as "0.25" in thousandths; an invalid one is 0. */
static int weight(struct span s)
{
	int v = 0, scale = 1000;

	if (!s.len || s.len > 5 || (s.at[0] != '0' && s.at[0] != '1') ||
	    (s.len > 1 && s.at[1] != '.'))
		return 0;
	v = (s.at[0] - '0') * 1000;
	for (size_t i = 2; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return 0;
		scale /= 10;
		v += (s.at[i] - '0') * scale;
	}
	return v > 1000 ? 0 : v;
}

/* An item of a list: its name, its weight, and "version", of length 0 if absent. */
struct item {
	struct span name, version;
	int q;
};

static struct item accept_parse(struct span s)
{
	const char *rest = s.at, *end = s.at + s.len;
	struct item it = {.name = accept_next(&rest, end, ';'), .q = 1000};

	while (rest) {
		struct span p = accept_next(&rest, end, ';');
		const char *value = memchr(p.at, '=', p.len);
		size_t n = value ? (size_t)(value - p.at) : p.len;
		struct span key = trim(p.at, n);
		struct span v = value ? trim(value + 1, p.len - n - 1) : (struct span){p.at, 0};

		if (accept_is(key, "q"))
			it.q = weight(v);
		else if (accept_is(key, "version"))
			it.version = v;
	}
	return it;
}

enum expo_form accept_form(const char *accept)
{
	const char *rest = accept, *end = accept ? accept + strlen(accept) : NULL;
	int open = 0, text = 0;

	while (rest) {
		struct item it = accept_parse(accept_next(&rest, end, ','));

		if (accept_is(it.name, "application/openmetrics-text") &&
		    (!it.version.len || accept_is(it.version, "1.0.0")))
			open = it.q > open ? it.q : open;
		else if (accept_is(it.name, "text/plain") &&
			 (!it.version.len || accept_is(it.version, "0.0.4")))
			text = it.q > text ? it.q : text;
	}
	return open && open >= text ? EXPO_OPENMETRICS : EXPO_TEXT;
}

bool accept_gzip(const char *encodings)
{
	const char *rest = encodings, *end = encodings ? encodings + strlen(encodings) : NULL;
	int gzip = -1, any = 0;

	while (rest) {
		struct item it = accept_parse(accept_next(&rest, end, ','));

		if (accept_is(it.name, "gzip") || accept_is(it.name, "x-gzip"))
			gzip = it.q;
		else if (accept_is(it.name, "*"))
			any = it.q;
	}
	return gzip >= 0 ? gzip > 0 : any > 0;
}
