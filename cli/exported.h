/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu-exporter serves, without it: `vpmu metrics --prometheus`. */
#ifndef CLI_EXPORTED_H
#define CLI_EXPORTED_H

#include <stdbool.h>

#include "cli/options.h"

/* exported_show - write it to the file at @path, whole or not at all; NULL: to standard output.
 * @config: of vpmu-exporter; NULL: the usual one. The exit status. */
int exported_show(struct cli *cli, const char *config, bool openmetrics, const char *path);

#endif
