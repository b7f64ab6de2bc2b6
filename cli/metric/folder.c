// SPDX-License-Identifier: GPL-2.0-or-later
/* Files and folders of metrics: see metric.h. Only regular files are opened. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/metric/metric.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/files.h"

int metric_set_file(struct metric_set *set, const char *path, char *err, size_t errlen)
{
	char *text = xmalloc(METRIC_FILE_MAX + 1);
	size_t len = 0;
	ssize_t n = 1;
	int fd, ret;

	fd = regular_open(AT_FDCWD, path, 0);
	ret = fd < 0 ? fd : 0;
	while (!ret && n > 0 && len <= METRIC_FILE_MAX) {
		n = read(fd, text + len, METRIC_FILE_MAX + 1 - len);
		if (n > 0)
			len += (size_t)n;
		else if (n < 0 && errno != EINTR)
			ret = -errno;
		else if (n < 0)
			n = 1;
	}
	if (ret == -EINVAL)
		fail(ret, err, errlen, "%s: not a regular file; expected a metric file", path);
	else if (ret)
		fail(ret, err, errlen, "%s: %s", path, strerror(-ret));
	else
		ret = metric_set_text(set, path, text, len, err, errlen);
	if (fd >= 0)
		close(fd);
	free(text);
	return ret;
}

static int is_metrics(const struct dirent *d)
{
	size_t n = strlen(d->d_name), suffix = strlen(METRIC_SUFFIX);

	return n > suffix && d->d_name[0] != '.' &&
	       strcmp(d->d_name + n - suffix, METRIC_SUFFIX) == 0;
}

/* Byte order, independent of the locale. */
static int folder_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int metric_set_folder(struct metric_set *set, const char *path,
		      void (*bad)(const char *line, void *arg), void *arg)
{
	struct dirent **names;
	char err[600], *file;
	int n = scandir(path, &names, is_metrics, folder_by_name), ret;

	if (n < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (n < 0) {
		ret = fail(-errno, err, sizeof(err), "%s: %s", path, strerror(errno));
		bad(err, arg);
		return ret;
	}
	for (int i = 0; i < n; i++) {
		file = xasprintf("%s/%s", path, names[i]->d_name);
		if (metric_set_file(set, file, err, sizeof(err)))
			bad(err, arg);
		free(file);
		free(names[i]);
	}
	free(names);
	return 0;
}
