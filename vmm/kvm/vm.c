// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VM of the KVM engine: its memory slots. The MSRs that exit to the caller are vpmu/kvm's.
 * Interrupt controllers: irqchip.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "vmm/kvm/kvm_priv.h"

/* KVM needs three pages on Intel hosts to emulate real mode. Their address must be in the first 4
 * GiB where no memory slot is (api.rst, KVM_SET_TSS_ADDR): here, in VMM_KVM_RESERVED. */
#define TSS_ADDRESS 0xfffbd000ul

static int vm_set_memory(struct vmm_engine_vm *vm, const struct vmm_ram *ram)
{
	int rc = 0;

	for (unsigned int i = 0; i < ram->nr && !rc; i++) {
		struct kvm_userspace_memory_region region = {
			.slot = i,
			.guest_phys_addr = ram->slot[i].gpa,
			.memory_size = ram->slot[i].bytes,
			.userspace_addr = (uintptr_t)ram->base + ram->slot[i].gpa,
		};

		rc = kvm_ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region);
	}
	return rc;
}

int kvm_vm_create(struct vmm_engine *e, const struct vmm_ram *ram, struct vmm_engine_vm **out)
{
	struct vmm_engine_vm *vm;
	int rc;

	if (!vmm_ram_valid(ram, UINT64_MAX) || vmm_ram_holds(ram, VMM_KVM_RESERVED, 1))
		return -EINVAL;
	vm = calloc(1, sizeof(*vm));
	if (!vm)
		return -ENOMEM;
	vm->engine = e;
	rc = vm->fd = kvm_create_vm_fd(e);
	if (rc < 0)
		goto err_free;
	kvm_port_vm_init(&vm->port, vm->fd, kvm_ioctl);
	rc = kvm_ioctl(vm->fd, KVM_SET_TSS_ADDR, (void *)TSS_ADDRESS);
	if (!rc)
		rc = vm_set_memory(vm, ram);
	if (!rc)
		rc = kvm_port_vpmu_off(&vm->port);
	if (!rc)
		rc = kvm_port_msr_exits(&vm->port,
					KVM_MSR_EXIT_REASON_INVAL | KVM_MSR_EXIT_REASON_UNKNOWN);
	if (rc < 0)
		goto err_close;
	*out = vm;
	return 0;

err_close:
	kvm_port_vm_fini(&vm->port);
	close(vm->fd);
err_free:
	free(vm);
	return rc;
}

void kvm_vm_destroy(struct vmm_engine_vm *vm)
{
	if (!vm)
		return;
	kvm_port_vm_fini(&vm->port);
	close(vm->fd);
	free(vm);
}

int kvm_vm_trap_msrs(struct vmm_engine_vm *vm, const struct vpmu_msr_range *r)
{
	return r->count ? kvm_port_filter(&vm->port, r, NULL, NULL) : 0;
}

int kvm_vm_rdpmc_sites(struct vmm_engine_vm *vm, const uint64_t *rip, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++)
		rc = kvm_port_add_site(&vm->port, rip[i]);
	return rc;
}
