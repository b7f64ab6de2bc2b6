// SPDX-License-Identifier: GPL-2.0-or-later
/* A replaced file is whole, with its own rights; one that cannot be replaced is as it was, and
 * nothing is beside it. Failing system calls one by one: tests/integration/cli_faults.sh. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmu/util/files.h"

static char dir[] = "/tmp/replace.XXXXXX";

static void begin(void)
{
	cr_assert(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
}

static void end(void)
{
	static const char *const names[] = {"file", "next", "other"};

	for (unsigned int i = 0; i < 3; i++)
		unlink(names[i]);
	rmdir("directory");
	rmdir(dir);
}

TestSuite(replace, .init = begin, .fini = end);

static void is(const char *path, const char *text, mode_t mode)
{
	char got[64] = "";
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW);

	cr_assert(fd >= 0, "%s: %s", path, strerror(errno));
	cr_assert(read(fd, got, sizeof(got) - 1) >= 0 && !fstat(fd, &st));
	close(fd);
	cr_assert_str_eq(got, text);
	cr_assert_eq(st.st_mode & 07777, mode, "%s: mode %o", path, st.st_mode & 07777);
}

static void put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, mode);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

Test(replace, the_file_is_the_new_one_with_its_own_rights)
{
	for (int lasting = 0; lasting < 2; lasting++) {
		put("file", "old and longer", 0644);
		/* Of a process that was killed: the file's rights are not these. */
		put("next", "a half", 0644);
		cr_assert_eq(replace_file("file", "next", 0600, lasting, "new", 3), 0);
		is("file", "new", 0600);
		cr_assert_neq(access("next", F_OK), 0);
		unlink("file");
	}
}

Test(replace, a_link_in_the_way_is_not_followed)
{
	put("other", "somebody's", 0600);
	cr_assert_eq(symlink("other", "next"), 0);
	cr_assert_eq(replace_file("file", "next", 0600, false, "new", 3), 0);
	is("file", "new", 0600);
	is("other", "somebody's", 0600);
}

Test(replace, what_fails_leaves_the_old_file_and_nothing_beside_it)
{
	struct rlimit limit;

	put("file", "old", 0600);
	cr_assert_eq(mkdir("directory", 0700), 0);
	cr_assert_eq(replace_file("directory", "next", 0600, true, "new", 3), -EISDIR);
	cr_assert_neq(access("next", F_OK), 0);
	cr_assert_eq(replace_file("file", "none/next", 0600, true, "new", 3), -ENOENT);
	cr_assert_eq(replace_file("file", "directory", 0600, true, "new", 3), -EEXIST);
	is("file", "old", 0600);

	/* A disk that is full after two bytes. */
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = 2;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_eq(replace_file("file", "next", 0600, false, "new", 3), -EFBIG);
	limit.rlim_cur = limit.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_assert_neq(access("next", F_OK), 0);
	is("file", "old", 0600);
}
