// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * That tests of the BPF backend leave no processes and cgroups behind, however they end: others
 * would be counted with them, and a test that waits for their output would not end.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "tests/integration/cgroup_bed.h"

/* How many processes are in cgroup @top/@name of the hierarchy at @where; -1: there is no such. */
static int procs(const char *where, const char *top, const char *name)
{
	char path[256], line[32];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s/%s/cgroup.procs", where, top, name);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		n++;
	fclose(f);
	return n;
}

/* A killed process stays a moment. */
static bool gets_empty(const char *where, const char *top, const char *name)
{
	for (int i = 0; i < 30000 && procs(where, top, name) != 0; i++)
		usleep(1000);
	return procs(where, top, name) == 0;
}

/* A worker's children end with it, at whatever moment the worker is killed. */
Test(cgroup_bed, a_killed_worker_leaves_no_process)
{
	bed_begin();
	bed_cgroup("a");
	for (unsigned int i = 0; i < 300; i++) {
		pid_t pid = bed_spawn("a", work_switches, NULL);

		usleep(i % 100 * 20);
		bed_kill(pid);
	}
	cr_expect(gets_empty(bed_mount(), bed_top(), "a"), "%d are left",
		  procs(bed_mount(), bed_top(), "a"));
	bed_end();
	cr_expect_null(bed_top());
}

struct shared {
	char top[64];
	int ready;
};

static void begin_and_wait(struct shared *sh)
{
	bed_begin();
	snprintf(sh->top, sizeof(sh->top), "%s", bed_top());
	bed_cgroup("a");
	bed_cgroup("a/b");
	bed_spawn("a/b", work_switches, NULL);
	bed_spawn("a", work_sleeps, NULL);
	__atomic_store_n(&sh->ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

/* The next one removes its cgroups. */
Test(cgroup_bed, a_killed_test_leaves_nothing)
{
	struct shared *sh = bed_share(sizeof(*sh));
	pid_t pid;

	bed_begin(); /* skips, or it can be done */
	bed_end();
	pid = bed_fork();
	if (!pid)
		begin_and_wait(sh);
	bed_wait(pid, &sh->ready);
	bed_begin();
	cr_expect_eq(procs(bed_mount(), sh->top, "a"), 1, "a test that runs was disturbed");
	bed_end();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	bed_begin();
	cr_expect_eq(procs(bed_mount(), sh->top, ""), -1, "%s is still there", sh->top);
	bed_end();
	munmap(sh, sizeof(*sh));
}
