// SPDX-License-Identifier: GPL-2.0-or-later
/* System calls as such: libc's ioctl() and close() are the ones that interpose.c replaces. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/sys.h"

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	long rc;

	/* Each exit of a guest takes this way: libc's syscall() is 14 instructions more. */
	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "0"((long)SYS_ioctl), "D"((long)fd), "S"(request), "d"(arg)
			 : "rcx", "r11", "memory");
	return (int)rc;
}

int sys_close(int fd)
{
	return syscall(SYS_close, fd) < 0 ? -errno : 0;
}

int sys_dup(int fd)
{
	long rc = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);

	return rc < 0 ? -errno : (int)rc;
}

int sys_map_run(int fd, size_t bytes, void **run)
{
	*run = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return *run == MAP_FAILED ? -errno : 0;
}

void sys_unmap_run(void *run, size_t bytes)
{
	munmap(run, bytes);
}

int sys_tid(void)
{
	static __thread int tid;

	if (!tid)
		tid = (int)syscall(SYS_gettid);
	return tid;
}
