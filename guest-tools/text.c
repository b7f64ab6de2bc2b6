// SPDX-License-Identifier: GPL-2.0-or-later
/* Text functions and output of the guest tools; see text.h. */
#include <stdarg.h>

#include "guest-tools/text.h"
#include "guest-tools/tools.h"

struct sink {
	char *buf;
	size_t size, len;
};

static void text_put(struct sink *s, char c)
{
	if (s->len + 1 < s->size)
		s->buf[s->len++] = c;
}

static size_t text_digits(char *buf, uint64_t v, unsigned int base)
{
	char tmp[20];
	size_t n = 0;

	do {
		tmp[n++] = "0123456789abcdef"[v % base];
	} while (v /= base);
	for (size_t i = 0; i < n; i++)
		buf[i] = tmp[n - 1 - i];
	return n;
}

static void put_field(struct sink *out, const char *s, size_t len, size_t width, bool left)
{
	for (size_t i = len; !left && i < width; i++)
		text_put(out, ' ');
	for (size_t i = 0; i < len; i++)
		text_put(out, s[i]);
	for (size_t i = len; left && i < width; i++)
		text_put(out, ' ');
}

static size_t parse_width(const char **fmt, va_list *ap)
{
	size_t width = 0;

	if (**fmt == '*') {
		++*fmt;
		return (size_t)va_arg(*ap, int);
	}
	for (; **fmt >= '0' && **fmt <= '9'; ++*fmt)
		width = width * 10 + (size_t)(**fmt - '0');
	return width;
}

static size_t vformat(char *buf, size_t size, const char *fmt, va_list *ap)
{
	struct sink out = {buf, size, 0};

	for (; *fmt; fmt++) {
		bool left = false, limited = false, is_long = false;
		size_t width, limit = 0, len;
		char num[24];

		if (*fmt != '%') {
			text_put(&out, *fmt);
			continue;
		}
		if (*++fmt == '-') {
			left = true;
			fmt++;
		}
		width = parse_width(&fmt, ap);
		if (*fmt == '.') {
			fmt++;
			limited = true;
			limit = parse_width(&fmt, ap);
		}
		if (*fmt == 'l') {
			is_long = true;
			fmt++;
		}
		switch (*fmt) {
		case 's': {
			const char *s = va_arg(*ap, const char *);

			for (len = 0; (!limited || len < limit) && s[len]; len++)
				;
			put_field(&out, s, len, width, left);
			break;
		}
		case 'c':
			num[0] = (char)va_arg(*ap, int);
			put_field(&out, num, 1, width, left);
			break;
		case 'd': {
			int v = va_arg(*ap, int);

			num[0] = '-';
			len = text_digits(num + 1, v < 0 ? -(uint64_t)v : (uint64_t)v, 10);
			put_field(&out, v < 0 ? num : num + 1, v < 0 ? len + 1 : len, width, left);
			break;
		}
		case 'u':
		case 'x':
			len = text_digits(num,
					  is_long ? va_arg(*ap, uint64_t) : va_arg(*ap, uint32_t),
					  *fmt == 'u' ? 10 : 16);
			put_field(&out, num, len, width, left);
			break;
		default:
			text_put(&out, *fmt);
		}
	}
	if (size)
		buf[out.len] = 0;
	return out.len;
}

size_t text_format(char *buf, size_t size, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	va_start(ap, fmt);
	len = vformat(buf, size, fmt, &ap);
	va_end(ap);
	return len;
}

const char *text_thousands(uint64_t v, char buf[32])
{
	char num[20];
	size_t len = text_digits(num, v, 10), n = 0;

	for (size_t i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[n++] = ',';
		buf[n++] = num[i];
	}
	buf[n] = 0;
	return buf;
}

bool text_u64(const char *s, size_t len, uint64_t *v)
{
	uint64_t base = 10, n = 0;

	if (len > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) {
		base = 16;
		s += 2;
		len -= 2;
	}
	if (!len)
		return false;
	for (; len; s++, len--) {
		char c = *s >= 'A' && *s <= 'F' ? (char)(*s + 'a' - 'A') : *s;
		uint64_t d;

		if (c >= '0' && c <= '9')
			d = (uint64_t)(c - '0');
		else if (base == 16 && c >= 'a' && c <= 'f')
			d = (uint64_t)(c - 'a') + 10;
		else
			return false;
		if (n > (UINT64_MAX - d) / base)
			return false;
		n = n * base + d;
	}
	*v = n;
	return true;
}

bool text_equal(const char *s, size_t len, const char *word)
{
	size_t i = 0;

	while (i < len && word[i] && word[i] == s[i])
		i++;
	return i == len && !word[i];
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct word text_next_word(const char **s)
{
	struct word w;

	while (blank(**s))
		++*s;
	w.s = *s;
	while (**s && !blank(**s))
		++*s;
	w.len = (size_t)(*s - w.s);
	return w;
}

uint64_t mul_div(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t hi, lo, rem;

	__asm__("mulq %3" : "=a"(lo), "=d"(hi) : "a"(a), "rm"(b) : "cc");
	if (hi >= c)
		return UINT64_MAX;
	__asm__("divq %4" : "=a"(lo), "=d"(rem) : "a"(lo), "d"(hi), "rm"(c) : "cc");
	return lo;
}

/* ---- output ------------------------------------------------------------------------------- */

static char line[512];
static size_t line_len;

void out_flush(void)
{
	if (line_len)
		sys_write(line, line_len);
	line_len = 0;
}

void out(const char *fmt, ...)
{
	char text[512];
	va_list ap;
	size_t len;

	va_start(ap, fmt);
	len = vformat(text, sizeof(text), fmt, &ap);
	va_end(ap);
	for (size_t i = 0; i < len; i++) {
		line[line_len++] = text[i];
		if (text[i] == '\n' || line_len == sizeof(line))
			out_flush();
	}
}
