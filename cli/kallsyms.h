/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the functions of a Linux kernel from a file like /proc/kallsyms: a copy from a guest, or
 * the host's own. The file is untrusted: a damaged one causes an error or wrong names, nothing
 * worse. images.c calls it.
 */
#ifndef CLI_KALLSYMS_H
#define CLI_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

struct kallsyms;

/* kallsyms_load - read the file @path. Returns 0, or -errno and one line in @err; -EACCES also if
 * the kernel hides the addresses from this user; -ENODATA: no functions. */
int kallsyms_load(const char *path, struct kallsyms **out, char *err, size_t errlen);
/* kallsyms_free - NULL is allowed. */
void kallsyms_free(struct kallsyms *k);

/* kallsyms_find - return the function at @address, NULL if it is below the first or far above the
 * last. *@offset: bytes from its start. The name belongs to @k and may have any bytes but blanks
 * and 0. */
const char *kallsyms_find(const struct kallsyms *k, uint64_t address, uint64_t *offset);

#endif
