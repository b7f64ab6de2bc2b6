// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu metrics: what metrics there are for -M. It asks no server. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cgroup/cli/commands.h"
#include "cgroup/cli/error.h"
#include "cgroup/cli/metrics.h"
#include "cgroup/cli/rows.h"

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

static int add_metric(json_t *rows, const struct metric *m)
{
	json_t *events = json_array(), *o;

	for (size_t i = 0; i < m->formula.nr_events; i++)
		json_array_append_new(events, json_string(m->formula.event[i]));
	o = json_pack("{s:s, s:o, s:s, s:s, s:o, s:s, s:s}", "metric", m->name, "group",
		      group_of(m), "unit", m->unit, "formula", m->text, "events", events, "desc",
		      m->description, "file", m->file);
	return json_array_append_new(rows, o);
}

int cmd_metrics(struct cli *cli, int argc, char **argv)
{
	static const struct column columns[] = {
		{"METRIC", "metric", COLUMN_TEXT}, {"GROUP", "group", COLUMN_TEXT},
		{"UNIT", "unit", COLUMN_TEXT},	   {"FORMULA", "formula", COLUMN_TEXT},
		{"MEANING", "desc", COLUMN_TEXT},  {NULL, NULL, 0}};
	bool json =
		rows_parse_json(cli, argc, argv,
				"Show the metrics that -M takes. -M with the name of a GROUP "
				"means all metrics of the group, which is a file. Your own files "
				"are in ~/.config/vpmu/metrics; vpmu-metrics(5) has their "
				"format.");
	struct metric_set set = {0};
	json_t *rows = json_array();
	bool bad = false;
	int ret = rows ? 0 : 1;

	if (metrics_known(&set, show_bad, &bad))
		bad = true;
	for (size_t i = 0; i < set.nr && !ret; i++)
		ret = add_metric(rows, &set.metric[i]) ? 1 : 0;
	if (ret)
		cli_error("out of memory");
	else
		ret = rows_print(rows, columns, json);
	json_decref(rows);
	metric_set_free(&set);
	return bad ? 1 : ret;
}
