/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An output file of a command, replaced atomically: the old file stays until the new one is
 * complete, and if the command fails.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

struct outfile;

/*
 * outfile_open - prepare to write @path, with mode 0600. NULL or "-": standard output. Anything but
 * a regular file, such as a named pipe, is written to directly. Returns 0, or -errno after an error
 * was printed.
 */
int outfile_open(const char *path, struct outfile **out);

/* outfile_stream - the stream to write to. It belongs to @o. */
FILE *outfile_stream(const struct outfile *o);

/* outfile_close - free @o (NULL is allowed). @keep: move the file to its name, unless writing
 * failed; else remove it. Returns 0, or -errno after an error was printed. main() prints errors of
 * standard output. */
int outfile_close(struct outfile *o, bool keep);
