// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Interrupt controllers of a KVM VM: KVM's own, in the kernel. Local APICs with their timers, IPIs,
 * INIT and start-up IPIs, the I/O APIC and the wait in HLT are all KVM's. This file adds the PMI
 * through the LVT performance entry, since the guest does not have KVM's own PMU.
 *
 * Nothing here may call KVM_SET_LAPIC. It replaces the whole register page: an IPI that another
 * vCPU sends at that moment and a due timer would be lost. So the mask bit that an Intel CPU sets
 * when it delivers a PMI is a shadow here, besides the guest's own mask bit. KVM does not report
 * writes of LVTPC. So the shadow is cleared by a write that the guest's handler must make before
 * another useful PMI: of IA32_PERF_GLOBAL_OVF_CTRL or IA32_PERF_GLOBAL_CTRL (SDM vol. 3, 20.2.4). A
 * guest that unmasks LVTPC without such a write gets no further PMI; one that writes them and
 * leaves LVTPC masked gets PMIs that a CPU would not deliver.
 */
#include <errno.h>
#include <string.h>

#include "vmm/kvm/kvm_priv.h"

/* SDM vol. 3, 11.4.1: offset of the LVT performance entry; 11.5.1: its fields. */
#define APIC_LVTPC	 0x340
#define LVT_VECTOR(x)	 ((x)&0xffu)
#define LVT_MODE(x)	 ((x) >> 8 & 7u)
#define LVT_MASKED	 (1u << 16)
#define MODE_FIXED	 0u
#define MODE_NMI	 4u
#define VECTORS_RESERVED 16u
/* SDM vol. 3, 11.11.1: the address of a message to a local APIC; the ID is in bits 12-19. */
#define MSI_ADDRESS 0xfee00000u

#define GLOBAL_CTRL	0x38f
#define GLOBAL_OVF_CTRL 0x390

int kvm_vm_irqchip_create(struct vmm_engine_vm *vm)
{
	int rc;

	if (vm->irqchip)
		return -EEXIST;
	if (vm->vcpus)
		return -EBUSY;
	rc = kvm_ioctl(vm->fd, KVM_CREATE_IRQCHIP, 0);
	vm->irqchip = !rc;
	return rc;
}

int kvm_vm_irq_line(struct vmm_engine_vm *vm, unsigned int gsi, bool level)
{
	struct kvm_irq_level line = {.irq = gsi, .level = level};

	if (!vm->irqchip || gsi >= VMM_IRQCHIP_PINS)
		return -ENXIO;
	return kvm_ioctl(vm->fd, KVM_IRQ_LINE, &line);
}

static int irqchip_lvtpc(struct vmm_engine_vcpu *v, uint32_t *value)
{
	struct kvm_lapic_state regs;
	int rc = kvm_ioctl(v->fd, KVM_GET_LAPIC, &regs);

	if (!rc)
		memcpy(value, regs.regs + APIC_LVTPC, sizeof(*value));
	return rc;
}

static int fixed(struct vmm_engine_vcpu *v, uint32_t vector)
{
	struct kvm_msi msi = {.address_lo = MSI_ADDRESS | v->id << 12, .data = vector};
	int rc;

	if (vector < VECTORS_RESERVED)
		return 0; /* an illegal vector: the APIC only notes an error */
	rc = kvm_ioctl(v->vm->fd, KVM_SIGNAL_MSI, &msi);
	/* 0: the guest has switched this APIC off; 1: delivered. */
	return rc < 0 ? rc : 0;
}

int kvm_vcpu_pmi(struct vmm_engine_vcpu *v)
{
	uint32_t entry;
	int rc;

	if (!v->vm->irqchip)
		return -EOPNOTSUPP;
	if (v->pmi_masked)
		return 0;
	rc = irqchip_lvtpc(v, &entry);
	if (rc || entry & LVT_MASKED)
		return rc;
	if (LVT_MODE(entry) == MODE_NMI)
		rc = kvm_ioctl(v->fd, KVM_NMI, 0);
	else if (LVT_MODE(entry) == MODE_FIXED)
		rc = fixed(v, LVT_VECTOR(entry));
	else
		return 0; /* other delivery modes are not supported: it is lost */
	v->pmi_masked = !rc && v->masks_pmi;
	return rc;
}

void kvm_pmi_wrote(struct vmm_engine_vcpu *v, uint32_t msr)
{
	if (msr == GLOBAL_CTRL || msr == GLOBAL_OVF_CTRL)
		v->pmi_masked = false;
}

/* Start a vCPU that waits for a start-up IPI: its registers were set. */
int kvm_vcpu_may_run(struct vmm_engine_vcpu *v)
{
	struct kvm_mp_state state = {.mp_state = KVM_MP_STATE_RUNNABLE};
	int rc = kvm_ioctl(v->fd, KVM_SET_MP_STATE, &state);

	if (!rc)
		v->waits = false;
	return rc;
}
