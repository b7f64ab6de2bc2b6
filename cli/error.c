// SPDX-License-Identifier: GPL-2.0-or-later
/* Errors of the vpmu command; see error.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/error.h"

void (*cli_error_before)(void);

static void print_error(const char *fmt, va_list ap)
{
	if (cli_error_before)
		cli_error_before();
	/* Keep the order of output and error, even if both go to one file. */
	fflush(stdout);
	fputs("vpmu: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void cli_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_error(fmt, ap);
	va_end(ap);
}

void cli_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_error(fmt, ap);
	va_end(ap);
	exit(EXIT_USAGE);
}
