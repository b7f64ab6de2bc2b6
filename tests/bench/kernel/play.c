// SPDX-License-Identifier: GPL-2.0-or-later
/* The workload of vpmu-kernel-bench: two processes on one CPU that switch to each other. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/kernel/kbench.h"

static void pass_bytes(int i, int p[2][2], unsigned int n)
{
	char c = 0;

	while (n--) {
		if (i == 0 && write(p[0][1], &c, 1) != 1)
			_exit(1);
		if (read(p[!i][0], &c, 1) != 1)
			_exit(1);
		if (i == 1 && write(p[1][1], &c, 1) != 1)
			_exit(1);
	}
}

/* Of two real-time processes of one priority each yield is a switch to the other one. They begin
 * when both are there. */
static void yield(int i, int p[2][2], unsigned int n)
{
	const struct sched_param fifo = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_FIFO, &fifo))
		_exit(1);
	pass_bytes(i, p, 1);
	while (n--)
		sched_yield();
}

double play(enum work work, int a, int b, int cpu, unsigned int switches)
{
	const int cgroup[2] = {a, b};
	double ns = 0, switched = 0;
	struct rusage u;
	pid_t pid[2];
	int p[2][2], status;

	if (pipe(p[0]) || pipe(p[1]))
		skip("pipe: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			skip("fork: %s", strerror(errno));
		if (pid[i])
			continue;
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
		ground_enter((unsigned int)cgroup[i]);
		if (work == WORK_PIPE)
			pass_bytes(i, p, switches / 2);
		else
			yield(i, p, switches / 2);
		_exit(0);
	}
	for (int i = 0; i < 2; i++) {
		if (wait4(pid[i], &status, 0, &u) < 0)
			skip("wait: %s", strerror(errno));
		if (status) { /* the other one waits for it */
			kill(pid[!i], SIGKILL);
			skip("the workload cannot run: no cgroup to enter, or no right to be "
			     "real-time");
		}
		ns += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 +
		      (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
		switched += (double)(u.ru_nvcsw + u.ru_nivcsw);
		close(p[i][0]);
		close(p[i][1]);
	}
	return ns / switched;
}
