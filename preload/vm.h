/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The VMs and vCPUs of this process, as its ioctl() calls show them, and what the library does
 * about them.
 *
 * A VM is watched from KVM_CREATE_VM on. Until its first vCPU nothing about it has changed but what
 * KVM_GET_SUPPORTED_CPUID showed to the VMM. The first KVM_CREATE_VCPU decides (vm_begin): PRE_ON,
 * or PRE_REFUSED with one line. A CPUID that does not fit refuses it later (cpuid.c).
 *
 * vm->lock is for calls of the VMM's threads on the VM. A call that holds it may wait for vCPU
 * threads to leave the guest (host.h), so these take it only for a reset. KVM_RUN takes no lock at
 * all.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/kvm.h>

#include "vpmu/guest/model.h"
#include "vpmu/kvm.h"

enum vm_state { PRE_WAITING = 0, PRE_ON, PRE_REFUSED };

struct vm_filter; /* a copy of the VMM's own MSR filter */
struct vm_memory; /* its memory slots: memory.c */

/* Pages that the library wrote: one or two for each RDPMC. */
#define VM_DIRTY_MAX (2 * VPMU_KVM_SITES)

struct vm {
	int fd, dup;		  /* the VMM's first descriptor; ours of the same VM, or -errno */
	_Atomic unsigned int fds; /* the VMM's, as far as they are followed */
	int run_bytes;
	_Atomic int state;		/* enum vm_state; written under lock */
	bool opened;			/* kvm's vPMU was switched off, for good once refused */
	bool irqchip;			/* local APICs are in the kernel */
	bool closed;			/* the VMM closed all of fds; under lock */
	_Atomic unsigned int msr_exits; /* the VMM's own; written under lock */
	struct vm_filter *filter;
	struct vpmu_kvm_vm *kvm;
	pthread_mutex_t lock;
	struct vcpu *vcpus; /* under lock */

	pthread_mutex_t memory_lock;
	struct vm_memory *_Atomic memory;
	_Atomic uint32_t nr_dirty;
	_Atomic uint64_t dirty[VM_DIRTY_MAX]; /* addresses of pages; 0: not stored yet */
};

struct vcpu {
	struct vm *vm;
	struct vcpu *next;
	int fd, dup; /* as of a VM */
	_Atomic unsigned int fds;
	unsigned int id;
	struct kvm_run *run;
	size_t run_bytes;
	struct vpmu_kvm_vcpu *kvm; /* NULL: the VM was refused before */
	unsigned int gp;
	pthread_mutex_t lock;	/* its registers, but for KVM_RUN */
	_Atomic int tid;	/* the thread that last ran it */
	_Atomic bool searching; /* its thread uses guest memory: memory.c */
	_Atomic bool loaded;	/* the VMM has set registers other than after a reset */
	bool carried;		/* the VMM has written its PMU's words */
	bool guard;		/* its CPUID has the guard's feature: cpuid.c */
	bool ran;
	bool still; /* a line has said that it counts nothing */
};

/* The descriptor for calls: the VMM may have closed its first one and kept a duplicate. */
static inline int vm_fd(const struct vm *vm)
{
	return vm->dup >= 0 ? vm->dup : vm->fd;
}

static inline int vcpu_fd(const struct vcpu *v)
{
	return v->dup >= 0 ? v->dup : v->fd;
}

/* ---- the process: process.c ---- */

struct process {
	bool on; /* vpmu-qemu has set a configuration */
	struct vpmu_guest_cfg guest;
	const char *unfit; /* why VMs cannot have it, as far as vpmu-qemu knows, or NULL */
	char vpmud[108];   /* its socket for VMMs; "": none */
	struct vpmu_host *host;
	_Atomic unsigned int watched;	/* VMs that are not refused */
	_Atomic bool vms;		/* there was a VM */
	_Atomic bool immediate_exit;	/* the VMM asked for KVM_CAP_IMMEDIATE_EXIT */
	_Atomic bool shown;		/* KVM_GET_SUPPORTED_CPUID was edited */
	uint32_t real_0a[4], real_core; /* what KVM had there */
	uint32_t real_max, real_22[2];	/* leaves 80000000H, 80000022H; 0: none */
};
extern struct process process;

/* process_init - take the configuration @text; host_intel: the vendor of this machine's CPU. 0;
 * -errno, with one line in @err. */
int process_init(const char *text, bool host_intel, char *err, size_t errlen);
/* process_host - the host of all VMs, made at the first call; NULL: no memory. Under no lock. */
struct vpmu_host *process_host(void);
/* say - one line on standard error. */
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- vm.c ---- */

void vm_created(int dev, int fd, unsigned long type);
void vm_close(struct vm *vm);
void vm_refuse(struct vm *vm, const char *why);

/* The VMM's calls on a VM: the result, or -errno. */
int vm_create_vcpu(struct vm *vm, unsigned long id);
int vm_set_filter(struct vm *vm, const struct kvm_msr_filter *f);
int vm_enable_cap(struct vm *vm, struct kvm_enable_cap *cap);
/* vm_unfit - vm_refuse, with the lock. */
void vm_unfit(struct vm *vm, const char *why);

/* vcpu_close - end it: false if a thread may still use it, so that it stays. */
bool vcpu_close(struct vcpu *v);

/* ---- memory.c ---- */

/* KVM_SET_USER_MEMORY_REGION: @m begins as the structures of both versions of the call do. */
int memory_set(struct vm *vm, unsigned long request, void *arg);
void memory_free(struct vm *vm);
/* Callbacks of kvm.h; @arg is the VM. */
void *memory_hva(void *arg, uint64_t gpa, uint64_t *left);
void memory_dirty(void *arg, uint64_t gpa, uint64_t bytes);
/* The thread runs @v, or none: NULL. memory_done - after each exit that may have used memory. */
void memory_runs(struct vcpu *v);
void memory_done(struct vcpu *v);
/* KVM_GET_DIRTY_LOG */
int memory_get_dirty_log(struct vm *vm, struct kvm_dirty_log *log);

/* ---- cpuid.c, msrs.c ---- */

/* KVM_GET_SUPPORTED_CPUID has returned @c, which has room for @room leaves. 0, or -E2BIG. */
int cpuid_supported(struct kvm_cpuid2 *c, uint32_t room);
int cpuid_set(struct vcpu *v, const struct kvm_cpuid2 *c);
/* The VMM is about to call KVM_SET_CPUID, whose leaves have no index. */
void cpuid_set_old(struct vcpu *v);

/* KVM_GET_MSRS and KVM_SET_MSRS */
int msrs_access(struct vcpu *v, unsigned long request, struct kvm_msrs *m);
/* KVM_SET_REGS, before it is done */
void msrs_regs(struct vcpu *v, const struct kvm_regs *r);

/* ---- calls.c: what interpose.c calls ---- */

/* The result, or -1 with errno. */
int call_ioctl(int fd, unsigned long request, void *arg);
/* Before @fd is closed, or after dup2() has replaced it; before those from @first to @last are
 * closed. */
void call_closing(int fd);
void call_closing_range(unsigned int first, unsigned int last);
/* @fd has become a duplicate of @from. */
void call_duplicated(int from, int fd);
/* This thread has changed which signals it blocks. */
void call_masked(void);
