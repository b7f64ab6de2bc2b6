// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/console_filter.c: what of a hostile guest's output a terminal gets, in parts of any size. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/console.h"

static const struct {
	const char *in, *out;
} cases[] = {
	{"plain\r\n\tx\b\a", "plain\r\n\tx\b\a"},
	{"\033[1;31mred\033[0m\033[K\033[2J\033[5;7H",
	 "\033[1;31mred\033[0m\033[K\033[2J\033[5;7H"},
	{"a\0337\033D\033M\0338b", "a\0337\033D\033M\0338b"},
	{"a\033]0;title\ab", "ab"},
	{"a\033]52;c;QQ==\033\\b", "ab"},
	{"a\033P$q\"p\033\\b\033_x\033\\c\033^x\033\\d\033Xx\033\\e", "abcde"},
	{"a\033]open\nb", "a\nb"},
	{"a\033[6nb\033[cb\033[>cb\033[5ib\033[21tb\033[9xb", "abbbbbb"},
	{"a\033[?25lb\033[?1049hb\033[4hb\033[!pb\033[1$rb", "abbbbb"},
	{"a\033cb\033Zb\033(0b\033#8b\033=b", "abbbbb"},
	{"a\033[3\0336nb", "anb"},	    /* ESC starts anew: ESC 6 */
	{"a\033[3\rmb", "a\rmb"},	    /* a control character ends it */
	{"a\033[3\030mb\033\032c", "ambc"}, /* CAN, SUB */
	{"\001\005\016\017\x7f", ""},	    /* ENQ makes a terminal answer; SO and SI */
	{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
	{"a\xc2\x9b"
	 "6nb",
	 "a?6nb"}, /* C1: CSI */
	{"a\x9b"
	 "6n\xe2\x82z",
	 "a?6n?z"},
	{"a\342\200\256b", "a?b"}, /* direction of writing */
	{"\033[111111111111111111111111111111111111111111mb", "b"},
};

Test(console_filter, cases)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t n = strlen(cases[i].in);

		for (size_t part = 1; part <= n; part++) {
			struct console_filter f = {0};
			char out[CONSOLE_FILTERED_MAX(128)] = "";
			size_t len = 0;

			for (size_t at = 0; at < n; at += part)
				len += console_filter(&f, (const uint8_t *)cases[i].in + at,
						      n - at < part ? n - at : part, out + len);
			cr_assert_eq(len, strlen(cases[i].out), "case %zu by %zu", i, part);
			cr_assert(!memcmp(out, cases[i].out, len), "case %zu by %zu", i, part);
		}
	}
}

Test(console_filter, reset)
{
	struct console_filter f = {0};
	char out[CONSOLE_FILTERED_MAX(8)];

	cr_assert_str_empty(console_filter_reset(&f));
	console_filter(&f, (const uint8_t *)"a", 1, out);
	cr_assert_str_eq(console_filter_reset(&f), "\r\n");
	console_filter(&f, (const uint8_t *)"\r\n", 2, out);
	cr_assert_str_empty(console_filter_reset(&f));
	console_filter(&f, (const uint8_t *)"\033[1m", 4, out);
	cr_assert(strstr(console_filter_reset(&f), "\033[0m"));
}
