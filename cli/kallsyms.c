// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions of a Linux kernel; see symbols.h. A line is "ADDRESS TYPE NAME", optionally with a
 * module's name. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/symbols.h"
#include "vpmu/util/fail.h"

#define LINE_MAX_ 1024 /* longer lines are invalid */

/* Size assumed for the last function: some distance after it there is data. */
#define LAST_BYTES (1u << 20)

/* Parse one line. *@hidden: its address is 0, as are all if the user may not see them. */
static int kallsyms_take_line(struct symbols *s, const char *line, bool *hidden)
{
	char name[LINE_MAX_];
	uint64_t start;
	char type;

	/* The width of %s is that of the array. */
	if (sscanf(line, "%" SCNx64 " %c %1023s", &start, &type, name) != 3)
		return -EINVAL;
	if (!strchr("tTwW", type))
		return 0;
	*hidden = !start;
	return start ? symbols_add_function(s, start, name) : 0;
}

static int kallsyms_read_lines(struct symbols *s, FILE *f, const char *path, char *err,
			       size_t errlen)
{
	bool hidden = false;
	char line[LINE_MAX_];
	size_t nr = 0;
	int ret = 0;

	while (!ret && fgets(line, sizeof(line), f)) {
		nr++;
		if (!strchr(line, '\n') && !feof(f))
			ret = -EINVAL;
		else
			ret = kallsyms_take_line(s, line, &hidden);
	}
	if (ret == -EINVAL)
		return fail(ret, err, errlen,
			    "%s:%zu: not a line of kallsyms, which are ADDRESS TYPE NAME", path,
			    nr);
	if (ret)
		return fail(ret, err, errlen, "%s: %s", path,
			    ret == -E2BIG ? "too many symbols" : strerror(-ret));
	if (ferror(f))
		return fail(-EIO, err, errlen, "%s: it cannot be read", path);
	if (symbols_end(s, LAST_BYTES))
		return 0;
	if (hidden)
		return fail(-EACCES, err, errlen,
			    "%s: the addresses are hidden (copy it as root, with "
			    "kernel.kptr_restrict 0 or 1)",
			    path);
	return fail(-ENODATA, err, errlen, "%s: no functions", path);
}

int kallsyms_load(const char *path, struct symbols **out, char *err, size_t errlen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), ret;
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	struct symbols *s;

	if (!f) {
		ret = fail(-errno, err, errlen, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return ret;
	}
	s = symbols_new();
	ret = kallsyms_read_lines(s, f, path, err, errlen);
	fclose(f);
	if (ret)
		symbols_free(s);
	else
		*out = s;
	return ret;
}
