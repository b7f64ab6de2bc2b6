// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rights that vpmu-vmm keeps when it contains itself; see contain.h. None may help a guest to
 * attack the host.
 */
#include <errno.h>
#include <libgen.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "service/daemon/contain.h"
#include "vmm/contain.h"
#include "vpmu/util/fail.h"

/* Newer than Debian 12's headers. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

/* The KVM backend opens perf events while it runs. */
static const struct contain_cap caps[] = {{CAP_PERFMON, "CAP_PERFMON"}};

int vmm_contain(const struct vmm_contain_opts *o, char *err, size_t errlen)
{
	char *socket = o->socket ? strdup(o->socket) : NULL;
	const struct contain_path paths[] = {
		{socket ? dirname(socket) : "", LANDLOCK_ACCESS_FS_REMOVE_FILE, "the socket"},
		{o->snapshot_dir,
		 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
			 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE,
		 "--snapshot-dir"},
		{o->cgroup_root,
		 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
			 LANDLOCK_ACCESS_FS_REMOVE_DIR,
		 "--cgroup-root"},
		/* On exit the process returns to its original cgroup. */
		{o->cgroup_root ? "/sys/fs/cgroup" : NULL, LANDLOCK_ACCESS_FS_WRITE_FILE, NULL},
		{"/dev/kvm", LANDLOCK_ACCESS_FS_WRITE_FILE, "/dev/kvm"},
	};
	/* Timers that signal vCPU threads when a count is due (vpmu/host/perf_alarm.c). They cannot
	 * signal other processes. */
	static const uint16_t calls[] = {SYS_timer_create, SYS_timer_settime, SYS_timer_delete};
	const struct contain_opts all = {
		.user = o->user,
		.how = "--user NAME becomes another one",
		.socket = o->socket,
		.caps = caps,
		.nr_caps = sizeof(caps) / sizeof(caps[0]),
		.paths = paths,
		.nr_paths = sizeof(paths) / sizeof(paths[0]),
		.calls = calls,
		.nr_calls = sizeof(calls) / sizeof(calls[0]),
		.purpose = "those that running VMs needs: no exec, no sockets, no more "
			   "executable memory",
	};
	int ret = o->socket && !socket ? fail(-ENOMEM, err, errlen, "out of memory")
				       : contain(&all, err, errlen);

	free(socket);
	return ret;
}
