// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The preloaded library over a kernel of the test's (preload_bed.h): the VMM is the test, and calls
 * what interpose.c calls. With a stock QEMU on a real KVM: tests/preload. A state of AMD's models:
 * test_preload_qemu11.c.
 */
#include "tests/unit/preload_bed.h"

/* ---- descriptors ---- */

Test(preload_fds, vm_and_vcpu_go_in_either_order)
{
	struct bed b;
	int vcpu;

	bed_on(&b, "pmu=intel-v2");
	bed_end(&b);
	bed_on(&b, "pmu=amd-core");
	vcpu = b.vcpu;
	cr_assert(!vmm_close(b.vm));
	b.vm = b.vcpu = -1;
	cr_assert(!vmm_close(vcpu));
	bed_end(&b);
}

Test(preload_fds, number_is_used_again)
{
	struct bed b;
	void *obj;
	int fd;

	bed_on(&b, "pmu=intel-v2");
	fd = b.vcpu;
	cr_assert(!vmm_close(fd));
	cr_assert_eq(fds_get(fd, &obj), FDS_NONE);
	/* Another kind of file under the number is left alone. */
	b.vcpu = fake_new(FAKE_DEV, NULL);
	cr_assert_eq(b.vcpu, fd);
	cr_assert_eq(call_ioctl(fd, KVM_RUN, NULL), -1);
	cr_assert_eq(errno, ENOTTY);
	vmm_close(fd);
	/* and another vCPU is one. */
	bed_vcpu(&b, call_ioctl);
	cr_assert_eq(b.vcpu, fd);
	cr_assert_eq(fds_get(fd, &obj), FDS_VCPU);
	fds_put(fd);
	bed_end(&b);
}

static bool counts(int vcpu)
{
	EXITS({.reason = KVM_EXIT_X86_WRMSR, .msr = 0xc1, .data = 1, .why = FILTER});
	return !call_ioctl(vcpu, KVM_RUN, NULL) && fake.runs == 2 && !fake.entered.msr.error;
}

/* vCPUs go on without their VM's descriptor, and so does their PMU. */
Test(preload_fds, vm_is_closed_while_its_vcpu_runs)
{
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	cr_assert(!vmm_close(b.vm));
	b.vm = -1;
	cr_expect(counts(b.vcpu));
	cr_expect(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
	bed_end(&b);
}

Test(preload_fds, duplicates_are_followed)
{
	struct kvm_userspace_memory_region m = {.memory_size = RAM_BYTES};
	int vm, vcpu;
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	vm = vmm_dup(b.vm);
	vcpu = vmm_dup(b.vcpu);
	cr_expect(counts(vcpu) && counts(b.vcpu));
	/* The first ones go, and their numbers are other files. */
	cr_assert(!vmm_close(b.vm) && !vmm_close(b.vcpu));
	cr_assert_eq(fake_new(FAKE_DEV, NULL), b.vm);
	cr_assert_eq(fake_new(FAKE_DEV, NULL), b.vcpu);
	cr_expect(counts(vcpu));
	cr_expect(!call_ioctl(vm, KVM_SET_USER_MEMORY_REGION, &m));
	cr_assert_eq(fake.fd[vm]->s.slot[0].memory_size, RAM_BYTES);
	sys_close(b.vm);
	sys_close(b.vcpu);
	/* A duplicate of something else is none. */
	b.vm = vmm_dup(b.dev);
	cr_expect_eq(call_ioctl(b.vm, KVM_RUN, NULL), -1);
	sys_close(b.vm);
	b.vm = vm;
	b.vcpu = vcpu;
	bed_end(&b);
}

Test(preload_fds, close_range)
{
	struct bed b;
	void *obj;

	bed_on(&b, "pmu=intel-v2");
	cr_expect(b.vcpu > b.vm);
	vmm_close_range((unsigned int)b.vcpu, ~0u);
	cr_expect_eq(fds_get(b.vcpu, &obj), FDS_NONE);
	cr_expect_eq(fds_get(b.vm, &obj), FDS_VM);
	fds_put(b.vm);
	vmm_close_range(0, (unsigned int)b.vm);
	cr_expect_eq(fake_open_fds(), 0);
	b.vm = b.vcpu = -1;
	bed_end(&b);
}

/* Raw system calls are not seen: KVM hands the number out again, for another kind
 * of object. */
Test(preload_fds, number_is_used_again_after_an_unseen_close)
{
	struct bed b;
	void *obj;
	int vm;

	bed_on(&b, "pmu=intel-v2");
	sys_close(b.vcpu);
	vm = call_ioctl(b.dev, KVM_CREATE_VM, NULL);
	cr_assert_eq(vm, b.vcpu);
	cr_assert_eq(fds_get(vm, &obj), FDS_VM);
	cr_assert_eq(((struct vm *)obj)->fd, vm);
	fds_put(vm);
}

Test(preload_fds, a_call_under_way_keeps_the_object)
{
	bool busy = false;
	int x, y;
	void *obj;

	cr_assert(!fds_reserve(5000));
	fds_set(5000, FDS_VM, &x);
	cr_assert_eq(fds_get(5000, &obj), FDS_VM);
	cr_assert_eq(fds_take(5000, &obj, &busy), FDS_VM);
	cr_assert(busy && obj == &x);
	fds_set(5000, FDS_VCPU, &y);
	fds_put(5000);
	cr_assert_eq(fds_take(5000, &obj, &busy), FDS_VCPU);
	cr_assert(!busy && obj == &y);
	cr_assert_eq(fds_take(5000, &obj, &busy), FDS_NONE);
	cr_assert_eq(fds_reserve(FDS_MAX), -EMFILE);
	cr_assert_eq(fds_reserve(-1), -EMFILE);
	cr_assert_eq(fds_get(-1, &obj), FDS_NONE);
	cr_assert_eq(fds_get(FDS_MAX, &obj), FDS_NONE);
}

/* Threads that look a number up while it changes its kind never get an object of another kind. */
static int kinds[4] = {0, FDS_VM, FDS_VCPU};
static _Atomic bool flip_ends;

static void *flip_reader(void *arg)
{
	unsigned long *wrong = arg;

	while (!atomic_load(&flip_ends)) {
		void *obj = NULL;
		enum fds_kind k = fds_get(6000, &obj);

		if (k == FDS_NONE)
			continue;
		*wrong += obj != &kinds[k];
		fds_put(6000);
	}
	return NULL;
}

Test(preload_fds, kind_and_object_belong_together)
{
	unsigned long wrong[2] = {0};
	pthread_t t[2];

	cr_assert(!fds_reserve(6000));
	for (int i = 0; i < 2; i++)
		cr_assert(!pthread_create(&t[i], NULL, flip_reader, &wrong[i]));
	for (int i = 0; i < 200000; i++) {
		enum fds_kind k = i & 1 ? FDS_VM : FDS_VCPU;
		void *obj;
		bool busy;

		fds_set(6000, k, &kinds[k]);
		cr_assert_eq(fds_take(6000, &obj, &busy), k);
	}
	atomic_store(&flip_ends, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	cr_assert_eq(wrong[0] + wrong[1], 0);
}

/* ---- CPUID ---- */

Test(preload_cpuid, vmm_sees_words_and_the_guest_its_model)
{
	const struct fake_state *s;
	struct bed b;

	bed_on(&b, "pmu=intel-v2\ngp=4");
	cr_assert_eq(bed_leaf(&b, 0xa)->eax, 2 | WORDS_GP << 8 | 48 << 16);
	cr_assert_eq(bed_leaf(&b, 0xa)->edx, WORDS_FIXED | 48 << 5);
	s = &fake.fd[b.vcpu]->s;
	for (unsigned int i = 0; i < s->leaves; i++)
		if (s->leaf[i].function == 0xa)
			cr_expect_eq(s->leaf[i].eax & 0xffff, 2 | 4 << 8);
		else if (s->leaf[i].function == 0x40000000)
			cr_expect_eq(s->leaf[i].ebx, 7);
	bed_end(&b);
}

Test(preload_cpuid, amd_gets_core_counters)
{
	struct bed b;

	bed_on(&b, "pmu=amd-core");
	cr_assert(bed_leaf(&b, 0x80000001)->ecx & 1u << 23);
	for (unsigned int i = 0; i < fake.fd[b.vcpu]->s.leaves; i++)
		if (fake.fd[b.vcpu]->s.leaf[i].function == 0xa)
			cr_expect_eq(fake.fd[b.vcpu]->s.leaf[i].eax, 0);
	bed_end(&b);
}

Test(preload_cpuid, errors_are_kvms)
{
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	b.cpuid.head.nent = 100000;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid), -1);
	cr_assert_eq(errno, E2BIG);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_CPUID2, NULL), -1);
	cr_assert_eq(errno, EFAULT);
	b.cpuid.head.nent = 1;
	cr_assert_eq(call_ioctl(b.dev, KVM_GET_SUPPORTED_CPUID, &b.cpuid), -1);
	cr_assert_eq(errno, E2BIG);
	bed_end(&b);
}

/* ---- refusals ---- */

enum refusal {
	NO_IRQCHIP,
	NO_IMMEDIATE_EXIT,
	NO_MSR_EXITS,
	NO_FILTER,
	NO_DUP,
	SMALL_RUN,
	OTHER_TYPE,
	PMU_OFF,
	VENDOR,
	CPU_WITHOUT_PMU,
	ENCRYPTED,
	DIRTY_RING,
	OLD_CPUID,
	FILTER_FAILS,
	REFUSALS
};

struct seen {
	struct fake_state undone, vm, vcpu; /* undone: at once after it was refused */
	int rc[32], err[32], n;
	unsigned long log[FAKE_LOG]; /* of the last part */
	unsigned int calls;
};

static void see(struct seen *s, int rc)
{
	s->rc[s->n] = rc;
	s->err[s->n++] = rc < 0 ? errno : 0;
}

/* The life of a VM whose VMM has an MSR filter of its own. */
static void refused_life(struct bed *b, enum refusal why, call_fn *call, struct seen *s)
{
	static uint64_t bits[2] = {5, 6};
	struct kvm_msr_filter f = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW,
				   .ranges[0] = {.flags = KVM_MSR_FILTER_READ,
						 .base = 0x600,
						 .nmsrs = 100,
						 .bitmap = (uint8_t *)bits}};
	struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR, .args = {UNKNOWN}};
	struct kvm_enable_cap ring = {.cap = KVM_CAP_DIRTY_LOG_RING, .args = {65536}};
	struct kvm_enable_cap pmu = {.cap = KVM_CAP_PMU_CAPABILITY, .args = {KVM_PMU_CAP_DISABLE}};
	struct kvm_userspace_memory_region m = {.slot = 1, .memory_size = 4096};
	struct msr_list l = {0};
	struct kvm_regs regs = {.rip = 0xfff0, .rflags = 2};

	memset(s, 0, sizeof(*s));
	memset(b, 0, sizeof(*b));
	b->dev = fake_new(FAKE_DEV, NULL);
	b->vm = call(b->dev, KVM_CREATE_VM, (void *)(why == OTHER_TYPE ? 4ul : 0ul));
	cr_assert(b->vm >= 0);
	fake.no_dup = false;
	if (why != NO_IRQCHIP)
		see(s, call(b->vm, KVM_CREATE_IRQCHIP, NULL));
	see(s, call(b->vm, KVM_ENABLE_CAP, &cap));
	if (why == PMU_OFF)
		see(s, call(b->vm, KVM_ENABLE_CAP, &pmu));
	if (why == DIRTY_RING)
		see(s, call(b->vm, KVM_ENABLE_CAP, &ring));
	if (why != FILTER_FAILS)
		see(s, call(b->vm, KVM_X86_SET_MSR_FILTER, &f));
	cr_assert(!bed_cpuid(b, call));
	if (why == CPU_WITHOUT_PMU)
		*bed_leaf(b, 0xa) = (struct kvm_cpuid_entry2){.function = 0xa};
	if (why == VENDOR)
		bed_leaf(b, 0)->ebx = 0x68747541;
	bed_vcpu(b, call);
	if (why == ENCRYPTED)
		see(s, call(b->vm, KVM_MEMORY_ENCRYPT_OP, ram));
	if (why == OLD_CPUID)
		see(s, call(b->vcpu, KVM_SET_CPUID, ram));
	see(s, call(b->vcpu, KVM_SET_CPUID2, &b->cpuid));
	/* From here on it is refused. */
	s->undone = fake.fd[b->vm]->s;
	s->calls = fake.calls;
	see(s, call(b->vm, KVM_SET_USER_MEMORY_REGION, &m));
	see(s, call(b->vm, KVM_X86_SET_MSR_FILTER, &f));
	see(s, call(b->vm, KVM_ENABLE_CAP, &cap));
	see(s, call(b->vm, 0x4020ae99, NULL));
	see(s, call(b->vcpu, KVM_SET_REGS, &regs));
	list_add(&l, 0x10, 77);
	list_add(&l, 0x4711, 1);
	see(s, call(b->vcpu, KVM_SET_MSRS, &l));
	see(s, call(b->vcpu, KVM_SET_CPUID2, &b->cpuid));
	EXITS({.reason = KVM_EXIT_X86_RDMSR, .msr = 0x38f, .why = UNKNOWN}, {.rc = -EINTR},
	      {.reason = KVM_EXIT_IO, .msr = 0x33});
	for (int i = 0; i < 4; i++)
		see(s, call(b->vcpu, KVM_RUN, NULL));
	see(s, (int)fake.runs);
	see(s, fake.entered.immediate_exit);
	memcpy(s->log, fake.log + s->calls, (fake.calls - s->calls) * sizeof(s->log[0]));
	s->calls = fake.calls - s->calls;
	s->vm = fake.fd[b->vm]->s;
	s->vcpu = fake.fd[b->vcpu]->s;
}

static void refused_kernel(enum refusal why)
{
	bed_process("pmu=intel-v2");
	fake.no_cap = why == NO_IMMEDIATE_EXIT ? KVM_CAP_IMMEDIATE_EXIT
		      : why == NO_MSR_EXITS    ? KVM_CAP_X86_USER_SPACE_MSR
		      : why == NO_FILTER       ? KVM_CAP_X86_MSR_FILTER
					       : -1;
	fake.no_dup = why == NO_DUP;
	fake.mmap_size = why == SMALL_RUN ? 100 : FAKE_RUN_BYTES;
	fake.fail_request = why == FILTER_FAILS ? KVM_X86_SET_MSR_FILTER : 0;
	fake.fail_error = -EPERM;
}

Test(preload_refused, vm_is_as_without_the_library)
{
	static struct seen plain, with;
	struct bed b;

	for (enum refusal why = 0; why < REFUSALS; why++) {
		/* A vPMU cannot be switched on again once there is a vCPU. */
		bool late = why == VENDOR || why == CPU_WITHOUT_PMU || why == ENCRYPTED ||
			    why == OLD_CPUID;

		refused_kernel(why);
		refused_life(&b, why, call_plain, &plain);
		refused_kernel(why);
		refused_life(&b, why, call_ioctl, &with);
		cr_expect_eq(atomic_load(&process.watched), 0, "%d: not refused", why);
		cr_expect_eq(plain.n, with.n);
		for (int i = 0; i < plain.n; i++)
			cr_expect(plain.rc[i] == with.rc[i] && plain.err[i] == with.err[i],
				  "%d: call %d: %d %d, plain %d %d", why, i, with.rc[i],
				  with.err[i], plain.rc[i], plain.err[i]);
		cr_expect(plain.calls == with.calls &&
				  !memcmp(plain.log, with.log, plain.calls * sizeof(plain.log[0])),
			  "%d: calls", why);
		cr_expect_eq(with.vm.vpmu_off, late || plain.vm.vpmu_off, "%d", why);
		with.vm.vpmu_off = with.undone.vpmu_off = plain.vm.vpmu_off;
		cr_expect(!memcmp(&plain.undone, &with.undone, sizeof(plain.undone)), "%d: undo",
			  why);
		cr_expect(!memcmp(&plain.vm, &with.vm, sizeof(plain.vm)), "%d: VM", why);
		cr_expect(!memcmp(&plain.vcpu, &with.vcpu, sizeof(plain.vcpu)), "%d: vCPU", why);
		fake.fail_request = 0;
		bed_end(&b);
	}
}

/* What the VMM believes to have: counters that KVM does not. Those that it has are KVM's. */
Test(preload_refused, words_of_a_pmu_that_is_not_there)
{
	struct msr_list l;
	struct bed b;

	bed_process("pmu=intel-v2");
	bed_vm(&b, call_ioctl); /* no interrupt controllers */
	cr_assert(!bed_cpuid(&b, call_ioctl));
	bed_vcpu(&b, call_ioctl);
	cr_assert(!bed_vm_state(&b)->vpmu_off);
	list_words(&l);
	list_at(&l, 0xc1 + FAKE_GP - 1)->data = 21;
	list_at(&l, 0xc1 + FAKE_GP)->data = 22;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
	cr_assert_eq(get_msr(&b, 0xc1 + FAKE_GP - 1), 21);
	cr_assert_eq(get_msr(&b, 0xc1 + FAKE_GP), 0);
	bed_end(&b);
}

/* KVM before Linux 5.18 cannot switch its vPMU off: a VM that is refused late still has that. */
Test(preload_refused, vpmu_that_was_never_off)
{
	struct msr_list l;
	struct bed b;

	bed_process("pmu=intel-v2");
	fake.no_cap = KVM_CAP_PMU_CAPABILITY;
	bed_vm(&b, call_ioctl);
	cr_assert(!call_ioctl(b.vm, KVM_CREATE_IRQCHIP, NULL));
	cr_assert(!bed_cpuid(&b, call_ioctl));
	bed_vcpu(&b, call_ioctl);
	cr_assert(bed_vm_state(&b)->filter.ranges[0].nmsrs, "no PMU of ours");
	cr_assert(!call_ioctl(b.vm, KVM_MEMORY_ENCRYPT_OP, ram));
	list_words(&l);
	list_at(&l, 0xc1)->data = 21;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
	cr_assert_eq(get_msr(&b, 0xc1), 21);
	bed_end(&b);
}

Test(preload_refused, vcpu_that_cannot_be_followed_is_none)
{
	struct bed b;

	bed_process("pmu=intel-v2");
	bed_vm(&b, call_ioctl);
	cr_assert(!call_ioctl(b.vm, KVM_CREATE_IRQCHIP, NULL));
	fake.no_map = true;
	cr_assert_eq(call_ioctl(b.vm, KVM_CREATE_VCPU, (void *)0), -1);
	cr_assert_eq(errno, ENOMEM);
	bed_end(&b);
}

/* A refused VM needs no PMU for its vCPUs: nothing of the library may fail them. */
Test(preload_refused, later_vcpus_of_a_refused_vm)
{
	struct bed b;
	int fd;

	bed_on(&b, "pmu=intel-v2");
	cr_assert(!call_ioctl(b.vm, KVM_MEMORY_ENCRYPT_OP, ram));
	fake.no_map = fake.no_dup = true;
	fd = call_ioctl(b.vm, KVM_CREATE_VCPU, (void *)1);
	cr_assert(fd >= 0, "%s", strerror(errno));
	cr_assert(!vmm_close(fd));
	bed_end(&b);
}

/* ---- settings that are shared ---- */

Test(preload_filter, ranges_of_the_vmm_stand_behind_ours)
{
	static uint64_t bits[] = {0xf0};
	struct kvm_msr_filter f = {
		.flags = KVM_MSR_FILTER_DEFAULT_DENY,
		.ranges[2] = {.flags = 1, .base = 0x611, .nmsrs = 3, .bitmap = (uint8_t *)bits}};
	const struct kvm_msr_filter *now;
	unsigned int n = 0;
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	cr_assert(!call_ioctl(b.vm, KVM_X86_SET_MSR_FILTER, &f));
	now = &bed_vm_state(&b)->filter;
	cr_assert_eq(now->flags, KVM_MSR_FILTER_DEFAULT_DENY);
	while (n < KVM_MSR_FILTER_MAX_RANGES && now->ranges[n].base != 0x611)
		n++;
	cr_assert(n > 0 && n < KVM_MSR_FILTER_MAX_RANGES);
	cr_assert_eq(bed_vm_state(&b)->bitmaps[n][0], 0xf0);
	cr_assert(now->ranges[0].nmsrs && !bed_vm_state(&b)->bitmaps[0][0]);
	/* KVM's own answers to what KVM refuses; and then all is as before. */
	f.ranges[2].nmsrs = ~0u;
	cr_assert_eq(call_ioctl(b.vm, KVM_X86_SET_MSR_FILTER, &f), -1);
	cr_assert_eq(errno, EINVAL);
	f.ranges[2].nmsrs = 9;
	f.ranges[2].bitmap = NULL;
	cr_assert_eq(call_ioctl(b.vm, KVM_X86_SET_MSR_FILTER, &f), -1);
	cr_assert_eq(errno, EFAULT);
	cr_assert_eq(now->ranges[n].base, 0x611);
	bed_end(&b);
}

/* The library could not copy it, so a filter of ours would replace it. */
Test(preload_filter, one_that_cannot_be_kept_is_left_alone)
{
	struct kvm_msr_filter f = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW,
				   .ranges[2] = {.flags = 1, .base = 0x611, .nmsrs = 3}};
	struct bed b;

	bed_process("pmu=intel-v2");
	fake.any_filter = true;
	bed_vm(&b, call_ioctl);
	cr_assert(!call_ioctl(b.vm, KVM_CREATE_IRQCHIP, NULL));
	cr_assert(!call_ioctl(b.vm, KVM_X86_SET_MSR_FILTER, &f));
	bed_vcpu(&b, call_ioctl);
	cr_assert_eq(bed_vm_state(&b)->filter.ranges[2].base, 0x611);
	cr_assert_eq(bed_vm_state(&b)->filter.ranges[0].nmsrs, 0);
	bed_end(&b);
}

Test(preload_filter, msr_exits_keep_ours)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR, .args = {UNKNOWN}};
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	cr_assert_eq(bed_vm_state(&b)->msr_reasons, FILTER);
	cr_assert(!call_ioctl(b.vm, KVM_ENABLE_CAP, &cap));
	cr_assert_eq(bed_vm_state(&b)->msr_reasons, FILTER | UNKNOWN);
	cap.args[0] = 0;
	cr_assert(!call_ioctl(b.vm, KVM_ENABLE_CAP, &cap));
	cr_assert_eq(bed_vm_state(&b)->msr_reasons, FILTER);
	bed_end(&b);
}

/* ---- MSRs ---- */

Test(preload_msrs, all_words_of_one_call)
{
	struct msr_list l;
	unsigned int calls;
	struct bed b;

	bed_on(&b, "pmu=intel-v2\ngp=4");
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
	bed_end(&b);
}

/* As many as fit in a call of KVM; one more is KVM's error. */
Test(preload_msrs, longest_list)
{
	struct {
		struct kvm_msrs head;
		struct kvm_msr_entry e[256];
	} l = {.head.nmsrs = 255};
	struct bed b;

	bed_on(&b, "pmu=intel-v2\ngp=4");
	for (uint32_t i = 0; i < 256; i++)
		l.e[i].index = i == 254 ? 0xc1 : 0x10;
	l.e[254].data = 1000;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), 255);
	l.e[254].data = 0;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 255);
	cr_expect_eq(l.e[254].data, 1000);
	l.head.nmsrs = 256;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), -1);
	cr_expect_eq(errno, E2BIG);
	bed_end(&b);
}

Test(preload_msrs, index_of_the_first_that_fails)
{
	struct msr_list l = {0};
	struct bed b;

	bed_on(&b, "pmu=intel-v2\ngp=4");
	list_add(&l, 0xc1, 5);
	list_add(&l, 0x10, 6);
	list_add(&l, 0xc2, 7);
	list_add(&l, 0x4711, 8); /* KVM has it not: index 3 */
	list_add(&l, 0xc3, 9);
	list_add(&l, 0x174, 10);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), 3);
	cr_expect_eq(get_msr(&b, 0x10), 6);
	cr_expect_eq(get_msr(&b, 0xc1), 5);
	cr_expect_eq(get_msr(&b, 0xc2), 7);
	cr_expect_eq(get_msr(&b, 0xc3), 0, "behind the one that failed");
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
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), -1);
	cr_assert_eq(errno, E2BIG);
	l.head.nmsrs = 0;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 0);
	bed_end(&b);
}

Test(preload_msrs, state_of_another_model_is_refused)
{
	const uint64_t tags[] = {words_tag(VPMU_GUEST_INTEL_V2, 5, WORDS_TAG, 0),
				 words_tag(VPMU_GUEST_AMD_CORE, 4, WORDS_TAG, 0),
				 words_tag(VPMU_GUEST_INTEL_V2, 4, WORDS_TAG, 0) + (1ull << 32),
				 77};
	struct msr_list l;
	struct bed b;

	bed_on(&b, "pmu=intel-v2\ngp=4");
	list_words(&l);
	list_at(&l, 0xc1)->data = 55;
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		list_at(&l, WORDS_TAG)->data = tags[i];
		cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l),
			     (int)(list_at(&l, WORDS_TAG) - l.e));
		cr_assert_eq(get_msr(&b, 0xc1), 0);
	}
	bed_end(&b);
}

Test(preload_msrs, reset)
{
	struct kvm_regs regs = {.rip = 0xfff0, .rflags = 2};
	struct msr_list l;
	struct bed b;

	bed_on(&b, "pmu=intel-v2\ngp=4");
	for (int i = 0; i < 2; i++) {
		list_words(&l);
		l.e[0] = l.e[--l.head.nmsrs];
		list_at(&l, 0xc1)->data = 55;
		list_at(&l, WORDS_TAG)->data = words_tag(VPMU_GUEST_INTEL_V2, 4, WORDS_TAG, 0);
		cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
		cr_assert_eq(get_msr(&b, 0xc1), 55);
		regs.rip = 0x1000;
		cr_assert(!call_ioctl(b.vcpu, KVM_SET_REGS, &regs));
		cr_assert_eq(get_msr(&b, 0xc1), 55);
		if (i) {
			regs.rip = 0xfff0;
			cr_assert(!call_ioctl(b.vcpu, KVM_SET_REGS, &regs));
			cr_assert_eq(fake.fd[b.vcpu]->s.regs.rip, 0xfff0);
		} else {
			list_words(&l); /* zeros everywhere, which as a value GLOBAL_CTRL is not */
			cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
		}
		cr_assert_eq(get_msr(&b, 0xc1), 0);
		cr_assert_eq(get_msr(&b, 0x38f), 0xf);
	}
	bed_end(&b);
}

Test(preload_msrs, only_the_thread_that_runs_the_vcpu)
{
	struct msr_list l = {0};
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	list_add(&l, 0xc1, 0);
	fake.thread_lives = true;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 1);
	fake.tid = 1;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), -1);
	cr_assert_eq(errno, EBUSY);
	fake.thread_lives = false;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 1);
	fake.tid = 0;
	bed_end(&b);
}

/* ---- memory ---- */

static int slot_set(const struct bed *b, uint32_t slot, uint64_t gpa, uint64_t bytes,
		    uint32_t flags)
{
	struct kvm_userspace_memory_region m = {.slot = slot,
						.flags = flags,
						.guest_phys_addr = gpa,
						.memory_size = bytes,
						.userspace_addr = (uintptr_t)ram};

	return call_ioctl(b->vm, KVM_SET_USER_MEMORY_REGION, &m);
}

Test(preload_memory, slots)
{
	uint64_t left = 0;
	struct bed b;
	void *vm;

	bed_on(&b, "pmu=intel-v2");
	cr_assert_eq(fds_get(b.vm, &vm), FDS_VM);
	fds_put(b.vm);
	cr_assert(!slot_set(&b, 1, 0x100000, RAM_BYTES, 0));
	cr_assert(!slot_set(&b, 2, 0x800000, 4096, KVM_MEM_READONLY));
	cr_assert(!slot_set(&b, 1 << 16 | 3, 0xa00000, 4096, 0));
	cr_expect_eq(memory_hva(vm, 0x100000, &left), ram);
	cr_expect_eq(left, RAM_BYTES);
	cr_expect_eq(memory_hva(vm, 0x100000 + RAM_BYTES - 1, &left), ram + RAM_BYTES - 1);
	cr_expect_eq(left, 1);
	cr_expect_null(memory_hva(vm, 0xfffff, &left));
	cr_expect_null(memory_hva(vm, 0x100000 + RAM_BYTES, &left));
	cr_expect_null(memory_hva(vm, 0x800000, &left), "ROM");
	cr_expect_null(memory_hva(vm, 0xa00000, &left), "another address space");
	/* A slot of the other space leaves the first's of the same number. */
	cr_assert(!slot_set(&b, 1 << 16 | 1, 0, 0, 0));
	cr_expect_eq(memory_hva(vm, 0x100000, &left), ram);
	/* A change that KVM refuses leaves the slot. */
	fake.fail_request = KVM_SET_USER_MEMORY_REGION;
	fake.fail_error = -EINVAL;
	cr_assert_eq(slot_set(&b, 1, 0x300000, 4096, 0), -1);
	cr_assert_eq(errno, EINVAL);
	fake.fail_request = 0;
	cr_expect_eq(memory_hva(vm, 0x100000, &left), ram);
	cr_expect_null(memory_hva(vm, 0x300000, &left));
	/* It moves, and goes. */
	cr_assert(!slot_set(&b, 1, 0x200000, 8192, KVM_MEM_LOG_DIRTY_PAGES));
	cr_expect_null(memory_hva(vm, 0x100000, &left));
	cr_expect_eq(memory_hva(vm, 0x201000, &left), ram + 4096);
	cr_assert(!slot_set(&b, 1, 0x200000, 0, 0));
	cr_expect_null(memory_hva(vm, 0x200000, &left));
	bed_end(&b);
}

Test(preload_memory, dirty_log_has_pages_that_we_wrote)
{
	uint64_t bits[RAM_BYTES / 4096 / 64];
	struct kvm_dirty_log log = {.slot = 1, .dirty_bitmap = bits};
	struct bed b;
	void *vm;

	bed_on(&b, "pmu=intel-v2");
	cr_assert_eq(fds_get(b.vm, &vm), FDS_VM);
	fds_put(b.vm);
	cr_assert(!slot_set(&b, 1, 0x100000, RAM_BYTES, 0));
	cr_assert(!slot_set(&b, 2, 0x700000, RAM_BYTES, 0));
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
	cr_assert_eq(call_ioctl(b.vm, KVM_GET_DIRTY_LOG, &log), -1);
	cr_assert_eq(errno, ENOENT);
	for (unsigned int i = 0; i < 2 * VM_DIRTY_MAX; i++)
		memory_dirty(vm, 0x100000 + i * 4096ull, 1);
	log.slot = 1;
	cr_assert(!call_ioctl(b.vm, KVM_GET_DIRTY_LOG, &log));
	bed_end(&b);
}

/* ---- KVM_RUN ---- */

Test(preload_run, our_msrs_are_answered)
{
	struct bed b;

	bed_on(&b, "pmu=intel-v2\ngp=4");
	EXITS({.reason = KVM_EXIT_X86_WRMSR, .msr = 0xc1, .data = 1234, .why = FILTER},
	      {.reason = KVM_EXIT_X86_RDMSR, .msr = 0x38f, .why = FILTER});
	cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), 0);
	cr_assert_eq(fake.runs, 3);
	cr_assert_eq(fake.entered.msr.error, 0);
	cr_assert_eq(fake.entered.msr.data, 0xf);
	cr_assert_eq(bed_run(&b)->exit_reason, KVM_EXIT_HLT);
	cr_assert_eq(get_msr(&b, 0xc1), 1234);
	/* #GP: reserved bits, and the other vendor's */
	EXITS({.reason = KVM_EXIT_X86_WRMSR, .msr = 0x38d, .data = ~0ull, .why = FILTER});
	cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), 0);
	cr_assert_eq(fake.entered.msr.error, 1);
	bed_end(&b);
}

Test(preload_run, exits_of_the_vmm_are_untouched)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR, .args = {FILTER}};
	static const uint32_t reason[] = {KVM_EXIT_IO, KVM_EXIT_MMIO, KVM_EXIT_SHUTDOWN,
					  KVM_EXIT_INTERNAL_ERROR, KVM_EXIT_X86_RDMSR};
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	cr_assert(!call_ioctl(b.vm, KVM_ENABLE_CAP, &cap));
	for (size_t i = 0; i < sizeof(reason) / sizeof(reason[0]); i++) {
		EXITS({.reason = reason[i], .msr = 0x606, .data = 99, .why = FILTER});
		cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), 0);
		cr_assert_eq(fake.runs, 1);
		cr_assert_eq(bed_run(&b)->exit_reason, reason[i]);
		if (reason[i] == KVM_EXIT_X86_RDMSR)
			cr_assert(bed_run(&b)->msr.data == 99 && !bed_run(&b)->msr.error);
	}
	/* An IN of the port that stands for RDPMC elsewhere. */
	EXITS({.reason = KVM_EXIT_IO, .msr = 0x33});
	cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), 0);
	cr_assert_eq(bed_run(&b)->exit_reason, KVM_EXIT_IO);
	EXITS({.rc = -EFAULT});
	cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), -1);
	cr_assert_eq(errno, EFAULT);
	bed_end(&b);
}

/* The VMM has a filter, but no MSR exits: a denied access is #GP, as without the library. */
Test(preload_run, exits_that_the_vmm_has_not_asked_for)
{
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	EXITS({.reason = KVM_EXIT_X86_RDMSR, .msr = 0x606, .why = FILTER},
	      {.reason = KVM_EXIT_X86_WRMSR, .msr = 0x606, .why = FILTER});
	cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), 0);
	cr_assert_eq(bed_run(&b)->exit_reason, KVM_EXIT_HLT);
	cr_assert_eq(fake.runs, 3);
	cr_assert_eq(fake.entered.msr.error, 1);
	bed_end(&b);
}

static void vmm_interrupts(struct kvm_run *run)
{
	run->immediate_exit |= 1;
}

Test(preload_run, eintr)
{
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	/* An alarm is ours; a signal of the VMM's is the VMM's, with and without immediate_exit. */
	EXITS({.rc = -EINTR, .immediate = true});
	cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), 0);
	cr_assert_eq(fake.runs, 2);
	cr_assert_eq(fake.entered.immediate_exit, 0);
	EXITS({.rc = -EINTR});
	cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), -1);
	cr_assert_eq(errno, EINTR);
	cr_assert_eq(fake.runs, 1);
	EXITS({.rc = -EINTR, .immediate = true, .act = vmm_interrupts});
	cr_assert_eq(call_ioctl(b.vcpu, KVM_RUN, NULL), -1);
	cr_assert_eq(errno, EINTR);
	cr_assert_eq(bed_run(&b)->immediate_exit, 1, "the VMM's bit");
	bed_end(&b);
}

/* errno is the VMM's unless a call fails. */
Test(preload_run, errno_of_calls_that_succeed)
{
	struct bed b;

	bed_on(&b, "pmu=intel-v2");
	errno = 4711;
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_assert_eq(errno, 4711);
	bed_end(&b);
}
