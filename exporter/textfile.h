/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file that readers see whole, in its old or its new form: for node_exporter's textfile
 * collector. */
#ifndef EXPORTER_TEXTFILE_H
#define EXPORTER_TEXTFILE_H

#include <stddef.h>

/* textfile_write - make the file at @path the @len bytes at @text, readable for everybody. On an
 * error the old file stays. -errno, and one line in @err. Any thread. */
int textfile_write(const char *path, const char *text, size_t len, char *err, size_t errlen);

#endif
