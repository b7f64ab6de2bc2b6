/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One thread per vCPU, for engines that the kernel schedules (KVM). Each vCPU has a pCPU of
 * libvpmu's of its own, whose counters are those of its thread: the kernel switches threads, and
 * so the counters; nothing is left for us to switch.
 *
 * All functions: control thread.
 */
#ifndef VMM_SCHED_THREADS_H
#define VMM_SCHED_THREADS_H

#include "vmm/vm/vm.h"

struct threads;
struct vpmu_host;
struct vpmu_hostpmu;

/* What counts for a vCPU thread. create runs on the control thread before the thread exists,
 * set_thread on the thread before it runs the vCPU, destroy after it has ended. */
struct threads_pmu {
	int (*create)(struct vcpu *v, void *arg, struct vpmu_hostpmu **pmu, char *err,
		      size_t errlen);
	void (*set_thread)(struct vpmu_hostpmu *pmu, int tid); /* may be NULL */
	void (*destroy)(struct vpmu_hostpmu *pmu);
	void *arg; /* of create */
};

/* threads_create - @pmu is copied. @first_id: pCPUs are numbered from there, and numbers not used
 * again. */
int threads_create(struct vpmu_host *host, const struct threads_pmu *pmu, unsigned int first_id,
		   struct threads **out);
/* threads_destroy - every VM must have been destroyed. */
void threads_destroy(struct threads *t);

/* threads_sched - for vm_opts: VMs of this scheduler have threads of their own. */
struct vm_sched *threads_sched(struct threads *t);

/* threads_tick - let every running vCPU rotate its counters, if it has more keys than counters.
 * A few times a second. */
void threads_tick(struct threads *t);

#endif
