// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * RDPMC of stock kernels. No interface of KVM lets user space answer RDPMC: with KVM's own PMU
 * switched off it is #GP. So somebody has replaced the kernel's RDPMC by IN EAX,33H (search.c, or
 * vmm/boot/rdpmc.c before the kernel starts), which exits with ECX intact. KVM then writes EAX from
 * the exit's data and continues behind the instruction. This file writes RDX. It reads and writes
 * registers through kvm_run where the VMM's exit loop allows that: two system calls less.
 *
 * Only an IN at one of these addresses stands for RDPMC: elsewhere it is a plain IN.
 */
#include <errno.h>
#include <string.h>

#include "vpmu/kvm/port.h"

static bool rdpmc_has_site(const struct kvm_port_vm *vm, uint64_t rip)
{
	/* Acquire: pairs with the release in kvm_port_add_site, behind the site itself. */
	size_t n = atomic_load_explicit(&vm->nr_sites, memory_order_acquire);

	while (n--)
		if (atomic_load_explicit(&vm->site[n], memory_order_relaxed) == rip)
			return true;
	return false;
}

int kvm_port_add_site(struct kvm_port_vm *vm, uint64_t rip)
{
	size_t n;
	int rc = 0;

	pthread_mutex_lock(&vm->lock);
	n = atomic_load_explicit(&vm->nr_sites, memory_order_relaxed);
	if (rdpmc_has_site(vm, rip)) {
		;
	} else if (n == VPMU_KVM_SITES) {
		rc = -ENOSPC;
	} else {
		atomic_store_explicit(&vm->site[n], rip, memory_order_relaxed);
		atomic_store_explicit(&vm->nr_sites, n + 1, memory_order_release);
	}
	pthread_mutex_unlock(&vm->lock);
	return rc;
}

void kvm_port_forget_sites(struct kvm_port_vm *vm)
{
	pthread_mutex_lock(&vm->lock);
	atomic_store_explicit(&vm->nr_sites, 0, memory_order_release);
	pthread_mutex_unlock(&vm->lock);
}

void kvm_port_sync_regs(struct kvm_port_vm *vm)
{
	int fields = vm->ioctl(vm->fd, KVM_CHECK_EXTENSION, (void *)KVM_CAP_SYNC_REGS);

	vm->sync_regs = fields > 0 && fields & KVM_SYNC_X86_REGS;
}

/* KVM copies the registers at each exit, which a guest that reads no counters should not pay for.
 * The VMM may have asked itself. */
void kvm_port_ask_regs(struct kvm_port *p)
{
	if (!p->vm->sync_regs || p->kr->kvm_valid_regs & KVM_SYNC_X86_REGS)
		return;
	p->kr->kvm_valid_regs |= KVM_SYNC_X86_REGS;
	p->regs_asked = true;
}

void kvm_port_take_regs(struct kvm_port *p)
{
	p->rdpmc_synced = p->vm->sync_regs && p->kr->kvm_valid_regs & KVM_SYNC_X86_REGS;
	if (p->regs_asked)
		p->kr->kvm_valid_regs &= ~(uint64_t)KVM_SYNC_X86_REGS;
	p->regs_asked = false;
}

static int rdpmc_get_regs(struct kvm_port *p)
{
	if (!p->rdpmc_synced)
		return p->vm->ioctl(p->fd, KVM_GET_REGS, &p->rdpmc_regs);
	p->rdpmc_regs = p->kr->s.regs.regs;
	return 0;
}

bool kvm_port_may_be_rdpmc(struct kvm_port *p)
{
	const struct kvm_run *kr = p->kr;

	return kr->io.port == KVM_PORT_RDPMC && kr->io.direction == KVM_EXIT_IO_IN &&
	       kr->io.size == 4 && kr->io.count == 1 && !rdpmc_get_regs(p);
}

bool kvm_port_is_rdpmc(struct kvm_port *p, uint32_t *index)
{
	/* RIP is still that of the instruction. */
	if (!kvm_port_may_be_rdpmc(p) || !rdpmc_has_site(p->vm, p->rdpmc_regs.rip))
		return false;
	*index = (uint32_t)p->rdpmc_regs.rcx;
	return true;
}

void kvm_port_rdpmc_complete(struct kvm_port *p, uint64_t data)
{
	uint32_t low = (uint32_t)data;

	memcpy((uint8_t *)p->kr + p->kr->io.data_offset, &low, sizeof(low));
	p->rdpmc_regs.rdx = data >> 32;
	/* Set RAX, too: another version of KVM may take the result from there. */
	p->rdpmc_regs.rax = low;
	if (p->rdpmc_synced) {
		/* KVM_RUN takes them before it completes the IN. */
		p->kr->s.regs.regs = p->rdpmc_regs;
		p->kr->kvm_dirty_regs |= KVM_SYNC_X86_REGS;
		return;
	}
	/* It can only fail if the vCPU does not exist any more. */
	p->vm->ioctl(p->fd, KVM_SET_REGS, &p->rdpmc_regs);
}
