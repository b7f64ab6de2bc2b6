// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds files below the operator's snapshot directory; snapshot.c and control_snapshot.c call these
 * functions. Names come from clients. No step may leave the directory: a symbolic link or ".." in
 * the name is refused, and each step starts at the directory opened by the previous one.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "vmm/snapshot/priv.h"
#include "vpmu/util/files.h"

int snap_parent(int dir, const char *file, const char **base, char *err, size_t errlen)
{
	int at = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (at < 0)
		return fail(-errno, err, errlen, "the snapshot directory: %s", strerror(errno));
	for (const char *slash;; file = slash + 1) {
		size_t n = strcspn(file, "/");
		char name[NAME_MAX + 1];
		int next;

		if (!n || n > NAME_MAX || !strncmp(file, ".", n) || !strncmp(file, "..", n)) {
			close(at);
			return fail(-EINVAL, err, errlen,
				    "expected names of up to %u bytes between single /, none of "
				    "them . or ..",
				    NAME_MAX);
		}
		slash = file + n;
		if (!*slash) {
			*base = file;
			return at;
		}
		memcpy(name, file, n);
		name[n] = 0;
		next = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			next = -errno;
		close(at);
		if (next < 0)
			return fail(next, err, errlen, "%.100s: %s", name,
				    next == -ELOOP || next == -ENOTDIR
					    ? "not a directory, or a symbolic link"
					    : strerror(-next));
		at = next;
	}
}

int snapshot_open(int dir, const char *file, char *err, size_t errlen)
{
	const char *base;
	int fd, at = snap_parent(dir, file, &base, err, errlen);

	if (at < 0)
		return at;
	fd = regular_open(at, base, O_NOFOLLOW);
	close(at);
	if (fd == -EINVAL || fd == -ELOOP)
		fail(fd, err, errlen, "%snot a regular file",
		     fd == -ELOOP ? "a symbolic link, " : "");
	else if (fd < 0)
		fail(fd, err, errlen, "%s", strerror(-fd));
	return fd;
}
