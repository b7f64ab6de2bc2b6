/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions by address: of one ELF file, or of a list. images.c calls it for guests,
 * object_names.c for processes of the host, kallsyms.c for kernels. A file is untrusted: a damaged
 * one causes an error or wrong names, nothing worse.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct symbols;

/* symbols_load - read the symbols of the file @path. Returns 0, or -errno and one line in @err. */
int symbols_load(const char *path, struct symbols **out, char *err, size_t errlen);

/* symbols_load_fd - read those of the open file @fd, dynamic ones if it has no others. A file
 * without any is loaded, too, for its build id and segments. Returns 0 or -errno. */
int symbols_load_fd(int fd, struct symbols **out);

/* symbols_new - without any. symbols_add_function - add one that ends where the next one begins;
 * @name is copied. Returns 0, -E2BIG or -ENOMEM. symbols_end - all are there; the last one has
 * @last_bytes. Returns false if there are none. */
struct symbols *symbols_new(void);
int symbols_add_function(struct symbols *s, uint64_t start, const char *name);
bool symbols_end(struct symbols *s, uint64_t last_bytes);

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

/* symbols_linked - return the address at which the byte at @offset of the file runs, before
 * relocation; SYMBOLS_NOWHERE: it is no code. */
#define SYMBOLS_NOWHERE UINT64_MAX
uint64_t symbols_linked(const struct symbols *s, uint64_t offset);

/* symbols_are_own - returns true if they are more than the dynamic ones. */
bool symbols_are_own(const struct symbols *s);

/* symbols_build_id - write the build id of symbols_load_fd()'s file; returns its length, 0: none.
 */
#define SYMBOLS_BUILD_ID_MAX 32
size_t symbols_build_id(const struct symbols *s, uint8_t id[SYMBOLS_BUILD_ID_MAX]);

/*
 * kallsyms.c reads the functions of a Linux kernel from a file like /proc/kallsyms: a copy from a
 * guest, or the host's own. The file is untrusted: a damaged one causes an error or wrong names,
 * nothing worse. images.c calls it.
 */
/* kallsyms_load - read the file @path. Returns 0, or -errno and one line in @err; -EACCES also if
 * the kernel hides the addresses from this user; -ENODATA: no functions. */
int kallsyms_load(const char *path, struct symbols **out, char *err, size_t errlen);
