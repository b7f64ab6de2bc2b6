/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Atomic replacement of files, such as vpmud's state and the CLI's exports: readers see the
 * old or the new file. Any thread.
 */
#ifndef VPMU_UTIL_REPLACE_H
#define VPMU_UTIL_REPLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * replace_file - replace the file at @path by the @len bytes at @text, with mode @mode. They are
 * written to @next first, a name in the same directory that no other writer uses; a leftover @next
 * is removed. With @lasting they are synced to disk before the rename, so that a complete file
 * survives a power cut. Returns 0, or -errno: then @path is unchanged and @next is removed.
 */
int replace_file(const char *path, const char *next, mode_t mode, bool lasting, const char *text,
		 size_t len);

#endif
