// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * MSRs that exit to user space. Guests get no in-kernel vPMU: the PMU that they see is libvpmu's,
 * and KVM's own would take the host counters that libvpmu shares.
 *
 * KVM_X86_SET_MSR_FILTER replaces the whole filter, and the first range that holds an MSR decides.
 * So the ranges of a VMM that has a filter itself stand behind ours in the same filter.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vpmu/kvm/port.h"

int kvm_port_ioctl(int fd, unsigned long request, void *arg)
{
	int rc = (int)syscall(SYS_ioctl, fd, request, arg);

	return rc < 0 ? -errno : rc;
}

void kvm_port_vm_init(struct kvm_port_vm *vm, int fd,
		      int (*ioctl)(int fd, unsigned long request, void *arg))
{
	vm->fd = fd;
	vm->ioctl = ioctl ? ioctl : kvm_port_ioctl;
	pthread_mutex_init(&vm->lock, NULL);
}

void kvm_port_vm_fini(struct kvm_port_vm *vm)
{
	pthread_mutex_destroy(&vm->lock);
}

int kvm_port_vpmu_off(struct kvm_port_vm *vm)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_PMU_CAPABILITY, .args = {KVM_PMU_CAP_DISABLE}};
	int rc = vm->ioctl(vm->fd, KVM_CHECK_EXTENSION, (void *)KVM_CAP_PMU_CAPABILITY);

	/* Kernels before 5.18 cannot switch their vPMU off. A guest's PMU MSRs are filtered on
	 * them, too. */
	if (rc <= 0 || !(rc & KVM_PMU_CAP_DISABLE))
		return 0;
	return vm->ioctl(vm->fd, KVM_ENABLE_CAP, &cap);
}

int kvm_port_msr_exits(struct kvm_port_vm *vm, unsigned int reasons)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR,
				     .args = {reasons | KVM_MSR_EXIT_REASON_FILTER}};

	return vm->ioctl(vm->fd, KVM_ENABLE_CAP, &cap);
}

static int range_by_base(const void *a, const void *b)
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

	qsort(r, n, sizeof(*r), range_by_base);
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

static bool range_is_spare(const struct vpmu_msr_range *r, const struct vpmu_msr_range *spare)
{
	for (; spare->count; spare++)
		if (r->base == spare->base && r->count == spare->count)
			return true;
	return false;
}

/* Add the ranges of @theirs behind the *n of @f. */
static int filter_append(struct kvm_msr_filter *f, size_t n, const struct kvm_msr_filter *theirs)
{
	for (unsigned int i = 0; theirs && i < KVM_MSR_FILTER_MAX_RANGES; i++) {
		if (!theirs->ranges[i].nmsrs)
			continue;
		if (n == KVM_MSR_FILTER_MAX_RANGES)
			return -E2BIG;
		f->ranges[n++] = theirs->ranges[i];
	}
	return 0;
}

static int filter_make(struct kvm_msr_filter *f, const struct vpmu_msr_range *r,
		       const struct vpmu_msr_range *spare, const struct kvm_msr_filter *theirs)
{
	/* A clear bit denies; all ranges can use the same zeroes. */
	static uint8_t zeroes[KVM_MSR_FILTER_MAX_BITMAP_SIZE];
	struct vpmu_msr_range ranges[2 * KVM_MSR_FILTER_MAX_RANGES];
	size_t n = 0;

	*f = (struct kvm_msr_filter){.flags =
					     theirs ? theirs->flags : KVM_MSR_FILTER_DEFAULT_ALLOW};
	for (; r->count; r++) {
		if (spare && range_is_spare(r, spare))
			continue;
		if (n == sizeof(ranges) / sizeof(ranges[0]))
			return -E2BIG;
		ranges[n++] = *r;
	}
	n = join_ranges(ranges, n);
	if (n > KVM_MSR_FILTER_MAX_RANGES)
		return -E2BIG;
	for (size_t i = 0; i < n; i++) {
		if (ranges[i].count > 8 * sizeof(zeroes))
			return -E2BIG;
		f->ranges[i].flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE;
		f->ranges[i].base = ranges[i].base;
		f->ranges[i].nmsrs = ranges[i].count;
		f->ranges[i].bitmap = zeroes;
	}
	return filter_append(f, n, theirs);
}

int kvm_port_filter(struct kvm_port_vm *vm, const struct vpmu_msr_range *r,
		    const struct vpmu_msr_range *spare, const struct kvm_msr_filter *theirs)
{
	struct kvm_msr_filter f;
	int rc = filter_make(&f, r, NULL, theirs);

	if (rc == -E2BIG && spare)
		rc = filter_make(&f, r, spare, theirs);
	return rc ? rc : vm->ioctl(vm->fd, KVM_X86_SET_MSR_FILTER, &f);
}
