// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A random user of perf_event_open, for stock Linux guests (tests/linux/randomtest):
 *   random SEED OPERATIONS [breakpoints]
 * opens, groups, enables, disables, reads, maps, samples, inherits, changes and closes perf events
 * of every kind on all CPUs and on threads of its own, by numbers that depend only on SEED.
 * Most of its requests are nonsense, which the kernel refuses. Its readings must be right:
 *   - a count never goes down, unless it was reset, nor does a time (enabled, running);
 *   - records in rings are whole.
 * Afterwards it closes all, and on each CPU counts a loop of known instructions and branches.
 * The last line of its output is "random: SEED ok" and its work; or lines that begin with
 * "random: FAILED". Exit status 0 or 1.
 *
 * Counts that the kernel itself makes go down are not looked at: PERF_EVENT_IOC_MODIFY_ATTRIBUTES
 * and events of a software clock, counted by hrtimers.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "random.h"

pid_t children[CHILDREN];
unsigned int cpus, failures;
bool breakpoints;
static uint64_t seed;
static volatile sig_atomic_t signals;

void failed(const char *fmt, ...)
{
	struct utsname u;
	va_list ap;

	/* Which kernel it was: tools/linux-guest fetches whatever is the newest one. */
	if (!failures && !uname(&u))
		printf("random: FAILED with Linux %s, %s\n", u.release, u.version);
	if (failures++ > 20)
		return;
	printf("random: FAILED: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

static void on_signal(int sig)
{
	signals++;
}

/* ---- processes ---- */

/*
 * An event lives until the last process has closed it, and a leader with a descriptor that is
 * closed here then still leads its group. So a process that this one does not wait for has no
 * descriptors.
 */
static void close_descriptors(void)
{
	for (unsigned int i = 0; i < EVENTS; i++)
		if (events[i].fd >= 0)
			close(events[i].fd);
}

/* A child that works a little without end, and moves. */
static void child(uint64_t its_seed)
{
	state = its_seed;
	for (;;) {
		cpu_set_t set;

		work();
		if (one_in(50)) {
			CPU_ZERO(&set);
			CPU_SET(below(cpus), &set);
			sched_setaffinity(0, sizeof(set), &set);
		}
		/* Children that never sleep would only take CPU time from the one that asks. */
		if (!one_in(4))
			usleep(below(4000));
		if (getppid() == 1)
			_exit(0);
	}
}

static void new_child(unsigned int i)
{
	uint64_t its_seed = rnd() | 1;
	int ready[2];
	char end;

	if (children[i] > 0) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	if (pipe(ready)) {
		failed("pipe: %s", strerror(errno));
		exit(1);
	}
	fflush(stdout);
	children[i] = fork();
	if (!children[i]) {
		close_descriptors();
		close(ready[0]);
		close(ready[1]);
		child(its_seed);
	}
	close(ready[1]);
	/* The end of the pipe: the child has no descriptors any more. */
	while (read(ready[0], &end, 1) < 0 && errno == EINTR)
		;
	close(ready[0]);
}

static void op_fork(void)
{
	pid_t pid;

	if (one_in(3)) {
		new_child(below(CHILDREN));
		return;
	}
	fflush(stdout);
	pid = fork();
	if (!pid) {
		work();
		/* The last process is an orphan. */
		close_descriptors();
		if (one_in(2))
			fork();
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void op_move(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(below(cpus), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void op_other(void)
{
	int i = some_event();
	struct pollfd p = {.events = POLLIN};

	switch (below(4)) {
	case 0:
		prctl(one_in(2) ? PR_TASK_PERF_EVENTS_ENABLE : PR_TASK_PERF_EVENTS_DISABLE);
		break;
	case 1:
		p.fd = i < 0 ? 0 : events[i].fd;
		poll(&p, i >= 0, 0);
		break;
	case 2:
		if (i >= 0)
			close(dup(events[i].fd));
		break;
	default:
		usleep(below(3000));
	}
}

static void operate(void)
{
	switch (below(20)) {
	case 0 ... 4:
		op_open();
		break;
	case 5:
		op_close();
		break;
	case 6 ... 8:
		op_read();
		break;
	case 9 ... 12:
		op_ioctl();
		break;
	case 13:
		op_ring();
		break;
	case 14:
		op_page();
		break;
	case 15:
		op_other();
		break;
	case 16:
		if (one_in(6))
			op_fork();
		break;
	case 17:
		op_move();
		break;
	default:
		work();
	}
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long x = strtoul(text, &end, 0);

	if (!*text || *end) {
		fprintf(stderr, "usage: random SEED OPERATIONS [breakpoints]\n");
		exit(2);
	}
	return x;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	unsigned long ops;

	if (argc < 3 || argc > 4 || (argc == 4 && strcmp(argv[3], "breakpoints"))) {
		fprintf(stderr, "usage: random SEED OPERATIONS [breakpoints]\n");
		return 2;
	}
	seed = number(argv[1]);
	ops = number(argv[2]);
	breakpoints = argc == 4;
	state = seed * 0x9e3779b97f4a7c15ULL + 1;
	cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	sigaction(SIGIO, &sa, NULL);
	sigaction(SIGRTMIN, &sa, NULL);
	sigaction(SIGTRAP, &sa, NULL);
	sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	for (unsigned int i = 0; i < EVENTS; i++)
		events[i].fd = events[i].leader = -1;
	for (unsigned int i = 0; i < CHILDREN; i++)
		new_child(i);
	for (unsigned long i = 0; i < ops; i++) {
		operate();
	}
	for (unsigned int i = 0; i < EVENTS; i++)
		if (events[i].fd >= 0)
			close_event(&events[i]);
	for (unsigned int i = 0; i < CHILDREN; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	if (events_left())
		failed("perf events are left that somebody holds");
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		check_known(cpu);
	printf("random: %lu %s: %lu operations, %lu opens (%lu refused), %lu reads, %lu "
	       "records "
	       "(%lu samples), %d signals\n",
	       seed, failures ? "FAILED" : "ok", ops, done_opens, done_refused, done_reads,
	       done_records, done_samples, (int)signals);
	return failures != 0;
}
