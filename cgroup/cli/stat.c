// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu stat: attach, wait (for a command, a time or Ctrl-C), detach, print. With -I it prints one
 * line per value and interval. With --session it shows an attached session, which goes on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/client.h"
#include "cgroup/cli/commands.h"
#include "cgroup/cli/error.h"
#include "cgroup/cli/output.h"
#include "cgroup/cli/session.h"
#include "cgroup/cli/table.h"
#include "cgroup/cli/wait.h"

#define DEFAULT_EVENTS	"instructions,cycles,branches,branches-taken"
#define INTERVAL_MIN_MS 10
#define INTERVAL_MAX_MS 3600000

struct stat_opts {
	struct what_opts what;
	struct format_opts format;
	const char *session; /* --session; NULL: a new one */
	double interval_s;   /* -I; 0: none */
	double duration_s;   /* -d; 0: none */
	char **command;	     /* NULL: none */
};

enum { OPT_SESSION = 1000 };

static const struct argp_option options[] = {
	{"interval-print", 'I', "MS", 0,
	 "Print the counts of each interval of MS milliseconds (10 or more)", 0},
	{"duration", 'd', "SEC", 0, "Stop after SEC seconds; fractions are allowed", 0},
	{"session", OPT_SESSION, "NAME", 0,
	 "Show the attached session NAME, which goes on, instead of a new one", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stat_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->what;
		state->child_inputs[1] = &o->format;
		return 0;
	case 'I':
		o->interval_s =
			(double)cli_number(state, "-I", arg, INTERVAL_MIN_MS, INTERVAL_MAX_MS) /
			1000;
		return 0;
	case 'd':
		o->duration_s = cli_seconds(state, "-d", arg, 1e6);
		return 0;
	case OPT_SESSION:
		o->session = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- counting ----------------------------------------------------------------------------- */

static int server_gone(void)
{
	cli_error("stat: the server went away before the counts were read");
	return 1;
}

/* The planes of some lines of intervals: their columns depend on it. */
struct planes {
	bool shown;    /* false: no lines yet */
	char name[32]; /* "": several or none */
};

static void print_interval(const struct stat_opts *o, const struct reading *r,
			   struct planes *before)
{
	double time_s = (double)r->age_ns / 1e9;
	const char *plane = reading_plane(r);
	struct planes now = {.shown = true};

	if (o->format.json) {
		out_json(r, time_s);
	} else if (o->format.sep) {
		out_csv(r, time_s, o->format.sep);
	} else {
		snprintf(now.name, sizeof(now.name), "%s", plane ? plane : "");
		if (!before->shown || (r->nr_rows && strcmp(now.name, before->name) != 0)) {
			out_lines_heading(r);
			*before = now;
		}
		out_lines(r, time_s);
	}
	fflush(stdout);
}

static int run_intervals(const struct stat_opts *o, struct client *c, const char *session,
			 double end)
{
	/* The first reading is the base: an attached session may have counted for long. */
	struct reading *before = session_read(c, session, false), *diff;
	enum cli_wait why = CLI_WAIT_TIME;
	bool ok = before != NULL;
	double next = cli_now();
	struct planes planes = {0};

	while (ok && why == CLI_WAIT_TIME && !ferror(stdout)) {
		next += o->interval_s;
		why = cli_wait(end >= 0 && end < next ? end : next, client_fd(c));
		if (why == CLI_WAIT_SERVER_GONE)
			break;
		if (why == CLI_WAIT_TIME && end >= 0 && cli_now() >= end)
			why = CLI_WAIT_STOP;
		diff = session_difference(c, session, why == CLI_WAIT_STOP && !o->session, &before);
		ok = diff != NULL;
		if (ok)
			print_interval(o, diff, &planes);
		reading_free(diff);
	}
	reading_free(before);
	if (why == CLI_WAIT_SERVER_GONE)
		return server_gone();
	return ok ? 0 : 1;
}

static int run_once(const struct stat_opts *o, struct client *c, const char *session, double end)
{
	struct reading *r;

	/* The counts of an attached session are shown at once, unless there is something to wait
	 * for. */
	if (!o->session || end >= 0 || o->command)
		if (cli_wait(end, client_fd(c)) == CLI_WAIT_SERVER_GONE)
			return server_gone();
	r = session_read(c, session, !o->session);
	if (!r)
		return 1;
	table_print_as(&o->format, r);
	reading_free(r);
	return 0;
}

static int count(const struct stat_opts *o, struct client *c)
{
	char *session = o->session ? strdup(o->session) : session_attach(c, &o->what, NULL);
	double end = -1;
	int ret = 1, status;

	if (!session)
		return 1;
	if (o->command && cli_wait_start(o->command))
		goto out;
	if (o->duration_s > 0)
		end = cli_now() + o->duration_s;
	ret = o->interval_s > 0 ? run_intervals(o, c, session, end) : run_once(o, c, session, end);
	/* With -d the command may go on for longer. It is ours to wait for. */
	status = cli_wait_status();
	if (!ret)
		ret = status;
out:
	free(session);
	return ret;
}

int cmd_stat(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&cli_what_argp, 0, NULL, 0}, {&cli_format_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.children = children,
		.args_doc = "[-- COMMAND [ARG...]]",
		.doc = "Count events of the whole host, a tenant or a VM until Ctrl-C, for a time, "
		       "or while COMMAND runs. Without -e: " DEFAULT_EVENTS ".\v"
		       "A count that was counted in a part of the time only is scaled up and shows "
		       "the percentage. A value that was modelled or estimated says so.",
	};
	struct stat_opts o = {.what = {.scope = "none", .target = "/"}};
	struct client *c;
	int first, ret = 1;

	cli_parse(cli, &argp, argc, argv, &first, &o);
	if (first < argc)
		o.command = argv + first;
	if (o.session &&
	    (o.what.events || strcmp(o.what.scope, "none") || strcmp(o.what.target, "/")))
		cli_usage("stat: --session has its own events and rows; give -e, --for-each and -t "
			  "without it only");
	if (!o.what.events)
		o.what.events = DEFAULT_EVENTS;
	c = client_open(cli, false);
	if (c && cli_wait_init() == 0)
		ret = count(&o, c);
	client_close(c);
	return ret;
}
