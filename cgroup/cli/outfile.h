/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A file that is written at the end of something long, and must not be found unwritable only then.
 */
#ifndef CLI_OUTFILE_H
#define CLI_OUTFILE_H

#include <stdbool.h>
#include <stdio.h>

struct outfile {
	const char *path;
	FILE *f;      /* NULL: none */
	bool created; /* by us */
};

/* outfile_open - open @path for writing; what is there stays until outfile_begin. -1 after an error
 * was said. @path must outlive @o. */
int outfile_open(struct outfile *o, const char *path);
/* outfile_begin - empty the file; returns where to write to. */
FILE *outfile_begin(struct outfile *o);
/* outfile_end - write all of it. -1 after an error was said. */
int outfile_end(struct outfile *o);
/* outfile_drop - without outfile_begin: the file is as before, or gone again. NULL f: nothing. */
void outfile_drop(struct outfile *o);

#endif
