// SPDX-License-Identifier: GPL-2.0-or-later
/* System calls of sampling: see sys.h. */
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "cgroup/sample/sys.h"
#include "vpmu/util/files.h"

static int sample_sys_open(const struct perf_event_attr *attr, pid_t tid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0 && errno == EMFILE) {
		files_more();
		fd = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	return fd < 0 ? -errno : (int)fd;
}

static void sample_sys_close(int fd)
{
	close(fd);
}

static int sample_sys_map(int fd, size_t bytes, bool take, void **out)
{
	void *p = mmap(NULL, bytes, take ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	return 0;
}

static void sample_sys_unmap(void *p, size_t bytes)
{
	munmap(p, bytes);
}

static int sys_control(int fd, unsigned long request, unsigned long arg)
{
	return ioctl(fd, request, arg) ? -errno : 0;
}

static int sys_lost(int fd, uint64_t *lost)
{
	uint64_t v[2]; /* the count, lost samples */
	ssize_t n;

	do
		n = read(fd, v, sizeof(v));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(v))
		return n < 0 ? -errno : -ENODATA;
	*lost = v[1];
	return 0;
}

const struct sample_sys sample_sys_real = {
	.open = sample_sys_open,
	.close = sample_sys_close,
	.map = sample_sys_map,
	.unmap = sample_sys_unmap,
	.control = sys_control,
	.lost = sys_lost,
};
