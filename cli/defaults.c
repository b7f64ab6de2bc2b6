// SPDX-License-Identifier: GPL-2.0-or-later
/* Default events by what the server's host counts; see defaults.h. */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/defaults.h"
#include "cli/error.h"
#include "service/program/memory.h"

/* Names that are tried in this order when another event has to be named. */
#define DEFAULTS_OFFERED "instructions,cycles,ref-cycles," DEFAULTS_SOFTWARE

#define DEFAULTS_LIST 400

/* Return true if a backend counts the event of @len bytes at @name. A server that has no counter
 * to ask yet reports no backends: true. */
static bool defaults_counted(const json_t *answer, const char *name, size_t len)
{
	const json_t *row, *backend;
	size_t i, k;

	json_array_foreach (json_object_get(answer, "events"), i, row) {
		const char *event = json_string_value(json_object_get(row, "event"));
		const json_t *list = json_object_get(row, "backends");

		if (!event || strlen(event) != len || strncmp(event, name, len))
			continue;
		json_array_foreach (list, k, backend)
			if (json_is_true(json_object_get(backend, "supported")))
				return true;
		return !json_array_size(list);
	}
	return false;
}

/* Return why an event is not counted; "": the server does not say. */
static const char *defaults_why(const json_t *answer)
{
	const json_t *row, *backend;
	size_t i, k;

	json_array_foreach (json_object_get(answer, "events"), i, row)
		json_array_foreach (json_object_get(row, "backends"), k, backend)
			if (json_is_string(json_object_get(backend, "why")))
				return json_string_value(json_object_get(backend, "why"));
	return "";
}

/* Report that the server counts nothing at all. */
static void defaults_nothing(const json_t *answer, const char *command)
{
	const char *why = defaults_why(answer);

	cli_error("%s: no event is counted here%s%s; `vpmu check` shows what to do", command,
		  *why ? ": " : "", why);
}

/* Split the list @names into events that are counted and others. Each buffer holds the list. */
static void defaults_split(const json_t *answer, const char *names, char counted[DEFAULTS_LIST],
			   char others[DEFAULTS_LIST])
{
	*counted = *others = '\0';
	while (*names) {
		size_t len = strcspn(names, ",");
		char *to = defaults_counted(answer, names, len) ? counted : others;
		size_t at = strlen(to);

		snprintf(to + at, DEFAULTS_LIST - at, "%s%.*s", at ? "," : "", (int)len, names);
		names += len + !!names[len];
	}
}

char *defaults_events(struct client *c, const char *command, const char *usual, bool *software)
{
	char counted[DEFAULTS_LIST], others[DEFAULTS_LIST];
	json_t *answer = client_silent(c, "events");

	if (software)
		*software = false;
	if (!json_array_size(json_object_get(answer, "events"))) {
		json_decref(answer);
		return xstrdup(usual);
	}
	defaults_split(answer, usual, counted, others);
	if (!*counted) {
		char works[DEFAULTS_LIST];

		defaults_split(answer, DEFAULTS_SOFTWARE, works, others);
		if (*works) {
			cli_error("%s: no hardware events are counted here: counting %s", command,
				  works);
			if (software)
				*software = true;
		} else {
			defaults_nothing(answer, command);
		}
		json_decref(answer);
		return xstrdup(*works ? works : usual);
	}
	json_decref(answer);
	if (*others)
		cli_error("%s: this host does not count %s: it is left out", command, others);
	return xstrdup(counted);
}

const char *defaults_sampled(struct client *c, const char *command, const char *usual)
{
	json_t *answer = client_silent(c, "events");
	bool clock = json_array_size(json_object_get(answer, "events")) &&
		     !defaults_counted(answer, usual, strlen(usual)) &&
		     defaults_counted(answer, DEFAULTS_SAMPLED, strlen(DEFAULTS_SAMPLED));

	json_decref(answer);
	if (!clock)
		return usual;
	cli_error("%s: %s are not counted here: sampling " DEFAULTS_SAMPLED " instead", command,
		  usual);
	return DEFAULTS_SAMPLED;
}

void defaults_none_counted(struct client *c, const char *command)
{
	char counted[DEFAULTS_LIST], others[DEFAULTS_LIST];
	json_t *answer = client_silent(c, "events");

	defaults_split(answer, DEFAULTS_OFFERED, counted, others);
	if (*counted)
		cli_error("%s: none of these events is counted here; %s are", command, counted);
	else if (answer)
		defaults_nothing(answer, command);
	json_decref(answer);
}
