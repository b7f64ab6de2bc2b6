/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between runqueue.c (queues), runner.c (what a pCPU does) and runner_ctl.c (what the control
 * thread does); nobody else's.
 *
 * A run queue per pCPU, first in first out, each with its own lock: taken to pop the next vCPU and
 * to push the last one, and by others who add, steal or look for a VM. A slice takes no other
 * lock.
 *
 * A vCPU is in exactly one place: away (nobody's: the control thread may touch it), in one queue,
 * or in the hands of one pCPU. The vCPU that ran last stays current on its pCPU until another one
 * or the host is, and only then goes into a queue: a vCPU in a queue is current nowhere, so
 * whoever pops it may place it.
 *
 * The control thread takes vCPUs away by request: it sets v->request and moves the vCPU to the
 * front of the queue it is in; the pCPU that meets a vCPU with a request serves it instead of
 * running it. So register models are only ever touched by the owner of the pCPU they count on.
 */
#ifndef VMM_SCHED_RUNNER_PRIV_H
#define VMM_SCHED_RUNNER_PRIV_H

#include <pthread.h>

#include "vmm/sched/runner.h"
#include "vpmu/rcu.h"
#include "vpmu/softpmu.h"

struct runner_pcpu {
	/* its own */
	struct runner *runner;
	struct vpmu_pcpu *pcpu;
	struct vcpu *cur; /* current on the pCPU; may run again */
	struct vcpu_env env;
	uint64_t rng;
	uint64_t next_tick_ns;
	uint64_t slices, insns, migrated, ticks, clock_ns; /* stored relaxed, for runner_stats */
	unsigned int id;
	bool threaded;
	pthread_t thread;
	struct vpmu_softpmu soft;

	/* shared, under lock */
	_Alignas(64) pthread_mutex_t lock;
	pthread_cond_t wake;
	struct vcpu *head, *tail;
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
	struct runner_pcpu **pcpus;

	/* vcpu.away, and who waits for it */
	pthread_mutex_t away_lock;
	pthread_cond_t away_cond;
};

/* runqueue.c */

/* runq_push - @v, which is in our hands, into @q: at its end, or at its front. */
void runq_push(struct runner_pcpu *q, struct vcpu *v, bool front);
/* runq_pop - the first vCPU of @q, ours from now on; NULL when empty. */
struct vcpu *runq_pop(struct runner_pcpu *q);
/* runq_expedite - move the vCPUs of @vm to the front of @q. */
void runq_expedite(struct runner_pcpu *q, const struct vm *vm);
/* runq_steal - the first vCPU of the longest queue but @p's, if at least @min wait there. */
struct vcpu *runq_steal(struct runner_pcpu *p, unsigned int min);
/* runq_length - a hint: no lock. */
static inline unsigned int runq_length(const struct runner_pcpu *q)
{
	return atomic_load_explicit(&q->len, memory_order_relaxed);
}

/* runner.c, for the owner of @p: its thread, or the control thread before there is one */

/* Whether @v must not run again, or not now. */
static inline bool runner_must_go(const struct vcpu *v)
{
	return v->state != VCPU_READY ||
	       atomic_load_explicit(&v->request, memory_order_relaxed) != VCPU_REQ_NONE;
}
/* runner_serve - let go of @v, which must go and is current nowhere. */
void runner_serve(struct runner_pcpu *p, struct vcpu *v);
/* runner_leave - the host runs on @p; the vCPU that ran last is given away. */
void runner_leave(struct runner_pcpu *p);
/* runner_slice - one slice of one vCPU; false: there was nothing to run. */
bool runner_slice(struct runner_pcpu *p);
/* runner_thread - the life of a pCPU; @arg: struct runner_pcpu. */
void *runner_thread(void *arg);

#endif
