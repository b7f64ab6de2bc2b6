/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Invariant I1 as a call: what the hardware counted equals what all accounts were charged.
 *
 * `vpmu check`, the control socket and the tests call this. It must never repair anything: a
 * difference is a defect and is reported as it is.
 */
#ifndef VPMU_CONSERVATION_H
#define VPMU_CONSERVATION_H

#include <stdint.h>

#include "vpmu/event/key.h"

struct vpmu_host;

struct vpmu_conservation {
	unsigned int pcpu; /* the @id of vpmu_pcpu_create */
	vpmu_key_t key;
	uint64_t hardware; /* what the hardware counted for the key on this pCPU, in all counters
			    * that were bound to it so far */
	uint64_t charged;  /* the sum over all accounts, removed ones included, plus what was
			    * counted while nobody who ran had asked for it */
};

/*
 * vpmu_host_conservation - sync all pCPUs, then call @fn for each pCPU and each key that this pCPU
 * can count and that still has its slot. hardware comes from the PMU's audit operation where it has
 * one. @fn must not make control calls. When @fn returns non-zero, stop and return that. Returns 0,
 * -ENOMEM, -ETIMEDOUT when a pCPU does not answer (vpmu_host_late), or @fn's value. Control.
 */
int vpmu_host_conservation(struct vpmu_host *host,
			   int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg);

#endif
