/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Files: opening them by untrusted names, for readers of images and snapshots; atomic replacement,
 * such as of vpmud's state and the CLI's exports: readers see the old or the new file; the limit of
 * open ones. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* files_more - raise the limit of open files as far as possible: whoever opens a file per event and
 * CPU soon has more than the usual 1,024. What failed with EMFILE is tried once more in any case:
 * another thread may have raised it just now. */
void files_more(void);

/*
 * regular_open - open the regular file @path, relative to the directory @dir (AT_FDCWD: the working
 * directory), for reading. @flags: 0, or O_NOFOLLOW to refuse a symbolic link as its last name.
 * Other file types are not opened, since that alone can have effects: a pipe waits for a writer, a
 * watchdog starts. Returns the descriptor, or -errno; -EINVAL: not a regular file; -ELOOP: a
 * symbolic link.
 */
int regular_open(int dir, const char *path, int flags);

/*
 * replace_file - replace the file at @path by the @len bytes at @text, with mode @mode. They are
 * written to @next first, a name in the same directory that no other writer uses; a leftover @next
 * is removed. With @lasting they are synced to disk before the rename, so that a complete file
 * survives a power cut. Returns 0, or -errno: then @path is unchanged and @next is removed.
 */
int replace_file(const char *path, const char *next, mode_t mode, bool lasting, const char *text,
		 size_t len);
