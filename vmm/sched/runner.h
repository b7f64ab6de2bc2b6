/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The runner: modelled pCPUs, each with a limited PMU of its own, that time-slice the vCPUs of
 * many VMs of the soft machine.
 *
 * A pCPU is a thread (runner_launch) or is stepped by the caller (runner_step): then nothing
 * depends on host time, and what runs is decided by the seed alone. With one pCPU the same holds
 * with a thread, as far as nobody adds, pauses or removes VMs meanwhile.
 *
 * Time is modelled: each pCPU's clock advances by 1 ns per modelled ref-cycle (a 1 GHz reference
 * clock), of guests and of the modelled host work (VCPU_WORLD_SWITCH_CYCLES); it stands still
 * while the pCPU has nothing to run.
 *
 * All functions: control thread, unless they say otherwise.
 */
#ifndef VMM_SCHED_RUNNER_H
#define VMM_SCHED_RUNNER_H

#include "vmm/config/config.h"
#include "vmm/vm/vm.h"

struct runner;
struct vpmu_host;
struct vpmu_hostpmu;

/* runner_create - @h->pcpus pCPUs of @host, numbered from 0; what @h says is in range. -EINVAL,
 * -ENOMEM. The pCPUs idle until runner_launch or runner_step. */
int runner_create(struct vpmu_host *host, const struct host_config *h, struct runner **out);

/* runner_destroy - every VM must have been destroyed. Stops the threads. */
void runner_destroy(struct runner *r);

/* runner_sched - for vm_opts: VMs of this scheduler run here. Their engine must have
 * VMM_CAN_TALLY. */
struct vm_sched *runner_sched(struct runner *r);

/* runner_pmu - the PMU of one modelled pCPU; all are alike. To ask what it counts. */
const struct vpmu_hostpmu *runner_pmu(const struct runner *r);

/* runner_launch - a thread per pCPU from now on. -errno: none was started. Once. */
int runner_launch(struct runner *r);

/* runner_step - without threads: up to @slices slices, the pCPUs taking turns. Returns how many
 * ran: fewer when there is nothing left to run. */
uint64_t runner_step(struct runner *r, uint64_t slices);

struct runner_stats {
	uint64_t slices;
	uint64_t insns;	   /* retired in guests */
	uint64_t migrated; /* times a vCPU was placed on another pCPU than before */
	uint64_t ticks;	   /* rotations */
	uint64_t clock_ns; /* modelled time, the sum over pCPUs */
};

/* runner_stats - as of each pCPU's last slice. Any thread. */
void runner_stats(const struct runner *r, struct runner_stats *out);

#endif
