/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves a VM to a file and restores it. docs/internals/snapshot.md has the format and the
 * guarantees. vmm/control_snapshot.c calls these functions, on the control thread. On an error they
 * return -errno, and @err has one line: the file, the place in it, the error.
 */
#pragma once

#include "vmm/machine/machine.h"

#define SNAPSHOT_PATH_MAX 4000 /* bytes of a path */

/*
 * snapshot_save - pause @vm and write it to @file, a path below the directory @dir in which there
 * are no symbolic links. The data go to a temporary file beside it (mode 0600), which is synced and
 * renamed, so @file is never incomplete. An existing file is replaced only if it is a snapshot. On
 * success the VM stays paused and can be started or removed. On an error it continues if it was
 * running. -EOPNOTSUPP: VMs of this engine cannot be saved; -ESRCH: the VM has ended or is failing.
 */
int snapshot_save(struct machine_vm *vm, int dir, const char *file, char *err, size_t errlen);

/* snapshot_open - open @file below @dir for reading: a regular file, not a symbolic link. Returns
 * the descriptor. */
int snapshot_open(int dir, const char *file, char *err, size_t errlen);

/* The operator's settings for the VM of a file; texts as in a [vm] section; NULL: not given. */
struct snapshot_said {
	const char *name;	  /* replaces the file's */
	const char *tenant;	  /* replaces the file's */
	const char *policy;	  /* the widest allowed; a narrower one of the file is kept */
	const char *memory;	  /* limit: a file with more is refused */
	const char *engine;	  /* the only one allowed: another is refused */
	const char *allow, *deny; /* replace the file's lists */
	/* These are in no file. */
	const char *weight, *tenant_weight, *max_events, *tenant_max_events;
	bool trust; /* settings not given are the file's. Otherwise the file is limited to
		       SNAPSHOT_POLICY, a VM's default memory, the emulator, no tenant and no list
		       of allowed events */
};

#define SNAPSHOT_POLICY VPMU_POLICY_ARCHITECTURAL

/*
 * snapshot_restore - create the VM of the open file @fd, paused, as machine_vm_add does. @file is
 * its name in messages. The file may be hostile: everything in it is checked, @said limits the VM's
 * rights and resources, and an error leaves no VM behind. -EINVAL: the contents are invalid.
 * -EPERM: the file requests more than @said allows.
 */
int snapshot_restore(struct machine *m, int fd, const char *file, const struct snapshot_said *said,
		     struct machine_vm **out, char *err, size_t errlen);
