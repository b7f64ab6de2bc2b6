/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples on their way from the CPUs that take them to the control thread that adds them up.
 *
 * A fixed number of bounded rings, all memory allocated before the first sample. A pCPU puts into
 * the ring of its number modulo their count: with few pCPUs each has one of its own, and where
 * there are many, or new ones come (the KVM engine has one per vCPU thread), several share one
 * without locks. What finds its ring full is counted as lost, never waited for.
 */
#ifndef CGROUP_SERVICE_SAMPLE_RING_H
#define CGROUP_SERVICE_SAMPLE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/lbr.h"

#define SAMPLE_RINGS	   16
#define SAMPLE_RING_SLOTS  32768 /* of one ring; a power of two, as the next */
#define SAMPLE_CHAIN_SLOTS 8192	 /* of one ring with branch records */

struct sample_record {
	uint64_t vcpu;	  /* serial of the vCPU's node; 0: none ran */
	uint64_t ip;	  /* 0 when not @known */
	uint64_t periods; /* how many samples it stands for */
	uint64_t late;	  /* events counted since the first of them was due */
	uint8_t cpl;
	bool known;	 /* where it was */
	bool chained;	 /* @from are call records */
	uint8_t nr_from; /* of calls, newest first */
	const uint64_t *from;
};

struct sample_rings;

/* sample_rings_create - @chains: room for branch records. NULL when out of memory. */
struct sample_rings *sample_rings_create(bool chains);
void sample_rings_free(struct sample_rings *rs);

/* sample_rings_put - add @r, whose @from is not used: the calls come from @lbr (NULL: none; others
 * than call-stack records are left out). Any thread, any number at the same time; no locks, no
 * allocation. false: the ring is full, and r->periods more are lost. */
bool sample_rings_put(struct sample_rings *rs, unsigned int pcpu, struct sample_record *r,
		      const struct vpmu_lbr_regs *lbr);

/* sample_rings_drain - take out what is in them, one call of @fn per record; r->from is valid
 * during it. Returns how full the fullest ring was, in percent. One thread at a time. */
unsigned int sample_rings_drain(struct sample_rings *rs,
				void (*fn)(const struct sample_record *r, void *arg), void *arg);

/* sample_rings_lost - samples that found no room so far. Any thread. */
uint64_t sample_rings_lost(const struct sample_rings *rs);

#endif
