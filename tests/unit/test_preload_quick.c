// SPDX-License-Identifier: GPL-2.0-or-later
/* As test_preload.c: the short way of an exit at which the PMU has nothing to do, from the second
 * KVM_RUN of a thread on. Its conditions: test_kvm_quick.c. */
#include <signal.h>
#include <stdio.h>

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

static char lines[400];

static void *run_and_listen(void *arg)
{
	FILE *f = tmpfile();
	int old = dup(STDERR_FILENO);

	cr_assert(f && old >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
	for (int i = 0; i < 2; i++)
		cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_assert(dup2(old, STDERR_FILENO) >= 0 && !close(old));
	rewind(f);
	lines[fread(lines, 1, sizeof(lines) - 1, f)] = 0;
	fclose(f);
	return NULL;
}

/* Its counters stand still then: one line says so. */
Test(preload_quick, another_thread_than_the_one_that_is_bound)
{
	bed_on("pmu=intel-v2");
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	in_a_thread(run_and_listen);
	cr_expect_str_eq(lines,
			 "vpmu-preload: vCPU 0: its counters stand still: another thread has "
			 "run it, and may again\n");
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
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

static void alarm_sent(struct kvm_run *run)
{
	raise(kvm_alarm_signal());
}

static bool is_blocked(int sig)
{
	sigset_t now;

	cr_assert(!pthread_sigmask(SIG_BLOCK, NULL, &now));
	return sigismember(&now, sig);
}

/* A VMM that blocks signals between two exits, as all that it has no handler for. */
Test(preload_quick, alarms_of_a_vmm_that_blocks_signals)
{
	sigset_t all;

	bed_on("pmu=intel-v2");
	for (int i = 0; i < 2; i++)
		cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	sigfillset(&all);
	cr_assert(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	call_masked();
	/* Until the guest runs again it is as the VMM wants it. */
	raise(kvm_alarm_signal());
	cr_expect(is_blocked(kvm_alarm_signal()) && !bed_run()->immediate_exit);
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_expect_eq(report_of().alarms, 1);
	EXITS({.rc = -EINTR, .act = alarm_sent});
	call_ioctl(b.vcpu, KVM_RUN, NULL);
	cr_expect_eq(report_of().alarms, 2);
	cr_expect(is_blocked(SIGUSR1) && !is_blocked(SIGIO));
	/* Another vCPU of this thread */
	cr_assert(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	in_a_thread(run_it);
	cr_assert(!call_ioctl(b.vcpu, KVM_RUN, NULL));
	cr_expect(!is_blocked(kvm_alarm_signal()));
}

/* The mask that KVM sets in the guest. */
Test(preload_quick, alarms_of_a_vmm_with_a_mask_for_kvm)
{
	struct {
		struct kvm_signal_mask head;
		uint8_t set[8];
	} m = {.head.len = 8};
	uint64_t ours;

	bed_on("pmu=intel-v2");
	ours = 1ull << (kvm_alarm_signal() - 1) | 1ull << (SIGIO - 1);
	memset(m.set, 0xff, sizeof(m.set));
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_SIGNAL_MASK, &m));
	cr_expect_eq(fake.fd[b.vcpu]->s.signals, ~ours);
	cr_expect_eq(m.set[(SIGIO - 1) / 8], 0xff, "the VMM's own");
	m.set[0] = 0;
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_SIGNAL_MASK, &m));
	cr_expect_eq(fake.fd[b.vcpu]->s.signals, ~ours & ~0xffull);
	m.head.len = 4;
	CALL_FAILS(b.vcpu, KVM_SET_SIGNAL_MASK, &m, EINVAL);
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_SIGNAL_MASK, NULL));
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
