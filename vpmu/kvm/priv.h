/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Private to the files of vpmu/kvm that implement vpmu/kvm.h: what is behind its opaque structs. */
#pragma once

#include <time.h>

#include "vpmu/context.h"
#include "vpmu/guest/guest.h"
#include "vpmu/hostpmu_perf.h"
#include "vpmu/kvm.h"
#include "vpmu/kvm/pages.h"
#include "vpmu/kvm/port.h"
#include "vpmu/pcpu.h"

struct vpmu_kvm_vm {
	struct kvm_port_vm port;
	struct vpmu_kvm_vm_opts opts;
	struct vpmu_guest_cfg cfg;
	const struct vpmu_msr_range *ranges;
	struct vpmu_account *account;
	_Atomic unsigned int vcpus;
	struct share_client *share; /* NULL: no vpmud */

	/* search.c */
	pthread_mutex_t search_lock; /* only tried on vCPU threads */
	unsigned int looks;	     /* accesses whose RIP was read, and */
	unsigned int searches;	     /* searches that count to their limit, */
	uint64_t replenished_ns;     /* since then */
	/* Rings of the newest ones: text that was searched, and where RDPMC was replaced. */
	struct {
		uint64_t lo, hi, pa;
	} searched[VPMU_KVM_SEARCHES];
	size_t nr_searched;
	uint64_t patched[VPMU_KVM_SITES]; /* guest-physical addresses */
	size_t nr_patched;
};

struct vpmu_kvm_vcpu {
	struct kvm_port port;
	struct vpmu_kvm_vm *vm;
	bool own;	/* guest, context and pCPU are the library's */
	bool may_rdpmc; /* the last exit was an access to the PMU after which RDPMCs came */
	uint64_t access,
		rdpmc_follows; /* kinds of accesses: the last exit's or 0, and those ones */
	bool measuring;	       /* between enter and leave, of a vCPU that counts: kvm_oncpu_enter */
	struct vpmu_guest *guest; /* malloc'd if own */
	struct vpmu_account *account;
	struct vpmu_context ctx;
	struct vpmu_hostpmu *theirs;   /* vpmu_kvm_vcpu_opts.pmu */
	struct vpmu_hostpmu_perf perf; /* without @theirs */
	struct kvm_pages pages;	       /* over perf, if the VM has vpmud's counts */
	struct vpmu_pcpu *pcpu;	       /* own: while a thread is bound */
	_Atomic int tid;	       /* of the bound thread, or 0 */
	timer_t timer;		       /* of ticks; while a thread is bound */
	bool timer_made, timer_on;
	uint64_t ticked_ns;
	/* Written by the vCPU's thread, read by vpmu_kvm_vcpu_report. */
	_Atomic unsigned int degraded;
	_Atomic uint64_t denied, denied_last, unsupported, unsupported_last;
	_Atomic uint64_t rdmsr, wrmsr, rdpmc, faults, alarms, pmis, pmi_errors, guest_tsc;
};

/* thread.c
 * kvm_thread_use - register the calling thread with liburcu unless it is.
 * kvm_thread_bound - the vCPU that the calling thread is bound to; its end releases that. */
void kvm_thread_use(void);
struct vpmu_kvm_vcpu **kvm_thread_bound(void);
/* Start liburcu's thread, with all signals blocked. */
void kvm_thread_start_rcu(void);

/* bind.c
 * kvm_vcpu_bind - bind the calling thread @tid. 0, -EBUSY or -ENOMEM.
 * kvm_vcpu_tick - multiplex events and start counters that could not start, if it is time, and keep
 * the timer running while there are any (kvm_wants_tick). @alarmed: an alarm has come since, which
 * may be the timer's. kvm_vcpu_perf_init, _fini - make and end perf events as its PMU, if it has no
 * other. */
int kvm_vcpu_perf_init(struct vpmu_kvm_vcpu *v);
void kvm_vcpu_perf_fini(struct vpmu_kvm_vcpu *v);
int kvm_vcpu_bind(struct vpmu_kvm_vcpu *v, int tid);
void kvm_vcpu_tick(struct vpmu_kvm_vcpu *v, bool alarmed);

static inline bool kvm_wants_tick(const struct vpmu_kvm_vcpu *v)
{
	return vpmu_pcpu_wants_tick(v->pcpu) || v->guest->again;
}

/* state.c: note what an operator wants to see of the register model. */
void kvm_vcpu_note(struct vpmu_kvm_vcpu *v);

/* search.c
 * kvm_search - look for RDPMC around the vCPU's RIP, unless that has been done. Without @starts
 * (the access is one of a driver that starts) it does nothing if the VM has a site.
 * kvm_search_adopt - returns true if the IN at RIP, in p->rdpmc_regs, stands for RDPMC: it was put
 * there by another process. Then it is a site. */
void kvm_search(struct vpmu_kvm_vcpu *v, bool starts);
bool kvm_search_adopt(struct vpmu_kvm_vcpu *v);
