/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Standard output of the vpmu command: its width, its end, and text that is safe to print on it. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* terminal_width - columns of the terminal that @f is; 0 when it is none. */
unsigned int terminal_width(FILE *f);

/* terminal_flush - flush standard output now; terminal_done will say if that failed. */
void terminal_flush(void);

/* terminal_done - flush standard output. Returns @status, or 1 when not everything could be
 * written. A full disk is an error message; a closed pipe is not. */
int terminal_done(int status);

/* terminal_is_safe - whether terminal_safe would leave @text as it is. */
bool terminal_is_safe(const char *text);
/*
 * terminal_safe - replace in @text, a UTF-8 string, everything that a terminal acts on: control
 * characters (C0, DEL and C1) and characters that change the direction of writing. Each becomes one
 * '?'. Works in place and returns @text. What comes from a server or a file goes through this.
 */
char *terminal_safe(char *text);

#endif
