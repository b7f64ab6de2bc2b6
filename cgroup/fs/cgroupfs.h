/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cgroup2 directories of tenants: making, identifying, joining and removing them. Handles paths and
 * thread ids only; the tree of tenants is in service/tenant/tenant.c. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroupfs;

/* cgroupfs_mount - return the directory where cgroup2 is mounted, the first in @mounts, the path of
 * a file such as /proc/self/mounts; malloc'd. NULL: nowhere, or out of memory. */
char *cgroupfs_mount(const char *mounts);

/* cgroupfs_open - @root: an existing cgroup2 directory in which this process can make directories.
 * On failure returns -errno and one line in @err. */
int cgroupfs_open(const char *root, struct cgroupfs **out, char *err, size_t errlen);

/* cgroupfs_leave - move this process back to the cgroup it had before the first cgroupfs_join,
 * which empties the tenants' directories. No-op without a join. */
void cgroupfs_leave(struct cgroupfs *fs);

/* cgroupfs_close - free @fs; directories stay. NULL is fine. */
void cgroupfs_close(struct cgroupfs *fs);

/* cgroupfs_dir - the directory of tenant @path ("/" = the root itself), malloc'd; NULL when out
 * of memory. */
char *cgroupfs_dir(const struct cgroupfs *fs, const char *path);

/* cgroupfs_id - the cgroup id of @dir, as bpf_get_current_cgroup_id returns it. */
int cgroupfs_id(const char *dir, uint64_t *id, char *err, size_t errlen);

/* cgroupfs_make - make directory @dir; its parent exists. *made: true if it was made here, or was
 * left behind by a process that has ended, and is taken over; false if it exists otherwise, and is
 * used as it is. */
int cgroupfs_make(const char *dir, bool *made, char *err, size_t errlen);

/* cgroupfs_remove - remove @dir. -EBUSY while it holds processes or other cgroups. */
int cgroupfs_remove(const char *dir, char *err, size_t errlen);

/*
 * cgroupfs_join - move thread @tid to the cgroup of tenant @path (not "/").
 * If @tid is the only thread of another process, the process moves as a whole. Otherwise only the
 * thread moves: threads of one process can be in different cgroups only within one threaded domain
 * (kernel Documentation/admin-guide/cgroup-v2.rst, "Threads"). So every tenant directory on the way
 * becomes "threaded", and the process itself moves to the root directory first, which becomes their
 * "domain threaded".
 */
int cgroupfs_join(struct cgroupfs *fs, const char *path, int tid, char *err, size_t errlen);
