// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu events and check: the events that the host can count, and other users of its counters.
 * Without a server they report what is known locally: names of events, and the abilities of perf
 * events.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/check.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/error.h"
#include "cli/field.h"
#include "cli/rows.h"
#include "service/program/memory.h"
#include "vpmu/event/event.h"
#include "vpmu/hostpmu_perf.h"
#include "vpmu/util/utf8.h"

#define BACKENDS_MAX 8

/*
 * Return the array @key of the server's answer to @cmd. If no server was named and none answers,
 * @local adds rows to an array, with the paths tried, and @note is printed. NULL after an error was
 * printed. The caller must json_decref() *@answer.
 */
static json_t *ask_or(struct cli *cli, const char *cmd, const char *key, json_t **answer,
		      void (*local)(json_t *rows, const char *tried), const char *note)
{
	bool named = client_named(cli);
	char tried[CLIENT_TRIED] = "";
	struct client *c =
		named ? client_open(cli, false) : client_reach(cli, tried, sizeof(tried));
	json_t *rows = rows_ask(c, cmd, key, answer);

	client_close(c);
	if (c || named)
		return rows;
	*answer = json_array();
	cli_error("no server: %s", note);
	local(*answer, tried);
	return *answer;
}

/* ---- events ------------------------------------------------------------------------------- */

static int add_event(const struct vpmu_event_info *info, void *rows)
{
	json_t *o = json_pack("{s:s, s:s, s:s*}", "event", info->name, "desc", info->desc, "alias",
			      info->alias);

	return json_array_append_new(rows, o);
}

static void local_events(json_t *rows, const char *tried)
{
	if (vpmu_event_list(add_event, rows))
		memory_out();
}

/* The backends in the rows of `events`, in order of occurrence. */
struct backends {
	const char *name[BACKENDS_MAX];
	size_t nr;
};

static void add_backend(struct backends *p, const char *name)
{
	for (size_t i = 0; i < p->nr; i++)
		if (strcmp(p->name[i], name) == 0)
			return;
	if (p->nr < BACKENDS_MAX)
		p->name[p->nr++] = name;
}

/* Return the quality of the event on a backend: exact, modelled, ..., or no. @o: the row or one of
 * its backends. */
static const char *how_well(struct fields *f, const json_t *o)
{
	if (!field_bool(f, o, "supported"))
		return "no";
	return field_string_or(f, o, "quality", "yes");
}

/* Add one field per backend to each row, named after it; "counted" if the server reports no
 * backends. */
static bool add_cells(json_t *rows, struct backends *backends)
{
	struct fields f = {0};
	json_t *row, *backend;
	size_t i, k;

	json_array_foreach (rows, i, row) {
		json_t *list = json_object_get(row, "backends");

		if (list)
			field_array(&f, row, "backends");
		json_array_foreach (list, k, backend) {
			const char *name = field_string(&f, backend, "backend");
			char key[80];

			snprintf(key, sizeof(key), "counted by %s", name);
			json_object_set_new(row, key, json_string(how_well(&f, backend)));
			add_backend(backends, name);
		}
		json_object_set_new(
			row, "counted",
			json_string(json_object_get(row, "supported") ? how_well(&f, row) : "?"));
	}
	return fields_ok(&f);
}

static int print_events(json_t *rows)
{
	struct column columns[BACKENDS_MAX + 4] = {
		{"EVENT", "event", COLUMN_TEXT}, {"ALIAS", "alias", COLUMN_TEXT | COLUMN_MAY_MISS}};
	char key[BACKENDS_MAX][80], title[BACKENDS_MAX][80];
	struct backends backends = {.nr = 0};
	size_t n = 2;

	if (!add_cells(rows, &backends))
		return 1;
	for (size_t i = 0; i < backends.nr; i++) {
		snprintf(key[i], sizeof(key[i]), "counted by %s", backends.name[i]);
		snprintf(title[i], sizeof(title[i]), "COUNTED(%s)", backends.name[i]);
		columns[n++] = (struct column){backends.nr > 1 ? title[i] : "COUNTED", key[i],
					       COLUMN_TEXT | COLUMN_MAY_MISS};
	}
	if (!backends.nr)
		columns[n++] = (struct column){"COUNTED", "counted", COLUMN_TEXT};
	columns[n++] = (struct column){"MEANING", "desc", COLUMN_TEXT};
	if (backends.nr == 1)
		printf("# backend: %s\n", backends.name[0]);
	return rows_print(rows, columns, false);
}

int cmd_events(struct cli *cli, int argc, char **argv)
{
	static const struct column columns[] = {
		{"EVENT", "event", COLUMN_TEXT}, {"MEANING", "desc", COLUMN_TEXT}, {NULL, NULL, 0}};
	bool json = rows_parse_json(
		cli, argc, argv,
		"Show the names of events. COUNTED: how well the server's host counts the event "
		"(exact, modelled, estimated or tsc), or no if it does not count it. ? means that "
		"it is not known: no server runs, or the server has no counter yet. With several "
		"backends each has a column. Names of libpfm4 (skl::UOPS_RETIRED:ALL) and rHEX are "
		"events as well.");
	json_t *answer = NULL,
	       *rows = ask_or(
		       cli, "events", "events", &answer, local_events,
		       "these are the names only; only a server reports which its host counts");
	int ret = 1;

	if (rows && json)
		ret = rows_print(rows, columns, true);
	else if (rows)
		ret = print_events(rows);
	json_decref(answer);
	return ret;
}

/* ---- check -------------------------------------------------------------------------------- */

static int add_check(const char *what, bool ok, const char *why, void *rows)
{
	json_t *o = json_pack("{s:s, s:b, s:s}", "what", what, "ok", ok, "why", why);

	return json_array_append_new(rows, o);
}

/* A path from an environment variable may contain anything. */
static void make_text(char *s)
{
	while (*s) {
		size_t len = utf8_shown(s, strlen(s));

		if (!len)
			*s = '?';
		s += len ? len : 1;
	}
}

static void local_check(json_t *rows, const char *tried)
{
	char why[CLIENT_TRIED + 40];

	snprintf(why, sizeof(why), "none answers: %s", tried);
	make_text(why);
	add_check("server", false, why, rows);
	/* vpmud's pins at the default path. Only root sees them. */
	if (access("/sys/fs/bpf/vpmu/link", F_OK) == 0)
		add_check("counts without vpmud", false,
			  "a former vpmud's program counts at every context switch, for the "
			  "next vpmud: /sys/fs/bpf/vpmu",
			  rows);
	if (vpmu_hostpmu_perf_check(VPMU_PERF_LEAVE, add_check, rows))
		memory_out();
}

/* Collect the users of this host's counters. */
static json_t *ask_holders(void)
{
	json_t *rows = json_array();

	holders_check("", add_check, rows);
	return rows;
}

/* Add a remedy to each row that is not ok, if one is known. */
static void add_remedies(json_t *rows)
{
	json_t *row;
	size_t i;

	json_array_foreach (rows, i, row) {
		const char *what = json_string_value(json_object_get(row, "what"));
		const char *why = json_string_value(json_object_get(row, "why"));
		const char *remedy = what && why && json_is_false(json_object_get(row, "ok"))
					     ? remedy_for(what, why)
					     : NULL;

		if (remedy && *remedy)
			json_object_set_new(row, "remedy", json_string(remedy));
	}
}

/* Print a line per remedy with the rows that it applies to. @of: both lists of rows. */
static void print_remedies(json_t *const *of)
{
	const char *remedy, *said;
	bool title = false, first;
	json_t *row, *other;
	size_t i, k;

	for (int list = 0; list < 2; list++)
		json_array_foreach (of[list], i, row) {
			remedy = json_string_value(json_object_get(row, "remedy"));
			if (!remedy || json_object_get(row, "said"))
				continue;
			if (!title)
				puts("\n# what to do");
			title = first = true;
			for (int l = list; l < 2; l++)
				json_array_foreach (of[l], k, other) {
					said = json_string_value(json_object_get(other, "remedy"));
					if (!said || strcmp(said, remedy) != 0)
						continue;
					printf("%s%s", first ? "" : ", ",
					       json_string_value(json_object_get(other, "what")));
					json_object_set_new(other, "said", json_true());
					first = false;
				}
			printf(": %s\n", remedy);
		}
}

/* Print the text. Takes rows out of @rows and @holders. Returns the exit status. */
static int print_check(json_t *rows, json_t *holders, const struct column *columns)
{
	static const struct column by_design[] = {
		COLUMN_BACKEND,
		{"WHAT", "what", COLUMN_TEXT},
		{"WHY", "why", COLUMN_TEXT},
		{"INSTEAD", "remedy", COLUMN_TEXT | COLUMN_MAY_MISS},
		{NULL, NULL, 0}};
	json_t *design = json_array(), *part[3];
	int ret;

	check_view_split(rows, design);
	check_view_split(holders, design);
	part[0] = check_view_fold(rows);
	part[1] = check_view_fold(holders);
	part[2] = check_view_fold(design);
	check_view_verdict(part[0], part[1]);
	ret = rows_print(part[0], columns, false);
	puts("\n# users of the counters of this host");
	ret |= rows_print(part[1], columns, false);
	if (json_array_size(design)) {
		puts("\n# as designed or configured: no problem");
		ret |= rows_print(part[2], by_design, false);
	}
	print_remedies(part);
	for (int i = 0; i < 3; i++)
		json_decref(part[i]);
	json_decref(design);
	return ret;
}

int cmd_check(struct cli *cli, int argc, char **argv)
{
	static const struct column columns[] = {COLUMN_BACKEND,
						{"WHAT", "what", COLUMN_TEXT},
						{"OK", "ok", COLUMN_BOOL},
						{"WHY", "why", COLUMN_TEXT},
						{NULL, NULL, 0}};
	bool json = rows_parse_json(
		cli, argc, argv,
		"Show how many problems there are, and what the server's host can count, and why "
		"not. Without a server: what perf events can count here for this user. Then show "
		"the other users of this host's counters, as far as this user may see them. That "
		"part opens no perf events. Then show what is so by design, and what to do about "
		"each line with no. Lines of one reason are one line; -j has them all.");
	/* First: without a server the other part briefly opens events. */
	json_t *holders, *answer = NULL, *rows;
	int ret;

	holders = ask_holders();
	rows = ask_or(cli, "check", "rows", &answer, local_check,
		      "these are the perf events of this machine only");
	ret = rows && rows_check(rows, columns) ? 0 : 1;
	if (!ret) {
		add_remedies(rows);
		add_remedies(holders);
		if (json)
			ret = rows_print(rows, columns, true) || rows_print(holders, columns, true);
		else
			ret = print_check(rows, holders, columns);
	}
	json_decref(answer);
	json_decref(holders);
	return ret;
}
