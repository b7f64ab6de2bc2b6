// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The run queues of the runner's pCPUs; see runner_priv.h. pCPUs and the control thread call these
 * functions. They must hold only the lock of the one queue, and no function holds two.
 */
#include "vmm/sched/runner_priv.h"

static void push_locked(struct runner_pcpu *q, struct vcpu *v, bool front)
{
	v->next = NULL;
	if (!q->head) {
		q->head = q->tail = v;
	} else if (front) {
		v->next = q->head;
		q->head = v;
	} else {
		q->tail->next = v;
		q->tail = v;
	}
	atomic_store_explicit(&q->len, q->len + 1, memory_order_relaxed);
}

void runq_push(struct runner_pcpu *q, struct vcpu *v, bool front)
{
	pthread_mutex_lock(&q->lock);
	/* A vCPU with a request must be at the front. If runq_expedite comes after this push, it
	 * finds the vCPU here. If it came before, the request is visible now, under the lock, and
	 * the vCPU goes to the front. */
	push_locked(q, v, front || runner_must_go(v));
	pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&q->lock);
}

struct vcpu *runq_pop(struct runner_pcpu *q)
{
	struct vcpu *v;

	pthread_mutex_lock(&q->lock);
	v = q->head;
	if (v) {
		q->head = v->next;
		atomic_store_explicit(&q->len, q->len - 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&q->lock);
	return v;
}

void runq_expedite(struct runner_pcpu *q, const struct vm *vm)
{
	struct vcpu *list, *next;

	pthread_mutex_lock(&q->lock);
	list = q->head;
	q->head = q->tail = NULL;
	atomic_store_explicit(&q->len, 0, memory_order_relaxed);
	for (; list; list = next) {
		next = list->next;
		push_locked(q, list, list->vm == vm);
	}
	pthread_mutex_unlock(&q->lock);
}

struct vcpu *runq_steal(struct runner_pcpu *p, unsigned int min)
{
	struct runner *r = p->runner;
	struct runner_pcpu *from = NULL;
	unsigned int most = min;

	if (r->cfg.migrate == RUNNER_MIGRATE_NONE)
		return NULL;
	for (unsigned int i = 0; i < r->nr; i++) {
		struct runner_pcpu *q = r->pcpus[i];

		if (q != p && runq_length(q) >= most) {
			most = runq_length(q) + 1;
			from = q;
		}
	}
	return from ? runq_pop(from) : NULL;
}
