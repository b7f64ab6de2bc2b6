// SPDX-License-Identifier: GPL-2.0-or-later
/* What may be shown: every code point, against the rules written down another way. */
#include <criterion/criterion.h>
#include <string.h>

#include "vpmu/util/utf8.h"
#include "vmm/dev/serial.h"

static bool hidden(unsigned int c)
{
	static const unsigned int bidi[] = {0x061c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a, 0x202b,
					    0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069};

	for (size_t i = 0; i < sizeof(bidi) / sizeof(bidi[0]); i++)
		if (bidi[i] == c)
			return true;
	return (c < 32 && c != 9) || c == 127 || (c >= 128 && c < 160) ||
	       (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff;
}

/* @c in @n bytes, whether that is right or not. */
static void put(char *to, unsigned int c, size_t n)
{
	static const unsigned char head[] = {0, 0, 0xc0, 0xe0, 0xf0};

	to[n] = 0;
	for (size_t i = n; --i; c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)(n == 1 ? c : head[n] | c);
}

Test(utf8, every_code_point)
{
	char text[8];

	for (unsigned int c = 0; c <= 0x1fffff; c++) {
		size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

		put(text, c, n);
		cr_assert_eq(utf8_shown(text, n), hidden(c) ? 0 : n, "U+%04X", c);
		cr_assert_eq(n > 1 && utf8_shown(text, n - 1), 0, "U+%04X cut", c);
		if (n < 4) { /* overlong */
			put(text, c, n + 1);
			cr_assert_eq(utf8_shown(text, n + 1), 0, "U+%04X overlong", c);
		}
	}
}

Test(utf8, bytes_that_start_nothing)
{
	for (unsigned int i = 0x80; i < 0x100; i++) {
		const char text[] = {(char)i, 'x', 'y', 'z', 0};

		cr_assert_eq(utf8_shown(text, 4), 0, "%x", i);
		cr_assert_not(utf8_text(text));
	}
	cr_assert(utf8_text(""));
	cr_assert(utf8_text("a\tb \xc3\xa9 \xf0\x9f\x90\xa7"));
}

Test(utf8, a_console_line)
{
	char out[SERIAL_TEXT_MAX];
	static const char line[] = "exe.\xe2\x80\xaegpj \xc2\x9b"
				   "2J \xc3\xa9\xff";

	cr_assert_str_eq(serial_text(line, sizeof(line) - 1, out),
			 "exe.\\xe2\\x80\\xaegpj \\xc2\\x9b2J \xc3\xa9\\xff");
}
