// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checks the directory of the pins. Anyone who can remove or replace a pin can end the counting, or
 * make the next process take over other maps; so only this user and root may have write access to
 * it and to the directories above it. pin.c calls this before it looks at any pin.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup/priv.h"
#include "vpmu/util/fail.h"

/* Check that directory @st, named by the first @len bytes of @path, is safe. @above: not the last
 * component. In a sticky directory such as /tmp others can add names, but not change ours. */
static int dir_check(const struct stat *st, const char *path, int len, bool above, char *why,
		     size_t whylen)
{
	if (S_ISLNK(st->st_mode))
		return fail(-ELOOP, why, whylen,
			    "%s: %.*s is a symbolic link; expected the directory itself", path, len,
			    path);
	if (!S_ISDIR(st->st_mode))
		return fail(-ENOTDIR, why, whylen, "%s: %.*s is no directory", path, len, path);
	if (st->st_uid != geteuid() && !(above && !st->st_uid))
		return fail(
			-EPERM, why, whylen,
			"%s: %.*s belongs to user %u, able to end the counting; expected user %u%s",
			path, len, path, st->st_uid, geteuid(), above && geteuid() ? " or 0" : "");
	if (st->st_mode & 022 && !(above && st->st_mode & S_ISVTX))
		return fail(-EPERM, why, whylen,
			    "%s: others may write to %.*s (mode %o) and could end the counting; "
			    "expected mode 755 or less",
			    path, len, path, st->st_mode & 07777);
	return 0;
}

int pin_dir_open(const char *path, char *why, size_t whylen)
{
	int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), next, ret = 0;
	const char *at = path, *end;
	char name[NAME_MAX + 1];
	struct stat st;

	while (fd >= 0 && !ret && *(at += strspn(at, "/"))) {
		end = strchrnul(at, '/');
		if (end - at > NAME_MAX) {
			ret = fail(-ENAMETOOLONG, why, whylen, "%s: %s", path,
				   strerror(ENAMETOOLONG));
			break;
		}
		snprintf(name, sizeof(name), "%.*s", (int)(end - at), at);
		next = openat(fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		fd = next;
		if (fd >= 0 && !fstat(fd, &st))
			ret = dir_check(&st, path, (int)(end - path), end[strspn(end, "/")] != '\0',
					why, whylen);
		at = end;
	}
	/* An O_PATH descriptor can be neither locked nor read. */
	next = fd < 0 || ret ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!ret && next < 0)
		ret = fail(-errno, why, whylen, "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ret ? ret : next;
}
