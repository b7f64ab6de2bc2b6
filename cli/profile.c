// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu profile: samples VMs for a time, then shows the functions they ran. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/defaults.h"
#include "cli/error.h"
#include "cli/field.h"
#include "cli/names.h"
#include "cli/outfile.h"
#include "cli/places.h"
#include "cli/profile.h"
#include "cli/rows.h"
#include "cli/wait.h"
#include "service/clock.h"

#define DEFAULT_EVENT "instructions"
#define PERIOD_MAX    (1ULL << 47) /* docs/protocol.md */

#define PROGRESS_STEP_S 0.5
#define GUESTS_MAX	64

struct profile_opts {
	const char *event, *period;
	long hz;	       /* -F; 0: not given */
	enum target_kind kind; /* of look.target */
	char computed[FREQUENCY_LEN];
	char *found; /* the name of the target, if places_target() found it */
	struct look_opts look;
	const char *cpus; /* -C; NULL: all */
	bool vcpu, chains;
	const char *guests[GUESTS_MAX]; /* --guestkallsyms */
	size_t nr_guests;
};

enum { OPT_VCPU = 1000, OPT_GUESTS };

static const struct argp_option options[] = {
	{"event", 'e', "EVENT", 0, "The event to sample (default: " DEFAULT_EVENT ")", 0},
	{"count", 'c', "PERIOD", 0, "Events between two samples (default: 100000)", 0},
	{"freq", 'F', "HZ", 0, "Samples per second of each CPU, instead of -c", 0},
	{"all-cpus", 'a', NULL, 0, "Everything, as without TARGET", 0},
	{"pid", 'p', "PID", 0, "The VM or the tenant of process PID, instead of TARGET", 0},
	{"cgroup", 'G', "CGROUP", 0, "The tenant of cgroup CGROUP, instead of TARGET", 0},
	{"cpu", 'C', "CPUS", 0, "Only what runs on these CPUs of the host (0,2-4)", 0},
	{"call-graph", 'g', NULL, 0, "Show call chains too", 0},
	{"vcpu", OPT_VCPU, NULL, 0, "Show each vCPU separately", 0},
	{"guestkallsyms", OPT_GUESTS, "[VM=]FILE", 0,
	 "Names of guest kernel functions, from a copy of the guest's /proc/kallsyms", 0},
	{0},
};

static error_t profile_parse(int key, char *arg, struct argp_state *state)
{
	struct profile_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->look;
		return 0;
	case 'e':
		return cli_text(state, key, "-e", arg, &o->event);
	case 'c':
		return cli_text(state, key, "-c", arg, &o->period);
	case 'F':
		o->hz = cli_number(state, key, "-F", arg, 1, FREQUENCY_MAX);
		return 0;
	case 'a':
		return 0;
	case 'p':
	case 'G':
		cli_one_arg(&o->look.target, arg, "target", state);
		o->kind = key == 'p' ? TARGET_PID : TARGET_CGROUP;
		return 0;
	case 'C':
		return cli_text(state, key, "-C", arg, &o->cpus);
	case 'g':
		o->chains = true;
		return 0;
	case OPT_VCPU:
		o->vcpu = true;
		return 0;
	case OPT_GUESTS:
		if (o->nr_guests == GUESTS_MAX)
			cli_usage("profile: --guestkallsyms: give up to %d", GUESTS_MAX);
		o->guests[o->nr_guests++] = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Check -c, which is sent as typed: in digits, like all 64-bit numbers of the protocol. */
static void profile_check_period(const char *text)
{
	unsigned long long n;

	if (!text)
		return;
	errno = 0;
	n = strtoull(text, NULL, 10);
	if (!*text || text[strspn(text, "0123456789")] || errno || !n || n > PERIOD_MAX)
		cli_usage(
			"profile: -c \"%s\" is invalid; expected a number of events from 1 to %llu",
			text, PERIOD_MAX);
}

/* Start a profile. Returns the request that stops it, or NULL after an error was printed. */
static json_t *cli_profile_start(const struct profile_opts *o, struct client *c)
{
	json_t *a = names_ask(c,
			      json_pack("{s:s, s:s, s:s*, s:s, s:b, s:b, s:s*}", "cmd",
					"profile-start", "event", o->event, "period", o->period,
					"target", o->look.target, "lbr", o->chains, "times",
					o->look.format == DATA_PERF_SCRIPT, "cpus", o->cpus),
			      "target");
	struct fields f = {0};
	const char *name = a ? field_string(&f, a, "profile") : NULL;
	json_t *stop = NULL;

	if (a && fields_ok(&f)) {
		stop = json_pack("{s:s, s:s}", "cmd", "profile-stop", "profile", name);
		rows_note_left_out("profile", a);
	}
	json_decref(a);
	return stop;
}

/* An empty profile is a failure, with its reason. Returns the exit status. */
static int check_ran(const struct profile_opts *o, struct client *c, const json_t *answer)
{
	struct fields f = {0};
	uint64_t samples = field_u64(&f, answer, "samples") + field_u64(&f, answer, "lost");
	uint64_t count = field_u64(&f, answer, "count");
	char why[WHY_LEN];

	if (samples)
		return 0;
	if (count) {
		cli_error("profile: no samples: %s counted only %llu %s; lower the period with -c",
			  o->look.target, (unsigned long long)count, o->event);
		return 0;
	}
	if (field_u64(&f, answer, "running-ns")) {
		cli_error("profile: no samples: %s ran, but counted no %s", o->look.target,
			  o->event);
		return 0;
	}
	why_not_running(c, o->look.target, why);
	cli_error("profile: no samples of %s: %s", o->look.target, why);
	return 1;
}

/* cli_wait(), with a progress line. */
static enum cli_wait wait_until(const struct profile_opts *o, double end, struct client *c)
{
	double start = end < 0 ? cli_now() : end - o->look.duration_s;
	enum cli_wait why;
	bool last;

	do {
		double next = cli_now() + PROGRESS_STEP_S;

		last = end >= 0 && end <= next;
		why = cli_wait(last ? end : next, client_fd(c));
		if (end < 0)
			progress_show("profile", "%.0f s; Ctrl-C ends it", cli_now() - start);
		else
			progress_show("profile", "%.0f of %g s", cli_now() - start,
				      o->look.duration_s);
	} while (why == CLI_WAIT_TIME && !last);
	progress_end();
	return why;
}

static int guests_load(const struct profile_opts *o, struct images *im)
{
	for (size_t i = 0; i < o->nr_guests; i++)
		if (images_guest_file(im, o->guests[i]))
			return -1;
	return 0;
}

static int profile_run(const struct profile_opts *o, struct client *c)
{
	struct profile_format format = {.vcpu = o->vcpu,
					.chains = o->chains,
					.folded = o->look.folded,
					.json = o->look.json,
					.data = o->look.format};
	double end = o->look.duration_s < 0 ? -1 : cli_now() + o->look.duration_s;
	json_t *stop = NULL, *a = NULL;
	struct outfile *out = NULL;
	struct images *im;
	enum cli_wait why;
	double begin;
	int ret = 1;

	/* Request the images now: VMs may be gone at the end. Reading the files first makes errors
	 * cheap. */
	im = images_load(c);
	if (!im)
		return 1;
	if (guests_load(o, im) || outfile_open(o->look.output, &out))
		goto out;
	format.start_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	begin = cli_now();
	stop = cli_profile_start(o, c);
	if (!stop)
		goto out;
	why = wait_until(o, end, c);
	format.duration_ns = (int64_t)((cli_now() - begin) * 1e9);
	format.f = outfile_stream(out);
	if (why == CLI_WAIT_SERVER_GONE)
		cli_error("profile: the server went away");
	else if (images_refresh(im, c) == 0)
		a = client_ask(c, json_incref(stop));
	if (a)
		ret = profile_show(&format, im, a);
	if (a && !ret)
		ret = check_ran(o, c, a);
out:
	if (outfile_close(out, a && !ret))
		ret = 1;
	json_decref(a);
	json_decref(stop);
	images_free(im);
	return ret;
}

/* Find the target, choose the event, if none was named, and the period. False after an error was
 * printed. */
static bool profile_choose(struct profile_opts *o, struct client *c)
{
	bool chosen = !o->event;

	if (o->kind == TARGET_NAME)
		o->look.target = names_target(c, o->look.target);
	else
		o->look.target = o->found = places_target(c, o->kind, o->look.target);
	if (!o->look.target)
		return false;
	if (chosen)
		o->event = defaults_sampled(c, "profile", DEFAULT_EVENT);
	if (o->hz) {
		o->period = o->computed;
		return frequency_period(c, o->event, o->look.target, o->hz, o->computed);
	}
	if (chosen && !o->period && strcmp(o->event, DEFAULT_EVENT))
		o->period = DEFAULTS_CLOCK_PERIOD;
	return true;
}

int cmd_profile(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_look_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = profile_parse,
		.children = children,
		.args_doc = "[TARGET]",
		.doc = "Sample a tenant, a VM or everything (/, the default) until Ctrl-C, or for "
		       "a time, and show which functions they ran. The guests take no part in it.\v"
		       "The names are those of the VMs' image files, and of the kernels where "
		       "these are known. --folded and --format imply -g.",
	};
	struct profile_opts o = {
		.look = {.duration_s = -1, .formats = DATA_PERF_SCRIPT | DATA_PPROF}};
	struct client *c;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	o.chains |= o.look.folded || o.look.format;
	profile_check_period(o.period);
	if (o.period && o.hz)
		cli_usage("profile: give only one of -c and -F");
	c = client_open(cli, false);
	if (c && cli_wait_init() == 0 && profile_choose(&o, c))
		ret = profile_run(&o, c);
	client_close(c);
	free(o.found);
	return ret;
}
