// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Processes that do work of known length. The checks call this. A worker does everything once
 * before it is counted, so its later jobs take no page faults but those asked for; it is killed
 * when the self-test ends, however that ends.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "selftest/priv.h"
#include "vpmu/core/rcu.h"

#define WAIT_S 120 /* a worker that takes longer hangs */

/* 2 * @n instructions, @n branches; @n > 0. */
static void work_loop(uint64_t n)
{
#if defined(__aarch64__)
	__asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(n) : : "cc");
#elif defined(__x86_64__)
	__asm__ volatile("1: sub $1, %0\n\tjnz 1b" : "+r"(n) : : "cc");
#else
#error "a loop of known length for this CPU"
#endif
}

/* The pages' faults must be the only ones: AddressSanitizer takes some of its own. */
__attribute__((no_sanitize_address, no_sanitize_thread)) static void work_touch(char *p, uint64_t n,
										size_t page)
{
	for (uint64_t i = 0; i < n; i++)
		((volatile char *)p)[i * page] = 1;
}

static int work_faults(uint64_t n)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	madvise(p, n * page, MADV_NOHUGEPAGE); /* a huge page is one fault */
	work_touch(p, n, page);
	munmap(p, n * page);
	return 0;
}

static int work_pin(uint64_t cpu)
{
	cpu_set_t *set = CPU_ALLOC(SELFTEST_CPUS);
	const size_t bytes = CPU_ALLOC_SIZE(SELFTEST_CPUS);
	int ret;

	if (!set)
		return -ENOMEM;
	CPU_ZERO_S(bytes, set);
	CPU_SET_S(cpu, bytes, set);
	ret = sched_setaffinity(0, bytes, set) ? -errno : 0;
	CPU_FREE(set);
	return ret;
}

/* Between the moves are different numbers of faults, so that none can stand for another. */
static uint64_t moves_faults(uint64_t move)
{
	return 50 + 7 * move;
}

uint64_t worker_moved(uint64_t n, unsigned int which)
{
	uint64_t sum = 0;

	for (uint64_t i = which; i < n; i += 2)
		sum += moves_faults(i);
	return sum;
}

/* Begins in cgroup 0 and moves itself to the other one @n times. It does not sleep. */
static int work_moves(uint64_t n)
{
	int ret = 0;

	for (uint64_t i = 0; i < n && !ret; i++) {
		ret = work_faults(moves_faults(i));
		if (!ret)
			ret = scratch_join((unsigned int)(i + 1) % 2, 0);
	}
	return ret;
}

static int work_do(const struct selftest *t, const struct job *j)
{
	switch (j->work) {
	case WORK_LOOP:
		work_loop(j->n);
		return 0;
	case WORK_FAULTS:
		return work_faults(j->n);
	case WORK_PIN:
		return work_pin(j->n);
	case WORK_MOVES:
		return work_moves(j->n);
	case WORK_YIELD:
		for (uint64_t i = 0; i < j->n; i++)
			sched_yield();
		return 0;
	case WORK_FLOW:
		branches_flow();
		return 0;
	case WORK_GUEST:
		return guest_loop(j->n);
	case WORK_GUEST_PMU:
		/* The library's thread of RCU callbacks was not forked: without one, the end of
		 * the VM would wait for its callbacks forever. Here, where no count is exact. */
		urcu_memb_call_rcu_after_fork_child();
		return guest_pmu(t->guest);
	default:
		return -EINVAL;
	}
}

__attribute__((noreturn)) static void worker_main(const struct selftest *t, int in, int out)
{
	struct job j;
	int ret;

	while (read(in, &j, sizeof(j)) == (ssize_t)sizeof(j)) {
		ret = work_do(t, &j);
		if (write(out, &ret, sizeof(ret)) != (ssize_t)sizeof(ret))
			break;
	}
	_exit(0);
}

int worker_start(struct selftest *t, unsigned int cgroup, struct worker *w)
{
	const pid_t parent = getpid();
	int to[2], from[2], ret;

	*w = (struct worker){.to = -1, .from = -1};
	if (pipe(to))
		return -errno;
	if (pipe(from)) {
		ret = -errno;
		close(to[0]);
		close(to[1]);
		return ret;
	}
	urcu_memb_call_rcu_before_fork();
	w->pid = fork();
	if (w->pid)
		urcu_memb_call_rcu_after_fork_parent();
	if (!w->pid) {
		close(to[1]);
		close(from[0]);
		/* The terminal's, and those to the process group: the parent ends us. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		mlockall(MCL_CURRENT); /* no faults on what the kernel reclaims; may be refused */
		worker_main(t, to[0], from[1]);
	}
	ret = w->pid < 0 ? -errno : 0;
	w->to = to[1];
	w->from = from[0];
	close(to[0]);
	close(from[1]);
	if (!ret)
		ret = scratch_join(cgroup, w->pid);
	for (int i = 0; i < 2 && !ret; i++) {
		ret = worker_do(t, w, WORK_LOOP, 1);
		if (!ret)
			ret = worker_do(t, w, WORK_FAULTS, 1);
	}
	if (ret)
		worker_end(w);
	return ret;
}

void worker_end(struct worker *w)
{
	if (w->pid > 0) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
	if (w->to >= 0)
		close(w->to);
	if (w->from >= 0)
		close(w->from);
	*w = (struct worker){.to = -1, .from = -1};
}

uint64_t worker_start_time(const struct worker *w)
{
	char path[64], line[1024] = "", *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", w->pid);
	f = fopen(path, "re");
	at = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (f)
		fclose(f);
	return at ? strtoull(at, NULL, 10) : 0;
}

int worker_begin(struct selftest *t, const struct worker *w, enum work work, uint64_t n)
{
	const struct job j = {.work = work, .n = n};

	return write(w->to, &j, sizeof(j)) == (ssize_t)sizeof(j) ? 0 : -EPIPE;
}

int worker_wait(struct selftest *t, const struct worker *w)
{
	struct pollfd p = {.fd = w->from, .events = POLLIN};
	int answer, n;

	for (unsigned int i = 0; i < WAIT_S * 10; i++) {
		if (t->o->stop && *t->o->stop)
			return t->error = -EINTR;
		n = poll(&p, 1, 100);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 1)
			return read(w->from, &answer, sizeof(answer)) == (ssize_t)sizeof(answer)
				       ? answer
				       : -EPIPE;
	}
	return -ETIMEDOUT;
}

int worker_do(struct selftest *t, const struct worker *w, enum work work, uint64_t n)
{
	int ret = worker_begin(t, w, work, n);

	return ret ? ret : worker_wait(t, w);
}
