// SPDX-License-Identifier: LGPL-2.1-or-later
/* The limit of open files; see files.h. */
#include <sys/resource.h>

#include "vpmu/util/files.h"

void files_more(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur == l.rlim_max)
		return;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}
