// SPDX-License-Identifier: GPL-2.0-or-later
/* Operations that a contained process has lost, and those that it keeps. Each test is a child
 * process, because there is no way back. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "folder_bed.h"
#include "service/daemon/contain.h"
#include "tests/contain_calls.h"
#include "vmm/contain.h"

static char inside[64], outside[64];

static void setup(void)
{
	folder_begin();
	snprintf(inside, sizeof(inside), "%s/in", folder);
	snprintf(outside, sizeof(outside), "%s/out", folder);
	cr_assert(!mkdir(inside, 0700) && !mkdir(outside, 0700));
}

TestSuite(contain, .init = setup, .fini = folder_end);

static bool taken[8];

static void step(const char *what, bool ok, const char *why, void *arg)
{
	static const char *const names[] = {"user", "capabilities", "no new privileges", "files",
					    "system calls"};

	for (size_t i = 0; i < 5; i++)
		if (!strcmp(what + strlen("contain: "), names[i]))
			taken[i] = ok;
}

/* The status of a child that is contained and then calls @fn; its exit status is @fn's result, or
 * 99 if the step number @need was not taken here. */
static int contained(int need, int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		const struct vmm_contain_opts o = {.snapshot_dir = inside};
		char err[200];

		if (vmm_contain(&o, err, sizeof(err)))
			_exit(98);
		contain_describe(step, NULL);
		_exit(taken[need] ? fn() : 99);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static bool skipped(int status, const char *what)
{
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 99)
		return false;
	fprintf(stderr, "# SKIP %s: this kernel or build has no such step\n", what);
	return true;
}

static int make(const char *where, const char *name)
{
	char path[100];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", where, name);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		return errno;
	close(fd);
	return unlink(path) ? errno : 0;
}

static int files(void)
{
	char buf[4];
	int fd = open("/proc/version", O_RDONLY);

	if (fd < 0 || read(fd, buf, 4) != 4)
		return 1;
	if (make(inside, "a"))
		return 2;
	if (make(outside, "a") != EACCES)
		return 3;
	return mkdir(outside, 0700) && errno == EEXIST && rmdir(outside) && errno == EACCES ? 0 : 4;
}

Test(contain, files_are_read_only_but_for_one_directory)
{
	int status = contained(3, files);

	if (!skipped(status, "files"))
		cr_assert_eq(status, 0, "%x", (unsigned int)status);
}

Test(contain, system_calls)
{
	int status = contained(4, contain_refused);

	if (!skipped(status, "system calls"))
		cr_assert_eq(status, 0, "%x", (unsigned int)status);
}

Test(contain, exec_and_ptrace_end_the_process)
{
	int status = contained(4, contain_exec);

	if (skipped(status, "system calls"))
		return;
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%x", (unsigned int)status);
	status = contained(4, contain_trace);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%x", (unsigned int)status);
}

static int capabilities(void)
{
	/* Root without capabilities may not read what belongs to others and is theirs alone. */
	return open(outside, O_RDONLY) >= 0;
}

Test(contain, capabilities)
{
	int status;

	if (geteuid()) {
		fprintf(stderr, "# SKIP capabilities: needs root\n");
		return;
	}
	cr_assert(!chmod(outside, 0) && !chown(outside, 65534, 65534));
	cr_assert(open(outside, O_RDONLY) >= 0);
	status = contained(1, capabilities);
	cr_assert_eq(status, 0, "%x", (unsigned int)status);
}
