// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Lists of event names as in `perf stat -e`, for the callers of parse.c. The text is untrusted.
 *
 *   list  := item ("," item)*
 *   item  := name | "{" name ("," name)* "}" [":" modifiers]
 *
 * A group only adds its modifiers to those of its names, as perf does. It is not scheduled as a
 * unit, since its events share counters with other users.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/event/priv.h"
#include "vpmu/util/fail.h"

/* State of vpmu_event_parse_list. */
struct list {
	const char *text;
	enum vpmu_space raw_space;
	vpmu_key_t *keys;
	char **names;
	size_t n, capacity;
	char *err;
	size_t errlen;
};

/* Write error @what at @at to l->err. A list of one name needs no position. */
static int list_err(struct list *l, int rc, const char *at, const char *what)
{
	if (!strpbrk(l->text, ",{}"))
		return fail(rc, l->err, l->errlen, "%s", what);
	return fail(rc, l->err, l->errlen, "event list, character %zu: %s",
		    (size_t)(at - l->text) + 1, what);
}

/* One name of @len bytes at @at, with its group's modifiers @mods (may be ""). */
static int list_add(struct list *l, const char *at, size_t len, const char *mods)
{
	char name[2 * NAME_MAX_BYTES], why[512];
	char *dup;
	int rc;

	while (len && at[len - 1] == ' ')
		len--;
	if (!len)
		return list_err(l, -EINVAL, at, "empty event name; expected name[,name...]");
	if (l->n == l->capacity) {
		snprintf(why, sizeof(why), "more than %zu events", l->capacity);
		return list_err(l, -E2BIG, at, why);
	}
	/* Keep one byte more than the limit, so that a long name is rejected, not truncated. */
	if (len > NAME_MAX_BYTES)
		len = NAME_MAX_BYTES + 1;
	snprintf(name, sizeof(name), "%.*s", (int)len, at);
	if (*mods && vpmu_find_modifiers(name, MODS_ANYWHERE))
		mods++;
	snprintf(name, sizeof(name), "%.*s%.*s", (int)len, at, NAME_MAX_BYTES - 1, mods);

	rc = vpmu_event_parse(name, l->raw_space, &l->keys[l->n], why, sizeof(why));
	if (rc)
		return list_err(l, rc, at, why);
	if (l->names) {
		dup = strdup(name);
		if (!dup)
			return list_err(l, -ENOMEM, at, "out of memory");
		l->names[l->n] = dup;
	}
	l->n++;
	return 0;
}

/* Add the comma-separated names from @p up to @end. */
static int event_list_names(struct list *l, const char *p, const char *end, const char *mods)
{
	const char *stop;
	int rc;

	for (;;) {
		while (p < end && *p == ' ')
			p++;
		for (stop = p; stop < end && *stop != ','; stop++) {
			if (*stop == '{' || *stop == '}')
				return list_err(l, -EINVAL, stop,
						"brace inside of an event name or group; expected "
						"{name,name}[:modifiers]");
		}
		rc = list_add(l, p, (size_t)(stop - p), mods);
		if (rc || stop == end)
			return rc;
		p = stop + 1;
	}
}

/* Add the group with its opening brace at *pp, and advance *pp past it. */
static int list_group(struct list *l, const char **pp)
{
	const char *open = *pp, *close = strchr(open, '}'), *end;
	char mods[16];
	size_t len;

	if (!close)
		return list_err(l, -EINVAL, open, "'{' without '}'");
	end = close + 1 + strcspn(close + 1, ",{}");
	*pp = end;
	while (end > close + 1 && end[-1] == ' ')
		end--;
	len = (size_t)(end - close - 1);
	if (len == 1 || len >= sizeof(mods) || (len && close[1] != ':') ||
	    (len && strspn(close + 2, MODS_ON_PERF_NAMES) < len - 1))
		return list_err(l, -EINVAL, close + 1,
				"after '}' comes ',' or ':' and modifiers; expected u k h G H");
	snprintf(mods, sizeof(mods), "%.*s", (int)len, close + 1);
	return event_list_names(l, open + 1, close, mods);
}

int vpmu_event_parse_list(const char *list, enum vpmu_space raw_space, vpmu_key_t *keys,
			  char **names, size_t *n, char *err, size_t errlen)
{
	struct list l = {.text = list,
			 .raw_space = raw_space,
			 .keys = keys,
			 .names = names,
			 .capacity = *n,
			 .err = err,
			 .errlen = errlen};
	const char *p = list;
	size_t i;
	int rc;

	for (;;) {
		p += strspn(p, " ");
		if (*p == '{') {
			rc = list_group(&l, &p);
		} else {
			const char *end = p + strcspn(p, ",");

			rc = event_list_names(&l, p, end, "");
			p = end;
		}
		if (!rc && *p && *p != ',')
			rc = list_err(&l, -EINVAL, p, "a ',' is missing between events");
		if (rc)
			goto fail;
		if (!*p)
			break;
		p++;
	}
	*n = l.n;
	return 0;
fail:
	for (i = 0; names && i < l.n; i++) {
		free(names[i]);
		names[i] = NULL;
	}
	*n = 0;
	return rc;
}
