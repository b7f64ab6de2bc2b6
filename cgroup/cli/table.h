/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A reading as its final output for people: `vpmu stat` and `vpmu detach`. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cgroup/cli/options.h"
#include "cgroup/cli/reading.h"

/*
 * table_print - print lines like those of perf stat for one row. Several rows become a table of
 * rows by events, a tree for tenants, which is cut into blocks of at most @width columns (0: no
 * limit).
 */
void table_print(const struct reading *r, unsigned int width);

/* table_print_as - print @r as the options -j and -x say: JSON, separated values or table_print. */
void table_print_as(const struct format_opts *format, const struct reading *r);

#endif
