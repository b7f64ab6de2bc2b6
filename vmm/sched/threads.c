// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One thread per vCPU; see threads.h. The control thread gives a vCPU's thread an order under the
 * scheduler's lock, and kicks it if it may be in the guest. The thread reports by its state
 * (running). While the thread exists, no other thread may touch its pCPU or the vCPU's register
 * model.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "vmm/sched/threads.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"

enum order { ORDER_WAIT, ORDER_RUN, ORDER_UNPLACE, ORDER_QUIT };

struct threads {
	struct vm_sched sched; /* first */
	struct vpmu_host *host;
	struct threads_pmu pmu;
	unsigned int next_id;
	struct vcpu_thread *list;
	pthread_mutex_t lock; /* orders, states */
	pthread_cond_t cond;  /* an order or a state has changed */
};

struct vcpu_thread {
	struct threads *threads;
	struct vcpu *v;
	struct vpmu_hostpmu *pmu;
	struct vcpu_env env;
	unsigned int id; /* of the pCPU */
	pthread_t thread;
	bool alive;	   /* the thread exists; used by the control thread only */
	bool placed;	   /* the vCPU is placed; under lock, changed by the thread only */
	_Atomic int order; /* enum order; written under lock */
	_Atomic bool tick; /* rotate at the next exit */
	bool running;	   /* the thread is in run(); under lock */
	int tid;	   /* 0 until the thread has started; under lock */
	struct vcpu_thread *next;
};

/* ---- the vCPU's thread ---- */

static enum order order_of(struct vcpu_thread *t)
{
	/* Acquire: pairs with the release in give_order. */
	return atomic_load_explicit(&t->order, memory_order_acquire);
}

/* Before the first run, place the vCPU on the pCPU where it stays. False: out of memory. */
static bool threads_place(struct vcpu_thread *t)
{
	if (t->placed)
		return true;
	if (vpmu_context_place(&t->v->ctx, t->env.pcpu)) {
		vm_fail(t->v->vm, "vCPU %u: out of memory", t->v->id);
		t->v->state = VCPU_FAILED;
		return false;
	}
	vpmu_guest_placed(t->v->guest, t->env.pcpu);
	vcpu_note_uncounted(t->v);
	t->placed = true;
	return true;
}

/* Release the vCPU's counters; their values stay in registers. Not under the lock: that would
 * invert the order with locks of the core that the control thread may hold. */
static void unplace(struct vcpu_thread *t)
{
	vpmu_pcpu_online(t->env.pcpu);
	if (!t->v->guest_gone)
		vpmu_guest_placed(t->v->guest, NULL);
	vpmu_pcpu_offline(t->env.pcpu);
}

static void finish_guest(struct vcpu_thread *t)
{
	if (!t->v->guest_gone)
		vpmu_guest_fini(t->v->guest);
	t->v->guest_gone = true;
}

/* Run the vCPU until it ends or the order changes, with the pCPU online. */
static void threads_run(struct vcpu_thread *t)
{
	struct vcpu *v = t->v;
	struct vcpu_used used = {0};

	vpmu_pcpu_online(t->env.pcpu);
	if (threads_place(t))
		vpmu_pcpu_switch(t->env.pcpu, &v->ctx);
	while (v->state == VCPU_READY && order_of(t) == ORDER_RUN) {
		vcpu_run_slice(v, &t->env, 0, &used);
		if (atomic_exchange_explicit(&t->tick, false, memory_order_relaxed))
			vpmu_pcpu_tick(t->env.pcpu);
		vpmu_pcpu_poll(t->env.pcpu);
	}
	if (v->state != VCPU_READY)
		finish_guest(t);
	vpmu_pcpu_switch(t->env.pcpu, NULL);
	vpmu_pcpu_offline(t->env.pcpu);
	if (v->state != VCPU_READY)
		vm_vcpu_ended(v);
}

static void *vcpu_thread(void *arg)
{
	struct vcpu_thread *t = arg;
	struct threads *ts = t->threads;
	enum order order;
	char name[16];

	/* vpmud/discover recognizes vCPU threads by this name, which is QEMU's. */
	snprintf(name, sizeof(name), "CPU %u/KVM", t->id);
	pthread_setname_np(pthread_self(), name);
	urcu_memb_register_thread();
	if (ts->pmu.set_thread)
		ts->pmu.set_thread(t->pmu, gettid());
	pthread_mutex_lock(&ts->lock);
	t->tid = gettid();
	pthread_cond_broadcast(&ts->cond);
	while ((order = order_of(t)) != ORDER_QUIT) {
		if (order == ORDER_UNPLACE && t->placed) {
			pthread_mutex_unlock(&ts->lock);
			unplace(t);
			pthread_mutex_lock(&ts->lock);
			t->placed = false;
			pthread_cond_broadcast(&ts->cond);
			continue;
		}
		if (order != ORDER_RUN || t->v->state != VCPU_READY) {
			pthread_cond_wait(&ts->cond, &ts->lock);
			continue;
		}
		t->running = true;
		pthread_mutex_unlock(&ts->lock);
		threads_run(t);
		pthread_mutex_lock(&ts->lock);
		t->running = false;
		pthread_cond_broadcast(&ts->cond);
	}
	pthread_mutex_unlock(&ts->lock);
	/* Only the owner of the pCPU, this thread, may stop the vCPU's counters. */
	vpmu_pcpu_online(t->env.pcpu);
	finish_guest(t);
	vpmu_pcpu_offline(t->env.pcpu);
	urcu_memb_unregister_thread();
	return NULL;
}

/* ---- the control thread ---- */

static struct threads *threads_of_sched(struct vm_sched *s)
{
	return (struct threads *)s; /* sched is the first member */
}

static struct vcpu_thread *thread_of(const struct vcpu *v)
{
	return v->thread;
}

static void give_order(struct vcpu_thread *t, enum order order)
{
	struct threads *ts = t->threads;
	bool kick;

	pthread_mutex_lock(&ts->lock);
	/* Release: pairs with order_of() outside the lock. */
	atomic_store_explicit(&t->order, order, memory_order_release);
	kick = t->running && order != ORDER_RUN;
	pthread_cond_broadcast(&ts->cond);
	pthread_mutex_unlock(&ts->lock);
	if (kick)
		t->v->vm->ops->kick(t->v->ev);
}

static int vcpu_init(struct vm_sched *s, struct vcpu *v, struct vpmu_hostpmu **pmu, char *err,
		     size_t errlen)
{
	struct threads *ts = threads_of_sched(s);
	struct vcpu_thread *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return fail(-ENOMEM, err, errlen, "vm %s: out of memory", v->vm->name);
	t->threads = ts;
	t->v = v;
	ret = ts->pmu.create(v, ts->pmu.arg, &t->pmu, err, errlen);
	if (ret)
		goto err_free;
	ret = vpmu_pcpu_create(ts->host, t->pmu, ts->next_id, &t->env.pcpu);
	if (ret) {
		fail(ret, err, errlen, "vm %s: pCPU of vCPU %u: %s", v->vm->name, v->id,
		     strerror(-ret));
		goto err_pmu;
	}
	t->id = ts->next_id++;
	t->next = ts->list;
	ts->list = t;
	v->thread = t;
	*pmu = t->pmu;
	return 0;
err_pmu:
	ts->pmu.destroy(t->pmu);
err_free:
	free(t);
	return ret;
}

static void vcpu_fini(struct vm_sched *s, struct vcpu *v)
{
	struct vcpu_thread *t = thread_of(v), **p;

	if (!t)
		return;
	for (p = &threads_of_sched(s)->list; *p != t; p = &(*p)->next)
		;
	*p = t->next;
	vpmu_pcpu_destroy(t->env.pcpu);
	threads_of_sched(s)->pmu.destroy(t->pmu);
	free(t);
	v->thread = NULL;
}

/* Create the thread and put it into the VM's cgroup before it runs anything. */
static int spawn(struct vcpu_thread *t, char *err, size_t errlen)
{
	struct threads *ts = t->threads;
	struct vm *vm = t->v->vm;
	int ret;

	atomic_store_explicit(&t->order, ORDER_WAIT, memory_order_relaxed);
	ret = -pthread_create(&t->thread, NULL, vcpu_thread, t);
	if (ret)
		return fail(ret, err, errlen, "vm %s: thread of vCPU %u: %s", vm->name, t->v->id,
			    strerror(-ret));
	t->alive = true;
	pthread_mutex_lock(&ts->lock);
	while (!t->tid)
		pthread_cond_wait(&ts->cond, &ts->lock);
	pthread_mutex_unlock(&ts->lock);
	return vm->join ? vm->join(vm, t->tid, vm->arg, err, errlen) : 0;
}

static void quit(struct vcpu_thread *t)
{
	if (!t || !t->alive)
		return;
	give_order(t, ORDER_QUIT);
	pthread_join(t->thread, NULL);
	t->alive = false;
	t->tid = 0;
}

static int threads_sched_start(struct vm_sched *s, struct vm *vm, char *err, size_t errlen)
{
	int ret;

	for (unsigned int i = 0; i < vm->nr_vcpus; i++) {
		struct vcpu_thread *t = thread_of(&vm->vcpus[i]);

		ret = t->alive ? 0 : spawn(t, err, errlen);
		if (ret)
			return ret; /* threads that exist wait for an order or for vm_destroy */
	}
	for (unsigned int i = 0; i < vm->nr_vcpus; i++)
		give_order(thread_of(&vm->vcpus[i]), ORDER_RUN);
	return 0;
}

/* Give all threads the same order, and wait until none runs; for unplace, until no vCPU is placed.
 * Ignores threads that do not exist. */
static void stop_all(struct threads *ts, struct vm *vm, enum order order)
{
	for (unsigned int i = 0; i < vm->nr_vcpus; i++)
		give_order(thread_of(&vm->vcpus[i]), order);
	pthread_mutex_lock(&ts->lock);
	for (unsigned int i = 0; i < vm->nr_vcpus; i++) {
		const struct vcpu_thread *t = thread_of(&vm->vcpus[i]);

		while (t->running || (order == ORDER_UNPLACE && t->alive && t->placed))
			pthread_cond_wait(&ts->cond, &ts->lock);
	}
	pthread_mutex_unlock(&ts->lock);
}

static void threads_sched_pause(struct vm_sched *s, struct vm *vm)
{
	stop_all(threads_of_sched(s), vm, ORDER_WAIT);
}

static int threads_sched_unplace(struct vm_sched *s, struct vm *vm)
{
	stop_all(threads_of_sched(s), vm, ORDER_UNPLACE);
	return 0;
}

static void threads_sched_remove(struct vm_sched *s, struct vm *vm)
{
	for (unsigned int i = 0; i < vm->nr_vcpus; i++)
		quit(thread_of(&vm->vcpus[i]));
}

/* Nothing to do: the kernel wakes it, threads_run() does not return in HLT. */
static void threads_sched_wake(struct vm_sched *s, struct vcpu *v)
{
}

static const struct vm_sched_ops threads_sched_ops = {
	.vcpu_init = vcpu_init,
	.vcpu_fini = vcpu_fini,
	.start = threads_sched_start,
	.pause = threads_sched_pause,
	.unplace = threads_sched_unplace,
	.remove = threads_sched_remove,
	.wake = threads_sched_wake,
};

struct vm_sched *threads_sched(struct threads *ts)
{
	return &ts->sched;
}

void threads_tick(struct threads *ts)
{
	pthread_mutex_lock(&ts->lock);
	for (struct vcpu_thread *t = ts->list; t; t = t->next) {
		if (!t->running || !vpmu_pcpu_wants_tick(t->env.pcpu))
			continue;
		atomic_store_explicit(&t->tick, true, memory_order_relaxed);
		t->v->vm->ops->kick(t->v->ev);
	}
	pthread_mutex_unlock(&ts->lock);
}

int threads_create(struct vpmu_host *host, const struct threads_pmu *pmu, unsigned int first_id,
		   struct threads **out)
{
	struct threads *ts = calloc(1, sizeof(*ts));

	if (!ts)
		return -ENOMEM;
	ts->sched.ops = &threads_sched_ops;
	ts->host = host;
	ts->pmu = *pmu;
	ts->next_id = first_id;
	pthread_mutex_init(&ts->lock, NULL);
	pthread_cond_init(&ts->cond, NULL);
	*out = ts;
	return 0;
}

void threads_destroy(struct threads *ts)
{
	pthread_cond_destroy(&ts->cond);
	pthread_mutex_destroy(&ts->lock);
	free(ts);
}
