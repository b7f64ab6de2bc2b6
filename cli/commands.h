/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The subcommands of vpmu. Only main.c calls them, by its table. */
#pragma once

#include <stdbool.h>

#include "cli/options.h"

/* Each runs one subcommand and returns the exit status. @argv[0] is "vpmu NAME". Errors have been
 * printed; standard output may not be flushed yet. */
typedef int subcommand_fn(struct cli *cli, int argc, char **argv);
subcommand_fn cmd_list, cmd_stat, cmd_top, cmd_events, cmd_metrics, cmd_check, cmd_selftest,
	cmd_attach, cmd_detach, cmd_sessions, cmd_sharing, cmd_conservation, cmd_tenant, cmd_vm,
	cmd_profile, cmd_report, cmd_lbr, cmd_console, cmd_pause, cmd_resume, cmd_reload, cmd_quit;

/* exported_show - write the metrics that vpmu-exporter serves to the file at @path, atomically;
 * NULL: to standard output. @config: of vpmu-exporter; NULL: the default. Returns the exit
 * status. */
int exported_show(struct cli *cli, const char *config, bool openmetrics, const char *path);
