// SPDX-License-Identifier: GPL-2.0-or-later
/* The short way of KVM_RUN (vpmu/kvm/quick.h) over a fake KVM: what ends it, and what it leaves to
 * the long one. In the library that uses it: test_preload_quick.c. */
#include <pthread.h>
#include <signal.h>

#include "tests/unit/fake_kvm.h"
#include "vpmu/core/rcu.h"
#include "vpmu/kvm/priv.h"
#include "vpmu/kvm/quick.h"

TestSuite(kvm_quick, .fini = bed_fini);

Test(kvm_quick, not_while_the_pmu_has_something_to_do)
{
	bed_new(VPMU_GUEST_AMD_CORE, 0);
	cr_expect(!kvm_quick_enter(b.v), "no thread is bound");
	retire(0);
	cr_expect(kvm_quick_enter(b.v));
	raise(kvm_alarm_signal());
	cr_expect(!kvm_quick_enter(b.v), "an alarm");
	cr_expect_eq(kr.run.immediate_exit, VPMU_KVM_IMMEDIATE);
	retire(0);
	cr_expect_eq(kr.run.immediate_exit, 0);
	cr_expect(kvm_quick_enter(b.v));
	/* A register that counts nothing; the next access may be an RDPMC, as far as is known. */
	b.v->rdpmc_follows = UINT64_MAX;
	cr_assert(!vpmu_kvm_rdpmc_add(b.vm, 0x1000));
	cr_assert_eq(wrmsr(0xc0010201, 5), 0);
	cr_expect(!kvm_quick_enter(b.v), "the access's registers");
	retire(0);
	cr_expect(kvm_quick_enter(b.v));
	count_from(0);
	retire(1);
	cr_expect(!kvm_quick_enter(b.v), "a counter");
	vpmu_kvm_release(b.v);
	cr_expect(!kvm_quick_enter(b.v), "no thread is bound any more");
}

/* The clock stands still from an exit to the next entry: to this one, too. */
Test(kvm_quick, the_clock_goes_on)
{
	bed_new(VPMU_GUEST_AMD_CORE, 0);
	retire(0);
	cr_assert(b.v->perf.hold);
	b.v->perf.held = true;
	cr_assert(kvm_quick_enter(b.v));
	cr_expect(!b.v->perf.hold && !b.v->perf.held);
}

static _Atomic bool synced;

static void *sync_it(void *arg)
{
	int rc;

	urcu_memb_register_thread();
	rc = vpmu_host_sync(b.host);
	urcu_memb_unregister_thread();
	atomic_store(&synced, true);
	return rc ? &b : NULL;
}

/* Its alarm is late, here since the VMM blocks it. */
Test(kvm_quick, a_control_call_is_answered_before_its_alarm_comes)
{
	sigset_t alarm;
	pthread_t t;
	void *rc;

	bed_new(VPMU_GUEST_AMD_CORE, 0);
	retire(0);
	sigemptyset(&alarm);
	sigaddset(&alarm, kvm_alarm_signal());
	cr_assert(!pthread_sigmask(SIG_BLOCK, &alarm, NULL));
	cr_assert(!pthread_create(&t, NULL, sync_it, NULL));
	while (!atomic_load(&synced))
		if (!kvm_quick_enter(b.v))
			retire(0);
	cr_assert(!pthread_join(t, &rc));
	cr_expect_null(rc, "no answer");
}

Test(kvm_quick, exits)
{
	static const struct {
		int rc;
		uint32_t reason, port;
		bool ends;
	} rows[] = {
		{0, KVM_EXIT_HLT, 0, true},
		{0, KVM_EXIT_IO, KVM_PORT_RDPMC + 1, true},
		{0, KVM_EXIT_MMIO, KVM_PORT_RDPMC, true},
		{0, KVM_EXIT_IO, KVM_PORT_RDPMC, false},
		{0, KVM_EXIT_X86_RDMSR, 0, false},
		{0, KVM_EXIT_X86_WRMSR, 0, false},
		{-EINTR, KVM_EXIT_HLT, 0, false},
		{-EFAULT, KVM_EXIT_HLT, 0, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(&kr, 0, sizeof(kr));
		kr.run.exit_reason = rows[i].reason;
		kr.run.io.port = (uint16_t)rows[i].port;
		cr_expect_eq(kvm_quick_leave(&kr.run, rows[i].rc), rows[i].ends, "row %zu", i);
	}
}

/* The VMM may unmap kvm_run after it, or run the vCPU without this library. */
Test(kvm_quick, no_alarm_touches_a_vcpu_that_is_released)
{
	bed_new(VPMU_GUEST_AMD_CORE, 0);
	retire(0);
	raise(kvm_alarm_signal());
	cr_assert_eq(kr.run.immediate_exit, VPMU_KVM_IMMEDIATE);
	kr.run.immediate_exit |= 1;
	vpmu_kvm_release(b.v);
	cr_expect_eq(kr.run.immediate_exit, 1, "the VMM's");
	raise(kvm_alarm_signal());
	cr_expect_eq(kr.run.immediate_exit, 1);
}
