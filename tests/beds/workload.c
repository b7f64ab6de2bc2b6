// SPDX-License-Identifier: GPL-2.0-or-later
/* The work of workload.h: cgroups, pairs that switch, processes that loop. */
#include "tests/beds/workload.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/beds/bed.h"
#include "tests/measured.h"

#define CGROUPS "/sys/fs/cgroup"

/* So few rounds that most repeats have no timer tick: a tick is every four million instructions. */
#define ROUNDS	500u
#define REPEATS 9u

static void cgroup_path(char path[128], const char *name, const char *file)
{
	snprintf(path, 128, CGROUPS "%s%s%s%s", name ? "/" : "", name ? name : "", file ? "/" : "",
		 file ? file : "");
}

uint64_t cgroup_make(const char *name)
{
	struct stat st;
	char path[128];

	cgroup_path(path, name, NULL);
	cr_assert(!mkdir(path, 0755) || errno == EEXIST, "%s: %s", path, strerror(errno));
	cr_assert(!stat(path, &st));
	return st.st_ino;
}

void cgroup_remove(const char *name)
{
	char path[128];

	cgroup_path(path, name, NULL);
	cr_assert(!rmdir(path), "%s: %s", path, strerror(errno));
}

void cgroup_enter(const char *name)
{
	char path[128];
	int fd;

	cgroup_path(path, name, "cgroup.procs");
	fd = open(path, O_WRONLY | O_CLOEXEC);
	cr_assert(fd >= 0 && write(fd, "0", 1) == 1, "%s: %s", path, strerror(errno));
	close(fd);
}

void cgroups_apart(void)
{
	static const char *const words[] = {"+pids", "-pids"};
	int fd = open(CGROUPS "/cgroup.subtree_control", O_WRONLY | O_CLOEXEC);

	for (int i = 0; i < 2; i++)
		cr_assert_eq(write(fd, words[i], 5), 5, "%s: %s", words[i], strerror(errno));
	close(fd);
}

static void make_pipe(int fd[2])
{
	cr_assert(!pipe2(fd, O_CLOEXEC), "pipe: %s", strerror(errno));
}

/* ---- pairs -------------------------------------------------------------------------------- */

static void real_time(bool on)
{
	struct sched_param param = {.sched_priority = on ? 1 : 0};

	cr_assert(!sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, &param), "SCHED_FIFO: %s",
		  strerror(errno));
}

void pair_make(struct pair *p, const char *a, const char *b)
{
	int ready[2];
	char c;

	p->end = mmap(NULL, sizeof(*p->end), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	cr_assert(p->end != MAP_FAILED);
	make_pipe(ready);
	real_time(true); /* before the child, which would leave us no time */
	p->child = fork();
	cr_assert(p->child >= 0, "fork: %s", strerror(errno));
	if (p->child == 0) {
		cgroup_enter(b);
		close(ready[0]);
		close(ready[1]);
		while (!*p->end)
			sched_yield();
		_exit(0);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &c, 1), 0);
	close(ready[0]);
	cgroup_enter(a);
	pair_rounds(p, 10);
}

void pair_rounds(const struct pair *p, unsigned int n)
{
	while (n--)
		sched_yield();
}

void pair_end(struct pair *p)
{
	*p->end = true;
	cr_assert_eq(waitpid(p->child, NULL, 0), p->child);
	munmap((void *)p->end, sizeof(*p->end));
	real_time(false);
	cgroup_enter(NULL);
}

double pair_cost(const char *a, const char *b)
{
	int fd = bed_open("instructions:GH", -1, 0, -1);
	double cost[REPEATS];
	struct pair p;

	/* Let the kernel's own work end, for example grace periods of RCU: a pair leaves it no
	 * time, and switches cost more during it. This takes no time of ours, only the machine's.
	 */
	usleep(500000);
	pair_make(&p, a, b);
	bed_enable(fd, true);
	for (unsigned int i = 0; i < REPEATS; i++) {
		uint64_t start = bed_count(fd);

		pair_rounds(&p, ROUNDS);
		cost[i] = (double)(bed_count(fd) - start) / (2 * ROUNDS);
	}
	close(fd);
	pair_end(&p);
	return median(cost, REPEATS);
}

/* ---- loops -------------------------------------------------------------------------------- */

void looper_make(struct looper *l, const char *name, uint64_t n, unsigned int times)
{
	int start[2], ready[2];
	char c;

	make_pipe(start);
	make_pipe(ready);
	l->pid = fork();
	cr_assert(l->pid >= 0, "fork: %s", strerror(errno));
	if (l->pid == 0) {
		close(start[1]);
		close(ready[0]);
		cgroup_enter(name);
		close(ready[1]);
		if (read(start[0], &c, 1) != 1)
			_exit(1);
		for (unsigned int i = 0; i < times; i++) {
			bed_loop(n);
			sched_yield();
		}
		_exit(0);
	}
	close(start[0]);
	close(ready[1]);
	cr_assert_eq(read(ready[0], &c, 1), 0);
	close(ready[0]);
	l->start = start[1];
}

void looper_start(struct looper *l)
{
	cr_assert_eq(write(l->start, "", 1), 1);
	close(l->start);
}

uint64_t looper_end(struct looper *l)
{
	struct rusage usage;
	int status;

	cr_assert_eq(wait4(l->pid, &status, 0, &usage), l->pid);
	cr_assert_eq(status, 0, "a looper failed: %d", status);
	return (uint64_t)usage.ru_nivcsw;
}
