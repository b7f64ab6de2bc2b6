// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/names.c: names as people type them. The server is below: it answers from a table. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/names.h"

static const char *const nodes =
	"{\"nodes\":[{\"kind\":\"root\",\"path\":\"/\"},{\"kind\":\"host\",\"path\":\"/host\"},"
	"{\"kind\":\"tenant\",\"path\":\"/acme\"},{\"kind\":\"tenant\",\"path\":\"/acme/web\"},"
	"{\"kind\":\"tenant\",\"path\":\"/bob\"},"
	"{\"kind\":\"vm\",\"path\":\"/acme/web\",\"vm\":\"web-1\"},"
	"{\"kind\":\"vm\",\"path\":\"/bob\",\"vm\":\"bob\"}]}";

static char asked[4][200]; /* the requests */
static int nr_asked;

/* A server that knows /acme, /acme/web, /bob and the VMs web-1 and bob. */
json_t *client_try(struct client *c, json_t *req, char **err)
{
	const char *cmd = json_string_value(json_object_get(req, "cmd"));
	const char *target = json_string_value(json_object_get(req, "target"));
	static const char *const known[] = {"/", "/acme", "/acme/web", "/bob", "web-1", "bob"};
	json_t *answer = NULL;

	snprintf(asked[nr_asked++ % 4], sizeof(asked[0]), "%s %s", cmd, target ? target : "");
	*err = NULL;
	if (!strcmp(cmd, "list"))
		answer = json_loads(nodes, 0, NULL);
	for (size_t i = 0; target && i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(target, known[i]))
			answer = json_pack("{s:s}", "target", target);
	if (!answer && asprintf(err, "no %s \"%s\"; `vpmu list` shows what there is",
				target && *target == '/' ? "tenant" : "VM", target) < 0)
		abort();
	json_decref(req);
	return answer;
}

json_t *client_silent(struct client *c, const char *cmd)
{
	char *err;
	json_t *answer = client_try(c, json_pack("{s:s}", "cmd", cmd), &err);

	free(err);
	return answer;
}

json_t *client_ask(struct client *c, json_t *req)
{
	char *err;
	json_t *answer = client_try(c, req, &err);

	free(err);
	return answer;
}

static const char *attach(const char *target)
{
	static char got[100];
	json_t *answer;

	nr_asked = 0;
	answer = names_ask(NULL, json_pack("{s:s, s:s}", "cmd", "attach", "target", target),
			   "target");
	snprintf(got, sizeof(got), "%s",
		 answer ? json_string_value(json_object_get(answer, "target")) : "");
	json_decref(answer);
	return got;
}

Test(cli_names, a_tenant_without_its_slash)
{
	cr_expect_str_eq(attach("acme"), "/acme");
	cr_expect_eq(nr_asked, 3);
	cr_expect_str_eq(asked[2], "attach /acme");
	cr_expect_str_eq(attach("acme/web"), "/acme/web");
	cr_expect_str_eq(attach("bob"), "bob", "a VM of this name is meant");
	cr_expect_eq(nr_asked, 1, "names that are right cost no request");
	cr_expect_str_eq(attach("/nope"), "");
	cr_expect_str_eq(attach("web"), "", "it is suggested, not taken");
	cr_expect_str_eq(attach(""), "");
	cr_expect_str_eq(names_target(NULL, "acme"), "/acme");
	cr_expect_str_eq(names_target(NULL, "bob"), "bob");
	cr_expect_str_eq(names_target(NULL, "nope"), "nope");
	cr_expect_str_eq(names_target(NULL, "/acne"), "/acne");
}

Test(cli_names, nearest)
{
	static const struct {
		const char *field, *word, *want; /* NULL: nothing is near */
	} rows[] = {
		{"target", "web-2", "web-1"},	{"target", "WEB-1", "web-1"},
		{"target", "/acne", "/acme"},	{"target", "acne", "/acme"},
		{"target", "web", "/acme/web"}, {"target", "/web", "/acme/web"},
		{"target", "zzzzzz", NULL},	{"target", "", NULL},
		{"target", "/", NULL},		{"name", "acne", NULL},
		{"name", "bobb", "bob"},	{"path", "/acme/wbe", "/acme/web"},
		{"path", "web-2", NULL},	{"session", "web-1", NULL},
	};
	json_t *list = json_loads(nodes, 0, NULL);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *got = names_nearest(list, rows[i].field, rows[i].word);

		cr_expect(rows[i].want ? got && !strcmp(got, rows[i].want) : !got,
			  "%s %s: %s, expected %s", rows[i].field, rows[i].word, got ? got : "none",
			  rows[i].want ? rows[i].want : "none");
	}
	json_decref(list);
	list = json_pack("{s:[{s:s}]}", "sessions", "session", "bill");
	cr_expect_str_eq(names_nearest(list, "session", "bil"), "bill");
	json_decref(list);
	list = json_pack("{s:[i, {s:i}, {}, s]}", "nodes", 1, "path", 2, "x");
	cr_expect_null(names_nearest(list, "target", "acme"), "a hostile answer");
	cr_expect_null(names_tenant(list, "acme"));
	json_decref(list);
}
