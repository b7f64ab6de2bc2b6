// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The capabilities and system calls that vpmud keeps after its start; see daemon.h.
 * docs/security.md gives the reason for each. Nothing that only the start needs may be kept.
 */
#include <linux/capability.h>
#include <sys/syscall.h>

#include "service/daemon/contain.h"
#include "vpmud/daemon.h"

/* Newer than Debian 12's headers. */
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif
#ifndef CAP_BPF
#define CAP_BPF 39
#endif

static const struct contain_cap caps[] = {
	{CAP_BPF, "CAP_BPF"},	      /* maps, and attaching the program when counting begins */
	{CAP_PERFMON, "CAP_PERFMON"}, /* perf events of all tasks on a CPU */
	{CAP_SYS_PTRACE, "CAP_SYS_PTRACE"},	      /* /proc/PID/fd of other users' processes */
	{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH"}, /* other users' cgroup directories */
};

/* In addition to the system calls of every server. */
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
 * No landlock: a landlocked process cannot trace a process outside its domain, whatever its
 * capabilities, and so cannot read /proc/PID/fd of any other process. VMs of KVM in programs other
 * than QEMU would never be found. The unit mounts everything read-only instead
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
