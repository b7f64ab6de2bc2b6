/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting for whatever comes first: a time, Ctrl-C, the end of a command, the server's end. One
 * waiter per process; only its main thread may call these functions.
 */
#ifndef CLI_WAIT_H
#define CLI_WAIT_H

#include <stdbool.h>

enum cli_wait {
	CLI_WAIT_TIME, /* the time has come */
	CLI_WAIT_STOP, /* Ctrl-C, SIGTERM, or the command ended; all later calls say so too, until
			* cli_wait_start */
	CLI_WAIT_SERVER_GONE /* the server closed the connection, or says its last words */
};

/* cli_wait_init - from now on Ctrl-C and SIGTERM no longer end the process but the waiting. 0, or
 * -1 after an error was printed. */
int cli_wait_init(void);

/*
 * cli_wait_start - run @command (a NULL-terminated argv); its end then ends the waiting. Ctrl-C
 * goes to the command as well, so the waiting goes on until the command ends. SIGTERM ends the
 * waiting at once. Returns 0, or the exit status after an error was printed: 127 if there is no
 * such command, 126 if it cannot be run, 1. Call cli_wait_init before. May be called again when the
 * command has ended.
 */
int cli_wait_start(char **command);

/* cli_wait_status - wait until the command has ended. Returns its exit status, or 128 + its signal.
 * *user_s and *sys_s become the CPU time of it and its children in seconds. */
int cli_wait_status(double *user_s, double *sys_s);

/* cli_wait_interrupted - whether Ctrl-C was pressed or SIGTERM came. */
bool cli_wait_interrupted(void);

/* cli_now - seconds of CLOCK_MONOTONIC. */
double cli_now(void);

/* cli_wait - wait until cli_now() reaches @end (below 0: there is no such end). @server_fd is the
 * connection to the server, with no request under way. */
enum cli_wait cli_wait(double end, int server_fd);

#endif
