// SPDX-License-Identifier: GPL-2.0-or-later
/* See aml.h. Section numbers are those of the ACPI specification 6.4. */
#include <string.h>

#include "vmm/boot/aml.h"

void aml_byte(struct aml *a, uint8_t b)
{
	if (a->len == a->room) {
		a->full = true;
		return;
	}
	a->buf[a->len++] = b;
}

void aml_bytes(struct aml *a, const void *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		aml_byte(a, ((const uint8_t *)from)[i]);
}

size_t aml_open(struct aml *a, uint8_t prefix, uint8_t op)
{
	size_t at;

	if (prefix)
		aml_byte(a, prefix);
	aml_byte(a, op);
	at = a->len;
	/* Always two bytes, since the length is not known yet. */
	aml_byte(a, 0);
	aml_byte(a, 0);
	return at;
}

void aml_close(struct aml *a, size_t at)
{
	size_t n = a->len - at;

	/* 20.2.4: of two bytes the first has bits 3:0 and the number of bytes that follow it. The
	 * length counts itself. */
	if (n > 0xfff)
		a->full = true;
	if (a->full)
		return;
	a->buf[at] = (uint8_t)(1 << 6 | (n & 0xf));
	a->buf[at + 1] = (uint8_t)(n >> 4);
}

void aml_name(struct aml *a, const char *name)
{
	size_t n;

	if (*name == '\\')
		aml_byte(a, (uint8_t)*name++);
	n = strlen(name);
	/* 20.2.2: shorter names are filled up with '_'. */
	for (size_t i = 0; i < 4; i++)
		aml_byte(a, i < n ? (uint8_t)name[i] : '_');
}

void aml_integer(struct aml *a, uint32_t v)
{
	/* 20.2.3: ZeroOp, OneOp; BytePrefix, WordPrefix, DWordPrefix and the value. */
	unsigned int bytes = v < 2 ? 0 : v <= 0xff ? 1 : v <= 0xffff ? 2 : 4;

	if (!bytes) {
		aml_byte(a, (uint8_t)v);
		return;
	}
	aml_byte(a, bytes == 1 ? 0x0a : bytes == 2 ? 0x0b : 0x0c);
	for (unsigned int i = 0; i < bytes; i++)
		aml_byte(a, (uint8_t)(v >> 8 * i));
}

static unsigned int aml_hex(char c)
{
	return (unsigned int)(c <= '9' ? c - '0' : c - 'A' + 10);
}

void aml_eisa_id(struct aml *a, const char *id)
{
	/* 19.6.36: three letters of 5 bits, four hexadecimal digits; most significant byte first.
	 */
	unsigned int letters = (unsigned int)(id[0] - '@') << 10 |
			       (unsigned int)(id[1] - '@') << 5 | (unsigned int)(id[2] - '@');
	unsigned int digits =
		aml_hex(id[3]) << 12 | aml_hex(id[4]) << 8 | aml_hex(id[5]) << 4 | aml_hex(id[6]);

	aml_integer(a, (letters >> 8 & 0xff) | (letters & 0xff) << 8 | (digits >> 8) << 16 |
			       (digits & 0xff) << 24);
}
