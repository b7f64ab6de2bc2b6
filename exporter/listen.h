/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the metrics are served. */
#ifndef EXPORTER_LISTEN_H
#define EXPORTER_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

/* metrics_listen_ok - whether @where is ADDRESS:PORT, :PORT, [ADDRESS]:PORT or unix:/PATH. Pure. */
bool metrics_listen_ok(const char *where);

/*
 * metrics_listen - a socket that listens at @where (metrics_listen_ok). A Unix socket replaces one
 * that nobody listens at, is for its owner and its group, and *@file is its path, to remove it: the
 * caller frees that. -errno and one line to @err.
 */
int metrics_listen(const char *where, int *fd, char **file, char *err, size_t errlen);

#endif
