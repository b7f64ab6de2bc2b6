// SPDX-License-Identifier: GPL-2.0-or-later
/* The VM of bed_guest.h, by KVM's system calls on arm64. */
#include "tests/beds/bed_guest.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kvm.h>

#define RAM_AT	  BED_GUEST_CODE
#define RAM_BYTES 0x10000ULL
#define DEVICE_AT 0x10000000ULL

/*
 * The guest: with its MMU off, so every address is a physical one. The store never retires, because
 * KVM carries it out. The guest goes on behind it.
 */
static const uint32_t code[] = {
	0x14000001, /* b the next line */
	0xf1000400, /* subs x0, x0, #1 */
	0x54ffffe1, /* b.ne the line above */
	0xb9000020, /* str w0, [x1]: the device, which ends KVM_RUN */
	0x17fffffd, /* b subs */
};

_Static_assert(sizeof(code) == BED_GUEST_CODE_BYTES, "as the header says");

#define CORE_REG(field)                                                                            \
	(KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE |                                     \
	 (offsetof(struct kvm_regs, regs.field) / sizeof(uint32_t)))

static void set_reg(const struct bed_guest *g, uint64_t id, uint64_t value)
{
	struct kvm_one_reg reg = {.id = id, .addr = (uintptr_t)&value};

	cr_assert(!ioctl(g->vcpu, KVM_SET_ONE_REG, &reg), "KVM_SET_ONE_REG: %s", strerror(errno));
}

void bed_guest_make(struct bed_guest *g)
{
	struct kvm_userspace_memory_region slot = {.guest_phys_addr = RAM_AT,
						   .memory_size = RAM_BYTES};
	struct kvm_vcpu_init init;

	memset(g, 0, sizeof(*g));
	g->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (g->kvm < 0)
		cr_skip_test("/dev/kvm: %s", strerror(errno));
	g->vm = ioctl(g->kvm, KVM_CREATE_VM, 0);
	cr_assert(g->vm >= 0, "KVM_CREATE_VM: %s", strerror(errno));
	g->ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(g->ram != MAP_FAILED);
	memcpy(g->ram, code, sizeof(code));
	slot.userspace_addr = (uintptr_t)g->ram;
	cr_assert(!ioctl(g->vm, KVM_SET_USER_MEMORY_REGION, &slot), "the guest's RAM: %s",
		  strerror(errno));

	g->vcpu = ioctl(g->vm, KVM_CREATE_VCPU, 0);
	cr_assert(g->vcpu >= 0, "KVM_CREATE_VCPU: %s", strerror(errno));
	g->run_bytes = ioctl(g->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	cr_assert(g->run_bytes > 0);
	g->run = mmap(NULL, (size_t)g->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->vcpu, 0);
	cr_assert(g->run != MAP_FAILED);
	cr_assert(!ioctl(g->vm, KVM_ARM_PREFERRED_TARGET, &init));
	cr_assert(!ioctl(g->vcpu, KVM_ARM_VCPU_INIT, &init), "KVM_ARM_VCPU_INIT: %s",
		  strerror(errno));
	set_reg(g, CORE_REG(pc), RAM_AT);
	set_reg(g, CORE_REG(regs[1]), DEVICE_AT);
}

void bed_guest_free(struct bed_guest *g)
{
	munmap(g->run, (size_t)g->run_bytes);
	close(g->vcpu);
	close(g->vm);
	close(g->kvm);
	munmap(g->ram, RAM_BYTES);
}

void bed_guest_start(struct bed_guest *g, uint64_t n)
{
	set_reg(g, CORE_REG(regs[0]), n);
}

int bed_guest_run(struct bed_guest *g)
{
	if (ioctl(g->vcpu, KVM_RUN, 0)) {
		cr_assert_eq(errno, EINTR, "KVM_RUN: %s", strerror(errno));
		return -EINTR;
	}
	cr_assert_eq(g->run->exit_reason, (uint32_t)KVM_EXIT_MMIO, "exit %u", g->run->exit_reason);
	cr_assert(g->run->mmio.is_write && g->run->mmio.phys_addr == DEVICE_AT);
	return 0;
}

/* ERET counts before it enters the guest. */
uint64_t bed_guest_entries(const struct bed_guest *g)
{
	(void)g;
	return 0;
}
