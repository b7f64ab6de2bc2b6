// SPDX-License-Identifier: GPL-2.0-or-later
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
	/* A request made before runq_expedite looked at this queue is seen here, under its lock: so
	 * either that finds the vCPU here, or it goes to the front now. */
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
