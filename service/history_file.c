// SPDX-License-Identifier: GPL-2.0-or-later
/* Files of segments; see history_log.h. A file may be of a process that was killed, or damaged. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "service/history_log.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/files.h"

#define FILE_BYTES_MAX (64 << 20)

struct history_file {
	char *base;
	size_t nr;	/* of files */
	int fd;		/* -1: none */
	uint64_t seq;	/* of the segment in it */
	size_t written; /* bytes of the segment */
};

/* Read up to @len bytes of @fd. */
static void file_read(int fd, size_t len, struct history_segment *s)
{
	ssize_t n;

	s->buf = xmalloc(len + 1);
	s->room = len + 1;
	while (s->len < len && (n = read(fd, s->buf + s->len, len - s->len)) > 0)
		s->len += (size_t)n;
}

/* Returns 0; -ENOENT: no file. */
static int file_load(const char *path, uint64_t interval_ns, struct history_segment *s)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), ret = 0;
	struct stat st;

	*s = (struct history_segment){0};
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		ret = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		ret = -EPERM;
	else if (st.st_size > FILE_BYTES_MAX)
		ret = -EFBIG;
	if (!ret) {
		file_read(fd, (size_t)st.st_size, s);
		ret = history_log_check(s, interval_ns);
	}
	close(fd);
	if (ret) {
		free(s->buf);
		s->buf = NULL;
	}
	return ret;
}

static int by_seq(const void *a, const void *b)
{
	const struct history_segment *x = a, *y = b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int file_path(const struct history_file *f, uint64_t seq, const char *suffix, char *path)
{
	return snprintf(path, PATH_MAX, "%s.%u%s", f->base, (unsigned int)(seq % f->nr), suffix) >=
			       PATH_MAX
		       ? -ENAMETOOLONG
		       : 0;
}

struct history_file *history_file_open(const char *base, uint64_t interval_ns,
				       struct history_segment *seg, size_t max, size_t *nr,
				       void (*note)(void *arg, const char *line), void *arg)
{
	struct history_file *f = xcalloc(1, sizeof(*f));
	char path[PATH_MAX], line[PATH_MAX + 100];

	*nr = 0;
	*f = (struct history_file){.base = xstrdup(base), .nr = max, .fd = -1};
	for (size_t i = 0; i < max; i++) {
		int ret = file_path(f, i, "", path);

		if (!ret)
			ret = file_load(path, interval_ns, &seg[*nr]);
		if (!ret) {
			++*nr;
			continue;
		}
		if (ret == -ENOENT)
			continue;
		/* Else it would be taken for a newer one some day. */
		unlink(path);
		fail(0, line, sizeof(line), "history file %s: not used: %s", path,
		     ret == -EINVAL ? "of another interval or version, or damaged"
				    : strerror(-ret));
		note(arg, line);
	}
	if (*nr > 1)
		qsort(seg, *nr, sizeof(*seg), by_seq);
	return f;
}

/* Begin the file of @s with all of it. */
static int file_begin(struct history_file *f, const struct history_segment *s)
{
	char path[PATH_MAX], next[PATH_MAX];
	int ret = file_path(f, s->seq, "", path);

	if (!ret)
		ret = file_path(f, s->seq, ".new", next);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	if (!ret)
		ret = replace_file(path, next, 0600, false, (const char *)s->buf, s->len);
	if (ret)
		return ret;
	f->fd = open(path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	if (f->fd < 0)
		return -errno;
	f->seq = s->seq;
	f->written = s->len;
	return 0;
}

int history_file_write(struct history_file *f, const struct history_segment *s)
{
	size_t len = s->len - f->written;
	ssize_t n;

	if (f->fd < 0 || f->seq != s->seq || f->written > s->len)
		return file_begin(f, s);
	n = write(f->fd, s->buf + f->written, len);
	if (n == (ssize_t)len) {
		f->written = s->len;
		return 0;
	}
	/* A part of a record is there: what follows would not be read. */
	close(f->fd);
	f->fd = -1;
	return n < 0 ? -errno : -ENOSPC;
}

void history_file_close(struct history_file *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	free(f->base);
	free(f);
}
