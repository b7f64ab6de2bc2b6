// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu report: counts and samples the whole host for a time, or takes what vpmud has kept, and
 * writes one HTML page of it: who runs, who suffers, who may be the cause. The page itself draws
 * conclusions (share/report/rule.js), the same on the page of vpmu-exporter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/error.h"
#include "cli/history_range.h"
#include "cli/outfile.h"
#include "cli/report.h"
#include "cli/session.h"
#include "cli/wait.h"
#include "exporter/page.h"
#include "service/clock.h"
#include "service/program/memory.h"

#define DURATION_S     30
#define DURATION_MAX_S 1e6
#define INTERVALS      60  /* of a report */
#define INTERVAL_MIN_S 0.2 /* shorter ones have few events */

struct report_opts {
	const char *events; /* -e; NULL: what the host counts of the list below */
	const char *output; /* -o */
	struct past_opts past;
	double duration_s; /* below 0: not given */
};

/* What the page can use. Three of them need a hardware counter, of which two are fixed ones. */
static const char *const report_events[] = {
	"task-clock",  "idle-time",    "run-delay", "preempted-by-others", "context-switches",
	"page-faults", "instructions", "cycles",    "cache-misses"};

static const struct argp_option options[] = {
	{"event", 'e', "LIST", 0,
	 "The events, as for perf stat -e, instead of those that the host counts", 0},
	{"duration", 'd', "SEC", 0, "Count for SEC seconds (default: 30); fractions are allowed",
	 0},
	{"output", 'o', "FILE", 0, "Write the page to FILE", 0},
	{0},
};

static error_t report_parse(int key, char *arg, struct argp_state *state)
{
	struct report_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->past;
		return 0;
	case 'e':
		return cli_text(state, key, "-e", arg, &o->events);
	case 'd':
		o->duration_s = cli_seconds(state, key, "-d", arg, DURATION_MAX_S);
		return 0;
	case 'o':
		return cli_text(state, key, "-o", arg, &o->output);
	default:
		return cli_no_args(key, arg, state);
	}
}

/* Return true if a backend counts @event, of the answer to `events`. */
static bool report_counts(const json_t *events, const char *event)
{
	const json_t *e, *backend;
	size_t i, k;

	json_array_foreach (events, i, e) {
		const char *name = json_string_value(json_object_get(e, "event"));

		if (!name || strcmp(name, event) != 0)
			continue;
		json_array_foreach (json_object_get(e, "backends"), k, backend)
			if (json_is_true(json_object_get(backend, "supported")))
				return true;
	}
	return false;
}

/* Return the events to count, which the caller frees; NULL after an error was printed. */
static char *report_choose(struct client *c, const char *asked)
{
	json_t *answer;
	char *list = NULL, *more;

	if (asked)
		return xstrdup(asked);
	answer = client_simple(c, "events");
	if (!answer)
		return NULL;
	for (size_t i = 0; i < sizeof(report_events) / sizeof(*report_events); i++) {
		if (!report_counts(json_object_get(answer, "events"), report_events[i]))
			continue;
		more = xasprintf("%s%s%s", list ? list : "", list ? "," : "", report_events[i]);
		free(list);
		list = more;
	}
	json_decref(answer);
	/* No VM yet: the page says what is not counted. */
	return list ? list : xstrdup("instructions,cycles");
}

/* ---- counting ------------------------------------------------------------------------------- */

enum { REPORT_TENANTS, REPORT_VMS, REPORT_SESSIONS };

struct report_run {
	struct client *c;
	const struct report_opts *o;
	struct sessions sessions[REPORT_SESSIONS];
	struct reading *before[REPORT_SESSIONS];
	struct report_data data;
	uint64_t start_ns, first_ns; /* the first reading: ns since 1970, and its own time */
	bool lost;		     /* the server went away */
};

static bool report_attach(struct report_run *run, const char *events)
{
	/* The tenants first, so that a tenant never has less than its VMs. */
	static const char *const scopes[REPORT_SESSIONS] = {"tenant", "vm"};

	for (int i = 0; i < REPORT_SESSIONS; i++) {
		const struct what_opts what = {.events = events, .scope = scopes[i]};

		if (!sessions_attach(&run->sessions[i], run->c, &what, NULL))
			return false;
	}
	return true;
}

/* Return the time of the last readings: no step of the clock moves it against the first. */
static uint64_t report_time(struct report_run *run)
{
	const struct reading *last = run->before[0];

	for (int i = 1; i < REPORT_SESSIONS; i++)
		last = run->before[i]->to.ns > last->to.ns ? run->before[i] : last;
	if (!run->start_ns) {
		run->start_ns = last->to_us ? last->to_us * 1000 : clock_ns(CLOCK_REALTIME);
		run->first_ns = last->to.ns;
	}
	return run->start_ns + (last->to.ns - run->first_ns);
}

/* Read both sessions, VMs first. Returns false after an error was printed. @first: only from now
 * on. */
static bool report_take(struct report_run *run, bool first)
{
	struct reading *diff[REPORT_SESSIONS] = {NULL};
	bool ok = true;

	for (int i = REPORT_SESSIONS - 1; i >= 0 && ok; i--) {
		struct reading *now = sessions_read(&run->sessions[i], SESSION_READ);

		ok = now != NULL;
		diff[i] = reading_difference(now, &run->before[i]);
	}
	if (ok && first)
		report_time(run);
	else if (ok)
		report_data_add(&run->data, report_time(run), diff, REPORT_SESSIONS);
	for (int i = 0; i < REPORT_SESSIONS; i++)
		reading_free(diff[i]);
	return ok;
}

static void report_count(struct report_run *run)
{
	double d = run->o->duration_s, start = cli_now(), step = d / INTERVALS, next;
	enum cli_wait why = CLI_WAIT_TIME;

	step = step < INTERVAL_MIN_S ? INTERVAL_MIN_S : step;
	for (next = start + step; why == CLI_WAIT_TIME && cli_now() < start + d; next += step) {
		why = cli_wait(next < start + d ? next : start + d, client_fd(run->c));
		progress_show("report", "%.0f of %g s", cli_now() - start, d);
		if (why == CLI_WAIT_SERVER_GONE || !report_take(run, false)) {
			run->lost = true;
			break;
		}
		/* A reading took longer than an interval. */
		if (next + step < cli_now())
			next = cli_now() - step;
	}
	progress_end();
	if (why == CLI_WAIT_SERVER_GONE)
		cli_error("report: the server went away");
}

/* ---- the page ------------------------------------------------------------------------------- */

static json_t *report_host(struct client *c)
{
	struct utsname name = {0};
	json_t *hello = client_silent(c, "hello"), *host;

	uname(&name);
	host = json_pack("{s:s*, s:s*, s:i, s:O*, s:O*}", "name", name.nodename, "kernel",
			 name.release, "cpus", (int)sysconf(_SC_NPROCESSORS_ONLN), "server",
			 json_object_get(hello, "server"), "version",
			 json_object_get(hello, "version"));
	json_decref(hello);
	return host;
}

static void report_note(json_t *notes, char *text)
{
	json_array_append_new(notes, json_string(text));
	free(text);
}

static json_t *report_page(struct report_run *run, json_t *host, json_t *profile, json_t *cpus)
{
	json_t *notes = json_array();

	if (run->lost)
		report_note(notes, xstrdup("The server went away during the report: it is shorter "
					   "than was asked for."));
	else if (cli_wait_interrupted())
		report_note(notes, xstrdup("The report was ended early by a signal."));
	if (run->data.dropped)
		report_note(notes, xasprintf("%llu rows of removed VMs were dropped unread; their "
					     "counts are in their tenants.",
					     (unsigned long long)run->data.dropped));
	return json_pack("{s:i, s:s, s:o*, s:I, s:O, s:o, s:o, s:o*, s:o*, s:o*}", "format", 1,
			 "made_by", "Made by vpmu " VPMU_VERSION ".", "host", host, "start_ns",
			 (json_int_t)run->start_ns, "times", run->data.times, "series",
			 report_data_end(&run->data), "notes", notes, "profile", profile, "cpus",
			 cpus, "baseline", report_past_baseline(run->c));
}

/* Write the page of @data, which it frees. */
static int report_write(json_t *data, struct outfile *out)
{
	size_t len;
	char *text = data ? page_text(data, false, &len) : NULL;

	json_decref(data);
	if (!text) {
		cli_error("report: the page could not be made: the server's answers are no valid "
			  "text");
		return 1;
	}
	fwrite(text, 1, len, outfile_stream(out));
	free(text);
	return 0;
}

static int report_run(struct report_run *run, const char *events, struct outfile *out)
{
	struct report_profile *p;
	struct report_cpus *on;
	json_t *host, *profile, *cpus;
	int ret = 1;

	if (!report_attach(run, events))
		return 1;
	host = report_host(run->c);
	p = report_profile_start(run->c);
	on = report_cpus_start(run->c, (unsigned int)sysconf(_SC_NPROCESSORS_CONF));
	if (report_take(run, true))
		report_count(run);
	else
		run->lost = true;
	cpus = report_cpus_end(on);
	profile = report_profile_end(p);
	if (json_array_size(run->data.times))
		ret = report_write(report_page(run, host, profile, cpus), out);
	else {
		json_decref(host);
		json_decref(profile);
		json_decref(cpus);
	}
	return ret;
}

static int report_of_past(struct client *c, const struct report_opts *o, struct outfile *out)
{
	struct report_past past;
	int ret;

	if (!report_past_read(c, &o->past, o->events, &past))
		return 1;
	ret = report_write(json_pack("{s:i, s:s, s:o*, s:I, s:I, s:O, s:O, s:[], s:{s:s}, s:o*}",
				     "format", 1, "made_by", "Made by vpmu " VPMU_VERSION ".",
				     "host", report_host(c), "start_ns", (json_int_t)past.start_ns,
				     "kept_ns", (json_int_t)past.interval_ns, "times", past.times,
				     "series", past.series, "notes", "profile", "error",
				     "vpmud keeps counts of the past, but no samples.", "baseline",
				     report_past_baseline(c)),
			   out);
	report_past_fini(&past);
	return ret;
}

static void report_check(const struct report_opts *o)
{
	if ((!o->output || !strcmp(o->output, "-")) && isatty(STDOUT_FILENO))
		cli_usage("report: a page is not text for a terminal: give a file with -o");
	if (o->past.since && o->duration_s >= 0)
		cli_usage("report: --since shows the past; give it without -d");
	history_range_check("report", &o->past);
}

int cmd_report(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_past_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = report_parse,
		.children = children,
		.doc = "Count and sample the whole host for a time, or show what vpmud has kept of "
		       "the past, and write a page for a browser: who runs, who suffers, and who "
		       "may be the cause. Ctrl-C ends it early.\vThe page is one file without "
		       "links, and needs no network. It shows the rule by which it names a "
		       "suspect.",
	};
	struct report_opts o = {.duration_s = -1};
	struct report_run run = {.o = &o};
	struct outfile *out = NULL;
	char *events = NULL;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	report_check(&o);
	if (o.duration_s < 0)
		o.duration_s = DURATION_S;
	report_data_init(&run.data);
	run.c = client_open(cli, false);
	if (run.c && !o.past.since && cli_wait_init() == 0)
		events = report_choose(run.c, o.events);
	if (run.c && (events || o.past.since) && !outfile_open(o.output, &out))
		ret = events ? report_run(&run, events, out) : report_of_past(run.c, &o, out);
	if (outfile_close(out, !ret))
		ret = 1;
	if (run.lost)
		ret = 1;
	for (int i = 0; i < REPORT_SESSIONS; i++) {
		sessions_fini(&run.sessions[i]);
		reading_free(run.before[i]);
	}
	report_data_fini(&run.data);
	client_close(run.c);
	free(events);
	return ret;
}
