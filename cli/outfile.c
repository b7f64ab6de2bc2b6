// SPDX-License-Identifier: GPL-2.0-or-later
/* Output files of commands; see outfile.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/error.h"
#include "cli/outfile.h"
#include "service/program/memory.h"

struct outfile {
	FILE *f;
	char *path; /* NULL: standard output */
	char *next; /* its temporary name; NULL: @path is no regular file */
};

/* Temporary name of the open output file, of which a command has one; NULL: none. */
static const char *unfinished;

/* Runs at exit: the program may end anywhere (memory_out()). */
static void remove_unfinished(void)
{
	if (unfinished)
		unlink(unfinished);
}

static void out_free(struct outfile *o)
{
	unfinished = NULL;
	free(o->path);
	free(o->next);
	free(o);
}

/* Open @o->next, or @o->path itself if that is no regular file. */
static int open_there(struct outfile *o)
{
	struct stat st;

	if (stat(o->path, &st) == 0 && !S_ISREG(st.st_mode)) {
		free(o->next);
		o->next = NULL;
		return open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	}
	atexit(remove_unfinished);
	unfinished = o->next;
	return mkostemp(o->next, O_CLOEXEC);
}

int outfile_open(const char *path, struct outfile **out)
{
	struct outfile *o = xcalloc(1, sizeof(*o));
	int fd, ret;

	if (!path || !strcmp(path, "-")) {
		o->f = stdout;
		*out = o;
		return 0;
	}
	o->path = xstrdup(path);
	o->next = xasprintf("%s.XXXXXX", path);
	fd = open_there(o);
	if (fd >= 0) {
		o->f = fdopen(fd, "w");
		if (!o->f)
			memory_out();
		*out = o;
		return 0;
	}
	ret = -errno;
	cli_error("%s: %s", path, strerror(-ret));
	out_free(o);
	return ret;
}

FILE *outfile_stream(const struct outfile *o)
{
	return o->f;
}

int outfile_close(struct outfile *o, bool keep)
{
	int ret = 0;

	if (!o)
		return 0;
	if (o->path) {
		bool failed = fflush(o->f) || ferror(o->f);

		if (failed)
			ret = errno ? -errno : -EIO;
		if (fclose(o->f) && !ret)
			ret = -errno;
		if (o->next && keep && !ret && rename(o->next, o->path))
			ret = -errno;
		if (o->next && (!keep || ret))
			unlink(o->next);
		if (ret && keep)
			cli_error("%s: cannot be written: %s", o->path, strerror(-ret));
	}
	out_free(o);
	return keep ? ret : 0;
}
