/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The scheduler for KVM: one thread per vCPU, scheduled by the kernel. Each vCPU has its own
 * libvpmu pCPU; the counters are the perf events of the vCPU's thread. The kernel switches threads
 * together with their perf events, so there is no switching here.
 *
 * Only the control thread may call these functions.
 */
#pragma once

#include "vmm/vm/vm.h"

struct threads;
struct vpmu_host;
struct vpmu_hostpmu;

/* How the PMU of a vCPU thread is made. create is called on the control thread before the thread
 * exists, set_thread on the thread before it runs the vCPU, and destroy on the control thread after
 * the thread has ended. */
struct threads_pmu {
	int (*create)(struct vcpu *v, void *arg, struct vpmu_hostpmu **pmu, char *err,
		      size_t errlen);
	void (*set_thread)(struct vpmu_hostpmu *pmu, int tid); /* may be NULL */
	void (*destroy)(struct vpmu_hostpmu *pmu);
	void *arg; /* of create */
};

/* threads_create - make a scheduler. *@pmu is copied. pCPUs are numbered from @first_id on; numbers
 * are not reused. -ENOMEM. */
int threads_create(struct vpmu_host *host, const struct threads_pmu *pmu, unsigned int first_id,
		   struct threads **out);
/* threads_destroy - every VM must have been destroyed. */
void threads_destroy(struct threads *t);

/* threads_sched - the scheduler for vm_opts. */
struct vm_sched *threads_sched(struct threads *t);

/* threads_tick - make every running vCPU with counted events service its counters: rotate
 * multiplexed keys, release unused counters, retry those that the host refused. Other vCPUs are not
 * interrupted. Call it at a fixed rate. */
void threads_tick(struct threads *t);
