/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Files that readers see whole, in their old or their new form: vpmud's state and its metrics. Any
 * thread.
 */
#ifndef VPMU_UTIL_REPLACE_H
#define VPMU_UTIL_REPLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * replace_file - make the file at @path the @len bytes at @text, with the rights @mode. They are
 * written to @next first, a name in the same directory that no other writer has; what a killed
 * process left there is removed. With @lasting they are on the disk before @path is theirs, so that
 * a power cut leaves a whole file, too. Returns 0, or -errno: then @path is as it was, and @next is
 * gone.
 */
int replace_file(const char *path, const char *next, mode_t mode, bool lasting, const char *text,
		 size_t len);

#endif
