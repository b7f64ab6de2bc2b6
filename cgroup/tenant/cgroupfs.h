/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cgroup2 directories of tenants: made, identified, joined and removed. Knows paths and thread
 * ids only; the tree of tenants is tenant.c's. Control thread.
 */
#ifndef CGROUP_TENANT_CGROUPFS_H
#define CGROUP_TENANT_CGROUPFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cgroupfs;

/* cgroupfs_open - @root: an existing cgroup2 directory this process may make directories in.
 * -errno and one line in @err when it is not. */
int cgroupfs_open(const char *root, struct cgroupfs **out, char *err, size_t errlen);

/* cgroupfs_leave - move this process back to where the first cgroupfs_join found it, so that the
 * tenants' directories are empty. Nothing happens when there was none. */
void cgroupfs_leave(struct cgroupfs *fs);

/* cgroupfs_close - forget. NULL is fine. */
void cgroupfs_close(struct cgroupfs *fs);

/* cgroupfs_dir - the directory of tenant @path ("/" = the root itself), malloc'd; NULL when out
 * of memory. */
char *cgroupfs_dir(const struct cgroupfs *fs, const char *path);

/* cgroupfs_id - the cgroup id of @dir (what the kernel's bpf_get_current_cgroup_id says). */
int cgroupfs_id(const char *dir, uint64_t *id, char *err, size_t errlen);

/* cgroupfs_make - make directory @dir; an existing one is taken (*made = false). Its parent
 * exists. */
int cgroupfs_make(const char *dir, bool *made, char *err, size_t errlen);

/* cgroupfs_remove - remove @dir. -EBUSY while processes or other cgroups are in it. */
int cgroupfs_remove(const char *dir, char *err, size_t errlen);

/*
 * cgroupfs_join - move thread @tid to the cgroup of tenant @path (not "/").
 * Another process of one thread moves as a whole. Threads of one process can only be in different
 * cgroups within one threaded domain (kernel Documentation/admin-guide/cgroup-v2.rst, "Threads"):
 * then every tenant directory on the way becomes "threaded", and the process itself moves to the
 * root directory first, which becomes their "domain threaded".
 */
int cgroupfs_join(struct cgroupfs *fs, const char *path, int tid, char *err, size_t errlen);

#endif
