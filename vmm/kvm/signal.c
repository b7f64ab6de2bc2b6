// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The signals that end KVM_RUN. A kick comes from another thread, which has set immediate_exit
 * before it signals; its handler does nothing. An alarm (VMM_ALARM_SIGNAL) comes from the kernel: a
 * perf event or a timer of the vCPU's thread. immediate_exit is not set then, so the handler sets
 * it, for the vCPU that the thread is about to run or runs. Without that, an alarm just before
 * KVM_RUN would be lost until the guest next exits.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/kvm/kvm_priv.h"
#include "vpmu/util/fail.h"

static __thread struct kvm_run *volatile inside; /* kvm_run of the vCPU that this thread runs */
static __thread _Atomic bool alarmed;

static void on_kick(int sig)
{
	/* Nothing to do: its arrival ends KVM_RUN; immediate_exit covers the time before. */
}

static void on_alarm(int sig)
{
	struct kvm_run *kr = inside;

	atomic_store(&alarmed, true);
	if (kr)
		__atomic_store_n(&kr->immediate_exit, 1, __ATOMIC_SEQ_CST);
}

static int install(int sig, void (*handler)(int), char *why, size_t why_len)
{
	struct sigaction sa = {.sa_handler = handler}, old;

	if (sigaction(sig, NULL, &old))
		return fail(-errno, why, why_len, "signal %d: %s", sig, strerror(errno));
	if (old.sa_handler == handler)
		return 0;
	if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN)
		return fail(-EBUSY, why, why_len,
			    "signal %d, which the KVM engine needs, has a handler already", sig);
	sigemptyset(&sa.sa_mask);
	/* No SA_RESTART: the point is that KVM_RUN returns EINTR. */
	if (sigaction(sig, &sa, NULL))
		return fail(-errno, why, why_len, "signal %d: %s", sig, strerror(errno));
	return 0;
}

int kvm_signals_install(char *why, size_t why_len)
{
	int rc = install(VMM_KVM_KICK_SIGNAL, on_kick, why, why_len);

	if (!rc)
		rc = install(VMM_ALARM_SIGNAL, on_alarm, why, why_len);
	/* The kernel sends SIGIO when the signal queue is full; by default it ends the process. */
	return rc ? rc : install(SIGIO, on_alarm, why, why_len);
}

int kvm_signals_open(void)
{
	static __thread int tid;
	sigset_t ours;

	if (!tid) {
		sigemptyset(&ours);
		sigaddset(&ours, VMM_KVM_KICK_SIGNAL);
		sigaddset(&ours, VMM_ALARM_SIGNAL);
		sigaddset(&ours, SIGIO);
		pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
		tid = (int)syscall(SYS_gettid);
	}
	return tid;
}

void kvm_alarms_to(struct kvm_run *kr)
{
	inside = kr;
	/* An earlier alarm has not set immediate_exit. */
	if (kr && atomic_load(&alarmed))
		__atomic_store_n(&kr->immediate_exit, 1, __ATOMIC_SEQ_CST);
}

bool kvm_alarm_take(void)
{
	return atomic_load_explicit(&alarmed, memory_order_relaxed) &&
	       atomic_exchange(&alarmed, false);
}
