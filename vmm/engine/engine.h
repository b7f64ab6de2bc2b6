/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What executes guest code: the soft machine's interpreter or KVM, behind one interface shaped
 * like the KVM API (linux/kvm.h structures where they fit). An engine knows nothing of pCPU
 * scheduling, tenants or the vPMU: it runs one vCPU until something needs its caller.
 *
 * Thread rules: one thread at a time per vCPU; kick() from anywhere. Errors: negative errno.
 */
#ifndef VMM_ENGINE_ENGINE_H
#define VMM_ENGINE_ENGINE_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/guest/msr_range.h"

struct vpmu_soft_tally;

enum vmm_exit {
	VMM_EXIT_BUDGET = 1, /* soft: exactly the budgeted instructions retired */
	VMM_EXIT_INTR,	   /* kicked; soft: also before the budget, at an instruction, when a guest
			    * costs far more time than its instructions should */
	VMM_EXIT_IO,	   /* u.io: IN/OUT; for IN the caller stores data before the next run */
	VMM_EXIT_RDMSR,	   /* u.msr: caller stores data or fault before the next run */
	VMM_EXIT_WRMSR,	   /* u.msr: caller stores fault before the next run */
	VMM_EXIT_RDPMC,	   /* u.pmc, soft only: like RDMSR; CR4.PCE and CPL are checked already */
	VMM_EXIT_ALARM,	   /* soft: an alarm of the tally is due, right behind the instruction that
			    * used it up; see below */
	VMM_EXIT_HLT,	   /* HLT retired */
	VMM_EXIT_SHUTDOWN, /* triple fault */
	VMM_EXIT_ERROR	   /* the engine cannot go on: u.error.msg, one line, names RIP and why */
};

/*
 * Alarms (soft). run() stops right behind the instruction whose retirement makes an armed alarm of
 * the tally due; a repeated string instruction is one instruction, and its elements' cycles may
 * pass the alarm's value by far. An alarm that is due comes before everything else: before
 * interrupts, a kick and the end of the budget (run again with what is left of it), before a fault
 * of fetching the next instruction (behind a jump to an unmapped page RIP is that page's address,
 * and the next run() delivers the page fault), and before the exit of a HLT that made it due: that
 * exit comes at the next run(), unless an interrupt that was queued meanwhile wakes the vCPU. While
 * it is not answered (vpmu_pcpu_overflow), run() executes nothing and returns VMM_EXIT_ALARM again.
 * There are two exceptions. The debug trap of an instruction that is single-stepped (RFLAGS.TF) is
 * delivered before the stop. And an exit that waits for its answer is completed first. Its
 * instruction retires at that next run(), counts then, and the alarm that it makes due stops right
 * behind it.
 */

/* The communication area of one vCPU, owned by the caller of run(). */
struct vmm_run {
	enum vmm_exit exit;
	uint64_t budget;  /* in: most instructions to retire (soft; KVM ignores it). 0 = none */
	uint64_t retired; /* out: instructions retired by this run() (soft; 0 on KVM) */
	union {
		struct {
			uint16_t port;
			uint8_t size; /* 1, 2, 4 */
			bool in;
			uint32_t data;
		} io;
		struct {
			uint32_t index;
			uint64_t data;
			bool fault; /* in: #GP instead of completing */
		} msr;
		struct {
			uint32_t index;
			uint64_t data;
			bool fault;
		} pmc;
		struct {
			uint64_t rip;
			char msg[200];
		} error;
	} u;
};

struct vmm_engine;	/* per-process state of one engine */
struct vmm_engine_vm;	/* one VM */
struct vmm_engine_vcpu; /* one vCPU */

struct vmm_engine_ops {
	const char *name; /* "soft", "kvm" */
	bool rdpmc_exits; /* guests may use RDPMC */

	/* open: 0, or -errno with one line in @why naming what is missing. */
	int (*open)(struct vmm_engine **e, char *why, size_t why_len);
	void (*close)(struct vmm_engine *e);

	/* @ram is the caller's memory of @bytes (multiple of 2 MiB), guest-physical from 0. */
	int (*vm_create)(struct vmm_engine *e, void *ram, size_t bytes, struct vmm_engine_vm **vm);
	void (*vm_destroy)(struct vmm_engine_vm *vm); /* vCPUs are destroyed before */

	/* Trap these MSRs to the caller; all others the engine does not know exit too. Before the
	 * first vCPU. @r ends with count 0. */
	int (*vm_trap_msrs)(struct vmm_engine_vm *vm, const struct vpmu_msr_range *r);

	int (*vcpu_create)(struct vmm_engine_vm *vm, unsigned int id, struct vmm_engine_vcpu **v);
	void (*vcpu_destroy)(struct vmm_engine_vcpu *v);

	int (*set_cpuid)(struct vmm_engine_vcpu *v, const struct kvm_cpuid_entry2 *e, size_t n);
	int (*get_regs)(struct vmm_engine_vcpu *v, struct kvm_regs *r);
	int (*set_regs)(struct vmm_engine_vcpu *v, const struct kvm_regs *r);
	int (*get_sregs)(struct vmm_engine_vcpu *v, struct kvm_sregs *s);
	int (*set_sregs)(struct vmm_engine_vcpu *v, const struct kvm_sregs *s);

	/* Execute until an exit. 0 and run->exit, or -errno when the engine itself failed. */
	int (*run)(struct vmm_engine_vcpu *v, struct vmm_run *run);
	/* Make a run() in progress (or the next one) return VMM_EXIT_INTR soon. Any thread,
	 * async-signal-safe. */
	void (*kick)(struct vmm_engine_vcpu *v);

	/* Queue external interrupt @vector (taken when IF allows) / an NMI. -EBUSY when one is
	 * queued already. Between runs. */
	int (*interrupt)(struct vmm_engine_vcpu *v, uint8_t vector);
	int (*nmi)(struct vmm_engine_vcpu *v);

	/*
	 * What a local APIC outside of the engine needs besides (lapic.h). NULL ops: the engine has
	 * local APICs of its own (KVM). Between runs. cancel_interrupt: take back the interrupt
	 * that is queued and was not taken; -ENOENT: there is none. set_cr8: 0..15, as if the guest
	 * wrote it. wakes: something queued would be taken now, so that a HLT ends.
	 */
	int (*cancel_interrupt)(struct vmm_engine_vcpu *v);
	void (*set_cr8)(struct vmm_engine_vcpu *v, unsigned int cr8);
	bool (*wakes)(struct vmm_engine_vcpu *v);

	/* Soft: add what executes to @t (the pCPU it runs on); NULL = a tally of its own.
	 * KVM: NULL op. */
	void (*set_tally)(struct vmm_engine_vcpu *v, struct vpmu_soft_tally *t);

	/*
	 * Everything of the vCPU that set_regs and set_sregs do not hold: events that wait, the
	 * exit that waits for its answer, MSRs, clocks. get: *bytes in = room, out = used, or with
	 * -ENOSPC what is needed; -ENOMEM. set: after set_sregs and set_regs, which forget such
	 * things; checks every byte: -EINVAL with nothing changed. A vCPU set up so goes on as the
	 * other one would have, in another process as well. Between runs. NULL ops: not supported
	 * (KVM).
	 *
	 * The answer to a waiting exit is not in it: as always, it is taken from run->u by the next
	 * run(). So whoever saves a vCPU after an exit that wants an answer (IO, RDMSR, WRMSR,
	 * RDPMC) saves the answer, or the question with it, as well, and hands the first run() of
	 * the restored vCPU a run->u with the answer. CPUID, trapped MSRs, guest RAM and the tally
	 * are the caller's too.
	 */
	int (*get_state)(struct vmm_engine_vcpu *v, void *buf, size_t *bytes);
	int (*set_state)(struct vmm_engine_vcpu *v, const void *buf, size_t bytes);

	/* KVM: TSC ticks spent between entering and leaving the guest so far (the engine's own
	 * account, monotonic). Soft: NULL op. Thread that runs the vCPU. */
	uint64_t (*guest_tsc)(struct vmm_engine_vcpu *v);
};

extern const struct vmm_engine_ops vmm_soft_ops;
extern const struct vmm_engine_ops vmm_kvm_ops;

#endif
