// SPDX-License-Identifier: LGPL-2.1-or-later
/* Small text files, see proctext.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vpmu/util/proctext.h"

ssize_t proctext_read(char *buf, size_t len, const char *fmt, ...)
{
	char path[PATH_MAX];
	ssize_t n, all = 0;
	va_list ap;
	int fd;

	buf[0] = '\0';
	va_start(ap, fmt);
	n = vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (n >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, buf + all, len - 1 - (size_t)all)) > 0)
		all += n;
	if (n < 0)
		n = -errno;
	close(fd);
	buf[n < 0 ? 0 : all] = '\0';
	return n < 0 ? n : all;
}

char *proctext_field(char *text, const char *name)
{
	size_t len = strlen(name);
	char *end;

	for (; (end = strchr(text, '\n')); text = end + 1) {
		if (strncmp(text, name, len))
			continue;
		*end = '\0';
		return text + len;
	}
	return NULL;
}

int proctext_start(const char *text, uint64_t *start)
{
	/* The name in field 2 may contain spaces and parentheses. */
	const char *at = strrchr(text, ')');

	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at && sscanf(at, " %" SCNu64, start) == 1 ? 0 : -ESRCH;
}
