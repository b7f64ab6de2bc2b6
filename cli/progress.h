/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One line on standard error that says how far a command is. Only a terminal gets it, and only when
 * the command has taken more than PROGRESS_AFTER_S, so no output of a script changes.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#define PROGRESS_AFTER_S 2

/* progress_show - replace the line by "vpmu: @cmd: TEXT". The time counts from the first call since
 * progress_end; at most a few lines per second are written. */
void progress_show(const char *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* progress_end - remove the line. Call it before anything else is printed. */
void progress_end(void);

#endif
