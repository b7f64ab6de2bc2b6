/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves a VM of the soft machine to a file and restores it. docs/snapshot.md has the format and
 * what is guaranteed. vmm/control_snapshot.c calls these functions, on the control thread. On an
 * error they return -errno, and @err has one line with the file, the place in it and what is wrong.
 */
#ifndef VMM_SNAPSHOT_SNAPSHOT_H
#define VMM_SNAPSHOT_SNAPSHOT_H

#include "vmm/machine/machine.h"

#define SNAPSHOT_PATH_MAX 4000 /* room for the temporary file's suffix */

/*
 * snapshot_save - pause @vm and write it to @path. The data go to a temporary file beside @path
 * (mode 0600), which is synced and renamed, so @path is never incomplete. An existing file is
 * replaced only if it is a snapshot. On success the VM stays paused and can be started or removed.
 * On an error it goes on if it was running. -EOPNOTSUPP: VMs of this engine cannot be saved;
 * -ESRCH: the VM has ended or fails.
 */
int snapshot_save(struct machine_vm *vm, const char *path, char *err, size_t errlen);

/*
 * snapshot_restore - make the VM of the file @path, paused, as machine_vm_add does. @name and
 * @tenant replace those in the file unless they are NULL. The file may be hostile: everything in it
 * is checked, and an error leaves no VM behind. -EINVAL: the contents are not accepted.
 */
int snapshot_restore(struct machine *m, const char *path, const char *name, const char *tenant,
		     struct machine_vm **out, char *err, size_t errlen);

#endif
