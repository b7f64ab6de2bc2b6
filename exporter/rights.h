/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Drops privileges of vpmu-exporter before the first client (docs/security.md). main.c calls it. */
#ifndef EXPORTER_RIGHTS_H
#define EXPORTER_RIGHTS_H

#include <stddef.h>

/* exporter_contain - become @user (NULL: stay), and drop all that serving does not need. @file: the
 * Unix socket to remove at the end; NULL: none. Returns 0, or -errno and one line in @err. */
int exporter_contain(const char *user, const char *file, char *err, size_t errlen);

#endif
