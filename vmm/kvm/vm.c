// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VM of the KVM engine: its memory slots, and the MSRs that exit to the caller. Guests get no
 * in-kernel vPMU: the PMU that they see is libvpmu's, and KVM's own would take the host counters
 * that libvpmu shares. Interrupt controllers: irqchip.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/kvm/kvm_priv.h"

/* KVM needs three pages on Intel hosts to emulate real mode. Their address must be in the first 4
 * GiB where no memory slot is (api.rst, KVM_SET_TSS_ADDR): here, in VMM_KVM_RESERVED. */
#define TSS_ADDRESS 0xfffbd000ul

static int disable_vpmu(struct vmm_engine_vm *vm)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_PMU_CAPABILITY, .args = {KVM_PMU_CAP_DISABLE}};
	int rc = kvm_ioctl(vm->fd, KVM_CHECK_EXTENSION, (void *)KVM_CAP_PMU_CAPABILITY);

	/* Kernels before 5.18 cannot switch their vPMU off. A guest's PMU MSRs are filtered on
	 * them, too. */
	if (rc <= 0 || !(rc & KVM_PMU_CAP_DISABLE))
		return 0;
	return kvm_ioctl(vm->fd, KVM_ENABLE_CAP, &cap);
}

static int enable_msr_exits(struct vmm_engine_vm *vm)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR,
				     .args = {KVM_MSR_EXIT_REASON_INVAL |
					      KVM_MSR_EXIT_REASON_UNKNOWN |
					      KVM_MSR_EXIT_REASON_FILTER}};

	return kvm_ioctl(vm->fd, KVM_ENABLE_CAP, &cap);
}

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
	rc = kvm_ioctl(vm->fd, KVM_SET_TSS_ADDR, (void *)TSS_ADDRESS);
	if (!rc)
		rc = vm_set_memory(vm, ram);
	if (!rc)
		rc = disable_vpmu(vm);
	/* Before any filter: without it a filtered access is #GP instead of an exit. */
	if (!rc)
		rc = enable_msr_exits(vm);
	if (rc < 0)
		goto err_close;
	*out = vm;
	return 0;

err_close:
	close(vm->fd);
err_free:
	free(vm);
	return rc;
}

void kvm_vm_destroy(struct vmm_engine_vm *vm)
{
	if (!vm)
		return;
	close(vm->fd);
	free(vm->rdpmc);
	free(vm);
}

static int by_base(const void *a, const void *b)
{
	const struct vpmu_msr_range *x = a, *y = b;

	return (x->base > y->base) - (x->base < y->base);
}

/*
 * Sort, and join ranges that touch or overlap: KVM is limited to KVM_MSR_FILTER_MAX_RANGES, each
 * with a bitmap of up to KVM_MSR_FILTER_MAX_BITMAP_SIZE bytes. Returns the number left.
 */
static size_t join_ranges(struct vpmu_msr_range *r, size_t n)
{
	size_t in, out = 0;

	qsort(r, n, sizeof(*r), by_base);
	for (in = 1; in < n; in++) {
		uint64_t end = (uint64_t)r[out].base + r[out].count;
		uint64_t in_end = (uint64_t)r[in].base + r[in].count;

		if (r[in].base > end) {
			r[++out] = r[in];
			continue;
		}
		if (in_end > end)
			r[out].count = (uint32_t)(in_end - r[out].base);
	}
	return n ? out + 1 : 0;
}

int kvm_vm_trap_msrs(struct vmm_engine_vm *vm, const struct vpmu_msr_range *r)
{
	/* A clear bit denies; all ranges can use the same zeroes. */
	static uint8_t zeroes[KVM_MSR_FILTER_MAX_BITMAP_SIZE];
	struct kvm_msr_filter filter = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW};
	struct vpmu_msr_range *ranges = NULL;
	size_t n = 0, i;
	int rc = 0;

	while (r[n].count)
		n++;
	if (!n)
		return 0;
	ranges = malloc(n * sizeof(*ranges));
	if (!ranges)
		return -ENOMEM;
	memcpy(ranges, r, n * sizeof(*ranges));
	n = join_ranges(ranges, n);
	if (n > KVM_MSR_FILTER_MAX_RANGES) {
		rc = -E2BIG;
		goto out;
	}
	for (i = 0; i < n; i++) {
		if (ranges[i].count > 8 * sizeof(zeroes)) {
			rc = -E2BIG;
			goto out;
		}
		filter.ranges[i].flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE;
		filter.ranges[i].base = ranges[i].base;
		filter.ranges[i].nmsrs = ranges[i].count;
		filter.ranges[i].bitmap = zeroes;
	}
	rc = kvm_ioctl(vm->fd, KVM_X86_SET_MSR_FILTER, &filter);
out:
	free(ranges);
	return rc;
}
