// SPDX-License-Identifier: GPL-2.0-or-later
/* Sessions of the server: see session.h. */
#include <stdlib.h>
#include <string.h>

#include "cli/error.h"
#include "cli/field.h"
#include "cli/names.h"
#include "cli/places.h"
#include "cli/session.h"
#include "service/program/memory.h"

static void session_add_name(struct sessions *s, const char *name)
{
	s->name[s->nr++] = xstrdup(name);
}

static bool session_attach(struct sessions *s, const struct what_opts *what, const char *target,
			   const char *name)
{
	json_t *resp = names_ask(s->c,
				 json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:b, s:s*, s:s*}", "cmd",
					   "attach", "events", what->events, "scope", what->scope,
					   "target", target, "name", name, "keep", name != NULL,
					   "metrics", what->metrics, "cpus", what->cpus),
				 "target");
	struct fields f = {0};
	bool ok;

	if (!resp)
		return false;
	name = field_string(&f, resp, "session");
	ok = fields_ok(&f);
	if (ok)
		session_add_name(s, name);
	json_decref(resp);
	return ok;
}

bool sessions_attach(struct sessions *s, struct client *c, const struct what_opts *what,
		     const char *name)
{
	*s = (struct sessions){.c = c, .ours = !name};
	if (!what->nr_targets)
		return session_attach(s, what, NULL, name); /* all that the user may see */
	for (size_t i = 0; i < what->nr_targets; i++) {
		char *target = places_target(c, what->kind[i], what->target[i]);
		bool ok = target && session_attach(s, what, target, name);

		free(target);
		if (!ok)
			return false;
	}
	return true;
}

void sessions_named(struct sessions *s, struct client *c, const char *name)
{
	*s = (struct sessions){.c = c};
	session_add_name(s, name);
}

void sessions_fini(struct sessions *s)
{
	for (size_t i = 0; i < s->nr; i++)
		free(s->name[i]);
	*s = (struct sessions){0};
}

/* Warn of stale counts. */
static void tell_stalled(const json_t *answer)
{
	const json_t *line;
	size_t i;

	json_array_foreach (json_object_get(answer, "stalled"), i, line)
		if (json_is_string(line))
			cli_error("warning: %s; its counts since are missing",
				  json_string_value(line));
}

/* Add the answer @resp (taken; NULL: none) of session @i to *all, which is freed and NULL after an
 * error. */
static bool session_add(struct sessions *s, size_t i, struct reading **all, json_t *resp)
{
	struct reading *r = resp ? reading_parse(resp) : NULL;

	if (r)
		tell_stalled(resp);
	json_decref(resp);
	/* The rows of a removed target are returned once. */
	if (r)
		s->gone[i] = r->target_gone || (s->gone[i] && !r->nr_rows);
	if (r && *all) {
		reading_merge(*all, r);
	} else if (r) {
		*all = r;
	} else {
		reading_free(*all);
		*all = NULL;
	}
	return r != NULL;
}

struct reading *sessions_read(struct sessions *s, enum session_read how)
{
	struct reading *all = NULL;
	bool ok = true;

	for (size_t i = 0; ok && i < s->nr; i++) {
		json_t *req =
			how == SESSION_END
				? json_pack("{s:s, s:s}", "cmd", "detach", "session", s->name[i])
				: json_pack("{s:s, s:s, s:b}", "cmd", "read", "session", s->name[i],
					    "keep-gone", how == SESSION_PEEK);

		ok = session_add(s, i, &all, names_ask(s->c, req, "session"));
	}
	return all;
}

bool sessions_gone(const struct sessions *s)
{
	for (size_t i = 0; i < s->nr; i++)
		if (!s->gone[i])
			return false;
	return true;
}

struct reading *sessions_last(struct sessions *s)
{
	const json_t *last = client_last(s->c);
	struct reading *all = NULL;
	json_t *resp;
	size_t k;

	for (size_t i = 0; i < s->nr; i++) {
		json_t *found = NULL;

		json_array_foreach (last, k, resp) {
			const char *name = json_string_value(json_object_get(resp, "session"));

			if (name && strcmp(name, s->name[i]) == 0)
				found = resp;
		}
		if (!found || !session_add(s, i, &all, json_incref(found))) {
			reading_free(all);
			return NULL;
		}
	}
	return all;
}
