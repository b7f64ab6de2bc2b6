// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu list, sessions and conservation: a request, then a table or JSON lines. */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/field.h"
#include "cli/rows.h"
#include "service/program/memory.h"

#define DEPTH_MAX 63

/* ---- list --------------------------------------------------------------------------------- */

/* Return true if a field has a place in the tree or is too long for it. All others go to INFO. */
static bool shown_elsewhere(const char *key)
{
	static const char *const known[] = {"kind", "path",   "depth", "vm",	 "vcpus",
					    "id",   "cgroup", "image", "backend"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(key, known[i]) == 0)
			return true;
	return false;
}

/* "state=running engine=emulator ...": all that the server reports of a VM; of a tenant its
 * cgroup. */
static void info_cell(const json_t *row, char buf[CELL_BYTES])
{
	const char *key;
	size_t n = 0;
	json_t *v;

	buf[0] = '\0';
	json_object_foreach ((json_t *)row, key, v) {
		char value[CELL_BYTES];

		if (shown_elsewhere(key))
			continue;
		rows_cell(row, key, value);
		if (n < CELL_BYTES)
			n += (size_t)snprintf(buf + n, CELL_BYTES - n, "%s%s=%s", n ? " " : "", key,
					      value);
	}
	if (!n)
		rows_cell(row, "cgroup", buf);
}

/* A VM's name, or the last part of a tenant's path; the top row has its whole path. */
static const char *name_cell(const json_t *row, unsigned int depth, char buf[CELL_BYTES])
{
	const char *slash;

	rows_cell(row, json_object_get(row, "vm") ? "vm" : "path", buf);
	slash = strrchr(buf, '/');
	return depth && slash ? slash + 1 : buf;
}

static int print_tree(const json_t *rows)
{
	struct libscols_line *at[DEPTH_MAX + 1] = {NULL}; /* the last line of each depth */
	struct libscols_table *t = rows_new_table();
	struct fields f = {0};
	char buf[CELL_BYTES];
	const char *backend;
	const json_t *row;
	bool several;
	size_t i;

	backend = rows_one_backend(rows, &several);
	scols_table_new_column(t, "NAME", 0, SCOLS_FL_TREE);
	scols_table_new_column(t, "KIND", 0, 0);
	scols_table_new_column(t, "VCPUS", 0, SCOLS_FL_RIGHT);
	if (several)
		scols_table_new_column(t, "BACKEND", 0, 0);
	scols_table_new_column(t, "INFO", 0, 0);
	json_array_foreach (rows, i, row) {
		unsigned int depth = field_int(&f, row, "depth", DEPTH_MAX);
		struct libscols_line *line = scols_table_new_line(t, depth ? at[depth - 1] : NULL);
		size_t cell = 0;

		if (!line)
			memory_out();
		if (f.wrong)
			break;
		at[depth] = line;
		scols_line_set_data(line, cell++, name_cell(row, depth, buf));
		rows_cell(row, "kind", buf);
		scols_line_set_data(line, cell++, buf);
		rows_cell(row, "vcpus", buf);
		scols_line_set_data(line, cell++, buf);
		if (several) {
			rows_cell(row, "backend", buf);
			scols_line_set_data(line, cell++, buf);
		}
		info_cell(row, buf);
		scols_line_set_data(line, cell++, buf);
	}
	if (fields_ok(&f)) {
		if (backend)
			printf("# backend: %s\n", backend);
		scols_print_table(t);
	}
	scols_unref_table(t);
	return f.wrong ? 1 : 0;
}

int cmd_list(struct cli *cli, int argc, char **argv)
{
	static const struct column columns[] = {
		{"NAME", "path", COLUMN_TEXT},
		{"KIND", "kind", COLUMN_TEXT},
		{"", "vm", COLUMN_TEXT | COLUMN_MAY_MISS},
		{"", "depth", COLUMN_NUMBER},
		{"VCPUS", "vcpus", COLUMN_NUMBER | COLUMN_MAY_MISS},
		COLUMN_BACKEND,
		{NULL, NULL, 0},
	};
	bool json = rows_parse_json(cli, argc, argv,
				    "Show the server's tenants and VMs as a tree. INFO: properties "
				    "of a VM. BACKEND: the source of its counts.");
	struct client *c = client_open(cli, false);
	json_t *answer, *rows = rows_ask(c, "list", "nodes", &answer);
	int ret = 1;

	if (rows && json)
		ret = rows_print(rows, columns, true);
	else if (rows && rows_check(rows, columns))
		ret = print_tree(rows);
	json_decref(answer);
	client_close(c);
	return ret;
}

/* ---- sessions ----------------------------------------------------------------------------- */

/* Append the array @cmd of the answer to @cmd to @all. false after an error was printed. */
static bool add_all(struct client *c, const char *cmd, json_t *all)
{
	json_t *answer = client_simple(c, cmd);
	struct fields f = {0};
	bool ok = answer != NULL;

	if (ok) {
		field_array(&f, answer, cmd);
		ok = fields_ok(&f) && json_array_extend(all, json_object_get(answer, cmd)) == 0;
	}
	json_decref(answer);
	return ok;
}

/* Add to @row the columns that sessions, profiles and captures share. */
static void show_describe(struct fields *f, json_t *row)
{
	const char *kind = "session";
	char text[300] = "";

	if (json_object_get(row, "profile")) {
		kind = "profile";
		snprintf(text, sizeof(text), "%s every %s", field_string(f, row, "event"),
			 field_string(f, row, "period"));
	} else if (json_object_get(row, "capture")) {
		kind = "capture";
		snprintf(text, sizeof(text), "%s", field_string(f, row, "mode"));
	} else {
		const json_t *events = field_array(f, row, "events"), *e;
		size_t i, n = 0;

		json_array_foreach (events, i, e) {
			if (n < sizeof(text) && json_is_string(e))
				n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s",
						      n ? "," : "", json_string_value(e));
		}
	}
	json_object_set_new(row, "name", json_string(field_string(f, row, kind)));
	json_object_set_new(row, "kind", json_string(kind));
	json_object_set_new(row, "counts", json_string(text));
}

int cmd_sessions(struct cli *cli, int argc, char **argv)
{
	static const struct column described[] = {
		{"NAME", "name", COLUMN_TEXT},
		{"KIND", "kind", COLUMN_TEXT},
		{"SCOPE", "scope", COLUMN_TEXT | COLUMN_MAY_MISS},
		{"TARGET", "target", COLUMN_TEXT},
		{"ROWS", "nr-rows", COLUMN_NUMBER | COLUMN_MAY_MISS},
		{"KEEP", "keep", COLUMN_BOOL},
		COLUMN_BACKEND,
		{"EVENTS", "counts", COLUMN_TEXT},
		{NULL, NULL, 0},
	};
	static const struct column plain[] = {{NULL, NULL, 0}};
	bool json = rows_parse_json(cli, argc, argv,
				    "Show the sessions, profiles and captures that run now. KEEP: "
				    "it goes on without the client that started it.");
	struct client *c = client_open(cli, false);
	json_t *all = json_array(), *row;
	struct fields f = {0};
	size_t i;
	int ret = 1;

	if (c && add_all(c, "sessions", all) && add_all(c, "profiles", all) &&
	    add_all(c, "captures", all)) {
		json_array_foreach (all, i, row)
			if (!json)
				show_describe(&f, row);
		if (fields_ok(&f))
			ret = rows_print(all, json ? plain : described, json);
	}
	client_close(c);
	json_decref(all);
	return ret;
}

/* ---- conservation ------------------------------------------------------------------------- */

int cmd_conservation(struct cli *cli, int argc, char **argv)
{
	static const struct column columns[] = {
		COLUMN_BACKEND,
		{"PCPU", "pcpu", COLUMN_NUMBER},
		{"EVENT", "event", COLUMN_TEXT},
		{"HARDWARE", "hardware", COLUMN_NUMBER},
		{"CHARGED", "charged", COLUMN_NUMBER},
		{"EQUAL", "equal", COLUMN_TEXT | COLUMN_MAY_MISS},
		{NULL, NULL, 0},
	};
	bool json = rows_parse_json(
		cli, argc, argv,
		"Compare the hardware's count of each event on each CPU with the sum that was "
		"charged to tenants, VMs and the host. Exit status 1 when they differ anywhere.");
	struct client *c = client_open(cli, false);
	json_t *answer, *rows = rows_ask(c, "conservation", "rows", &answer), *row;
	struct fields f = {0};
	int differ = 0, ret = 1;
	size_t i;

	json_array_foreach (rows, i, row) {
		bool equal = field_u64(&f, row, "hardware") == field_u64(&f, row, "charged");

		differ |= !equal;
		if (!json)
			json_object_set_new(row, "equal", json_string(equal ? "yes" : "NO"));
	}
	if (rows && fields_ok(&f))
		ret = rows_print(rows, columns, json) | differ;
	json_decref(answer);
	client_close(c);
	return ret;
}
