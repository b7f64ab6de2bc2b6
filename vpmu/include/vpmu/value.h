/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The result of reading a counter: a count, its enabled and running times, and its quality.
 *
 * Every reader, from the guest's RDPMC to the CLI, passes these on. A value must never lose its
 * quality on the way (invariant I7).
 */
#ifndef VPMU_VALUE_H
#define VPMU_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Quality of a count; a greater number is worse. */
enum vpmu_quality {
	VPMU_Q_EXACT = 0,     /* each event was counted */
	VPMU_Q_MODELLED = 1,  /* computed by a documented cost model (the emulator's cycles) */
	VPMU_Q_ESTIMATED = 2, /* derived, for example from a nominal clock */
	VPMU_Q_TSC = 3	      /* TSC ticks between entering and leaving the guest */
};

/* vpmu_quality_name - "exact", "modelled", "estimated" or "tsc". A static string. Any thread. */
const char *vpmu_quality_name(enum vpmu_quality q);

/*
 * A value. Example: a VM ran for 10 s: 8 s on pCPUs that can count the key, with a hardware counter
 * for 6 of these 8. Then enabled_ns is 8 s, running_ns is 6 s, and partial is set because of the 2
 * s elsewhere.
 */
struct vpmu_value {
	uint64_t count;	     /* events counted; never scaled */
	uint64_t enabled_ns; /* time the account ran where the key can be counted */
	uint64_t running_ns; /* part of enabled_ns in which a hardware counter counted; equal: no
			      * gap */
	enum vpmu_quality quality;
	uint64_t age_ns; /* count may lack events of up to this long ago: CPUs that run the
			  * account are not interrupted; 0: it is current */
	bool supported;	 /* false: no PMU of this host counts the key; count is 0 */
	bool partial;	 /* the account also ran where the key cannot be counted; count lacks
			  * those events */
	uint32_t losses; /* grows with each loss that makes the value partial, if the backend can
			  * tell; else 0 */
};

/*
 * vpmu_value_scaled - returns count * enabled_ns / running_ns, an estimate of the count without
 * gaps. Saturates at UINT64_MAX; 0 if enabled but never running. Pure.
 */
uint64_t vpmu_value_scaled(const struct vpmu_value *v);

#ifdef __cplusplus
}
#endif

#endif
