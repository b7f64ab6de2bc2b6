/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the functions of a Linux kernel from a file like /proc/kallsyms: a copy from a guest, or
 * the host's own. The file is untrusted: a damaged one causes an error or wrong names, nothing
 * worse. images.c calls it.
 */
#ifndef CLI_KALLSYMS_H
#define CLI_KALLSYMS_H

#include "cli/symbols.h"

/* kallsyms_load - read the file @path. Returns 0, or -errno and one line in @err; -EACCES also if
 * the kernel hides the addresses from this user; -ENODATA: no functions. */
int kallsyms_load(const char *path, struct symbols **out, char *err, size_t errlen);

#endif
