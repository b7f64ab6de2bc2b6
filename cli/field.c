// SPDX-License-Identifier: GPL-2.0-or-later
/* Checked access to the fields of a server's answer; see field.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/error.h"
#include "cli/field.h"

bool fields_ok(const struct fields *f)
{
	if (f->wrong)
		cli_error("the server's answer does not follow vpmu's protocol: \"%s\" is missing "
			  "or wrong",
			  f->wrong);
	return !f->wrong;
}

void field_wrong(struct fields *f, const char *key)
{
	if (!f->wrong)
		f->wrong = key;
}

const char *field_string_or(struct fields *f, const json_t *obj, const char *key,
			    const char *missing)
{
	const json_t *v = json_object_get(obj, key);

	if (!v)
		return missing;
	if (json_is_string(v))
		return json_string_value(v);
	field_wrong(f, key);
	return "";
}

const char *field_string(struct fields *f, const json_t *obj, const char *key)
{
	const char *text = field_string_or(f, obj, key, NULL);

	if (!text)
		field_wrong(f, key);
	return text ? text : "";
}

/* Parse all of @text as a 64-bit number of base @base, without sign or blanks. Returns true on
 * success. */
static bool field_parse(const char *text, int base, uint64_t *out)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	char *end;

	if (!*text || !strchr(digits, *text))
		return false;
	errno = 0;
	*out = strtoull(text, &end, base);
	return !*end && !errno;
}

uint64_t field_u64_or(struct fields *f, const json_t *obj, const char *key, uint64_t missing)
{
	const char *text = field_string_or(f, obj, key, NULL);
	uint64_t v;

	if (!text)
		return missing;
	if (field_parse(text, 10, &v))
		return v;
	field_wrong(f, key);
	return 0;
}

uint64_t field_u64(struct fields *f, const json_t *obj, const char *key)
{
	if (!json_object_get(obj, key))
		field_wrong(f, key);
	return field_u64_or(f, obj, key, 0);
}

unsigned int field_int(struct fields *f, const json_t *obj, const char *key, unsigned int max)
{
	const json_t *v = json_object_get(obj, key);
	json_int_t n = json_integer_value(v);

	if (json_is_integer(v) && n >= 0 && n <= (json_int_t)max)
		return (unsigned int)n;
	field_wrong(f, key);
	return 0;
}

bool field_bool_or(struct fields *f, const json_t *obj, const char *key, bool missing)
{
	const json_t *v = json_object_get(obj, key);

	if (!v)
		return missing;
	if (!json_is_boolean(v))
		field_wrong(f, key);
	return json_is_true(v);
}

bool field_bool(struct fields *f, const json_t *obj, const char *key)
{
	if (!json_object_get(obj, key))
		field_wrong(f, key);
	return field_bool_or(f, obj, key, false);
}

const json_t *field_array(struct fields *f, const json_t *obj, const char *key)
{
	const json_t *v = json_object_get(obj, key);

	if (json_is_array(v))
		return v;
	field_wrong(f, key);
	return NULL;
}

bool field_address(struct fields *f, const json_t *value, const char *key, uint64_t *address)
{
	const char *text = json_string_value(value);

	if (json_is_null(value))
		return false;
	if (text && strncmp(text, "0x", 2) == 0 && field_parse(text + 2, 16, address))
		return true;
	field_wrong(f, key);
	return false;
}
