/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls of a process behind the filter, and the expected results: for
 * tests/unit/test_contain.c, and for tests/beds/bed_vpmud.c on the other CPU. Each function runs in
 * a process of its own, because there is no way back.
 */
#ifndef TESTS_CONTAIN_CALLS_H
#define TESTS_CONTAIN_CALLS_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void *contain_nothing(void *arg)
{
	return malloc(1 << 20);
}

/* 0, or the number of the attempt that did not end as it must. */
static inline int contain_refused(void)
{
	static const long refused[] = {SYS_socket,     SYS_connect, SYS_kill,
				       SYS_mount,      SYS_bpf,	    SYS_keyctl,
				       SYS_setuid,     SYS_unshare, SYS_process_vm_readv,
#ifdef SYS_fork /* not on arm64 */
				       SYS_fork,
#endif
				       SYS_init_module};
	struct rlimit limit;
	pthread_t t;
	void *p;

	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		if (syscall(refused[i], -1, -1, -1, -1, -1, -1) != -1 || errno != EPERM)
			return 10 + (int)i;
	if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) != -1 || errno != EPERM)
		return 1;
	if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
		return 2;
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		    MAP_FAILED ||
	    errno != EPERM)
		return 3;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || !mprotect(p, 4096, PROT_READ | PROT_EXEC) || errno != EPERM)
		return 4;
	if (syscall(SYS_tgkill, getppid(), getppid(), 0) != -1 || errno != EPERM)
		return 5;
	if (syscall(SYS_prlimit64, getppid(), RLIMIT_CPU, NULL, &limit) != -1 || errno != EPERM ||
	    getrlimit(RLIMIT_CPU, &limit))
		return 8;
	if (pthread_create(&t, NULL, contain_nothing, NULL) || pthread_kill(t, 0) ||
	    pthread_join(t, &p))
		return 6;
	free(p);
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : 7;
}

/* These two end the process. */
static inline int contain_exec(void)
{
	char *const argv[] = {"true", NULL};

	execve("/bin/true", argv, NULL);
	return 0;
}

static inline int contain_trace(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	return 0;
}

#endif
