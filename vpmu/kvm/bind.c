// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The thread of a vCPU: its counters are perf events of that thread, so a pCPU of libvpmu lasts as
 * long as the bond. Between two bonds the vCPU is placed nowhere, and its values are in registers.
 *
 * A timer of the thread sends the alarm signal while something is counted or is to be, so that a
 * guest that never exits is interrupted to multiplex events and to answer control calls.
 */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vpmu/host/perf_priv.h"
#include "vpmu/kvm/priv.h"
#include "vpmu/kvm/quick.h"
#include "vpmu/pcpu.h"
#include "vpmu/util/clock.h"

static uint64_t bind_guest_tsc(void *arg)
{
	const struct vpmu_kvm_vcpu *v = arg;

	return v->port.tsc;
}

/* Any thread: a control call waits for this one. */
static void bind_kick(void *arg)
{
	struct vpmu_kvm_vcpu *v = arg;
	int tid = atomic_load(&v->tid);

	if (tid)
		syscall(SYS_tgkill, getpid(), tid, kvm_alarm_signal());
}

int kvm_vcpu_perf_init(struct vpmu_kvm_vcpu *v)
{
	const struct vpmu_kvm_vm_opts *o = &v->vm->opts;
	const struct vpmu_hostpmu_perf_opts opts = {
		.cpu = VPMU_PERF_THREAD,
		.pinned = o->flags & VPMU_KVM_PINNED,
		.guest_tsc = bind_guest_tsc,
		.kick = bind_kick,
		.arg = v,
		.nominal_cycles = o->flags & VPMU_KVM_NOMINAL_CYCLES,
		.alarm_signal = kvm_alarm_signal(),
	};

	int rc = v->theirs ? 0 : vpmu_hostpmu_perf_init(&v->perf, &opts);

	if (!rc && v->vm->share && !v->theirs)
		kvm_pages_init(&v->pages, &v->perf, v->vm->share, kvm_alarm_signal());
	return rc;
}

void kvm_vcpu_perf_fini(struct vpmu_kvm_vcpu *v)
{
	if (v->pages.client)
		kvm_pages_thread(&v->pages, 0);
	if (!v->theirs)
		vpmu_hostpmu_perf_fini(&v->perf);
}

/* The default leaves others nothing that the guest has counters for: most guests cannot know that
 * their events are multiplexed, and would count too little. */
static unsigned int bind_leave(const struct vpmu_kvm_vcpu *v)
{
	const struct vpmu_perf_capacity host = vpmu_perf_capacity();
	unsigned int need = v->guest->cfg.gp, left;

	if (v->vm->opts.leave_counters)
		return v->vm->opts.leave_counters;
	if (v->guest->cfg.fixed > host.fixed)
		need += v->guest->cfg.fixed - host.fixed;
	left = host.gp > need ? host.gp - need : 0;
	return left < VPMU_PERF_LEAVE ? left : VPMU_PERF_LEAVE;
}

static int bind_pmu(struct vpmu_kvm_vcpu *v, int tid)
{
	struct vpmu_hostpmu *pmu = v->theirs ? v->theirs : &v->perf.pmu;

	if (!v->theirs) {
		v->perf.opts.leave_counters = bind_leave(v);
		vpmu_hostpmu_perf_set_thread(&v->perf, tid);
	}
	if (v->pages.client) {
		kvm_pages_thread(&v->pages, tid);
		pmu = &v->pages.pmu;
	}
	return vpmu_pcpu_create(v->vm->opts.host, pmu, v->port.id, &v->pcpu);
}

/* The pCPU is offline, and nothing runs on it. The register model continues to ask the PMU which
 * events it has, but no event or timer of this thread may remain. */
static void unbind_pmu(struct vpmu_kvm_vcpu *v)
{
	vpmu_pcpu_destroy(v->pcpu);
	v->pcpu = NULL;
	kvm_vcpu_perf_fini(v);
	kvm_vcpu_perf_init(v); /* succeeded with the same options before */
}

static void bind_timer(struct vpmu_kvm_vcpu *v, int tid)
{
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = kvm_alarm_signal()};

#ifdef sigev_notify_thread_id
	ev.sigev_notify_thread_id = tid;
#else
	ev._sigev_un._tid = tid;
#endif
	/* Without one (RLIMIT_SIGPENDING), ticks are done at exits only. */
	v->timer_made = !timer_create(CLOCK_MONOTONIC, &ev, &v->timer);
	v->timer_on = false;
}

int kvm_vcpu_bind(struct vpmu_kvm_vcpu *v, int tid)
{
	struct vpmu_kvm_vcpu **bound = kvm_thread_bound();
	int none = 0, rc;

	if (*bound)
		vpmu_kvm_release(*bound);
	if (!atomic_compare_exchange_strong(&v->tid, &none, tid))
		return -EBUSY;
	if (v->own) {
		rc = bind_pmu(v, tid);
		if (rc)
			goto err_tid;
		vpmu_pcpu_online(v->pcpu);
		rc = vpmu_context_place(&v->ctx, v->pcpu);
		if (rc)
			goto err_pmu;
		vpmu_guest_placed(v->guest, v->pcpu);
		vpmu_pcpu_switch(v->pcpu, &v->ctx);
		bind_timer(v, tid);
	}
	kvm_oncpu_open(&v->port.oncpu, tid, true);
	kvm_alarms_to(v->port.kr);
	*bound = v;
	return 0;
err_pmu:
	vpmu_pcpu_offline(v->pcpu);
	unbind_pmu(v);
err_tid:
	atomic_store(&v->tid, 0);
	return rc;
}

bool kvm_bound_elsewhere(struct vpmu_kvm_vcpu *v)
{
	return atomic_load(&v->tid) && *kvm_thread_bound() != v;
}

void vpmu_kvm_release(struct vpmu_kvm_vcpu *v)
{
	struct vpmu_kvm_vcpu **bound = kvm_thread_bound();

	if (*bound != v)
		return;
	*bound = NULL;
	kvm_alarms_to(NULL);
	/* The VMM does not clear it, and may run the vCPU without the library from now on. */
	__atomic_fetch_and(&v->port.kr->immediate_exit, (uint8_t)~VPMU_KVM_IMMEDIATE,
			   __ATOMIC_SEQ_CST);
	vpmu_hostpmu_perf_hold(&v->perf, false);
	kvm_oncpu_close(&v->port.oncpu);
	if (v->own) {
		if (v->timer_made)
			timer_delete(v->timer);
		v->timer_made = false;
		vpmu_guest_placed(v->guest, NULL);
		vpmu_pcpu_switch(v->pcpu, NULL);
		vpmu_pcpu_offline(v->pcpu);
		unbind_pmu(v);
	}
	atomic_store(&v->tid, 0);
}

void kvm_vcpu_tick(struct vpmu_kvm_vcpu *v, bool alarmed)
{
	uint64_t tick_ns = v->vm->opts.tick_ns, now;
	bool wants = kvm_wants_tick(v);

	/* The timer tells when it is time: most exits need no clock. */
	if (v->timer_made && wants == v->timer_on && !alarmed)
		return;
	if (wants != v->timer_on && v->timer_made) {
		const struct timespec t = {.tv_sec = wants ? (time_t)(tick_ns / 1000000000) : 0,
					   .tv_nsec = wants ? (long)(tick_ns % 1000000000) : 0};

		timer_settime(v->timer, 0, &(struct itimerspec){t, t}, NULL);
		v->timer_on = wants;
	}
	if (!wants)
		return;
	/* Other alarms are more frequent. The clock's steps and a timer that was late must not make
	 * the next one of the timer too early. */
	now = clock_ns(CLOCK_MONOTONIC_COARSE);
	if (now - v->ticked_ns < tick_ns / 2)
		return;
	v->ticked_ns = now;
	vpmu_pcpu_tick(v->pcpu);
	if (v->guest->again)
		vpmu_guest_placed(v->guest, v->pcpu);
	kvm_vcpu_note(v);
}
