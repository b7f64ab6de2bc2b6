// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * main() of vpmud: options, signals and the service manager's protocol (sd_notify(3),
 * sd_listen_fds(3)); it also runs without a service manager. An error is one line on standard
 * error. Exit status: 0; 1: vpmud failed; 2: invalid options or configuration.
 */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "service/clock.h"
#include "service/program/complete.h"
#include "service/program/memory.h"
#include "vpmud/config.h"
#include "vpmud/daemon.h"
#include "vpmu/core/rcu.h"
#include "vpmu/util/fail.h"

#define EXIT_USAGE 2
#define ERR_MAX	   1024

const char *argp_program_version = "vpmud " VPMU_VERSION;

struct options {
	const char *config;
	bool check;
	const char *wrong; /* the last non-option argument */
};

static error_t main_parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'c':
		o->config = arg;
		return 0;
	case 'C':
		o->check = true;
		return 0;
	case ARGP_KEY_ARG:
		o->wrong = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Report errors of the configuration; this is all that --check-config does. */
static int check_config(const char *path)
{
	struct vpmud_config c = {0};
	char err[ERR_MAX];
	int ret = vpmud_config_read(&c, path, err, sizeof(err));

	if (ret)
		daemon_say(err);
	vpmud_config_fini(&c);
	return ret ? EXIT_USAGE : EXIT_SUCCESS;
}

/* ---- signals -------------------------------------------------------------------------------- */

static int on_hangup(sd_event_source *s, const struct signalfd_siginfo *si, void *arg)
{
	struct daemon *d = arg;
	char err[ERR_MAX];
	int ret;

	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)now_us());
	ret = daemon_reload(d, err, sizeof(err));
	if (*err)
		daemon_say(err);
	sd_notifyf(0, "READY=1\nSTATUS=%s",
		   ret ? "the new configuration was refused; the old one is in force" : "counting");
	return 0;
}

/* Block the signals before any thread exists, so that all threads have them blocked. */
static int setup_signals(sd_event *ev)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	sigset_t set;
	int ret;

	sigemptyset(&set);
	for (size_t i = 0; i < 3; i++)
		sigaddset(&set, signals[i]);
	ret = -pthread_sigmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file size limit must not stop counting */
	for (size_t i = 0; i < 2 && ret >= 0; i++)
		ret = sd_event_add_signal(ev, NULL, signals[i], NULL, NULL);
	return ret;
}

/* ---- main ----------------------------------------------------------------------------------- */

/* Take the socket that the service manager passes; 0 if there is none. */
static int activation(struct daemon_opts *o, char *err, size_t errlen)
{
	int n = sd_listen_fds(true);

	if (n < 0 || n > 1)
		return fail(n < 0 ? n : -EINVAL, err, errlen,
			    "socket activation: %d sockets given; expected one ListenStream=", n);
	o->listen_fd = n ? SD_LISTEN_FDS_START : 0;
	return 0;
}

static int vpmud_main_run(const struct options *o, char *err, size_t errlen)
{
	struct daemon_opts opts = {.config = o->config};
	sd_event *ev = NULL;
	struct daemon *d = NULL;
	char line[ERR_MAX];
	int ret = sd_event_new(&ev);

	if (ret >= 0)
		ret = setup_signals(ev);
	/* For WatchdogSec= of the unit; no effect without it. */
	if (ret >= 0)
		ret = sd_event_set_watchdog(ev, true);
	if (ret < 0) {
		fail(ret, err, errlen, "event loop: %s", strerror(-ret));
		goto out;
	}
	ret = activation(&opts, err, errlen);
	if (!ret)
		ret = daemon_create(ev, &opts, &d, err, errlen);
	if (ret)
		goto out;
	ret = sd_event_add_signal(ev, NULL, SIGHUP, on_hangup, d);
	if (ret >= 0) {
		fail(0, line, sizeof(line), "serving %s", daemon_socket(d));
		daemon_say(line);
		sd_notify(0, "READY=1\nSTATUS=counting");
		ret = sd_event_loop(ev);
	}
	if (ret < 0)
		fail(ret, err, errlen, "event loop: %s", strerror(-ret));
	sd_notify(0, "STOPPING=1");
	daemon_leave(d);
out:
	daemon_destroy(d);
	sd_event_unref(ev);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct argp_option known[] = {
		{"config", 'c', "FILE", 0, "read FILE instead of " VPMUD_CONF, 0},
		{"check-config", 'C', NULL, 0, "check the configuration, print its errors, and end",
		 0},
		{0},
	};
	static const struct argp argp = {
		.options = known,
		.parser = main_parse,
		.doc = "Count events of every VM and cgroup of this host, for each tenant.",
	};
	struct complete words;
	struct options o = {0};
	char err[ERR_MAX] = "";
	int ret;

	if (complete_asked(&words, argc, argv)) {
		complete_scan(&words, &argp, false);
		complete_option(&words, &argp);
		return EXIT_SUCCESS;
	}
	/* The state file must never lack something because there was no memory for it. */
	json_set_alloc_funcs(xmalloc, free);
	argp_err_exit_status = EXIT_USAGE;
	/* argp exits on invalid options; only ENOMEM returns. */
	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		memory_out();
	if (o.wrong) {
		fail(0, err, sizeof(err),
		     "\"%.80s\": not an option; expected options only (--help)", o.wrong);
		daemon_say(err);
		return EXIT_USAGE;
	}
	ret = check_config(o.config);
	if (ret || o.check)
		return ret;
	urcu_memb_register_thread();
	ret = vpmud_main_run(&o, err, sizeof(err));
	if (ret < 0)
		daemon_say(err);
	urcu_memb_unregister_thread();
	return ret >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
