/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text without a libc: formatting, number parsing, words of an argument string, and the tools'
 * output, which reaches the serial port line by line. Builds hosted too (tests).
 */
#ifndef GUEST_TOOLS_TEXT_H
#define GUEST_TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * text_format - snprintf's little brother: %s %c %d %u %lu %lx, with - and a width or * and (for
 * %s) .* . Returns the length written, which is less than @size; what does not fit is cut.
 */
size_t text_format(char *buf, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* text_thousands - @v with a comma between groups of three digits. */
const char *text_thousands(uint64_t v, char buf[32]);

/* text_u64 - the @len bytes at @s as decimal or 0x hexadecimal; false unless all of it is. */
bool text_u64(const char *s, size_t len, uint64_t *v);

bool text_equal(const char *s, size_t len, const char *word);

/* One word of the arguments: no copy, not terminated. len 0: there is none. */
struct word {
	const char *s;
	size_t len;
};

/* text_next_word - the next word at *@s; moves *@s behind it. Words are set apart by blanks. */
struct word text_next_word(const char **s);

static inline bool word_is(struct word w, const char *text)
{
	return text_equal(w.s, w.len, text);
}

/* out - print; error - one line "vcpu N: error: ..."; out_flush - print an unfinished line. */
void out(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void out_flush(void);

/* mul_div - @a * @b / @c without losing bits, UINT64_MAX when the result does not fit or c = 0. */
uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c);

#endif
