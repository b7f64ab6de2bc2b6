/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A progress line on standard error. Only a terminal gets it, and only if the command takes more
 * than PROGRESS_AFTER_S, so a script's output never changes.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#define PROGRESS_AFTER_S 2

/* progress_show - replace the line by "vpmu: @cmd: TEXT". The time counts from the first call since
 * progress_end(). Updates are limited to a few per second. */
void progress_show(const char *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* progress_end - remove the line. Call it before anything else is printed. */
void progress_end(void);

#endif
