// SPDX-License-Identifier: GPL-2.0-or-later
/* A guest's output for a terminal; see console.h. */
#include <string.h>

#include "cli/console.h"
#include "vpmu/util/utf8.h"

#define ESC 0x1b
#define CAN 0x18
#define SUB 0x1a

static size_t put(struct console_filter *f, const char *text, size_t n, char *out)
{
	memcpy(out, text, n);
	if (n)
		f->last = text[n - 1];
	return n;
}

/* Emit the held sequence if @harmless, and go on with text. */
static size_t sequence_end(struct console_filter *f, bool harmless, char *out)
{
	size_t n = harmless ? put(f, f->held, f->len, out) : 0;

	f->styled |= n != 0;
	f->len = 0;
	f->state = FILTER_TEXT;
	return n;
}

static void sequence_hold(struct console_filter *f, uint8_t byte)
{
	if (f->len < sizeof(f->held))
		f->held[f->len++] = (char)byte;
	else
		f->held[1] = 0; /* too long: no sequence that passes */
}

/* Text: @byte is no ESC. An incomplete character is held; '?' takes the place of what must not be
 * shown. */
static size_t text_byte(struct console_filter *f, uint8_t byte, char *out)
{
	size_t n = 0, shown;

	if (f->len && (byte & 0xc0) != 0x80) { /* the character before ended too early */
		n += put(f, "?", 1, out);
		f->len = 0;
	}
	if (byte < 0x80) {
		bool passes = (byte >= 0x20 && byte != 0x7f) || (byte >= '\a' && byte <= '\n') ||
			      byte == '\r';

		return passes ? n + put(f, (const char *)&byte, 1, out + n) : n;
	}
	f->held[f->len++] = (char)byte;
	shown = utf8_shown(f->held, f->len);
	if (shown) {
		n += put(f, f->held, shown, out + n);
		f->len = 0;
	} else if (f->len == 4 || (byte & 0xc0) == 0x80) {
		unsigned char first = (unsigned char)f->held[0];
		size_t want = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;

		if (f->len >= want) {
			n += put(f, "?", 1, out + n);
			f->len = 0;
		}
	}
	return n;
}

/* Final bytes of control sequences without a private prefix or intermediates. Not b (repeats), c
 * and n (the terminal answers), h and l (modes), i (prints), q, t (windows), u, x, y. */
static bool csi_harmless(const struct console_filter *f, uint8_t final)
{
	for (size_t i = 2; i < f->len - 1; i++)
		if (!strchr("0123456789;:", f->held[i]))
			return false;
	return f->held[1] == '[' && strchr("@ABCDEFGHJKLMPSTXdfmr`", final);
}

static size_t escape_byte(struct console_filter *f, uint8_t byte, char *out)
{
	sequence_hold(f, byte);
	if (byte == '[') {
		f->state = FILTER_CSI;
	} else if (byte && strchr("]PX^_", byte)) {
		f->state = FILTER_STRING;
	} else if (byte >= 0x20 && byte < 0x30) {
		f->state = FILTER_INTER;
	} else {
		/* Save and restore the cursor, index, next line, reverse index. */
		return sequence_end(f, byte && strchr("78DEM", byte), out);
	}
	return 0;
}

static size_t console_filter_byte(struct console_filter *f, uint8_t byte, char *out)
{
	size_t n = 0;

	if (f->state == FILTER_STRING_ESC)
		f->state = byte == '\\' ? FILTER_TEXT : FILTER_STRING;
	else if (byte == ESC && f->state == FILTER_STRING)
		f->state = FILTER_STRING_ESC;
	else if (byte == ESC) {
		if (f->state == FILTER_TEXT && f->len)
			n = put(f, "?", 1, out);
		f->held[0] = ESC;
		f->len = 1;
		f->state = FILTER_ESC;
		return n;
	} else if (f->state == FILTER_TEXT)
		return text_byte(f, byte, out);
	else if (byte == CAN || byte == SUB)
		f->state = FILTER_TEXT;
	else if (f->state == FILTER_STRING) {
		/* No string has a line feed: one that a guest left open ends with its line. */
		if (byte == '\a' || byte == '\n')
			f->state = FILTER_TEXT;
		n = byte == '\n' ? put(f, "\n", 1, out) : 0;
	} else if (byte < 0x20 || byte >= 0x7f) {
		/* Terminals act on a control character inside a sequence. Here it ends it. */
		sequence_end(f, false, out);
		return text_byte(f, byte, out);
	} else if (f->state == FILTER_ESC)
		return escape_byte(f, byte, out);
	else {
		sequence_hold(f, byte);
		if (f->state == FILTER_CSI && byte >= 0x40)
			return sequence_end(f, csi_harmless(f, byte), out);
		if (f->state == FILTER_INTER && byte >= 0x30)
			return sequence_end(f, false, out);
		return 0;
	}
	if (f->state == FILTER_TEXT)
		f->len = 0;
	return n;
}

size_t console_filter(struct console_filter *f, const uint8_t *in, size_t n, char *out)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++)
		len += console_filter_byte(f, in[i], out + len);
	return len;
}

const char *console_filter_reset(const struct console_filter *f)
{
	/* Scrolling of the whole screen, which moves the cursor; no colours. */
	if (f->styled)
		return "\0337\033[r\0338\033[0m\r\n";
	return f->last && f->last != '\n' ? "\r\n" : "";
}
