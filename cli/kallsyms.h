/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions of a Linux kernel from a file as /proc/kallsyms: a guest's, copied out of it, or
 * the host's own. The file is data of whatever content: a damaged one gives an error or wrong
 * names, never more.
 */
#ifndef CLI_KALLSYMS_H
#define CLI_KALLSYMS_H

#include <stddef.h>
#include <stdint.h>

struct kallsyms;

/* kallsyms_load - read the file @path. Returns 0, or -errno and one line in @err: also -EACCES if
 * the kernel hides the addresses from this user, -ENODATA if it has no functions. */
int kallsyms_load(const char *path, struct kallsyms **out, char *err, size_t errlen);
/* kallsyms_free - NULL is allowed. */
void kallsyms_free(struct kallsyms *k);

/* kallsyms_find - the function that @address is in, or NULL: it is below the first one. *offset:
 * bytes from its start. The name belongs to @k and may have any bytes but blanks and 0. */
const char *kallsyms_find(const struct kallsyms *k, uint64_t address, uint64_t *offset);

#endif
