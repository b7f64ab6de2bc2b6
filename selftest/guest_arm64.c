// SPDX-License-Identifier: GPL-2.0-or-later
/* The VMs of priv.h on arm64. kvm.c calls this, in workers. */
#if defined(__aarch64__)
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftest/priv.h"

#define RAM_AT	  0x40000000ULL
#define RAM_BYTES 0x10000ULL
#define DEVICE_AT 0x10000000ULL

/* With the MMU off, so every address is a physical one. */
static const uint32_t guest_arm64[] = {
	0xf1000400, /* subs x0, x0, #1 */
	0x54ffffe1, /* b.ne the line above */
	0xb9000020, /* str w0, [x1]: the device, which ends KVM_RUN */
};

#define CORE_REG(field)                                                                            \
	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE |                                     \
	 (offsetof(struct kvm_regs, regs.field) / sizeof(uint32_t)))

static int vm_set(int vcpu, uint64_t id, uint64_t value)
{
	struct kvm_one_reg reg = {.id = id, .addr = (uintptr_t)&value};

	return ioctl(vcpu, KVM_SET_ONE_REG, &reg) ? -errno : 0;
}

static int vm_run(int kvm, int vm, int vcpu, uint64_t n)
{
	const int bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_vcpu_init init;
	struct kvm_run *run;
	int ret;

	if (bytes < 0)
		return -errno;
	run = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		return -errno;
	ret = ioctl(vm, KVM_ARM_PREFERRED_TARGET, &init) || ioctl(vcpu, KVM_ARM_VCPU_INIT, &init)
		      ? -errno
		      : 0;
	if (!ret)
		ret = vm_set(vcpu, CORE_REG(pc), RAM_AT);
	if (!ret)
		ret = vm_set(vcpu, CORE_REG(regs[0]), n);
	if (!ret)
		ret = vm_set(vcpu, CORE_REG(regs[1]), DEVICE_AT);
	while (!ret && ioctl(vcpu, KVM_RUN, 0))
		ret = errno == EINTR ? 0 : -errno;
	if (!ret && run->exit_reason != KVM_EXIT_MMIO)
		ret = -EPROTO;
	munmap(run, (size_t)bytes);
	return ret;
}

int guest_loop(uint64_t n)
{
	struct kvm_userspace_memory_region slot = {.guest_phys_addr = RAM_AT,
						   .memory_size = RAM_BYTES};
	void *ram =
		mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int kvm, vm = -1, vcpu = -1, ret = 0;

	if (ram == MAP_FAILED)
		return -errno;
	memcpy(ram, guest_arm64, sizeof(guest_arm64));
	slot.userspace_addr = (uintptr_t)ram;
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm >= 0)
		vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm >= 0 && !ioctl(vm, KVM_SET_USER_MEMORY_REGION, &slot))
		vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	ret = vcpu < 0 ? -errno : vm_run(kvm, vm, vcpu, n);
	if (vcpu >= 0)
		close(vcpu);
	if (vm >= 0)
		close(vm);
	if (kvm >= 0)
		close(kvm);
	munmap(ram, RAM_BYTES);
	return ret;
}

int guest_pmu(struct guest_seen *seen)
{
	snprintf(seen->why, sizeof(seen->why), "libvpmu gives guests a PMU on x86 only");
	return -EOPNOTSUPP;
}
#endif
