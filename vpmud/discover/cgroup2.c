// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the cgroup2 directory of a process. process.c calls it each time it inspects a VM, because
 * a process can be moved. It must not write there. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "vpmud/discover/priv.h"
#include "vpmu/util/utf8.h"

/* Strip libvirt's subdirectories: QEMU's threads are in emulator, vCPUs in vcpuN beside it. */
static void whole_vm(char *path)
{
	static const char *const ends[] = {"/libvirt/emulator", ".libvirt-qemu/emulator"};
	size_t len = strlen(path);

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(ends[i]);

		if (len > n && !strcmp(path + len - n, ends[i])) {
			path[len - (i ? strlen("/emulator") : n)] = 0;
			return;
		}
	}
}

int cgroup2_of(struct disc *d, struct proc *p, int dir, bool qemu, struct disc_vm *vm)
{
	char buf[PATH_MAX + 1024], *path, *next, *end;
	struct stat st;
	ssize_t n = procfile_read(dir, "cgroup", buf, sizeof(buf));

	if (n < 0)
		return n == -EACCES || n == -EPERM ? 0 : (int)n;
	d->work++;
	for (path = buf; path && strncmp(path, "0::/", 4); path = next)
		next = strchr(path, '\n') ? strchr(path, '\n') + 1 : NULL;
	if (!path)
		return 0; /* no cgroup2 on this host */
	path += strlen("0::");
	end = strchr(path, '\n');
	if (!end || !strncmp(path, "/../", 4) || !strcmp(path, "/..")) {
		disc_note(d, p, NOTE_CGROUP,
			  "process %d: its cgroup is outside of the cgroup namespace that vpmud "
			  "is in, or has too long a path; it is shown without a cgroup",
			  (int)p->pid);
		return 0;
	}
	*end = 0;
	if (!utf8_text(path)) {
		disc_note(d, p, NOTE_CGROUP,
			  "process %d: the name of its cgroup has bytes that can't be shown; it "
			  "is shown without a cgroup",
			  (int)p->pid);
		return 0;
	}
	if (qemu)
		whole_vm(path);
	/* The inode number is the cgroup's id. The directory may be gone. */
	if (d->cgroup >= 0 && !fstatat(d->cgroup, path[1] ? path + 1 : ".", &st, 0) &&
	    S_ISDIR(st.st_mode))
		vm->cgroup_id = st.st_ino;
	vm_set(&vm->cgroup, path);
	return 0;
}
