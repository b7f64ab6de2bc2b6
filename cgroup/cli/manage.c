// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu attach, detach, tenant, vm, pause, resume, quit: thin wrappers of requests that change
 * something. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/cli/client.h"
#include "cgroup/cli/output.h"

static int ask(struct cli *cli, json_t *req, bool takes_long)
{
	struct client *c = client_open(cli, false);
	json_t *resp = NULL;

	if (c && takes_long)
		client_wait_long(c);
	if (c)
		resp = client_ask(c, req);
	else
		json_decref(req);
	client_close(c);
	json_decref(resp);
	return resp ? 0 : 1;
}

/* Send @req (taken), say nothing when it worked. */
static int request(struct cli *cli, json_t *req)
{
	return ask(cli, req, false);
}

/* ---- attach ------------------------------------------------------------------------------- */

struct attach_opts {
	const char *name, *events, *scope, *target;
};

enum { OPT_FOR_EACH = 1000 };

static const struct argp_option attach_options[] = {
	{"event", 'e', "LIST", 0, "Events, as perf stat -e", 0},
	{"for-each", OPT_FOR_EACH, "KIND", 0, "One row for each tenant, vm or vcpu", 0},
	{"target", 't', "WHAT", 0, "A tenant (/acme), a VM (web-1) or / (default)", 0},
	{0},
};

static error_t parse_attach(int key, char *arg, struct argp_state *state)
{
	struct attach_opts *o = state->input;

	switch (key) {
	case 'e':
		o->events = arg;
		return 0;
	case OPT_FOR_EACH:
		if (strcmp(arg, "tenant") && strcmp(arg, "vm") && strcmp(arg, "vcpu"))
			cli_usage("attach: --for-each \"%s\": tenant, vm or vcpu is accepted", arg);
		o->scope = arg;
		return 0;
	case 't':
		o->target = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->name)
			cli_usage("attach: \"%s\": one NAME is accepted", arg);
		o->name = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_attach(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.options = attach_options,
		.parser = parse_attach,
		.args_doc = "NAME",
		.doc = "Start a session that counts until `vpmu detach NAME`. `vpmu stat --session "
		       "NAME` shows it.",
	};
	struct attach_opts o = {.scope = "none", .target = "/"};

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (!o.name)
		cli_usage("attach: no name; a NAME of [A-Za-z0-9_.:-] is accepted");
	if (!o.events)
		cli_usage("attach: no events; -e LIST is accepted");
	return request(cli, json_pack("{s:s, s:s, s:s, s:s, s:s, s:b}", "cmd", "attach", "name",
				      o.name, "events", o.events, "scope", o.scope, "target",
				      o.target, "keep", 1));
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Arguments of a command that are words; at most 32. */
struct words {
	const char *word[32];
	size_t n;
	bool json;
	const char *sep;
};

static error_t parse_words(int key, char *arg, struct argp_state *state)
{
	struct words *w = state->input;

	switch (key) {
	case 'j':
		w->json = true;
		return 0;
	case 'x':
		if (!*arg)
			cli_usage("detach: -x: empty; a separator like , is accepted");
		w->sep = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (w->n == sizeof(w->word) / sizeof(w->word[0]))
			cli_usage("%s: more than 32 arguments", strchr(state->name, ' ') + 1);
		w->word[w->n++] = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void words(struct cli *cli, int argc, char **argv, const char *args_doc, const char *doc,
		  struct words *w)
{
	const struct argp argp = {.parser = parse_words, .args_doc = args_doc, .doc = doc};

	cli_parse(cli, &argp, argc, argv, NULL, w);
}

int cmd_detach(struct cli *cli, int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"field-separator", 'x', "SEP", 0, "Separated values instead of a table", 0},
		{"json-output", 'j', NULL, 0, "One JSON object per value and line", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse_words,
		.args_doc = "NAME",
		.doc = "End session NAME and show its final counts.",
	};
	struct words w = {0};
	struct client *c;
	struct reading *r;
	json_t *resp;

	cli_parse(cli, &argp, argc, argv, NULL, &w);
	if (w.n != 1)
		cli_usage("detach: %zu names; one NAME of `vpmu sessions` is accepted", w.n);
	if (w.json && w.sep)
		cli_usage("detach: -j and -x: one of them is accepted");
	c = client_open(cli, false);
	resp = c ? client_ask(c, json_pack("{s:s, s:s}", "cmd", "detach", "session", w.word[0]))
		 : NULL;
	r = resp ? reading_parse(resp) : NULL;
	if (r && w.json)
		out_json(r, -1);
	else if (r && w.sep)
		out_csv(r, -1, w.sep);
	else if (r)
		out_total(r, cli_width());
	json_decref(resp);
	client_close(c);
	if (!r)
		return 1;
	reading_free(r);
	return 0;
}

int cmd_tenant(struct cli *cli, int argc, char **argv)
{
	struct words w = {0};
	bool add;

	words(cli, argc, argv, "add PATH\nrm PATH",
	      "Add a tenant (with its ancestors), or remove one that has no VMs and no tenants "
	      "below "
	      "it; its counts stay in its parent.",
	      &w);
	if (w.n != 2 || (strcmp(w.word[0], "add") && strcmp(w.word[0], "rm")))
		cli_usage("tenant: `tenant add PATH` or `tenant rm PATH` is accepted");
	add = strcmp(w.word[0], "add") == 0;
	return request(cli, json_pack("{s:s, s:s}", "cmd", add ? "tenant-add" : "tenant-remove",
				      "path", w.word[1]));
}

/* key=value words from @first on as fields of @req. */
static int add_fields(json_t *req, const struct words *w, size_t first, const char *cmd)
{
	for (size_t i = first; i < w->n; i++) {
		const char *eq = strchr(w->word[i], '=');
		char key[64];

		if (!eq || eq == w->word[i] || (size_t)(eq - w->word[i]) >= sizeof(key))
			cli_usage("vm %s: \"%s\": KEY=VALUE is accepted", cmd, w->word[i]);
		snprintf(key, sizeof(key), "%.*s", (int)(eq - w->word[i]), w->word[i]);
		if (json_object_get(req, key) || json_object_set_new(req, key, json_string(eq + 1)))
			cli_usage("vm %s: %s: given twice, or no UTF-8; once is accepted", cmd,
				  key);
	}
	return 0;
}

/* The server's working directory may be another one. */
static json_t *absolute(const char *path)
{
	char *cwd = *path == '/' ? NULL : getcwd(NULL, 0);
	json_t *s;

	if (*path != '/' && !cwd)
		cli_usage("%s: the working directory cannot be told; a path that starts with / is "
			  "accepted",
			  path);
	s = cwd ? json_sprintf("%s/%s", cwd, path) : json_string(path);
	free(cwd);
	return s;
}

int cmd_vm(struct cli *cli, int argc, char **argv)
{
	struct words w = {0};
	json_t *req;

	words(cli, argc, argv,
	      "add KEY=VALUE...\nrm NAME\nsave NAME FILE\nrestore FILE [name=NAME] "
	      "[tenant=PATH]",
	      "Add a VM - the keys are those of vpmu-vmm's [vm] sections, and name=NAME - or stop "
	      "and remove one; its counts stay in its tenant. Save one to a file of the server's "
	      "host: it stays paused; restore it from there, in this server or another one.",
	      &w);
	if (w.n == 2 && strcmp(w.word[0], "rm") == 0)
		return request(cli, json_pack("{s:s, s:s}", "cmd", "vm-remove", "name", w.word[1]));
	if (w.n == 3 && strcmp(w.word[0], "save") == 0)
		return ask(cli,
			   json_pack("{s:s, s:s, s:o}", "cmd", "vm-save", "name", w.word[1], "file",
				     absolute(w.word[2])),
			   true);
	if (w.n >= 2 && strcmp(w.word[0], "restore") == 0) {
		req = json_pack("{s:s, s:o}", "cmd", "vm-restore", "file", absolute(w.word[1]));
		add_fields(req, &w, 2, "restore");
		return ask(cli, req, true);
	}
	if (w.n < 2 || strcmp(w.word[0], "add") != 0)
		cli_usage("vm: `vm add KEY=VALUE...`, `vm rm NAME`, `vm save NAME FILE` or `vm "
			  "restore FILE` is accepted");
	req = json_pack("{s:s}", "cmd", "vm-add");
	add_fields(req, &w, 1, "add");
	return request(cli, req);
}

/* Commands of all VMs, or of one when it is named. */
static int maybe_one(struct cli *cli, int argc, char **argv, const char *cmd, const char *doc)
{
	struct words w = {0};

	words(cli, argc, argv, "[NAME]", doc, &w);
	if (w.n > 1)
		cli_usage("%s: \"%s\": one NAME of a VM, or none for all, is accepted", cmd,
			  w.word[1]);
	return request(cli, json_pack("{s:s, s:s*}", "cmd", cmd, "name", w.n ? w.word[0] : NULL));
}

int cmd_pause(struct cli *cli, int argc, char **argv)
{
	return maybe_one(cli, argc, argv, "pause", "Stop all VMs, or one, until `vpmu resume`.");
}

int cmd_resume(struct cli *cli, int argc, char **argv)
{
	return maybe_one(cli, argc, argv, "resume",
			 "Let all VMs run that are paused or wait for their start, or one.");
}

int cmd_quit(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {.parser = cli_no_args,
					 .doc = "End the server and its VMs."};

	cli_parse(cli, &argp, argc, argv, NULL, NULL);
	return request(cli, json_pack("{s:s}", "cmd", "quit"));
}
