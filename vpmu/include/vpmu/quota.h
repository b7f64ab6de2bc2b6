/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How many of a host's slots (distinct events counted at a time) one VM may use, one tenant with
 * all of its VMs, and all guests together, so that no guest and no tenant leaves others and the
 * operators without any. slot.c enforces these when a guest starts a counter; what is refused is
 * counted here. Control calls, which are the operators', have no quota.
 */
#ifndef VPMU_QUOTA_H
#define VPMU_QUOTA_H

#include <stdint.h>

#include "vpmu/charge.h"

/* Of the VPMU_MAX_SLOTS slots, guests never take the last VPMU_SLOTS_OPERATORS that are free, and
 * with other events than those of the generic list not the last VPMU_SLOTS_OPERATORS +
 * VPMU_SLOTS_GENERIC. Keys that somebody counts already can always be shared. */
#define VPMU_SLOTS_OPERATORS 8
#define VPMU_SLOTS_GENERIC   8

/*
 * The quota of one VM, or of one tenant on one host. The VMM zeroes it, sets max and parent, and
 * sets the vCPUs' vpmu_context.quota to that of their VM before they run. It must outlive their
 * counters, and those of whatever it is the parent of. All quotas of a chain are of one host.
 */
struct vpmu_quota {
	unsigned int max; /* distinct keys that its vCPUs may count at a time, 1 .. VPMU_MAX_SLOTS;
			   * 0: no limit. Atomic: vpmu_quota_set_max */
	struct vpmu_quota *parent; /* whose limit holds as well; NULL: none */
	/* Of a VM: counters not started because of this quota or a parent, or because no slot was
	 * free for a guest. Atomic: any thread may read it. */
	uint64_t refused;
	/* private to slot.c */
	uint64_t held; /* slots counted against max: those in use, and some used before. Set under
			* slots_lock */
	uint32_t refs[VPMU_MAX_SLOTS]; /* counters by slot; atomic */
};

/* vpmu_quota_set_max - change the limit while guests count. Counters that run go on; when there are
 * more keys than @max, none is added. Any thread. */
static inline void vpmu_quota_set_max(struct vpmu_quota *q, unsigned int max)
{
	__atomic_store_n(&q->max, max, __ATOMIC_RELAXED);
}

#endif
