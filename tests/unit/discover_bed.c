// SPDX-License-Identifier: GPL-2.0-or-later
/* The hooks of discover_bed.h. */
#include "discover_bed.h"

struct discover_bed bed;

int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...)
{
	int err = bed.hook ? bed.hook(path) : 0;

	bed.opened++;
	if (err) {
		errno = err;
		return -1;
	}
	return __real_openat(dir, path, flags);
}

ssize_t __real_readlinkat(int dir, const char *path, char *buf, size_t len);
ssize_t __wrap_readlinkat(int dir, const char *path, char *buf, size_t len);
ssize_t __wrap_readlinkat(int dir, const char *path, char *buf, size_t len)
{
	int err = bed.hook ? bed.hook(path) : 0;

	if (err) {
		errno = err;
		return -1;
	}
	return __real_readlinkat(dir, path, buf, len);
}
