// SPDX-License-Identifier: GPL-2.0-or-later
/* The file of metrics, see textfile.h. vpmud and the command `vpmu metrics` call it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "exporter/textfile.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/replace.h"

int textfile_write(const char *path, const char *text, size_t len, char *err, size_t errlen)
{
	char next[PATH_MAX];
	int ret;

	/* node_exporter reads *.prom only: not this one. More than one process may write the file.
	 */
	if (snprintf(next, sizeof(next), "%s.%d.new", path, getpid()) >= (int)sizeof(next))
		return fail(-ENAMETOOLONG, err, errlen, "%.80s...: the path is too long", path);
	ret = replace_file(path, next, 0644, true, text, len);
	return ret ? fail(ret, err, errlen, "%s: %s", path, strerror(-ret)) : 0;
}
