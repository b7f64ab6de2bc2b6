// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Interrupt controllers of a KVM VM: KVM's own, in the kernel. Local APICs with their timers, IPIs,
 * INIT and start-up IPIs, the I/O APIC and the wait in HLT are all KVM's. PMIs: vpmu/kvm/pmi.c.
 */
#include <errno.h>

#include "vmm/kvm/kvm_priv.h"

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

int kvm_vcpu_pmi(struct vmm_engine_vcpu *v)
{
	return v->vm->irqchip ? kvm_port_pmi(&v->port) : -EOPNOTSUPP;
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
