/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Limits on a host's slots (distinct keys counted at a time) for one VM, for one tenant with all
 * its VMs, and for all guests together, so that no guest or tenant starves the others and the
 * operators. slot.c enforces them when a guest starts a counter, and counts refusals. Control
 * calls, which operators make, have no quota.
 */
#ifndef VPMU_QUOTA_H
#define VPMU_QUOTA_H

#include <stdint.h>

#include "vpmu/charge.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Guests never take the last VPMU_SLOTS_OPERATORS free slots, nor, for events outside the generic
 * list, the last VPMU_SLOTS_OPERATORS + VPMU_SLOTS_GENERIC. A key that is already in use can always
 * be shared. */
#define VPMU_SLOTS_OPERATORS 8
#define VPMU_SLOTS_GENERIC   8

/*
 * The quota of one VM, or of one tenant on one host. The VMM zeroes it, sets max and parent, and
 * points vpmu_context.quota of the VM's vCPUs to it before they run. It must outlive their counters
 * and its child quotas. All quotas of a chain belong to one host.
 */
struct vpmu_quota {
	unsigned int max; /* limit of distinct keys, 1 .. VPMU_MAX_SLOTS; 0: no limit. Atomic:
			   * vpmu_quota_set_max */
	struct vpmu_quota *parent; /* its limit applies, too; NULL: none */
	/* VM quotas: counters not started because of this quota or a parent, or because no slot was
	 * free for a guest. Atomic; any thread may read it. */
	uint64_t refused;
	/* private to slot.c */
	uint64_t held; /* slots counted against max: in use, or used before and not reclaimed.
			* Set under slots_lock */
	uint32_t refs[VPMU_MAX_SLOTS]; /* counters by slot; atomic */
};

/* vpmu_quota_set_max - change the limit while guests count. Running counters are not stopped; no
 * key is added while @max or more are in use. Any thread. */
static inline void vpmu_quota_set_max(struct vpmu_quota *q, unsigned int max)
{
	__atomic_store_n(&q->max, max, __ATOMIC_RELAXED);
}

#ifdef __cplusplus
}
#endif

#endif
