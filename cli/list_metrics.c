// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu metrics: lists the metrics available for -M, without a server. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/error.h"
#include "cli/metrics.h"
#include "cli/rows.h"

/* Report an invalid file: the command fails, but lists all others. */
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

/* ---- the command ---------------------------------------------------------------------------- */

struct metrics_cmd {
	bool json, prometheus, openmetrics;
	const char *textfile, *config;
};

enum { KEY_PROMETHEUS = 256, KEY_OPENMETRICS, KEY_TEXTFILE, KEY_CONFIG };

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
		return cli_text(state, key, "--textfile", arg, &o->textfile);
	case KEY_CONFIG:
		return cli_text(state, key, "--config", arg, &o->config);
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
		 "Show what vpmu-exporter serves, in Prometheus's text format", 0},
		{"openmetrics", KEY_OPENMETRICS, NULL, 0, "The same as OpenMetrics", 0},
		{"textfile", KEY_TEXTFILE, "FILE", 0,
		 "Write it to FILE, for node_exporter's textfile collector: whole, or not at all",
		 0},
		{"config", KEY_CONFIG, "FILE", 0,
		 "Read FILE instead of /etc/vpmu/vpmu-exporter.conf", 0},
		{0}};
	static const struct argp_child children[] = {{&cli_json_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse_metrics,
		.children = children,
		.doc = "Show the metrics that -M takes. -M with the name of a GROUP means all "
		       "metrics of the group, which is a file. Your own files are in "
		       "~/.config/vpmu/metrics; vpmu-metrics(5) has their format. With "
		       "--prometheus, --openmetrics or --textfile: what vpmu-exporter(8) serves."};
	struct metrics_cmd o = {0};
	struct metric_set set = {0};
	json_t *rows;
	bool bad = false;
	int ret;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (o.prometheus || o.openmetrics || o.textfile)
		return exported_show(cli, o.config, o.openmetrics, o.textfile);
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
