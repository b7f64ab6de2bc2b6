// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What vpmud keeps when it has started, see rights.h. docs/security.md says why it needs each. It
 * must keep nothing that only the start needs.
 */
#include <errno.h>
#include <libgen.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "cgroup/daemon/contain.h"
#include "cgroup/vpmud/rights.h"
#include "vpmu/util/fail.h"

/* Newer than Debian 12's headers. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

/* What is kept after the start. */
static const struct contain_cap caps[] = {
	{CAP_BPF, "CAP_BPF"},	      /* maps, and attaching the program when somebody counts */
	{CAP_PERFMON, "CAP_PERFMON"}, /* perf events of all tasks on a CPU */
	{CAP_SYS_PTRACE, "CAP_SYS_PTRACE"}, /* what /proc says of others' processes: VMs' files */
	{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"}, /* cgroup directories and sockets of others */
};

/* Beside the system calls of every server. */
static const uint16_t calls[] = {SYS_bpf,
				 /* discovery: libvirt's and vpmu-vmm's sockets */
				 SYS_socket, SYS_connect, SYS_getpeername, SYS_socketpair,
				 SYS_pipe2, SYS_pselect6, SYS_recvmmsg, SYS_sendmmsg,
#ifdef SYS_select /* not on arm64 */
				 SYS_select,
#endif
				 /* cgroup directories that come and go */
				 SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch,
				 /* processes that were found */
				 SYS_pidfd_open, SYS_waitid, SYS_epoll_pwait2};

#define STATE_ACCESS                                                                               \
	(LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_WRITE_FILE |                             \
	 LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)

int vpmud_contain(const char *socket, const char *pin_dir, char *err, size_t errlen)
{
	char *copy = strdup(socket), *dir = copy ? dirname(copy) : NULL;
	const struct contain_path paths[] = {
		{dir, LANDLOCK_ACCESS_FS_REMOVE_FILE, "the socket"},
		/* libvirt opens it. */
		{"/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE, NULL},
		{pin_dir ? dir : NULL, STATE_ACCESS, "the state file"},
		{pin_dir,
		 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE |
			 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |
			 LANDLOCK_ACCESS_FS_REMOVE_DIR,
		 "pin_dir"},
	};
	const struct contain_opts o = {
		.caps = caps,
		.nr_caps = sizeof(caps) / sizeof(caps[0]),
		.paths = paths,
		.nr_paths = sizeof(paths) / sizeof(paths[0]),
		.calls = calls,
		.nr_calls = sizeof(calls) / sizeof(calls[0]),
		.purpose = "those that counting needs: no exec, no processes, no executable memory",
	};
	int ret = dir ? contain(&o, err, errlen) : fail(-ENOMEM, err, errlen, "out of memory");

	free(copy);
	return ret;
}
