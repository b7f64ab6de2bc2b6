// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The run queues of the runner's pCPUs; see runner_priv.h. pCPUs and the control thread call these
 * functions. A function locks only one queue at a time.
 *
 * The vCPU with the least virtual time runs next. Virtual time is effort (vmm/vm/vcpu.h) divided by
 * the vCPU's share (vmm/vm/share.h). So an expensive vCPU, or one with a small share, runs less
 * often. Each queue has a clock: the virtual time of the vCPU that was taken last. A vCPU from
 * elsewhere (another queue, a pause) begins at this clock at the earliest, so it gains no credit
 * while it does not run; its debt is kept. vCPUs with equal virtual times run first in, first out.
 *
 * A queue is a binary heap in an array with room for every vCPU of the runner, so that putting a
 * vCPU into a queue cannot fail. vCPUs with a request are in a list of their own, before all
 * others.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "vmm/sched/runner_priv.h"

/* ---- the heap ---- */

static bool before(const struct runq_entry *a, const struct runq_entry *b)
{
	/* Virtual time may wrap around; entries of one queue are less than half its range apart. */
	int64_t d = (int64_t)(a->vtime - b->vtime);

	return d < 0 || (!d && (int64_t)(a->seq - b->seq) < 0);
}

/* Put @e at index @i or above it. */
static void sift_up(struct runner_pcpu *q, unsigned int i, struct runq_entry e)
{
	for (; i && before(&e, &q->heap[(i - 1) / 2]); i = (i - 1) / 2)
		q->heap[i] = q->heap[(i - 1) / 2];
	q->heap[i] = e;
}

static void sift_down(struct runner_pcpu *q, unsigned int i, struct runq_entry e)
{
	for (unsigned int c; (c = 2 * i + 1) < q->nr; i = c) {
		if (c + 1 < q->nr && before(&q->heap[c + 1], &q->heap[c]))
			c++;
		if (!before(&q->heap[c], &e))
			break;
		q->heap[i] = q->heap[c];
	}
	q->heap[i] = e;
}

static struct vcpu *heap_remove(struct runner_pcpu *q, unsigned int i)
{
	struct vcpu *v = q->heap[i].v;
	struct runq_entry last = q->heap[--q->nr];

	if (i < q->nr) {
		if (i && before(&last, &q->heap[(i - 1) / 2]))
			sift_up(q, i, last);
		else
			sift_down(q, i, last);
	}
	return v;
}

int runq_reserve(struct runner_pcpu *q, unsigned int vcpus)
{
	struct runq_entry *heap;
	unsigned int room;
	int ret = 0;

	pthread_mutex_lock(&q->lock);
	if (vcpus > q->room) {
		room = vcpus < 16 ? 16 : 2 * vcpus;
		heap = realloc(q->heap, room * sizeof(*heap));
		if (heap) {
			q->heap = heap;
			q->room = room;
		} else {
			ret = -ENOMEM;
		}
	}
	pthread_mutex_unlock(&q->lock);
	return ret;
}

/* ---- virtual time ---- */

static uint64_t runqueue_now(const struct runner_pcpu *q)
{
	return atomic_load_explicit(&q->vclock, memory_order_relaxed);
}

/* Only under the lock of @q. */
static void runqueue_advance(struct runner_pcpu *q, uint64_t vtime)
{
	if ((int64_t)(vtime - runqueue_now(q)) > 0)
		atomic_store_explicit(&q->vclock, vtime, memory_order_relaxed);
}

/* Make v->vtime relate to the clock of @q. */
static void rebase(struct vcpu *v, struct runner_pcpu *q)
{
	int64_t owes = v->clock_of ? (int64_t)(v->vtime - runqueue_now(v->clock_of)) : 0;

	v->vtime = runqueue_now(q) + (uint64_t)(owes > 0 ? owes : 0);
	v->clock_of = q;
}

void runq_charge(struct vcpu *v, uint64_t effort)
{
	uint64_t generation = shares_generation();

	if (v->rate_of != generation) {
		v->rate = share_rate(&v->vm->share);
		v->rate_of = generation;
	}
	v->vtime += (uint64_t)((double)effort * v->rate);
}

/* ---- queues ---- */

static void changed(struct runner_pcpu *q, int by)
{
	atomic_store_explicit(&q->len, q->len + (unsigned int)by, memory_order_relaxed);
}

static void push_front(struct runner_pcpu *q, struct vcpu *v)
{
	v->next = q->front;
	q->front = v;
	atomic_store_explicit(&q->hurry, true, memory_order_relaxed);
}

void runq_push(struct runner_pcpu *q, struct vcpu *v, bool front)
{
	pthread_mutex_lock(&q->lock);
	rebase(v, q);
	/* A vCPU with a request must be at the front. If runq_expedite comes after this push, it
	 * finds the vCPU here. If it came before, the request is visible now, under the lock. */
	if (front || runner_must_go(v))
		push_front(q, v);
	else
		sift_up(q, q->nr++, (struct runq_entry){v->vtime, q->seq++, v});
	changed(q, 1);
	pthread_cond_signal(&q->wake);
	pthread_mutex_unlock(&q->lock);
}

/* Only under the lock. */
static struct vcpu *pop_locked(struct runner_pcpu *q)
{
	struct vcpu *v = q->front;

	if (v) {
		q->front = v->next;
		atomic_store_explicit(&q->hurry, q->front != NULL, memory_order_relaxed);
	} else if (q->nr) {
		v = heap_remove(q, 0);
		runqueue_advance(q, v->vtime);
	}
	if (v)
		changed(q, -1);
	return v;
}

/* ---- warming the next vCPUs ---- */

/* State of this many vCPUs does not fit a core's private caches. */
#define WARM_VCPUS 24

static void warm(const struct vcpu *v, bool next)
{
	if (v->ops->can & VMM_CAN_WARM)
		v->ops->warm(v->ev, next);
}

/*
 * Prefetch the data of the next vCPUs while another runs: of about the fourth the structure, of the
 * second also the objects that it points to, of the first everything. Only under the lock, so that
 * none of them can be freed.
 */
static void warm_next(const struct runner_pcpu *q)
{
	const struct runq_entry *e = q->heap;
	const struct vcpu *v;

	if (q->nr < WARM_VCPUS)
		return;
	for (unsigned int i = 1; i < 7; i++)
		__builtin_prefetch(e[i].v);
	v = e[before(&e[2], &e[1]) ? 2 : 1].v;
	warm(v, false);
	for (unsigned int i = 64; i < offsetof(struct vcpu, run.u); i += 64)
		__builtin_prefetch((const char *)v + i);
	__builtin_prefetch(&v->vm->failing);
	v = e[0].v;
	warm(v, true);
	__builtin_prefetch(&v->guest->pmi);
	__builtin_prefetch(v->ctx.cell);
}

struct vcpu *runq_pop(struct runner_pcpu *q, const struct vcpu *cur)
{
	struct vcpu *v = NULL;

	pthread_mutex_lock(&q->lock);
	if (cur && !q->front && (!q->nr || (int64_t)(cur->vtime - q->heap[0].vtime) < 0))
		runqueue_advance(q, cur->vtime);
	else
		v = pop_locked(q);
	warm_next(q);
	pthread_mutex_unlock(&q->lock);
	return v;
}

struct vcpu *runq_pop_front(struct runner_pcpu *q)
{
	struct vcpu *v;

	pthread_mutex_lock(&q->lock);
	v = q->front ? pop_locked(q) : NULL;
	pthread_mutex_unlock(&q->lock);
	return v;
}

/* Cost of a yield in units of effort, besides 1/4 for each entry of the queue. */
#define YIELD_EFFORT 300

void runq_yield(struct runner_pcpu *q, struct vcpu *v)
{
	unsigned int best;

	pthread_mutex_lock(&q->lock);
	best = q->nr;
	for (unsigned int i = 0; i < q->nr; i++)
		if (q->heap[i].v->vm == v->vm &&
		    (best == q->nr || before(&q->heap[i], &q->heap[best])))
			best = i;
	runq_charge(v, YIELD_EFFORT + q->nr / 4);
	/* Both have the same share, so others are not affected. */
	if (best != q->nr && (int64_t)(q->heap[best].vtime - v->vtime) > 0) {
		struct runq_entry e = q->heap[best];
		uint64_t vtime = e.vtime;

		e.vtime = e.v->vtime = v->vtime;
		v->vtime = vtime;
		sift_up(q, best, e);
	}
	pthread_mutex_unlock(&q->lock);
}

void runq_expedite(struct runner_pcpu *q, const struct vm *vm)
{
	pthread_mutex_lock(&q->lock);
	for (unsigned int i = 0; i < q->nr;) {
		if (q->heap[i].v->vm == vm) {
			push_front(q, heap_remove(q, i));
			i = 0; /* the heap has been rearranged */
		} else {
			i++;
		}
	}
	pthread_mutex_unlock(&q->lock);
}

struct vcpu *runq_steal(struct runner_pcpu *p, unsigned int min)
{
	struct runner *r = p->runner;
	struct runner_pcpu *from = NULL;
	unsigned int most = min;
	struct vcpu *v;

	if (r->cfg.migrate == RUNNER_MIGRATE_NONE)
		return NULL;
	for (unsigned int i = 0; i < r->nr; i++) {
		struct runner_pcpu *q = r->pcpus[i];

		if (q != p && runq_length(q) >= most) {
			most = runq_length(q) + 1;
			from = q;
		}
	}
	if (!from)
		return NULL;
	v = runq_pop(from, NULL);
	if (v)
		rebase(v, p);
	return v;
}
