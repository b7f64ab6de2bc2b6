/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clocks of ages, deadlines and dates in the service. Never used for counts: backends have
 * their own. */
#ifndef SERVICE_CLOCK_H
#define SERVICE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* now_ns - CLOCK_MONOTONIC in ns. Any thread. */
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* now_us - the same in us. */
static inline uint64_t now_us(void)
{
	return now_ns() / 1000;
}

/* realtime_us - CLOCK_REALTIME in us. Any thread. */
static inline uint64_t realtime_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

#endif
