// SPDX-License-Identifier: GPL-2.0-or-later
/* RDPMC of stock kernels by vpmu/kvm.h over a fake KVM: found, rewritten, answered; guest memory
 * has page tables. */

#include "tests/unit/fake_kvm.h"
#include "vpmu/kvm/priv.h"

#define TEXT_VA	 0xffffffff81000000ull
#define TEXT_GPA (4ull << 20)
#define SITE	 0x1234
#define DECOY	 0x3001

/* Kernel text of one-byte NOPs in the 2-MiB page at @gpa, with a native_read_pmc(), and bytes that
 * look like one inside of MOV EAX,imm32. It executes at @va. */
static void make_kernel_at(uint64_t va, uint64_t gpa)
{
	static const uint8_t read_pmc[] = {0x0f, 0x33, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0};
	static const uint8_t decoy[] = {0xb8, 0x90, 0x0f, 0x33, 0x90, 0x48, 0xc1, 0xe2, 0x20};
	uint64_t e[] = {0x2003, 0x3003, gpa | 0x83};

	memset(ram, 0, TEXT_GPA);
	memcpy(ram + 0x1000 + 8 * (va >> 39 & 511), &e[0], 8);
	memcpy(ram + 0x2000 + 8 * (va >> 30 & 511), &e[1], 8);
	memcpy(ram + 0x3000 + 8 * (va >> 21 & 511), &e[2], 8);
	memset(ram + gpa, 0x90, 2 << 20);
	memcpy(ram + gpa + SITE, read_pmc, sizeof(read_pmc));
	memcpy(ram + gpa + DECOY, decoy, sizeof(decoy));
	/* Many such MOVs before it, so that starts there agree on the MOV. */
	for (unsigned int i = 1; i < 40; i++)
		memcpy(ram + gpa + DECOY - 5 * i, (uint8_t[]){0xb8, 0x90, 0x90, 0x90, 0x90}, 5);
	fake.regs.rip = va + 0x8000;
	fake.sregs.cr3 = 0x1000;
	fake.sregs.efer = 1 << 10;
}

static void make_kernel(void)
{
	memset(ram, 0, RAM);
	make_kernel_at(TEXT_VA, TEXT_GPA);
}

static void init(void)
{
	bed_new(VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	make_kernel();
}

TestSuite(kvm_rdpmc, .init = init, .fini = bed_fini);

/* How many there are. */
static size_t sites(void)
{
	size_t n = 0;

	vpmu_kvm_rdpmc_sites(b.vm, NULL, &n);
	return n;
}

static enum vpmu_kvm_next in_eax(uint64_t rip, uint32_t ecx)
{
	fake.regs.rip = rip;
	fake.regs.rcx = ecx;
	fake.regs.rdx = 0xdead;
	cr_assert(!vpmu_kvm_enter(b.v));
	fake_run();
	kr.run.exit_reason = KVM_EXIT_IO;
	kr.run.io.direction = KVM_EXIT_IO_IN;
	kr.run.io.size = 4;
	kr.run.io.count = 1;
	kr.run.io.port = 0x33;
	kr.run.io.data_offset = 4096;
	return vpmu_kvm_leave(b.v, 0);
}

Test(kvm_rdpmc, rdpmc_is_found_and_answered)
{
	uint64_t rip[2] = {0};
	size_t n = 2;
	uint32_t eax;

	count_from(0x700000001);
	vpmu_kvm_rdpmc_sites(b.vm, rip, &n);
	cr_assert_eq(n, 1);
	cr_expect_eq(rip[0], TEXT_VA + SITE);
	cr_expect(!memcmp(ram + TEXT_GPA + SITE, "\xe5\x33", 2));
	cr_expect(!memcmp(ram + TEXT_GPA + DECOY + 2, "\x0f\x33", 2), "a constant was rewritten");
	cr_expect_eq(dirtied, 1);
	cr_assert_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	memcpy(&eax, kr.bytes + 4096, 4);
	cr_expect_eq(eax, 1);
	cr_expect_eq(fake.regs.rdx, 7);
	/* Elsewhere an IN is an IN. */
	cr_expect_eq(in_eax(TEXT_VA + 0x100, 0), VPMU_KVM_EXIT);
	cr_expect_eq(vpmu_kvm_rdpmc_restore(b.vm), 1);
	cr_expect(!memcmp(ram + TEXT_GPA + SITE, "\x0f\x33", 2));
	cr_expect_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_EXIT);
}

/* A vCPU of a KVM with KVM_CAP_SYNC_REGS, whose kernel counts. */
static void bed_of_kernel(void)
{
	bed_end();
	bed_vm(VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	fake.sync = true;
	cr_assert(!bed_open(), "%s", b.why);
	bed_vcpu(3);
	make_kernel();
	count_from(0x700000001);
	/* It learns which exits RDPMC comes after: WRMSR of a select, and RDPMC. */
	wrmsr(0xc0010200, 0);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
		cr_expect_eq(fake.asked, 0);
		cr_expect_eq(fake.regs.rdx, 7);
	}
	wrmsr(0xc0010200, 0);
}

/* As a guest's kernel does at a context switch, WRMSR before each RDPMC. */
Test(kvm_rdpmc, rdpmc_without_system_calls)
{
	uint32_t eax;

	bed_of_kernel();
	fake.regs_read = fake.regs_written = 0;
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
		memcpy(&eax, kr.bytes + 4096, 4);
		cr_expect_eq(eax, 1);
		cr_expect_eq(fake.regs.rdx, 0xdead);
		wrmsr(0xc0010200, 0);
		cr_expect_eq(fake.regs.rdx, 7);
		cr_expect_eq(fake.regs.rcx, 0);
		cr_expect_eq(fake.regs.rip, TEXT_VA + SITE);
	}
	cr_expect_eq(fake.regs_read + fake.regs_written, 0);
	cr_expect_eq(fake.asked, KVM_SYNC_X86_REGS);
	/* Nor does a guest pay for it behind accesses that no RDPMC has come after, */
	wrmsr(0xc0010201, 1);
	wrmsr(0xc0010201, 0x700000001);
	cr_expect_eq(fake.asked, 0);
	rdmsr(0xc0010201);
	retire(1);
	cr_expect_eq(fake.asked, 0);
	/* or that is not at its PMU. */
	wrmsr(0xc0010200, 0);
	retire(1);
	cr_expect_eq(fake.asked, KVM_SYNC_X86_REGS);
	retire(1);
	retire(1);
	cr_expect_eq(fake.asked, 0);
	/* The first RDPMC behind another exit is answered all the same. */
	cr_assert_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	cr_expect_eq(fake.regs.rdx, 7);
	cr_expect_eq(fake.regs_read, 1);
	/* What the VMM itself has asked for stays. */
	kr.run.kvm_valid_regs |= KVM_SYNC_X86_SREGS;
	retire(1);
	cr_expect_eq(kr.run.kvm_valid_regs, KVM_SYNC_X86_SREGS);
	kr.run.kvm_valid_regs = KVM_SYNC_X86_REGS;
	wrmsr(0xc0010200, 0);
	retire(1);
	cr_expect_eq(kr.run.kvm_valid_regs, KVM_SYNC_X86_REGS);
}

static int kvm_run_ends(int rc)
{
	cr_assert(!vpmu_kvm_enter(b.v));
	fake_run();
	return (int)vpmu_kvm_leave(b.v, rc);
}

/* Between KVM_RUNs kvm_valid_regs is the VMM's, however they end; and it may unmap kvm_run before
 * the thread is released. */
Test(kvm_rdpmc, registers_are_asked_for_in_kvm_run_only)
{
	bed_of_kernel();
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	cr_assert_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	cr_expect_eq(fake.asked, KVM_SYNC_X86_REGS);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	/* A kick of the VMM: KVM_RUN takes the answer first. */
	cr_expect_eq(kvm_run_ends(-EINTR), VPMU_KVM_INTERRUPTED);
	cr_expect_eq(fake.regs.rdx, 7);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	/* Registers that the VMM sets there are not lost to those of the answer. */
	cr_expect_eq(kr.run.kvm_dirty_regs, 0);
	cr_expect_eq(kvm_run_ends(-EFAULT), VPMU_KVM_EXIT);
	cr_expect_eq(fake.asked, KVM_SYNC_X86_REGS);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	/* The VMM begins to ask while it has the vCPU. */
	kr.run.kvm_valid_regs = KVM_SYNC_X86_REGS;
	wrmsr(0xc0010200, 0);
	cr_assert_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	retire(1);
	cr_expect_eq(kr.run.kvm_valid_regs, KVM_SYNC_X86_REGS);
	/* Without KVM_RUN between them */
	kr.run.kvm_valid_regs = 0;
	wrmsr(0xc0010200, 0);
	cr_assert(!vpmu_kvm_enter(b.v));
	wrmsr(0xc0010200, 0);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	cr_assert_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	memset(&kr, 0xa5, sizeof(kr)); /* no longer kvm_run */
	vpmu_kvm_release(b.v);
	for (size_t i = 0; i < sizeof(kr.run); i++)
		cr_assert_eq(((uint8_t *)&kr.run)[i], 0xa5, "byte %zu", i);
}

Test(kvm_rdpmc, rdpmc_is_adopted)
{
	ram[TEXT_GPA + SITE] = 0xe5; /* another process did */
	fake.sregs.cs.selector = 3;
	cr_expect_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_EXIT);
	fake.sregs.cs.selector = 0;
	cr_expect_eq(in_eax(TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	cr_expect_eq(sites(), 1);
}

/* Nothing mapped, page tables that point nowhere or to themselves: no site, and no end of work. */
Test(kvm_rdpmc, rdpmc_in_hostile_tables)
{
	memset(ram, 0xff, 0x4000);
	cr_assert_eq(wrmsr(0xc0010200, 0), 0);
	for (uint64_t i = 0; i < 512; i++) {
		uint64_t e = 0x1003;

		memcpy(ram + 0x1000 + 8 * i, &e, 8);
	}
	for (uint64_t i = 0; i < 2 * VPMU_KVM_SEARCHES; i++) {
		fake.regs.rip = i << 39 | 0x123;
		cr_assert_eq(wrmsr(0xc0010200, 0), 0);
	}
	cr_expect_eq(sites(), 0);
}

/* A kernel other than Linux: its writes to PMU MSRs stop costing system calls. */
Test(kvm_rdpmc, rdpmc_that_is_never_found_costs_little)
{
	unsigned int before;

	memset(ram + TEXT_GPA, 0x90, 2 << 20);
	for (unsigned int i = 0; i < 1000; i++)
		cr_assert_eq(wrmsr(0xc0010200, 0), 0);
	cr_expect_leq(fake.regs_read, 300);
	/* Another machine's kernel is looked at again. */
	before = fake.regs_read;
	vpmu_kvm_vm_reset(b.vm);
	cr_assert_eq(wrmsr(0xc0010200, 0), 0);
	cr_expect_gt(fake.regs_read, before);
}

/* kexec: another kernel, whose driver starts like the first one's, at another address or not. It
 * reads its selects by RDMSR then, which are off, and the old kernel's memory stays. */
Test(kvm_rdpmc, rdpmc_is_found_after_kexec)
{
	static const struct {
		uint64_t va, gpa;
	} next[] = {
		{TEXT_VA + (6 << 20), 6 << 20}, /* elsewhere */
		{TEXT_VA, 6 << 20},		/* in the same place of its address space */
		{TEXT_VA, TEXT_GPA},		/* in the first one's place */
		{TEXT_VA, TEXT_GPA},
	};
	unsigned int before;

	count_from(5);
	for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
		make_kernel_at(next[i].va, next[i].gpa);
		cr_expect_eq(rdmsr(0xc0010202), 0);
		cr_expect(!memcmp(ram + next[i].gpa + SITE, "\xe5\x33", 2), "kernel %zu", i);
		cr_expect_eq(dirtied, 2 + i);
		cr_expect_eq(in_eax(next[i].va + SITE, 0), VPMU_KVM_AGAIN);
		/* The same kernel again: it is known, and nothing is searched. */
		fake.regs.rip = next[i].va + 0x9000;
		before = (unsigned int)b.vm->nr_searched;
		rdmsr(0xc0010202);
		cr_expect_eq(b.vm->nr_searched, before);
	}
}

/* What a running Linux does at each switch on AMD's models (x86_pmu_disable_all, and then
 * amd_pmu_test_overflow_topbit) costs no look, so that one is left for another kernel. */
Test(kvm_rdpmc, rdpmc_is_found_after_a_kernel_that_counts)
{
	unsigned int before;

	count_from(5);
	before = fake.regs_read;
	for (int i = 0; i < 1000; i++) {
		cr_expect_eq(rdmsr(0xc0010200), AMD_INSNS);
		wrmsr(0xc0010200, AMD_INSNS & ~(1u << 22));
		cr_expect_eq(rdmsr(0xc0010201), 5);
		wrmsr(0xc0010200, AMD_INSNS);
	}
	cr_expect_eq(fake.regs_read, before);
	make_kernel_at(TEXT_VA + (6 << 20), 6 << 20);
	rdmsr(0xc0010202);
	cr_expect(!memcmp(ram + (6 << 20) + SITE, "\xe5\x33", 2));
}

/* More kernels than sites, and a guest that lets a driver start all the time. */
Test(kvm_rdpmc, rdpmc_of_many_kernels_is_bounded)
{
	for (unsigned int i = 0; i < 3 * VPMU_KVM_SEARCHES; i++) {
		make_kernel_at(TEXT_VA + ((uint64_t)i << 21), TEXT_GPA);
		rdmsr(0xc0010202);
	}
	cr_expect_eq(b.vm->nr_searched, VPMU_KVM_SEARCHES);
	cr_expect_eq(ram[TEXT_GPA + SITE], 0x0f, "it was searched without limit");
	for (unsigned int i = 0; i < 1000; i++)
		rdmsr(0xc0010202);
	cr_expect_leq(fake.regs_read, 256);
	/* Time allows one search more. */
	for (unsigned int i = 0; i < 2 * VPMU_KVM_SITES; i++) {
		uint64_t va = TEXT_VA + ((uint64_t)i << 21);

		make_kernel_at(va, TEXT_GPA);
		b.vm->replenished_ns = 0;
		rdmsr(0xc0010202);
		cr_assert_eq(ram[TEXT_GPA + SITE], 0xe5, "kernel %u", i);
		cr_assert_eq(in_eax(va + SITE, 0), VPMU_KVM_AGAIN);
		rdmsr(0xc0010202);
	}
	cr_expect_eq(b.vm->nr_searched, VPMU_KVM_SEARCHES + 2 * VPMU_KVM_SITES);
	cr_expect_leq(sites(), VPMU_KVM_SITES);
	/* All are in one place: one instruction to put back. */
	cr_expect_eq(vpmu_kvm_rdpmc_restore(b.vm), 1);
}

/* What is where an RDPMC was is the guest's once its kernel is gone. */
Test(kvm_rdpmc, rdpmc_is_not_put_into_data)
{
	count_from(5);
	memset(ram + TEXT_GPA + SITE + 2, 0, 64);
	cr_expect_eq(vpmu_kvm_rdpmc_restore(b.vm), 0);
	cr_expect_eq(ram[TEXT_GPA + SITE], 0xe5);
}
