// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu/util/proctext.c: files that are longer than the buffer, cut off or missing, and names of
 * processes that look like the fields behind them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "vpmu/util/proctext.h"

/* The rest of a stat file behind the name, with start time 4711. */
#define REST " S 1 2 3 0 -1 4194560 5 6 7 8 9 10 11 12 20 0 1 0 4711 13 14\n"

Test(proctext, start)
{
	static const char *const names[] = {
		"x", "a b", "a) R 1 (b", ")", "))) ", "(", "\n", "a\nS 1 2) 3\n", "",
	};
	char text[200];
	uint64_t start;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		start = 0;
		snprintf(text, sizeof(text), "17 (%s)" REST, names[i]);
		cr_expect_eq(proctext_start(text, &start), 0, "%s", names[i]);
		cr_expect_eq(start, 4711, "%s: %lu", names[i], (unsigned long)start);
	}
	cr_expect_eq(proctext_start("", &start), -ESRCH);
	cr_expect_eq(proctext_start("17 (x", &start), -ESRCH);
	cr_expect_eq(proctext_start("17 (x) S 1 2 3", &start), -ESRCH);
	cr_expect_eq(
		proctext_start("17 (x) S 1 2 3 0 -1 4194560 5 6 7 8 9 10 11 12 20 0 1 0 ", &start),
		-ESRCH);
}

/* The kernel's own file of a process with such a name, against what is right with another one. */
Test(proctext, of_this_process)
{
	uint64_t plain, named;
	char text[1024];

	prctl(PR_SET_NAME, "plain");
	cr_expect_gt(proctext_read(text, sizeof(text), "/proc/%d/stat", (int)getpid()), 0);
	cr_expect_eq(proctext_start(text, &plain), 0);
	prctl(PR_SET_NAME, ") R 1 2\n3 (x) 4");
	cr_expect_gt(proctext_read(text, sizeof(text), "/proc/%d/stat", (int)getpid()), 0);
	cr_expect_eq(proctext_start(text, &named), 0);
	cr_expect_eq(named, plain);
	prctl(PR_SET_NAME, "x\nTgid:\t1\n");
	cr_expect_gt(proctext_read(text, sizeof(text), "/proc/self/status"), 0);
	cr_expect_eq(atoi(proctext_field(text, "Tgid:")), getpid());
}

Test(proctext, field)
{
	char text[] = "Tgid:\t1\nxTgid:\t2\nPid:\t3\nLast:\t4", *field;

	cr_expect_null(proctext_field(text, "Last:"), "its newline is missing");
	cr_expect_null(proctext_field(text, "gid:"), "no line begins with it");
	field = proctext_field(text, "Pid:");
	cr_assert(field);
	cr_expect_str_eq(field, "\t3");
	field = proctext_field(text, "Tgid:");
	cr_assert(field);
	cr_expect_str_eq(field, "\t1");
}

static int free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

Test(proctext, read)
{
	char path[] = "/tmp/test_proctext_XXXXXX", text[8], name[5000];
	int fd = mkstemp(path), next;

	cr_assert_geq(fd, 0);
	next = free_fd();
	cr_expect_eq(proctext_read(text, sizeof(text), "%s", path), 0);
	cr_expect_str_eq(text, "");
	cr_expect_eq(write(fd, "1234567", 7), 7);
	cr_expect_eq(proctext_read(text, sizeof(text), "%s", path), 7);
	cr_expect_str_eq(text, "1234567");
	cr_expect_eq(write(fd, "89", 2), 2);
	cr_expect_eq(proctext_read(text, sizeof(text), "%s", path), 7, "the begin of a longer one");
	cr_expect_str_eq(text, "1234567");
	cr_expect_eq(proctext_read(text, 1, "%s", path), 0);
	cr_expect_str_eq(text, "");
	unlink(path);
	strcpy(text, "old");
	cr_expect_eq(proctext_read(text, sizeof(text), "%s", path), -ENOENT);
	cr_expect_str_eq(text, "");
	strcpy(text, "old");
	cr_expect_eq(proctext_read(text, sizeof(text), "%s", "/proc"), -EISDIR);
	cr_expect_str_eq(text, "");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	strcpy(text, "old");
	cr_expect_eq(proctext_read(text, sizeof(text), "/%s", name), -ENAMETOOLONG);
	cr_expect_str_eq(text, "");
	cr_expect_eq(free_fd(), next, "a file is left open");
	close(fd);
}
