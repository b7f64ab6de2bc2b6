/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interface between runqueue.c (queues), halt.c (vCPUs that wait), runner.c (what a pCPU does) and
 * runner_ctl.c (what the control thread does). Nobody else includes this file.
 *
 * Each pCPU has a run queue, ordered by virtual time (runqueue.c), with a lock of its own. The pCPU
 * takes the lock to pop the next vCPU and to push the last one; others take it to add or steal a
 * vCPU or to look for a VM's vCPUs. A slice takes no other lock.
 *
 * A vCPU is in exactly one place: away (then the control thread may touch it), in one queue, in the
 * hands of one pCPU, or waiting in HLT (halt.c). The vCPU that ran last stays current on its pCPU
 * until another vCPU or the host is current there, and only then goes into a queue. So a vCPU in a
 * queue is current nowhere, and the thread that pops it may place it.
 *
 * The control thread takes vCPUs away by request: it sets v->request and moves the vCPU to the
 * front of its queue. A pCPU that pops a vCPU with a request serves the request instead of running
 * the vCPU. So only the owner of the pCPU on which a register model counts ever touches that model.
 */
#ifndef VMM_SCHED_RUNNER_PRIV_H
#define VMM_SCHED_RUNNER_PRIV_H

#include <pthread.h>

#include "vmm/sched/runner.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"

struct runq_entry {
	uint64_t vtime, seq;
	struct vcpu *v;
};

struct runner_pcpu {
	/* used by the owner only, except the statistics */
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
		struct vm *calls; /* expire() of this VM is in progress */
		_Atomic uint64_t
			first; /* when the first is due, UINT64_MAX: none; read without it */
	} timers;

	/* shared, under lock */
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t wake;
	struct vcpu *front;	 /* vCPUs with a request, by vcpu.next */
	_Atomic bool hurry;	 /* there are some: end the slice. Read without the lock */
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
	unsigned int vcpus; /* for which the queues have room */
	struct runner_pcpu **pcpus;

	/* halt.c: */
	bool host_time;	    /* time passes for VMs that wait as on the host, else as modelled */
	uint64_t time_from; /* host_time: when that time began */
	_Atomic uint64_t skipped; /* modelled time that no pCPU had work for, ns */
	pthread_mutex_t timer_lock;
	pthread_cond_t timer_called; /* an expire() is over */

	/* protect vcpu.away; signalled when it becomes true */
	pthread_mutex_t away_lock;
	pthread_cond_t away_cond;
};

/* runqueue.c */

/* runq_reserve - make room for @vcpus in @q. -ENOMEM. */
int runq_reserve(struct runner_pcpu *q, unsigned int vcpus);
/* runq_push - put @v, which is in the caller's hands, into @q, at the front or by its virtual time.
 */
void runq_push(struct runner_pcpu *q, struct vcpu *v, bool front);
/* runq_pop - take the first vCPU of @q into the caller's hands. NULL: @q is empty; or @cur (which
 * is current on @q's pCPU, or NULL) comes before all that are in it. */
struct vcpu *runq_pop(struct runner_pcpu *q, const struct vcpu *cur);
/* runq_pop_front - the same, but only one that was put at the front. */
struct vcpu *runq_pop_front(struct runner_pcpu *q);
/* runq_charge - @v, in the caller's hands, has used @effort. */
void runq_charge(struct vcpu *v, uint64_t effort);
/* runq_yield - @v, in the hands of the owner of @q, waits for another vCPU of its VM: of those in
 * @q the first one changes places with it. */
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

/* halt_begin - @v has returned VCPU_SLICE_HALTED: it will sleep when @p lets go of it. halt_sleep -
 * @p lets go of it. halt_ended - @v has ended. Only the owner of @p. */
void halt_begin(struct runner_pcpu *p, struct vcpu *v);
void halt_sleep(struct runner_pcpu *p, struct vcpu *v);
void halt_ended(struct runner_pcpu *p, struct vcpu *v);
/* halt_wake - @v has something to do, or a request. Any thread. */
void halt_wake(struct vcpu *v);
/* halt_poll - wake those whose timers are due. Only the owner of @p. */
void halt_expire(struct runner_pcpu *p);
static inline void halt_poll(struct runner_pcpu *p)
{
	if (__builtin_expect(
		    atomic_load_explicit(&p->timers.first, memory_order_relaxed) != UINT64_MAX, 0))
		halt_expire(p);
}
/* halt_wait - nothing can run on @p: wait until something may. True: a timer is due. Only the owner
 * of @p, under p->lock, which it releases meanwhile. */
bool halt_wait(struct runner_pcpu *p);
/* halt_skip - modelled time jumps to the next timer. False: there is none. */
bool halt_skip(struct runner *r);
/* halt_reserve - make room for the timers of @vms VMs in @p. -ENOMEM. */
int halt_reserve(struct runner_pcpu *p, unsigned int vms);
/* halt_launch - the pCPUs get threads. halt_start - @vm begins to run. halt_stop - all its vCPUs
 * are away. The control thread. */
void halt_launch(struct runner *r);
void halt_start(struct vm *vm);
void halt_stop(struct runner *r, struct vm *vm);

/* runner.c: only for the owner of @p, i.e. its thread, or the control thread while it has none */

/* runner_must_go - whether @v must not run now: it has ended, or the control thread wants it. */
static inline bool runner_must_go(const struct vcpu *v)
{
	return v->state != VCPU_READY ||
	       atomic_load_explicit(&v->request, memory_order_relaxed) != VCPU_REQ_NONE;
}
/* runner_serve - do what is requested of @v (runner_must_go), which is current nowhere. */
void runner_serve(struct runner_pcpu *p, struct vcpu *v);
/* runner_leave - make the host current on @p, and give away the vCPU that ran last. */
void runner_leave(struct runner_pcpu *p);
/* runner_slice - run one slice of one vCPU. False: there was nothing to run. */
bool runner_slice(struct runner_pcpu *p);
/* runner_thread - the main function of a pCPU's thread; @arg: struct runner_pcpu. */
void *runner_thread(void *arg);

#endif
