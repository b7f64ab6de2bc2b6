/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What machine.c and info.c share; nobody else includes it. */
#ifndef VMM_MACHINE_PRIV_H
#define VMM_MACHINE_PRIV_H

#include "vmm/machine/machine.h"
#include "vpmu/source_core.h"
#include "vmm/sched/runner.h"
#include "vmm/sched/threads.h"

/*
 * An engine, who schedules its vCPUs, and who counts for them: a source of counts of its own, since
 * counts of modelled CPUs and of real ones are never added. All come with the first VM that needs
 * them; before that the host has no such plane.
 */
struct plane {
	const struct vmm_engine_ops *ops;
	struct vmm_engine *engine;
	struct vm_sched *sched;
	struct vpmu_source *source;
	char why[VM_REASON_MAX]; /* not empty: the engine cannot be had, and why */
};

struct machine {
	struct machine_opts opts;
	struct host_config host_cfg;
	struct tenants *tenants;
	struct plane soft, kvm;
	struct runner *runner;
	struct threads *threads;
	bool launched;
	bool hardware; /* KVM guests have hardware counters */
	bool capture;  /* host_cfg.lbr: attached to the root of the soft plane */
	struct machine_vm *vms, **last;
};

/* machine_open_engine - open @p's engine if it is not open. Its plane does not begin with that. */
int machine_open_engine(struct plane *p, char *err, size_t errlen);

/* machine_soft_counts, machine_kvm_counts - can_count of the planes' sources; @arg: the machine. */
bool machine_soft_counts(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen, void *arg);
bool machine_kvm_counts(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen, void *arg);

#endif
