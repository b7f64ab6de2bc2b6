// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A vCPU of the KVM engine that could not run for a while, because its process was stopped or its
 * VM was paused, notifies its guest by KVM_KVMCLOCK_CTRL. The test has the clock in its hands, and
 * counts the calls. Skipped where /dev/kvm cannot be used; the nested bed runs it on a real KVM.
 * tests/nested/linux.sh stop shows a kernel's reaction.
 */
#include "kvm_bed.h"

#include <sys/syscall.h>
#include <time.h>

TestSuite(kvm_stopped, .fini = guest_end);

/* The engine's: see CMakeLists.txt. */
int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

#define SECOND 1000000000ULL

static uint64_t now_ns;	    /* CLOCK_MONOTONIC_COARSE */
static uint64_t takes_ns;   /* the next KVM_RUN */
static bool signal_at_once; /* which a signal ends before the guest executes anything */
static unsigned int told, entered;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_MONOTONIC_COARSE)
		return __real_clock_gettime(clock, ts);
	ts->tv_sec = (time_t)(now_ns / SECOND);
	ts->tv_nsec = (long)(now_ns % SECOND);
	return 0;
}

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	int rc;

	if (request == KVM_KVMCLOCK_CTRL)
		told++;
	if (request != KVM_RUN)
		return __real_ioctl(fd, request, arg);
	entered++;
	if (signal_at_once) {
		signal_at_once = false;
		syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), VMM_ALARM_SIGNAL);
	}
	rc = __real_ioctl(fd, request, arg);
	now_ns += takes_ns;
	takes_ns = 0;
	return rc;
}

GUEST(outs, "1: out %eax, $0xf4\n jmp 1b");

static void begin(struct guest *g, bool irqchip)
{
	now_ns = 1000 * SECOND;
	START_HOW(g, outs, .irqchip = irqchip);
	EXPECT_OUT(g, 0xf4, 4, 0);
	EXPECT_OUT(g, 0xf4, 4, 0);
	cr_assert(told == 0, "a vCPU that has just begun");
}

/* It is in user space until then, as a VM that is paused. */
Test(kvm_stopped, between_two_runs)
{
	begin(&g, true);
	now_ns += SECOND - 1;
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_expect(told == 0, "less than a second");
	now_ns += SECOND;
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_expect(told == 1);
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_expect(told == 1, "it is told once");
}

/* A process that is stopped leaves KVM_RUN as by any signal, and goes on much later. */
Test(kvm_stopped, inside_of_a_run)
{
	begin(&g, true);
	ops->kick(g.vcpu);
	cr_assert(run(&g) == VMM_EXIT_INTR); /* the thread takes signals from its first run on */
	signal_at_once = true;
	takes_ns = 30 * SECOND;
	cr_assert(run(&g) == VMM_EXIT_ALARM);
	cr_expect(told == 0, "nothing is entered yet");
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_expect(told == 1);
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_expect(told == 1);
	/* A short one. */
	signal_at_once = true;
	takes_ns = SECOND - 1;
	cr_assert(run(&g) == VMM_EXIT_ALARM);
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_expect(told == 1);
}

/* A guest that runs, or waits in HLT, for long, needs nothing. */
Test(kvm_stopped, a_long_run)
{
	begin(&g, true);
	takes_ns = 30 * SECOND;
	EXPECT_OUT(&g, 0xf4, 4, 0);
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_expect(told == 0);
}

/* A VM without interrupt controllers has no kernel with watchdogs. */
Test(kvm_stopped, without_irqchip)
{
	begin(&g, false);
	now_ns += 30 * SECOND;
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_expect(told == 0 && entered >= 3);
}
