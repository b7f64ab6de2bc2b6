/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file that a command writes its result to. It appears under its name when it is whole: what was
 * there stays until then, and when the command fails.
 */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

struct outfile;

/*
 * outfile_open - prepare to write @path, for the user alone (mode 0600). NULL or "-": standard
 * output. What is no regular file, such as a named pipe, is written to directly. Returns 0, or
 * -errno after an error was printed.
 */
int outfile_open(const char *path, struct outfile **out);

/* outfile_stream - where to write. It belongs to @o. */
FILE *outfile_stream(const struct outfile *o);

/* outfile_close - @keep: give the file its name, unless writing failed; else nothing remains of it.
 * Frees @o; NULL is allowed. Returns 0, or -errno after an error was printed. Of standard output
 * main() prints the errors. */
int outfile_close(struct outfile *o, bool keep);

#endif
