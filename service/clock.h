/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The clocks of ages, deadlines, readings and dates in the service. Never used for counts: backends
 * have their own. */
#pragma once

#include "vpmu/util/clock.h"

/* now_ns - CLOCK_MONOTONIC in ns. Any thread. */
static inline uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* now_us - the same in us. */
static inline uint64_t now_us(void)
{
	return now_ns() / 1000;
}

/* realtime_us - CLOCK_REALTIME in us. Any thread. */
static inline uint64_t realtime_us(void)
{
	return clock_ns(CLOCK_REALTIME) / 1000;
}

/*
 * The time of a reading: each of its parts was read at some instant between @ns - @width_ns and @ns
 * of CLOCK_MONOTONIC. @us is CLOCK_REALTIME at @ns.
 */
struct as_of {
	uint64_t ns, us, width_ns;
};

/* as_of_now - the reading began at @begin_ns (now_ns) and has just ended. Any thread. */
static inline struct as_of as_of_now(uint64_t begin_ns)
{
	uint64_t ns = now_ns();

	return (struct as_of){.ns = ns, .us = realtime_us(), .width_ns = ns - begin_ns};
}
