// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The process that speaks HTTP, the watcher that makes it again when it ends, and a spare watcher
 * that takes the watcher's place; see http.h. vpmud cannot make processes any more when one of them
 * ends. All have given up their rights before the first client is looked at. None may keep anything
 * of vpmud's open but its end of the socket pair, the listening socket and standard error.
 */
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <pwd.h>
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

#include "service/daemon/contain.h"
#include "exporter/http.h"
#include "exporter/wire.h"
#include "vpmu/util/fail.h"

#define AGAIN_MS  1000
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

static void process_limit(int what, rlim_t max)
{
	const struct rlimit r = {max, max};

	setrlimit(what, &r);
}

/* The user of the processes, for a vpmud that is root: *@uid and *@gid. */
static int http_user(uid_t *uid, gid_t *gid, char *err, size_t errlen)
{
	const struct passwd *pw = getpwnam(HTTP_USER);

	*uid = HTTP_UID_SPARE;
	*gid = HTTP_UID_SPARE;
	if (pw && pw->pw_uid && pw->pw_gid) {
		*uid = pw->pw_uid;
		*gid = pw->pw_gid;
	} else if (pw || getpwuid(HTTP_UID_SPARE) || getgrgid(HTTP_UID_SPARE)) {
		return fail(-EPERM, err, errlen,
			    "metrics: the HTTP process: there is no user %s, or it is root, and "
			    "another one is number %d; expected a user %s of its own",
			    HTTP_USER, HTTP_UID_SPARE, HTTP_USER);
	}
	return 0;
}

/*
 * Another user, without capabilities, files to write, new sockets or programs to execute: what is
 * left is making processes, for a watcher, and what serving needs. The process ends with @parent.
 */
static int give_up(pid_t parent, char *err, size_t errlen)
{
	/* fork() and waitpid(); and what a process does before it serves. */
	static const uint16_t calls[] = {SYS_clone, SYS_wait4, SYS_getppid};
	const struct contain_opts o = {
		.calls = calls,
		.nr_calls = sizeof(calls) / sizeof(calls[0]),
		.purpose = "those that serving needs, and processes",
	};
	uid_t uid;
	gid_t gid;
	int ret;

	if (!geteuid()) {
		ret = http_user(&uid, &gid, err, errlen);
		if (ret)
			return ret;
		if (setgroups(0, NULL) || setresgid(gid, gid, gid) || setresuid(uid, uid, uid))
			return fail(-errno, err, errlen,
				    "metrics: the HTTP process cannot become user %u: %s "
				    "(CAP_SETUID and CAP_SETGID are needed for the start)",
				    uid, strerror(errno));
	}
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
		return fail(-errno, err, errlen, "metrics: the HTTP process: %s", strerror(errno));
	if (getppid() != parent)
		_exit(0);
	process_limit(RLIMIT_NOFILE, FILES_MAX);
	process_limit(RLIMIT_CORE, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	process_limit(RLIMIT_AS, HTTP_MEMORY_MAX);
#endif
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

/* What is left when TLS and the event loop are there: clients that are connected, and the socket
 * pair. No processes any more. */
static int ready(char *err, size_t errlen)
{
	int ret = contain_syscalls(NULL, 0);

	if (ret && ret != -EOPNOTSUPP)
		return fail(ret, err, errlen, "metrics: the HTTP process: seccomp: %s",
			    strerror(-ret));
	if (first_sock >= 0)
		tell(first_sock, 0, "");
	return 0;
}

_Noreturn static void process_serve(const struct http_opts *o, int sock, pid_t parent, bool first)
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

/* Whether vpmud has ended, or does so within @ms. */
static bool vpmud_gone(int sock, int ms)
{
	struct pollfd p = {.fd = sock, .events = POLLRDHUP};

	return poll(&p, 1, ms) > 0;
}

_Noreturn static void process_watch(const struct http_opts *o, int sock, bool first);

/* Wait until @parent, a watcher, ends, and take its place. */
_Noreturn static void stand_by(const struct http_opts *o, int sock, pid_t parent)
{
	sigset_t end;

	prctl(PR_SET_NAME, "vpmud-spare", 0, 0, 0);
	sigemptyset(&end);
	sigaddset(&end, SIGUSR1);
	sigprocmask(SIG_BLOCK, &end, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0))
		_exit(2);
	while (getppid() == parent)
		sigwaitinfo(&end, NULL);
	if (vpmud_gone(sock, 0))
		_exit(0);
	fprintf(stderr, "vpmud: the watcher of the HTTP process has ended; another one watches\n");
	process_watch(o, sock, false);
}

/* Make the process that serves and the spare watcher, and again when one of them ends. Only vpmud's
 * end is the end: what the process says of itself does not count. */
_Noreturn static void process_watch(const struct http_opts *o, int sock, bool first)
{
	pid_t self = getpid(), http = 0, spare = 0, pid;
	int status = 0;

	prctl(PR_SET_NAME, "vpmud-watch", 0, 0, 0);
	do {
		if (http <= 0 && !(http = fork()))
			process_serve(o, sock, self, first);
		if (spare <= 0 && !(spare = fork()))
			stand_by(o, sock, self);
		first = false;
		pid = waitpid(-1, &status, 0);
		if (pid > 0 && pid == spare)
			spare = 0;
		if (pid < 0 || pid != http)
			continue;
		http = 0;
		/* The first one may have told vpmud why it cannot serve. */
		if (vpmud_gone(sock, AGAIN_MS))
			break;
		fprintf(stderr,
			"vpmud: the HTTP process of the metrics has ended (%s %d); it starts "
			"again\n",
			WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	} while (!vpmud_gone(sock, http ? AGAIN_MS : 0));
	_exit(0);
}

/* The first watcher: give up all that it has of vpmud. */
_Noreturn static void process_begin(const struct http_opts *o, int sock, pid_t parent)
{
	char err[240];
	int ret = close_others(sock, o->listen_fd);

	if (ret)
		fail(ret, err, sizeof(err), "metrics: the HTTP process cannot close files: %s",
		     strerror(-ret));
	else
		ret = give_up(parent, err, sizeof(err));
	if (!ret)
		process_watch(o, sock, true);
	tell(sock, ret, err);
	_exit(2);
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
		process_begin(o, pair[1], self);
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

void http_stop(int sock, pid_t pid)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	struct wire_ask last;
	siginfo_t si;
	int fd, n = 1;

	/* They end by the loss of the socket. Of those that have followed others none is our child,
	 * but each has the other end. One that does not end dies with us. */
	shutdown(sock, SHUT_WR);
	while (n > 0 && poll(&p, 1, HTTP_ASK_SEC * 1000) > 0) {
		n = wire_recv(sock, &last, sizeof(last), &fd);
		if (fd >= 0)
			close(fd);
	}
	close(sock);
	waitid(P_PID, (id_t)pid, &si, WEXITED | (n > 0 ? WNOHANG : 0));
}
