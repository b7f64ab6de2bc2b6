// SPDX-License-Identifier: GPL-2.0-or-later
/* Waits for a time, Ctrl-C, a command's end or the server's end; see wait.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/error.h"
#include "cli/wait.h"
#include "vpmu/util/clock.h"

static int signals = -1;
static sigset_t mask_before; /* signal mask to restore in the command */
static bool stopped, interrupted, terminated;
static pid_t child; /* 0: none, or it has ended */
static int child_status;
static struct rusage child_usage;
static int cgroup_fd = -1; /* cgroup.procs of the command's cgroup */

int cli_wait_init(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &mask_before);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		cli_error("signalfd: %s", strerror(errno));
	return signals < 0 ? -1 : 0;
}

void cli_wait_cgroup(int procs_fd)
{
	cgroup_fd = procs_fd;
}

int cli_wait_start(char **command)
{
	int fds[2], err = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC)) {
		cli_error("pipe: %s", strerror(errno));
		return 1;
	}
	pid = fork();
	if (pid == 0) {
		sigprocmask(SIG_SETMASK, &mask_before, NULL);
		signal(SIGPIPE, SIG_DFL);
		signal(SIGXFSZ, SIG_DFL);
		if (cgroup_fd < 0 || write(cgroup_fd, "0", 1) == 1)
			execvp(command[0], command);
		err = errno;
		if (write(fds[1], &err, sizeof(err)) < 0)
			_exit(126);
		_exit(127);
	}
	close(fds[1]);
	if (pid < 0)
		err = errno;
	else if (read(fds[0], &err, sizeof(err)) != sizeof(err)) /* the exec closed the pipe */
		err = 0;
	close(fds[0]);
	if (err) {
		cli_error("%s: cannot run it: %s", command[0], strerror(err));
		if (pid > 0)
			waitpid(pid, NULL, 0);
		return pid < 0 ? 1 : err == ENOENT ? 127 : 126; /* as in a shell */
	}
	child = pid;
	stopped = interrupted;
	return 0;
}

static void child_ended(int status)
{
	child = 0;
	child_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int cli_wait_status(double *user_s, double *sys_s)
{
	int status;

	if (child && terminated)
		kill(child, SIGTERM);
	if (child && wait4(child, &status, 0, &child_usage) == child)
		child_ended(status);
	*user_s = (double)child_usage.ru_utime.tv_sec + (double)child_usage.ru_utime.tv_usec / 1e6;
	*sys_s = (double)child_usage.ru_stime.tv_sec + (double)child_usage.ru_stime.tv_usec / 1e6;
	return child_status;
}

bool cli_wait_interrupted(void)
{
	return interrupted;
}

double cli_now(void)
{
	return (double)clock_ns(CLOCK_MONOTONIC) / 1e9;
}

/* Read one signal. Returns true if it ends the wait. */
static bool take_signal(void)
{
	struct signalfd_siginfo si;
	int status;

	if (read(signals, &si, sizeof(si)) != sizeof(si))
		return false;
	interrupted |= si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT;
	if (si.ssi_signo == SIGTERM) {
		terminated = true;
		return true;
	}
	if (si.ssi_signo == SIGINT)
		return !child;
	if (!child || wait4(child, &status, WNOHANG, &child_usage) != child)
		return false;
	child_ended(status);
	return true;
}

enum cli_wait cli_wait(double end, int server_fd)
{
	return cli_wait_input(end, server_fd, -1);
}

enum cli_wait cli_wait_input(double end, int server_fd, int input_fd)
{
	while (!stopped) {
		struct pollfd p[3] = {{.fd = signals, .events = POLLIN},
				      {.fd = server_fd, .events = POLLIN},
				      {.fd = input_fd, .events = POLLIN}};
		double left = end - cli_now();
		struct timespec t = {0};
		int n;

		if (left > 0) {
			t.tv_sec = (time_t)left;
			t.tv_nsec = (long)((left - (double)t.tv_sec) * 1e9);
		}
		n = ppoll(p, 3, end < 0 ? NULL : &t, NULL);
		if (n == 0)
			return CLI_WAIT_TIME;
		if (n < 0 && errno != EINTR)
			return CLI_WAIT_STOP;
		if (n > 0 && p[0].revents) /* before the server: a signal takes precedence */
			stopped = take_signal();
		else if (n > 0 && p[1].revents)
			return CLI_WAIT_SERVER_GONE; /* no request is pending: it must be the end */
		else if (n > 0 && p[2].revents)
			return CLI_WAIT_INPUT;
	}
	return CLI_WAIT_STOP;
}
