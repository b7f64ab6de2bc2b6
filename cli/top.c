// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu top: its options. The screen is in top_screen.c, batch mode in top_batch.c. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/error.h"
#include "cli/metrics.h"
#include "cli/top.h"

/* Few enough for the general counters of a small CPU: cycles and instructions have fixed
 * counters. */
#define DEFAULT_EVENTS	"instructions,cycles"
#define DEFAULT_METRICS "ipc,cache-mpki,guest-share"

#define DELAY_MIN_S 0.01 /* as of stat -I: less would ask the server without a pause */
#define DELAY_MAX_S 3600

static const struct argp_option options[] = {
	{"delay", 'd', "SEC", 0, "Seconds between two updates, 0.01 or more (default: 1)", 0},
	{"batch", 'b', NULL, 0, "Batch mode: print plain text, for pipes and files", 0},
	{"filter", 'f', "TEXT", 0, "Show only tenants and VMs with TEXT in their names", 0},
	{"iterations", 'n', "N", 0, "End after N updates", 0},
	{0},
};

static error_t top_parse(int key, char *arg, struct argp_state *state)
{
	struct top_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->what;
		state->child_inputs[1] = &o->format;
		state->child_inputs[2] = &o->asked;
		state->child_inputs[3] = &o->what;
		return 0;
	case 'd':
		o->delay_s = cli_seconds(state, key, "-d", arg, DELAY_MAX_S);
		if (o->delay_s < DELAY_MIN_S)
			cli_usage("top: -d \"%s\" is invalid; expected seconds from %g to %d", arg,
				  DELAY_MIN_S, DELAY_MAX_S);
		return 0;
	case 'f':
		return cli_text(state, key, "-f", arg, &o->filter);
	case 'b':
		o->batch = true;
		return 0;
	case 'n':
		o->iterations = cli_number(state, key, "-n", arg, 1, 1000000000);
		return 0;
	default:
		return cli_no_args(key, arg, state);
	}
}

/*
 * Select the metrics. Those of -M have their events counted, too. Without -M the default ones: if
 * the events of -e suffice, or without -e, with their events. Returns the list of events, which the
 * caller frees; NULL: that of -e.
 */
static char *choose_metrics(struct top_opts *o, struct metrics *metrics, struct client *c)
{
	char *events, *usual, err[600];
	bool software = false;

	o->format.metrics = metrics;
	if (o->asked) {
		events = metrics_ask(metrics, "top", o->asked, o->what.events);
		o->metrics_only = events + (o->what.events ? strlen(o->what.events) : 0);
		o->what.events = events;
		return events;
	}
	o->metrics_optional = true;
	usual = o->what.events ? NULL : defaults_events(c, "top", DEFAULT_EVENTS, &software);
	if (software) { /* no metric can be computed */
		o->what.events = usual;
		return usual;
	}
	if (metrics_choose(metrics, DEFAULT_METRICS, err, sizeof(err))) {
		cli_error("top: without the usual metrics: %s", err);
		o->what.events = o->what.events ? o->what.events : usual;
		return usual;
	}
	if (o->what.events)
		return NULL;
	events = metrics_events(metrics, usual);
	o->metrics_only = events + strlen(usual);
	o->what.events = events;
	free(usual);
	return events;
}

int cmd_top(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_what_argp, 0, NULL, 0},
						     {&cli_format_argp, 0, NULL, 0},
						     {&cli_metric_argp, 0, NULL, 0},
						     {&cli_cpus_argp, 0, NULL, 0},
						     {0}};
	static const struct argp argp = {
		.options = options,
		.parser = top_parse,
		.children = children,
		.doc = "Show rates of tenants (the default), VMs or vCPUs, live. Without -e and "
		       "-M: the events " DEFAULT_EVENTS " and the metrics " DEFAULT_METRICS ".\v"
		       "Key h shows the keys. CPU% is the share of the time of all pCPUs that a "
		       "row ran.",
	};
	struct top_opts o = {.what = {.scope = "tenant"}, .delay_s = 1};
	struct metrics metrics = {0};
	struct top_source src;
	struct client *c;
	char *events = NULL;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if ((o.format.json || o.format.sep) && !o.batch)
		cli_usage("top: %s needs -b (batch mode)", o.format.json ? "-j" : "-x");
	if (!o.batch && !isatty(STDOUT_FILENO))
		cli_usage("top: standard output is not a terminal; give -b for plain text");
	if (!o.batch && !isatty(STDIN_FILENO)) /* curses would get no key, and not wait for one */
		cli_usage("top: standard input is not a terminal; give -b for plain text");
	c = client_open(cli, false);
	if (c) {
		events = choose_metrics(&o, &metrics, c);
		if (top_open(&src, c, &o))
			ret = o.batch ? top_batch(&src, &o) : top_screen(&src, &o);
		top_close(&src);
	}
	client_close(c);
	metrics_free(&metrics);
	free(events);
	return ret;
}
