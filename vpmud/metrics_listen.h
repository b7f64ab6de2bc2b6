/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the metrics are served. */
#ifndef VPMUD_METRICS_LISTEN_H
#define VPMUD_METRICS_LISTEN_H

#include <stddef.h>
#include <sys/types.h>

/*
 * metrics_listen - a socket that listens at @where (vmetrics_listen_ok). A Unix socket replaces one
 * that nobody listens at, is for its owner and the group @gid (-1: the process's), and *@file is
 * its path, to remove it: the caller frees that. -errno and one line to @err.
 */
int metrics_listen(const char *where, gid_t gid, int *fd, char **file, char *err, size_t errlen);

#endif
