// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The filter of system calls (seccomp(2)) for all threads of a server; see contain.h. Allows the
 * listed ones. Of the rest, exec, ptrace and process_vm_writev kill the process; system calls newer
 * than the list fail with ENOSYS, so that the C library falls back to older ones; others fail with
 * EPERM.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "service/daemon/contain.h"

/* The architecture of the numbers, and the first number that is newer than the list. */
#if defined(__x86_64__)
#define ARCH   AUDIT_ARCH_X86_64
#define NR_OLD 335
#elif defined(__aarch64__)
#define ARCH   AUDIT_ARCH_AARCH64
#define NR_OLD 294
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(ARCH)

int contain_syscalls(const uint16_t *calls, size_t nr_calls)
{
	return -EOPNOTSUPP;
}

#else

static const uint16_t allowed[] = {
#ifdef __x86_64__ /* legacy calls that arm64 does not have */
	SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_rename, SYS_unlink, SYS_mkdir,
	SYS_rmdir, SYS_poll, SYS_epoll_wait, SYS_time,
#endif
	/* memory; mmap and mprotect are below */
	SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mincore,
	/* threads; clone and tgkill are below */
	SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_set_tid_address, SYS_membarrier, SYS_exit,
	SYS_exit_group, SYS_gettid, SYS_getpid, SYS_sched_yield, SYS_sched_getaffinity,
	SYS_sched_setaffinity, SYS_getcpu, SYS_restart_syscall,
	/* signals */
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigtimedwait,
	SYS_sigaltstack, SYS_signalfd4,
	/* files: images, snapshots, consoles, cgroups, and what perf and KVM have in /proc and
	 * /sys. landlock limits the paths */
	SYS_openat, SYS_close, SYS_read, SYS_readv, SYS_pread64, SYS_write, SYS_writev,
	SYS_pwrite64, SYS_lseek, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs, SYS_fstatfs,
	SYS_faccessat, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_fcntl, SYS_dup, SYS_dup3,
	SYS_fsync, SYS_fdatasync, SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_mkdirat,
	SYS_name_to_handle_at, SYS_getxattr, SYS_lgetxattr, SYS_setxattr, SYS_lsetxattr,
	SYS_removexattr,
	/* the event loop, and clients of the listening socket */
	SYS_ppoll, SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2,
	SYS_timerfd_create, SYS_timerfd_settime, SYS_accept4, SYS_recvfrom, SYS_recvmsg, SYS_sendto,
	SYS_sendmsg, SYS_getsockopt, SYS_setsockopt, SYS_getsockname, SYS_shutdown,
	/* time */
	SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday,
	/* facts */
	SYS_uname, SYS_sysinfo, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_getrlimit,
	SYS_getrusage, SYS_times, SYS_prctl,
	/* limits of the process itself, counters, random numbers; ioctl and prlimit64 are below */
	SYS_setrlimit, SYS_perf_event_open, SYS_getrandom};

#define NR_ALLOWED (sizeof(allowed) / sizeof(allowed[0]))

#define DATA(field)    offsetof(struct seccomp_data, field)
#define LOAD(offset)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define SKIP_UNLESS(op, k, skip)                                                                   \
	BPF_JUMP(BPF_JMP | (op) | BPF_K, k, 0, skip) /* the next @skip instructions */
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)

/* Allow system call @nr only if comparing (@op) the low half of argument @arg with @k gives false
 * (ONLY_WITHOUT) or true (ONLY_WITH). */
#define ONLY_WITHOUT(nr, arg, op, k)                                                               \
	SKIP_UNLESS(BPF_JEQ, nr, 4), LOAD(DATA(args[arg])), SKIP_UNLESS(op, k, 1), RETURN(REFUSE), \
		RETURN(SECCOMP_RET_ALLOW)
#define ONLY_WITH(nr, arg, op, k)                                                                  \
	SKIP_UNLESS(BPF_JEQ, nr, 4), LOAD(DATA(args[arg])), SKIP_UNLESS(op, k, 1),                 \
		RETURN(SECCOMP_RET_ALLOW), RETURN(REFUSE)
#define KILL(nr) SKIP_UNLESS(BPF_JEQ, nr, 1), RETURN(SECCOMP_RET_KILL_PROCESS)

int contain_syscalls(const uint16_t *calls, size_t nr_calls)
{
	const struct sock_filter head[] = {
		LOAD(DATA(arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(DATA(nr)),
	};
	const struct sock_filter tail[] = {
		/* No executable memory: no server generates code. */
		ONLY_WITHOUT(SYS_mmap, 2, BPF_JSET, PROT_EXEC),
		ONLY_WITHOUT(SYS_mprotect, 2, BPF_JSET, PROT_EXEC),
		/* Threads, not processes; signals to threads of this process. */
		ONLY_WITH(SYS_clone, 0, BPF_JSET, CLONE_THREAD),
		ONLY_WITH(SYS_tgkill, 0, BPF_JEQ, (uint32_t)getpid()),
		/* Limits of this process only, as the C library needs. */
		ONLY_WITH(SYS_prlimit64, 0, BPF_JEQ, 0),
		/* No injection into the operator's terminal. */
		ONLY_WITHOUT(SYS_ioctl, 1, BPF_JEQ, TIOCSTI),
		KILL(SYS_execve),
		KILL(SYS_execveat),
		KILL(SYS_ptrace),
		KILL(SYS_process_vm_writev),
		SKIP_UNLESS(BPF_JGE, NR_OLD, 1),
		RETURN(SECCOMP_RET_ERRNO | ENOSYS),
		RETURN(REFUSE),
	};
	enum { NR_HEAD = sizeof(head) / sizeof(head[0]), NR_TAIL = sizeof(tail) / sizeof(tail[0]) };
	struct sock_filter code[NR_HEAD + 2 * (NR_ALLOWED + CONTAIN_CALLS_MAX) + NR_TAIL];
	struct sock_fprog program = {.filter = code};
	struct sock_filter *to = code;

	if (nr_calls > CONTAIN_CALLS_MAX)
		return -E2BIG;

	for (size_t i = 0; i < NR_HEAD; i++)
		*to++ = head[i];
	for (size_t i = 0; i < NR_ALLOWED + nr_calls; i++) {
		uint16_t nr = i < NR_ALLOWED ? allowed[i] : calls[i - NR_ALLOWED];

		*to++ = (struct sock_filter)SKIP_UNLESS(BPF_JEQ, nr, 1);
		*to++ = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
	}
	for (size_t i = 0; i < NR_TAIL; i++)
		*to++ = tail[i];
	program.len = (unsigned short)(to - code);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno : 0;
}

#endif
