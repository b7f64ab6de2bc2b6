// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-preload.so: the functions that it has in place of libc's, and its start. vpmu-qemu sets
 * LD_PRELOAD and the configuration; without the latter every call goes straight to the kernel.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/conf.h"
#include "preload/sys.h"
#include "preload/vm.h"

#define EXPORT __attribute__((visibility("default")))

/* Not variadic, as libc's is: callers pass their argument in the same register. */
EXPORT int ioctl(int fd, unsigned long request, void *arg);
EXPORT int close(int fd);
EXPORT int close_range(unsigned int first, unsigned int last, int flags);
EXPORT void closefrom(int first);
EXPORT int dup(int from);
EXPORT int dup2(int from, int to);
EXPORT int dup3(int from, int to, int flags);
EXPORT int fcntl(int fd, int cmd, ...);
EXPORT int fcntl64(int fd, int cmd, ...);
EXPORT int execvp(const char *file, char *const argv[]);
EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old);

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif

static bool interpose_on;
static pid_t interpose_pid;
/* libc's */
static int (*interpose_fcntl)(int fd, int cmd, ...);
static int (*interpose_sigmask)(int how, const sigset_t *set, sigset_t *old);
static int (*interpose_execvp)(const char *file, char *const argv[]);
static char *interpose_text, *interpose_list; /* the environment that vpmu-qemu made */

int ioctl(int fd, unsigned long request, void *arg)
{
	int rc;

	if (interpose_on && _IOC_TYPE(request) == KVMIO)
		return call_ioctl(fd, request, arg);
	rc = sys_ioctl(fd, request, arg);
	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

/* A child made by vfork() closes descriptors of its own, with the parent's memory. */
static void interpose_closing(int fd)
{
	int saved = errno;

	if (interpose_on && getpid() == interpose_pid)
		call_closing(fd);
	errno = saved;
}

int close(int fd)
{
	interpose_closing(fd);
	/* A cancellation point in libc; a system call here: nothing of ours is held. */
	return (int)syscall(SYS_close, fd);
}

int close_range(unsigned int first, unsigned int last, int flags)
{
	int saved = errno;

	/* Descriptors that are only closed by exec, or in a table of the thread's own, stay. */
	if (interpose_on && !flags && first <= last && getpid() == interpose_pid) {
		/* Linux before 5.9 and seccomp filters refuse the call: nothing is closed. */
		if (syscall(SYS_close_range, UINT_MAX, UINT_MAX, 0))
			return -1;
		call_closing_range(first, last);
	}
	errno = saved;
	return (int)syscall(SYS_close_range, first, last, flags);
}

void closefrom(int first)
{
	unsigned int from = first < 0 ? 0 : (unsigned int)first;

	if (close_range(from, UINT_MAX, 0))
		for (long fd = from, n = sysconf(_SC_OPEN_MAX); fd < n; fd++)
			close((int)fd);
}

/* @fd, if it is one, duplicates @from. Returns @fd. */
static int interpose_duplicated(int from, int fd)
{
	int saved = errno;

	if (interpose_on && fd >= 0 && fd != from && getpid() == interpose_pid)
		call_duplicated(from, fd);
	errno = saved;
	return fd;
}

int dup(int from)
{
	return interpose_duplicated(from, (int)syscall(SYS_dup, from));
}

/* dup2() or dup3() to @to returned @fd. No other file can have got the number in between. */
static int interpose_replaced(int from, int to, int fd)
{
	if (fd >= 0 && from != to)
		interpose_closing(to);
	return interpose_duplicated(from, fd);
}

int dup2(int from, int to)
{
	return interpose_replaced(from, to, (int)syscall(SYS_dup2, from, to));
}

int dup3(int from, int to, int flags)
{
	return interpose_replaced(from, to, (int)syscall(SYS_dup3, from, to, flags));
}

int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;
	int rc;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	/* libc's, which is a cancellation point. Constructors of others may call this before ours.
	 */
	rc = interpose_fcntl ? interpose_fcntl(fd, cmd, arg)
			     : (int)syscall(SYS_fcntl, fd, cmd, arg);
	return cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC ? interpose_duplicated(fd, rc) : rc;
}

int fcntl64(int fd, int cmd, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	return fcntl(fd, cmd, arg);
}

/* Constructors of others may call what needs these before ours. */
static void interpose_find(void)
{
	*(void **)&interpose_execvp = dlsym(RTLD_NEXT, "execvp");
	*(void **)&interpose_sigmask = dlsym(RTLD_NEXT, "pthread_sigmask");
}

/* libc's, which spares its own signals. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	int rc, saved = errno;

	if (!interpose_sigmask)
		interpose_find();
	rc = interpose_sigmask(how, set, old);
	if (interpose_on && !rc && set && how != SIG_UNBLOCK)
		call_masked();
	errno = saved;
	return rc;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int rc = pthread_sigmask(how, set, old);

	if (!rc)
		return 0;
	errno = rc;
	return -1;
}

/* A child has no vCPU threads, and KVM does not let it use its parent's VMs. One of a process that
 * has made none may be the VMM: QEMU with -daemonize. */
static void interpose_forked(void)
{
	interpose_on = !process.vms;
	interpose_pid = getpid();
}

/* Programs that the VMM starts get neither the library nor its configuration. */
static void interpose_clean(void)
{
	const char *list = getenv("LD_PRELOAD");
	char *rest, *name, *save = NULL, *kept;

	unsetenv(CONF_VARIABLE);
	rest = list ? strdup(list) : NULL;
	kept = rest ? calloc(1, strlen(rest) + 1) : NULL;
	for (name = kept ? strtok_r(rest, ": ", &save) : NULL; name;
	     name = strtok_r(NULL, ": ", &save)) {
		const char *base = strrchr(name, '/');

		if (!strcmp(base ? base + 1 : name, "vpmu-preload.so"))
			continue;
		if (*kept)
			strcat(kept, ":");
		strcat(kept, name);
	}
	if (kept && *kept)
		setenv("LD_PRELOAD", kept, 1);
	else if (kept)
		unsetenv("LD_PRELOAD");
	free(kept);
	free(rest);
}

/* QEMU's cpr-exec replaces the VMM in its process by another one that goes on with the VM: that one
 * gets the library as this one did. Children, by vfork() too, have another number. */
int execvp(const char *file, char *const argv[])
{
	bool vmm = interpose_on && process.vms && getpid() == interpose_pid;
	int saved;

	if (!interpose_execvp)
		interpose_find();
	if (vmm && (setenv(CONF_VARIABLE, interpose_text, 1) ||
		    (interpose_list && setenv("LD_PRELOAD", interpose_list, 1)))) {
		interpose_clean();
		errno = ENOMEM;
		return -1;
	}
	interpose_execvp(file, argv);
	saved = errno;
	if (vmm)
		interpose_clean();
	errno = saved;
	return -1;
}

__attribute__((constructor)) static void interpose_start(void)
{
	const char *text = getenv(CONF_VARIABLE), *list = getenv("LD_PRELOAD");
	char err[400];

	*(void **)&interpose_fcntl = dlsym(RTLD_NEXT, "fcntl");
	interpose_find();
	if (!text)
		return;
	if (process_init(text, conf_host_is_intel(), err, sizeof(err)))
		say("%s", err);
	interpose_text = strdup(text);
	interpose_list = list ? strdup(list) : NULL;
	interpose_clean();
	if (!interpose_text || (list && !interpose_list)) {
		say("out of memory");
		process.on = false;
	}
	if (!process.on || pthread_atfork(NULL, NULL, interpose_forked))
		return;
	interpose_pid = getpid();
	interpose_on = true;
}
