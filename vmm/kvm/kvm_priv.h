/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of the KVM engine. No other file includes this. */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

#include "vmm/kvm/kvm.h"
#include "vpmu/kvm/port.h"

struct vmm_engine {
	int fd;			  /* /dev/kvm */
	size_t run_bytes;	  /* size of a vCPU's struct kvm_run mapping */
	struct kvm_cpuid2 *cpuid; /* KVM_GET_SUPPORTED_CPUID */
};

struct vmm_engine_vm {
	struct vmm_engine *engine;
	int fd;
	unsigned int vcpus; /* number of vCPUs */
	bool irqchip;	    /* it has interrupt controllers */
	struct kvm_port_vm port;
};

/* Answer that the next run() must pass to the guest first. */
enum kvm_pending {
	KVM_PENDING_NONE = 0,
	KVM_PENDING_IO,	     /* one element of an I/O instruction: the caller has its data */
	KVM_PENDING_IO_NEXT, /* a string instruction has more elements for the caller */
	KVM_PENDING_RDMSR,
	KVM_PENDING_WRMSR,
	KVM_PENDING_RDPMC /* an IN that stands for RDPMC */
};

struct vmm_engine_vcpu {
	struct vmm_engine_vm *vm;
	uint32_t id; /* also of its local APIC */
	int fd;
	struct kvm_run *kr; /* shared with the kernel */
	size_t kr_bytes;

	enum kvm_pending pending;
	uint32_t io_done; /* elements of kr->io delivered so far */

	bool irq_pending; /* irq_vector is queued until the guest takes interrupts */
	uint8_t irq_vector;
	bool irq_ready;	 /* the guest accepted interrupts at the last exit, and its registers are
			    unchanged */
	bool nmi_queued; /* an NMI was queued since the last entry */
	bool waits;	 /* for its start-up IPI, or was started by one */
	bool halted;	 /* HLT retired, and nothing has woken the vCPU since */

	struct kvm_port port;

	_Atomic bool count_tsc; /* port.tsc was requested */
	uint64_t ran_ns;	/* with interrupt controllers: when it last ran, or 0 */

	_Atomic int tid;     /* thread inside of run(), or 0 */
	_Atomic bool kicked; /* kick() was called; run() has yet to report it */
};

/* ioctl() that returns the result or -errno. */
static inline int kvm_ioctl(int fd, unsigned long request, void *arg)
{
	int rc = ioctl(fd, request, arg);

	return rc < 0 ? -errno : rc;
}

/* KVM_CREATE_VM: fd or -errno. A signal may interrupt it without effect, so retry. */
static inline int kvm_create_vm_fd(const struct vmm_engine *e)
{
	int rc;

	do
		rc = kvm_ioctl(e->fd, KVM_CREATE_VM, 0);
	while (rc == -EINTR);
	return rc;
}

/* vm.c */
int kvm_vm_create(struct vmm_engine *e, const struct vmm_ram *ram, struct vmm_engine_vm **vm);
void kvm_vm_destroy(struct vmm_engine_vm *vm);
int kvm_vm_trap_msrs(struct vmm_engine_vm *vm, const struct vpmu_msr_range *r);
int kvm_vm_rdpmc_sites(struct vmm_engine_vm *vm, const uint64_t *rip, size_t n);

/* irqchip.c */
int kvm_vm_irqchip_create(struct vmm_engine_vm *vm);
int kvm_vm_irq_line(struct vmm_engine_vm *vm, unsigned int gsi, bool level);
int kvm_vcpu_pmi(struct vmm_engine_vcpu *v);
int kvm_vcpu_may_run(struct vmm_engine_vcpu *v);

/* state.c */
/* -EINVAL: KVM rejects it. */
int kvm_vcpu_set_msr(struct vmm_engine_vcpu *v, uint32_t index, uint64_t val);
int kvm_vcpu_get_state(struct vmm_engine_vcpu *v, void *buf, size_t *bytes);
int kvm_vcpu_set_state(struct vmm_engine_vcpu *v, const void *buf, size_t bytes);
int kvm_vm_get_state(struct vmm_engine_vm *vm, void *buf, size_t *bytes);
int kvm_vm_set_state(struct vmm_engine_vm *vm, const void *buf, size_t bytes);

/* vcpu.c */
int kvm_vcpu_create(struct vmm_engine_vm *vm, unsigned int id, struct vmm_engine_vcpu **v);
void kvm_vcpu_destroy(struct vmm_engine_vcpu *v);
int kvm_vcpu_set_cpuid(struct vmm_engine_vcpu *v, const struct kvm_cpuid_entry2 *e, size_t n);
int kvm_vcpu_get_regs(struct vmm_engine_vcpu *v, struct kvm_regs *r);
int kvm_vcpu_set_regs(struct vmm_engine_vcpu *v, const struct kvm_regs *r);
int kvm_vcpu_get_sregs(struct vmm_engine_vcpu *v, struct kvm_sregs *s);
int kvm_vcpu_set_sregs(struct vmm_engine_vcpu *v, const struct kvm_sregs *s);
int kvm_vcpu_run(struct vmm_engine_vcpu *v, struct vmm_run *run);
void kvm_vcpu_kick(struct vmm_engine_vcpu *v);
/* The handler of VMM_KVM_KICK_SIGNAL. */
void kvm_on_kick(int sig);
int kvm_vcpu_interrupt(struct vmm_engine_vcpu *v, uint8_t vector);
int kvm_vcpu_nmi(struct vmm_engine_vcpu *v);
int kvm_vcpu_guest_tsc(struct vmm_engine_vcpu *v, uint64_t *ticks);

/* exit.c: turn KVM_EXIT_* into VMM_EXIT_*. Returns false if there is no exit to report: enter
 * again. */
bool kvm_exit_translate(struct vmm_engine_vcpu *v, struct vmm_run *run);
/* Hand the caller's answer to the last exit to the kernel. */
void kvm_exit_complete(struct vmm_engine_vcpu *v, const struct vmm_run *run);
/* Report the next element of a string instruction (KVM_PENDING_IO_NEXT). */
void kvm_exit_next_io(struct vmm_engine_vcpu *v, struct vmm_run *run);
