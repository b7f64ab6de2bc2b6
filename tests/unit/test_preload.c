// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The preloaded library over a kernel of the test's (preload_bed.h): the VMM is the test, and calls
 * what interpose.c calls. MSRs, memory and KVM_RUN: test_preload_msrs.c. With a stock QEMU on a
 * real KVM: tests/preload. A state of AMD's models: test_preload_qemu11.c.
 */
#include <stdio.h>

#include "tests/unit/preload_bed.h"

TestSuite(preload_fds, .fini = bed_fini);
TestSuite(preload_cpuid, .fini = bed_fini);
TestSuite(preload_refused, .fini = bed_fini);
TestSuite(preload_filter, .fini = bed_fini);

/* ---- descriptors ---- */

Test(preload_fds, vm_and_vcpu_go_in_either_order)
{
	int vcpu;

	bed_on("pmu=intel-v2");
	bed_end();
	bed_on("pmu=amd-core");
	vcpu = b.vcpu;
	cr_assert(!vmm_close(b.vm));
	b.vm = b.vcpu = -1;
	cr_assert(!vmm_close(vcpu));
}

Test(preload_fds, number_is_used_again)
{
	void *obj;
	int fd;

	bed_on("pmu=intel-v2");
	fd = b.vcpu;
	cr_assert(!vmm_close(fd));
	cr_assert_eq(fds_get(fd, &obj), FDS_NONE);
	/* Another kind of file under the number is left alone. */
	b.vcpu = fake_new(FAKE_DEV, NULL);
	cr_assert_eq(b.vcpu, fd);
	CALL_FAILS(fd, KVM_RUN, NULL, ENOTTY);
	vmm_close(fd);
	/* and another vCPU is one. */
	bed_vcpu(call_ioctl);
	cr_assert_eq(b.vcpu, fd);
	cr_assert_eq(fds_get(fd, &obj), FDS_VCPU);
	fds_put(fd);
}

static bool counts(int vcpu)
{
	EXITS(WRMSR(0xc1, 1));
	return !call_ioctl(vcpu, KVM_RUN, NULL) && fake.runs == 2 && !fake.entered.msr.error;
}

/* vCPUs go on without their VM's descriptor, and so does their PMU. */
Test(preload_fds, vm_is_closed_while_its_vcpu_runs)
{
	bed_on("pmu=intel-v2");
	cr_assert(!vmm_close(b.vm));
	b.vm = -1;
	cr_expect(counts(b.vcpu));
	cr_expect(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
}

Test(preload_fds, duplicates_are_followed)
{
	struct kvm_userspace_memory_region m = {.memory_size = RAM_BYTES};
	int vm, vcpu;

	bed_on("pmu=intel-v2");
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
}

Test(preload_fds, close_range)
{
	void *obj;

	bed_on("pmu=intel-v2");
	cr_expect(b.vcpu > b.vm);
	vmm_close_range((unsigned int)b.vcpu, ~0u);
	cr_expect_eq(fds_get(b.vcpu, &obj), FDS_NONE);
	cr_expect_eq(fds_get(b.vm, &obj), FDS_VM);
	fds_put(b.vm);
	vmm_close_range(0, (unsigned int)b.vm);
	cr_expect_eq(fake_open_fds(), 0);
	b.vm = b.vcpu = -1;
}

/* Raw system calls are not seen: KVM hands the number out again, for another kind
 * of object. */
Test(preload_fds, number_is_used_again_after_an_unseen_close)
{
	void *obj;
	int vm;

	bed_on("pmu=intel-v2");
	sys_close(b.vcpu);
	vm = call_ioctl(b.dev, KVM_CREATE_VM, NULL);
	cr_assert_eq(vm, b.vcpu);
	cr_assert_eq(fds_get(vm, &obj), FDS_VM);
	cr_assert_eq(((struct vm *)obj)->fd, vm);
	fds_put(vm);
	b.dev = 0; /* the library keeps the vCPU for good */
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

	bed_on("pmu=intel-v2\ngp=4");
	cr_assert_eq(bed_leaf(0xa)->eax, 2 | WORDS_GP << 8 | 48 << 16);
	cr_assert_eq(bed_leaf(0xa)->edx, WORDS_FIXED | 48 << 5);
	s = &fake.fd[b.vcpu]->s;
	for (unsigned int i = 0; i < s->leaves; i++)
		if (s->leaf[i].function == 0xa)
			cr_expect_eq(s->leaf[i].eax & 0xffff, 2 | 4 << 8);
		else if (s->leaf[i].function == 0x40000000)
			cr_expect_eq(s->leaf[i].ebx, 7);
}

Test(preload_cpuid, amd_gets_core_counters)
{
	bed_on("pmu=amd-core");
	cr_assert(bed_leaf(0x80000001)->ecx & 1u << 23);
	for (unsigned int i = 0; i < fake.fd[b.vcpu]->s.leaves; i++)
		if (fake.fd[b.vcpu]->s.leaf[i].function == 0xa)
			cr_expect_eq(fake.fd[b.vcpu]->s.leaf[i].eax, 0);
}

Test(preload_cpuid, errors_are_kvms)
{
	bed_on("pmu=intel-v2");
	b.cpuid.head.nent = 100000;
	CALL_FAILS(b.vcpu, KVM_SET_CPUID2, &b.cpuid, E2BIG);
	CALL_FAILS(b.vcpu, KVM_SET_CPUID2, NULL, EFAULT);
	b.cpuid.head.nent = 1;
	CALL_FAILS(b.dev, KVM_GET_SUPPORTED_CPUID, &b.cpuid, E2BIG);
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
	PMU_FILTERED,
	VENDOR_FORESEEN, /* by vpmu-qemu */
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
static void refused_life(enum refusal why, call_fn *call, struct seen *s)
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
	struct kvm_pmu_event_filter events = {.action = KVM_PMU_EVENT_ALLOW};
	struct kvm_userspace_memory_region m = {.slot = 1, .memory_size = 4096};
	struct msr_list l = {0};
	struct kvm_regs regs = {.rip = 0xfff0, .rflags = 2};

	memset(s, 0, sizeof(*s));
	b = (struct bed){0};
	b.dev = fake_new(FAKE_DEV, NULL);
	b.vm = call(b.dev, KVM_CREATE_VM, (void *)(why == OTHER_TYPE ? 4ul : 0ul));
	cr_assert(b.vm >= 0);
	fake.no_dup = false;
	if (why != NO_IRQCHIP)
		see(s, call(b.vm, KVM_CREATE_IRQCHIP, NULL));
	see(s, call(b.vm, KVM_ENABLE_CAP, &cap));
	if (why == PMU_OFF)
		see(s, call(b.vm, KVM_ENABLE_CAP, &pmu));
	if (why == PMU_FILTERED)
		see(s, call(b.vm, KVM_SET_PMU_EVENT_FILTER, &events));
	if (why == DIRTY_RING)
		see(s, call(b.vm, KVM_ENABLE_CAP, &ring));
	if (why != FILTER_FAILS)
		see(s, call(b.vm, KVM_X86_SET_MSR_FILTER, &f));
	cr_assert(!bed_cpuid(call));
	if (why == CPU_WITHOUT_PMU)
		*bed_leaf(0xa) = (struct kvm_cpuid_entry2){.function = 0xa};
	if (why == VENDOR || why == VENDOR_FORESEEN)
		bed_leaf(0)->ebx = 0x68747541;
	bed_vcpu(call);
	if (why == ENCRYPTED)
		see(s, call(b.vm, KVM_MEMORY_ENCRYPT_OP, ram));
	if (why == OLD_CPUID)
		see(s, call(b.vcpu, KVM_SET_CPUID, ram));
	see(s, call(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
	/* From here on it is refused. */
	s->undone = fake.fd[b.vm]->s;
	s->calls = fake.calls;
	see(s, call(b.vm, KVM_SET_USER_MEMORY_REGION, &m));
	see(s, call(b.vm, KVM_X86_SET_MSR_FILTER, &f));
	see(s, call(b.vm, KVM_ENABLE_CAP, &cap));
	see(s, call(b.vm, 0x4020ae99, NULL));
	see(s, call(b.vcpu, KVM_SET_REGS, &regs));
	list_add(&l, 0x10, 77);
	list_add(&l, 0x4711, 1);
	see(s, call(b.vcpu, KVM_SET_MSRS, &l));
	see(s, call(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
	EXITS({.reason = KVM_EXIT_X86_RDMSR, .msr = 0x38f, .why = UNKNOWN}, {.rc = -EINTR},
	      {.reason = KVM_EXIT_IO, .msr = 0x33});
	for (int i = 0; i < 4; i++)
		see(s, call(b.vcpu, KVM_RUN, NULL));
	see(s, (int)fake.runs);
	see(s, fake.entered.immediate_exit);
	memcpy(s->log, fake.log + s->calls, (fake.calls - s->calls) * sizeof(s->log[0]));
	s->calls = fake.calls - s->calls;
	s->vm = fake.fd[b.vm]->s;
	s->vcpu = fake.fd[b.vcpu]->s;
}

static void refused_kernel(enum refusal why)
{
	bed_process(why == VENDOR_FORESEEN ? "pmu=intel-v2\nunfit=1" : "pmu=intel-v2");
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

	for (enum refusal why = 0; why < REFUSALS; why++) {
		/* A vPMU cannot be switched on again once there is a vCPU. */
		bool late = why == VENDOR || why == CPU_WITHOUT_PMU || why == ENCRYPTED ||
			    why == OLD_CPUID;

		refused_kernel(why);
		refused_life(why, call_plain, &plain);
		refused_kernel(why);
		refused_life(why, call_ioctl, &with);
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
		/* Nor does CPUID show what is not there. */
		for (unsigned int i = 0; late && i < with.vcpu.leaves; i++) {
			struct kvm_cpuid_entry2 *e = &with.vcpu.leaf[i];

			if (e->function != 0xa)
				continue;
			cr_expect(!e->eax && !e->ebx && !e->ecx && !e->edx, "%d: leaf 0AH", why);
			*e = plain.vcpu.leaf[i];
		}
		cr_expect(!memcmp(&plain.undone, &with.undone, sizeof(plain.undone)), "%d: undo",
			  why);
		cr_expect(!memcmp(&plain.vm, &with.vm, sizeof(plain.vm)), "%d: VM", why);
		cr_expect(!memcmp(&plain.vcpu, &with.vcpu, sizeof(plain.vcpu)), "%d: vCPU", why);
		fake.fail_request = 0;
		bed_end();
	}
}

/* The library's lines in between go to @text. */
static int lines_to(FILE *f)
{
	int old = dup(STDERR_FILENO);

	cr_assert(f && old >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
	return old;
}

static void lines_end(FILE *f, int old, char *text, size_t room)
{
	cr_assert(dup2(old, STDERR_FILENO) >= 0 && !close(old));
	rewind(f);
	text[fread(text, 1, room - 1, f)] = 0;
	fclose(f);
}

/* KVM's vPMU is off for good once there is a vCPU: the guest must not be shown one, and the line
 * says that there is none. */
Test(preload_refused, late_without_any_pmu)
{
	for (int core = 0; core < 2; core++) {
		const struct fake_state *s;
		unsigned int seen = 0;
		char text[400];
		FILE *f = tmpfile();
		int old;

		bed_process("pmu=amd-v2");
		fake.amd_core = core;
		bed_vm_and_vcpu(true);
		bed_leaf(0)->ebx = 0x756e6547;
		old = lines_to(f);
		cr_assert(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
		lines_end(f, old, text, sizeof(text));
		cr_expect(bed_vm_state()->vpmu_off);
		cr_expect(strstr(text, "CPU is not AMD's") && strstr(text, "has no PMU at all"),
			  "%s", text);
		s = &fake.fd[b.vcpu]->s;
		for (unsigned int i = 0; i < s->leaves; i++) {
			const struct kvm_cpuid_entry2 *e = &s->leaf[i];

			seen += e->function == 0xa && !e->eax && !e->edx;
			seen += e->function == 0x80000001 && !(e->ecx >> 23 & 3);
			seen += e->function == 0x80000022 && !e->eax && !(e->ebx & 15);
		}
		cr_expect_eq(seen, 3);
		bed_end();
	}
}

/* A VMM's filter of events is KVM's: what it denies must not be had from the library. */
Test(preload_refused, events_that_the_vmm_filters)
{
	struct kvm_pmu_event_filter f = {.action = KVM_PMU_EVENT_DENY};

	bed_on("pmu=intel-v2");
	cr_assert(!call_ioctl(b.vm, KVM_SET_PMU_EVENT_FILTER, &f));
	cr_expect_eq(atomic_load(&process.watched), 1, "it denies nothing");
	f.fixed_counter_bitmap = 1;
	cr_assert(!call_ioctl(b.vm, KVM_SET_PMU_EVENT_FILTER, &f));
	cr_expect_eq(atomic_load(&process.watched), 0);
	cr_expect_eq(bed_vm_state()->filter.ranges[0].nmsrs, 0);
}

/* Before the first vCPU KVM's own can still be had, and nothing is said of it. */
Test(preload_refused, early_with_the_pmu_of_kvm)
{
	char text[400];
	FILE *f = tmpfile();
	int old;

	bed_process("pmu=amd-v2\nunfit=1");
	old = lines_to(f);
	bed_vm_and_vcpu(true);
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
	lines_end(f, old, text, sizeof(text));
	cr_expect(!bed_vm_state()->vpmu_off && !bed_vm_state()->msr_reasons);
	cr_expect(strstr(text, "CPU is not AMD's") && !strstr(text, "no PMU at all"), "%s", text);
}

/* What the VMM believes to have: counters that KVM does not. Those that it has are KVM's. */
Test(preload_refused, words_of_a_pmu_that_is_not_there)
{
	struct msr_list l;

	bed_process("pmu=intel-v2");
	bed_vm_and_vcpu(false); /* no interrupt controllers */
	cr_assert(!bed_vm_state()->vpmu_off);
	list_words(&l);
	list_at(&l, 0xc1 + FAKE_GP - 1)->data = 21;
	list_at(&l, 0xc1 + FAKE_GP)->data = 22;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
	cr_assert_eq(get_msr(0xc1 + FAKE_GP - 1), 21);
	cr_assert_eq(get_msr(0xc1 + FAKE_GP), 0);
}

/* KVM before Linux 5.18 cannot switch its vPMU off: a VM that is refused late still has that. */
Test(preload_refused, vpmu_that_was_never_off)
{
	struct msr_list l;

	bed_process("pmu=intel-v2");
	fake.no_cap = KVM_CAP_PMU_CAPABILITY;
	bed_vm_and_vcpu(true);
	cr_assert(bed_vm_state()->filter.ranges[0].nmsrs, "no PMU of ours");
	cr_assert(!call_ioctl(b.vm, KVM_MEMORY_ENCRYPT_OP, ram));
	list_words(&l);
	list_at(&l, 0xc1)->data = 21;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
	cr_assert_eq(get_msr(0xc1), 21);
}

Test(preload_refused, vcpu_that_cannot_be_followed_is_none)
{
	bed_process("pmu=intel-v2");
	bed_vm(call_ioctl);
	cr_assert(!call_ioctl(b.vm, KVM_CREATE_IRQCHIP, NULL));
	fake.no_map = true;
	CALL_FAILS(b.vm, KVM_CREATE_VCPU, (void *)0, ENOMEM);
}

/* A refused VM needs no PMU for its vCPUs: nothing of the library may fail them. */
Test(preload_refused, later_vcpus_of_a_refused_vm)
{
	int fd;

	bed_on("pmu=intel-v2");
	cr_assert(!call_ioctl(b.vm, KVM_MEMORY_ENCRYPT_OP, ram));
	fake.no_map = fake.no_dup = true;
	fd = call_ioctl(b.vm, KVM_CREATE_VCPU, (void *)1);
	cr_assert(fd >= 0, "%s", strerror(errno));
	cr_assert(!vmm_close(fd));
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

	bed_on("pmu=intel-v2");
	cr_assert(!call_ioctl(b.vm, KVM_X86_SET_MSR_FILTER, &f));
	now = &bed_vm_state()->filter;
	cr_assert_eq(now->flags, KVM_MSR_FILTER_DEFAULT_DENY);
	while (n < KVM_MSR_FILTER_MAX_RANGES && now->ranges[n].base != 0x611)
		n++;
	cr_assert(n > 0 && n < KVM_MSR_FILTER_MAX_RANGES);
	cr_assert_eq(bed_vm_state()->bitmaps[n][0], 0xf0);
	cr_assert(now->ranges[0].nmsrs && !bed_vm_state()->bitmaps[0][0]);
	/* KVM's own answers to what KVM refuses; and then all is as before. */
	f.ranges[2].nmsrs = ~0u;
	CALL_FAILS(b.vm, KVM_X86_SET_MSR_FILTER, &f, EINVAL);
	f.ranges[2].nmsrs = 9;
	f.ranges[2].bitmap = NULL;
	CALL_FAILS(b.vm, KVM_X86_SET_MSR_FILTER, &f, EFAULT);
	cr_assert_eq(now->ranges[n].base, 0x611);
}

/* The library could not copy it, so a filter of ours would replace it. */
Test(preload_filter, one_that_cannot_be_kept_is_left_alone)
{
	struct kvm_msr_filter f = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW,
				   .ranges[2] = {.flags = 1, .base = 0x611, .nmsrs = 3}};

	bed_process("pmu=intel-v2");
	fake.any_filter = true;
	bed_vm(call_ioctl);
	cr_assert(!call_ioctl(b.vm, KVM_CREATE_IRQCHIP, NULL));
	cr_assert(!call_ioctl(b.vm, KVM_X86_SET_MSR_FILTER, &f));
	bed_vcpu(call_ioctl);
	cr_assert_eq(bed_vm_state()->filter.ranges[2].base, 0x611);
	cr_assert_eq(bed_vm_state()->filter.ranges[0].nmsrs, 0);
}

Test(preload_filter, msr_exits_keep_ours)
{
	struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR, .args = {UNKNOWN}};

	bed_on("pmu=intel-v2");
	cr_assert_eq(bed_vm_state()->msr_reasons, FILTER);
	cr_assert(!call_ioctl(b.vm, KVM_ENABLE_CAP, &cap));
	cr_assert_eq(bed_vm_state()->msr_reasons, FILTER | UNKNOWN);
	cap.args[0] = 0;
	cr_assert(!call_ioctl(b.vm, KVM_ENABLE_CAP, &cap));
	cr_assert_eq(bed_vm_state()->msr_reasons, FILTER);
}
