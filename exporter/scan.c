// SPDX-License-Identifier: GPL-2.0-or-later
/* A scanner of JSON text (RFC 8259); see scan.h. */
#include <string.h>

#include "exporter/scan.h"

void scan_blanks(char **p)
{
	*p += strspn(*p, " \t\r\n");
}

bool scan_char(char **p, char c)
{
	scan_blanks(p);
	if (**p != c)
		return false;
	++*p;
	return true;
}

/* The four digits of \uXXXX. */
static bool scan_hex(const char *s, uint32_t *v)
{
	*v = 0;
	for (int i = 0; i < 4; i++) {
		char c = s[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0)
			return false;
		*v = *v << 4 | (uint32_t)digit;
	}
	return true;
}

static char *scan_put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
	} else if (c < 0x800) {
		*to++ = (char)(0xc0 | c >> 6);
		*to++ = (char)(0x80 | (c & 0x3f));
	} else if (c < 0x10000) {
		*to++ = (char)(0xe0 | c >> 12);
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	} else {
		*to++ = (char)(0xf0 | c >> 18);
		*to++ = (char)(0x80 | (c >> 12 & 0x3f));
		*to++ = (char)(0x80 | (c >> 6 & 0x3f));
		*to++ = (char)(0x80 | (c & 0x3f));
	}
	return to;
}

/* Unescape *@from, behind the backslash, to *@to, which is never ahead of it. */
static bool scan_escape(char **from, char **to)
{
	static const char name[] = "\"\\/bfnrt", byte[] = "\"\\/\b\f\n\r\t";
	const char *known = **from ? strchr(name, **from) : NULL;
	uint32_t c, low;

	if (known) {
		*(*to)++ = byte[known - name];
		++*from;
		return true;
	}
	if (**from != 'u' || !scan_hex(*from + 1, &c))
		return false;
	*from += 5;
	if (c >= 0xd800 && c < 0xdc00) {
		if ((*from)[0] != '\\' || (*from)[1] != 'u' || !scan_hex(*from + 2, &low) ||
		    low < 0xdc00 || low > 0xdfff)
			return false;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		*from += 6;
	} else if (!c || (c >= 0xdc00 && c < 0xe000)) {
		return false;
	}
	*to = scan_put_utf8(*to, c);
	return true;
}

bool scan_string(char **p, char **s)
{
	char *from, *to;

	if (!scan_char(p, '"'))
		return false;
	*s = from = to = *p;
	for (;;) {
		unsigned char c = (unsigned char)*from;

		if (c == '"')
			break;
		if (c < 0x20) /* also the end of the text */
			return false;
		if (c == '\\') {
			from++;
			if (!scan_escape(&from, &to))
				return false;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
	*p = from + 1;
	return true;
}

static bool scan_digits(char **p, uint64_t *v)
{
	char *s = *p;
	uint64_t n = 0;

	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
			return false;
	if (s == *p)
		return false;
	*p = s;
	*v = n;
	return true;
}

bool scan_u64(char **p, uint64_t *v)
{
	bool quoted = scan_char(p, '"');

	if (!scan_digits(p, v))
		return false;
	if (quoted)
		return *(*p)++ == '"';
	return !**p || strchr(",]} \t\r\n", **p);
}

bool scan_bool(char **p, bool *v)
{
	scan_blanks(p);
	*v = !strncmp(*p, "true", 4);
	if (!*v && strncmp(*p, "false", 5))
		return false;
	*p += *v ? 4 : 5;
	return true;
}

/* From behind the first quote to behind the last. */
static bool scan_skip_string(char **p)
{
	for (;;) {
		*p += strcspn(*p, "\"\\");
		if (!**p)
			return false;
		if (*(*p)++ == '"')
			return true;
		if (!*(*p)++)
			return false;
	}
}

bool scan_skip(char **p)
{
	unsigned int depth = 0;
	size_t n;

	do {
		scan_blanks(p);
		switch (**p) {
		case '"':
			++*p;
			if (!scan_skip_string(p))
				return false;
			break;
		case '{':
		case '[':
			depth++;
			++*p;
			break;
		case '}':
		case ']':
			if (!depth--)
				return false;
			++*p;
			break;
		case ',':
		case ':':
			if (!depth)
				return false;
			++*p;
			break;
		default:
			n = strcspn(*p, "\"{}[],: \t\r\n");
			if (!n)
				return false;
			*p += n;
		}
	} while (depth);
	return true;
}

int scan_next(char **p, char end, bool *first)
{
	if (scan_char(p, end))
		return 0;
	if (!*first && !scan_char(p, ','))
		return -1;
	*first = false;
	return 1;
}

int scan_member(char **p, bool *first, char **name)
{
	int more = scan_next(p, '}', first);

	if (more > 0 && (!scan_string(p, name) || !scan_char(p, ':')))
		return -1;
	return more;
}
