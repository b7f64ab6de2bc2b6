/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interface between runqueue.c (queues), halt.c (vCPUs that wait), runner.c (the pCPUs) and
 * runner_ctl.c (the control thread). No other file includes this.
 *
 * Each pCPU has a run queue, ordered by virtual time (runqueue.c), with a lock of its own. The pCPU
 * takes the lock to pop the next vCPU and to push the last one; others take it to add or steal a
 * vCPU or to find a VM's vCPUs. A slice takes no other lock.
 *
 * A vCPU is in exactly one place: away (then the control thread may touch it), in one queue, owned
 * by one pCPU, or waiting in HLT (halt.c). The vCPU that ran last stays current on its pCPU until
 * another vCPU or the host is current there, and only then goes into a queue. So a vCPU in a queue
 * is current nowhere, and the thread that pops it may place it.
 *
 * The control thread takes vCPUs away by request: it sets v->request and moves the vCPU to the
 * front of its queue. A pCPU that pops a vCPU with a request serves the request instead of running
 * the vCPU. So a register model is only touched by the owner of the pCPU on which it counts.
 */
#pragma once

#include <pthread.h>

#include "vmm/sched/runner.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"

struct runq_entry {
	uint64_t vtime, seq;
	struct vcpu *v;
};

struct runner_pcpu {
	/* only for the owner, except the statistics */
	struct runner *runner;
	struct vpmu_pcpu *pcpu;
	struct vcpu *cur; /* the vCPU that is current on the pCPU, also between slices; or NULL */
	struct vcpu_env env;
	uint64_t rng;
	uint64_t next_tick_ns;
	uint64_t slices, insns, effort, migrated, ticks,
		clock_ns; /* stored relaxed, for runner_stats */
	unsigned int id;
	bool threaded;
	pthread_t thread;
	struct vpmu_emupmu emulator;

	struct { /* VMs that wait for a timer, under runner.timer_lock */
		struct vm **heap;
		unsigned int nr, room;
		struct vm *calls;	/* expire() of this VM is in progress */
		_Atomic uint64_t first; /* when the first is due; UINT64_MAX: none. Lockless */
	} timers;

	/* shared, under lock */
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t wake;
	struct vcpu *front;	 /* vCPUs with a request, by vcpu.next */
	_Atomic bool hurry;	 /* front is not empty: end the slice. Read without the lock */
	struct runq_entry *heap; /* the others */
	unsigned int nr, room;	 /* entries in use, allocated */
	uint64_t seq;
	_Atomic uint64_t vclock;  /* virtual time; read without the lock */
	_Atomic unsigned int len; /* read without the lock as a hint */
};

struct runner {
	struct vm_sched sched; /* first */
	struct host_config cfg;
	uint64_t tick_ns;
	bool launched;
	_Atomic bool stop;
	_Atomic uint64_t idle; /* bit per pCPU that sleeps or is about to */
	unsigned int nr, turn;
	unsigned int vcpus; /* the queues have room for this many */
	struct runner_pcpu **pcpus;

	/* halt.c: */
	bool host_time;		  /* clock of VMs that wait: host time, else modelled time */
	uint64_t time_from;	  /* host_time: its zero point */
	_Atomic uint64_t skipped; /* modelled idle time that was skipped, ns */
	pthread_mutex_t timer_lock;
	pthread_cond_t timer_called; /* an expire() is over */

	/* away_lock protects vcpu.away; signalled when it becomes true */
	pthread_mutex_t away_lock;
	pthread_cond_t away_cond;
};

/* runqueue.c */

/* runq_reserve - make room for @vcpus in @q. -ENOMEM. */
int runq_reserve(struct runner_pcpu *q, unsigned int vcpus);
/* runq_push - put @v, which the caller owns, into @q, at the front or by its virtual time. */
void runq_push(struct runner_pcpu *q, struct vcpu *v, bool front);
/* runq_pop - take the first vCPU of @q; the caller owns it then. NULL: @q is empty, or @cur
 * (current on @q's pCPU, or NULL) comes before all vCPUs in it. */
struct vcpu *runq_pop(struct runner_pcpu *q, const struct vcpu *cur);
/* runq_pop_front - the same, but only one that was put at the front. */
struct vcpu *runq_pop_front(struct runner_pcpu *q);
/* runq_charge - charge @effort to @v, which the caller owns. */
void runq_charge(struct vcpu *v, uint64_t effort);
/* runq_yield - @v, which the caller (the owner of @q) owns, waits for another vCPU of its VM: the
 * first of these in @q swaps its virtual time with it. */
void runq_yield(struct runner_pcpu *q, struct vcpu *v);
/* runq_expedite - move the vCPUs of @vm to the front of @q. */
void runq_expedite(struct runner_pcpu *q, const struct vm *vm);
/* runq_steal - take the first vCPU of the longest queue other than @p's, if it has at least @min
 * vCPUs. NULL: there is no such queue, or migration is off. */
struct vcpu *runq_steal(struct runner_pcpu *p, unsigned int min);
/* runq_length - the length of @q, read without its lock, so only a hint. */
static inline unsigned int runq_length(const struct runner_pcpu *q)
{
	return atomic_load_explicit(&q->len, memory_order_relaxed);
}

/* halt.c */

/* halt_begin - @v has returned VCPU_SLICE_HALTED: it will sleep when @p releases it. halt_sleep -
 * @p releases it. halt_ended - @v has ended. Only the owner of @p. */
void halt_begin(struct runner_pcpu *p, struct vcpu *v);
void halt_sleep(struct runner_pcpu *p, struct vcpu *v);
void halt_ended(struct runner_pcpu *p, struct vcpu *v);
/* halt_wake - @v has work, or a request. Any thread. */
void halt_wake(struct vcpu *v);
/* halt_poll - wake vCPUs with due timers. Only the owner of @p. */
void halt_expire(struct runner_pcpu *p);
static inline void halt_poll(struct runner_pcpu *p)
{
	if (__builtin_expect(
		    atomic_load_explicit(&p->timers.first, memory_order_relaxed) != UINT64_MAX, 0))
		halt_expire(p);
}
/* halt_wait - @p is idle: wait until a vCPU may run. Returns true if a timer is due. Only the owner
 * of @p, under p->lock, which is released during the wait. */
bool halt_wait(struct runner_pcpu *p);
/* halt_skip - advance modelled time to the next timer. Returns false if there is none. */
bool halt_skip(struct runner *r);
/* halt_reserve - make room for the timers of @vms VMs in @p. -ENOMEM. */
int halt_reserve(struct runner_pcpu *p, unsigned int vms);
/* halt_launch - the pCPUs get threads. halt_start - @vm begins to run. halt_stop - all its vCPUs
 * are away. The control thread. */
void halt_launch(struct runner *r);
void halt_start(struct vm *vm);
void halt_stop(struct runner *r, struct vm *vm);

/* runner.c: only for the owner of @p, i.e. its thread, or the control thread while it has none */

/* runner_must_go - returns true if @v must not run now: it has ended, or has a request. */
static inline bool runner_must_go(const struct vcpu *v)
{
	return v->state != VCPU_READY ||
	       atomic_load_explicit(&v->request, memory_order_relaxed) != VCPU_REQ_NONE;
}
/* runner_serve - serve the request of @v (runner_must_go), which is current nowhere. */
void runner_serve(struct runner_pcpu *p, struct vcpu *v);
/* runner_leave - make the host current on @p, and release the vCPU that ran last. */
void runner_leave(struct runner_pcpu *p);
/* runner_slice - run one slice of one vCPU. Returns false if @p is idle. */
bool runner_slice(struct runner_pcpu *p);
/* runner_thread - the main function of a pCPU's thread; @arg: struct runner_pcpu. */
void *runner_thread(void *arg);
