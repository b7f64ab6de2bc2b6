// SPDX-License-Identifier: LGPL-2.1-or-later
/* Opening regular files only, see files.h. The type of a file is checked before it is opened. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmu/util/files.h"

int regular_open(int dir, const char *path, int flags)
{
	/* O_PATH looks the file up without opening it. */
	int at = openat(dir, path, O_PATH | O_CLOEXEC | flags), fd;
	char name[40];
	struct stat st;

	if (at < 0)
		return -errno;
	if (fstat(at, &st))
		fd = -errno;
	else if (S_ISLNK(st.st_mode))
		fd = -ELOOP;
	else if (!S_ISREG(st.st_mode))
		fd = -EINVAL;
	else {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", at);
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (fd < 0)
			fd = -errno;
	}
	close(at);
	return fd;
}
