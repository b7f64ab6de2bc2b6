/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Answers of the control socket, for beds that have ask(). */
#ifndef TESTS_UNIT_ANSWERS_H
#define TESTS_UNIT_ANSWERS_H

#include <criterion/criterion.h>
#include <jansson.h>

static inline json_t *ask(const char *line);

/* Ask for something that must work. */
static inline json_t *must(const char *line)
{
	json_t *obj = ask(line);

	cr_assert(json_is_true(json_object_get(obj, "ok")), "%s: %s", line,
		  json_string_value(json_object_get(obj, "error")));
	return obj;
}

static inline const char *str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "(none)";
}

#endif
