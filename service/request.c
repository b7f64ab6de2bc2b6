// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parses and checks requests; every command calls it first. Nothing of a request may be trusted
 * before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "service/json_memory.h"
#include "service/request.h"

#define ID_BYTES_MAX 64

static const char *type_name(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a fraction";
	case JSON_TRUE:
	case JSON_FALSE:
		return "true or false";
	case JSON_NULL:
		break;
	}
	return "null";
}

/* Nesting depth of arrays and objects. Checked before the recursive parser runs, so that it cannot
 * overflow the stack. */
static unsigned int nesting(const char *line, size_t len)
{
	unsigned int depth = 0, max = 0;
	bool string = false;

	for (size_t i = 0; i < len; i++) {
		if (string) {
			if (line[i] == '\\')
				i++;
			else if (line[i] == '"')
				string = false;
		} else if (line[i] == '"') {
			string = true;
		} else if (line[i] == '[' || line[i] == '{') {
			if (++depth > max)
				max = depth;
		} else if ((line[i] == ']' || line[i] == '}') && depth) {
			depth--;
		}
	}
	return max;
}

int request_parse(const char *line, size_t len, json_t **req, char *err, size_t errlen)
{
	const json_t *id;
	const char *cmd = NULL;
	json_error_t je;
	json_t *r;
	int ret;

	if (nesting(line, len) > REQUEST_DEPTH_MAX)
		return fail(-EINVAL, err, errlen,
			    "request: nested deeper than %d levels; expected one flat object",
			    REQUEST_DEPTH_MAX);
	r = json_memory_parse(line, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
	if (!r && json_memory_failed())
		return fail(-ENOMEM, err, errlen, "request: out of memory");
	if (!r)
		return fail(-EINVAL, err, errlen,
			    "request: byte %d: %s; expected one JSON object per line", je.position,
			    je.text);
	if (!json_is_object(r)) {
		ret = fail(-EINVAL, err, errlen,
			   "request: %s; expected an object like {\"cmd\":\"hello\"}",
			   type_name(r));
		goto fail;
	}
	ret = request_string(r, "cmd", true, 64, &cmd, err, errlen);
	if (ret)
		goto fail;
	id = json_object_get(r, "id");
	if (id && !json_is_integer(id) &&
	    !(json_is_string(id) && json_string_length(id) <= ID_BYTES_MAX)) {
		ret = fail(-EINVAL, err, errlen,
			   "id: %s; expected an integer or a string of up to %d bytes",
			   json_is_string(id) ? "a longer string" : type_name(id), ID_BYTES_MAX);
		goto fail;
	}
	*req = r;
	return 0;
fail:
	json_decref(r);
	return ret;
}

static bool request_listed(const char *key, const char *const *allowed)
{
	for (; allowed && *allowed; allowed++)
		if (strcmp(key, *allowed) == 0)
			return true;
	return strcmp(key, "cmd") == 0 || strcmp(key, "id") == 0;
}

int request_fields(const json_t *req, const char *const *allowed, char *err, size_t errlen)
{
	const char *key, *cmd = json_string_value(json_object_get(req, "cmd"));
	char list[256] = "none";
	size_t n = 0;
	json_t *v;

	json_object_foreach ((json_t *)req, key, v) {
		if (request_listed(key, allowed))
			continue;
		for (const char *const *a = allowed; a && *a && n < sizeof(list); a++)
			n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "",
					      *a);
		return fail(-EINVAL, err, errlen, "%.40s: unknown field of %s; expected %s", key,
			    cmd, list);
	}
	return 0;
}

static int request_missing(const char *key, bool required, const char *what, char *err,
			   size_t errlen)
{
	return required ? fail(-EINVAL, err, errlen, "%s: missing; expected %s", key, what) : 0;
}

int request_string(const json_t *req, const char *key, bool required, size_t max, const char **out,
		   char *err, size_t errlen)
{
	const json_t *v = json_object_get(req, key);

	if (!v)
		return request_missing(key, required, "a string", err, errlen);
	if (!json_is_string(v))
		return fail(-EINVAL, err, errlen, "%s: %s is invalid; expected a string", key,
			    type_name(v));
	if (json_string_length(v) < 1 || json_string_length(v) > max)
		return fail(-EINVAL, err, errlen, "%s: %zu bytes; expected a string of 1 to %zu",
			    key, json_string_length(v), max);
	*out = json_string_value(v);
	return 0;
}

int request_bool(const json_t *req, const char *key, bool required, bool *out, char *err,
		 size_t errlen)
{
	const json_t *v = json_object_get(req, key);

	if (!v)
		return request_missing(key, required, "true or false", err, errlen);
	if (!json_is_boolean(v))
		return fail(-EINVAL, err, errlen, "%s: %s is invalid; expected true or false", key,
			    type_name(v));
	*out = json_is_true(v);
	return 0;
}

int request_uint(const json_t *req, const char *key, bool required, uint64_t min, uint64_t max,
		 uint64_t *out, char *err, size_t errlen)
{
	const json_t *v = json_object_get(req, key);

	if (!v)
		return request_missing(key, required, "an integer", err, errlen);
	if (!json_is_integer(v))
		return fail(-EINVAL, err, errlen, "%s: %s is invalid; expected an integer", key,
			    type_name(v));
	if (json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) < min ||
	    (uint64_t)json_integer_value(v) > max)
		return fail(-EINVAL, err, errlen, "%s: %lld is invalid; expected %llu to %llu", key,
			    (long long)json_integer_value(v), (unsigned long long)min,
			    (unsigned long long)max);
	*out = (uint64_t)json_integer_value(v);
	return 0;
}

json_t *json_u64(uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	return json_string(text);
}
