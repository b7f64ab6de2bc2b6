/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For tests of vpmu/kvm.h over a KVM of this file: a vCPU whose exits the test makes, a local APIC
 * of one register, and guest memory. What a real KVM does with it: examples/vmm.c.
 */
#ifndef TESTS_UNIT_FAKE_KVM_H
#define TESTS_UNIT_FAKE_KVM_H

#include <criterion/criterion.h>

#include <errno.h>
#include <linux/kvm.h>
#include <string.h>

#include "vpmu/emupmu.h"
#include "vpmu/guest/guest.h"
#include "vpmu/host.h"
#include "vpmu/kvm.h"

enum { VM_FD = 1000, VCPU_FD = 1001, RAM = 8 << 20 };

static struct {
	struct kvm_msr_filter filter;
	unsigned int msr_reasons, vpmu_off;
	int filter_error;
	uint32_t lvtpc;
	unsigned int nmis, msis;
	struct kvm_msi msi;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	bool no_filter_cap, has_vcpu;
	unsigned int regs_read, regs_written;
	bool sync;	/* KVM_CAP_SYNC_REGS */
	uint64_t asked; /* kvm_valid_regs in the last KVM_RUN */
} fake;

static union {
	struct kvm_run run;
	uint8_t bytes[8192];
} kr;
static uint8_t *ram;
static unsigned int dirtied;

static inline int fake_enable(const struct kvm_enable_cap *cap)
{
	if (cap->cap == KVM_CAP_PMU_CAPABILITY) {
		fake.vpmu_off++;
		return fake.has_vcpu ? -EINVAL : 0;
	}
	fake.msr_reasons = (unsigned int)cap->args[0];
	return 0;
}

static inline int fake_ioctl(int fd, unsigned long request, void *arg)
{
	struct kvm_lapic_state *lapic = arg;

	cr_assert(fd == VM_FD || fd == VCPU_FD);
	switch (request) {
	case KVM_CHECK_EXTENSION:
		if ((unsigned long)arg == KVM_CAP_SYNC_REGS)
			return fake.sync ? KVM_SYNC_X86_VALID_FIELDS : 0;
		return !(fake.no_filter_cap && (unsigned long)arg == KVM_CAP_X86_MSR_FILTER);
	case KVM_ENABLE_CAP:
		return fake_enable(arg);
	case KVM_X86_SET_MSR_FILTER:
		fake.filter = *(struct kvm_msr_filter *)arg;
		return fake.filter_error;
	case KVM_GET_LAPIC:
		memcpy(lapic->regs + 0x340, &fake.lvtpc, 4);
		return 0;
	case KVM_NMI:
		fake.nmis++;
		return 0;
	case KVM_SIGNAL_MSI:
		fake.msi = *(struct kvm_msi *)arg;
		fake.msis++;
		return 1;
	case KVM_GET_REGS:
		fake.regs_read++;
		*(struct kvm_regs *)arg = fake.regs;
		return 0;
	case KVM_SET_REGS:
		fake.regs_written++;
		fake.regs = *(struct kvm_regs *)arg;
		return 0;
	case KVM_GET_SREGS:
		*(struct kvm_sregs *)arg = fake.sregs;
		return 0;
	default:
		cr_assert_fail("ioctl 0x%lx", request);
		return -EINVAL;
	}
}

static inline void *fake_hva(void *arg, uint64_t gpa, uint64_t *left)
{
	if (gpa >= RAM)
		return NULL;
	*left = RAM - gpa;
	return ram + gpa;
}

static inline void fake_dirty(void *arg, uint64_t gpa, uint64_t bytes)
{
	dirtied++;
}

/* The VM of the test that runs. */
static struct bed {
	struct vpmu_host *host;
	struct vpmu_guest_cfg cfg;
	struct vpmu_kvm_vm_opts opts;
	struct vpmu_kvm_vm *vm;
	struct vpmu_kvm_vcpu *v;
	struct vpmu_emupmu emu;
	char why[200];
} b;

static inline void bed_vm(enum vpmu_guest_model model, unsigned int flags)
{
	memset(&fake, 0, sizeof(fake));
	memset(&kr, 0, sizeof(kr));
	dirtied = 0;
	if (!ram)
		ram = calloc(1, RAM);
	b = (struct bed){.cfg.model = model};
	b.host = vpmu_host_create();
	b.opts = (struct vpmu_kvm_vm_opts){.size = sizeof(b.opts),
					   .fd = VM_FD,
					   .flags = flags,
					   .guest = &b.cfg,
					   .host = b.host,
					   .hva = fake_hva,
					   .dirty = fake_dirty,
					   .ioctl = fake_ioctl};
}

static inline int bed_open(void)
{
	return vpmu_kvm_vm_open(&b.opts, &b.vm, b.why, sizeof(b.why));
}

static inline void bed_vcpu(unsigned int id)
{
	struct vpmu_kvm_vcpu_opts o = {
		.size = sizeof(o), .fd = VCPU_FD, .run = &kr.run, .id = id, .pmu = &b.emu.pmu};

	cr_assert(!vpmu_emupmu_init(&b.emu, NULL));
	cr_assert(!vpmu_kvm_vcpu_open(b.vm, &o, &b.v, b.why, sizeof(b.why)), "%s", b.why);
}

static inline void bed_new(enum vpmu_guest_model model, unsigned int flags)
{
	bed_vm(model, flags);
	cr_assert(!bed_open(), "%s", b.why);
	bed_vcpu(3);
}

static inline void bed_end(void)
{
	if (b.v)
		cr_assert(!vpmu_kvm_vcpu_close(b.v));
	if (b.vm)
		vpmu_kvm_vm_close(b.vm);
	vpmu_host_destroy(b.host);
	b.host = NULL;
}

/* The .fini of suites. */
static inline void bed_fini(void)
{
	if (b.host)
		bed_end();
}

/* ---- exits ---- */

/* KVM_RUN begins with registers that the VMM has changed, and ends with those that it asks for. */
static inline void fake_run(void)
{
	if (kr.run.kvm_dirty_regs & KVM_SYNC_X86_REGS)
		fake.regs = kr.run.s.regs.regs;
	kr.run.kvm_dirty_regs = 0;
	memset(&kr.run.s, 0x5a, sizeof(kr.run.s));
	fake.asked = kr.run.kvm_valid_regs;
	if (kr.run.kvm_valid_regs & KVM_SYNC_X86_REGS)
		kr.run.s.regs.regs = fake.regs;
}

static inline int wrmsr(uint32_t msr, uint64_t val)
{
	cr_assert(!vpmu_kvm_enter(b.v));
	fake_run();
	kr.run.exit_reason = KVM_EXIT_X86_WRMSR;
	kr.run.msr.index = msr;
	kr.run.msr.data = val;
	kr.run.msr.error = 9;
	cr_assert_eq(vpmu_kvm_leave(b.v, 0), VPMU_KVM_AGAIN);
	return kr.run.msr.error;
}

static inline uint64_t rdmsr(uint32_t msr)
{
	cr_assert(!vpmu_kvm_enter(b.v));
	kr.run.exit_reason = KVM_EXIT_X86_RDMSR;
	kr.run.msr.index = msr;
	kr.run.msr.error = 9;
	cr_assert_eq(vpmu_kvm_leave(b.v, 0), VPMU_KVM_AGAIN);
	cr_assert_eq(kr.run.msr.error, 0);
	return kr.run.msr.data;
}

/* The guest retires @n instructions, and exits with something of the VMM's. */
static inline void retire(uint64_t n)
{
	cr_assert(!vpmu_kvm_enter(b.v));
	vpmu_emu_add(b.emu.tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, n);
	fake_run();
	kr.run.exit_reason = KVM_EXIT_HLT;
	cr_assert_eq(vpmu_kvm_leave(b.v, 0), VPMU_KVM_EXIT);
}

#define AMD_INSNS 0x5300c0ull /* EN, INT, OS, USR, instructions */

static inline void count_from(uint64_t value)
{
	cr_assert_eq(wrmsr(0xc0010201, value), 0);
	cr_assert_eq(wrmsr(0xc0010200, AMD_INSNS), 0);
}

#endif
