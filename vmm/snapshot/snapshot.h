/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves a VM to a file and restores it. docs/internals/snapshot.md has the format and
 * what is guaranteed. vmm/control_snapshot.c calls these functions, on the control thread. On an
 * error they return -errno, and @err has one line with the file, the place in it and what is wrong.
 */
#ifndef VMM_SNAPSHOT_SNAPSHOT_H
#define VMM_SNAPSHOT_SNAPSHOT_H

#include "vmm/machine/machine.h"

#define SNAPSHOT_PATH_MAX 4000 /* bytes of a path */

/*
 * snapshot_save - pause @vm and write it to @file, a path below the directory @dir in which there
 * are no symbolic links. The data go to a temporary file beside it (mode 0600), which is synced and
 * renamed, so @file is never incomplete. An existing file is replaced only if it is a snapshot. On
 * success the VM stays paused and can be started or removed. On an error it goes on if it was
 * running. -EOPNOTSUPP: VMs of this engine cannot be saved; -ESRCH: the VM has ended or fails.
 */
int snapshot_save(struct machine_vm *vm, int dir, const char *file, char *err, size_t errlen);

/* snapshot_open - open @file below @dir for reading: a regular file, not a symbolic link. Returns
 * the descriptor. */
int snapshot_open(int dir, const char *file, char *err, size_t errlen);

/* What the operator says about the VM of a file; the texts are as in a [vm] section, NULL: nothing.
 */
struct snapshot_said {
	const char *name;	  /* replaces the file's */
	const char *tenant;	  /* replaces the file's */
	const char *policy;	  /* the widest one: the file's counts if it is narrower */
	const char *memory;	  /* the most: a file with more is refused */
	const char *engine;	  /* that of the file: any other is refused */
	const char *allow, *deny; /* replace the file's lists */
	/* These are in no file. */
	const char *weight, *tenant_weight, *max_events, *tenant_max_events;
	bool trust; /* what is not said is as the file has it. Otherwise the file may have at most
		     * SNAPSHOT_POLICY, the memory that a VM has by default, the emulator, no
		     * tenant and no list of allowed events */
};

#define SNAPSHOT_POLICY VPMU_POLICY_ARCHITECTURAL

/*
 * snapshot_restore - make the VM of the open file @fd, paused, as machine_vm_add does. Messages
 * call it
 * @file. It may be hostile: everything in it is checked, what gives the VM rights or resources is
 * limited by @said, and an error leaves no VM behind. -EINVAL: the contents are not accepted.
 * -EPERM: the file asks for more than @said gives.
 */
int snapshot_restore(struct machine *m, int fd, const char *file, const struct snapshot_said *said,
		     struct machine_vm **out, char *err, size_t errlen);

#endif
