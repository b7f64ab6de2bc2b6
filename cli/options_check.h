/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checks the options of a command line before argp parses it, so that an unknown option is one line
 * that names the nearest one; getopt and argp would print two. options.c calls it.
 */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * options_fault - returns true if an option of @argv is unknown, ambiguous, lacks its value or has
 * one that it does not take, as getopt_long() finds it, with one line in @err. @in_order: options
 * end at the first argument. argv[0] is "vpmu" or "vpmu COMMAND".
 */
bool options_fault(const struct argp *argp, int argc, char **argv, bool in_order, char *err,
		   size_t errlen);
