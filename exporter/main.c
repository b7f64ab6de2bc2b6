// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * main() of vpmu-exporter: options, the listening socket, and the connection to the server. It is
 * an ordinary client of vpmud, with a connection per text, so that it finds a restarted server. An
 * error is one line on standard error. Exit status: 0; 1: it failed; 2: invalid options or
 * configuration.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "exporter/config.h"
#include "exporter/http.h"
#include "exporter/listen.h"
#include "exporter/page.h"
#include "exporter/users.h"
#include "service/connection.h"
#include "service/program/complete.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#define EXIT_USAGE 2
#define ERR_MAX	   600
#define SOCKET	   "/run/vpmu/vpmud.sock"

const char *argp_program_version = "vpmu-exporter " VPMU_VERSION;

struct exporter {
	struct exporter_config c;
	const char *config, *socket, *user; /* options */
	bool check;
	const char *wrong; /* the last non-option argument */
	char *file;	   /* the Unix socket to remove at the end; NULL: none */
	struct connection server;
	struct metrics *metrics;
	bool failed; /* writing the last text failed, and was logged */
};

static volatile sig_atomic_t ended;

static void on_signal(int sig)
{
	ended = 1;
}

static void say(const char *line)
{
	fprintf(stderr, "vpmu-exporter: %s\n", line);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct exporter *x = state->input;

	switch (key) {
	case 'c':
		x->config = arg;
		return 0;
	case 'C':
		x->check = true;
		return 0;
	case 'S':
		x->socket = arg;
		return 0;
	case 'u':
		x->user = arg;
		return 0;
	case ARGP_KEY_ARG:
		x->wrong = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Log an error when it begins, not at each text. */
static int render(void *arg, struct expo *e)
{
	struct exporter *x = arg;
	char err[ERR_MAX];
	int ret = connection_open(&x->server, x->socket, HTTP_ASK_SEC);

	if (ret)
		fail(ret, err, sizeof(err), "%s: %s", x->socket, strerror(-ret));
	else
		ret = e->form == EXPO_JSON ? metrics_sums(x->metrics, e, err, sizeof(err))
					   : metrics_render(x->metrics, e, err, sizeof(err));
	connection_close(&x->server);
	if (ret && !x->failed)
		say(err);
	x->failed = ret != 0;
	return ret;
}

/* Start counting now, not with the first scrape. */
static int ready(void *arg, char *err, size_t errlen)
{
	struct exporter *x = arg;
	struct expo e = {.form = EXPO_TEXT};
	int ret = exporter_contain(x->user, x->file, err, errlen);

	if (ret)
		return ret;
	render(x, &e);
	expo_fini(&e);
	sd_notify(0, "READY=1");
	return 0;
}

/* ---- the start ------------------------------------------------------------------------------ */

/* Read a file named in the configuration. */
static int read_text(const char *path, char **out, char *err, size_t errlen)
{
	enum { PEM_MAX = 1 << 20 };
	char *text = xcalloc(1, PEM_MAX);
	size_t n = 0;
	int ret = 0;
	FILE *f;

	f = fopen(path, "re");
	if (f)
		n = fread(text, 1, PEM_MAX, f);
	if (!f || ferror(f))
		ret = -errno;
	else if (n == PEM_MAX)
		ret = -EFBIG;
	if (f)
		fclose(f);
	*out = text;
	return ret ? fail(ret, err, errlen, "%s: %s", path, strerror(-ret)) : 0;
}

static int find_socket(struct exporter *x, int *fd, char *err, size_t errlen)
{
	int n = sd_listen_fds(true);

	if (n < 0 || n > 1)
		return fail(n < 0 ? n : -EINVAL, err, errlen,
			    "socket activation: %d sockets given; expected one ListenStream=", n);
	if (n) {
		*fd = SD_LISTEN_FDS_START;
		return 0;
	}
	if (x->c.listen)
		return metrics_listen(x->c.listen, fd, &x->file, err, errlen);
	return fail(-EINVAL, err, errlen,
		    "nowhere to listen; expected listen = in %s, or vpmu-exporter.socket",
		    x->config ? x->config : EXPORTER_CONF);
}

/* Make the live page, without data. */
static char *make_page(size_t *len)
{
	json_t *data = json_pack("{s:i, s:b, s:s}", "format", 1, "live", 1, "made_by",
				 "Made by vpmu-exporter " VPMU_VERSION ".");
	char *page = page_text(data, true, len);

	json_decref(data);
	return page;
}

static int run(struct exporter *x, char *err, size_t errlen)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct http_opts o = {.ready = ready, .render = render, .arg = x, .end = &ended};
	char *cert = NULL, *key = NULL;
	sigset_t block, before;
	int ret;

	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGINT);
	sigprocmask(SIG_BLOCK, &block, &before);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	o.signals = &before;
	o.page = make_page(&o.page_len);
	if (!o.page)
		return fail(-EIO, err, errlen, "no random bytes for the page");
	ret = find_socket(x, &o.listen_fd, err, errlen);
	if (!ret && x->c.users)
		ret = users_read(x->c.users, &o.users, err, errlen);
	if (!ret && x->c.tls_cert)
		ret = read_text(x->c.tls_cert, &cert, err, errlen);
	if (!ret && x->c.tls_key)
		ret = read_text(x->c.tls_key, &key, err, errlen);
	o.cert = cert;
	o.key = key;
	if (!ret)
		ret = http_serve(&o, err, errlen);
	if (x->file)
		unlink(x->file);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct argp_option known[] = {
		{"config", 'c', "FILE", 0, "read FILE instead of " EXPORTER_CONF, 0},
		{"check-config", 'C', NULL, 0, "check the configuration, print its errors, and end",
		 0},
		{"socket", 'S', "PATH", 0, "read the server at PATH instead of " SOCKET, 0},
		{"user", 'u', "NAME", 0, "become this user, for a start as root", 0},
		{0},
	};
	static const struct argp argp = {
		.options = known,
		.parser = parse,
		.doc = "Serve what vpmud counts to Prometheus.",
	};
	static struct exporter x = {.server = {.fd = -1}};
	struct complete words;
	char err[ERR_MAX] = "";
	int ret;

	if (complete_asked(&words, argc, argv)) {
		complete_scan(&words, &argp, false);
		complete_option(&words, &argp);
		return EXIT_SUCCESS;
	}
	json_set_alloc_funcs(xmalloc, free);
	argp_err_exit_status = EXIT_USAGE;
	/* argp exits on invalid options; only ENOMEM returns. */
	if (argp_parse(&argp, argc, argv, 0, NULL, &x)) {
		say("out of memory");
		return EXIT_FAILURE;
	}
	if (x.wrong) {
		fail(0, err, sizeof(err),
		     "\"%.80s\": not an option; expected options only (--help)", x.wrong);
		say(err);
		return EXIT_USAGE;
	}
	ret = exporter_config_read(&x.c, x.config, err, sizeof(err));
	if (!ret)
		ret = exporter_metrics(&x.c, &x.server, &x.metrics, err, sizeof(err));
	if (!x.socket)
		x.socket = x.c.socket ? x.c.socket : SOCKET;
	if (ret || x.check) {
		if (ret)
			say(err);
		return ret ? EXIT_USAGE : EXIT_SUCCESS;
	}
	ret = run(&x, err, sizeof(err));
	if (ret)
		say(err);
	/* The HTTP server is not freed: it ends with the process. */
	_exit(ret ? EXIT_FAILURE : EXIT_SUCCESS);
}
