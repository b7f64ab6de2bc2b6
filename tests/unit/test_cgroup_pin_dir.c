// SPDX-License-Identifier: GPL-2.0-or-later
/* Which directories may hold the pins; any file system does for that. */
#include "folder_bed.h"
#include "cgroup/priv.h"

static char why[400];

static void start(void)
{
	folder_begin();
	cr_assert(!mkdir(folder_path("/a"), 0755) && !mkdir(folder_path("/a/pins"), 0700));
}

TestSuite(pin_dir, .init = start, .fini = folder_end);

static int opens(const char *rest)
{
	int fd;

	*why = '\0';
	fd = pin_dir_open(folder_path(rest), why, sizeof(why));
	if (fd >= 0)
		close(fd);
	cr_expect_eq(fd < 0, *why != '\0');
	cr_expect_null(strchr(why, '\n'));
	return fd < 0 ? fd : 0;
}

static void expect_refused(unsigned int line, const char *rest, int ret, const char *text)
{
	cr_expect_eq(opens(rest), ret, "line %u: %s", line, why);
	cr_expect(strstr(why, text), "line %u: %s", line, why);
}
#define REFUSED(rest, ret, text) expect_refused(__LINE__, rest, ret, text)

Test(pin_dir, of_this_user_only)
{
	cr_expect_eq(opens("/a/pins"), 0, "%s", why);
	cr_expect_eq(opens("//a/./pins//"), 0, "%s", why);
	for (mode_t mode = 0; mode < 01000; mode++) {
		cr_assert_eq(chmod(folder_path("/a/pins"), mode | 0700), 0);
		cr_expect_eq(opens("/a/pins"), mode & 022 ? -EPERM : 0, "%o: %s", mode, why);
	}
	cr_assert_eq(chmod(folder_path("/a/pins"), 01777), 0);
	REFUSED("/a/pins", -EPERM, "/a/pins (mode 1777) and could end the counting");
}

/* Whoever may write to a directory above can put another one in its place; not in a sticky one. */
Test(pin_dir, below_directories_of_this_user_and_root)
{
	cr_assert_eq(chmod(folder_path("/a"), 0775), 0);
	REFUSED("/a/pins", -EPERM, "/a (mode 775)");
	cr_assert_eq(chmod(folder_path("/a"), 01777), 0);
	cr_expect_eq(opens("/a/pins"), 0, "%s", why);
}

Test(pin_dir, no_symbolic_links)
{
	cr_assert(!symlink("a", folder_path("/l")) && !symlink("pins", folder_path("/a/p")));
	REFUSED("/l/pins", -ELOOP, "/l is a symbolic link");
	REFUSED("/a/p", -ELOOP, "/a/p is a symbolic link");
	REFUSED("/a/p/", -ELOOP, "/a/p is a symbolic link");
	REFUSED("/a/none", -ENOENT, "No such file");
}

Test(pin_dir, of_no_other_user)
{
	if (geteuid())
		cr_skip_test("only root can give a directory to another user");
	cr_assert_eq(chown(folder_path("/a/pins"), 65534, 65534), 0);
	REFUSED("/a/pins", -EPERM, "/a/pins belongs to user 65534");
	cr_assert(!chown(folder_path("/a/pins"), 0, 0) && !chown(folder_path("/a"), 65534, 65534));
	REFUSED("/a/pins", -EPERM, "/a belongs to user 65534");
	cr_assert(!chown(folder_path("/a"), 0, 0) && !chown(folder_path("/a/pins"), 65534, 65534));
	cr_assert(!chmod(folder, 0755) && !seteuid(65534));
	cr_expect_eq(opens("/a/pins"), 0, "root's above: %s", why);
	REFUSED("/a", -EPERM, "/a belongs to user 0");
	cr_assert_eq(seteuid(0), 0);
}
