// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The process that speaks HTTP, and the one that watches it; see http.h. Both have given up all
 * rights before the first client is looked at. Neither may keep anything of vpmud's open but its
 * end of the socket pair, the listening socket and standard error.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup/daemon/contain.h"
#include "cgroup/exporter/http.h"
#include "cgroup/exporter/wire.h"
#include "vpmu/util/fail.h"

#define AGAIN_SEC 1
#define FILES_MAX (HTTP_CONNECTIONS_ALL + 64)

/* Close all that is open but standard error, @a and @b. What cannot be left open is vpmud's:
 * without this the process may not begin. 0 or -errno. */
static int close_others(int a, int b)
{
	const unsigned int keep[] = {(unsigned int)(a < b ? a : b), (unsigned int)(a < b ? b : a)};
	unsigned int first = 3;

	for (int i = 0; i < 2; i++) {
		if (keep[i] < first)
			continue;
		if (keep[i] > first && close_range(first, keep[i] - 1, 0))
			return -errno;
		first = keep[i] + 1;
	}
	return close_range(first, ~0U, 0) ? -errno : 0;
}

static void limit(int what, rlim_t max)
{
	const struct rlimit r = {max, max};

	setrlimit(what, &r);
}

/* Nobody, without capabilities; the process ends with the one that made it. */
static int give_up(pid_t parent, char *err, size_t errlen)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{.effective = 0}};

	if (!geteuid() && (setgroups(0, NULL) || setresgid(HTTP_UID, HTTP_UID, HTTP_UID) ||
			   setresuid(HTTP_UID, HTTP_UID, HTTP_UID)))
		return fail(-errno, err, errlen,
			    "metrics: the HTTP process cannot become nobody: %s (CAP_SETUID and "
			    "CAP_SETGID are needed for the start)",
			    strerror(errno));
	if (syscall(SYS_capset, &head, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		return fail(-errno, err, errlen, "metrics: the HTTP process: %s", strerror(errno));
	if (getppid() != parent)
		_exit(0);
	limit(RLIMIT_NOFILE, FILES_MAX);
	limit(RLIMIT_CORE, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	limit(RLIMIT_AS, HTTP_MEMORY_MAX);
#endif
	return 0;
}

/* What is left when TLS and the event loop are there: clients that are already connected to the
 * socket, and the socket pair. No files, no new sockets, no processes. */
static int shut_in(char *err, size_t errlen)
{
	const struct contain_opts o = {.purpose = "those that serving needs"};

	return contain(&o, err, errlen);
}

/* Tell vpmud how the start went, once. */
static void tell(int sock, int ret, const char *why)
{
	struct wire_answer hello = {.ret = ret};

	snprintf(hello.why, sizeof(hello.why), "%s", why);
	wire_send(sock, &hello, sizeof(hello), -1);
}

static int first_sock = -1; /* the first process tells vpmud when it is ready; -1: a later one */

static int ready(char *err, size_t errlen)
{
	int ret = shut_in(err, errlen);

	if (!ret && first_sock >= 0)
		tell(first_sock, 0, "");
	return ret;
}

_Noreturn static void serve(const struct http_opts *o, int sock, pid_t parent, bool first)
{
	char err[240];
	int ret;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) || getppid() != parent)
		_exit(0);
	prctl(PR_SET_NAME, "vpmud-http", 0, 0, 0);
	first_sock = first ? sock : -1;
	ret = http_serve(o, sock, ready, err, sizeof(err));
	if (ret && first)
		tell(sock, ret, err);
	else if (ret)
		fprintf(stderr, "vpmud: %s\n", err);
	_exit(ret ? 2 : 0);
}

/* Make the process again when it ends by accident. */
_Noreturn static void watch(const struct http_opts *o, int sock, pid_t parent)
{
	char err[240];
	int status = 0, ret = close_others(sock, o->listen_fd);

	prctl(PR_SET_NAME, "vpmud-watch", 0, 0, 0);
	if (ret) {
		snprintf(err, sizeof(err), "metrics: the HTTP process cannot close files: %s",
			 strerror(-ret));
		tell(sock, ret, err);
		_exit(2);
	}
	if (give_up(parent, err, sizeof(err))) {
		tell(sock, -EPERM, err);
		_exit(2);
	}
	for (bool first = true;; first = false) {
		pid_t self = getpid(), pid = fork();

		if (!pid)
			serve(o, sock, self, first);
		if (pid > 0 && waitpid(pid, &status, 0) == pid) {
			/* vpmud has ended, or the first one has said what is wrong. */
			if (WIFEXITED(status) && (!WEXITSTATUS(status) || first))
				_exit(0);
			fprintf(stderr,
				"vpmud: the HTTP process of the metrics has ended (%s %d); it "
				"starts "
				"again\n",
				WIFSIGNALED(status) ? "signal" : "status",
				WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		}
		sleep(AGAIN_SEC);
	}
}

static int wait_ready(int sock, char *err, size_t errlen)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	struct wire_answer hello;
	int fd, n;

	n = poll(&p, 1, HTTP_ASK_SEC * 1000);
	n = n > 0 ? wire_recv(sock, &hello, sizeof(hello), &fd) : 0;
	if (n == sizeof(hello))
		return hello.ret ? fail(hello.ret, err, errlen, "%.239s", hello.why) : 0;
	return fail(-EPIPE, err, errlen, "metrics: the HTTP process does not begin");
}

int http_start(const struct http_opts *o, int *sock, pid_t *pid, char *err, size_t errlen)
{
	pid_t self = getpid();
	sigset_t none;
	int pair[2], ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return fail(-errno, err, errlen, "metrics: %s", strerror(errno));
	fflush(NULL);
	*pid = fork();
	if (*pid < 0) {
		ret = fail(-errno, err, errlen, "metrics: %s", strerror(errno));
		close(pair[0]);
		close(pair[1]);
		return ret;
	}
	if (!*pid) {
		/* vpmud takes its signals from a file; these are ours again. */
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGINT, SIG_IGN); /* a terminal's; vpmud ends us */
		signal(SIGHUP, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
		watch(o, pair[1], self);
	}
	close(pair[1]);
	ret = wait_ready(pair[0], err, errlen);
	if (ret) {
		close(pair[0]);
		waitpid(*pid, NULL, 0);
		return ret;
	}
	*sock = pair[0];
	return 0;
}
