/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of vpmu console. console_filter.c decides what of a guest's output may reach the
 * terminal of an operator who works on its console: printable UTF-8, BEL, backspace, tab, line feed
 * and carriage return; and the sequences that colour, erase, insert, delete, scroll or move the
 * cursor (ECMA-48). All others are left out: they can set titles, write the clipboard, change
 * modes, or make the terminal answer, which is as if the operator had typed it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONSOLE_SEQUENCE_MAX 32 /* longer ones are left out */

/* Initially zero. A character or a sequence may come in several parts. */
struct console_filter {
	enum {
		FILTER_TEXT,
		FILTER_ESC,    /* after ESC */
		FILTER_INTER,  /* in ESC, intermediate bytes */
		FILTER_CSI,    /* in a control sequence */
		FILTER_STRING, /* in OSC, DCS, SOS, PM or APC: until BEL or ST */
		FILTER_STRING_ESC
	} state;
	char held[CONSOLE_SEQUENCE_MAX]; /* a sequence or character that is not complete yet */
	size_t len;
	bool styled; /* a sequence has passed: the terminal is not as it was */
	char last;   /* the last byte that passed */
};

/* console_filter - filter @n bytes of the guest to @out, which has room for
 * CONSOLE_FILTERED_MAX(n) bytes. Returns their number. */
#define CONSOLE_FILTERED_MAX(n) (CONSOLE_SEQUENCE_MAX + 2 * (n))
size_t console_filter(struct console_filter *f, const uint8_t *in, size_t n, char *out);

/* console_filter_reset - what makes a terminal as it was, with the cursor in the first column; "":
 * it is. */
const char *console_filter_reset(const struct console_filter *f);

/*
 * console_terminal.c: the operator's terminal while the command has it: single keys or raw, and as
 * it was before on exit, while the command is stopped (SIGTSTP), and when a signal ends it. SIGKILL
 * and SIGSTOP cannot be caught. Main thread.
 */
/* console_terminal - returns true if standard input and output are a terminal. */
bool console_terminal(void);

/* console_terminal_start - every key is available at once, and is not shown. @raw: also Ctrl-C and
 * the other keys of the terminal's own are read, and output is not changed. Returns false if the
 * terminal does not permit it. */
bool console_terminal_start(bool raw);

/* console_terminal_restore - as it was before. May be called more than once. */
void console_terminal_restore(void);
