// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cgroup/exporter/process.c and http.c: the processes that serve the metrics, with this test in
 * vpmud's place. Whatever clients do, the next scraper must be answered; whichever process ends,
 * another one must follow.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup/exporter/http.h"
#include "cgroup/exporter/wire.h"

#define HANG_SEC 60 /* only a server that will never answer takes so long */
#define CROWD	 1000

static struct sockaddr_in at = {.sin_family = AF_INET};
static int listen_fd, sock = -1;
static pid_t watcher;
static pthread_t vpmud;

/* ---- vpmud ---------------------------------------------------------------------------------- */

static int text_file(void)
{
	static const char text[] = "# TYPE up gauge\nup 1\n";
	int fd = memfd_create("text", MFD_CLOEXEC);

	if (fd < 0 || write(fd, text, sizeof(text) - 1) != sizeof(text) - 1)
		return -1;
	return fd;
}

static void *answer(void *arg)
{
	struct wire_ask q;
	int fd;

	while (wire_recv(sock, &q, sizeof(q), &fd) > 0) {
		struct wire_answer a = {.id = q.id, .len = 21};

		fd = text_file();
		wire_send(sock, &a, sizeof(a), fd);
		close(fd);
	}
	return NULL;
}

static void setup(void)
{
	struct http_opts o = {0};
	struct rlimit files;
	socklen_t len = sizeof(at);
	char err[300];
	int ret;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	/* Blocking, as a service manager's socket is. */
	listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listen_fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(getsockname(listen_fd, (struct sockaddr *)&at, &len), 0);
	cr_assert_eq(listen(listen_fd, 128), 0);
	o.listen_fd = listen_fd;
	ret = http_start(&o, &sock, &watcher, err, sizeof(err));
	cr_assert_eq(ret, 0, "%s", err);
	cr_assert_eq(pthread_create(&vpmud, NULL, answer, NULL), 0);
}

static void teardown(void)
{
	shutdown(sock, SHUT_RDWR);
	pthread_join(vpmud, NULL);
	close(sock);
	waitpid(watcher, NULL, 0);
	close(listen_fd);
}

TestSuite(http, .init = setup, .fini = teardown);

/* ---- clients -------------------------------------------------------------------------------- */

/* The status code of a scrape; 0: the connection ended, -1: no answer. */
static int scrape(void)
{
	static const char request[] =
		"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	const struct timeval limit = {.tv_sec = HANG_SEC};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), code = 0;
	char buf[8192];
	size_t have = 0;
	ssize_t n = -1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (!connect(fd, (struct sockaddr *)&at, sizeof(at)) &&
	    send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0)
		while (have < sizeof(buf) - 1 &&
		       (n = recv(fd, buf + have, sizeof(buf) - 1 - have, 0)) > 0)
			have += (size_t)n;
	if (n < 0)
		code = errno == ECONNRESET ? 0 : -1;
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
		int code = scrape();

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
