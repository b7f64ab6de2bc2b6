/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The exporter's listening socket. main.c calls it; config.c only metrics_listen_ok(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* metrics_listen_ok - returns true if @where is ADDRESS:PORT, :PORT, [ADDRESS]:PORT or unix:/PATH.
 * Pure. */
bool metrics_listen_ok(const char *where);

/*
 * metrics_listen - create a socket that listens at @where, which must pass metrics_listen_ok(). A
 * Unix socket replaces a stale one and is accessible to its owner and group; *@file is its path,
 * which the caller removes at the end and frees. Returns 0, or -errno and one line in @err.
 */
int metrics_listen(const char *where, int *fd, char **file, char *err, size_t errlen);
