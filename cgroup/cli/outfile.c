// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/cli/cli.h"
#include "cgroup/cli/outfile.h"

int outfile_open(struct outfile *o, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	*o = (struct outfile){.path = path, .created = fd >= 0};
	if (fd < 0 && errno == EEXIST)
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		o->f = fdopen(fd, "w");
	if (o->f)
		return 0;
	cli_error("%s: %s; a file that can be written is accepted", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (o->created)
		unlink(path);
	return -1;
}

FILE *outfile_begin(struct outfile *o)
{
	/* A pipe or a device has no length. */
	if (ftruncate(fileno(o->f), 0) && errno != EINVAL)
		cli_error("%s: %s", o->path, strerror(errno));
	return o->f;
}

int outfile_end(struct outfile *o)
{
	int bad = ferror(o->f);

	bad |= fclose(o->f);
	o->f = NULL;
	if (bad)
		cli_error("%s: cannot write it all", o->path);
	return bad ? -1 : 0;
}

void outfile_drop(struct outfile *o)
{
	if (!o->f)
		return;
	fclose(o->f);
	o->f = NULL;
	if (o->created)
		unlink(o->path);
}
