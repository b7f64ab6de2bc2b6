/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Standard output of the vpmu command: its width, its end, and safe text. Used by all of cli/. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* terminal_width - return the columns of the terminal @f; 0 if it is none. */
unsigned int terminal_width(FILE *f);

/* terminal_flush - flush standard output now; terminal_done() reports failures. */
void terminal_flush(void);

/* terminal_done - flush standard output. Returns @status, or 1 if writing failed. A full disk is
 * reported; a closed pipe is not. */
int terminal_done(int status);

/* terminal_is_safe - returns true if terminal_safe() would not change @text. */
bool terminal_is_safe(const char *text);
/*
 * terminal_safe - replace in @text, a UTF-8 string, every character that a terminal interprets (C0,
 * DEL, C1) or that changes the direction of writing by '?'. Works in place and returns @text. All
 * text from a server or a file must pass through it.
 */
char *terminal_safe(char *text);
