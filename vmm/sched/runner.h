/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The runner: the scheduler of the emulator. It has modelled pCPUs, each with a limited PMU,
 * which run the vCPUs of many VMs in time slices. vmm/machine makes it.
 *
 * A pCPU is a thread (runner_launch), or the caller steps it (runner_step). With runner_step
 * nothing depends on host time: the seed alone decides the schedule. The same is true of threads if
 * there is one pCPU and no VM is added, paused or removed while they run.
 *
 * Time is modelled. The clock of a pCPU advances by 1 ns per modelled ref-cycle (a 1 GHz reference
 * clock) of guests and of the modelled host work (VCPU_WORLD_SWITCH_CYCLES). It stands still while
 * the pCPU is idle.
 *
 * Only the control thread may call these functions, unless noted.
 */
#pragma once

#include <stdint.h>

#include "vmm/config/config.h"
#include "vmm/vm/vm.h"

struct runner;
struct vpmu_host;
struct vpmu_hostpmu;

/* runner_create - make @h->pcpus pCPUs of @host, numbered from 0. The values of @h must be in range
 * (vmm/config checks them). The pCPUs are idle until runner_launch or runner_step. -EINVAL,
 * -ENOMEM. */
int runner_create(struct vpmu_host *host, const struct host_config *h, struct runner **out);

/* runner_destroy - stop the threads and free everything. Every VM must have been destroyed. */
void runner_destroy(struct runner *r);

/* runner_sched - the scheduler for vm_opts. VMs that have it run on these pCPUs; their engine must
 * have VMM_CAN_TALLY. */
struct vm_sched *runner_sched(struct runner *r);

/* runner_pmu - the PMU of one modelled pCPU, to check which events it counts. All pCPUs have equal
 * PMUs. */
const struct vpmu_hostpmu *runner_pmu(const struct runner *r);

/* runner_launch - start a thread per pCPU. Call it once only. -errno: no thread was started. */
int runner_launch(struct runner *r);

/* runner_step - without threads: run up to @slices slices, on the pCPUs round-robin. Returns the
 * number run, less than @slices if nothing is left to run. */
uint64_t runner_step(struct runner *r, uint64_t slices);

struct runner_stats {
	uint64_t slices;
	uint64_t insns;	   /* retired in guests */
	uint64_t effort;   /* of guests (vcpu_used.effort) */
	uint64_t migrated; /* times a vCPU was placed on another pCPU than before */
	uint64_t ticks;	   /* rotations */
	uint64_t clock_ns; /* modelled time, the sum over pCPUs */
};

/* runner_stats - the sums over all pCPUs, as of their last slices. Any thread. */
void runner_stats(const struct runner *r, struct runner_stats *out);

/* Pseudo-random numbers that repeat with --seed: no secrets. For the modelled pCPUs, and the seeds
 * of the kernels that they run. */
/* random_next - splitmix64 (Steele, Lea, Flood 2014): one word of state, any seed. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}
