// SPDX-License-Identifier: GPL-2.0-or-later
/* Completion of vpmu's command line; see complete.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/complete.h"
#include "cli/metrics.h"
#include "cli/options.h"
#include "vpmu/event/event.h"

/* ---- from the server ---------------------------------------------------------------------- */

static const char *text(const json_t *row, const char *key)
{
	return json_string_value(json_object_get(row, key));
}

static const char *vm_of(const json_t *row)
{
	return text(row, "vm");
}

static const char *target_of(const json_t *row)
{
	return vm_of(row) ? vm_of(row) : text(row, "path");
}

static const char *tenant_of(const json_t *row)
{
	const char *kind = text(row, "kind");

	return kind && !strcmp(kind, "tenant") ? text(row, "path") : NULL;
}

static const char *session_of(const json_t *row)
{
	return text(row, "session");
}

static const char *event_of(const json_t *row)
{
	return text(row, "event");
}

/* Offer the name of each object of the array @rows in the answer to @cmd. Returns false if there is
 * no server. */
static bool offer_rows(const struct cli *cli, const char *cmd, const char *rows,
		       const char *(*name)(const json_t *row))
{
	struct client *client = client_open(cli, true);
	json_t *answer, *row;
	size_t i;

	if (!client)
		return false;
	answer = client_simple(client, cmd);
	json_array_foreach (json_object_get(answer, rows), i, row)
		complete_offer(&cli->completion->c, name(row), NULL);
	json_decref(answer);
	client_close(client);
	return true;
}

static void offer_vms(const struct cli *cli)
{
	offer_rows(cli, "list", "nodes", vm_of);
}

static void offer_tenants(const struct cli *cli)
{
	offer_rows(cli, "list", "nodes", tenant_of);
}

static void offer_targets(const struct cli *cli)
{
	offer_rows(cli, "list", "nodes", target_of);
}

static void offer_sessions(const struct cli *cli)
{
	offer_rows(cli, "sessions", "sessions", session_of);
}

static int offer_event(const struct vpmu_event_info *info, void *c)
{
	complete_offer(c, info->name, NULL);
	return 0;
}

static void offer_events(const struct cli *cli)
{
	if (!offer_rows(cli, "events", "events", event_of) && !client_named(cli))
		vpmu_event_list(offer_event, &cli->completion->c);
}

static void bad_file(const char *line, void *arg)
{
}

static void offer_metrics(const struct cli *cli)
{
	struct metric_set set = {0};
	char group[64];

	metrics_known(&set, bad_file, NULL);
	for (size_t i = 0; i < set.nr; i++) {
		const char *base = strrchr(set.metric[i].file, '/') + 1;

		complete_offer(&cli->completion->c, set.metric[i].name, NULL);
		snprintf(group, sizeof(group), "%.*s", (int)(strlen(base) - strlen(METRIC_SUFFIX)),
			 base);
		if (!i || strcmp(set.metric[i].file, set.metric[i - 1].file))
			complete_offer(&cli->completion->c, group, NULL);
	}
	metric_set_free(&set);
}

/* ---- values of options -------------------------------------------------------------------- */

static void complete_value(const struct cli *cli, const char *command)
{
	static const struct {
		const char *option;
		void (*offer)(const struct cli *cli);
	} live[] = {
		{"event", offer_events},
		{"metrics", offer_metrics},
		{"target", offer_targets},
		{"session", offer_sessions},
	};
	struct complete *c = &cli->completion->c;
	const struct argp_option *o = c->value;
	const char *const *value = cli_values(o->name);

	if (!strcmp(o->arg, "LIST")) {
		complete_item(c);
		complete_more();
	}
	/* brstack is a format of branch records only. */
	for (; value && *value; value++)
		if (strcmp(*value, "brstack") || !strcmp(command, "lbr"))
			complete_offer(c, *value, NULL);
	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
		if (!strcmp(live[i].option, o->name))
			live[i].offer(cli);
	if (complete_takes_files(o))
		complete_files(c);
}

/* ---- arguments ---------------------------------------------------------------------------- */

/* KEY=VALUE of `tenant set` or `vm VERB`. vpmu-vmm completes the keys of a VM. */
static void complete_key(const struct cli *cli, const char *verb)
{
	static const char *const vm[] = {"--vm", NULL};
	static const char *const set[] = {"weight=", "max_events=", NULL};
	static const char *const restore[] = {"name=",
					      "tenant=",
					      "policy=",
					      "memory=",
					      "allow=",
					      "deny=",
					      "trust=",
					      "weight=",
					      "max_events=",
					      "tenant_weight=",
					      "tenant_max_events=",
					      "engine=",
					      NULL};
	const char *const *key = !strcmp(verb, "set") ? set : restore;
	struct complete *c = &cli->completion->c;
	const char *eq = strchr(c->typed, '=');

	if (!eq && strcmp(verb, "add")) {
		complete_more();
		for (; *key; key++)
			complete_offer(c, *key, NULL);
	} else if (!strncmp(c->typed, "tenant=", 7)) {
		c->typed = eq + 1;
		offer_tenants(cli);
	} else if (!strncmp(c->typed, "name=", 5)) {
		c->typed = eq + 1;
		offer_vms(cli);
	} else if (!strchr(c->typed,
			   ',')) { /* --vm would take the comma for the end of the value */
		complete_by(c, "vpmu-vmm", vm);
	}
}

/* Offer candidates for @word of a usage line: "NAME", "[TARGET]", "KEY=VALUE...", "rm". */
static void complete_arg(const struct cli *cli, const char *command, const char *word)
{
	const struct completion *comp = cli->completion;

	word += *word == '[';
	if (islower(*word))
		complete_offer(&comp->c, word, NULL);
	else if (!strncmp(word, "TARGET", 6))
		offer_targets(cli);
	else if (!strncmp(word, "PATH", 4))
		offer_tenants(cli);
	else if (!strncmp(word, "FILE", 4))
		complete_files(&comp->c);
	else if (!strncmp(word, "COMMAND", 7))
		comp->commands(&comp->c);
	else if (!strncmp(word, "KEY=VALUE", 9))
		complete_key(cli, comp->c.args[0]);
	else if (!strncmp(word, "NAME", 4) && !strcmp(command, "detach"))
		offer_sessions(cli);
	else if (!strncmp(word, "NAME", 4) && strcmp(command, "attach"))
		offer_vms(cli);
}

/* @args_doc has one line per form of the command; a form may begin with a word. */
static void complete_args(const struct cli *cli, const char *command, const char *args_doc)
{
	const struct complete *c = &cli->completion->c;
	char text[256], *line, *lines = text, *word, *words;

	snprintf(text, sizeof(text), "%s", args_doc);
	while ((line = strsep(&lines, "\n"))) {
		size_t n = 0;
		bool fits = true;

		for (words = line; fits && (word = strsep(&words, " ")); n++) {
			if (n == c->nr_args || (n < c->nr_args && !words && strstr(word, "...")))
				complete_arg(cli, command, word);
			fits = n < c->nr_args && (!islower(*word) || !strcmp(word, c->args[n]));
		}
	}
}

/* ---- public functions --------------------------------------------------------------------- */

bool cli_complete_main(struct completion *comp, const struct argp *argp)
{
	struct cli cli = {.completion = comp};

	comp->c.watch = 'S';
	complete_scan(&comp->c, argp, true);
	if (comp->c.nr_args)
		return false;
	if (comp->c.value)
		complete_value(&cli, "");
	else if (*comp->c.typed == '-')
		complete_options(&comp->c, argp);
	else
		comp->commands(&comp->c);
	return true;
}

void cli_complete(struct cli *cli, const struct argp *argp, const char *name)
{
	struct complete *c = &cli->completion->c;
	const char *command = strchr(name, ' ') + 1;

	complete_scan(c, argp, false);
	cli->socket = c->watched;
	if (c->value)
		complete_value(cli, command);
	else if (c->typed == c->word && *c->typed == '-')
		complete_options(c, argp);
	else if (argp->args_doc)
		complete_args(cli, command, argp->args_doc);
	exit(0);
}
