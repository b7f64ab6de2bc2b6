// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exporter/process.c and http.c: the processes that serve the metrics, with this test in
 * vpmud's place. Whatever clients do, the next scraper must be answered; whichever process ends,
 * another one must follow.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
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

#include "exporter/http.h"
#include "exporter/wire.h"

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

	/* family() knows its own by that. */
	cr_assert(getpgrp() == getpid() || !setpgid(0, 0));
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
	o.listen_fd = listen_fd;
	ret = http_start(&o, &sock, &watcher, err, sizeof(err));
	cr_assert_eq(ret, 0, "%s", err);
	cr_assert_eq(pthread_create(&vpmud, NULL, answer, NULL), 0);
}

static void teardown(void)
{
	http_stop(sock, watcher);
	pthread_join(vpmud, NULL);
	close(listen_fd);
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
	/* When this is answered, all before it are accepted. */
	cr_expect_eq(answered(1), 1);
	cr_expect_eq(scraper_asks(scraper), 200);
	leave(fd, 400);
}

/* ---- the processes -------------------------------------------------------------------------- */

/* The processes of this test that are called @comm (NULL: all that http_start has made), and are no
 * zombies. */
static int family(const char *comm, pid_t *pids, int max)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	int n = 0;

	cr_assert(proc);
	while ((e = readdir(proc)) && n < max) {
		char path[300], line[512] = "", name[32], state;
		int pid, group;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = *e->d_name >= '1' && *e->d_name <= '9' ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (fgets(line, sizeof(line), f) &&
		    sscanf(line, "%d (%31[^)]) %c %*d %d", &pid, name, &state, &group) == 4 &&
		    group == getpgrp() && state != 'Z' && !strncmp(name, "vpmud-", 6) &&
		    (!comm || !strcmp(name, comm)))
			pids[n++] = pid;
		fclose(f);
	}
	closedir(proc);
	return n;
}

/* Until there are @n of them. */
static int family_of(int n, pid_t *pids)
{
	int have = 0;

	for (int i = 0; i < HANG_SEC * 100 && (have = family(NULL, pids, 16)) != n; i++)
		usleep(10000);
	return have;
}

static bool one_of_each(const char *const names[3])
{
	pid_t pids[16];

	for (int i = 0; i < 3; i++)
		if (family(names[i], pids, 16) != 1)
			return false;
	return family(NULL, pids, 16) == 3;
}

/* The numbers of the line of /proc/@pid/status that begins with @key. */
static void status_line(pid_t pid, const char *key, char *buf, size_t len)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	*buf = '\0';
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			snprintf(buf, len, "%s", line + strlen(key));
	if (f)
		fclose(f);
}

Test(http, whichever_process_ends_another_one_follows, .timeout = 10 * HANG_SEC)
{
	static const char *const names[] = {"vpmud-http", "vpmud-watch", "vpmud-spare"};
	pid_t pids[16];

	cr_assert_eq(answered(1), 1);
	for (int round = 0; round < 6; round++) {
		const char *name = names[round % 3];

		/* One of each: those that end with another one may take their time. */
		for (int i = 0; i < HANG_SEC * 100 && !one_of_each(names); i++)
			usleep(10000);
		cr_assert_eq(family(name, pids, 16), 1, "round %d: %s", round, name);
		cr_assert_eq(kill(pids[0], SIGKILL), 0);
		for (int i = 0; i < HANG_SEC * 100 && !kill(pids[0], 0); i++) {
			waitpid(pids[0], NULL, WNOHANG);
			usleep(10000);
		}
		cr_expect_eq(answered(3), 3, "round %d: %s", round, name);
	}
	/* None of them is left when vpmud ends. */
	cr_assert_eq(family_of(3, pids), 3);
	http_stop(sock, watcher);
	pthread_join(vpmud, NULL);
	cr_expect_eq(family_of(0, pids), 0);
	close(listen_fd);
	setup();
}

/* What runs as nobody, a user that other services have as well, can do nothing to them; and they
 * have no rights. */
Test(http, they_are_a_user_of_their_own_without_rights)
{
	pid_t pids[16];
	char buf[256];

	cr_assert_eq(answered(1), 1);
	cr_assert_eq(family_of(3, pids), 3);
	for (int i = 0; i < 3; i++) {
		pid_t nobody;
		int status;

		status_line(pids[i], "CapPrm:", buf, sizeof(buf));
		cr_expect(strstr(buf, "0000000000000000"), "%d: %s", i, buf);
		status_line(pids[i], "NoNewPrivs:", buf, sizeof(buf));
		cr_expect_eq(atoi(buf), 1, "%d", i);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		status_line(pids[i], "Seccomp:", buf, sizeof(buf));
		cr_expect_eq(atoi(buf), 2, "%d: %s", i, buf);
#endif
		if (geteuid())
			continue;
		nobody = fork();
		if (!nobody) {
			const struct rlimit none = {0, 0};

			if (setgid(65534) || setuid(65534))
				_exit(1);
			if (!kill(pids[i], 0) || !kill(pids[i], SIGSTOP))
				_exit(2);
			_exit(prlimit(pids[i], RLIMIT_CPU, &none, NULL) ? 0 : 3);
		}
		cr_assert_eq(waitpid(nobody, &status, 0), nobody);
		cr_expect(WIFEXITED(status) && !WEXITSTATUS(status), "%d: %#x", i, status);
		status_line(pids[i], "Uid:", buf, sizeof(buf));
		cr_expect_gt(atoi(buf), 0, "%s", buf);
	}
}
