/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What of a guest's output may reach the terminal of an operator who works on its console:
 * printable UTF-8, BEL, backspace, tab, line feed and carriage return; and the sequences that
 * colour, erase, insert, delete, scroll or move the cursor (ECMA-48). All others are left out: they
 * can set titles, write the clipboard, change modes, or make the terminal answer, which is as if
 * the operator had typed it.
 */
#ifndef CLI_CONSOLE_FILTER_H
#define CLI_CONSOLE_FILTER_H

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

#endif
