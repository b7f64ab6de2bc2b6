/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clock of ages and deadlines in the service. Never used for counts: sources have their own. */
#ifndef CGROUP_SERVICE_CLOCK_H
#define CGROUP_SERVICE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* now_ns - CLOCK_MONOTONIC in ns. Any thread. */
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

#endif
