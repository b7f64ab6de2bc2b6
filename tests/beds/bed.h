/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the programs of the test beds: loops of known length, and perf events by
 * vpmu's names. Each failure ends the test.
 */
#ifndef TESTS_BEDS_BED_H
#define TESTS_BEDS_BED_H

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "vpmu/event/event.h"

/* Execute 2 * @n instructions, @n > 0. */
static inline void bed_loop(uint64_t n)
{
#ifdef __aarch64__
	__asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(n) : : "cc");
#else
	__asm__ volatile("1: sub $1, %0\n\tjnz 1b" : "+r"(n) : : "cc");
#endif
}

/* Open event @name of thread @tid (0: this one, -1: all) on @cpu (-1: any). It is in the group of
 * @leader unless that is -1. A leader does not count before bed_enable(). With @flags
 * PERF_FLAG_PID_CGROUP @tid is the file of a cgroup's directory. Returns the file. */
static inline int bed_open_as(const char *name, pid_t tid, int cpu, int leader, unsigned long flags)
{
	struct perf_event_attr attr;
	char err[256] = "";
	vpmu_key_t key;
	long fd;

	cr_assert(!vpmu_event_parse(name, VPMU_SPACE_GENERIC, &key, err, sizeof(err)), "%s", err);
	cr_assert(!vpmu_key_to_attr(key, &attr), "%s cannot be counted", name);
	attr.disabled = leader < 0;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	fd = syscall(SYS_perf_event_open, &attr, tid, cpu, leader, flags | PERF_FLAG_FD_CLOEXEC);
	cr_assert(fd >= 0, "%s: %s", name, strerror(errno));
	return (int)fd;
}

static inline int bed_open(const char *name, pid_t tid, int cpu, int leader)
{
	return bed_open_as(name, tid, cpu, leader, 0);
}

static inline void bed_enable(int leader, bool on)
{
	cr_assert(!ioctl(leader, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE,
			 PERF_IOC_FLAG_GROUP));
}

/* The count of @fd, which must not have shared its counter. */
static inline uint64_t bed_count(int fd)
{
	uint64_t v[3];

	cr_assert_eq(read(fd, v, sizeof(v)), (ssize_t)sizeof(v));
	cr_assert_eq(v[1], v[2], "the counter was shared: %lu of %lu ns", v[2], v[1]);
	return v[0];
}

static inline void bed_run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	cr_assert(!sched_setaffinity(0, sizeof(set), &set));
}

/* When @tid was started: what bpf_backend_bind_task wants. */
static inline uint64_t bed_start_time(pid_t tid)
{
	char path[64], line[1024] = "", *at;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", tid, tid);
	f = fopen(path, "re");
	cr_assert(f && fgets(line, sizeof(line), f));
	fclose(f);
	at = strrchr(line, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	cr_assert(at);
	return strtoull(at, NULL, 10);
}

static inline void bed_cpu1(bool online)
{
	int fd = open("/sys/devices/system/cpu/cpu1/online", O_WRONLY | O_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, online ? "1" : "0", 1) == 1, "CPU 1: %s", strerror(errno));
	close(fd);
}

/*
 * Run on CPU 0, and take the other one away: for tests with a known number of instructions. Under
 * icount the emulator has one counter of instructions for all CPUs, so a PMU also counts what
 * another CPU executes while its own CPU stands still in a mode that it counts.
 */
static inline void bed_one_cpu(void)
{
	bed_run_on(0);
	bed_cpu1(false);
}

#endif
