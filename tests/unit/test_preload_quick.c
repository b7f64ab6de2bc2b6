// SPDX-License-Identifier: GPL-2.0-or-later
/* As test_preload.c: the short way of an exit at which the PMU has nothing to do, from the second
 * KVM_RUN of a thread on. Its conditions: test_kvm_quick.c. */
#include <signal.h>

#include "tests/unit/preload_bed.h"
#include "vpmu/kvm/port.h"

TestSuite(preload_quick, .fini = bed_fini);

static void *run_it(void *arg)
{
	return call_ioctl(b.vcpu, KVM_RUN, NULL) ? &b : NULL;
}

static void *close_it(void *arg)
{
	return vmm_close(b.vcpu) ? &b : NULL;
}

static void in_a_thread(void *(*fn)(void *))
{
	pthread_t t;
	void *rc;

	cr_assert(!pthread_create(&t, NULL, fn, NULL));
	pthread_join(t, &rc);
	cr_assert_null(rc);
}

Test(preload_quick, number_is_another_file)
{
	int fd;

	bed_on("pmu=intel-v2");
	for (int i = 0; i < 2; i++)
		cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	in_a_thread(close_it);
	fake.runs = 0;
	CALL_FAILS(b.vcpu, KVM_RUN, NULL, EBADF);
	fd = fake_new(FAKE_DEV, NULL);
	cr_assert_eq(fd, b.vcpu);
	cr_assert_eq(call_ioctl(fd, KVM_RUN, NULL), -1);
	cr_assert_eq(fake.runs, 0);
	b.dev = 0; /* the descriptors stay */
}

Test(preload_quick, the_thread_that_ran_it_last)
{
	struct msr_list l = {0};

	bed_on("pmu=intel-v2");
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	in_a_thread(run_it);
	list_add(&l, 0xc1, 0);
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), 1);
}

Test(preload_quick, a_thread_that_runs_two)
{
	int vcpu[2];

	bed_on("pmu=intel-v2");
	vcpu[0] = b.vcpu;
	vcpu[1] = call_ioctl(b.vm, KVM_CREATE_VCPU, (void *)1);
	cr_assert(!call_ioctl(vcpu[1], KVM_SET_CPUID2, &b.cpuid));
	for (int i = 0; i < 2; i++)
		fake.fd[vcpu[i]]->run->run.request_interrupt_window = (uint8_t)(1 + i);
	for (int i = 0; i < 8; i++) {
		cr_assert(!call_ioctl(vcpu[i / 2 % 2], KVM_RUN, NULL));
		cr_expect_eq(fake.entered.request_interrupt_window, 1 + i / 2 % 2, "run %d", i);
	}
	cr_assert(!vmm_close(vcpu[1]));
}

static void alarm_now(struct kvm_run *run)
{
	raise(kvm_alarm_signal());
	cr_assert_eq(run->immediate_exit, VPMU_KVM_IMMEDIATE);
}

static struct vpmu_kvm_report report_of(void)
{
	struct vpmu_kvm_report r;
	void *v;

	cr_assert_eq(fds_get(b.vcpu, &v), FDS_VCPU);
	vpmu_kvm_vcpu_report(((struct vcpu *)v)->kvm, &r);
	fds_put(b.vcpu);
	return r;
}

Test(preload_quick, alarms)
{
	bed_on("pmu=intel-v2");
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	/* Between two exits */
	raise(kvm_alarm_signal());
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_assert_eq(fake.entered.immediate_exit, 0);
	cr_assert_eq(report_of().alarms, 1);
	/* On the way into the guest */
	RUN({.rc = -EINTR, .act = alarm_now});
	cr_assert_eq(fake.runs, 2);
	cr_assert_eq(report_of().alarms, 2);
}

/* Nobody but the library clears its bit of immediate_exit. */
Test(preload_quick, no_alarms_of_a_vm_that_is_refused_later)
{
	bed_on("pmu=intel-v2");
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_CPUID, &b.cpuid));
	for (int i = 0; i < 3; i++) {
		raise(kvm_alarm_signal());
		cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
		cr_expect_eq(fake.entered.immediate_exit, 0, "run %d", i);
	}
}

Test(preload_quick, counting_begins_and_ends)
{
	struct msr_list l;
	uint64_t before;

	bed_on("pmu=intel-v2");
	for (int i = 0; i < 3; i++)
		cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	EXITS(WRMSR(0x38d, 0x300), WRMSR(0x38f, 1ull << 34));
	before = report_of().guest_tsc;
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	for (int i = 0; i < 3; i++) {
		cr_assert_gt(report_of().guest_tsc, before, "exit %d is not counted", i);
		before = report_of().guest_tsc;
		cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	}
	RUN(WRMSR(0x38d, 0));
	/* The counter is kept until a tick or two have found it unused. */
	for (int i = 0; i < 20; i++) {
		usleep(5000);
		before = report_of().guest_tsc;
		cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	}
	cr_assert_eq(report_of().guest_tsc, before, "nothing counts");
	RUN(RDMSR(0x38f));
	cr_assert(fake.runs == 2 && fake.entered.msr.data == 1ull << 34);
	/* By the VMM, without an exit */
	list_words(&l);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), WORDS + 2);
	list_at(&l, 0x38d)->data = 0x300;
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), WORDS + 2);
	for (int i = 0; i < 2; i++)
		cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_assert_gt(report_of().guest_tsc, before);
}
