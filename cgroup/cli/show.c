// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu list, events, check, sessions, sharing, conservation: one request, one table or JSON. */
#include <errno.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/client.h"
#include "vpmu/event/event.h"
#include "vpmu/hostpmu_perf.h"

struct show_opts {
	bool json;
};

static const struct argp_option options[] = {
	{"json", 'j', NULL, 0, "One JSON object per line", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct show_opts *o = state->input;

	if (key == 'j') {
		o->json = true;
		return 0;
	}
	return cli_no_args(key, arg, state);
}

static bool parse_json(struct cli *cli, int argc, char **argv, const char *doc)
{
	const struct argp argp = {.options = options, .parser = parse, .doc = doc};
	struct show_opts o = {0};

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	return o.json;
}

/* Ask @cmd and return its array @key; *answer is what to free. */
static json_t *ask_rows(struct cli *cli, const char *cmd, const char *key, json_t **answer)
{
	struct client *c = client_open(cli, false);
	json_t *rows;

	*answer = c ? client_simple(c, cmd) : NULL;
	client_close(c);
	rows = json_object_get(*answer, key);
	if (*answer && !json_is_array(rows)) {
		cli_error("the server's answer is none of vpmu's protocol");
		json_decref(*answer);
		*answer = NULL;
	}
	return *answer ? rows : NULL;
}

static void print_json(const json_t *rows)
{
	const json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		json_dumpf(row, stdout, JSON_COMPACT);
		putchar('\n');
	}
}

/* A field as text for a cell: strings, integers, booleans as @yes or @no; control characters do
 * not reach the terminal. */
static void cell(const json_t *row, const char *key, char *buf, size_t len)
{
	const json_t *v = json_object_get(row, key);

	buf[0] = '\0';
	if (json_is_string(v))
		snprintf(buf, len, "%s", json_string_value(v));
	else if (json_is_integer(v))
		snprintf(buf, len, "%lld", (long long)json_integer_value(v));
	else if (json_is_boolean(v))
		snprintf(buf, len, "%s", json_is_true(v) ? "yes" : "no");
	for (char *p = buf; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

static struct libscols_table *new_table(void)
{
	struct libscols_table *t = scols_new_table();

	if (t)
		scols_table_set_termforce(t, SCOLS_TERMFORCE_NEVER);
	else
		cli_error("out of memory");
	return t;
}

/* A table of @rows with columns @title showing @key; NULL-terminated. A title that starts with
 * '>' is right aligned. */
static int print_columns(const json_t *rows, const char *const *title, const char *const *key)
{
	struct libscols_table *t = new_table();
	const json_t *row;
	char buf[400];
	size_t i;

	if (!t)
		return 1;
	for (size_t c = 0; title[c]; c++)
		scols_table_new_column(t, title[c] + (*title[c] == '>'), 0,
				       *title[c] == '>' ? SCOLS_FL_RIGHT : 0);
	json_array_foreach (rows, i, row) {
		struct libscols_line *line = scols_table_new_line(t, NULL);

		for (size_t c = 0; line && key[c]; c++) {
			cell(row, key[c], buf, sizeof(buf));
			scols_line_set_data(line, c, buf);
		}
	}
	scols_print_table(t);
	scols_unref_table(t);
	return 0;
}

/* ---- list --------------------------------------------------------------------------------- */

/* Fields every node has or that the tree shows, and what is too long for it; what else a server
 * adds goes into INFO. */
static bool shown_elsewhere(const char *key)
{
	static const char *const known[] = {"kind",  "path", "depth",  "vm",
					    "vcpus", "id",   "cgroup", "image"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(key, known[i]) == 0)
			return true;
	return false;
}

static void info_cell(const json_t *row, char *buf, size_t len)
{
	const char *key;
	size_t n = 0;
	json_t *v;

	buf[0] = '\0';
	json_object_foreach ((json_t *)row, key, v) {
		char value[200];

		if (shown_elsewhere(key))
			continue;
		cell(row, key, value, sizeof(value));
		if (n < len)
			n += (size_t)snprintf(buf + n, len - n, "%s%s=%s", n ? " " : "", key,
					      value);
	}
	if (!n)
		cell(row, "cgroup", buf, len);
}

static int print_tree(const json_t *rows)
{
	struct libscols_table *t = new_table();
	struct libscols_line *at[64] = {NULL};
	const json_t *row;
	char buf[400];
	size_t i;

	if (!t)
		return 1;
	scols_table_new_column(t, "NAME", 0, SCOLS_FL_TREE);
	scols_table_new_column(t, "KIND", 0, 0);
	scols_table_new_column(t, "VCPUS", 0, SCOLS_FL_RIGHT);
	scols_table_new_column(t, "INFO", 0, 0);
	json_array_foreach (rows, i, row) {
		size_t depth = (size_t)json_integer_value(json_object_get(row, "depth")) % 64;
		struct libscols_line *line = scols_table_new_line(t, depth ? at[depth - 1] : NULL);
		const char *slash;

		if (!line)
			break;
		at[depth] = line;
		cell(row, json_object_get(row, "vm") ? "vm" : "path", buf, sizeof(buf));
		slash = strrchr(buf, '/');
		scols_line_set_data(line, 0, depth && slash ? slash + 1 : buf);
		cell(row, "kind", buf, sizeof(buf));
		scols_line_set_data(line, 1, buf);
		cell(row, "vcpus", buf, sizeof(buf));
		scols_line_set_data(line, 2, buf);
		info_cell(row, buf, sizeof(buf));
		scols_line_set_data(line, 3, buf);
	}
	scols_print_table(t);
	scols_unref_table(t);
	return 0;
}

int cmd_list(struct cli *cli, int argc, char **argv)
{
	bool json = parse_json(cli, argc, argv, "Tenants and VMs of the server, as a tree.");
	json_t *answer, *rows = ask_rows(cli, "list", "nodes", &answer);
	int ret = 1;

	if (rows && json)
		print_json(rows);
	if (rows)
		ret = json ? 0 : print_tree(rows);
	json_decref(answer);
	return ret;
}

/* ---- events ------------------------------------------------------------------------------- */

static int local_event(const struct vpmu_event_info *info, void *arg)
{
	json_t *o = json_pack("{s:s, s:s, s:s*}", "event", info->name, "desc", info->desc, "alias",
			      info->alias);

	return o && json_array_append_new(arg, o) == 0 ? 0 : -ENOMEM;
}

/* "counted" for people: yes, how well, or why not. */
static int add_counted(json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		const json_t *known = json_object_get(row, "supported");
		const char *q = json_string_value(json_object_get(row, "quality"));
		char text[300] = "?";

		if (json_is_true(known))
			snprintf(text, sizeof(text), "%s", q ? q : "yes");
		else if (json_is_false(known))
			snprintf(text, sizeof(text), "no");
		if (json_object_set_new(row, "counted", json_string(text)))
			return -ENOMEM;
	}
	return 0;
}

int cmd_events(struct cli *cli, int argc, char **argv)
{
	static const char *const title[] = {"EVENT", "ALIAS", "COUNTED", "MEANING", NULL};
	static const char *const key[] = {"event", "alias", "counted", "desc", NULL};
	bool json = parse_json(cli, argc, argv,
			       "Event names. COUNTED: exact, modelled, estimated or tsc where the "
			       "server's host counts it, no where it does not, ? where nobody "
			       "knows: no server runs, or no counter was there yet. Names of "
			       "libpfm4 (skl::UOPS_RETIRED:ALL) and rHEX are accepted as well.");
	bool named = client_named(cli);
	struct client *c = client_open(cli, !named);
	json_t *answer = NULL, *rows;
	int ret = 1;

	if (!c && named)
		return 1;
	if (c) {
		answer = client_simple(c, "events");
		client_close(c);
		if (!answer)
			return 1;
		rows = json_object_get(answer, "events");
	} else {
		rows = answer = json_array();
		if (vpmu_event_list(local_event, rows)) {
			cli_error("events: out of memory");
			goto out;
		}
		cli_error("no server: names only; what a host counts is known to its server");
	}
	if (json) {
		print_json(rows);
		ret = 0;
	} else if (add_counted(rows) == 0) {
		ret = print_columns(rows, title, key);
	}
out:
	json_decref(answer);
	return ret;
}

/* ---- the others --------------------------------------------------------------------------- */

/* Append what the server answers to @cmd, its array of that name, to @all. A server of before has
 * no such command: then there are none. */
static int add_all(struct client *c, const char *cmd, json_t *all)
{
	char *err = NULL;
	json_t *answer = client_try(c, json_pack("{s:s}", "cmd", cmd), &err);
	bool none = !answer && err;

	json_array_extend(all, json_object_get(answer, cmd));
	free(err);
	json_decref(answer);
	return answer || none ? 0 : -1;
}

static const char *word(const json_t *row, const char *key)
{
	const char *text = json_string_value(json_object_get(row, key));

	return text ? text : "?";
}

/* One text for the cells where sessions, profiles and captures differ. */
static void describe_row(json_t *row)
{
	const json_t *events = json_object_get(row, "events"), *e;
	const char *name = NULL, *kind = "session";
	char text[300] = "";
	size_t k, n = 0;

	json_array_foreach (events, k, e) {
		if (n < sizeof(text) && json_is_string(e))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? "," : "",
					      json_string_value(e));
	}
	if (json_object_get(row, "profile")) {
		kind = name = "profile";
		snprintf(text, sizeof(text), "%s every %s", word(row, "event"),
			 word(row, "period"));
	} else if (json_object_get(row, "capture")) {
		kind = name = "capture";
		snprintf(text, sizeof(text), "%s", json_string_value(json_object_get(row, "mode")));
	}
	if (name)
		json_object_set(row, "session", json_object_get(row, name));
	json_object_set_new(row, "kind", json_string(kind));
	json_object_set_new(row, "list", json_string(text));
}

int cmd_sessions(struct cli *cli, int argc, char **argv)
{
	static const char *const title[] = {"NAME",  "KIND", "SCOPE",  "TARGET",
					    ">ROWS", "KEEP", "EVENTS", NULL};
	static const char *const key[] = {"session", "kind", "scope", "target",
					  "nr-rows", "keep", "list",  NULL};
	bool json = parse_json(cli, argc, argv,
			       "Sessions that count now, and profiles and captures. KEEP: goes on "
			       "without the client that started it.");
	struct client *c = client_open(cli, false);
	json_t *all = json_array(), *row;
	size_t i;
	int ret = 1;

	if (!c || add_all(c, "sessions", all) || add_all(c, "profiles", all) ||
	    add_all(c, "captures", all))
		goto out;
	ret = 0;
	if (json) {
		print_json(all);
		goto out;
	}
	json_array_foreach (all, i, row)
		describe_row(row);
	ret = print_columns(all, title, key);
out:
	client_close(c);
	json_decref(all);
	return ret;
}

int cmd_sharing(struct cli *cli, int argc, char **argv)
{
	bool json = parse_json(cli, argc, argv,
			       "How many consumers - guest counters and operator "
			       "sessions' values - are served by how many host "
			       "counters.");
	struct client *c = client_open(cli, false);
	json_t *answer = c ? client_simple(c, "sharing") : NULL;
	char consumers[24], keys[24], counters[24];

	client_close(c);
	if (!answer)
		return 1;
	cell(answer, "consumers", consumers, sizeof(consumers));
	cell(answer, "keys", keys, sizeof(keys));
	cell(answer, "host-counters", counters, sizeof(counters));
	if (json)
		printf("{\"consumers\":%s,\"keys\":%s,\"host-counters\":%s}\n", consumers, keys,
		       counters);
	else
		printf("%s consumers of %s distinct events on %s host counters\n", consumers, keys,
		       counters);
	json_decref(answer);
	return 0;
}

int cmd_conservation(struct cli *cli, int argc, char **argv)
{
	static const char *const title[] = {">PCPU",	"EVENT", ">HARDWARE",
					    ">CHARGED", "EQUAL", NULL};
	static const char *const key[] = {"pcpu", "event", "hardware", "charged", "equal", NULL};
	bool json =
		parse_json(cli, argc, argv,
			   "What each CPU's hardware counted of each event, and the sum of what "
			   "was charged to tenants, VMs and the host. Exit status 1 when they "
			   "differ anywhere.");
	json_t *answer, *rows = ask_rows(cli, "conservation", "rows", &answer), *row;
	int ret = 1;
	size_t i;

	if (!rows)
		return 1;
	ret = 0;
	json_array_foreach (rows, i, row) {
		const char *hw = json_string_value(json_object_get(row, "hardware"));
		const char *ch = json_string_value(json_object_get(row, "charged"));
		bool equal = hw && ch && strcmp(hw, ch) == 0;

		ret |= !equal;
		if (!json)
			json_object_set_new(row, "equal", json_string(equal ? "yes" : "NO"));
	}
	if (json)
		print_json(rows);
	else if (print_columns(rows, title, key))
		ret = 1;
	json_decref(answer);
	return ret;
}

static int local_row(const char *what, bool ok, const char *why, void *rows)
{
	json_t *o = json_pack("{s:s, s:b, s:s}", "what", what, "ok", ok, "why", why);

	return o && json_array_append_new(rows, o) == 0 ? 0 : -ENOMEM;
}

int cmd_check(struct cli *cli, int argc, char **argv)
{
	static const char *const title[] = {"WHAT", "OK", "WHY", NULL};
	static const char *const key[] = {"what", "ok", "why", NULL};
	bool json = parse_json(cli, argc, argv,
			       "What the server's host can count, and why not. Without a server: "
			       "what perf events count for this user here.");
	bool named = client_named(cli);
	struct client *c = client_open(cli, !named);
	json_t *answer = NULL, *rows = NULL;
	int ret = 1;

	if (!c && named)
		return 1;
	if (c) {
		answer = client_simple(c, "check");
		client_close(c);
		rows = json_object_get(answer, "rows");
	} else {
		cli_error("no server: perf events of this machine only");
		rows = answer = json_array();
		if (vpmu_hostpmu_perf_check(local_row, rows)) {
			cli_error("check: out of memory");
			rows = NULL;
		}
	}
	if (rows && json)
		print_json(rows);
	if (rows)
		ret = json ? 0 : print_columns(rows, title, key);
	json_decref(answer);
	return ret;
}
