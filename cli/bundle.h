/* SPDX-License-Identifier: GPL-2.0-or-later */
/* `vpmu check --bundle`: one archive for a bug report. No guest data; names of tenants and VMs only
 * if they are asked for (redact.h). */
#ifndef CLI_BUNDLE_H
#define CLI_BUNDLE_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/options.h"

/* What of `vpmu check` the archive has: the rows that the server gave, and those of this host. */
struct bundle_rows {
	const json_t *server, *holders;
};

/*
 * bundle_write - make the file @path, mode 0600, a tar.gz. It must not exist. It appears when it is
 * whole: before, it has no name. Prints one line that says what it is. Returns the exit status,
 * after an error was printed.
 */
int bundle_write(struct cli *cli, const char *path, bool names, const struct bundle_rows *rows);

#endif
