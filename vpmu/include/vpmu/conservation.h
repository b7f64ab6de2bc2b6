/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks invariant I1: the hardware's counts equal the sum charged to all accounts.
 *
 * `vpmu check`, the control socket and tests call this. It must never repair a difference: that is
 * a defect to report.
 */
#ifndef VPMU_CONSERVATION_H
#define VPMU_CONSERVATION_H

#include <stdint.h>

#include "vpmu/event/key.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_host;

struct vpmu_conservation {
	unsigned int pcpu; /* the @id of vpmu_pcpu_create */
	vpmu_key_t key;
	uint64_t hardware; /* counted by the hardware for the key on this pCPU, in all counters
			    * bound to it so far */
	uint64_t charged;  /* sum over all accounts, removed ones included, plus counts while no
			    * running account had the key in use */
};

/*
 * vpmu_host_conservation - sync all pCPUs, then call @fn for each pCPU and each key that this pCPU
 * can count and that still has its slot. hardware comes from the PMU's audit operation if there is
 * one. @fn must not make control calls; the first non-zero value it returns ends the iteration.
 * Returns 0, -ENOMEM, -ETIMEDOUT if a pCPU is stalled (vpmu_host_stalled), or @fn's value. Control.
 */
int vpmu_host_conservation(struct vpmu_host *host,
			   int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
