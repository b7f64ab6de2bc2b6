// SPDX-License-Identifier: GPL-2.0-or-later
/* Files that commands write: see outfile.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/error.h"
#include "cli/outfile.h"

struct outfile {
	FILE *f;
	char *path; /* NULL: standard output */
	char *next; /* its name until it is whole; NULL: @path is no regular file */
};

static void out_free(struct outfile *o)
{
	free(o->path);
	free(o->next);
	free(o);
}

/* Opens @o->next or, if something that is no regular file has the name, @o->path. */
static int open_there(struct outfile *o)
{
	struct stat st;

	if (stat(o->path, &st) == 0 && !S_ISREG(st.st_mode)) {
		free(o->next);
		o->next = NULL;
		return open(o->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	}
	return mkostemp(o->next, O_CLOEXEC);
}

int outfile_open(const char *path, struct outfile **out)
{
	struct outfile *o = calloc(1, sizeof(*o));
	int fd, ret = -ENOMEM;

	if (!o)
		goto fail;
	if (!path || !strcmp(path, "-")) {
		o->f = stdout;
		*out = o;
		return 0;
	}
	o->path = strdup(path);
	if (!o->path || asprintf(&o->next, "%s.XXXXXX", path) < 0) {
		o->next = NULL;
		goto fail;
	}
	fd = open_there(o);
	if (fd < 0) {
		ret = -errno;
		goto fail;
	}
	o->f = fdopen(fd, "w");
	if (o->f) {
		*out = o;
		return 0;
	}
	close(fd);
	if (o->next)
		unlink(o->next);
fail:
	cli_error("%s: %s", path ? path : "standard output", strerror(-ret));
	if (o)
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
