/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a PMU needs of KVM, without any register model: MSR exits, PMIs through LVTPC, RDPMC exits,
 * alarms, and the time in the guest. The files of vpmu/kvm stand on it, and so does the KVM engine
 * of vpmu-vmm (vmm/kvm), which has an exit loop of its own. Not public.
 *
 * A port is used by one thread at a time. Errors are negative errno values.
 */
#pragma once

#include <linux/kvm.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/guest/msr_range.h"
#include "vpmu/kvm.h"
#include "vpmu/kvm/oncpu.h"

/* The instruction that stands for RDPMC: IN EAX with this port, of an old DMA controller, which no
 * VM has. */
#define KVM_PORT_RDPMC 0x33

struct kvm_port_vm {
	int fd;
	int (*ioctl)(int fd, unsigned long request, void *arg);
	bool sync_regs; /* general registers may go through kvm_run (KVM_CAP_SYNC_REGS) */
	/* RIPs of that instruction, changed under @lock. A reader may miss one while others are
	 * forgotten. */
	pthread_mutex_t lock;
	_Atomic size_t nr_sites;
	_Atomic uint64_t site[VPMU_KVM_SITES];
};

struct kvm_port {
	struct kvm_port_vm *vm;
	int fd;
	uint32_t id;	    /* of its local APIC */
	struct kvm_run *kr; /* shared with the kernel */
	bool masks_pmi;	    /* Intel CPU: delivering a PMI masks LVTPC */
	bool pmi_masked;    /* our shadow of that mask: pmi.c */
	uint64_t tsc;	    /* TSC ticks in KVM_RUN and on a CPU */
	struct kvm_oncpu oncpu;
	struct kvm_regs rdpmc_regs; /* of the RDPMC that is to be completed, */
	bool rdpmc_synced;	    /* and this exit came with registers in kvm_run */
	bool regs_asked;	    /* KVM_SYNC_X86_REGS in kvm_valid_regs is ours, not the VMM's */
};

/* The system call itself, since libc's ioctl() may be interposed. */
int kvm_port_ioctl(int fd, unsigned long request, void *arg);

void kvm_port_vm_init(struct kvm_port_vm *vm, int fd,
		      int (*ioctl)(int fd, unsigned long request, void *arg));
void kvm_port_vm_fini(struct kvm_port_vm *vm);

/*
 * filter.c
 * kvm_port_vpmu_off - switch KVM's own vPMU off, if it can be.
 * kvm_port_msr_exits - let accesses to MSRs exit for these KVM_MSR_EXIT_REASON_*.
 * kvm_port_filter - let accesses to the ranges @r exit, ended by count 0, and behind them those
 * that
 * @theirs (may be NULL) denies. Ranges in @spare (may be NULL) are left out if there are too many.
 * -E2BIG: too many all the same. MSR exits must be enabled: without, a filtered access is #GP.
 */
int kvm_port_vpmu_off(struct kvm_port_vm *vm);
int kvm_port_msr_exits(struct kvm_port_vm *vm, unsigned int reasons);
int kvm_port_filter(struct kvm_port_vm *vm, const struct vpmu_msr_range *r,
		    const struct vpmu_msr_range *spare, const struct kvm_msr_filter *theirs);

/* pmi.c
 * kvm_port_pmi - raise a PMI through LVTPC; it is lost if LVTPC is masked.
 * kvm_port_wrote - the guest has written @msr, without a fault. */
int kvm_port_pmi(struct kvm_port *p);
void kvm_port_wrote(struct kvm_port *p, uint32_t msr);

/* rdpmc.c
 * kvm_port_add_site - -ENOSPC. kvm_port_forget_sites - forget all. kvm_port_is_rdpmc - returns true
 * if the I/O exit is of an IN that stands for RDPMC: then *@index is ECX. kvm_port_may_be_rdpmc -
 * the same without the test of the site, with the registers in p->rdpmc_regs.
 * kvm_port_rdpmc_complete - answer it: KVM writes EAX, from the exit's data.
 * kvm_port_sync_regs - let registers of an RDPMC go through kvm_run if this KVM can. Then the
 * exit's next user must be KVM_RUN: until that, the answer is in kvm_run only.
 * kvm_port_ask_regs - before KVM_RUN: have its exit come with registers.
 * kvm_port_take_regs - after KVM_RUN, whatever it returns, and once only. kvm_valid_regs is the
 * VMM's again. */
int kvm_port_add_site(struct kvm_port_vm *vm, uint64_t rip);
void kvm_port_forget_sites(struct kvm_port_vm *vm);
bool kvm_port_may_be_rdpmc(struct kvm_port *p);
bool kvm_port_is_rdpmc(struct kvm_port *p, uint32_t *index);
void kvm_port_rdpmc_complete(struct kvm_port *p, uint64_t data);
void kvm_port_sync_regs(struct kvm_port_vm *vm);
void kvm_port_ask_regs(struct kvm_port *p);
void kvm_port_take_regs(struct kvm_port *p);

/*
 * alarm.c
 * kvm_signal_install - install @handler, once for the process; -EBUSY if there is another.
 * kvm_alarm_install - install the handlers of alarms, with signal @sig; -EBUSY also if another @sig
 * was installed before. kvm_alarm_signal - that signal, or 0.
 * kvm_alarm_unblock - unblock these signals in this thread.
 * kvm_alarm_open - returns the thread's id; the first call in a thread unblocks them, too.
 * kvm_alarms_to - the thread enters the guest of @kr, or will from now on; or has left it (NULL):
 * an alarm in between sets VPMU_KVM_IMMEDIATE. kvm_alarm_pending - returns true if the thread was
 * sent an alarm since the last take. kvm_alarm_take - the same, and clears VPMU_KVM_IMMEDIATE of
 * @kr.
 */
int kvm_signal_install(int sig, void (*handler)(int), char *why, size_t why_len);
int kvm_alarm_install(int sig, char *why, size_t why_len);
int kvm_alarm_signal(void);
void kvm_alarm_unblock(void);
int kvm_alarm_open(void);
void kvm_alarms_to(struct kvm_run *kr);
bool kvm_alarm_pending(void);
bool kvm_alarm_take(struct kvm_run *kr);
