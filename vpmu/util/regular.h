/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opening files by untrusted names, for readers of images and snapshots. Any thread.
 */
#ifndef VPMU_UTIL_REGULAR_H
#define VPMU_UTIL_REGULAR_H

/*
 * regular_open - open the regular file @path, relative to the directory @dir (AT_FDCWD: the working
 * directory), for reading. @flags: 0, or O_NOFOLLOW to refuse a symbolic link as its last name.
 * Other file types are not opened, since that alone can have effects: a pipe waits for a writer, a
 * watchdog starts. Returns the descriptor, or -errno; -EINVAL: not a regular file; -ELOOP: a
 * symbolic link.
 */
int regular_open(int dir, const char *path, int flags);

#endif
