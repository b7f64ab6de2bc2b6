// SPDX-License-Identifier: GPL-2.0-or-later
/* Queries the server and parses its answers; see answer.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/answer.h"
#include "service/connection.h"
#include "service/daemon/keys.h"
#include "service/program/memory.h"
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

int answer_ask(void *connection, json_t *req, json_t **resp, char *err, size_t errlen)
{
	struct connection *c = connection;
	const char *why;
	json_int_t number;
	char *line;
	int ret;

	*resp = NULL;
	line = json_dumps(req, JSON_COMPACT);
	json_decref(req);
	ret = connection_send(c, line);
	free(line);
	/* A server that closed the connection may have sent the reason. */
	if (!ret || ret == -EPIPE) {
		do {
			json_decref(*resp);
			ret = connection_receive(c, NULL, resp);
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
	     text(*resp, "error", &why) ? why : "its answer does not follow vpmu's protocol");
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

static bool value(const json_t *o, struct answer_value *v)
{
	*v = (struct answer_value){.supported = json_is_true(json_object_get(o, "supported"))};
	answer_u64(o, "age-ns", &v->age_ns);
	return text(o, "quality", &v->quality) && answer_u64(o, "count", &v->count) &&
	       answer_u64(o, "enabled-ns", &v->enabled_ns) &&
	       answer_u64(o, "running-ns", &v->running_ns);
}

static bool row(const json_t *o, size_t nr_events, struct answer_row *r)
{
	const json_t *values = json_object_get(o, "values");
	const char *kind;

	text(o, "vm", &r->vm);
	text(o, "error", &r->error);
	answer_u64(o, "late-ns", &r->late_ns);
	r->gone = json_is_true(json_object_get(o, "gone"));
	if (!answer_u64(o, "row", &r->id) || !answer_u64(o, "since-us", &r->since_us) ||
	    !text(o, "backend", &r->backend) || !text(o, "path", &r->path) ||
	    !text(o, "kind", &kind) || json_array_size(values) != nr_events)
		return false;
	r->root = !strcmp(kind, "root");
	for (size_t i = 0; i < nr_events; i++)
		if (!value(json_array_get(values, i), &r->values[i]))
			return false;
	return true;
}

int answer_rows(const json_t *read, size_t nr_events, struct answer_row **out, size_t *nr)
{
	const json_t *rows = json_object_get(read, "rows");
	size_t n = json_array_size(rows);
	struct answer_value *values;
	struct answer_row *r;

	*out = NULL;
	*nr = 0;
	if (!json_is_array(rows))
		return -EPROTO;
	r = xcalloc(n, sizeof(*r) + nr_events * sizeof(*values));
	values = (struct answer_value *)(r + n);
	for (size_t i = 0; i < n; i++) {
		r[i].values = values + i * nr_events;
		if (!row(json_array_get(rows, i), nr_events, &r[i])) {
			free(r);
			return -EPROTO;
		}
	}
	*out = r;
	*nr = n;
	return 0;
}
