// SPDX-License-Identifier: LGPL-2.1-or-later
/* The VMM's threads: registered with liburcu at their first call, and released at their end. */
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "vpmu/core/rcu.h"
#include "vpmu/kvm/priv.h"

static pthread_key_t end_key;
static pthread_once_t end_once = PTHREAD_ONCE_INIT;

static __thread struct {
	bool used, registered; /* registered by us */
	struct vpmu_kvm_vcpu *bound;
} self;

static void thread_end(void *arg)
{
	(void)arg;
	if (self.bound)
		vpmu_kvm_release(self.bound);
	if (self.registered)
		urcu_memb_unregister_thread();
	self.registered = self.used = false;
}

static void thread_key(void)
{
	pthread_key_create(&end_key, thread_end);
}

void kvm_thread_use(void)
{
	if (self.used)
		return;
	pthread_once(&end_once, thread_key);
	pthread_setspecific(end_key, &self);
	if (!URCU_TLS(urcu_memb_reader).registered) {
		urcu_memb_register_thread();
		self.registered = true;
	}
	self.used = true;
}

struct vpmu_kvm_vcpu **kvm_thread_bound(void)
{
	return &self.bound;
}

void kvm_thread_start_rcu(void)
{
	char name[16] = "";
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	/* A new thread has the name of its maker, and by that name vpmud knows QEMU's vCPUs. */
	prctl(PR_GET_NAME, name);
	prctl(PR_SET_NAME, "vpmu-rcu");
	urcu_memb_get_default_call_rcu_data();
	prctl(PR_SET_NAME, name);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}
