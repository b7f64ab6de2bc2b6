// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu metrics: what metrics there are for -M, without asking a server; and what vpmud exports for
 * Prometheus, to standard output or a file. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/error.h"
#include "cli/metrics.h"
#include "cli/field.h"
#include "cli/rows.h"
#include "exporter/textfile.h"
#include "service/program/memory.h"

/* The command fails if a file is wrong, but shows all others. */
static void show_bad(const char *line, void *arg)
{
	bool *bad = arg;

	cli_error("metrics: %s", line);
	*bad = true;
}

/* "branch", of ".../branch.metrics". */
static json_t *group_of(const struct metric *m)
{
	const char *base = strrchr(m->file, '/') + 1;

	return json_sprintf("%.*s", (int)(strlen(base) - strlen(METRIC_SUFFIX)), base);
}

static void add_metric(json_t *rows, const struct metric *m)
{
	json_t *events = json_array(), *o;

	for (size_t i = 0; i < m->formula.nr_events; i++)
		json_array_append_new(events, json_string(m->formula.event[i]));
	o = json_pack("{s:s, s:o, s:s, s:s, s:o, s:s, s:s}", "metric", m->name, "group",
		      group_of(m), "unit", m->unit, "formula", m->text, "events", events, "desc",
		      m->description, "file", m->file);
	json_array_append_new(rows, o);
}

/* ---- what vpmud exports --------------------------------------------------------------------- */

/* All of @lines, or nothing, to the file at @path; NULL: to standard output. */
static int write_out(const char *path, const json_t *lines)
{
	char *text = NULL, err[600];
	size_t len = 0, i;
	FILE *to = path ? open_memstream(&text, &len) : stdout;
	const json_t *line;
	int ret = 0;

	json_array_foreach (lines, i, line)
		if (!to || (fprintf(to, "%s\n", json_string_value(line)) < 0 && path))
			memory_out();
	/* When memory runs out, fclose may say nothing of it. */
	if (path && (fclose(to) || !text))
		memory_out();
	if (!path && ferror(to)) {
		cli_error("metrics: cannot write");
		ret = 1;
	} else if (path && textfile_write(path, text, len, err, sizeof(err))) {
		cli_error("metrics: %s", err);
		ret = 1;
	}
	free(text);
	return ret;
}

static int show_exported(struct cli *cli, bool openmetrics, const char *path)
{
	struct client *c = client_open(cli, false);
	struct fields f = {0};
	json_t *answer = c ? client_ask(c, json_pack("{s:s, s:b}", "cmd", "metrics", "openmetrics",
						     openmetrics))
			   : NULL;
	const json_t *lines, *line;
	size_t i;
	int ret = 1;

	if (answer) {
		lines = field_array(&f, answer, "lines");
		json_array_foreach (lines, i, line)
			if (!json_is_string(line))
				field_wrong(&f, "lines");
		if (fields_ok(&f))
			ret = write_out(path, lines);
	}
	json_decref(answer);
	client_close(c);
	return ret;
}

/* ---- the command ---------------------------------------------------------------------------- */

struct metrics_cmd {
	bool json, prometheus, openmetrics;
	const char *textfile;
};

enum { KEY_PROMETHEUS = 256, KEY_OPENMETRICS, KEY_TEXTFILE };

static error_t parse_metrics(int key, char *arg, struct argp_state *state)
{
	struct metrics_cmd *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->json;
		return 0;
	case KEY_PROMETHEUS:
		o->prometheus = true;
		return 0;
	case KEY_OPENMETRICS:
		o->openmetrics = true;
		return 0;
	case KEY_TEXTFILE:
		cli_once(state, key, "--textfile");
		o->textfile = arg;
		return 0;
	case ARGP_KEY_END:
		if (o->json + (o->prometheus || o->textfile) + o->openmetrics > 1)
			cli_usage("metrics: give one of -j, --prometheus or --textfile, "
				  "--openmetrics");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_metrics(struct cli *cli, int argc, char **argv)
{
	static const struct column columns[] = {
		{"METRIC", "metric", COLUMN_TEXT}, {"GROUP", "group", COLUMN_TEXT},
		{"UNIT", "unit", COLUMN_TEXT},	   {"FORMULA", "formula", COLUMN_TEXT},
		{"MEANING", "desc", COLUMN_TEXT},  {NULL, NULL, 0}};
	static const struct argp_option options[] = {
		{"prometheus", KEY_PROMETHEUS, NULL, 0,
		 "show what vpmud exports, in Prometheus's text format", 0},
		{"openmetrics", KEY_OPENMETRICS, NULL, 0, "the same as OpenMetrics", 0},
		{"textfile", KEY_TEXTFILE, "FILE", 0,
		 "write it to FILE, for node_exporter's textfile collector: whole, or not at all",
		 0},
		{0}};
	static const struct argp_child children[] = {{&cli_json_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse_metrics,
		.children = children,
		.doc = "Show the metrics that -M takes. -M with the name of a GROUP "
		       "means all metrics of the group, which is a file. Your own files "
		       "are in ~/.config/vpmu/metrics; vpmu-metrics(5) has their "
		       "format. With --prometheus, --openmetrics or --textfile: what vpmud "
		       "exports, for administrators."};
	struct metrics_cmd o = {0};
	struct metric_set set = {0};
	json_t *rows;
	bool bad = false;
	int ret;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (o.prometheus || o.openmetrics || o.textfile)
		return show_exported(cli, o.openmetrics, o.textfile);
	rows = json_array();
	if (metrics_known(&set, show_bad, &bad))
		bad = true;
	for (size_t i = 0; i < set.nr; i++)
		add_metric(rows, &set.metric[i]);
	ret = rows_print(rows, columns, o.json);
	json_decref(rows);
	metric_set_free(&set);
	return bad ? 1 : ret;
}
