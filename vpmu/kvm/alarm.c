// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Alarms: signals that end KVM_RUN, from the kernel (a perf event or a timer of the vCPU's thread)
 * or from a control call that waits for the thread. immediate_exit is not set then, so the handler
 * sets it, for the vCPU that the thread runs or is bound to. Without that, an alarm just before
 * KVM_RUN would be lost until the guest next exits. It has a bit of its own there: KVM takes any
 * value but 0, and the VMM writes 1 and 0.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vpmu/kvm/port.h"
#include "vpmu/util/fail.h"

static _Atomic int alarm_signal; /* 0: not installed */

/* kvm_run of the vCPU that this thread runs, or is bound to */
static __thread struct kvm_run *volatile inside;
static __thread _Atomic bool alarmed;

static void on_alarm(int sig)
{
	struct kvm_run *kr = inside;

	(void)sig;
	/* The flag before the bit: kvm_alarm_take clears them in the reverse order. */
	atomic_store(&alarmed, true);
	if (kr)
		__atomic_fetch_or(&kr->immediate_exit, VPMU_KVM_IMMEDIATE, __ATOMIC_SEQ_CST);
}

int kvm_signal_install(int sig, void (*handler)(int), char *why, size_t why_len)
{
	struct sigaction sa = {.sa_handler = handler}, old;

	if (sigaction(sig, NULL, &old))
		return fail(-errno, why, why_len, "signal %d: %s", sig, strerror(errno));
	if (old.sa_handler == handler)
		return 0;
	if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN)
		return fail(-EBUSY, why, why_len,
			    "signal %d, which KVM guests need, has a handler already", sig);
	sigemptyset(&sa.sa_mask);
	/* No SA_RESTART: the point is that KVM_RUN returns EINTR. */
	if (sigaction(sig, &sa, NULL))
		return fail(-errno, why, why_len, "signal %d: %s", sig, strerror(errno));
	return 0;
}

int kvm_alarm_install(int sig, char *why, size_t why_len)
{
	int none = 0, rc;

	if (!atomic_compare_exchange_strong(&alarm_signal, &none, sig) && none != sig)
		return fail(
			-EBUSY, why, why_len,
			"alarm signal %d is invalid; expected %d, as for the process's other VMs",
			sig, none);
	rc = kvm_signal_install(sig, on_alarm, why, why_len);
	/* The kernel sends SIGIO when the signal queue is full; by default it ends the process. */
	if (!rc)
		rc = kvm_signal_install(SIGIO, on_alarm, why, why_len);
	if (rc && !none)
		atomic_store(&alarm_signal, 0);
	return rc;
}

int kvm_alarm_signal(void)
{
	return atomic_load_explicit(&alarm_signal, memory_order_relaxed);
}

void kvm_alarm_unblock(void)
{
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, kvm_alarm_signal());
	sigaddset(&ours, SIGIO);
	pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
}

int kvm_alarm_open(void)
{
	static __thread int tid;

	if (!tid) {
		kvm_alarm_unblock();
		tid = (int)syscall(SYS_gettid);
	}
	return tid;
}

void kvm_alarms_to(struct kvm_run *kr)
{
	inside = kr;
	/* An earlier alarm has not set immediate_exit. */
	if (kr && atomic_load(&alarmed))
		__atomic_fetch_or(&kr->immediate_exit, VPMU_KVM_IMMEDIATE, __ATOMIC_SEQ_CST);
}

bool kvm_alarm_pending(void)
{
	return atomic_load_explicit(&alarmed, memory_order_relaxed);
}

bool kvm_alarm_take(struct kvm_run *kr)
{
	if (!kvm_alarm_pending())
		return false;
	/* An alarm in between sets both again: at worst the next KVM_RUN returns for nothing. */
	__atomic_fetch_and(&kr->immediate_exit, (uint8_t)~VPMU_KVM_IMMEDIATE, __ATOMIC_SEQ_CST);
	return atomic_exchange(&alarmed, false);
}
