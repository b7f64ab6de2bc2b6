/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A VM of the soft machine as a file, and a file as a VM: docs/snapshot.md has the format and what
 * is guaranteed. Control thread. Errors: -errno and one line in @err naming the file, the place in
 * it and what is wrong.
 */
#ifndef VMM_SNAPSHOT_SNAPSHOT_H
#define VMM_SNAPSHOT_SNAPSHOT_H

#include "vmm/machine/machine.h"

#define SNAPSHOT_PATH_MAX 4000 /* room for the temporary file's suffix */

/*
 * snapshot_save - pause @vm and write it to @path, whole or not at all: to a temporary file beside
 * it (mode 0600), then synced and renamed. On success the VM stays paused and can be started again
 * or removed; on failure it goes on if it was running. An existing file is replaced only if it is a
 * snapshot. -EOPNOTSUPP: the VM's engine cannot be saved; -ESRCH: the VM has ended.
 */
int snapshot_save(struct machine_vm *vm, const char *path, char *err, size_t errlen);

/*
 * snapshot_restore - the VM in file @path, paused, as machine_vm_add makes one; @name, @tenant:
 * instead of those in the file, or NULL. Checks everything: no file of any content makes more than
 * an error or a VM. -EINVAL: contents.
 */
int snapshot_restore(struct machine *m, const char *path, const char *name, const char *tenant,
		     struct machine_vm **out, char *err, size_t errlen);

#endif
