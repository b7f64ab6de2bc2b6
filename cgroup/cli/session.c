// SPDX-License-Identifier: GPL-2.0-or-later
/* Sessions of the server: see session.h. */
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/error.h"
#include "cgroup/cli/field.h"
#include "cgroup/cli/session.h"

char *session_attach(struct client *c, const struct what_opts *what, const char *name)
{
	json_t *resp =
		client_ask(c, json_pack("{s:s, s:s, s:s, s:s, s:s*, s:b}", "cmd", "attach",
					"events", what->events, "scope", what->scope, "target",
					what->target, "name", name, "keep", name != NULL));
	struct fields f = {0};
	char *copy = NULL;

	if (!resp)
		return NULL;
	name = field_string(&f, resp, "session");
	if (fields_ok(&f)) {
		copy = strdup(name);
		if (!copy)
			cli_error("out of memory");
	}
	json_decref(resp);
	return copy;
}

static json_t *ask(struct client *c, const char *session, bool end)
{
	return client_ask(
		c, json_pack("{s:s, s:s}", "cmd", end ? "detach" : "read", "session", session));
}

struct reading *session_read(struct client *c, const char *session, bool end)
{
	json_t *resp = ask(c, session, end);
	struct reading *r = resp ? reading_parse(resp) : NULL;

	json_decref(resp);
	return r;
}

struct reading *session_difference(struct client *c, const char *session, bool end,
				   struct reading **before)
{
	json_t *resp = ask(c, session, end);
	struct reading *now = resp ? reading_parse(resp) : NULL;
	struct reading *diff = now ? reading_parse(resp) : NULL;

	json_decref(resp);
	if (diff && !reading_subtract(diff, *before)) {
		cli_error("out of memory");
		reading_free(diff);
		diff = NULL;
	}
	if (!diff) {
		reading_free(now);
		return NULL;
	}
	reading_free(*before);
	*before = now;
	return diff;
}
