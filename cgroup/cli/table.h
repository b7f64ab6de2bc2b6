/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A reading as its final output for people: `vpmu stat` and `vpmu detach`. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cgroup/cli/options.h"
#include "cgroup/cli/reading.h"

/*
 * table_print_as - print @r as the options -j and -x say: as JSON, as separated values, else as
 * text. The text is lines like those of perf stat for one row. Several rows are a table of rows by
 * events, a tree for tenants. It is cut into blocks of columns that fit the terminal.
 */
void table_print_as(const struct format_opts *format, const struct reading *r);

#endif
