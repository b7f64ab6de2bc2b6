// SPDX-License-Identifier: GPL-2.0-or-later
/* Sets keys by a table; see keys.h. Values come from files and clients and are hostile. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/daemon/keys.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/utf8.h"

/* ---- values ---- */

int config_parse_u64(const char *s, uint64_t *v)
{
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	*v = strtoull(s, &end, 10);
	return errno || *end ? -EINVAL : 0;
}

int config_set_u64(const struct config_key *k, void *field, const char *value, char *why)
{
	uint64_t v;

	if (config_parse_u64(value, &v) || v < k->min || v > k->max)
		return -EINVAL;
	*(uint64_t *)field = v;
	return 0;
}

int config_set_uint(const struct config_key *k, void *field, const char *value, char *why)
{
	uint64_t v;

	if (config_set_u64(k, &v, value, why))
		return -EINVAL;
	*(unsigned int *)field = (unsigned int)v;
	return 0;
}

int config_set_bool(const struct config_key *k, void *field, const char *value, char *why)
{
	static const char *const yes[] = {"yes", "on", "true", "1"};
	static const char *const no[] = {"no", "off", "false", "0"};

	for (size_t i = 0; i < 4; i++) {
		if (!strcmp(value, yes[i]) || !strcmp(value, no[i])) {
			*(bool *)field = !strcmp(value, yes[i]);
			return 0;
		}
	}
	return -EINVAL;
}

int config_set_bytes(const struct config_key *k, void *field, const char *value, char *why)
{
	size_t len = strlen(value);
	char *copy;

	if (len < k->min || len > k->max)
		return -EINVAL;
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(*(char **)field);
	*(char **)field = copy;
	return 0;
}

int config_set_text(const struct config_key *k, void *field, const char *value, char *why)
{
	if (utf8_text(value))
		return config_set_bytes(k, field, value, why);
	strcpy(why, "it has bytes that are not UTF-8, or control characters");
	return -EINVAL;
}

/* ---- keys ---- */

/* List all names of a table, for the message "no such key". */
#define KEY_NAMES_MAX 400
static const char *key_names(const struct config_key *keys, size_t nr, char buf[KEY_NAMES_MAX])
{
	size_t len = 0;

	for (size_t i = 0; i < nr && len < KEY_NAMES_MAX; i++)
		len += (size_t)snprintf(buf + len, KEY_NAMES_MAX - len, "%s%s", i ? ", " : "",
					keys[i].name);
	return buf;
}

int config_set(const struct config_key *keys, size_t nr, void *obj, uint32_t *given,
	       const struct config_at *at, const char *name, const char *value)
{
	char why[CONFIG_WHY_MAX] = "", names[KEY_NAMES_MAX];
	int ret;

	for (size_t i = 0; i < nr; i++) {
		const struct config_key *k = &keys[i];

		if (strcmp(k->name, name))
			continue;
		if (*given & 1u << i)
			return fail(-EINVAL, at->err, at->errlen,
				    "%s: %s/%s: given twice; expected once", at->where, at->section,
				    name);
		ret = k->set(k, (char *)obj + k->offset, value, why);
		if (ret == -ENOMEM)
			return fail(ret, at->err, at->errlen, "%s: out of memory", at->where);
		if (ret)
			return fail(-EINVAL, at->err, at->errlen,
				    "%s: %s/%s: \"%.80s\" is invalid; expected %s%s%s%s", at->where,
				    at->section, name, value, k->accepted, *why ? " (" : "", why,
				    *why ? ")" : "");
		*given |= 1u << i;
		return 0;
	}
	return fail(-EINVAL, at->err, at->errlen, "%s: %s/%.80s: no such key; expected %s",
		    at->where, at->section, name, key_names(keys, nr, names));
}

int config_set_path(const struct config_key *k, void *field, const char *value, char *why)
{
	return *value == '/' ? config_set_text(k, field, value, why) : -EINVAL;
}
