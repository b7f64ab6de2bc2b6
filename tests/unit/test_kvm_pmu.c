// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu/kvm.h over a KVM of this file: a vCPU whose exits the test makes, a local APIC of one
 * register, and guest memory with page tables. What a real KVM does with it: examples/vmm.c.
 */
#include <criterion/criterion.h>

#include <dirent.h>
#include <errno.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "vpmu/consumer.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"
#include "vpmu/guest/guest.h"
#include "vpmu/guest/policy.h"
#include "vpmu/host.h"
#include "vpmu/kvm.h"
#include "vpmu/kvm/priv.h"
#include "vpmu/pcpu.h"

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

static int fake_enable(const struct kvm_enable_cap *cap)
{
	if (cap->cap == KVM_CAP_PMU_CAPABILITY) {
		fake.vpmu_off++;
		return fake.has_vcpu ? -EINVAL : 0;
	}
	fake.msr_reasons = (unsigned int)cap->args[0];
	return 0;
}

static int fake_ioctl(int fd, unsigned long request, void *arg)
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

static void *fake_hva(void *arg, uint64_t gpa, uint64_t *left)
{
	if (gpa >= RAM)
		return NULL;
	*left = RAM - gpa;
	return ram + gpa;
}

static void fake_dirty(void *arg, uint64_t gpa, uint64_t bytes)
{
	dirtied++;
}

struct bed {
	struct vpmu_host *host;
	struct vpmu_guest_cfg cfg;
	struct vpmu_kvm_vm_opts opts;
	struct vpmu_kvm_vm *vm;
	struct vpmu_kvm_vcpu *v;
	struct vpmu_emupmu emu;
	char why[200];
};

static void bed_vm(struct bed *b, enum vpmu_guest_model model, unsigned int flags)
{
	memset(&fake, 0, sizeof(fake));
	memset(&kr, 0, sizeof(kr));
	dirtied = 0;
	if (!ram)
		ram = calloc(1, RAM);
	*b = (struct bed){.cfg.model = model};
	b->host = vpmu_host_create();
	b->opts = (struct vpmu_kvm_vm_opts){.size = sizeof(b->opts),
					    .fd = VM_FD,
					    .flags = flags,
					    .guest = &b->cfg,
					    .host = b->host,
					    .hva = fake_hva,
					    .dirty = fake_dirty,
					    .ioctl = fake_ioctl};
}

static int bed_open(struct bed *b)
{
	return vpmu_kvm_vm_open(&b->opts, &b->vm, b->why, sizeof(b->why));
}

static void bed_vcpu(struct bed *b, unsigned int id)
{
	struct vpmu_kvm_vcpu_opts o = {
		.size = sizeof(o), .fd = VCPU_FD, .run = &kr.run, .id = id, .pmu = &b->emu.pmu};

	cr_assert(!vpmu_emupmu_init(&b->emu, NULL));
	cr_assert(!vpmu_kvm_vcpu_open(b->vm, &o, &b->v, b->why, sizeof(b->why)), "%s", b->why);
}

static void bed_new(struct bed *b, enum vpmu_guest_model model, unsigned int flags)
{
	bed_vm(b, model, flags);
	cr_assert(!bed_open(b), "%s", b->why);
	bed_vcpu(b, 3);
}

static void bed_end(struct bed *b)
{
	cr_assert(!vpmu_kvm_vcpu_close(b->v));
	vpmu_kvm_vm_close(b->vm);
	vpmu_host_destroy(b->host);
}

/* ---- exits ---- */

/* KVM_RUN begins with registers that the VMM has changed, and ends with those that it asks for. */
static void fake_run(void)
{
	if (kr.run.kvm_dirty_regs & KVM_SYNC_X86_REGS)
		fake.regs = kr.run.s.regs.regs;
	kr.run.kvm_dirty_regs = 0;
	memset(&kr.run.s, 0x5a, sizeof(kr.run.s));
	fake.asked = kr.run.kvm_valid_regs;
	if (kr.run.kvm_valid_regs & KVM_SYNC_X86_REGS)
		kr.run.s.regs.regs = fake.regs;
}

static int wrmsr(struct bed *b, uint32_t msr, uint64_t val)
{
	cr_assert(!vpmu_kvm_enter(b->v));
	fake_run();
	kr.run.exit_reason = KVM_EXIT_X86_WRMSR;
	kr.run.msr.index = msr;
	kr.run.msr.data = val;
	kr.run.msr.error = 9;
	cr_assert_eq(vpmu_kvm_leave(b->v, 0), VPMU_KVM_AGAIN);
	return kr.run.msr.error;
}

static uint64_t rdmsr(struct bed *b, uint32_t msr)
{
	cr_assert(!vpmu_kvm_enter(b->v));
	kr.run.exit_reason = KVM_EXIT_X86_RDMSR;
	kr.run.msr.index = msr;
	kr.run.msr.error = 9;
	cr_assert_eq(vpmu_kvm_leave(b->v, 0), VPMU_KVM_AGAIN);
	cr_assert_eq(kr.run.msr.error, 0);
	return kr.run.msr.data;
}

/* The guest retires @n instructions, and exits with something of the VMM's. */
static void retire(struct bed *b, uint64_t n)
{
	cr_assert(!vpmu_kvm_enter(b->v));
	vpmu_emu_add(b->emu.tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, n);
	fake_run();
	kr.run.exit_reason = KVM_EXIT_HLT;
	cr_assert_eq(vpmu_kvm_leave(b->v, 0), VPMU_KVM_EXIT);
}

#define AMD_INSNS 0x5300c0ull /* EN, INT, OS, USR, instructions */

static void count_from(struct bed *b, uint64_t value)
{
	cr_assert_eq(wrmsr(b, 0xc0010201, value), 0);
	cr_assert_eq(wrmsr(b, 0xc0010200, AMD_INSNS), 0);
}

/* ---- the filter ---- */

Test(kvm_pmu, filter_ours_first_then_theirs)
{
	uint8_t bits[1] = {0};
	struct kvm_msr_filter theirs = {.flags = KVM_MSR_FILTER_DEFAULT_DENY};
	unsigned int n = 0;
	struct bed b;

	theirs.ranges[5] = (struct kvm_msr_filter_range){
		.flags = KVM_MSR_FILTER_READ, .base = 0x35, .nmsrs = 1, .bitmap = bits};
	bed_vm(&b, VPMU_GUEST_AMD_V2, 0);
	b.opts.filter = &theirs;
	b.opts.msr_exits = KVM_MSR_EXIT_REASON_UNKNOWN;
	cr_assert(!bed_open(&b), "%s", b.why);
	cr_expect_eq(fake.vpmu_off, 1);
	cr_expect_eq(fake.msr_reasons, KVM_MSR_EXIT_REASON_UNKNOWN | KVM_MSR_EXIT_REASON_FILTER);
	cr_expect_eq(fake.filter.flags, KVM_MSR_FILTER_DEFAULT_DENY);
	while (n < KVM_MSR_FILTER_MAX_RANGES && fake.filter.ranges[n].nmsrs)
		n++;
	cr_assert_gt(n, 5);
	cr_expect_eq(fake.filter.ranges[n - 1].base, 0x35);
	cr_expect_eq(fake.filter.ranges[n - 1].bitmap, bits);
	for (unsigned int i = 0; i + 1 < n; i++)
		cr_expect_eq(fake.filter.ranges[i].flags,
			     KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE);
	cr_expect(vpmu_kvm_vm_traps(b.vm, 0xc0010200));
	cr_expect(!vpmu_kvm_vm_traps(b.vm, 0x35));
	/* None of theirs: deny by default is theirs, too. */
	cr_assert(!vpmu_kvm_vm_filter(b.vm, NULL));
	cr_expect_eq(fake.filter.flags, KVM_MSR_FILTER_DEFAULT_ALLOW);
	cr_expect_eq(fake.filter.ranges[n - 1].nmsrs, 0);
	vpmu_kvm_vm_close(b.vm);
	vpmu_host_destroy(b.host);
}

static bool filter_has(uint32_t msr)
{
	for (unsigned int i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++)
		if (msr - fake.filter.ranges[i].base < fake.filter.ranges[i].nmsrs)
			return true;
	return false;
}

/* Threads that it starts are not taken for the vCPU whose thread opens the VM. */
Test(kvm_pmu, own_threads_have_own_names)
{
	unsigned int same = 0;
	struct dirent *e;
	struct bed b;
	DIR *dir;

	prctl(PR_SET_NAME, "CPU 0/KVM");
	bed_vm(&b, VPMU_GUEST_AMD_V2, 0);
	cr_assert(!bed_open(&b), "%s", b.why);
	dir = opendir("/proc/self/task");
	cr_assert(dir);
	while ((e = readdir(dir))) {
		char path[300], name[17] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = *e->d_name == '.' ? NULL : fopen(path, "r");
		if (!f)
			continue;
		same += fgets(name, sizeof(name), f) && !strcmp(name, "CPU 0/KVM\n");
		fclose(f);
	}
	closedir(dir);
	cr_expect_eq(same, 1, "%u", same);
	vpmu_kvm_vm_close(b.vm);
	vpmu_host_destroy(b.host);
}

Test(kvm_pmu, filter_leaves_the_other_vendor_out)
{
	struct kvm_msr_filter theirs = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW};
	uint8_t bits[1] = {0};
	struct bed b;

	bed_vm(&b, VPMU_GUEST_AMD_V2, 0);
	cr_assert(!bed_open(&b), "%s", b.why);
	cr_expect(filter_has(0x186));
	for (unsigned int i = 0; i < 9; i++)
		theirs.ranges[i] = (struct kvm_msr_filter_range){.flags = KVM_MSR_FILTER_READ,
								 .base = 0x600 + i,
								 .nmsrs = 1,
								 .bitmap = bits};
	cr_assert_eq(vpmu_kvm_vm_filter(b.vm, &theirs), 0);
	cr_expect(!filter_has(0x186));
	cr_expect(filter_has(0xc0010200) && filter_has(0x600) && filter_has(0x608));
	for (unsigned int i = 9; i < KVM_MSR_FILTER_MAX_RANGES; i++)
		theirs.ranges[i] = (struct kvm_msr_filter_range){.flags = KVM_MSR_FILTER_READ,
								 .base = 0x600 + i,
								 .nmsrs = 1,
								 .bitmap = bits};
	cr_expect_eq(vpmu_kvm_vm_filter(b.vm, &theirs), -E2BIG);
	vpmu_kvm_vm_close(b.vm);
	vpmu_host_destroy(b.host);
}

Test(kvm_pmu, open_says_why_not)
{
	struct bed b;

	bed_vm(&b, VPMU_GUEST_AMD_V2, 0);
	fake.no_filter_cap = true;
	cr_expect_eq(bed_open(&b), -EOPNOTSUPP);
	cr_expect(strstr(b.why, "KVM_CAP_X86_MSR_FILTER"));
	fake.no_filter_cap = false;
	fake.has_vcpu = true;
	cr_expect_eq(bed_open(&b), -EBUSY);
	fake.has_vcpu = false;
	b.opts.alarm_signal = SIGRTMIN + 9;
	cr_assert(!bed_open(&b));
	vpmu_kvm_vm_close(b.vm);
	b.opts.alarm_signal = SIGRTMIN + 8; /* another in the same process */
	cr_expect_eq(bed_open(&b), -EBUSY);
	b.opts.flags = VPMU_KVM_RDPMC;
	b.opts.hva = NULL;
	cr_expect_eq(bed_open(&b), -EINVAL);
	vpmu_host_destroy(b.host);
}

/* ---- counts and PMIs ---- */

Test(kvm_pmu, counts_of_the_guest)
{
	struct vpmu_kvm_report r;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, 0);
	count_from(&b, 1000);
	retire(&b, 234);
	cr_expect_eq(rdmsr(&b, 0xc0010201), 1234);
	cr_expect_eq(wrmsr(&b, 0xc1, 0), 1); /* Intel's: #GP */
	vpmu_kvm_vcpu_report(b.v, &r);
	cr_expect_eq(r.wrmsr, 3);
	cr_expect_eq(r.rdmsr, 1);
	cr_expect_eq(r.faults, 1);
	/* An MSR that nobody asked for is the VMM's. */
	cr_assert(!vpmu_kvm_enter(b.v));
	kr.run.exit_reason = KVM_EXIT_X86_RDMSR;
	kr.run.msr.index = 0x35;
	cr_expect_eq(vpmu_kvm_leave(b.v, 0), VPMU_KVM_EXIT);
	cr_expect_eq(vpmu_kvm_leave(b.v, -EFAULT), VPMU_KVM_EXIT);
	bed_end(&b);
}

/* The clocks around KVM_RUN are not read before something counts. */
Test(kvm_pmu, time_is_taken_while_something_counts)
{
	struct vpmu_kvm_report r;
	uint64_t was;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, 0);
	retire(&b, 1);
	vpmu_kvm_vcpu_report(b.v, &r);
	cr_expect_eq(r.guest_tsc, 0);
	count_from(&b, 0);
	for (int i = 0; i < 3; i++) {
		vpmu_kvm_vcpu_report(b.v, &r);
		was = r.guest_tsc;
		retire(&b, 1);
		vpmu_kvm_vcpu_report(b.v, &r);
		cr_expect_gt(r.guest_tsc, was);
	}
	bed_end(&b);
}

static struct operator
{
	struct vpmu_account *account;
	struct vpmu_consumer c;
	_Atomic bool counts;
}
operator;

static void *operator_attach(void *arg)
{
	struct operator* o = arg;

	urcu_memb_register_thread();
	cr_assert(!vpmu_consumer_add(
		&o->c, o->account,
		vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR | VPMU_KEY_OS), NULL));
	atomic_store(&o->counts, true);
	while (atomic_load(&o->counts))
		usleep(100);
	vpmu_consumer_del(&o->c, NULL, NULL);
	urcu_memb_unregister_thread();
	return NULL;
}

/* What a control call changes is in effect when the guest runs next: ticks of a guest that does not
 * exit any more, and a PMI that the call has found. */
Test(kvm_pmu, control_calls_take_effect_before_the_guest_runs)
{
	pthread_t t;
	struct bed b;

	bed_vm(&b, VPMU_GUEST_AMD_CORE, 0);
	b.opts.tick_ns = 1ull << 60; /* one at the start */
	cr_assert(!bed_open(&b), "%s", b.why);
	bed_vcpu(&b, 3);
	retire(&b, 1);
	for (int i = 0; i < 2; i++) {
		operator=(struct operator){.account = vpmu_kvm_vcpu_account(b.v)};
		cr_assert(!pthread_create(&t, NULL, operator_attach, &operator));
		while (!atomic_load(&operator.counts)) {
			retire(&b, 0);
			cr_assert_eq(b.v->timer_on, vpmu_pcpu_wants_tick(b.v->pcpu));
			cr_assert(!vpmu_guest_pending(b.v->guest));
		}
		cr_expect(b.v->timer_on);
		cr_expect_eq(fake.nmis, i);
		if (!i) {
			fake.lvtpc = 0x400;
			count_from(&b, (1ull << 48) - 5);
			retire(&b, 10);
		}
		atomic_store(&operator.counts, false);
		while (pthread_tryjoin_np(t, NULL)) {
			retire(&b, 0);
			cr_assert(!vpmu_guest_pending(b.v->guest));
		}
		cr_expect_eq(fake.nmis, 1);
	}
	bed_end(&b);
}

Test(kvm_pmu, release_keeps_counts)
{
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, 0);
	count_from(&b, 0);
	retire(&b, 10);
	vpmu_kvm_release(b.v);
	vpmu_emu_add(b.emu.tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 500); /* of somebody else */
	retire(&b, 7);
	cr_expect_eq(rdmsr(&b, 0xc0010201), 17);
	bed_end(&b);
}

static void *other_thread(void *arg)
{
	struct bed *b = arg;
	int rc = vpmu_kvm_enter(b->v);

	if (!rc) {
		kr.run.exit_reason = KVM_EXIT_HLT;
		vpmu_kvm_leave(b->v, 0);
	}
	return (void *)(intptr_t)rc;
}

Test(kvm_pmu, one_thread_at_a_time)
{
	pthread_t t;
	void *rc;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, 0);
	retire(&b, 1);
	cr_assert(!pthread_create(&t, NULL, other_thread, &b) && !pthread_join(t, &rc));
	cr_expect_eq((intptr_t)rc, -EBUSY);
	vpmu_kvm_release(b.v);
	cr_assert(!pthread_create(&t, NULL, other_thread, &b) && !pthread_join(t, &rc));
	cr_expect_eq((intptr_t)rc, 0);
	retire(&b, 1); /* its end has released it */
	bed_end(&b);
}

static void overflow(struct bed *b)
{
	count_from(b, (1ull << 48) - 5);
	retire(b, 10);
	raise(SIGIO); /* as the kernel's alarm would */
	retire(b, 0);
}

Test(kvm_pmu, pmi_through_lvtpc)
{
	static const struct {
		uint32_t lvtpc;
		unsigned int nmis, msis;
	} c[] = {{0x400, 1, 0}, {0x10400, 0, 0}, {0x41, 0, 1}, {0x8, 0, 0}, {0x200, 0, 0}};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct bed b;

		bed_new(&b, VPMU_GUEST_AMD_CORE, 0);
		fake.lvtpc = c[i].lvtpc;
		overflow(&b);
		cr_expect_eq(fake.nmis, c[i].nmis, "LVTPC %x: %u NMIs", c[i].lvtpc, fake.nmis);
		cr_expect_eq(fake.msis, c[i].msis, "LVTPC %x: %u MSIs", c[i].lvtpc, fake.msis);
		bed_end(&b);
	}
}

Test(kvm_pmu, pmi_reaches_apic_ids_above_255)
{
	struct bed b;

	bed_vm(&b, VPMU_GUEST_AMD_CORE, 0);
	cr_assert(!bed_open(&b));
	bed_vcpu(&b, 0x1234);
	fake.lvtpc = 0x41;
	overflow(&b);
	cr_expect_eq(fake.msi.address_lo, 0xfee34000);
	cr_expect_eq(fake.msi.address_hi, 0x1200);
	cr_expect_eq(fake.msi.data, 0x41);
	bed_end(&b);
}

/* Intel's CPUs mask LVTPC with the delivery: no second PMI before the handler's write. */
Test(kvm_pmu, pmi_is_masked_on_intel)
{
	struct bed b;

	bed_new(&b, VPMU_GUEST_INTEL_V2, 0);
	fake.lvtpc = 0x400;
	cr_assert_eq(wrmsr(&b, 0x38f, 1), 0);
	for (unsigned int i = 1; i <= 3; i++) {
		cr_assert_eq(wrmsr(&b, 0x186, 0), 0);
		cr_assert_eq(wrmsr(&b, 0xc1, (uint32_t)-5), 0);
		cr_assert_eq(wrmsr(&b, 0x186, 0x5300c0), 0);
		retire(&b, 10);
		raise(SIGIO);
		retire(&b, 0);
		cr_expect_eq(fake.nmis, i < 3 ? 1 : 2, "round %u: %u", i, fake.nmis);
		if (i == 2)
			cr_assert_eq(wrmsr(&b, 0x390, 1), 0);
	}
	bed_end(&b);
}

/* ---- EINTR ---- */

Test(kvm_pmu, immediate_exit_bits)
{
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, 0);
	cr_assert(!vpmu_kvm_enter(b.v));
	cr_expect_eq(kr.run.immediate_exit, 0);
	raise(SIGIO);
	cr_expect_eq(kr.run.immediate_exit, VPMU_KVM_IMMEDIATE);
	cr_expect_eq(vpmu_kvm_leave(b.v, -EINTR), VPMU_KVM_AGAIN);
	cr_expect_eq(kr.run.immediate_exit, 0);
	/* An alarm outside of KVM_RUN is handled by enter. */
	cr_assert(!vpmu_kvm_enter(b.v));
	cr_expect_eq(kr.run.immediate_exit, 0);
	/* The VMM's kick beside an alarm: the VMM sees its own, and keeps its bit. */
	kr.run.immediate_exit = 1;
	raise(SIGIO);
	cr_expect_eq(kr.run.immediate_exit, 1 | VPMU_KVM_IMMEDIATE);
	cr_expect_eq(vpmu_kvm_leave(b.v, -EINTR), VPMU_KVM_INTERRUPTED);
	cr_expect_eq(kr.run.immediate_exit, 1);
	kr.run.immediate_exit = 0;
	/* The VMM's store has overwritten ours. */
	cr_assert(!vpmu_kvm_enter(b.v));
	raise(SIGIO);
	kr.run.immediate_exit = 0;
	cr_expect_eq(vpmu_kvm_leave(b.v, -EINTR), VPMU_KVM_AGAIN);
	/* Neither: a signal of the VMM's. */
	cr_assert(!vpmu_kvm_enter(b.v));
	cr_expect_eq(vpmu_kvm_leave(b.v, -EINTR), VPMU_KVM_INTERRUPTED);
	bed_end(&b);
}

Test(kvm_pmu, hand_every_eintr_on)
{
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_HAND_ON);
	cr_assert(!vpmu_kvm_enter(b.v));
	raise(SIGIO);
	cr_expect_eq(vpmu_kvm_leave(b.v, -EINTR), VPMU_KVM_INTERRUPTED);
	bed_end(&b);
}

/* ---- CPUID and state ---- */

Test(kvm_pmu, cpuid_is_edited)
{
	struct kvm_cpuid_entry2 e[8] = {
		{.function = 0x80000000, .eax = 0x80000008},
		{.function = 0x80000001, .ecx = 0xffffffff},
		{.function = 0x40000000, .eax = 0x40000001, .ebx = 0x4b4d564b},
	};
	size_t n = 3;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_V2, 0);
	cr_expect_eq(vpmu_kvm_vcpu_cpuid(b.v, e, &n, 3), -E2BIG);
	cr_expect_eq(e[0].eax, 0x80000008);
	cr_assert(!vpmu_kvm_vcpu_cpuid(b.v, e, &n, 8));
	cr_assert_eq(n, 4);
	cr_expect_eq(e[3].function, 0x80000022);
	cr_expect_eq(e[3].eax & 1, 1);
	cr_expect_geq(e[0].eax, 0x80000022);
	cr_expect_eq(e[1].ecx >> 10 & 1, 0, "IBS is shown");
	cr_expect_eq(e[2].ebx, 0x4b4d564b);
	bed_end(&b);
}

static void expect_state(struct bed *b)
{
	cr_expect_eq(rdmsr(b, 0xc0010201), 0x123456789abc + 5);
	cr_expect_eq(rdmsr(b, 0xc0010200), AMD_INSNS);
	cr_expect_eq(rdmsr(b, 0xc0000301), 1);
	cr_expect_eq(rdmsr(b, 0xc0000300), 2);
}

static void make_state(struct bed *b)
{
	bed_new(b, VPMU_GUEST_AMD_V2, 0);
	count_from(b, 0x123456789abc);
	cr_assert_eq(wrmsr(b, 0xc0000301, 1), 0);
	cr_assert_eq(wrmsr(b, 0xc0000303, 2), 0);
	retire(b, 5);
}

Test(kvm_pmu, state_as_msrs)
{
	uint32_t msr[256];
	uint64_t val[256];
	size_t n = 256;
	struct bed b;

	make_state(&b);
	vpmu_kvm_vcpu_msrs(b.v, msr, &n);
	cr_assert(n > 10 && n <= 256);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(vpmu_kvm_vcpu_get_msr(b.v, msr[i], &val[i]), 0);
	cr_expect_eq(vpmu_kvm_vcpu_get_msr(b.v, 0xc1, val), -ENOENT);
	vpmu_kvm_vcpu_reset(b.v);
	cr_expect_eq(rdmsr(&b, 0xc0010201), 0);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(vpmu_kvm_vcpu_set_msr(b.v, msr[i], val[i]), 0);
	expect_state(&b);
	retire(&b, 3);
	cr_expect_eq(rdmsr(&b, 0xc0010201), 0x123456789abc + 8);
	bed_end(&b);
}

Test(kvm_pmu, state_as_blob)
{
	uint8_t blob[VPMU_KVM_STATE_MAX];
	size_t n = 3;
	struct bed b;

	make_state(&b);
	cr_expect_eq(vpmu_kvm_vcpu_save(b.v, blob, &n), -ENOSPC);
	cr_assert(n > 3 && n <= sizeof(blob));
	n = sizeof(blob);
	cr_assert(!vpmu_kvm_vcpu_save(b.v, blob, &n));
	expect_state(&b);
	vpmu_kvm_vcpu_reset(b.v);
	for (size_t cut = 0; cut < n; cut++)
		cr_assert_eq(vpmu_kvm_vcpu_load(b.v, blob, cut, b.why, sizeof(b.why)), -EINVAL);
	blob[8]++; /* the length of the section: a byte behind the guest's */
	cr_expect_eq(vpmu_kvm_vcpu_load(b.v, blob, n + 1, b.why, sizeof(b.why)), -EINVAL);
	blob[8]--;
	blob[12] = 1; /* a mask of LVTPC, which AMD does not have */
	cr_expect_eq(vpmu_kvm_vcpu_load(b.v, blob, n, b.why, sizeof(b.why)), -EINVAL);
	blob[12] = 0;
	cr_expect_eq(rdmsr(&b, 0xc0010201), 0);
	cr_assert(!vpmu_kvm_vcpu_load(b.v, blob, n, b.why, sizeof(b.why)), "%s", b.why);
	expect_state(&b);
	retire(&b, 3);
	cr_expect_eq(rdmsr(&b, 0xc0010201), 0x123456789abc + 8);
	bed_end(&b);
}

Test(kvm_pmu, report_of_a_denied_event)
{
	static const struct vpmu_policy policy = {.tier = VPMU_POLICY_ARCHITECTURAL};
	struct vpmu_kvm_report r;
	struct bed b;

	bed_vm(&b, VPMU_GUEST_AMD_CORE, 0);
	b.cfg.policy = &policy;
	cr_assert(!bed_open(&b));
	bed_vcpu(&b, 0);
	cr_assert_eq(wrmsr(&b, 0xc0010200, 0x530041), 0);
	vpmu_kvm_vcpu_report(b.v, &r);
	cr_expect_eq(r.denied, 1);
	cr_expect_eq(r.denied_last, 0x530041);
	cr_expect_eq(r.degraded, VPMU_KVM_DENIED);
	bed_end(&b);
}

/* ---- RDPMC ---- */

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

static enum vpmu_kvm_next in_eax(struct bed *b, uint64_t rip, uint32_t ecx)
{
	fake.regs.rip = rip;
	fake.regs.rcx = ecx;
	fake.regs.rdx = 0xdead;
	cr_assert(!vpmu_kvm_enter(b->v));
	fake_run();
	kr.run.exit_reason = KVM_EXIT_IO;
	kr.run.io.direction = KVM_EXIT_IO_IN;
	kr.run.io.size = 4;
	kr.run.io.count = 1;
	kr.run.io.port = 0x33;
	kr.run.io.data_offset = 4096;
	return vpmu_kvm_leave(b->v, 0);
}

Test(kvm_pmu, rdpmc_is_found_and_answered)
{
	uint64_t rip[2] = {0};
	size_t n = 2;
	uint32_t eax;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	make_kernel();
	count_from(&b, 0x700000001);
	vpmu_kvm_rdpmc_sites(b.vm, rip, &n);
	cr_assert_eq(n, 1);
	cr_expect_eq(rip[0], TEXT_VA + SITE);
	cr_expect(!memcmp(ram + TEXT_GPA + SITE, "\xe5\x33", 2));
	cr_expect(!memcmp(ram + TEXT_GPA + DECOY + 2, "\x0f\x33", 2), "a constant was rewritten");
	cr_expect_eq(dirtied, 1);
	cr_assert_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	memcpy(&eax, kr.bytes + 4096, 4);
	cr_expect_eq(eax, 1);
	cr_expect_eq(fake.regs.rdx, 7);
	/* Elsewhere an IN is an IN. */
	cr_expect_eq(in_eax(&b, TEXT_VA + 0x100, 0), VPMU_KVM_EXIT);
	cr_expect_eq(vpmu_kvm_rdpmc_restore(b.vm), 1);
	cr_expect(!memcmp(ram + TEXT_GPA + SITE, "\x0f\x33", 2));
	cr_expect_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_EXIT);
	bed_end(&b);
}

/* As a guest's kernel does at a context switch, WRMSR before each RDPMC. */
Test(kvm_pmu, rdpmc_without_system_calls)
{
	uint32_t eax;
	struct bed b;

	bed_vm(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	fake.sync = true;
	cr_assert(!bed_open(&b), "%s", b.why);
	bed_vcpu(&b, 3);
	make_kernel();
	count_from(&b, 0x700000001);
	wrmsr(&b, 0xc0010200, 0);
	fake.regs_read = fake.regs_written = 0;
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
		memcpy(&eax, kr.bytes + 4096, 4);
		cr_expect_eq(eax, 1);
		cr_expect_eq(fake.regs.rdx, 0xdead);
		wrmsr(&b, 0xc0010200, 0);
		cr_expect_eq(fake.regs.rdx, 7);
		cr_expect_eq(fake.regs.rcx, 0);
		cr_expect_eq(fake.regs.rip, TEXT_VA + SITE);
	}
	cr_expect_eq(fake.regs_read + fake.regs_written, 0);
	cr_expect_eq(fake.asked, KVM_SYNC_X86_REGS);
	/* A guest that is not at its PMU does not pay for it. */
	retire(&b, 1);
	retire(&b, 1);
	cr_expect_eq(fake.asked, 0);
	/* The first RDPMC behind another exit is answered all the same. */
	cr_assert_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	cr_expect_eq(fake.regs.rdx, 7);
	cr_expect_eq(fake.regs_read, 1);
	/* What the VMM itself has asked for stays. */
	kr.run.kvm_valid_regs |= KVM_SYNC_X86_SREGS;
	retire(&b, 1);
	cr_expect_eq(kr.run.kvm_valid_regs, KVM_SYNC_X86_SREGS);
	kr.run.kvm_valid_regs = KVM_SYNC_X86_REGS;
	wrmsr(&b, 0xc0010200, 0);
	retire(&b, 1);
	cr_expect_eq(kr.run.kvm_valid_regs, KVM_SYNC_X86_REGS);
	bed_end(&b);
}

static int kvm_run_ends(struct bed *b, int rc)
{
	cr_assert(!vpmu_kvm_enter(b->v));
	fake_run();
	return (int)vpmu_kvm_leave(b->v, rc);
}

/* Between KVM_RUNs kvm_valid_regs is the VMM's, however they end; and it may unmap kvm_run before
 * the thread is released. */
Test(kvm_pmu, registers_are_asked_for_in_kvm_run_only)
{
	struct bed b;

	bed_vm(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	fake.sync = true;
	cr_assert(!bed_open(&b), "%s", b.why);
	bed_vcpu(&b, 3);
	make_kernel();
	count_from(&b, 0x700000001);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	cr_assert_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	cr_expect_eq(fake.asked, KVM_SYNC_X86_REGS);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	/* A kick of the VMM: KVM_RUN takes the answer first. */
	cr_expect_eq(kvm_run_ends(&b, -EINTR), VPMU_KVM_INTERRUPTED);
	cr_expect_eq(fake.regs.rdx, 7);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	/* Registers that the VMM sets there are not lost to those of the answer. */
	cr_expect_eq(kr.run.kvm_dirty_regs, 0);
	cr_expect_eq(kvm_run_ends(&b, -EFAULT), VPMU_KVM_EXIT);
	cr_expect_eq(fake.asked, KVM_SYNC_X86_REGS);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	/* The VMM begins to ask while it has the vCPU. */
	kr.run.kvm_valid_regs = KVM_SYNC_X86_REGS;
	wrmsr(&b, 0xc0010200, 0);
	cr_assert_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	retire(&b, 1);
	cr_expect_eq(kr.run.kvm_valid_regs, KVM_SYNC_X86_REGS);
	/* Without KVM_RUN between them */
	kr.run.kvm_valid_regs = 0;
	wrmsr(&b, 0xc0010200, 0);
	cr_assert(!vpmu_kvm_enter(b.v));
	wrmsr(&b, 0xc0010200, 0);
	cr_expect_eq(kr.run.kvm_valid_regs, 0);
	cr_assert_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	memset(&kr, 0xa5, sizeof(kr)); /* no longer kvm_run */
	vpmu_kvm_release(b.v);
	for (size_t i = 0; i < sizeof(kr.run); i++)
		cr_assert_eq(((uint8_t *)&kr.run)[i], 0xa5, "byte %zu", i);
	bed_end(&b);
}

Test(kvm_pmu, rdpmc_is_adopted)
{
	size_t n = 0;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	make_kernel();
	ram[TEXT_GPA + SITE] = 0xe5; /* another process did */
	fake.sregs.cs.selector = 3;
	cr_expect_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_EXIT);
	fake.sregs.cs.selector = 0;
	cr_expect_eq(in_eax(&b, TEXT_VA + SITE, 0), VPMU_KVM_AGAIN);
	vpmu_kvm_rdpmc_sites(b.vm, NULL, &n);
	cr_expect_eq(n, 1);
	bed_end(&b);
}

/* Nothing mapped, page tables that point nowhere or to themselves: no site, and no end of work. */
Test(kvm_pmu, rdpmc_in_hostile_tables)
{
	size_t n = 0;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	make_kernel();
	memset(ram, 0xff, 0x4000);
	cr_assert_eq(wrmsr(&b, 0xc0010200, 0), 0);
	for (uint64_t i = 0; i < 512; i++) {
		uint64_t e = 0x1003;

		memcpy(ram + 0x1000 + 8 * i, &e, 8);
	}
	for (uint64_t i = 0; i < 2 * VPMU_KVM_SEARCHES; i++) {
		fake.regs.rip = i << 39 | 0x123;
		cr_assert_eq(wrmsr(&b, 0xc0010200, 0), 0);
	}
	vpmu_kvm_rdpmc_sites(b.vm, NULL, &n);
	cr_expect_eq(n, 0);
	bed_end(&b);
}

/* A kernel other than Linux: its writes to PMU MSRs stop costing system calls. */
Test(kvm_pmu, rdpmc_that_is_never_found_costs_little)
{
	unsigned int before;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	make_kernel();
	memset(ram + TEXT_GPA, 0x90, 2 << 20);
	for (unsigned int i = 0; i < 1000; i++)
		cr_assert_eq(wrmsr(&b, 0xc0010200, 0), 0);
	cr_expect_leq(fake.regs_read, 300);
	/* Another machine's kernel is looked at again. */
	before = fake.regs_read;
	vpmu_kvm_vm_reset(b.vm);
	cr_assert_eq(wrmsr(&b, 0xc0010200, 0), 0);
	cr_expect_gt(fake.regs_read, before);
	bed_end(&b);
}

/* kexec: another kernel, whose driver starts like the first one's, at another address or not. Its
 * counters are read by RDMSR then, and the old kernel's memory stays. */
Test(kvm_pmu, rdpmc_is_found_after_kexec)
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
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	make_kernel();
	count_from(&b, 5);
	for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++) {
		make_kernel_at(next[i].va, next[i].gpa);
		cr_expect_eq(rdmsr(&b, 0xc0010201), 5);
		cr_expect(!memcmp(ram + next[i].gpa + SITE, "\xe5\x33", 2), "kernel %zu", i);
		cr_expect_eq(dirtied, 2 + i);
		cr_expect_eq(in_eax(&b, next[i].va + SITE, 0), VPMU_KVM_AGAIN);
		/* The same kernel again: it is known, and nothing is searched. */
		fake.regs.rip = next[i].va + 0x9000;
		before = (unsigned int)b.vm->nr_searched;
		rdmsr(&b, 0xc0010201);
		cr_expect_eq(b.vm->nr_searched, before);
	}
	/* What a running Linux does costs no look. */
	before = fake.regs_read;
	count_from(&b, 5);
	rdmsr(&b, 0xc0010200);
	cr_expect_eq(fake.regs_read, before);
	bed_end(&b);
}

/* More kernels than sites, and a guest that lets a driver start all the time. */
Test(kvm_pmu, rdpmc_of_many_kernels_is_bounded)
{
	size_t n = 0;
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	make_kernel();
	for (unsigned int i = 0; i < 3 * VPMU_KVM_SEARCHES; i++) {
		make_kernel_at(TEXT_VA + ((uint64_t)i << 21), TEXT_GPA);
		rdmsr(&b, 0xc0010201);
	}
	cr_expect_eq(b.vm->nr_searched, VPMU_KVM_SEARCHES);
	cr_expect_eq(ram[TEXT_GPA + SITE], 0x0f, "it was searched without limit");
	for (unsigned int i = 0; i < 1000; i++)
		rdmsr(&b, 0xc0010201);
	cr_expect_leq(fake.regs_read, 256);
	/* Time allows one search more. */
	for (unsigned int i = 0; i < 2 * VPMU_KVM_SITES; i++) {
		uint64_t va = TEXT_VA + ((uint64_t)i << 21);

		make_kernel_at(va, TEXT_GPA);
		b.vm->replenished_ns = 0;
		rdmsr(&b, 0xc0010201);
		cr_assert_eq(ram[TEXT_GPA + SITE], 0xe5, "kernel %u", i);
		cr_assert_eq(in_eax(&b, va + SITE, 0), VPMU_KVM_AGAIN);
		rdmsr(&b, 0xc0010201);
	}
	cr_expect_eq(b.vm->nr_searched, VPMU_KVM_SEARCHES + 2 * VPMU_KVM_SITES);
	vpmu_kvm_rdpmc_sites(b.vm, NULL, &n);
	cr_expect_leq(n, VPMU_KVM_SITES);
	/* All are in one place: one instruction to put back. */
	cr_expect_eq(vpmu_kvm_rdpmc_restore(b.vm), 1);
	bed_end(&b);
}

/* What is where an RDPMC was is the guest's once its kernel is gone. */
Test(kvm_pmu, rdpmc_is_not_put_into_data)
{
	struct bed b;

	bed_new(&b, VPMU_GUEST_AMD_CORE, VPMU_KVM_RDPMC);
	make_kernel();
	count_from(&b, 5);
	memset(ram + TEXT_GPA + SITE + 2, 0, 64);
	cr_expect_eq(vpmu_kvm_rdpmc_restore(b.vm), 0);
	cr_expect_eq(ram[TEXT_GPA + SITE], 0xe5);
	bed_end(&b);
}
