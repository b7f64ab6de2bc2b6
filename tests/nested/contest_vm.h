/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The VM of tests/nested/contest.c: one vCPU on /dev/kvm, with one of the vPMUs that are compared.
 * Every call ends the program on a failure. */
#ifndef TESTS_NESTED_CONTEST_VM_H
#define TESTS_NESTED_CONTEST_VM_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/kvm.h>

#include "tests/nested/contest_l2.h"

enum contest_vpmu {
	VPMU_NONE,     /* KVM's is switched off */
	VPMU_EMULATED, /* KVM's, by perf events */
	VPMU_MEDIATED, /* KVM's that owns the counters while the guest runs (enable_mediated_pmu) */
	VPMU_OURS,     /* libvpmu's, by events of the thread */
	VPMU_KINDS
};

struct contest_vm {
	int dev, vm, vcpu, stats; /* files */
	struct kvm_run *run;
	uint8_t *ram;
	uint64_t exits_at; /* where "exits" is in the file of statistics */
	uint64_t user;	   /* returns of KVM_RUN */
	bool v2;	   /* the guest's PMU has PerfMonV2's registers */
	struct vpmu_host *host;
	struct vpmu_kvm_vm *kvm_vm;
	struct vpmu_kvm_vcpu *v;
};

/* vm_modules - load KVM anew, with this value of enable_mediated_pmu; false: this Linux has no such
 * parameter. */
bool vm_modules(bool mediated);

void vm_open(struct contest_vm *m, enum contest_vpmu kind);
void vm_close(struct contest_vm *m);
struct l2_job *vm_job(const struct contest_vm *m);
/* vm_run - run the guest until it has done the job. vm_exits - VMRUNs so far. */
void vm_run(struct contest_vm *m);
uint64_t vm_exits(const struct contest_vm *m);

__attribute__((noreturn, format(printf, 1, 2))) void vm_die(const char *fmt, ...);

#endif
