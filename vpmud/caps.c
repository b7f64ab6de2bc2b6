// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What vpmud keeps when it has started, see rights.h. docs/security.md says why it needs each. It
 * must keep nothing that only the start needs.
 */
#include <linux/capability.h>
#include <sys/syscall.h>

#include "service/daemon/contain.h"
#include "vpmud/caps.h"

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
	{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"}, /* cgroup directories of others */
};

/* Beside the system calls of every server. */
static const uint16_t calls[] = {SYS_bpf,
				 /* discovery: libvirt's sockets */
				 SYS_socket, SYS_connect, SYS_getpeername, SYS_socketpair,
				 SYS_pipe2, SYS_pselect6, SYS_recvmmsg, SYS_sendmmsg,
#ifdef SYS_select /* not on arm64 */
				 SYS_select,
#endif
				 /* cgroup directories that come and go */
				 SYS_inotify_init1, SYS_inotify_add_watch, SYS_inotify_rm_watch,
				 /* processes that were found */
				 SYS_pidfd_open, SYS_waitid, SYS_epoll_pwait2};

/*
 * No landlock: the kernel takes a process for one that a landlocked process must not look into, and
 * then /proc/PID/fd of every other process is closed to it, whatever its capabilities. VMs of KVM
 * in programs other than QEMU would never be found. The unit mounts everything read-only instead
 * (ProtectSystem=strict).
 */
int vpmud_contain(char *err, size_t errlen)
{
	const struct contain_opts o = {
		.caps = caps,
		.nr_caps = sizeof(caps) / sizeof(caps[0]),
		.no_landlock = "it would hide the VMs of other programs than QEMU",
		.calls = calls,
		.nr_calls = sizeof(calls) / sizeof(calls[0]),
		.purpose = "those that counting needs: no exec, no processes, no executable memory",
	};

	return contain(&o, err, errlen);
}
