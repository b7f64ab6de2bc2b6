/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text functions for the guest tools, which have no libc: formatting, numbers, words of an argument
 * string, and output to the serial port, line by line. Only the output makes system calls. Tests
 * also build this for the host.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * text_format - a small snprintf: %s %c %d %u %lu %x %lx, with "-", a width or "*", and a precision
 * ".*" of %s. Text that does not fit is cut. Returns the length written, which is less than @size.
 */
size_t text_format(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* text_thousands - @v with a comma between groups of three digits. */
const char *text_thousands(uint64_t v, char buf[32]);

/* text_u64 - parse the @len bytes at @s as a decimal or 0x hexadecimal number. Returns false if
 * they are not a number or it does not fit 64 bits. */
bool text_u64(const char *s, size_t len, uint64_t *v);

/* text_equal - returns true if the @len bytes at @s are @word. */
bool text_equal(const char *s, size_t len, const char *word);

/* One word of the arguments. It points into the arguments and is not terminated. len 0: no word. */
struct word {
	const char *s;
	size_t len;
};

/* text_next_word - take the next word at *@s and move *@s behind it. Blanks separate words. */
struct word text_next_word(const char **s);

static inline bool word_is(struct word w, const char *text)
{
	return text_equal(w.s, w.len, text);
}

/* out - format and print; a line is sent when it is complete or has 512 bytes.
 * out_flush - send an incomplete line. */
void out(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void out_flush(void);

/* mul_div - @a * @b / @c with a 128-bit product; UINT64_MAX if the result does not fit or @c is 0.
 */
uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c);
