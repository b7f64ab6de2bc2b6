/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this folder asks of the kernel. The functions return a negative errno on failure. Tests give
 * others than sample_sys_real.
 */
#ifndef CGROUP_SAMPLE_SYS_H
#define CGROUP_SAMPLE_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_event_attr;

struct sample_sys {
	/* A file descriptor of an event of @tid (-1: all tasks) on @cpu (-1: any). */
	int (*open)(const struct perf_event_attr *attr, pid_t tid, int cpu);
	void (*close)(int fd);
	/* The event's memory, readable, and writable if @take: then the kernel waits for the reader
	 * instead of overwriting what was not read. */
	int (*map)(int fd, size_t bytes, bool take, void **out);
	void (*unmap)(void *p, size_t bytes);
	/* PERF_EVENT_IOC_... */
	int (*control)(int fd, unsigned long request, unsigned long arg);
	/* How many samples the kernel had no room for; with PERF_FORMAT_LOST only. */
	int (*lost)(int fd, uint64_t *lost);
};

extern const struct sample_sys sample_sys_real;

#endif
