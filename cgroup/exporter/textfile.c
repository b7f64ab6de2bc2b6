// SPDX-License-Identifier: GPL-2.0-or-later
/* Writing a file beside the old one and putting it in its place, see textfile.h. vpmud and the
 * command `vpmu metrics` call it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup/exporter/textfile.h"
#include "vpmu/util/fail.h"

static int write_all(int fd, const char *text, size_t len)
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

int textfile_write(const char *path, const char *text, size_t len, char *err, size_t errlen)
{
	char tmp[PATH_MAX];
	int fd, ret;

	/* node_exporter reads *.prom only: not this one. */
	if (snprintf(tmp, sizeof(tmp), "%s.%d.new", path, getpid()) >= (int)sizeof(tmp))
		return fail(-ENAMETOOLONG, err, errlen, "%.80s...: the path is too long", path);
	unlink(tmp); /* of a process that was killed */
	fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return fail(-errno, err, errlen, "%s: %s", tmp, strerror(errno));
	ret = write_all(fd, text, len);
	if (!ret && fsync(fd) && errno != EINVAL)
		ret = -errno;
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && rename(tmp, path))
		ret = -errno;
	if (ret) {
		unlink(tmp);
		return fail(ret, err, errlen, "%s: %s", path, strerror(-ret));
	}
	return 0;
}
