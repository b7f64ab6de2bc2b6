// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The system calls of the perf host PMU: vpmu_perf_sys, which tests replace by a fake kernel.
 * perf_alarm.c has those of alarms.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "vpmu/host/perf_priv.h"
#include "vpmu/util/files.h"
#include "vpmu/util/proctext.h"

static int perf_sys_open(const struct perf_event_attr *attr, int tid, int cpu, int group)
{
	long rc = syscall(SYS_perf_event_open, attr, tid, cpu, group, PERF_FLAG_FD_CLOEXEC);

	return rc < 0 ? -errno : (int)rc;
}

static int perf_sys_read(int fd, struct vpmu_perf_reading *r)
{
	ssize_t n;

	do
		n = read(fd, r, sizeof(*r));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == sizeof(*r) ? 0 : -ENODATA;
}

static int perf_sys_enable(int fd, bool on)
{
	return ioctl(fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0) ? -errno : 0;
}

static struct perf_event_mmap_page *perf_sys_map(int fd, bool ring)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page = MAP_FAILED;

	if (ring)
		page = mmap(NULL, 2 * bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		page = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	return page == MAP_FAILED ? NULL : page;
}

static void perf_sys_unmap(struct perf_event_mmap_page *page)
{
	munmap(page, (size_t)sysconf(_SC_PAGESIZE) + page->data_size);
}

static uint64_t perf_sys_rdpmc(uint32_t index)
{
#ifdef __x86_64__
	uint32_t low, high;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index));
	return (uint64_t)high << 32 | low;
#else
	return 0; /* never called: cap_user_rdpmc is not set */
#endif
}

static void perf_sys_close(int fd)
{
	close(fd);
}

/* The clock of a thread, as in linux/posix-timers.h: bit 2 for a thread, and 2 in the lowest two
 * bits for the scheduler's CPU time (CPUCLOCK_SCHED). */
static clockid_t perf_sys_thread_clock(int tid)
{
	return (clockid_t)(~(unsigned int)tid << 3 | 6u);
}

/*
 * Reading a thread's time is a system call, and one exit of a vCPU needs it several times. A result
 * is cached for this many ticks of the TSC, one or two microseconds; the next reading makes up for
 * the error.
 */
#define SAME_TICKS 4000

static int perf_sys_clock(int tid, uint64_t *ns)
{
	struct timespec ts;
#ifdef __x86_64__
	static __thread struct {
		int tid;
		uint64_t tsc, ns;
	} last;
	uint64_t tsc = __builtin_ia32_rdtsc();

	if (tid && tid == last.tid && tsc - last.tsc < SAME_TICKS) {
		*ns = last.ns;
		return 0;
	}
#endif
	if (clock_gettime(tid ? perf_sys_thread_clock(tid) : CLOCK_MONOTONIC, &ts))
		return -errno;
	*ns = (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
#ifdef __x86_64__
	last.tid = tid;
	last.tsc = tsc;
	last.ns = *ns;
#endif
	return 0;
}

static bool perf_sys_read_type(const char *pmu, uint32_t *type)
{
	char text[16];

	proctext_read(text, sizeof(text), "/sys/bus/event_source/devices/%s/type", pmu);
	return sscanf(text, "%u", type) == 1;
}

/* The PMU of a core type has a file "cpus" with its cores. Uncore PMUs have a "cpumask", and the
 * PMU "cpu" of a host with one core type has neither. */
static unsigned int perf_sys_core_types(uint32_t *types, unsigned int max)
{
	DIR *dir = opendir("/sys/bus/event_source/devices");
	struct dirent *d;
	char path[320];
	unsigned int n = 0;

	while (dir && n < max && (d = readdir(dir))) {
		snprintf(path, sizeof(path), "/sys/bus/event_source/devices/%s/cpus", d->d_name);
		if (!access(path, R_OK) && perf_sys_read_type(d->d_name, &types[n]))
			n++;
	}
	if (dir)
		closedir(dir);
	return n;
}

static const struct vpmu_perf_sys the_kernel = {
	.open = perf_sys_open,
	.read = perf_sys_read,
	.enable = perf_sys_enable,
	.map = perf_sys_map,
	.unmap = perf_sys_unmap,
	.rdpmc = perf_sys_rdpmc,
	.close = perf_sys_close,
	.notify = vpmu_perf_sys_notify,
	.period = vpmu_perf_sys_period,
	.timer_make = vpmu_perf_sys_timer_make,
	.timer_set = vpmu_perf_sys_timer_set,
	.timer_end = vpmu_perf_sys_timer_end,
	.tsc_ns = vpmu_perf_sys_tsc_ns,
	.clock = perf_sys_clock,
	.more_files = files_raise_limit,
	.core_types = perf_sys_core_types,
};
const struct vpmu_perf_sys *vpmu_perf_sys = &the_kernel;
