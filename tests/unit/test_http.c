// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exporter/http.c and rights.c: a process that serves a text of this test's as vpmu-exporter serves
 * metrics. Whatever clients do, the next scraper must be answered.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exporter/config.h"
#include "exporter/exposition.h"
#include "exporter/http.h"

#define HANG_SEC 60 /* only a server that will never answer takes so long */
#define CROWD	 1000

static struct sockaddr_in at = {.sin_family = AF_INET};
static int listen_fd;
static pid_t server;

/* ---- the process ---------------------------------------------------------------------------- */

static int up(void *arg, struct expo *e)
{
	expo_family(e, "up", EXPO_GAUGE, NULL, "Help.");
	expo_u64(e, "", 1, 0);
	return 0;
}

static int contained(void *arg, char *err, size_t errlen)
{
	const int *to = arg;
	int ret = exporter_contain(NULL, NULL, err, errlen);

	return ret || write(*to, "r", 1) != 1 ? -EPIPE : 0;
}

_Noreturn static void serve(int to)
{
	static const volatile sig_atomic_t end;
	sigset_t none;
	char err[300] = "";
	const struct http_opts o = {.listen_fd = listen_fd,
				    .ready = contained,
				    .render = up,
				    .arg = &to,
				    .end = &end,
				    .signals = &none};

	sigemptyset(&none);
	signal(SIGPIPE, SIG_IGN);
	http_serve(&o, err, sizeof(err));
	fprintf(stderr, "%s\n", err);
	_exit(1);
}

static void setup(void)
{
	struct rlimit files;
	socklen_t len = sizeof(at);
	int ready[2];
	char c;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = 0;
	/* Blocking, as a service manager's socket is. */
	listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listen_fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(getsockname(listen_fd, (struct sockaddr *)&at, &len), 0);
	cr_assert_eq(listen(listen_fd, 128), 0);
	cr_assert_eq(pipe(ready), 0);
	server = fork();
	cr_assert_geq(server, 0);
	if (!server)
		serve(ready[1]);
	close(ready[1]);
	cr_assert_eq(read(ready[0], &c, 1), 1, "it does not begin");
	close(ready[0]);
	close(listen_fd);
}

static void teardown(void)
{
	int status;

	kill(server, SIGTERM);
	cr_expect_eq(waitpid(server, &status, 0), server);
	cr_expect(WIFSIGNALED(status), "it has ended before: %#x", status);
}

TestSuite(http, .init = setup, .fini = teardown);

/* ---- clients -------------------------------------------------------------------------------- */

static int scraper_connects(void)
{
	const struct timeval limit = {.tv_sec = HANG_SEC};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_geq(fd, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (struct sockaddr *)&at, sizeof(at)))
		return fd;
	close(fd);
	return -1;
}

/* The status code of a scrape by @fd, which is closed; 0: the connection ended, -1: no answer. */
static int scraper_asks(int fd)
{
	static const char request[] =
		"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	char buf[8192];
	size_t have = 0;
	ssize_t n = -1;
	int code = 0;

	if (fd < 0)
		return -1;
	if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0)
		while (have < sizeof(buf) - 1 &&
		       (n = recv(fd, buf + have, sizeof(buf) - 1 - have, 0)) > 0)
			have += (size_t)n;
	if (n < 0)
		code = errno == EAGAIN ? -1 : 0;
	close(fd);
	buf[have] = '\0';
	if (!n && sscanf(buf, "HTTP/1.1 %d", &code) == 1 && code == 200)
		cr_expect(strstr(buf, "\nup 1\n"), "%s", buf);
	return code;
}

/* Of @n scrapes, one after the other, those that were answered with the metrics. */
static int answered(int n)
{
	int good = 0;

	for (int i = 0; i < n; i++) {
		int code = scraper_asks(scraper_connects());

		good += code == 200;
		if (code < 0)
			break; /* so that a test that fails ends */
	}
	return good;
}

/* @n connections that send @text and no more; -1: not made, the server lets it wait. */
static void crowd(int *fd, int n, const char *text)
{
	for (int i = 0; i < n; i++) {
		struct pollfd p = {.events = POLLOUT};

		fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		cr_assert_geq(fd[i], 0, "%d: %s", i, strerror(errno));
		p.fd = fd[i];
		if (connect(fd[i], (struct sockaddr *)&at, sizeof(at)) && errno != EINPROGRESS)
			continue;
		/* A server that is at its end must not make this test take hours. */
		if (poll(&p, 1, 50) == 1)
			send(fd[i], text, strlen(text), MSG_NOSIGNAL);
	}
}

static void leave(const int *fd, int n)
{
	for (int i = 0; i < n; i++)
		close(fd[i]);
}

Test(http, idle_connections_end_nothing, .timeout = 4 * HANG_SEC)
{
	static int fd[300];

	cr_assert_eq(answered(1), 1);
	crowd(fd, 300, "");
	cr_expect_eq(answered(20), 20);
	leave(fd, 300);
	cr_expect_eq(answered(20), 20);
	/* Once more, and this time they are left alone until the server has ended all of them. */
	crowd(fd, 300, "");
	for (int i = 0; i < 300; i++) {
		struct pollfd p = {.fd = fd[i], .events = POLLIN};

		cr_expect_eq(poll(&p, 1, HANG_SEC * 1000), 1, "%d is not ended", i);
	}
	cr_expect_eq(answered(20), 20);
	leave(fd, 300);
}

Test(http, a_thousand_slow_connections, .timeout = 4 * HANG_SEC)
{
	static const char *const begins[] = {"GET /metrics HTTP/1.1\r\nX-Slow: ", "G",
					     "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"};
	static int fd[CROWD];

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		crowd(fd, CROWD, begins[i]);
		cr_expect_eq(answered(100), 100, "%s", begins[i]);
		for (int k = 0; k < CROWD; k++)
			send(fd[k], "x", 1, MSG_NOSIGNAL);
		cr_expect_eq(answered(100), 100, "%s", begins[i]);
		leave(fd, CROWD);
	}
}

/* Those that came before it make room, not the scraper. */
Test(http, a_scraper_keeps_its_place, .timeout = 4 * HANG_SEC)
{
	static int fd[400];
	int scraper;

	crowd(fd, 300, "G");
	scraper = scraper_connects();
	crowd(fd + 300, 100, "G");
	/* When this is answered, all before it are connected. */
	cr_expect_eq(answered(1), 1);
	cr_expect_eq(scraper_asks(scraper), 200);
	leave(fd, 400);
}

/* ---- its rights ------------------------------------------------------------------------------ */

/* The text of the line of the server's /proc/PID/status that begins with @key. */
static const char *status(const char *key)
{
	static char text[256];
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", server);
	f = fopen(path, "re");
	*text = '\0';
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			snprintf(text, sizeof(text), "%s", line + strlen(key));
	if (f)
		fclose(f);
	return text;
}

Test(http, it_has_no_rights)
{
	cr_assert_eq(answered(1), 1);
	cr_expect(strstr(status("CapPrm:"), "0000000000000000"), "%s", status("CapPrm:"));
	cr_expect(strstr(status("CapEff:"), "0000000000000000"), "%s", status("CapEff:"));
	cr_expect_eq(atoi(status("NoNewPrivs:")), 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	cr_expect_eq(atoi(status("Seccomp:")), 2, "%s", status("Seccomp:"));
#endif
}
