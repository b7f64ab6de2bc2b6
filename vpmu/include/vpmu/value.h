/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What reading a counter gives: a count, the times it is about, and how good it is.
 *
 * Every reader, from the guest's RDPMC to the CLI's output, passes these around. A value must
 * never lose its quality on the way (invariant I7).
 */
#ifndef VPMU_VALUE_H
#define VPMU_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* How good a count is; a greater number is worse. */
enum vpmu_quality {
	VPMU_Q_EXACT = 0,     /* each event was counted */
	VPMU_Q_MODELLED = 1,  /* computed by a documented cost model (the emulator's cycles) */
	VPMU_Q_ESTIMATED = 2, /* derived from something else (a nominal clock) */
	VPMU_Q_TSC = 3	      /* TSC ticks between entering and leaving the guest */
};

/* vpmu_quality_name - "exact", "modelled", "estimated" or "tsc". A static string. Any thread. */
const char *vpmu_quality_name(enum vpmu_quality q);

/*
 * A value. Example: a VM ran for 10 s; for 8 s of them on pCPUs that can count the key, and for 6 s
 * of these 8 a hardware counter was counting it. Then enabled_ns is 8 s, running_ns is 6 s, and
 * partial is set because of the 2 s elsewhere.
 */
struct vpmu_value {
	uint64_t count;	     /* events counted; never scaled */
	uint64_t enabled_ns; /* time the account ran, where the key can be counted */
	uint64_t running_ns; /* part of it in which a hardware counter counted; equal: no gap */
	enum vpmu_quality quality;
	uint64_t age_ns; /* what a CPU that runs the account has counted in this time before now is
			  * missing, because it is not interrupted; 0: nothing is */
	bool supported;	 /* false: no PMU of this host counts the key; count is 0 */
	bool partial;	 /* the account also ran where the key cannot be counted; the events from
			  * there are missing in count */
};

/*
 * vpmu_value_scaled - count * enabled_ns / running_ns: what count would be without the gaps.
 * Saturates at UINT64_MAX; 0 when the counter never ran. Pure.
 */
uint64_t vpmu_value_scaled(const struct vpmu_value *v);

#endif
