/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the functions of one ELF file, to name addresses of a guest. images.c calls it. The file is
 * untrusted: a damaged one causes an error or wrong names, nothing worse.
 */
#ifndef CLI_SYMBOLS_H
#define CLI_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols;

/* symbols_load - read the symbols of the file @path. Returns 0, or -errno and one line in @err. */
int symbols_load(const char *path, struct symbols **out, char *err, size_t errlen);
/* symbols_free - NULL is allowed. */
void symbols_free(struct symbols *s);

/* symbols_find - return the function at @address, or NULL. *@offset: bytes from its start. The name
 * belongs to @s and may have any bytes. */
const char *symbols_find(const struct symbols *s, uint64_t address, uint64_t *offset);

/* A code segment: @len bytes at @offset of the file, which run at @address. */
struct segment {
	uint64_t address, len, offset;
};

/* symbols_segment - return the @i-th code segment. Returns false beyond the last. */
bool symbols_segment(const struct symbols *s, size_t i, struct segment *out);

#endif
