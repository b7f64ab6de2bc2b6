/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples between the CPUs that take them and the control thread that adds them up.
 *
 * There is a fixed number of bounded rings, and all memory is allocated before the first sample.
 * CPU number n puts its samples into ring n modulo SAMPLE_RINGS. With few CPUs each has a ring of
 * its own; with many, several CPUs share a ring without locks. A sample that finds its ring full is
 * counted as lost; the CPU never waits.
 */
#ifndef SERVICE_SAMPLE_RING_H
#define SERVICE_SAMPLE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/lbr.h"

#define SAMPLE_RINGS	   16
#define SAMPLE_RING_SLOTS  32768 /* of one ring; a power of two, as the next */
#define SAMPLE_CHAIN_SLOTS 8192	 /* of one ring with branch records */
#define SAMPLE_CALLS_MAX   63	 /* of one sample; outer callers are left out */

struct sample_record {
	uint64_t vcpu;	  /* serial of the vCPU's node; 0: no vCPU ran */
	uint64_t ip;	  /* valid if @known */
	uint64_t periods; /* how many samples the record stands for */
	uint64_t late;	  /* events counted since the first of them was due */
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: not known */
	uint32_t pid;	  /* of a process of the host; 0 */
	uint8_t side;	  /* enum vpmu_side */
	uint8_t cpl;
	bool known;	 /* whether ip and cpl are known */
	bool chained;	 /* whether @from holds calls */
	uint8_t nr_from; /* of calls, newest first; SAMPLE_CALLS_MAX at most */
	const uint64_t *from;
};

struct sample_rings;

/* sample_rings_create - @chains: room for branch records. NULL when out of memory. */
struct sample_rings *sample_rings_create(bool chains);
void sample_rings_free(struct sample_rings *rs);

/* sample_rings_put - add @r. With @lbr the calls are those of its records, if these are of a call
 * stack; without it they are r->from, if r->chained. Any thread, several at the same time; no
 * locks, no allocation. false: the ring is full, and r->periods samples are lost. */
bool sample_rings_put(struct sample_rings *rs, unsigned int pcpu, struct sample_record *r,
		      const struct vpmu_lbr_regs *lbr);

/* sample_rings_drain - empty the rings, with one call of @fn per record; r->from is valid during
 * the call. Returns how full the fullest ring was, in percent. One thread at a time. */
unsigned int sample_rings_drain(struct sample_rings *rs,
				void (*fn)(const struct sample_record *r, void *arg), void *arg);

/* sample_rings_lost - how many samples found their ring full so far. Any thread. */
uint64_t sample_rings_lost(const struct sample_rings *rs);

#endif
