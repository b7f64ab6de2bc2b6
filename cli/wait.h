/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits for the first of: a time, Ctrl-C, the end of a command, the server's end. One waiter per
 * process; only its main thread may call these functions.
 */
#pragma once

#include <stdbool.h>

enum cli_wait {
	CLI_WAIT_TIME,	/* timeout */
	CLI_WAIT_STOP,	/* Ctrl-C, SIGTERM, or the command ended; sticky until cli_wait_start() */
	CLI_WAIT_INPUT, /* cli_wait_input(): there is input */
	CLI_WAIT_SERVER_GONE /* the server closed the connection, or sends its last answers */
};

/* cli_wait_init - from now on Ctrl-C and SIGTERM end the wait instead of the process. Returns 0, or
 * -1 after an error was printed. */
int cli_wait_init(void);

/*
 * cli_wait_start - run @command (a NULL-terminated argv); its end ends the wait. Ctrl-C goes to the
 * command, too, so the wait continues until it ends. SIGTERM ends the wait at once. Returns 0, or
 * the exit status after an error was printed: 127 if the command does not exist, 126 if it cannot
 * be run, else 1. Call cli_wait_init() before. May be called again once the command has ended.
 */
int cli_wait_start(char **command);

/* cli_wait_cgroup - commands run in the cgroup with @procs_fd as its cgroup.procs; below 0: in
 * ours.
 */
void cli_wait_cgroup(int procs_fd);

/* cli_wait_status - wait for the command's end, to which SIGTERM is passed on. Returns its exit
 * status, or 128 + its signal.
 * *@user_s and *@sys_s: the CPU time of it and its children in seconds. */
int cli_wait_status(double *user_s, double *sys_s);

/* cli_wait_interrupted - returns true after Ctrl-C or SIGTERM. */
bool cli_wait_interrupted(void);

/* cli_now - seconds of CLOCK_MONOTONIC. */
double cli_now(void);

/* cli_wait - wait until cli_now() reaches @end (below 0: no limit). @server_fd is the connection to
 * the server, without a pending request. */
enum cli_wait cli_wait(double end, int server_fd);

/* cli_wait_input - as cli_wait(), and until @input_fd can be read (below 0: none). */
enum cli_wait cli_wait_input(double end, int server_fd, int input_fd);

/* progress.c: a progress line on standard error. Only a terminal gets it, and only if the command
 * takes more than PROGRESS_AFTER_S, so a script's output never changes. */

#define PROGRESS_AFTER_S 2

/* progress_show - replace the line by "vpmu: @cmd: TEXT". The time counts from the first call since
 * progress_end(). Updates are limited to a few per second. */
void progress_show(const char *cmd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* progress_end - remove the line. Call it before anything else is printed. */
void progress_end(void);
