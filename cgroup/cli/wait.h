/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Waiting for a time, Ctrl-C or the server's end. */
#ifndef CLI_WAIT_H
#define CLI_WAIT_H

enum cli_wait { CLI_WAIT_TIME, CLI_WAIT_STOP, CLI_WAIT_SERVER_GONE };

/* cli_wait_init - from now on Ctrl-C and SIGTERM only end cli_wait. 0, or -1 after an error was
 * said. */
int cli_wait_init(void);
/* cli_wait - @seconds (below 0: for ever). A stop is told by every call after it too. */
enum cli_wait cli_wait(double seconds, int server_fd);

/* cli_now - seconds of a clock that only goes on. */
double cli_now(void);

#endif
