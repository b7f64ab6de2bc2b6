// SPDX-License-Identifier: GPL-2.0-or-later
/* Progress lines; see wait.h. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/wait.h"
#include "vpmu/util/clock.h"

#define EVERY_S 0.2

static double begin, last; /* CLOCK_MONOTONIC; 0: none yet */
static bool shown;

void progress_show(const char *cmd, const char *fmt, ...)
{
	double t = (double)clock_ns(CLOCK_MONOTONIC) / 1e9;
	va_list ap;

	if (!begin)
		begin = t;
	if (t - begin < PROGRESS_AFTER_S || t - last < EVERY_S || !isatty(STDERR_FILENO))
		return;
	last = t;
	shown = true;
	fprintf(stderr, "\rvpmu: %s: ", cmd);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputs("\033[K", stderr);
	fflush(stderr);
}

void progress_end(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
	begin = 0;
}
