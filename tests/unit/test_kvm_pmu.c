// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu/kvm.h over a fake KVM: filter, counting, PMIs, CPUID, state. RDPMC: test_kvm_rdpmc.c. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/unit/fake_kvm.h"
#include "vpmu/consumer.h"
#include "vpmu/core/rcu.h"
#include "vpmu/guest/policy.h"
#include "vpmu/kvm/priv.h"
#include "vpmu/pcpu.h"

TestSuite(kvm_pmu, .fini = bed_fini);

/* ---- the filter ---- */

Test(kvm_pmu, filter_ours_first_then_theirs)
{
	uint8_t bits[1] = {0};
	struct kvm_msr_filter theirs = {.flags = KVM_MSR_FILTER_DEFAULT_DENY};
	unsigned int n = 0;

	theirs.ranges[5] = (struct kvm_msr_filter_range){
		.flags = KVM_MSR_FILTER_READ, .base = 0x35, .nmsrs = 1, .bitmap = bits};
	bed_vm(VPMU_GUEST_AMD_V2, 0);
	b.opts.filter = &theirs;
	b.opts.msr_exits = KVM_MSR_EXIT_REASON_UNKNOWN;
	cr_assert(!bed_open(), "%s", b.why);
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
	DIR *dir;

	prctl(PR_SET_NAME, "CPU 0/KVM");
	bed_vm(VPMU_GUEST_AMD_V2, 0);
	cr_assert(!bed_open(), "%s", b.why);
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
}

Test(kvm_pmu, filter_leaves_the_other_vendor_out)
{
	struct kvm_msr_filter theirs = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW};
	uint8_t bits[1] = {0};

	bed_vm(VPMU_GUEST_AMD_V2, 0);
	cr_assert(!bed_open(), "%s", b.why);
	cr_expect(filter_has(0x186));
	for (unsigned int i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++)
		theirs.ranges[i] = (struct kvm_msr_filter_range){.flags = KVM_MSR_FILTER_READ,
								 .base = 0x600 + i,
								 .nmsrs = i < 9,
								 .bitmap = bits};
	cr_assert_eq(vpmu_kvm_vm_filter(b.vm, &theirs), 0);
	cr_expect(!filter_has(0x186));
	cr_expect(filter_has(0xc0010200) && filter_has(0x600) && filter_has(0x608));
	for (unsigned int i = 9; i < KVM_MSR_FILTER_MAX_RANGES; i++)
		theirs.ranges[i].nmsrs = 1;
	cr_expect_eq(vpmu_kvm_vm_filter(b.vm, &theirs), -E2BIG);
}

Test(kvm_pmu, open_says_why_not)
{
	bed_vm(VPMU_GUEST_AMD_V2, 0);
	fake.no_filter_cap = true;
	cr_expect_eq(bed_open(), -EOPNOTSUPP);
	cr_expect(strstr(b.why, "KVM_CAP_X86_MSR_FILTER"));
	fake.no_filter_cap = false;
	fake.has_vcpu = true;
	cr_expect_eq(bed_open(), -EBUSY);
	fake.has_vcpu = false;
	b.opts.alarm_signal = SIGRTMIN + 9;
	cr_assert(!bed_open());
	vpmu_kvm_vm_close(b.vm);
	b.vm = NULL;
	b.opts.alarm_signal = SIGRTMIN + 8; /* another in the same process */
	cr_expect_eq(bed_open(), -EBUSY);
	b.opts.flags = VPMU_KVM_RDPMC;
	b.opts.hva = NULL;
	cr_expect_eq(bed_open(), -EINVAL);
}

/* ---- counts and PMIs ---- */

Test(kvm_pmu, counts_of_the_guest)
{
	struct vpmu_kvm_report r;

	bed_new(VPMU_GUEST_AMD_CORE, 0);
	count_from(1000);
	retire(234);
	cr_expect_eq(rdmsr(0xc0010201), 1234);
	cr_expect_eq(wrmsr(0xc1, 0), 1); /* Intel's: #GP */
	vpmu_kvm_vcpu_report(b.v, &r);
	cr_expect_eq(r.wrmsr, 3);
	cr_expect_eq(r.rdmsr, 1);
	cr_expect_eq(r.faults, 1);
	/* An MSR outside of the filter is the VMM's. */
	cr_assert(!vpmu_kvm_enter(b.v));
	kr.run.exit_reason = KVM_EXIT_X86_RDMSR;
	kr.run.msr.index = 0x35;
	cr_expect_eq(vpmu_kvm_leave(b.v, 0), VPMU_KVM_EXIT);
	cr_expect_eq(vpmu_kvm_leave(b.v, -EFAULT), VPMU_KVM_EXIT);
}

/* The clocks around KVM_RUN are not read before something counts. */
Test(kvm_pmu, time_is_taken_while_something_counts)
{
	struct vpmu_kvm_report r;
	uint64_t was;

	bed_new(VPMU_GUEST_AMD_CORE, 0);
	retire(1);
	vpmu_kvm_vcpu_report(b.v, &r);
	cr_expect_eq(r.guest_tsc, 0);
	count_from(0);
	for (int i = 0; i < 3; i++) {
		vpmu_kvm_vcpu_report(b.v, &r);
		was = r.guest_tsc;
		retire(1);
		vpmu_kvm_vcpu_report(b.v, &r);
		cr_expect_gt(r.guest_tsc, was);
	}
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
	urcu_memb_register_thread();
	cr_assert(!vpmu_consumer_add(
		&operator.c, operator.account,
		vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR | VPMU_KEY_OS), NULL));
	atomic_store(&operator.counts, true);
	while (atomic_load(&operator.counts))
		usleep(100);
	vpmu_consumer_del(&operator.c, NULL, NULL);
	urcu_memb_unregister_thread();
	return NULL;
}

/* What a control call changes is in effect when the guest runs next: ticks of a guest that does not
 * exit any more, and a PMI that the call has found. */
Test(kvm_pmu, control_calls_take_effect_before_the_guest_runs)
{
	pthread_t t;

	bed_vm(VPMU_GUEST_AMD_CORE, 0);
	b.opts.tick_ns = 1ull << 60; /* one at the start */
	cr_assert(!bed_open(), "%s", b.why);
	bed_vcpu(3);
	retire(1);
	for (int i = 0; i < 2; i++) {
		operator=(struct operator){.account = vpmu_kvm_vcpu_account(b.v)};
		cr_assert(!pthread_create(&t, NULL, operator_attach, NULL));
		while (!atomic_load(&operator.counts)) {
			retire(0);
			cr_assert_eq(b.v->timer_on, vpmu_pcpu_wants_tick(b.v->pcpu));
			cr_assert(!vpmu_guest_pending(b.v->guest));
		}
		cr_expect(b.v->timer_on);
		cr_expect_eq(fake.nmis, i);
		if (!i) {
			fake.lvtpc = 0x400;
			count_from((1ull << 48) - 5);
			retire(10);
		}
		atomic_store(&operator.counts, false);
		while (pthread_tryjoin_np(t, NULL)) {
			retire(0);
			cr_assert(!vpmu_guest_pending(b.v->guest));
		}
		cr_expect_eq(fake.nmis, 1);
	}
}

/* An exit without its signal reads no clock. */
Test(kvm_pmu, ticks_come_by_the_timer)
{
	sigset_t alarm;
	int ticks = 0;

	bed_vm(VPMU_GUEST_AMD_CORE, 0);
	b.opts.tick_ns = 1000000;
	cr_assert(!bed_open(), "%s", b.why);
	bed_vcpu(3);
	count_from(0);
	for (int i = 0; i < 100000 && ticks < 3; i++) {
		uint64_t was = b.v->ticked_ns;

		usleep(100);
		retire(1);
		ticks += b.v->ticked_ns != was;
	}
	cr_expect_eq(ticks, 3, "%d", ticks);
	sigemptyset(&alarm);
	sigaddset(&alarm, kvm_alarm_signal());
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	retire(1); /* takes the alarm of before */
	b.v->ticked_ns = 0;
	retire(1);
	cr_expect_eq(b.v->ticked_ns, 0);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	for (int i = 0; i < 100000 && !b.v->ticked_ns; i++) {
		usleep(100);
		retire(1);
	}
	cr_expect_neq(b.v->ticked_ns, 0);
}

Test(kvm_pmu, release_keeps_counts)
{
	bed_new(VPMU_GUEST_AMD_CORE, 0);
	count_from(0);
	retire(10);
	vpmu_kvm_release(b.v);
	vpmu_emu_add(b.emu.tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 500); /* of somebody else */
	retire(7);
	cr_expect_eq(rdmsr(0xc0010201), 17);
}

static void *other_thread(void *arg)
{
	int rc = vpmu_kvm_enter(b.v);

	if (!rc) {
		kr.run.exit_reason = KVM_EXIT_HLT;
		vpmu_kvm_leave(b.v, 0);
	}
	return (void *)(intptr_t)rc;
}

Test(kvm_pmu, one_thread_at_a_time)
{
	pthread_t t;
	void *rc;

	bed_new(VPMU_GUEST_AMD_CORE, 0);
	retire(1);
	cr_assert(!pthread_create(&t, NULL, other_thread, NULL) && !pthread_join(t, &rc));
	cr_expect_eq((intptr_t)rc, -EBUSY);
	vpmu_kvm_release(b.v);
	cr_assert(!pthread_create(&t, NULL, other_thread, NULL) && !pthread_join(t, &rc));
	cr_expect_eq((intptr_t)rc, 0);
	retire(1); /* its end has released it */
}

static void overflow(void)
{
	count_from((1ull << 48) - 5);
	retire(10);
	raise(SIGIO); /* as the kernel's alarm would */
	retire(0);
}

Test(kvm_pmu, pmi_through_lvtpc)
{
	static const struct {
		uint32_t lvtpc;
		unsigned int nmis, msis;
	} c[] = {{0x400, 1, 0}, {0x10400, 0, 0}, {0x41, 0, 1}, {0x8, 0, 0}, {0x200, 0, 0}};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		bed_new(VPMU_GUEST_AMD_CORE, 0);
		fake.lvtpc = c[i].lvtpc;
		overflow();
		cr_expect_eq(fake.nmis, c[i].nmis, "LVTPC %x: %u NMIs", c[i].lvtpc, fake.nmis);
		cr_expect_eq(fake.msis, c[i].msis, "LVTPC %x: %u MSIs", c[i].lvtpc, fake.msis);
		bed_end();
	}
}

Test(kvm_pmu, pmi_reaches_apic_ids_above_255)
{
	bed_vm(VPMU_GUEST_AMD_CORE, 0);
	cr_assert(!bed_open());
	bed_vcpu(0x1234);
	fake.lvtpc = 0x41;
	overflow();
	cr_expect_eq(fake.msi.address_lo, 0xfee34000);
	cr_expect_eq(fake.msi.address_hi, 0x1200);
	cr_expect_eq(fake.msi.data, 0x41);
}

/* Intel's CPUs mask LVTPC with the delivery: no second PMI before the handler's write. */
Test(kvm_pmu, pmi_is_masked_on_intel)
{
	bed_new(VPMU_GUEST_INTEL_V2, 0);
	fake.lvtpc = 0x400;
	cr_assert_eq(wrmsr(0x38f, 1), 0);
	for (unsigned int i = 1; i <= 3; i++) {
		cr_assert_eq(wrmsr(0x186, 0), 0);
		cr_assert_eq(wrmsr(0xc1, (uint32_t)-5), 0);
		cr_assert_eq(wrmsr(0x186, 0x5300c0), 0);
		retire(10);
		raise(SIGIO);
		retire(0);
		cr_expect_eq(fake.nmis, i < 3 ? 1 : 2, "round %u: %u", i, fake.nmis);
		if (i == 2)
			cr_assert_eq(wrmsr(0x390, 1), 0);
	}
}

/* ---- EINTR ---- */

Test(kvm_pmu, immediate_exit_bits)
{
	bed_new(VPMU_GUEST_AMD_CORE, 0);
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
}

Test(kvm_pmu, hand_every_eintr_on)
{
	bed_new(VPMU_GUEST_AMD_CORE, VPMU_KVM_HAND_ON);
	cr_assert(!vpmu_kvm_enter(b.v));
	raise(SIGIO);
	cr_expect_eq(vpmu_kvm_leave(b.v, -EINTR), VPMU_KVM_INTERRUPTED);
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

	bed_new(VPMU_GUEST_AMD_V2, 0);
	cr_expect_eq(vpmu_kvm_vcpu_cpuid(b.v, e, &n, 3), -E2BIG);
	cr_expect_eq(e[0].eax, 0x80000008);
	cr_assert(!vpmu_kvm_vcpu_cpuid(b.v, e, &n, 8));
	cr_assert_eq(n, 4);
	cr_expect_eq(e[3].function, 0x80000022);
	cr_expect_eq(e[3].eax & 1, 1);
	cr_expect_geq(e[0].eax, 0x80000022);
	cr_expect_eq(e[1].ecx >> 10 & 1, 0, "IBS is shown");
	cr_expect_eq(e[2].ebx, 0x4b4d564b);
}

static void expect_state(void)
{
	cr_expect_eq(rdmsr(0xc0010201), 0x123456789abc + 5);
	cr_expect_eq(rdmsr(0xc0010200), AMD_INSNS);
	cr_expect_eq(rdmsr(0xc0000301), 1);
	cr_expect_eq(rdmsr(0xc0000300), 2);
}

static void make_state(void)
{
	bed_new(VPMU_GUEST_AMD_V2, 0);
	count_from(0x123456789abc);
	cr_assert_eq(wrmsr(0xc0000301, 1), 0);
	cr_assert_eq(wrmsr(0xc0000303, 2), 0);
	retire(5);
}

Test(kvm_pmu, state_as_msrs)
{
	uint32_t msr[256];
	uint64_t val[256];
	size_t n = 256;

	make_state();
	vpmu_kvm_vcpu_msrs(b.v, msr, &n);
	cr_assert(n > 10 && n <= 256);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(vpmu_kvm_vcpu_get_msr(b.v, msr[i], &val[i]), 0);
	cr_expect_eq(vpmu_kvm_vcpu_get_msr(b.v, 0xc1, val), -ENOENT);
	vpmu_kvm_vcpu_reset(b.v);
	cr_expect_eq(rdmsr(0xc0010201), 0);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(vpmu_kvm_vcpu_set_msr(b.v, msr[i], val[i]), 0);
	expect_state();
	retire(3);
	cr_expect_eq(rdmsr(0xc0010201), 0x123456789abc + 8);
}

Test(kvm_pmu, state_as_blob)
{
	uint8_t blob[VPMU_KVM_STATE_MAX];
	size_t n = 3;

	make_state();
	cr_expect_eq(vpmu_kvm_vcpu_save(b.v, blob, &n), -ENOSPC);
	cr_assert(n > 3 && n <= sizeof(blob));
	n = sizeof(blob);
	cr_assert(!vpmu_kvm_vcpu_save(b.v, blob, &n));
	expect_state();
	vpmu_kvm_vcpu_reset(b.v);
	for (size_t cut = 0; cut < n; cut++)
		cr_assert_eq(vpmu_kvm_vcpu_load(b.v, blob, cut, b.why, sizeof(b.why)), -EINVAL);
	blob[8]++; /* the length of the section: a byte behind the guest's */
	cr_expect_eq(vpmu_kvm_vcpu_load(b.v, blob, n + 1, b.why, sizeof(b.why)), -EINVAL);
	blob[8]--;
	blob[12] = 1; /* a mask of LVTPC, which AMD does not have */
	cr_expect_eq(vpmu_kvm_vcpu_load(b.v, blob, n, b.why, sizeof(b.why)), -EINVAL);
	blob[12] = 0;
	cr_expect_eq(rdmsr(0xc0010201), 0);
	cr_assert(!vpmu_kvm_vcpu_load(b.v, blob, n, b.why, sizeof(b.why)), "%s", b.why);
	expect_state();
	retire(3);
	cr_expect_eq(rdmsr(0xc0010201), 0x123456789abc + 8);
}

Test(kvm_pmu, report_of_a_denied_event)
{
	static const struct vpmu_policy policy = {.tier = VPMU_POLICY_ARCHITECTURAL};
	struct vpmu_kvm_report r;

	bed_vm(VPMU_GUEST_AMD_CORE, 0);
	b.cfg.policy = &policy;
	cr_assert(!bed_open());
	bed_vcpu(0);
	cr_assert_eq(wrmsr(0xc0010200, 0x530041), 0);
	vpmu_kvm_vcpu_report(b.v, &r);
	cr_expect_eq(r.denied, 1);
	cr_expect_eq(r.denied_last, 0x530041);
	cr_expect_eq(r.degraded, VPMU_KVM_DENIED);
}
