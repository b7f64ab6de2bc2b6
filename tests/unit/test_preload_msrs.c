// SPDX-License-Identifier: GPL-2.0-or-later
/* As test_preload.c: words of the PMU's state among MSRs, memory that the library reads and writes,
 * and exits of KVM_RUN. */
#include "tests/unit/preload_bed.h"

TestSuite(preload_msrs, .fini = bed_fini);
TestSuite(preload_memory, .fini = bed_fini);
TestSuite(preload_run, .fini = bed_fini);

/* ---- MSRs ---- */

Test(preload_msrs, all_words_of_one_call)
{
	struct msr_list l;
	unsigned int calls;

	bed_on("pmu=intel-v2\ngp=4");
	list_words(&l);
	cr_assert_eq(l.head.nmsrs, WORDS + 2);
	cr_assert_eq(WORDS, 43);
	list_at(&l, 0x10)->data = 1;
	list_at(&l, 0x174)->data = 2;
	list_at(&l, 0xc1)->data = 1000;
	list_at(&l, 0x186)->data = 0x43003c;
	list_at(&l, 0x30a)->data = 3000;
	list_at(&l, 0xc1 + 4)->data = 4000; /* of a counter that the model has not */
	list_at(&l, WORDS_TAG)->data = words_tag(VPMU_GUEST_INTEL_V2, 4, WORDS_TAG, 0);
	calls = fake.calls;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), WORDS + 2);
	cr_assert_eq(calls_of(KVM_SET_MSRS, calls), 1);
	cr_assert_eq(fake.fd[b.vcpu]->s.msrs, 2, "words reach KVM");

	for (uint32_t i = 0; i < l.head.nmsrs; i++)
		l.e[i].data = 0xabab;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), WORDS + 2);
	cr_expect_eq(list_at(&l, 0x10)->data, 1);
	cr_expect_eq(list_at(&l, 0x174)->data, 2);
	cr_expect_eq(list_at(&l, 0xc1)->data, 1000);
	cr_expect_eq(list_at(&l, 0x186)->data, 0x43003c);
	cr_expect_eq(list_at(&l, 0x30a)->data, 3000);
	cr_expect_eq(list_at(&l, 0xc1 + 4)->data, 0);
	cr_expect_eq(list_at(&l, WORDS_TAG)->data, words_tag(VPMU_GUEST_INTEL_V2, 4, WORDS_TAG, 0));
}

/* As many as fit in a call of KVM; one more is KVM's error. */
Test(preload_msrs, longest_list)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e[256];
	} l = {.head.nmsrs = 255};

	bed_on("pmu=intel-v2\ngp=4");
	for (uint32_t i = 0; i < 256; i++)
		l.e[i].index = i == 254 ? 0xc1 : 0x10;
	l.e[254].data = 1000;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), 255);
	l.e[254].data = 0;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 255);
	cr_expect_eq(l.e[254].data, 1000);
	l.head.nmsrs = 256;
	CALL_FAILS(b.vcpu, KVM_GET_MSRS, &l, E2BIG);
}

Test(preload_msrs, index_of_the_first_that_fails)
{
	struct msr_list l = {0};

	bed_on("pmu=intel-v2\ngp=4");
	list_add(&l, 0xc1, 5);
	list_add(&l, 0x10, 6);
	list_add(&l, 0xc2, 7);
	list_add(&l, 0x4711, 8); /* KVM has it not: index 3 */
	list_add(&l, 0xc3, 9);
	list_add(&l, 0x174, 10);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), 3);
	cr_expect_eq(get_msr(0x10), 6);
	cr_expect_eq(get_msr(0xc1), 5);
	cr_expect_eq(get_msr(0xc2), 7);
	cr_expect_eq(get_msr(0xc3), 0, "behind the one that failed");
	for (uint32_t i = 0; i < l.head.nmsrs; i++)
		l.e[i].data = 0xabab;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 3);
	cr_expect_eq(l.e[1].data, 6);
	cr_expect_eq(l.e[2].data, 7);
	cr_expect_eq(l.e[4].data, 0xabab);
	/* A value that no guest can have: reserved bits. */
	l = (struct msr_list){0};
	list_add(&l, 0x10, 1);
	list_add(&l, 0xc1, 1);
	list_add(&l, 0x38d, ~0ull);
	list_add(&l, 0xc2, 1);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), 2);
	l.head.nmsrs = 100000;
	CALL_FAILS(b.vcpu, KVM_GET_MSRS, &l, E2BIG);
	l.head.nmsrs = 0;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 0);
}

Test(preload_msrs, state_of_another_model_is_refused)
{
	const uint64_t tags[] = {words_tag(VPMU_GUEST_INTEL_V2, 5, WORDS_TAG, 0),
				 words_tag(VPMU_GUEST_AMD_CORE, 4, WORDS_TAG, 0),
				 words_tag(VPMU_GUEST_INTEL_V2, 4, WORDS_TAG, 0) + (1ull << 32),
				 77};
	struct msr_list l;

	bed_on("pmu=intel-v2\ngp=4");
	list_words(&l);
	list_at(&l, 0xc1)->data = 55;
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		list_at(&l, WORDS_TAG)->data = tags[i];
		cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l),
			     (int)(list_at(&l, WORDS_TAG) - l.e));
		cr_assert_eq(get_msr(0xc1), 0);
	}
}

Test(preload_msrs, reset)
{
	struct kvm_regs regs = {.rip = 0xfff0, .rflags = 2};
	struct msr_list l;

	bed_on("pmu=intel-v2\ngp=4");
	for (int i = 0; i < 2; i++) {
		list_words(&l);
		l.e[0] = l.e[--l.head.nmsrs];
		list_at(&l, 0xc1)->data = 55;
		list_at(&l, WORDS_TAG)->data = words_tag(VPMU_GUEST_INTEL_V2, 4, WORDS_TAG, 0);
		cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
		cr_assert_eq(get_msr(0xc1), 55);
		regs.rip = 0x1000;
		cr_assert(!call_ioctl(b.vcpu, KVM_SET_REGS, &regs));
		cr_assert_eq(get_msr(0xc1), 55);
		if (i) {
			regs.rip = 0xfff0;
			cr_assert(!call_ioctl(b.vcpu, KVM_SET_REGS, &regs));
			cr_assert_eq(fake.fd[b.vcpu]->s.regs.rip, 0xfff0);
		} else {
			list_words(&l); /* zeros everywhere, which as a value GLOBAL_CTRL is not */
			cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
		}
		cr_assert_eq(get_msr(0xc1), 0);
		cr_assert_eq(get_msr(0x38f), 0xf);
	}
}

/* It has wrapped in the last KVM_RUN, which shows when it is read; the guest goes on elsewhere. */
static void pmi_is_carried(const char *text, bool wraps)
{
	bool intel = strstr(text, "intel");
	uint32_t counter = intel ? 0x30b : 0xc0010201, from;
	struct msr_list l = {0};

	bed_on(text);
	list_add(&l, WORDS_TAG, 0);
	for (uint32_t i = 0; i < 4; i++)
		list_add(&l, i < 3 ? 0x38d + i : 0x30b, 0);
	for (uint32_t i = 0; i < 6; i++) {
		list_add(&l, 0xc1 + i, 0);
		list_add(&l, 0x186 + i, 0);
	}
	RUN(WRMSR(counter, wraps ? 0xffffffffffff : 5),
	    WRMSR(intel ? 0x38d : 0xc0000301, intel ? 0xb00 : 1),
	    WRMSR(intel ? 0x38f : 0xc0010200, intel ? 1ull << 34 : 0x100530120));
	cr_assert_eq(fake.entered.msr.error, 0);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), (int)l.head.nmsrs);
	cr_expect_eq(!!(l.e[0].data & WORDS_PMI), wraps, "%s: 0x%llx", text, l.e[0].data);
	bed_end();

	bed_on(text);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
	from = fake.calls;
	RUN({.reason = KVM_EXIT_HLT});
	cr_expect_eq(calls_of(KVM_GET_LAPIC, from), wraps, "%s", text);
	from = fake.calls;
	call_ioctl(b.vcpu, KVM_RUN, NULL);
	cr_expect_eq(calls_of(KVM_GET_LAPIC, from), 0, "%s: again", text);
	bed_end();
}

Test(preload_msrs, pending_pmi)
{
	for (int wraps = 0; wraps < 2; wraps++) {
		pmi_is_carried("pmu=intel-v2", wraps);
		pmi_is_carried("pmu=amd-v2", wraps);
	}
}

static void *run_and_wait(void *barrier)
{
	struct msr_list l = {0};
	int rc = call_ioctl(b.vcpu, KVM_RUN, NULL);

	list_add(&l, 0xc1, 0);
	if (!rc)
		rc = call_ioctl(b.vcpu, KVM_GET_MSRS, &l) - 1;
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	return rc ? barrier : NULL;
}

Test(preload_msrs, only_the_thread_that_runs_the_vcpu)
{
	struct msr_list l = {0};
	pthread_barrier_t barrier;
	pthread_t t;
	void *rc;

	bed_on("pmu=intel-v2");
	pthread_barrier_init(&barrier, NULL, 2);
	cr_assert(!pthread_create(&t, NULL, run_and_wait, &barrier));
	pthread_barrier_wait(&barrier);
	list_add(&l, 0xc1, 0);
	CALL_FAILS(b.vcpu, KVM_GET_MSRS, &l, EBUSY);
	pthread_barrier_wait(&barrier);
	pthread_join(t, &rc);
	cr_assert_null(rc);
	/* Its number may be another thread's now. */
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 1);
}

/* ---- memory ---- */

static int slot_set(uint32_t slot, uint64_t gpa, uint64_t bytes, uint32_t flags)
{
	struct kvm_userspace_memory_region m = {.slot = slot,
						.flags = flags,
						.guest_phys_addr = gpa,
						.memory_size = bytes,
						.userspace_addr = (uintptr_t)ram};

	return call_ioctl(b.vm, KVM_SET_USER_MEMORY_REGION, &m);
}

Test(preload_memory, slots)
{
	uint64_t left = 0;
	void *vm;

	bed_on("pmu=intel-v2");
	cr_assert_eq(fds_get(b.vm, &vm), FDS_VM);
	fds_put(b.vm);
	cr_assert(!slot_set(1, 0x100000, RAM_BYTES, 0));
	cr_assert(!slot_set(2, 0x800000, 4096, KVM_MEM_READONLY));
	cr_assert(!slot_set(1 << 16 | 3, 0xa00000, 4096, 0));
	cr_expect_eq(memory_hva(vm, 0x100000, &left), ram);
	cr_expect_eq(left, RAM_BYTES);
	cr_expect_eq(memory_hva(vm, 0x100000 + RAM_BYTES - 1, &left), ram + RAM_BYTES - 1);
	cr_expect_eq(left, 1);
	cr_expect_null(memory_hva(vm, 0xfffff, &left));
	cr_expect_null(memory_hva(vm, 0x100000 + RAM_BYTES, &left));
	cr_expect_null(memory_hva(vm, 0x800000, &left), "ROM");
	cr_expect_null(memory_hva(vm, 0xa00000, &left), "another address space");
	/* A slot of the other space leaves the first's of the same number. */
	cr_assert(!slot_set(1 << 16 | 1, 0, 0, 0));
	cr_expect_eq(memory_hva(vm, 0x100000, &left), ram);
	/* A change that KVM refuses leaves the slot. */
	fake.fail_request = KVM_SET_USER_MEMORY_REGION;
	fake.fail_error = -EINVAL;
	cr_assert_eq(slot_set(1, 0x300000, 4096, 0), -1);
	cr_assert_eq(errno, EINVAL);
	fake.fail_request = 0;
	cr_expect_eq(memory_hva(vm, 0x100000, &left), ram);
	cr_expect_null(memory_hva(vm, 0x300000, &left));
	/* It moves, and goes. */
	cr_assert(!slot_set(1, 0x200000, 8192, KVM_MEM_LOG_DIRTY_PAGES));
	cr_expect_null(memory_hva(vm, 0x100000, &left));
	cr_expect_eq(memory_hva(vm, 0x201000, &left), ram + 4096);
	cr_assert(!slot_set(1, 0x200000, 0, 0));
	cr_expect_null(memory_hva(vm, 0x200000, &left));
}

Test(preload_memory, dirty_log_has_pages_that_we_wrote)
{
	uint64_t bits[RAM_BYTES / 4096 / 64];
	struct kvm_dirty_log log = {.slot = 1, .dirty_bitmap = bits};
	void *vm;

	bed_on("pmu=intel-v2");
	cr_assert_eq(fds_get(b.vm, &vm), FDS_VM);
	fds_put(b.vm);
	cr_assert(!slot_set(1, 0x100000, RAM_BYTES, 0));
	cr_assert(!slot_set(2, 0x700000, RAM_BYTES, 0));
	memory_dirty(vm, 0x100000 + 100 * 4096 + 4095, 2); /* two pages */
	memory_dirty(vm, 0x100000 + 100 * 4096, 1);
	memory_dirty(vm, 0x100000 + RAM_BYTES, 1); /* behind the slot */
	memory_dirty(vm, ~0ull, 1);		   /* the last page: it ends */
	for (int i = 0; i < 2; i++) {		   /* each answer has them */
		memset(bits, 0xff, sizeof(bits));
		cr_assert(!call_ioctl(b.vm, KVM_GET_DIRTY_LOG, &log));
		for (size_t k = 0; k < sizeof(bits) / 8; k++)
			cr_expect_eq(bits[k], k == 1 ? 3ull << 36 : 0, "word %zu", k);
	}
	log.slot = 2;
	cr_assert(!call_ioctl(b.vm, KVM_GET_DIRTY_LOG, &log));
	cr_expect_eq(bits[1], 0);
	log.slot = 5;
	CALL_FAILS(b.vm, KVM_GET_DIRTY_LOG, &log, ENOENT);
	for (unsigned int i = 0; i < 2 * VM_DIRTY_MAX; i++)
		memory_dirty(vm, 0x100000 + i * 4096ull, 1);
	log.slot = 1;
	cr_assert(!call_ioctl(b.vm, KVM_GET_DIRTY_LOG, &log));
}

/* ---- KVM_RUN ---- */

Test(preload_run, our_msrs_are_answered)
{
	bed_on("pmu=intel-v2\ngp=4");
	RUN(WRMSR(0xc1, 1234), RDMSR(0x38f));
	cr_assert_eq(fake.runs, 3);
	cr_assert_eq(fake.entered.msr.error, 0);
	cr_assert_eq(fake.entered.msr.data, 0xf);
	cr_assert_eq(bed_run()->exit_reason, KVM_EXIT_HLT);
	cr_assert_eq(get_msr(0xc1), 1234);
	/* #GP: reserved bits, and the other vendor's */
	RUN(WRMSR(0x38d, ~0ull));
	cr_assert_eq(fake.entered.msr.error, 1);
}

Test(preload_run, exits_of_the_vmm_are_untouched)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR, .args = {FILTER}};
	static const uint32_t reason[] = {KVM_EXIT_IO, KVM_EXIT_MMIO, KVM_EXIT_SHUTDOWN,
					  KVM_EXIT_INTERNAL_ERROR, KVM_EXIT_X86_RDMSR};

	bed_on("pmu=intel-v2");
	cr_assert(!call_ioctl(b.vm, KVM_ENABLE_CAP, &cap));
	for (size_t i = 0; i < sizeof(reason) / sizeof(reason[0]); i++) {
		RUN({.reason = reason[i], .msr = 0x606, .data = 99, .why = FILTER});
		cr_assert_eq(fake.runs, 1);
		cr_assert_eq(bed_run()->exit_reason, reason[i]);
		if (reason[i] == KVM_EXIT_X86_RDMSR)
			cr_assert(bed_run()->msr.data == 99 && !bed_run()->msr.error);
	}
	/* An IN of the port that stands for RDPMC elsewhere. */
	RUN({.reason = KVM_EXIT_IO, .msr = 0x33});
	cr_assert_eq(bed_run()->exit_reason, KVM_EXIT_IO);
	EXITS({.rc = -EFAULT});
	CALL_FAILS(b.vcpu, KVM_RUN, NULL, EFAULT);
}

/* The VMM has a filter, but no MSR exits: a denied access is #GP, as without the library. */
Test(preload_run, exits_that_the_vmm_has_not_asked_for)
{
	bed_on("pmu=intel-v2");
	RUN(RDMSR(0x606), {.reason = KVM_EXIT_X86_WRMSR, .msr = 0x606, .why = FILTER});
	cr_assert_eq(bed_run()->exit_reason, KVM_EXIT_HLT);
	cr_assert_eq(fake.runs, 3);
	cr_assert_eq(fake.entered.msr.error, 1);
}

static void vmm_interrupts(struct kvm_run *run)
{
	run->immediate_exit |= 1;
}

Test(preload_run, eintr)
{
	bed_on("pmu=intel-v2");
	/* An alarm is ours; a signal of the VMM's is the VMM's, with and without immediate_exit. */
	RUN({.rc = -EINTR, .immediate = true});
	cr_assert_eq(fake.runs, 2);
	cr_assert_eq(fake.entered.immediate_exit, 0);
	EXITS({.rc = -EINTR});
	CALL_FAILS(b.vcpu, KVM_RUN, NULL, EINTR);
	cr_assert_eq(fake.runs, 1);
	EXITS({.rc = -EINTR, .immediate = true, .act = vmm_interrupts});
	CALL_FAILS(b.vcpu, KVM_RUN, NULL, EINTR);
	cr_assert_eq(bed_run()->immediate_exit, 1, "the VMM's bit");
}

/* errno is the VMM's unless a call fails. */
Test(preload_run, errno_of_calls_that_succeed)
{
	bed_on("pmu=intel-v2");
	errno = 4711;
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_assert_eq(errno, 4711);
}
