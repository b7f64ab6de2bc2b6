// SPDX-License-Identifier: GPL-2.0-or-later
/* Queries the server and parses its answers; see answer.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/answer.h"
#include "exporter/scan.h"
#include "service/connection.h"
#include "service/daemon/keys.h"
#include "vpmu/util/fail.h"

static bool text(const json_t *o, const char *key, const char **out)
{
	*out = json_string_value(json_object_get(o, key));
	return *out != NULL;
}

/* A server that shuts down sends lines that answer no request. */
static bool is_farewell(const json_t *resp)
{
	const char *id;

	return text(resp, "id", &id) && !strcmp(id, "end");
}

/* The array "rows" of the object @line, if it is one. */
static bool answer_find_rows(char *line, char **from, char **to)
{
	bool first = true, found = false;

	if (!scan_char(&line, '{'))
		return false;
	while (scan_next(&line, '}', &first) > 0) {
		bool rows;
		char *value;

		scan_blanks(&line);
		rows = !strncmp(line, "\"rows\"", 6);
		if (!scan_skip(&line) || !scan_char(&line, ':'))
			break;
		scan_blanks(&line);
		value = line;
		if (!scan_skip(&line))
			break;
		if (rows && *value == '[') {
			*from = value;
			*to = line;
			found = true;
		}
	}
	return found;
}

json_t *answer_parse(char *line, size_t len)
{
	json_t *resp, *rows = NULL;
	char *from, *to;

	if (strlen(line) == len && answer_find_rows(line, &from, &to)) {
		rows = json_stringn_nocheck(from, (size_t)(to - from));
		if (!rows)
			return NULL;
		memcpy(from, "[]", 2);
		memmove(from + 2, to, (size_t)(line + len - to));
		len -= (size_t)(to - from) - 2;
	}
	resp = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(resp) && (!rows || !json_object_set(resp, "rows", rows))) {
		json_decref(rows);
		return resp;
	}
	json_decref(rows);
	json_decref(resp);
	return NULL;
}

int answer_ask(void *connection, json_t *req, json_t **resp, char *err, size_t errlen)
{
	struct connection *c = connection;
	const char *why;
	json_int_t number;
	char *line;
	size_t len;
	int ret;

	*resp = NULL;
	line = req ? json_dumps(req, JSON_COMPACT) : NULL;
	json_decref(req);
	if (!line)
		return fail(-ENOMEM, err, errlen, "out of memory");
	ret = connection_send(c, line);
	free(line);
	/* A server that closed the connection may have sent the reason. */
	if (!ret || ret == -EPIPE) {
		do {
			json_decref(*resp);
			ret = connection_receive_line(c, NULL, &line, &len);
			*resp = ret ? NULL : answer_parse(line, len);
		} while (!ret && is_farewell(*resp));
	}
	if (ret)
		return fail(ret, err, errlen, "the server: %s",
			    ret == -EAGAIN  ? "it does not answer"
			    : ret == -EPIPE ? "it closed the connection"
					    : strerror(-ret));
	if (json_is_true(json_object_get(*resp, "ok")))
		return 0;
	number = json_integer_value(json_object_get(*resp, "errno"));
	ret = number > 0 && number < 4096 ? -(int)number : -EPROTO;
	fail(ret, err, errlen, "the server: %.200s",
	     text(*resp, "error", &why) ? why : "what it says does not follow vpmu's protocol");
	json_decref(*resp);
	*resp = NULL;
	return ret;
}

bool answer_u64(const json_t *o, const char *key, uint64_t *v)
{
	const json_t *f = json_object_get(o, key);

	if (json_is_integer(f) && json_integer_value(f) >= 0) {
		*v = (uint64_t)json_integer_value(f);
		return true;
	}
	return json_is_string(f) && !config_parse_u64(json_string_value(f), v);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static bool answer_value(char **p, struct answer_value *v)
{
	bool first = true, count = false, enabled = false, running = false, ok = scan_char(p, '{');
	char *key;
	int more = -1;

	while (ok && (more = scan_member(p, &first, &key)) > 0) {
		if (!strcmp(key, "count"))
			ok = count = scan_u64(p, &v->count);
		else if (!strcmp(key, "enabled-ns"))
			ok = enabled = scan_u64(p, &v->enabled_ns);
		else if (!strcmp(key, "running-ns"))
			ok = running = scan_u64(p, &v->running_ns);
		else if (!strcmp(key, "supported"))
			ok = scan_bool(p, &v->supported);
		else if (!strcmp(key, "quality"))
			ok = scan_string(p, (char **)&v->quality);
		else if (!strcmp(key, "age-ns"))
			ok = scan_u64(p, &v->age_ns);
		else
			ok = scan_skip(p);
	}
	return ok && !more && count && enabled && running && v->quality;
}

static bool answer_values(char **p, struct answer_value *values, size_t nr)
{
	bool first = true;
	size_t n = 0;
	int more;

	if (!scan_char(p, '['))
		return false;
	while ((more = scan_next(p, ']', &first)) > 0)
		if (n == nr || !answer_value(p, &values[n++]))
			return false;
	return !more && n == nr;
}

static bool answer_row(char **p, size_t nr_events, struct answer_row *r)
{
	bool first = true, id = false, since = false, values = false, ok = scan_char(p, '{');
	char *key, *kind = NULL;
	int more = -1;

	while (ok && (more = scan_member(p, &first, &key)) > 0) {
		if (!strcmp(key, "row"))
			ok = id = scan_u64(p, &r->id);
		else if (!strcmp(key, "since-us"))
			ok = since = scan_u64(p, &r->since_us);
		else if (!strcmp(key, "backend"))
			ok = scan_string(p, (char **)&r->backend);
		else if (!strcmp(key, "path"))
			ok = scan_string(p, (char **)&r->path);
		else if (!strcmp(key, "kind"))
			ok = scan_string(p, &kind);
		else if (!strcmp(key, "vm"))
			ok = scan_string(p, (char **)&r->vm);
		else if (!strcmp(key, "error"))
			ok = scan_string(p, (char **)&r->error);
		else if (!strcmp(key, "gone"))
			ok = scan_bool(p, &r->gone);
		else if (!strcmp(key, "values"))
			ok = values = !values && answer_values(p, r->values, nr_events);
		else
			ok = scan_skip(p);
	}
	r->root = kind && !strcmp(kind, "root");
	return ok && !more && id && since && values && r->backend && r->path && kind;
}

int answer_rows(const json_t *read, size_t nr_events, struct answer_row **out, size_t *nr)
{
	const json_t *rows = json_object_get(read, "rows");
	size_t len = json_string_length(rows), n = 0;
	/* No row is shorter: its names alone have more bytes. */
	size_t max = len / (40 + 40 * nr_events), bytes;
	struct answer_value *values;
	struct answer_row *r;
	bool first = true;
	int more = -1;
	char *p;

	*out = NULL;
	*nr = 0;
	if (!json_is_string(rows))
		return -EPROTO;
	bytes = max * (sizeof(*r) + nr_events * sizeof(*values));
	r = calloc(1, bytes + len + 1);
	if (!r)
		return -ENOMEM;
	values = (struct answer_value *)(r + max);
	p = (char *)r + bytes;
	memcpy(p, json_string_value(rows), len);
	if (scan_char(&p, '['))
		while ((more = scan_next(&p, ']', &first)) > 0) {
			if (n == max)
				break;
			r[n].values = values + n * nr_events;
			if (!answer_row(&p, nr_events, &r[n++]))
				break;
		}
	if (more) {
		free(r);
		return -EPROTO;
	}
	*out = r;
	*nr = n;
	return 0;
}
