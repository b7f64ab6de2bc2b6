/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef VPMU_UTIL_FILES_H
#define VPMU_UTIL_FILES_H

#include <stdbool.h>
#include <sys/resource.h>

/* files_raise_limit - raise the limit of open files as far as possible. Returns false if it stays.
 * Any thread. */
static inline bool files_raise_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == l.rlim_max)
		return false;
	l.rlim_cur = l.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &l);
}

#endif
