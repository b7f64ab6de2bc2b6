// SPDX-License-Identifier: GPL-2.0-or-later
/* The VM of bed_guest.h, by KVM's system calls on arm64. */
#include <stddef.h>

#include "tests/beds/bed_guest_kvm.h"

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
	struct kvm_vcpu_init init;

	guest_open(g, code, sizeof(code));
	cr_assert(!ioctl(g->vm, KVM_ARM_PREFERRED_TARGET, &init));
	cr_assert(!ioctl(g->vcpu, KVM_ARM_VCPU_INIT, &init), "KVM_ARM_VCPU_INIT: %s",
		  strerror(errno));
	set_reg(g, CORE_REG(pc), BED_GUEST_CODE);
	set_reg(g, CORE_REG(regs[1]), DEVICE_AT);
}

void bed_guest_start(struct bed_guest *g, uint64_t n)
{
	set_reg(g, CORE_REG(regs[0]), n);
}

int bed_guest_run(struct bed_guest *g)
{
	int ret = guest_run(g, KVM_EXIT_MMIO);

	cr_assert(ret || (g->run->mmio.is_write && g->run->mmio.phys_addr == DEVICE_AT));
	return ret;
}

/* ERET counts before it enters the guest. */
uint64_t bed_guest_entries(const struct bed_guest *g)
{
	(void)g;
	return 0;
}
