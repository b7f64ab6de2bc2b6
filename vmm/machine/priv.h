/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between machine.c and info.c; nobody else's. */
#ifndef VMM_MACHINE_PRIV_H
#define VMM_MACHINE_PRIV_H

#include "vmm/machine/machine.h"
#include "vmm/sched/runner.h"
#include "vmm/sched/threads.h"

/* An engine and who schedules its vCPUs; both come with the first VM that needs them. */
struct plane {
	const struct vmm_engine_ops *ops;
	struct vmm_engine *engine;
	struct vm_sched *sched;
	char why[VM_REASON_MAX]; /* not empty: the engine cannot be had, and why */
};

struct machine {
	struct machine_opts opts;
	struct host_config host_cfg;
	struct vpmu_host *host;
	struct tenants *tenants;
	struct plane soft, kvm;
	struct runner *runner;
	struct threads *threads;
	bool launched;
	bool hardware; /* KVM guests have hardware counters */
	bool capture;  /* host_cfg.lbr: attached to the root */
	struct machine_vm *vms, **last;
};

/* machine_need_kvm - open the KVM engine and make its scheduler, if they are not there. */
int machine_need_kvm(struct machine *m, char *err, size_t errlen);

#endif
