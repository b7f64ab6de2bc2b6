/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sample queue between the CPUs that take samples and the control thread that adds them up.
 *
 * There is a fixed number of bounded rings, and all memory is allocated before the first sample.
 * CPU n uses ring n modulo SAMPLE_RINGS. With few CPUs each has its own ring; with many, several
 * CPUs share a ring without locks. A sample that finds its ring full is counted as lost; the CPU
 * never waits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/lbr.h"

#define SAMPLE_RINGS	   16
#define SAMPLE_RING_SLOTS  32768 /* of one ring; both are powers of two */
#define SAMPLE_CHAIN_SLOTS 8192	 /* of one ring with branch records */
#define SAMPLE_CALLS_MAX   63	 /* of one sample; outer callers are dropped */

struct sample_record {
	uint64_t vcpu;	  /* serial of the vCPU's node; 0: no vCPU ran */
	uint64_t ip;	  /* valid if @known */
	uint64_t periods; /* number of samples that the record stands for */
	uint64_t late;	  /* events counted since the first of these was due */
	uint64_t time_ns; /* CLOCK_MONOTONIC; 0: unknown */
	uint32_t pid;	  /* of a process of the host; else 0 */
	uint8_t side;	  /* enum vpmu_side */
	uint8_t cpl;
	bool known;	 /* ip and cpl are valid */
	bool chained;	 /* @from is a call chain, possibly empty */
	uint8_t nr_from; /* number of calls, newest first; up to SAMPLE_CALLS_MAX */
	const uint64_t *from;
};

struct sample_rings;

/* sample_rings_create - @chains: room for branch records. NULL when out of memory. */
struct sample_rings *sample_rings_create(bool chains);
void sample_rings_free(struct sample_rings *rs);

/* sample_rings_put - add @r. With @lbr the calls are its records, if these are call-stack records;
 * otherwise r->from, if r->chained. Any number of threads at a time; no locks, no allocation.
 * Returns false if the ring is full: r->periods samples are lost. */
bool sample_rings_put(struct sample_rings *rs, unsigned int pcpu, struct sample_record *r,
		      const struct vpmu_lbr_regs *lbr);

/* sample_rings_drain - empty the rings, calling @fn for each record; r->from is valid during the
 * call. Returns the fill level of the fullest ring, in percent. One thread at a time. */
unsigned int sample_rings_drain(struct sample_rings *rs,
				void (*fn)(const struct sample_record *r, void *arg), void *arg);

/* sample_rings_lost - number of samples that found their ring full so far. Any thread. */
uint64_t sample_rings_lost(const struct sample_rings *rs);
