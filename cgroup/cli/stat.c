// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu stat: attach, wait (for a command, a time or Ctrl-C), detach, print. With -I a line per
 * value and interval; with --session an attached session is shown and goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/cli/client.h"
#include "cgroup/cli/output.h"

#define DEFAULT_EVENTS	"instructions,cycles,branches,branches-taken"
#define INTERVAL_MIN_MS 10

struct stat_opts {
	const char *events, *scope, *target, *session, *sep;
	unsigned int interval_ms;
	double duration_s; /* 0: none */
	bool json;
	char **command; /* NULL: none */
};

enum { OPT_FOR_EACH = 1000, OPT_SESSION };

static const struct argp_option options[] = {
	{"event", 'e', "LIST", 0, "Events, as perf stat -e (default: " DEFAULT_EVENTS ")", 0},
	{"for-each", OPT_FOR_EACH, "KIND", 0, "One row for each tenant, vm or vcpu", 0},
	{"target", 't', "WHAT", 0,
	 "A tenant (/acme), a VM (web-1) or / (default): what is counted, "
	 "or with --for-each what is looked into",
	 0},
	{"interval-print", 'I', "MS", 0, "Print the difference every MS milliseconds (10 or more)",
	 0},
	{"duration", 'd', "SEC", 0, "Stop after SEC seconds", 0},
	{"field-separator", 'x', "SEP", 0, "Separated values instead of a table", 0},
	{"json-output", 'j', NULL, 0, "One JSON object per value and line", 0},
	{"session", OPT_SESSION, "NAME", 0,
	 "Show an attached session instead of a new one; it "
	 "goes on",
	 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct stat_opts *o = state->input;

	switch (key) {
	case 'e':
		o->events = arg;
		return 0;
	case OPT_FOR_EACH:
		if (strcmp(arg, "tenant") && strcmp(arg, "vm") && strcmp(arg, "vcpu"))
			cli_usage("stat: --for-each \"%s\": tenant, vm or vcpu is accepted", arg);
		o->scope = arg;
		return 0;
	case 't':
		o->target = arg;
		return 0;
	case 'I':
		o->interval_ms =
			(unsigned int)cli_number("stat: -I", arg, INTERVAL_MIN_MS, 3600000);
		return 0;
	case 'd':
		o->duration_s = cli_seconds("stat: -d", arg, 1e6);
		return 0;
	case 'x':
		if (!*arg)
			cli_usage("stat: -x: empty; a separator like , is accepted");
		o->sep = arg;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case OPT_SESSION:
		o->session = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- waiting ------------------------------------------------------------------------------ */

struct waiter {
	int signals; /* signalfd: INT, TERM, CHLD */
	sigset_t old;
	pid_t child; /* 0: none, or it ended */
	int child_status;
};

static int waiter_init(struct waiter *w)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &w->old);
	w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (w->signals < 0)
		cli_error("stat: signalfd: %s", strerror(errno));
	return w->signals < 0 ? -1 : 0;
}

static int start_command(struct waiter *w, char **command)
{
	int fds[2], err = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC)) {
		cli_error("stat: pipe: %s", strerror(errno));
		return -1;
	}
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &w->old, NULL);
		signal(SIGPIPE, SIG_DFL);
		execvp(command[0], command);
		err = errno;
		if (write(fds[1], &err, sizeof(err)) < 0)
			_exit(126);
		_exit(127);
	}
	close(fds[1]);
	if (pid < 0)
		err = errno;
	else if (read(fds[0], &err, sizeof(err)) != sizeof(err)) /* closed by the exec */
		err = 0;
	close(fds[0]);
	if (err) {
		cli_error("stat: %s: %s; a command that can be run is accepted", command[0],
			  strerror(err));
		if (pid > 0)
			waitpid(pid, NULL, 0);
		return -1;
	}
	w->child = pid;
	return 0;
}

/* Take one signal. true: stop counting. */
static bool take_signal(struct waiter *w)
{
	struct signalfd_siginfo si;
	int status;

	if (read(w->signals, &si, sizeof(si)) != sizeof(si))
		return false;
	if (si.ssi_signo != SIGCHLD) /* the command gets Ctrl-C too, and we wait for its end */
		return !w->child || si.ssi_signo == SIGTERM;
	if (!w->child || waitpid(w->child, &status, WNOHANG) != w->child)
		return false;
	w->child = 0;
	w->child_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return true;
}

enum wait_end { WAIT_TIME, WAIT_STOP, WAIT_SERVER_GONE };

/* Until @deadline_ns (0: no end), a signal that ends it, the command's end, or the server's. */
static enum wait_end wait_until(struct waiter *w, uint64_t deadline_ns, int server_fd)
{
	for (;;) {
		struct pollfd p[2] = {{.fd = w->signals, .events = POLLIN},
				      {.fd = server_fd, .events = POLLIN}};
		struct timespec t, *timeout = NULL;
		uint64_t now;
		int n;

		clock_gettime(CLOCK_MONOTONIC, &t);
		now = (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
		if (deadline_ns) {
			uint64_t left = deadline_ns > now ? deadline_ns - now : 0;

			t.tv_sec = (time_t)(left / 1000000000ULL);
			t.tv_nsec = (long)(left % 1000000000ULL);
			timeout = &t;
		}
		n = ppoll(p, 2, timeout, NULL);
		if (n == 0)
			return WAIT_TIME;
		if (n < 0 && errno != EINTR)
			return WAIT_STOP;
		if (n > 0 && (p[0].revents & POLLIN) && take_signal(w))
			return WAIT_STOP;
		/* Nothing is asked: it can only be the end. */
		if (n > 0 && p[1].revents)
			return WAIT_SERVER_GONE;
	}
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* ---- counting ----------------------------------------------------------------------------- */

static struct reading *take_reading(struct client *c, const char *cmd, const char *session)
{
	json_t *resp = client_ask(c, json_pack("{s:s, s:s}", "cmd", cmd, "session", session));
	struct reading *r = resp ? reading_parse(resp) : NULL;

	json_decref(resp);
	return r;
}

static void print_total(const struct stat_opts *o, const struct reading *r)
{
	if (o->json)
		out_json(r, -1);
	else if (o->sep)
		out_csv(r, -1, o->sep);
	else
		out_total(r, cli_width());
}

static void print_interval(const struct stat_opts *o, const struct reading *r, double time_s)
{
	if (o->json)
		out_json(r, time_s);
	else if (o->sep)
		out_csv(r, time_s, o->sep);
	else
		out_lines(r, time_s);
	fflush(stdout);
}

/* The totals of @now, as the differences of the next reading's base. */
static struct reading *interval(const struct stat_opts *o, struct client *c, const char *cmd,
				const char *session, struct reading *before, bool print)
{
	json_t *resp = client_ask(c, json_pack("{s:s, s:s}", "cmd", cmd, "session", session));
	struct reading *totals = resp ? reading_parse(resp) : NULL;
	struct reading *diff = totals ? reading_parse(resp) : NULL;

	if (diff && print) {
		reading_subtract(diff, before);
		print_interval(o, diff, (double)diff->age_ns / 1e9);
	}
	reading_free(diff);
	reading_free(before);
	json_decref(resp);
	return totals;
}

static int server_gone(void)
{
	cli_error("stat: the server went away before the counts were read");
	return 1;
}

static int run_intervals(const struct stat_opts *o, struct client *c, struct waiter *w,
			 const char *session, uint64_t end_ns)
{
	const char *last_cmd = o->session ? "read" : "detach";
	struct reading *r = NULL;
	uint64_t next = now_ns();
	enum wait_end end;

	/* An attached session: differences from now on, not since its attach. */
	r = interval(o, c, "read", session, NULL, false);
	if (!r)
		return 1;
	if (!o->json && !o->sep)
		out_lines_heading(r);
	do {
		next += o->interval_ms * 1000000ULL;
		end = wait_until(w, end_ns && end_ns < next ? end_ns : next, client_fd(c));
		if (end == WAIT_SERVER_GONE) {
			reading_free(r);
			return server_gone();
		}
		if (end == WAIT_TIME && end_ns && now_ns() >= end_ns)
			end = WAIT_STOP;
		r = interval(o, c, end == WAIT_STOP ? last_cmd : "read", session, r, true);
	} while (r && end == WAIT_TIME && !ferror(stdout));
	if (!r)
		return 1;
	reading_free(r);
	return 0;
}

static int run_once(const struct stat_opts *o, struct client *c, struct waiter *w,
		    const char *session, uint64_t end_ns)
{
	struct reading *r;

	if (!o->session || end_ns || w->child)
		if (wait_until(w, end_ns, client_fd(c)) == WAIT_SERVER_GONE)
			return server_gone();
	r = take_reading(c, o->session ? "read" : "detach", session);
	if (!r)
		return 1;
	print_total(o, r);
	reading_free(r);
	return 0;
}

static char *attach(const struct stat_opts *o, struct client *c)
{
	json_t *resp = client_ask(c, json_pack("{s:s, s:s, s:s, s:s}", "cmd", "attach", "events",
					       o->events, "scope", o->scope, "target", o->target));
	const char *name = json_string_value(json_object_get(resp, "session"));
	char *copy = name ? strdup(name) : NULL;

	if (resp && !copy)
		cli_error("the server's answer is none of vpmu's protocol");
	json_decref(resp);
	return copy;
}

static int count(const struct stat_opts *o, struct client *c, struct waiter *w)
{
	char *session = o->session ? strdup(o->session) : attach(o, c);
	uint64_t end_ns = 0;
	int ret = 1;

	if (!session)
		return 1;
	if (o->command && start_command(w, o->command))
		goto out;
	if (o->duration_s > 0)
		end_ns = now_ns() + (uint64_t)(o->duration_s * 1e9);
	ret = o->interval_ms ? run_intervals(o, c, w, session, end_ns)
			     : run_once(o, c, w, session, end_ns);
	if (w->child) { /* -d was shorter: the command goes on, as ours */
		waitpid(w->child, &w->child_status, 0);
		w->child_status = WIFSIGNALED(w->child_status) ? 128 + WTERMSIG(w->child_status)
							       : WEXITSTATUS(w->child_status);
	}
	if (!ret && o->command)
		ret = w->child_status;
out:
	free(session);
	return ret;
}

int cmd_stat(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[-- COMMAND [ARG...]]",
		.doc = "Count events of the whole host, a tenant or a VM until Ctrl-C, for a time, "
		       "or while COMMAND runs.\v"
		       "A count that could not be counted all the time is scaled up and shows the "
		       "percentage. Values that a model made or that were estimated say so.",
	};
	struct stat_opts o = {.scope = "none", .target = "/"};
	struct waiter w = {0};
	struct client *c;
	int first, ret = 1;

	cli_parse(cli, &argp, argc, argv, &first, &o);
	if (first < argc)
		o.command = argv + first;
	if (o.json && o.sep)
		cli_usage("stat: -j and -x: one of them is accepted");
	if (o.session && (o.events || strcmp(o.scope, "none") || strcmp(o.target, "/")))
		cli_usage("stat: --session: has its own events and rows; -e, --for-each and -t are "
			  "accepted without it");
	if (!o.events)
		o.events = DEFAULT_EVENTS;
	c = client_open(cli, false);
	if (!c)
		return 1;
	if (waiter_init(&w) == 0)
		ret = count(&o, c, &w);
	client_close(c);
	if (w.signals > 0)
		close(w.signals);
	return ret;
}
