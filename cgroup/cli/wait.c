// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/cli/cli.h"
#include "cgroup/cli/wait.h"

static int signals = -1;
static bool stopped;

int cli_wait_init(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		cli_error("signalfd: %s", strerror(errno));
	return signals < 0 ? -1 : 0;
}

double cli_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

enum cli_wait cli_wait(double seconds, int server_fd)
{
	double end = cli_now() + seconds;

	while (!stopped) {
		struct pollfd p[2] = {{.fd = signals, .events = POLLIN},
				      {.fd = server_fd, .events = POLLIN}};
		double left = end - cli_now();
		struct timespec t = {0};
		struct signalfd_siginfo si;
		int n;

		if (left > 0) {
			t.tv_sec = (time_t)left;
			t.tv_nsec = (long)((left - (double)t.tv_sec) * 1e9);
		}
		n = ppoll(p, 2, seconds < 0 ? NULL : &t, NULL);
		if (n == 0)
			return CLI_WAIT_TIME;
		if (n < 0 && errno != EINTR)
			return CLI_WAIT_STOP;
		if (n > 0 && p[0].revents && read(signals, &si, sizeof(si)) == sizeof(si))
			stopped = true;
		else if (n > 0 && p[1].revents) /* nothing is asked: it can only be the end */
			return CLI_WAIT_SERVER_GONE;
	}
	return CLI_WAIT_STOP;
}
