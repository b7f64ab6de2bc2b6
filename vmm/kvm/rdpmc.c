// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * RDPMC of stock kernels. No interface of KVM lets user space answer RDPMC: with KVM's own PMU
 * switched off it is #GP. So the caller has replaced the kernel's RDPMC by IN EAX,33H
 * (vmm/boot/rdpmc.c), which exits with ECX intact. KVM then writes EAX from the exit's data and
 * continues behind the instruction. This file writes RDX.
 *
 * Only an IN at one of these addresses stands for RDPMC: elsewhere it is a plain IN.
 */
#include <stdlib.h>
#include <string.h>

#include "vmm/kvm/kvm_priv.h"

#define PORT 0x33

int kvm_vm_rdpmc_sites(struct vmm_engine_vm *vm, const uint64_t *rip, size_t n)
{
	vm->rdpmc = calloc(n ? n : 1, sizeof(*rip));
	if (!vm->rdpmc)
		return -ENOMEM;
	if (n)
		memcpy(vm->rdpmc, rip, n * sizeof(*rip));
	vm->nr_rdpmc = n;
	return 0;
}

bool kvm_is_rdpmc(struct vmm_engine_vcpu *v, uint32_t *index)
{
	const struct kvm_run *kr = v->kr;

	if (kr->io.port != PORT || kr->io.direction != KVM_EXIT_IO_IN || kr->io.size != 4 ||
	    kr->io.count != 1 || kvm_ioctl(v->fd, KVM_GET_REGS, &v->rdpmc_regs))
		return false;
	/* RIP is still that of the instruction. */
	for (size_t i = 0; i < v->vm->nr_rdpmc; i++) {
		if (v->rdpmc_regs.rip != v->vm->rdpmc[i])
			continue;
		*index = (uint32_t)v->rdpmc_regs.rcx;
		return true;
	}
	return false;
}

void kvm_rdpmc_complete(struct vmm_engine_vcpu *v, uint64_t data)
{
	uint32_t low = (uint32_t)data;

	memcpy((uint8_t *)v->kr + v->kr->io.data_offset, &low, sizeof(low));
	v->rdpmc_regs.rdx = data >> 32;
	/* Set RAX, too: another version of KVM may take the result from there. */
	v->rdpmc_regs.rax = low;
	/* It can only fail if the vCPU does not exist any more. */
	kvm_ioctl(v->fd, KVM_SET_REGS, &v->rdpmc_regs);
}
