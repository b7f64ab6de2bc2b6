// SPDX-License-Identifier: GPL-2.0-or-later
/* The answer of `sharing`, and the subcommand that shows it: see sharing.h. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/field.h"
#include "cli/rows.h"
#include "cli/sharing.h"

static void sharing_parse(struct fields *f, const json_t *o, struct sharing *out)
{
	snprintf(out->backend, sizeof(out->backend), "%s", field_string_or(f, o, "backend", ""));
	out->consumers = field_int(f, o, "consumers", UINT32_MAX);
	out->keys = field_int(f, o, "keys", UINT32_MAX);
	out->counters = field_int(f, o, "host-counters", UINT32_MAX);
	out->refused = field_u64_or(f, o, "refused", 0);
}

static int sharing_backends(const json_t *answer, struct sharing out[SHARING_BACKENDS_MAX])
{
	struct fields f = {0};
	int n = 0;

	if (json_object_get(answer, "backends")) {
		const json_t *backends = field_array(&f, answer, "backends"), *backend;
		size_t i;

		json_array_foreach (backends, i, backend)
			if (n < SHARING_BACKENDS_MAX)
				sharing_parse(&f, backend, &out[n++]);
	} else {
		sharing_parse(&f, answer, &out[n++]);
	}
	return fields_ok(&f) ? n : -1;
}

int sharing_ask(struct client *c, struct sharing out[SHARING_BACKENDS_MAX])
{
	json_t *answer = client_simple(c, "sharing");
	int n = answer ? sharing_backends(answer, out) : -1;

	json_decref(answer);
	return n;
}

static void sharing_print_json(const struct sharing *s)
{
	json_t *o = json_pack("{s:s*, s:I, s:I, s:I}", "backend", *s->backend ? s->backend : NULL,
			      "consumers", (json_int_t)s->consumers, "keys", (json_int_t)s->keys,
			      "host-counters", (json_int_t)s->counters);

	if (o && s->refused)
		json_object_set_new(o, "refused", json_integer((json_int_t)s->refused));
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static void print_line(const struct sharing *s)
{
	printf("%s%s%u consumers of %u distinct events on %u host counters", s->backend,
	       *s->backend ? ": " : "", s->consumers, s->keys, s->counters);
	if (s->refused)
		printf("; %" PRIu64 " refused, for want of a counter slot or of quota", s->refused);
	putchar('\n');
}

/* The events that guests of other VMMs have bound: a line each. False: the answer is wrong. */
static bool sharing_guests(const json_t *answer, bool json)
{
	const json_t *guests = json_object_get(answer, "guests"), *event;
	struct fields f = {0};
	size_t i;

	if (!guests)
		return true;
	json_array_foreach (field_array(&f, guests, "events"), i, event) {
		const char *name = field_string(&f, event, "event");
		unsigned int vcpus = field_int(&f, event, "guests", UINT32_MAX),
			     values = field_int(&f, event, "operators", UINT32_MAX);

		if (!fields_ok(&f))
			return false;
		if (json) {
			json_dumpf(event, stdout, JSON_COMPACT);
			putchar('\n');
		} else {
			printf("%s: %u vCPU%s of guests and %u value%s of operators share it\n",
			       name, vcpus, vcpus == 1 ? "" : "s", values, values == 1 ? "" : "s");
		}
	}
	return fields_ok(&f);
}

int cmd_sharing(struct cli *cli, int argc, char **argv)
{
	bool json = rows_parse_json(cli, argc, argv,
				    "Show how many consumers share how many host counters, and the "
				    "events that guests have bound. A consumer is a counter of a "
				    "guest or a value of an operator's session. Each backend has "
				    "counters of its own.");
	struct client *c = client_open(cli, false);
	json_t *answer = c ? client_simple(c, "sharing") : NULL;
	struct sharing s[SHARING_BACKENDS_MAX];
	int n = answer ? sharing_backends(answer, s) : -1;

	client_close(c);
	for (int i = 0; i < n; i++) {
		if (json)
			sharing_print_json(&s[i]);
		else
			print_line(&s[i]);
	}
	if (!n && !json)
		puts("nothing to show: the server has no CPUs yet, or you may not see all tenants");
	if (n >= 0 && !sharing_guests(answer, json))
		n = -1;
	json_decref(answer);
	return n < 0 ? 1 : 0;
}
