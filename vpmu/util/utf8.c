// SPDX-License-Identifier: LGPL-2.1-or-later
/* Checks of UTF-8 for display, see utf8.h. Must reject every byte sequence that it does not
 * recognize. */
#include <stdint.h>
#include <string.h>

#include "vpmu/util/utf8.h"

/* True if a terminal acts on character @c: U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to
 * U+2069 (Unicode's Bidi_Control and the separators), and the controls. */
static bool utf8_acts(uint32_t c)
{
	return (c < 0x20 && c != '\t') || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e ||
	       c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t utf8_shown(const char *text, size_t left)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: not overlong */
	const unsigned char *p = (const unsigned char *)text;
	uint32_t c = p[0];
	size_t len = 1;

	if (c >= 0xf0 && c <= 0xf4)
		len = 4, c &= 0x07;
	else if (c >= 0xe0 && c < 0xf0)
		len = 3, c &= 0x0f;
	else if (c >= 0xc0 && c < 0xe0)
		len = 2, c &= 0x1f;
	else if (c >= 0x80)
		return 0;
	if (len > left)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || utf8_acts(c))
		return 0;
	return len;
}

bool utf8_text(const char *text)
{
	size_t left = strlen(text), n;

	for (; left; text += n, left -= n) {
		n = utf8_shown(text, left);
		if (!n)
			return false;
	}
	return true;
}
