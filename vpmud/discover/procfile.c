// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads files of /proc; see procfile.h. Nothing here may block or allocate. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vpmud/discover/procfile.h"

/* Numbers of fields in proc(5). */
enum {
	FIELD_PPID = 4,
	FIELD_FLAGS = 9,
	FIELD_NUM_THREADS = 20,
	FIELD_STARTTIME = 22,
	FIELD_VSIZE = 23,
	FIELD_GUEST_TIME = 43,
};

ssize_t procfile_read(int dir, const char *path, char *buf, size_t len)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t have = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -errno;
	while (have < len - 1) {
		n = read(fd, buf + have, len - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	if (n < 0)
		n = -errno;
	close(fd);
	buf[have] = 0;
	return n < 0 ? n : (ssize_t)have;
}

int procfile_dir(int dir, const char *name, DIR **out)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	*out = fdopendir(fd);
	if (*out)
		return 0;
	ret = -errno;
	close(fd);
	return ret;
}

int procfile_parse_stat(const char *text, struct proc_stat *st)
{
	const char *open = strchr(text, '('), *p = strrchr(text, ')');
	size_t len;

	*st = (struct proc_stat){0};
	/* The name may contain parentheses and blanks: the last ")" ends it. */
	if (!open || !p || p < open || p[1] != ' ' || !p[2] || p[3] != ' ')
		return -EINVAL;
	len = (size_t)(p - open - 1);
	if (len >= sizeof(st->comm))
		len = sizeof(st->comm) - 1;
	memcpy(st->comm, open + 1, len);
	st->state = p[2];
	p += 3;
	for (int field = FIELD_PPID; field <= FIELD_GUEST_TIME; field++) {
		char *end;
		uint64_t v;

		errno = 0;
		v = strtoull(p, &end, 10);
		if (errno || end == p || (*end != ' ' && *end != '\n' && *end))
			return -EINVAL;
		p = end;
		switch (field) {
		case FIELD_PPID:
			st->ppid = (pid_t)v;
			break;
		case FIELD_FLAGS:
			st->flags = v;
			break;
		case FIELD_NUM_THREADS:
			st->nr_threads = v;
			break;
		case FIELD_STARTTIME:
			st->start_time = v;
			break;
		case FIELD_VSIZE:
			st->vsize = v;
			break;
		case FIELD_GUEST_TIME:
			st->guest_time = v;
			break;
		}
	}
	return 0;
}

int procfile_stat(int dir, const char *path, struct proc_stat *st)
{
	char buf[1024];
	ssize_t n = procfile_read(dir, path, buf, sizeof(buf));

	if (n < 0)
		return (int)n;
	/* A process that ends between open and read leaves an empty file. */
	return n ? procfile_parse_stat(buf, st) : -ESRCH;
}

int procfile_uid(int dir, uid_t *uid)
{
	char buf[4096], *line;
	unsigned int real, effective, saved;
	ssize_t n = procfile_read(dir, "status", buf, sizeof(buf));

	*uid = (uid_t)-1;
	if (n < 0)
		return procfile_gone((int)n) ? (int)n : 0;
	/* The kernel escapes newlines in the name, so this match is genuine. */
	line = strstr(buf, "\nUid:");
	if (line && sscanf(line, "\nUid: %u %u %u", &real, &effective, &saved) == 3 &&
	    real == effective && real == saved)
		*uid = real;
	return 0;
}

bool procfile_gone(int err)
{
	return err == -ENOENT || err == -ESRCH;
}

int procfile_number(const char *name)
{
	long v = 0;

	if (!*name || (*name == '0' && name[1]))
		return -1;
	for (; *name; name++) {
		if (*name < '0' || *name > '9')
			return -1;
		v = v * 10 + (*name - '0');
		if (v > INT_MAX)
			return -1;
	}
	return (int)v;
}
