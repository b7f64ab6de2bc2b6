/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls of this folder. The functions return a negative errno on failure. Tests replace
 * sample_sys_real.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct perf_event_attr;

struct sample_sys {
	/* Open an event of @tid (-1: all tasks) on @cpu (-1: any). Returns a file descriptor. */
	int (*open)(const struct perf_event_attr *attr, pid_t tid, int cpu);
	void (*close)(int fd);
	/* Map the event's memory readable, and writable if @take: then the kernel waits for the
	 * reader instead of overwriting unread records. */
	int (*map)(int fd, size_t bytes, bool take, void **out);
	void (*unmap)(void *p, size_t bytes);
	/* PERF_EVENT_IOC_... */
	int (*control)(int fd, unsigned long request, unsigned long arg);
	/* Number of samples for which the ring had no room; needs PERF_FORMAT_LOST. */
	int (*lost)(int fd, uint64_t *lost);
};

extern const struct sample_sys sample_sys_real;
