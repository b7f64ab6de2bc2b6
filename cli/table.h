/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A reading as its final output for people: `vpmu stat` and `vpmu detach`. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli/options.h"
#include "cli/reading.h"

/* What was measured of a command that ran meanwhile, in seconds. */
struct run_info {
	size_t runs;			   /* how many; of several, all values are means */
	double elapsed_s, elapsed_error_s; /* the latter: standard error of the mean */
	double user_s, sys_s;		   /* CPU time of the command and its children */
};

/*
 * table_print_as - print @r as the options -j and -x say: as JSON, as separated values, else as
 * text. The text is lines like those of perf stat for one row. Several rows are a table of rows by
 * events, a tree for tenants. It is cut into blocks of columns that fit the terminal. @run: NULL if
 * there was no command.
 */
void table_print_as(const struct format_opts *format, const struct reading *r,
		    const struct run_info *run);

#endif
