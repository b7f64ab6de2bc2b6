// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu attach, detach, tenant, vm, pause, resume, reload, quit: requests that change something.
 * Detach shows the final counts; quit prints nothing; each of the others prints one line, as virsh
 * does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/error.h"
#include "cli/metrics.h"
#include "cli/names.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "service/program/memory.h"

/* Print the line @fmt to standard output. @fmt has one %s, for @what, which may hold anything. */
static void tell_done(const char *fmt, const char *what)
{
	char *safe = terminal_safe(xstrdup(what));

	printf(fmt, safe);
	putchar('\n');
	free(safe);
}

/* Send @req (taken). If it works, print @done, with a %s for @what, or nothing if @done is NULL.
 * @takes_long: see client_wait_long. Returns the exit status. */
static int send_request(struct cli *cli, json_t *req, bool takes_long, const char *done,
			const char *what)
{
	struct client *c = client_open(cli, false);
	json_t *resp = NULL;

	if (c && takes_long)
		client_wait_long(c);
	if (c)
		resp = names_ask(c, req, json_object_get(req, "path") ? "path" : "name");
	else
		json_decref(req);
	client_close(c);
	/* Success with a remark. */
	if (json_is_string(json_object_get(resp, "note")))
		cli_error("%s", json_string_value(json_object_get(resp, "note")));
	else if (resp && done)
		tell_done(done, what);
	json_decref(resp);
	return resp ? 0 : 1;
}

/* ---- sessions ----------------------------------------------------------------------------- */

struct session_opts {
	const char *name;
	void *shared;		   /* the one of the following that the command takes */
	struct what_opts what;	   /* of attach */
	struct format_opts format; /* of detach */
	const char *metrics;	   /* -M; NULL: none */
};

static error_t parse_session(int key, char *arg, struct argp_state *state)
{
	struct session_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = o->shared;
		state->child_inputs[1] = &o->metrics;
		return 0;
	case ARGP_KEY_ARG:
		cli_one_arg(&o->name, arg, "NAME", state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_attach(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&cli_what_argp, 0, NULL, 0}, {&cli_metric_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.parser = parse_session,
		.children = children,
		.args_doc = "NAME",
		.doc = "Start a session that counts until `vpmu detach NAME`. `vpmu stat --session "
		       "NAME` shows its counts.",
	};
	struct session_opts o = {.what = {.scope = "none"}};
	struct sessions s = {0};
	struct metrics metrics = {0};
	char *events = NULL, *names = NULL;
	struct client *c;
	bool ok;

	o.shared = &o.what;
	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (!o.name)
		cli_usage("attach: give a NAME of letters, digits and _.:- for the session");
	if (!o.what.events && !o.metrics)
		cli_usage("attach: give the events with -e LIST, or metrics with -M LIST");
	if (o.what.nr_targets > 1)
		cli_usage(
			"attach: -t is given twice; a session has one target: attach one for each");
	if (o.metrics) {
		o.what.events = events = metrics_ask(&metrics, "attach", o.metrics, o.what.events);
		o.what.metrics = names = metrics_names(o.metrics);
	}
	c = client_open(cli, false);
	ok = c && sessions_attach(&s, c, &o.what, o.name);
	client_close(c);
	if (ok)
		tell_done("session %s attached", o.name);
	sessions_fini(&s);
	metrics_free(&metrics);
	free(events);
	free(names);
	return ok ? 0 : 1;
}

/* Choose the metrics that the session @r was attached with. */
static void session_metrics(struct session_opts *o, struct metrics *metrics,
			    const struct reading *r)
{
	char *names = r->metrics ? metrics_names(r->metrics) : NULL, err[600];

	if (names && metrics_choose(metrics, names, err, sizeof(err)))
		cli_error("detach: without the metrics of the session: %s", err);
	else if (names)
		o->format.metrics = metrics;
	free(names);
}

int cmd_detach(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&cli_format_argp, 0, NULL, 0}, {&cli_metric_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.parser = parse_session,
		.children = children,
		.args_doc = "NAME",
		.doc = "End the session NAME and show its final counts, with the metrics that it "
		       "was attached with, or those of -M.",
	};
	struct session_opts o = {0};
	struct sessions s = {0};
	struct metrics metrics = {0};
	struct client *c;
	struct reading *r;

	o.shared = &o.format;
	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (!o.name)
		cli_usage("detach: give the NAME of a session; `vpmu sessions` shows them");
	if (o.metrics) {
		free(metrics_ask(&metrics, "detach", o.metrics, NULL));
		o.format.metrics = &metrics;
	}
	c = client_open(cli, false);
	sessions_named(&s, c, o.name);
	r = c ? sessions_read(&s, SESSION_END) : NULL;
	client_close(c);
	sessions_fini(&s);
	if (r && !o.metrics)
		session_metrics(&o, &metrics, r);
	if (r)
		table_print_as(&o.format, r, NULL);
	reading_free(r);
	metrics_free(&metrics);
	return r ? 0 : 1;
}

/* ---- tenants, VMs, the server --------------------------------------------------------------- */

/* The arguments of a command that has no options. */
struct words {
	const char *word[32];
	size_t n;
};

static error_t parse_words(int key, char *arg, struct argp_state *state)
{
	struct words *w = state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	if (w->n == sizeof(w->word) / sizeof(w->word[0]))
		cli_usage("%s: more than 32 arguments", cli_command(state));
	w->word[w->n++] = arg;
	return 0;
}

static void parse_all(struct cli *cli, int argc, char **argv, const char *args_doc, const char *doc,
		      struct words *w)
{
	const struct argp argp = {.parser = parse_words, .args_doc = args_doc, .doc = doc};

	cli_parse(cli, &argp, argc, argv, NULL, w);
}

/* Add the KEY=VALUE words from @first on as fields of @req. */
static void add_fields(json_t *req, const struct words *w, size_t first, const char *cmd)
{
	for (size_t i = first; i < w->n; i++) {
		const char *eq = strchr(w->word[i], '=');
		char key[64];

		if (!eq || eq == w->word[i] || (size_t)(eq - w->word[i]) >= sizeof(key))
			cli_usage("%s: \"%s\": give KEY=VALUE", cmd, w->word[i]);
		snprintf(key, sizeof(key), "%.*s", (int)(eq - w->word[i]), w->word[i]);
		if (json_object_get(req, key))
			cli_usage("%s: %s is given twice; give it once", cmd, key);
		if (json_object_set_new(req, key, json_string(eq + 1)))
			cli_usage("%s: %s is not UTF-8 text", cmd, key);
	}
}

/* Build the request @cmd about the tenant or VM @w->word[1], in field @field, with numbers from the
 * words after it. */
static json_t *set_request(const char *cmd, const char *field, const struct words *w)
{
	json_t *req = json_pack("{s:s, s:s}", "cmd", cmd, field, w->word[1]);
	const char *key, *what = strcmp(cmd, "vm-set") ? "tenant set" : "vm set";
	json_t *v;
	void *next;

	if (!req)
		return NULL; /* client_ask() prints the error */
	add_fields(req, w, 2, what);
	json_object_foreach_safe(req, next, key, v)
	{
		const char *text = json_string_value(v);

		if (strcmp(key, "cmd") == 0 || strcmp(key, field) == 0)
			continue;
		if (!*text || text[strspn(text, "0123456789")] || strlen(text) > 9)
			cli_usage("%s: %s: \"%s\" is invalid; expected a number", what, key, text);
		json_object_set_new(req, key, json_integer(atoi(text)));
	}
	return req;
}

int cmd_tenant(struct cli *cli, int argc, char **argv)
{
	struct words w = {0};
	bool add;

	parse_all(cli, argc, argv, "add PATH\nrm PATH\nset PATH KEY=VALUE...",
		  "Add a tenant and those above it, or remove a tenant that has no VMs and no "
		  "tenants below it. The counts of a removed tenant stay in the one above. Change "
		  "a tenant while its VMs run; the keys are weight and max_events.",
		  &w);
	if (w.n >= 3 && strcmp(w.word[0], "set") == 0)
		return send_request(cli, set_request("tenant-set", "path", &w), false,
				    "tenant %s changed", w.word[1]);
	if (w.n != 2 || (strcmp(w.word[0], "add") && strcmp(w.word[0], "rm")))
		cli_usage("tenant: give `tenant add PATH`, `tenant rm PATH` or `tenant set PATH "
			  "KEY=VALUE...`");
	add = strcmp(w.word[0], "add") == 0;
	return send_request(cli,
			    json_pack("{s:s, s:s}", "cmd", add ? "tenant-add" : "tenant-remove",
				      "path", w.word[1]),
			    false, add ? "tenant %s added" : "tenant %s removed", w.word[1]);
}

/* Return @path as the server needs it: a plain name is one in its snapshot directory; a path with a
 * / is made absolute, because the server's working directory may differ. */
static json_t *manage_absolute(const char *path)
{
	bool whole = *path == '/' || !strchr(path, '/');
	char *cwd = whole ? NULL : getcwd(NULL, 0);
	json_t *s;

	if (!whole && !cwd)
		cli_usage("%s: the working directory is not known; give a path that starts with /",
			  path);
	s = cwd ? json_sprintf("%s/%s", cwd, path) : json_string(path);
	free(cwd);
	if (!s)
		cli_usage("vm: the path of FILE is not UTF-8 text");
	return s;
}

int cmd_vm(struct cli *cli, int argc, char **argv)
{
	struct words w = {0};
	json_t *req;
	const char *given;
	bool unpacks;
	char *name;
	int ret;

	parse_all(cli, argc, argv,
		  "add KEY=VALUE...\nrm NAME\nset NAME KEY=VALUE...\nsave NAME FILE\nrestore FILE "
		  "[KEY=VALUE...]",
		  "Add a VM, or stop and remove one. The keys are name and those of the [vm] "
		  "sections of vpmu-vmm(1). The counts of a removed VM stay in its tenant. Change "
		  "a VM while it runs; the keys are weight and max_events. Save a VM to a file in "
		  "the server's snapshot directory; the VM stays paused. Restore it from there, in "
		  "this server or another one; the keys are name, tenant, policy, memory, engine, "
		  "allow, deny, weight, tenant_weight, max_events, tenant_max_events and trust.",
		  &w);
	if (w.n == 2 && strcmp(w.word[0], "rm") == 0)
		return send_request(cli,
				    json_pack("{s:s, s:s}", "cmd", "vm-remove", "name", w.word[1]),
				    false, "VM %s removed", w.word[1]);
	if (w.n == 3 && strcmp(w.word[0], "save") == 0)
		return send_request(cli,
				    json_pack("{s:s, s:s, s:o}", "cmd", "vm-save", "name",
					      w.word[1], "file", manage_absolute(w.word[2])),
				    true, "VM %s saved; it stays paused", w.word[1]);
	if (w.n >= 2 && strcmp(w.word[0], "restore") == 0) {
		req = json_pack("{s:s, s:o}", "cmd", "vm-restore", "file",
				manage_absolute(w.word[1]));
		add_fields(req, &w, 2, "vm restore");
		return send_request(cli, req, true, "VM restored from %s", w.word[1]);
	}
	if (w.n >= 3 && strcmp(w.word[0], "set") == 0)
		return send_request(cli, set_request("vm-set", "name", &w), false, "VM %s changed",
				    w.word[1]);
	if (w.n < 2 || strcmp(w.word[0], "add") != 0)
		cli_usage("vm: give `vm add KEY=VALUE...`, `vm rm NAME`, `vm set NAME "
			  "KEY=VALUE...`, `vm save NAME FILE` or `vm restore FILE`");
	req = json_pack("{s:s}", "cmd", "vm-add");
	add_fields(req, &w, 1, "vm add");
	given = json_string_value(json_object_get(req, "name"));
	name = xstrdup(given ? given : "");
	unpacks = json_object_get(req, "kernel"); /* after those of other clients */
	ret = send_request(cli, req, unpacks, "VM %s added", name);
	free(name);
	return ret;
}

/* A command for one VM, or for all if no name is given. */
static int one_or_all(struct cli *cli, int argc, char **argv, const char *cmd, const char *doc,
		      const char *one, const char *all)
{
	struct words w = {0};

	parse_all(cli, argc, argv, "[NAME]", doc, &w);
	if (w.n > 1)
		cli_usage("%s: \"%s\": give one NAME of a VM, or none for all VMs", cmd, w.word[1]);
	return send_request(cli,
			    json_pack("{s:s, s:s*}", "cmd", cmd, "name", w.n ? w.word[0] : NULL),
			    false, w.n ? one : all, w.n ? w.word[0] : "VMs");
}

int cmd_pause(struct cli *cli, int argc, char **argv)
{
	return one_or_all(cli, argc, argv, "pause",
			  "Stop the VM NAME, or all VMs, until `vpmu resume`.", "VM %s paused",
			  "all %s paused");
}

int cmd_resume(struct cli *cli, int argc, char **argv)
{
	return one_or_all(
		cli, argc, argv, "resume",
		"Let the VM NAME, or all VMs, run that are paused or wait for their start.",
		"VM %s resumed", "all %s resumed");
}

int cmd_reload(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.parser = cli_no_args,
		.doc = "Let vpmud read its configuration again. If the file is invalid, the error "
		       "is shown and the old configuration stays in force."};

	cli_parse(cli, &argp, argc, argv, NULL, NULL);
	return send_request(cli, json_pack("{s:s}", "cmd", "reload"), false, "%s reloaded",
			    "configuration");
}

int cmd_quit(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {.parser = cli_no_args,
					 .doc = "End the server and its VMs."};

	cli_parse(cli, &argp, argc, argv, NULL, NULL);
	return send_request(cli, json_pack("{s:s}", "cmd", "quit"), false, NULL, NULL);
}
