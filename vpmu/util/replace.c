// SPDX-License-Identifier: LGPL-2.1-or-later
/* Atomic replacement of a file, see files.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "vpmu/util/files.h"

static int replace_write_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		text += n;
		len -= (size_t)n;
	}
	return 0;
}

int replace_file(const char *path, const char *next, mode_t mode, bool lasting, const char *text,
		 size_t len)
{
	int fd, ret;

	unlink(next);
	fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	ret = replace_write_all(fd, text, len);
	/* EINVAL: the file system does not support fsync. */
	if (!ret && lasting && fsync(fd) && errno != EINVAL)
		ret = -errno;
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && rename(next, path))
		ret = -errno;
	if (ret)
		unlink(next);
	return ret;
}
