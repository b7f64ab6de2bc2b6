// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu stat: attaches, waits (for a command, a time or Ctrl-C), detaches and prints. With -I it
 * prints one line per value and interval. With --session it reads an attached session, which
 * continues. With a command, standard output is the command's.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/error.h"
#include "cli/history_range.h"
#include "cli/legend.h"
#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/stat.h"

#define DEFAULT_EVENTS	"instructions,cycles,branches,branches-taken"
#define INTERVAL_MIN_MS 10
#define INTERVAL_MAX_MS 3600000
#define TIMEOUT_MAX_MS	1000000000
#define RUNS_MAX	100 /* as in perf stat */

struct stat_opts {
	struct what_opts what;
	struct format_opts format;
	const char *metrics; /* -M; NULL: none */
	const char *session; /* --session; NULL: a new one */
	double interval_s;   /* -I; 0: none */
	double duration_s;   /* -d or --timeout; 0: none */
	const char *file;    /* -o; NULL: none */
	bool append;
	size_t runs;	/* -r; 1: not given */
	long intervals; /* --interval-count; 0: no limit */
	struct past_opts past;
	bool own;	/* count the command itself */
	char **command; /* NULL: none */
};

enum { OPT_SESSION = 1000, OPT_APPEND, OPT_TIMEOUT, OPT_TREE, OPT_COUNT, OPT_LENGTH };

static const struct argp_option options[] = {
	{"interval-print", 'I', "MS", 0,
	 "Print the counts of each interval of MS milliseconds (10 or more)", 0},
	{"interval-count", OPT_COUNT, "N", 0, "With -I, stop after N intervals", 0},
	{"duration", 'd', "SEC", 0, "Stop after SEC seconds; fractions are allowed", 0},
	{"timeout", OPT_TIMEOUT, "MS", 0, "Stop after MS milliseconds", 0},
	{"output", 'o', "FILE", 0, "Print the counts to FILE", 0},
	{"append", OPT_APPEND, NULL, 0, "With -o, append to FILE", 0},
	{"repeat", 'r', "N", 0, "Run COMMAND N times (1 to 100) and print the means", 0},
	{"session", OPT_SESSION, "NAME", 0,
	 "Show the attached session NAME, which goes on, instead of a new one", 0},
	{"verbose", 'v', NULL, 0, "Show as of when the counts are, as -j does", 0},
	{"tree", OPT_TREE, NULL, 0, "Show VMs and vCPUs as a tree below their tenants", 0},
	{0},
};

static error_t stat_parse(int key, char *arg, struct argp_state *state)
{
	struct stat_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->what;
		state->child_inputs[1] = &o->format;
		state->child_inputs[2] = &o->metrics;
		state->child_inputs[3] = &o->what;
		state->child_inputs[4] = &o->past;
		return 0;
	case 'I':
		o->interval_s = (double)cli_number(state, key, "-I", arg, INTERVAL_MIN_MS,
						   INTERVAL_MAX_MS) /
				1000;
		return 0;
	case OPT_COUNT:
		o->intervals = cli_number(state, key, "--interval-count", arg, 1, 1000000000);
		return 0;
	case 'd':
		cli_once(state, OPT_LENGTH, "-d or --timeout");
		if (isalpha((unsigned char)*arg)) /* perf's -d has no value */
			cli_usage("stat: -d \"%s\" is invalid; expected seconds above 0; perf's "
				  "-d, more events, is -e LIST or -M LIST here",
				  arg);
		o->duration_s = cli_seconds(state, key, "-d", arg, 1e6);
		return 0;
	case OPT_TIMEOUT:
		cli_once(state, OPT_LENGTH, "-d or --timeout");
		o->duration_s = (double)cli_number(state, key, "--timeout", arg, INTERVAL_MIN_MS,
						   TIMEOUT_MAX_MS) /
				1000;
		return 0;
	case 'o':
		return cli_text(state, key, "-o", arg, &o->file);
	case OPT_APPEND:
		o->append = true;
		return 0;
	case 'v':
		o->format.verbose = true;
		return 0;
	case OPT_TREE:
		o->format.tree = true;
		return 0;
	case 'r':
		o->runs = (size_t)cli_number(state, key, "-r", arg, 1, RUNS_MAX);
		return 0;
	case OPT_SESSION:
		return cli_text(state, key, "--session", arg, &o->session);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- counting ----------------------------------------------------------------------------- */

/* The backend in the last heading of interval lines, which determines the columns. */
struct backends {
	bool shown;    /* false: no lines yet */
	char name[32]; /* "": several or none */
};

static void print_interval(const struct stat_opts *o, const struct reading *r,
			   struct backends *before)
{
	double time_s = (double)r->age_ns / 1e9;
	const char *backend = reading_backend(r);
	struct backends now = {.shown = true};

	if (o->format.json) {
		out_json(&o->format, r, time_s);
	} else if (o->format.sep) {
		out_csv(&o->format, r, time_s);
	} else {
		snprintf(now.name, sizeof(now.name), "%s", backend ? backend : "");
		if (!before->shown || (r->nr_rows && strcmp(now.name, before->name) != 0)) {
			out_lines_heading(&o->format, r);
			*before = now;
		}
		if (o->format.verbose)
			legend_as_of(out_stream(&o->format), "#", r);
		out_lines(&o->format, r, time_s);
	}
	fflush(out_stream(&o->format));
}

/* Return how to read after the wait ended with @why. */
static enum session_read how_to_read(const struct watch *w, enum watch_end why)
{
	return why != WATCH_TIME && w->s->ours ? SESSION_END : SESSION_READ;
}

static int run_intervals(const struct stat_opts *o, struct watch *w)
{
	double end = o->duration_s > 0 ? cli_now() + o->duration_s : -1;
	enum watch_end why = WATCH_TIME;
	/* An attached session has counts already: intervals start now. */
	struct reading *before = w->s->ours ? NULL : watch_take(w, SESSION_READ, &why), *diff;
	double next = cli_now();
	struct backends backends = {0};
	long left = o->intervals;
	double user_s, sys_s;
	int status, ret = 0;

	if (!before && !w->s->ours)
		return watch_note(why, NULL); /* the command is not started */
	status = o->command ? cli_wait_start(o->command) : 0;
	if (status) {
		reading_free(before);
		return status;
	}
	while (why == WATCH_TIME && !ferror(out_stream(&o->format))) {
		next += o->interval_s;
		why = watch_until(w, end >= 0 && end < next ? end : next);
		if (why == WATCH_TIME && end >= 0 && cli_now() >= end)
			why = WATCH_STOP;
		if (why == WATCH_TIME && left && !--left)
			why = WATCH_STOP;
		diff = reading_difference(watch_take(w, how_to_read(w, why), &why), &before);
		ret = watch_note(why, before);
		if (diff)
			print_interval(o, diff, &backends);
		reading_free(diff);
	}
	reading_free(before);
	status = cli_wait_status(&user_s, &sys_s); /* with -d the command may run longer */
	return ret ? ret : status;
}

/* The runs of one measurement, of a command or without one. */
struct runs {
	size_t nr;
	struct reading *run[RUNS_MAX]; /* counts of each run */
	double elapsed_s[RUNS_MAX], user_s[RUNS_MAX], sys_s[RUNS_MAX];
};

/*
 * Count once, and wait for the command's end. Returns the exit status; *@go_on: another run may
 * follow.
 */
static int run_once(const struct stat_opts *o, struct watch *w, struct runs *runs, bool *go_on)
{
	enum watch_end why = WATCH_STOP;
	struct reading *before = NULL, *r;
	double start, end;
	int ret, status = 0;

	*go_on = false;
	/* With -r each run is a difference, from our last run or from the session's earlier
	 * counts. */
	if (runs->nr || (o->runs > 1 && !w->s->ours)) {
		before = watch_take(w, SESSION_PEEK, &why);
		if (why >= WATCH_FAILED) {
			reading_free(before);
			return watch_note(why, NULL);
		}
	}
	if (o->command)
		status = cli_wait_start(o->command);
	if (status) {
		reading_free(before);
		return status;
	}
	start = cli_now();
	end = o->duration_s > 0 ? start + o->duration_s : -1;
	/* Without a time or a command, an attached session is read at once. */
	if (!o->session || end >= 0 || o->command)
		why = watch_until(w, end);
	if (why == WATCH_TIME)
		why = WATCH_STOP;
	r = watch_take(w, o->runs > 1 ? SESSION_PEEK : how_to_read(w, why), &why);
	ret = watch_note(why, r);
	status = cli_wait_status(&runs->user_s[runs->nr], &runs->sys_s[runs->nr]);
	runs->elapsed_s[runs->nr] = cli_now() - start;
	if (before) {
		r = reading_difference(r, &before);
		reading_free(before);
	}
	if (r)
		runs->run[runs->nr++] = r;
	*go_on = r && why == WATCH_STOP && !cli_wait_interrupted();
	return ret ? ret : status;
}

/* Name the command in the title, as perf does, instead of its tenant. */
static void stat_name_command(const struct stat_opts *o, struct reading *r)
{
	size_t len;
	char *text;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	for (char **word = o->command; *word; word++)
		fprintf(f, "%s%s", word == o->command ? "" : " ", *word);
	fclose(f);
	free(r->target);
	r->target = terminal_safe(text);
}

static int run_all(const struct stat_opts *o, struct watch *w)
{
	struct runs runs = {.nr = 0};
	struct run_info info;
	struct reading *last;
	double none;
	bool go_on;
	int ret = 0;

	do {
		int status = run_once(o, w, &runs, &go_on);

		ret = ret ? ret : status;
	} while (go_on && runs.nr < o->runs);
	if (!runs.nr)
		return ret;
	last = runs.run[runs.nr - 1];
	if (o->own)
		stat_name_command(o, last);
	info = (struct run_info){.runs = runs.nr,
				 .user_s = mean_error(runs.user_s, runs.nr, &none),
				 .sys_s = mean_error(runs.sys_s, runs.nr, &none)};
	info.elapsed_s = mean_error(runs.elapsed_s, runs.nr, &info.elapsed_error_s);
	if (reading_none_supported(last) && !client_lost(w->s->c))
		defaults_none_counted(w->s->c, "stat");
	if (o->runs > 1)
		repeat_mean(last, runs.run, runs.nr);
	table_print_as(&o->format, last, o->command ? &info : NULL);
	while (runs.nr)
		reading_free(runs.run[--runs.nr]);
	return ret;
}

static int stat_count(const struct stat_opts *o, struct client *c)
{
	struct sessions s;
	/* If the target is removed, attached sessions and commands continue. */
	struct watch w = {.s = &s, .follow = o->session || o->command};
	int ret = 1;

	if (o->session)
		sessions_named(&s, c, o->session);
	if (o->session || sessions_attach(&s, c, &o->what, NULL))
		ret = o->interval_s > 0 ? run_intervals(o, &w) : run_all(o, &w);
	watch_fini(&w);
	sessions_fini(&s);
	return ret;
}

static int stat_run(struct stat_opts *o, struct client *c)
{
	struct own_cgroup own = {0};
	char *tenant = NULL;
	int ret = 1;

	if (o->own && (tenant = own_cgroup_tenant(&own, c, "stat", o->command[0]))) {
		o->what.target[0] = tenant;
		o->what.nr_targets = 1;
		cli_wait_cgroup(own.procs_fd);
	}
	if (!o->own || tenant)
		ret = stat_count(o, c);
	if (o->own)
		own_cgroup_end(&own);
	free(tenant);
	return ret;
}

/* ---- output --------------------------------------------------------------------------------- */

/* Open the file of -o. Returns false after an error was printed. */
static bool open_output(struct stat_opts *o)
{
	time_t now = time(NULL);
	struct tm tm;
	char date[64];

	if (o->command)
		o->format.to = stderr; /* standard output is the command's */
	if (!o->file)
		return true;
	o->format.to = fopen(o->file, o->append ? "ae" : "we");
	if (!o->format.to) {
		cli_error("stat: -o %s: %s", o->file, strerror(errno));
		return false;
	}
	strftime(date, sizeof(date), "%c", localtime_r(&now, &tm));
	if (!o->format.json)
		fprintf(o->format.to, "# started on %s\n\n", date);
	return true;
}

/* Returns @ret, or 1 after an error was printed. */
static int close_output(struct stat_opts *o, int ret)
{
	bool failed = o->file && (fflush(o->format.to) || ferror(o->format.to));

	if (failed)
		cli_error("stat: -o %s: %s", o->file, strerror(errno));
	if (o->file)
		fclose(o->format.to);
	return failed ? 1 : ret;
}

static void stat_check_since(const struct stat_opts *o)
{
	if (o->session || o->command || o->duration_s > 0 || o->intervals || o->format.sep)
		cli_usage("stat: --since shows the past; give it without --session, -d, "
			  "--interval-count, -x and COMMAND");
	if (!strcmp(o->what.scope, "vcpu"))
		cli_usage("stat: --since: vCPUs are not kept; give --for-each tenant or vm");
	if (o->what.nr_targets > 1)
		cli_usage("stat: --since: give one target");
}

static void stat_check(const struct stat_opts *o)
{
	if (o->session &&
	    (o->what.events || strcmp(o->what.scope, "none") || o->what.nr_targets || o->what.cpus))
		cli_usage("stat: --session has its own events and rows; give -e, --for-each, -t "
			  "and -C without it only");
	if (o->past.since && o->what.cpus)
		cli_usage("stat: --since: what vpmud has kept is of all CPUs; give it without -C");
	if (o->format.verbose && (o->format.sep || o->past.since))
		cli_usage("stat: -v: lines of -x and counts of --since have no such time; give it "
			  "without them");
	if (o->format.verbose && o->runs > 1)
		cli_usage("stat: -v: the means of -r are of several times; give it without -r");
	if (o->append && !o->file)
		cli_usage("stat: --append needs a file: give -o FILE as well");
	if (o->runs > 1 && !o->command)
		cli_usage("stat: -r needs a command to repeat: give -- COMMAND as well");
	if (o->format.tree && (o->format.json || o->format.sep || o->interval_s > 0))
		cli_usage("stat: --tree is for tables; give it without -x, -j and -I");
	if (o->intervals && o->interval_s <= 0)
		cli_usage("stat: --interval-count needs intervals: give -I MS as well");
	if (o->runs > 1 && o->interval_s > 0)
		cli_usage("stat: give only one of -r and -I");
	if (o->past.since)
		stat_check_since(o);
	history_range_check("stat", &o->past);
}

int cmd_stat(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&cli_what_argp, 0, NULL, 0},	{&cli_format_argp, 0, NULL, 0},
		{&cli_metric_argp, 0, NULL, 0}, {&cli_cpus_argp, 0, NULL, 0},
		{&cli_past_argp, 0, NULL, 0},	{0}};
	static const struct argp argp = {
		.options = options,
		.parser = stat_parse,
		.children = children,
		.args_doc = "[-- COMMAND [ARG...]]",
		.doc = "Count events of the whole host, a tenant or a VM until Ctrl-C, for a time, "
		       "or while COMMAND runs. COMMAND alone, without -a, -t, -p, -G, --for-each "
		       "and --session, is counted itself. Without -e and -M: " DEFAULT_EVENTS
		       ".\vA multiplexed count is scaled up and shows its running share. A "
		       "modelled or estimated value is marked.",
	};
	struct stat_opts o = {.what = {.scope = "none"}, .runs = 1};
	struct metrics metrics = {0};
	char *events = NULL;
	struct client *c;
	int first, ret = 1;

	cli_parse(cli, &argp, argc, argv, &first, &o);
	if (first < argc)
		o.command = argv + first;
	if (o.command && (!strcmp(*o.command, "record") || !strcmp(*o.command, "report")) &&
	    strcmp(argv[first - 1], "--"))
		cli_usage("stat: \"%s\" is invalid; expected -- COMMAND; there is no perf.data: "
			  "`vpmu attach NAME` keeps counts, `vpmu stat --session NAME` shows them",
			  *o.command);
	/* As in perf: a command alone is counted itself. */
	o.own = o.command && !o.what.all && !o.what.nr_targets && !o.session &&
		!strcmp(o.what.scope, "none");
	stat_check(&o);
	if (o.metrics) {
		events = metrics_ask(&metrics, "stat", o.metrics, o.what.events);
		o.what.events = events;
		o.format.metrics = &metrics;
	}
	if (open_output(&o)) {
		c = client_open(cli, false);
		if (c && !o.what.events && !o.session && !o.past.since)
			o.what.events = events = defaults_events(c, "stat", DEFAULT_EVENTS, NULL);
		if (c && o.past.since) {
			const struct since_opts since = {&o.what, &o.format, &o.past, o.interval_s};

			ret = since_run(&since, c);
		} else if (c && cli_wait_init() == 0) {
			ret = stat_run(&o, c);
		}
		client_close(c);
		ret = close_output(&o, ret);
	}
	metrics_free(&metrics);
	free(events);
	return ret;
}
