/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors of the vpmu command. Every error is one line on standard error: "vpmu: what: why". Every
 * file of cli may call these functions. They never touch standard output except to flush it.
 */
#pragma once

/* Exit status for an invalid command line. 0: success. 1: the command failed. */
#define EXIT_USAGE 2

/* cli_error - print "vpmu: " and the text as one line on standard error. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* cli_usage - as cli_error(), then exit with EXIT_USAGE. Only for invalid command lines. */
void cli_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* cli_error_before - called before an error is printed, if it is set: gives the terminal back. */
extern void (*cli_error_before)(void);
