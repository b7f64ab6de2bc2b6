/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The operator's terminal while `vpmu console` has it: single keys or raw, and as it was before on
 * exit, while the command is stopped (SIGTSTP), and when a signal ends it. SIGKILL and SIGSTOP
 * cannot be caught. Main thread.
 */
#ifndef CLI_CONSOLE_TERMINAL_H
#define CLI_CONSOLE_TERMINAL_H

#include <stdbool.h>

/* console_terminal - returns true if standard input and output are a terminal. */
bool console_terminal(void);

/* console_terminal_start - every key is available at once, and is not shown. @raw: also Ctrl-C and
 * the other keys of the terminal's own are read, and output is not changed. Returns false if the
 * terminal does not permit it. */
bool console_terminal_start(bool raw);

/* console_terminal_restore - as it was before. May be called more than once. */
void console_terminal_restore(void);

#endif
