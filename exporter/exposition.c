// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes Prometheus' exposition formats, as specified in "Exposition formats" of Prometheus and in
 * OpenMetrics 1.0; see exposition.h. metrics.c, metric_rows.c and http.c call it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/exposition.h"
#include "vpmu/util/utf8.h"

#define US  1000000
#define NUM 32 /* bytes of a number */

static void exposition_put(struct expo *e, const char *bytes, size_t len)
{
	size_t room = e->room ? e->room : 65536;
	char *more;

	if (e->failed)
		return;
	while (room - e->len < len)
		room *= 2;
	if (room != e->room) {
		more = room <= EXPO_MAX ? realloc(e->text, room) : NULL;
		if (!more) {
			e->failed = true;
			return;
		}
		e->text = more;
		e->room = room;
	}
	memcpy(e->text + e->len, bytes, len);
	e->len += len;
}

static void puts_(struct expo *e, const char *s)
{
	exposition_put(e, s, strlen(s));
}

/* Write @v in at least @width digits before @end; returns the first. */
static char *exposition_digits(char *end, uint64_t v, int width)
{
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (--width > 0 || v);
	return end;
}

static const char *suffix(enum expo_type type)
{
	return type == EXPO_COUNTER ? "_total" : type == EXPO_INFO ? "_info" : "";
}

static void meta(struct expo *e, const char *what, const char *value)
{
	puts_(e, "# ");
	puts_(e, what);
	puts_(e, e->name);
	/* The text format names a counter's family like its sample. */
	if (e->form == EXPO_TEXT)
		puts_(e, suffix(e->type));
	puts_(e, " ");
	puts_(e, value);
	puts_(e, "\n");
}

void expo_family(struct expo *e, const char *name, enum expo_type type, const char *unit,
		 const char *help)
{
	static const char *const types[] = {"counter", "gauge", "info"};

	e->name = name;
	e->type = type;
	meta(e, "HELP ", help);
	meta(e, "TYPE ", type == EXPO_INFO && e->form == EXPO_TEXT ? "gauge" : types[type]);
	if (unit && e->form == EXPO_OPENMETRICS)
		meta(e, "UNIT ", unit);
}

bool expo_label(char *buf, size_t len, size_t *used, const char *name, const char *value)
{
	size_t at = *used, n = strlen(name);

	/* A comma, the name, =", the value, ", NUL. */
	if (at + n + 5 > len)
		return false;
	if (at)
		buf[at++] = ',';
	memcpy(buf + at, name, n);
	at += n;
	buf[at++] = '=';
	buf[at++] = '"';
	while (*value) {
		size_t size = utf8_shown(value, strnlen(value, 4));
		bool escape = *value == '"' || *value == '\\';

		if (at + (size ? size : 1) + escape + 2 > len)
			goto full;
		if (!size) {
			buf[at++] = '?';
			value++;
			continue;
		}
		if (escape) {
			buf[at++] = '\\';
			buf[at++] = *value;
			value++;
			continue;
		}
		memcpy(buf + at, value, size);
		at += size;
		value += size;
	}
	buf[at++] = '"';
	buf[at] = '\0';
	*used = at;
	return true;
full:
	buf[*used] = '\0';
	return false;
}

static void exposition_sample(struct expo *e, const char *what, const char *labels,
			      const char *value, size_t len)
{
	puts_(e, e->name);
	puts_(e, what);
	if (*labels) {
		exposition_put(e, "{", 1);
		puts_(e, labels);
		exposition_put(e, "} ", 2);
	} else {
		exposition_put(e, " ", 1);
	}
	exposition_put(e, value, len);
	exposition_put(e, "\n", 1);
}

/* Write @v / @scale with @places decimals. */
static void decimal(struct expo *e, const char *what, const char *labels, uint64_t v,
		    uint64_t scale, int places)
{
	char num[NUM], *end = num + sizeof(num), *at = exposition_digits(end, v % scale, places);

	*--at = '.';
	at = exposition_digits(at, v / scale, 1);
	exposition_sample(e, what, labels, at, (size_t)(end - at));
}

static void created(struct expo *e, const char *labels, uint64_t since_us)
{
	if (e->type == EXPO_COUNTER && since_us && e->created && e->form == EXPO_OPENMETRICS)
		decimal(e, "_created", labels, since_us, US, 6);
}

void expo_u64(struct expo *e, const char *labels, uint64_t v, uint64_t since_us)
{
	char num[NUM], *end = num + sizeof(num), *at = exposition_digits(end, v, 1);

	exposition_sample(e, suffix(e->type), labels, at, (size_t)(end - at));
	created(e, labels, since_us);
}

void expo_ns(struct expo *e, const char *labels, uint64_t ns, uint64_t since_us)
{
	decimal(e, suffix(e->type), labels, ns / 1000, US, 6);
	created(e, labels, since_us);
}

int expo_end(struct expo *e)
{
	if (e->form == EXPO_OPENMETRICS)
		puts_(e, "# EOF\n");
	return e->failed ? -ENOMEM : 0;
}

void expo_fini(struct expo *e)
{
	free(e->text);
	e->text = NULL;
	e->len = e->room = 0;
}

const char *expo_content_type(enum expo_form form)
{
	if (form == EXPO_JSON)
		return "application/json";
	return form == EXPO_OPENMETRICS
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}
