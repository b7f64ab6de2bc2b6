// SPDX-License-Identifier: GPL-2.0-or-later
/* Other than regular files are refused, and not even opened. The limit of open files is raised. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmu/util/files.h"

static char dir[] = "/tmp/regular.XXXXXX";

static int opened; /* inotify */

/* How many files in dir were opened since the last call. */
static unsigned int opens(void)
{
	char buf[4096] __attribute__((aligned(8)));
	ssize_t n = read(opened, buf, sizeof(buf));
	unsigned int count = 0;

	for (char *p = buf; n > 0 && p < buf + n; count++)
		p += sizeof(struct inotify_event) + ((struct inotify_event *)p)->len;
	return count;
}

Test(regular, only_regular_files_are_opened)
{
	int at, fd;

	cr_assert(mkdtemp(dir));
	at = open(dir, O_RDONLY | O_DIRECTORY);
	cr_assert(at >= 0);
	cr_assert_eq(mkfifoat(at, "fifo", 0600), 0);
	cr_assert_eq(mkdirat(at, "dir", 0700), 0);
	cr_assert_eq(symlinkat("file", at, "link"), 0);
	cr_assert_eq(symlinkat("fifo", at, "out"), 0);
	fd = openat(at, "file", O_WRONLY | O_CREAT, 0600);
	cr_assert(fd >= 0 && write(fd, "x", 1) == 1);
	close(fd);
	opened = inotify_init1(IN_NONBLOCK);
	cr_assert(inotify_add_watch(opened, dir, IN_OPEN) >= 0);

	cr_assert_eq(regular_open(at, "fifo", 0), -EINVAL);
	cr_assert_eq(regular_open(at, "out", 0), -EINVAL);
	cr_assert_eq(regular_open(at, "dir", 0), -EINVAL);
	cr_assert_eq(regular_open(at, "none", 0), -ENOENT);
	cr_assert_eq(regular_open(at, "link", O_NOFOLLOW), -ELOOP);
	cr_assert_eq(regular_open(AT_FDCWD, "/dev/null", 0), -EINVAL);
	cr_assert_eq(opens(), 0);
	for (int i = 0; i < 2; i++) {
		char c;

		fd = regular_open(at, i ? "link" : "file", 0);
		cr_assert(fd >= 0);
		cr_assert(read(fd, &c, 1) == 1 && c == 'x');
		cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		close(fd);
		cr_assert_gt(opens(), 0); /* the case of above */
	}
	unlinkat(at, "fifo", 0);
	unlinkat(at, "out", 0);
	unlinkat(at, "link", 0);
	unlinkat(at, "file", 0);
	unlinkat(at, "dir", AT_REMOVEDIR);
	rmdir(dir);
}

Test(files, the_limit_is_raised)
{
	struct rlimit l;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
	l.rlim_cur = 20;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
	files_more();
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
	cr_expect_eq(l.rlim_cur, l.rlim_max);
}
