// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The state of VMs and vCPUs of the KVM engine as bytes: a guest that is saved and goes on in
 * another VM notices nothing, and bytes that no guest can have are refused. Skipped where /dev/kvm
 * cannot be used; the nested bed runs it on a real KVM.
 */
#include "kvm_bed.h"

#include <errno.h>
#include <stdio.h>

/* The VM that is saved, and the one that goes on. */
static struct guest a, b;

static void end(void)
{
	guest_end();
	if (a.vcpu)
		stop(&a);
	if (b.vcpu)
		stop(&b);
}

TestSuite(kvm_state, .fini = end);

static uint8_t vcpu_state[64 << 10], vm_state[64 << 10];
static size_t vcpu_bytes, vm_bytes;

/* Run @g until nothing waits for an answer, and save its vCPU and, with interrupt controllers, its
 * VM. */
static void save(struct guest *g, bool irqchip)
{
	ops->kick(g->vcpu);
	cr_assert_eq(run(g), VMM_EXIT_INTR);
	vcpu_bytes = sizeof(vcpu_state);
	cr_assert_eq(ops->get_state(g->vcpu, vcpu_state, &vcpu_bytes), 0);
	vm_bytes = sizeof(vm_state);
	cr_assert_eq(ops->get_vm_state(g->vm, vm_state, &vm_bytes), irqchip ? 0 : -ENXIO);
}

/* The saved state of @from goes on as @to, which was just started. */
static int load(struct guest *to, const struct guest *from, bool irqchip)
{
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	int rc = 0;

	memcpy(to->ram, from->ram, RAM_BYTES);
	cr_assert(!ops->get_sregs(from->vcpu, &sregs) && !ops->get_regs(from->vcpu, &regs));
	if (irqchip)
		rc = ops->set_vm_state(to->vm, vm_state, vm_bytes);
	cr_assert(!ops->set_sregs(to->vcpu, &sregs) && !ops->set_regs(to->vcpu, &regs));
	return rc ? rc : ops->set_state(to->vcpu, vcpu_state, vcpu_bytes);
}

/* ... and @a ends. */
static void move(bool irqchip)
{
	cr_assert_eq(load(&b, &a, irqchip), 0);
	stop(&a);
}

/* Sets the state beyond kvm_regs and kvm_sregs, prints 1, and then prints all of it. */
GUEST(registers,
      "mov $0xc0000102, %ecx\n mov $0x55667788, %eax\n xor %edx, %edx\n wrmsr\n"
      "mov $0xc0000082, %ecx\n mov $0x10203040, %eax\n xor %edx, %edx\n wrmsr\n"
      "mov $0x12345000, %rax\n mov %rax, %dr2\n"
      "rdtsc\n shl $32, %rdx\n or %rdx, %rax\n mov %rax, %rbx\n"
      "mov $1, %eax\n out %eax, $0xf4\n"
      "mov $0xc0000102, %ecx\n rdmsr\n out %eax, $0xf5\n"
      "mov $0xc0000082, %ecx\n rdmsr\n out %eax, $0xf5\n"
      "mov %dr2, %rax\n out %eax, $0xf5\n"
      /* How many of 2^32 ticks of the TSC went by. */
      "rdtsc\n shl $32, %rdx\n or %rdx, %rax\n sub %rbx, %rax\n shr $32, %rax\n out %eax, $0xf5\n"
      "mov $2, %eax\n out %eax, $0xf4\n hlt");

/* IA32_MTRR_DEF_TYPE */
GUEST(memory_types, "mov $0x2ff, %ecx\n rdmsr\n out %eax, $0xf5\n hlt");

/* KVM's vCPUs begin as after power-up, and no firmware runs before a stock kernel. */
Test(kvm_state, memory_is_write_back)
{
	START(&g, memory_types);
	EXPECT_OUT(&g, 0xf5, 4, 0x806);
}

static void goes_on(bool irqchip)
{
	START_HOW(&a, registers, .irqchip = irqchip);
	EXPECT_OUT(&a, 0xf4, 4, 1);
	/* The OUT is not complete: KVM has it. */
	vcpu_bytes = sizeof(vcpu_state);
	cr_assert_eq(ops->get_state(a.vcpu, vcpu_state, &vcpu_bytes), -EBUSY);
	save(&a, irqchip);
	START_HOW(&b, registers, .irqchip = irqchip);
	move(irqchip);
	EXPECT_OUT(&b, 0xf5, 4, 0x55667788);
	EXPECT_OUT(&b, 0xf5, 4, 0x10203040);
	EXPECT_OUT(&b, 0xf5, 4, 0x12345000);
	/* It goes on: neither back nor to that of the host. */
	cr_assert(run(&b) == VMM_EXIT_IO && b.run.u.io.port == 0xf5);
	cr_expect_leq(b.run.u.io.data, 3600u, "%u", b.run.u.io.data);
	EXPECT_OUT(&b, 0xf4, 4, 2);
}

Test(kvm_state, registers)
{
	goes_on(false);
}

Test(kvm_state, registers_with_irqchip)
{
	goes_on(true);
}

GUEST(fp, "mov %cr4, %rax\n or $0x600, %eax\n mov %rax, %cr4\n"
	  "mov $0x11223344, %eax\n movd %eax, %xmm7\n fninit\n fldpi\n fld1\n"
	  "mov $1, %eax\n out %eax, $0xf4\n movd %xmm7, %eax\n out %eax, $0xf5\n"
	  "fistpl -64(%rsp)\n mov -64(%rsp), %eax\n out %eax, $0xf5\n"
	  "fistpl -64(%rsp)\n mov -64(%rsp), %eax\n out %eax, $0xf5\n hlt");

Test(kvm_state, floating_point)
{
	START(&a, fp);
	if (run(&a) == VMM_EXIT_ERROR)
		cr_skip_test("%s", a.run.u.error.msg); /* a KVM that interprets CPL 0 */
	cr_assert(a.run.exit == VMM_EXIT_IO && a.run.u.io.data == 1);
	save(&a, false);
	START(&b, fp);
	move(false);
	EXPECT_OUT(&b, 0xf5, 4, 0x11223344);
	EXPECT_OUT(&b, 0xf5, 4, 1);
	EXPECT_OUT(&b, 0xf5, 4, 3);
}

/* x2APIC mode, the APIC on, LVTPC an NMI; then the same twice. */
GUEST(pmi, "mov $0x1b, %ecx\n rdmsr\n or $0xc00, %eax\n wrmsr\n"
	   "mov $0x80f, %ecx\n mov $0x1ff, %eax\n xor %edx, %edx\n wrmsr\n"
	   "mov $0x834, %ecx\n mov $0x400, %eax\n xor %edx, %edx\n wrmsr\n"
	   "mov $1, %eax\n out %eax, $0xf4\n mov $2, %eax\n out %eax, $0xf4\n"
	   "mov $3, %eax\n out %eax, $0xf4\n hlt\n"
	   ".globl guest_state_nmi\n"
	   "guest_state_nmi: push %rax\n mov $0x77, %eax\n out %eax, $0xf5\n pop %rax\n iretq");
extern const char guest_state_nmi[];

/* LVTPC, and the shadow of the mask that an Intel CPU sets. */
Test(kvm_state, pmis)
{
	static const char *const vendors[] = {"AuthenticAMD", "GenuineIntel"};

	for (int intel = 0; intel < 2; intel++) {
		START_HOW(&a, pmi, .irqchip = true, .vendor = vendors[intel]);
		set_gate(&a, 2, CODE + (uint64_t)(guest_state_nmi - guest_pmi));
		EXPECT_OUT(&a, 0xf4, 4, 1);
		cr_assert(!ops->pmi(a.vcpu));
		EXPECT_OUT(&a, 0xf5, 4, 0x77);
		save(&a, true);
		START_HOW(&b, pmi, .irqchip = true, .vendor = vendors[intel]);
		move(true);
		EXPECT_OUT(&b, 0xf4, 4, 2);
		cr_assert(!ops->pmi(b.vcpu));
		if (!intel)
			EXPECT_OUT(&b, 0xf5, 4, 0x77);
		EXPECT_OUT(&b, 0xf4, 4, 3);
		stop(&b);
	}
}

/* An NMI that was queued when the vCPU was saved. */
Test(kvm_state, an_event_that_waits)
{
	START_HOW(&a, pmi, .irqchip = true);
	set_gate(&a, 2, CODE + (uint64_t)(guest_state_nmi - guest_pmi));
	EXPECT_OUT(&a, 0xf4, 4, 1);
	ops->kick(a.vcpu);
	cr_assert_eq(run(&a), VMM_EXIT_INTR);
	cr_assert(!ops->pmi(a.vcpu));
	vcpu_bytes = sizeof(vcpu_state);
	cr_assert_eq(ops->get_state(a.vcpu, vcpu_state, &vcpu_bytes), 0);
	vm_bytes = sizeof(vm_state);
	cr_assert_eq(ops->get_vm_state(a.vm, vm_state, &vm_bytes), 0);
	START_HOW(&b, pmi, .irqchip = true);
	move(true);
	EXPECT_OUT(&b, 0xf5, 4, 0x77);
	EXPECT_OUT(&b, 0xf4, 4, 2);
}

/* IN EAX,33H stands for RDPMC in the other VM, too. */
GUEST(rdpmc, "mov $1, %eax\n out %eax, $0xf4\n mov $5, %ecx\n"
	     ".globl guest_state_site\n guest_state_site: in $0x33, %eax\n"
	     "out %eax, $0xf5\n mov %edx, %eax\n out %eax, $0xf5\n hlt");
extern const char guest_state_site[];

Test(kvm_state, rdpmc_sites)
{
	const uint64_t site = CODE + (uint64_t)(guest_state_site - guest_rdpmc);

	START_HOW(&a, rdpmc, .irqchip = true);
	cr_assert(!ops->rdpmc_sites(a.vm, &site, 1));
	EXPECT_OUT(&a, 0xf4, 4, 1);
	save(&a, true);
	START_HOW(&b, rdpmc, .irqchip = true);
	move(true);
	cr_assert_eq(run(&b), VMM_EXIT_RDPMC, "exit %d of port 0x%x at 0x%llx", b.run.exit,
		     b.run.u.io.port, (unsigned long long)rip(&b));
	cr_assert_eq(b.run.u.pmc.index, 5);
	b.run.u.pmc.data = 0x1200000034;
	EXPECT_OUT(&b, 0xf5, 4, 0x34);
	EXPECT_OUT(&b, 0xf5, 4, 0x12);
}

/* ---- bytes of others ---- */

/* Each byte of our part, some of the kernel's, and every length: refused or loaded, and
 * nothing else happens. A vCPU that took such a state can be destroyed. */
Test(kvm_state, damaged)
{
	unsigned int taken = 0, refused = 0;

	START_HOW(&a, pmi, .irqchip = true);
	EXPECT_OUT(&a, 0xf4, 4, 1);
	save(&a, true);
	START_HOW(&b, pmi, .irqchip = true);
	for (size_t i = 0; i < vcpu_bytes; i += i < 64 ? 1 : 37) {
		int rc;

		vcpu_state[i] ^= 0x81;
		rc = ops->set_state(b.vcpu, vcpu_state, vcpu_bytes);
		cr_assert(!rc || rc == -EINVAL, "byte %zu: %d", i, rc);
		taken += !rc;
		refused += rc != 0;
		vcpu_state[i] ^= 0x81;
		if (i % 8 == 0)
			cr_assert_eq(ops->set_state(b.vcpu, vcpu_state, i), -EINVAL, "length %zu",
				     i);
	}
	cr_expect_gt(refused, 20u);
	for (size_t i = 0; i < vm_bytes; i += i < 64 ? 1 : 7) {
		if (i % 8 == 0 && i < vm_bytes - 12)
			cr_assert_eq(ops->set_vm_state(b.vm, vm_state, i), -EINVAL, "length %zu",
				     i);
	}
	/* The whole is taken after all that. */
	cr_assert_eq(load(&b, &a, true), 0);
	EXPECT_OUT(&b, 0xf4, 4, 2);
	fprintf(stderr, "# %u changes refused, %u taken\n", refused, taken);
}

/* An MSR that is not in the table, twice the same, and one of the PMU: not from a file. */
Test(kvm_state, msrs_of_others)
{
	static const uint32_t bad[][2] = {{0x186, 0},	{0xc1, 0},	 {0x10, 0x10},
					  {0x12, 0x11}, {0xc0000080, 0}, {0x1b, 0}};
	size_t at = 0, n = 0;

	START_HOW(&a, pmi, .irqchip = true);
	EXPECT_OUT(&a, 0xf4, 4, 1);
	save(&a, true);
	for (size_t i = 0; i + 12 < vcpu_bytes && !at; i++)
		if (!memcmp(vcpu_state + i, "MSRS", 4))
			at = i + 12;
	cr_assert(at);
	memcpy(&n, vcpu_state + at - 4, 4);
	cr_assert(n % 12 == 0 && n >= 24);
	START_HOW(&b, pmi, .irqchip = true);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t kept[24];

		memcpy(kept, vcpu_state + at, 24);
		memcpy(vcpu_state + at, &bad[i][0], 4);
		if (bad[i][1])
			memcpy(vcpu_state + at + 12, &bad[i][1], 4);
		cr_expect_eq(ops->set_state(b.vcpu, vcpu_state, vcpu_bytes), -EINVAL, "MSR 0x%x",
			     bad[i][0]);
		memcpy(vcpu_state + at, kept, 24);
	}
	cr_assert_eq(load(&b, &a, true), 0);
}
