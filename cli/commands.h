/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The subcommands of vpmu. Only main.c calls them, by its table. */
#pragma once

#include <stdbool.h>

#include "cli/options.h"

/*
 * Each runs one subcommand and returns the exit status. @argv[0] is "vpmu NAME". Errors have been
 * printed; standard output may not be flushed yet.
 */
int cmd_list(struct cli *cli, int argc, char **argv);
int cmd_stat(struct cli *cli, int argc, char **argv);
int cmd_top(struct cli *cli, int argc, char **argv);
int cmd_events(struct cli *cli, int argc, char **argv);
int cmd_metrics(struct cli *cli, int argc, char **argv);
int cmd_check(struct cli *cli, int argc, char **argv);
int cmd_selftest(struct cli *cli, int argc, char **argv);
int cmd_attach(struct cli *cli, int argc, char **argv);
int cmd_detach(struct cli *cli, int argc, char **argv);
int cmd_sessions(struct cli *cli, int argc, char **argv);
int cmd_sharing(struct cli *cli, int argc, char **argv);
int cmd_conservation(struct cli *cli, int argc, char **argv);
int cmd_tenant(struct cli *cli, int argc, char **argv);
int cmd_vm(struct cli *cli, int argc, char **argv);
int cmd_profile(struct cli *cli, int argc, char **argv);
int cmd_report(struct cli *cli, int argc, char **argv);
int cmd_lbr(struct cli *cli, int argc, char **argv);
int cmd_console(struct cli *cli, int argc, char **argv);
int cmd_pause(struct cli *cli, int argc, char **argv);
int cmd_resume(struct cli *cli, int argc, char **argv);
int cmd_reload(struct cli *cli, int argc, char **argv);
int cmd_quit(struct cli *cli, int argc, char **argv);

/* exported_show - write the metrics that vpmu-exporter serves to the file at @path, atomically;
 * NULL: to standard output. @config: of vpmu-exporter; NULL: the default. Returns the exit
 * status. */
int exported_show(struct cli *cli, const char *config, bool openmetrics, const char *path);
