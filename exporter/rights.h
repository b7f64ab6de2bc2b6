/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu-exporter gives up before it looks at the first client (docs/security.md). */
#ifndef EXPORTER_RIGHTS_H
#define EXPORTER_RIGHTS_H

#include <stddef.h>

/* exporter_contain - become @user (NULL: stay), and give up all that serving does not need. @file:
 * the Unix socket that is removed at the end; NULL: none. -errno and one line in @err. */
int exporter_contain(const char *user, const char *file, char *err, size_t errlen);

#endif
