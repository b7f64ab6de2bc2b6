/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints a reading as the final output of `vpmu stat` and `vpmu detach`. */
#pragma once

#include "cli/options.h"
#include "cli/reading.h"

/* Measurements of the command of `vpmu stat`, in seconds. */
struct run_info {
	size_t runs;			   /* number of runs; with several, all values are means */
	double elapsed_s, elapsed_error_s; /* the latter: standard error of the mean */
	double user_s, sys_s;		   /* CPU time of the command and its children */
};

/*
 * table_print_as - print @r in the format of -j or -x, else as text: lines like those of perf stat
 * for one row; for several rows a table of rows by events, a tree for tenants, split into blocks of
 * columns that fit the terminal. @run: NULL: no command.
 */
void table_print_as(const struct format_opts *format, const struct reading *r,
		    const struct run_info *run);
