// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vCPUs that wait in HLT, and the timers of VMs with all vCPUs waiting; see runner_priv.h and
 * "Halted vCPUs" in vmm/engine/engine.h. Any thread may wake a vCPU. Timers are serviced by the
 * pCPU on which the VM ran last.
 *
 * A vCPU that waits is in no queue and has no owner. vcpu.sleep decides its next owner: its pCPU
 * changes it from AWAKE to ASLEEP when it releases the vCPU; any waker exchanges it for WOKEN. The
 * one waker that finds ASLEEP owns the vCPU. If the pCPU finds WOKEN, it keeps the vCPU. So no wake
 * is lost, and a superfluous one only causes an extra run().
 *
 * Each pCPU has a heap of the VMs for which it must call expire(). A VM is in one heap or none.
 * Only the thread of the pCPU adds a VM, so that needs no wakeup. An entry may be too early,
 * because the VM has run since: expire() then returns the right time.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "vmm/sched/runner_priv.h"
#include "vpmu/util/clock.h"

enum { AWAKE, WOKEN, ASLEEP }; /* vcpu.sleep */

/* Cost of halting and waking for the host, in units of effort, beyond the guest's own: two locks, a
 * timer, perhaps a sleep of the pCPU's thread. */
#define HALT_EFFORT 3000

/* ---- the time that passes for VMs that wait ---- */

/* The modelled clock of the pCPU that is ahead, plus the skipped time. */
static uint64_t modelled(const struct runner *r)
{
	uint64_t now = 0;

	for (unsigned int i = 0; i < r->nr; i++) {
		uint64_t clock = __atomic_load_n(&r->pcpus[i]->clock_ns, __ATOMIC_RELAXED);

		now = clock > now ? clock : now;
	}
	return 1 + now + atomic_load_explicit(&r->skipped, memory_order_relaxed);
}

static uint64_t time_now(const struct runner *r)
{
	return r->host_time ? clock_ns(CLOCK_MONOTONIC) - r->time_from : modelled(r);
}

void halt_launch(struct runner *r)
{
	/* Continue from the modelled time. */
	r->time_from = clock_ns(CLOCK_MONOTONIC) - modelled(r);
	r->host_time = !r->cfg.skip_idle;
}

/* ---- timers; only under timer_lock, unless noted ---- */

int halt_reserve(struct runner_pcpu *p, unsigned int vms)
{
	struct vm **heap;
	int ret = 0;

	pthread_mutex_lock(&p->runner->timer_lock);
	if (vms > p->timers.room) {
		heap = realloc(p->timers.heap, 2 * vms * sizeof(*heap));
		if (heap) {
			p->timers.heap = heap;
			p->timers.room = 2 * vms;
		} else {
			ret = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&p->runner->timer_lock);
	return ret;
}

static void halt_place(struct runner_pcpu *p, unsigned int i, struct vm *vm)
{
	p->timers.heap[i] = vm;
	vm->timer.at = i;
}

static void sift(struct runner_pcpu *p, unsigned int i, struct vm *vm)
{
	struct vm **heap = p->timers.heap;
	unsigned int c;

	for (; i && vm->timer.due < heap[(i - 1) / 2]->timer.due; i = (i - 1) / 2)
		halt_place(p, i, heap[(i - 1) / 2]);
	for (; (c = 2 * i + 1) < p->timers.nr; i = c) {
		if (c + 1 < p->timers.nr && heap[c + 1]->timer.due < heap[c]->timer.due)
			c++;
		if (heap[c]->timer.due >= vm->timer.due)
			break;
		halt_place(p, i, heap[c]);
	}
	halt_place(p, i, vm);
}

static void note_first(struct runner_pcpu *p)
{
	atomic_store_explicit(&p->timers.first,
			      p->timers.nr ? p->timers.heap[0]->timer.due : UINT64_MAX,
			      memory_order_relaxed);
}

static void timer_remove(struct vm *vm)
{
	struct runner_pcpu *p = vm->timer.home;
	struct vm *last;

	if (!p)
		return;
	vm->timer.home = NULL;
	last = p->timers.heap[--p->timers.nr];
	if (last != vm)
		sift(p, vm->timer.at, last);
	note_first(p);
}

/* Schedule expire() for @vm at @due or earlier. Only the owner of @p. Takes the lock. */
static void timer_set(struct runner_pcpu *p, struct vm *vm, uint64_t due)
{
	pthread_mutex_lock(&p->runner->timer_lock);
	if (!vm->timer.home || vm->timer.due > due) {
		timer_remove(vm);
		vm->timer.home = p;
		vm->timer.due = due;
		sift(p, p->timers.nr++, vm);
		note_first(p);
	}
	pthread_mutex_unlock(&p->runner->timer_lock);
}

/* Remove @vm from its heap, and wait until no expire() for it is in progress. All its vCPUs are
 * away, so only a pCPU in expire() may put it back. Takes the lock. */
static void timer_cancel(struct runner *r, struct vm *vm)
{
	pthread_mutex_lock(&r->timer_lock);
	for (unsigned int i = 0; i < r->nr; i++)
		while (r->pcpus[i]->timers.calls == vm)
			pthread_cond_wait(&r->timer_called, &r->timer_lock);
	timer_remove(vm);
	pthread_mutex_unlock(&r->timer_lock);
}

void halt_expire(struct runner_pcpu *p)
{
	struct runner *r = p->runner;
	uint64_t now = time_now(r), next;

	for (;;) {
		struct vm *vm;

		pthread_mutex_lock(&r->timer_lock);
		vm = p->timers.nr && p->timers.heap[0]->timer.due <= now ? p->timers.heap[0] : NULL;
		if (vm)
			timer_remove(vm);
		p->timers.calls = vm;
		pthread_mutex_unlock(&r->timer_lock);
		if (!vm)
			return;
		next = 0;
		vm->ops->expire(vm->evm, &next);
		if (next)
			timer_set(p, vm, next);
		pthread_mutex_lock(&r->timer_lock);
		p->timers.calls = NULL;
		pthread_cond_broadcast(&r->timer_called);
		pthread_mutex_unlock(&r->timer_lock);
		/* It may be due again at once; let others run first. */
		if (next && next <= now)
			return;
	}
}

/* ---- a pCPU without work ---- */

static uint64_t halt_first(const struct runner_pcpu *p)
{
	return atomic_load_explicit(&p->timers.first, memory_order_relaxed);
}

bool halt_wait(struct runner_pcpu *p)
{
	struct runner *r = p->runner;
	uint64_t due = halt_first(p), at;
	struct timespec t;

	if (due == UINT64_MAX) {
		pthread_cond_wait(&p->wake, &p->lock);
		return false;
	}
	if (!r->host_time)
		return halt_skip(r);
	if (time_now(r) >= due)
		return true;
	at = due + r->time_from;
	t = (struct timespec){.tv_sec = (time_t)(at / 1000000000),
			      .tv_nsec = (long)(at % 1000000000)};
	if (at < r->time_from || t.tv_sec < 0) /* in some centuries */
		pthread_cond_wait(&p->wake, &p->lock);
	else
		pthread_cond_timedwait(&p->wake, &p->lock, &t);
	return false;
}

bool halt_skip(struct runner *r)
{
	uint64_t due = UINT64_MAX, now = time_now(r);

	for (unsigned int i = 0; i < r->nr; i++)
		due = halt_first(r->pcpus[i]) < due ? halt_first(r->pcpus[i]) : due;
	if (due == UINT64_MAX)
		return false;
	if (due > now)
		atomic_fetch_add_explicit(&r->skipped, due - now, memory_order_relaxed);
	return true;
}

/* ---- vCPUs ---- */

/* The queue for a vCPU that wakes up: its former pCPU's, unless only another pCPU is idle. */
static struct runner_pcpu *halt_target(struct vcpu *v)
{
	struct runner_pcpu *p = v->placed ? v->placed : v->clock_of;
	struct runner *r = p->runner;
	uint64_t idle = atomic_load_explicit(&r->idle, memory_order_relaxed);

	if (r->cfg.migrate == RUNNER_MIGRATE_NONE || (idle >> p->id & 1) || !idle)
		return p;
	idle &= -idle;
	/* Claim it, so that no other vCPU is sent there, too. */
	return atomic_fetch_and(&r->idle, ~idle) & idle ? r->pcpus[__builtin_ctzll(idle)] : p;
}

/* Give @v, which the caller owns, to @p. */
static void resume(struct vcpu *v, struct runner_pcpu *p)
{
	int sleep = VCPU_REQ_SLEEP;

	atomic_store_explicit(&v->sleep, AWAKE, memory_order_relaxed);
	/* Another request stays. */
	atomic_compare_exchange_strong(&v->request, &sleep, VCPU_REQ_NONE);
	v->active = true;
	share_enter(&v->vm->share);
	runq_push(p, v, false);
}

void halt_wake(struct vcpu *v)
{
	/* Acquire: pairs with the release in halt_sleep. Release: the pCPU that finds WOKEN sees
	 * all earlier writes, also a request. */
	if (atomic_exchange_explicit(&v->sleep, WOKEN, memory_order_acq_rel) == ASLEEP)
		resume(v, halt_target(v));
}

void halt_begin(struct runner_pcpu *p, struct vcpu *v)
{
	int none = VCPU_REQ_NONE;

	runq_charge(v, HALT_EFFORT);
	if (v->run.u.hlt.deadline)
		timer_set(p, v->vm, v->run.u.hlt.deadline);
	/* A request of the control thread has precedence. */
	atomic_compare_exchange_strong(&v->request, &none, VCPU_REQ_SLEEP);
}

void halt_sleep(struct runner_pcpu *p, struct vcpu *v)
{
	int awake = AWAKE;

	share_leave(&v->vm->share);
	v->active = false;
	/* Release and acquire: pair with halt_wake. */
	if (!atomic_compare_exchange_strong_explicit(&v->sleep, &awake, ASLEEP,
						     memory_order_acq_rel, memory_order_acquire))
		resume(v, p);
}

void halt_ended(struct runner_pcpu *p, struct vcpu *v)
{
	uint64_t next = 0;

	if (!v->vm->waits || v->vm->ops->retire(v->ev, &next) || !next)
		return;
	timer_set(p, v->vm, next);
}

/* ---- VMs; the control thread ---- */

static void halt_on_wake(void *arg, unsigned int id)
{
	halt_wake(&((struct vm *)arg)->vcpus[id]);
}

static uint64_t on_time(void *arg)
{
	return time_now((struct runner *)((struct vm *)arg)->sched);
}

void halt_start(struct vm *vm)
{
	const struct vmm_waker w = {
		.wake = halt_on_wake,
		.time = on_time,
		.arg = vm,
		.repeats = ((struct runner *)vm->sched)->cfg.skip_idle,
	};

	vm->waits = vm->irqchip && (vm->ops->can & VMM_CAN_WAKE);
	if (vm->waits)
		vm->ops->set_waker(vm->evm, &w);
}

void halt_stop(struct runner *r, struct vm *vm)
{
	if (!vm->waits)
		return;
	timer_cancel(r, vm);
	vm->ops->set_waker(vm->evm, NULL);
}
