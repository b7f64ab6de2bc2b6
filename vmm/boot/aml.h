/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Writing AML, the byte code of ACPI tables (ACPI 6.4, ch. 20), into a buffer. On overflow the rest
 * is left out, and full is set. Only vmm/boot includes this. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aml {
	uint8_t *buf;
	size_t room, len;
	bool full;
};

void aml_byte(struct aml *a, uint8_t b);
void aml_bytes(struct aml *a, const void *from, size_t n);

/* aml_open - write the opcode @op (after @prefix 5BH, if that is not 0) of a term that has a
 * length, and reserve room for the length. Returns its place for aml_close, which writes it. */
size_t aml_open(struct aml *a, uint8_t prefix, uint8_t op);
void aml_close(struct aml *a, size_t at);

/* aml_name - a name of up to 4 characters as a NameSeg; a leading '\' is written before it. */
void aml_name(struct aml *a, const char *name);

/* aml_integer - an integer constant. */
void aml_integer(struct aml *a, uint32_t v);

/* aml_eisa_id - an EISA ID such as "PNP0501" as the integer that it is encoded as. */
void aml_eisa_id(struct aml *a, const char *id);

enum {
	AML_NAME = 0x08,
	AML_SCOPE = 0x10,
	AML_BUFFER = 0x11,
	AML_PACKAGE = 0x12,
	AML_EXT = 0x5b,
	AML_EXT_DEVICE = 0x82,
};
