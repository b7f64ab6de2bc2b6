// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm/sched/runqueue: random pushes, pops, charges, requests and steals on three queues, against a
 * plain model that searches a list. Times begin shortly before they wrap around.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/sched/runner_priv.h"
#include "vmm/vm/vm.h"
#include "tests/random.h"

#define QUEUES 3
#define VCPUS  90
#define VMS    6

/* Where a vCPU is, in the model. */
struct model {
	enum { HANDS, QUEUED, FRONT } where;
	unsigned int queue;
	uint64_t vtime, order;
	int clock_of; /* queue, or -1 */
};

static struct runner runner;
static struct runner_pcpu queue[QUEUES], *queues[QUEUES];
static struct vm vm[VMS];
static struct vcpu vcpu[VCPUS];
static struct model model[VCPUS];
static uint64_t clocks[QUEUES], orders, rng;

/* The last calls of warm(): with false, and with true. */
static const struct vmm_engine_vcpu *warmed[2];

static void note_warm(const struct vmm_engine_vcpu *v, bool next)
{
	warmed[next] = v;
}

static const struct vmm_engine_ops warm_ops = {.can = VMM_CAN_WARM, .warm = note_warm};

static unsigned int below(unsigned int n)
{
	return (unsigned int)(random_shift(&rng) % n);
}

static void start(uint64_t seed)
{
	rng = seed * 2 + 1;
	memset(vcpu, 0, sizeof(vcpu));
	memset(model, 0, sizeof(model));
	memset(queue, 0, sizeof(queue));
	orders = 0;
	runner = (struct runner){.nr = QUEUES, .pcpus = queues};
	runner.cfg.migrate = RUNNER_MIGRATE_BALANCE;
	for (unsigned int i = 0; i < QUEUES; i++) {
		queues[i] = &queue[i];
		queue[i].runner = &runner;
		queue[i].id = i;
		pthread_mutex_init(&queue[i].lock, NULL);
		pthread_cond_init(&queue[i].wake, NULL);
		clocks[i] = (uint64_t)-5000 + i * 1000;
		queue[i].vclock = clocks[i];
		cr_assert_eq(runq_reserve(&queue[i], VCPUS), 0);
	}
	for (unsigned int i = 0; i < VMS; i++)
		share_init(&vm[i].share, NULL, SHARE_WEIGHT_DEFAULT);
	for (unsigned int i = 0; i < VCPUS; i++) {
		vcpu[i].vm = &vm[i % VMS];
		vcpu[i].ops = &warm_ops;
		vcpu[i].ev = (struct vmm_engine_vcpu *)&vcpu[i];
		vcpu[i].guest = calloc(1, sizeof(*vcpu[i].guest));
		cr_assert(vcpu[i].guest);
		share_enter(&vcpu[i].vm->share);
		model[i].clock_of = -1;
	}
}

static void stop(void)
{
	for (unsigned int i = 0; i < QUEUES; i++) {
		free(queue[i].heap);
		pthread_mutex_destroy(&queue[i].lock);
		pthread_cond_destroy(&queue[i].wake);
	}
	for (unsigned int i = 0; i < VCPUS; i++) {
		share_leave(&vcpu[i].vm->share);
		free(vcpu[i].guest);
	}
}

static bool ahead(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) > 0;
}

static unsigned int length(unsigned int q)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < VCPUS; i++)
		n += model[i].where != HANDS && model[i].queue == q;
	return n;
}

/* Some vCPU at @where (of queue @q, unless it is HANDS), or VCPUS. */
static unsigned int some(int where, unsigned int q)
{
	unsigned int at = below(VCPUS);

	for (unsigned int n = 0; n < VCPUS; n++, at = (at + 1) % VCPUS)
		if ((int)model[at].where == where && (where == HANDS || model[at].queue == q))
			return at;
	return VCPUS;
}

static void rebase(struct model *m, unsigned int q)
{
	uint64_t owes = m->clock_of >= 0 && ahead(m->vtime, clocks[m->clock_of])
				? m->vtime - clocks[m->clock_of]
				: 0;

	m->vtime = clocks[q] + owes;
	m->clock_of = (int)q;
}

static void push(unsigned int i, unsigned int q, bool front)
{
	struct model *m = &model[i];

	runq_push(&queue[q], &vcpu[i], front);
	rebase(m, q);
	m->where = front || runner_must_go(&vcpu[i]) ? FRONT : QUEUED;
	m->queue = q;
	m->order = orders++;
	cr_assert_eq(vcpu[i].vtime, m->vtime);
}

/* The queued vCPU of @q with the least virtual time, of equal ones the first; or VCPUS. */
static unsigned int least(unsigned int q)
{
	unsigned int best = VCPUS;

	for (unsigned int i = 0; i < VCPUS; i++) {
		const struct model *m = &model[i], *b = &model[best % VCPUS];

		if (m->where != QUEUED || m->queue != q)
			continue;
		if (best == VCPUS || ahead(b->vtime, m->vtime) ||
		    (b->vtime == m->vtime && b->order > m->order))
			best = i;
	}
	return best;
}

static void advance(unsigned int q, uint64_t to)
{
	if (ahead(to, clocks[q]))
		clocks[q] = to;
}

/* @v was taken out of @q. */
static void taken(unsigned int q, const struct vcpu *v)
{
	unsigned int i = (unsigned int)(v - vcpu), want = least(q);

	if (some(FRONT, q) < VCPUS) {
		cr_assert_eq(model[i].where, FRONT, "one with a request comes first");
		cr_assert_eq(model[i].queue, q);
	} else {
		cr_assert_eq(i, want, "%u (at %lx, pushed as %lu) instead of %u (at %lx, as %lu)",
			     i, model[i].vtime, model[i].order, want, model[want].vtime,
			     model[want].order);
		advance(q, model[i].vtime);
	}
	model[i].where = HANDS;
}

static void pop(unsigned int q)
{
	unsigned int c = below(2) ? some(HANDS, 0) : VCPUS, next;
	struct vcpu *cur = c < VCPUS && model[c].clock_of == (int)q ? &vcpu[c] : NULL, *v;

	warmed[0] = warmed[1] = NULL;
	v = runq_pop(&queue[q], cur);
	if (v) {
		cr_assert_neq(v, cur);
		if (cur && some(FRONT, q) == VCPUS)
			cr_assert(!ahead(model[v - vcpu].vtime, model[c].vtime), "not %u's turn",
				  (unsigned int)(v - vcpu));
		taken(q, v);
	} else if (cur) {
		next = least(q);
		cr_assert_eq(some(FRONT, q), VCPUS);
		cr_assert(next == VCPUS || ahead(model[next].vtime, model[c].vtime));
		advance(q, model[c].vtime);
	} else {
		cr_assert_eq(length(q), 0);
	}
	/* Who comes next is warmed, if many wait. */
	next = least(q);
	if (warmed[1]) {
		cr_assert_eq(warmed[1], vcpu[next].ev);
		cr_assert_neq(warmed[0], warmed[1]);
		cr_assert(warmed[0]);
	}
	if (queue[q].nr >= 30)
		cr_assert(warmed[1]);
}

static void expedite(unsigned int q)
{
	unsigned int which = below(VMS);

	runq_expedite(&queue[q], &vm[which]);
	for (unsigned int i = 0; i < VCPUS; i++)
		if (model[i].where == QUEUED && model[i].queue == q && vcpu[i].vm == &vm[which])
			model[i].where = FRONT;
}

static void steal(unsigned int q)
{
	unsigned int min = 1 + below(20), most = 0;
	struct vcpu *v = runq_steal(&queue[q], min);

	for (unsigned int i = 0; i < QUEUES; i++)
		if (i != q && length(i) > most)
			most = length(i);
	cr_assert_eq(v != NULL, most >= min);
	if (!v)
		return;
	cr_assert_eq(length(model[v - vcpu].queue), most);
	taken(model[v - vcpu].queue, v);
	rebase(&model[v - vcpu], q);
	cr_assert_eq(v->vtime, model[v - vcpu].vtime);
}

/* It waits for another vCPU of its VM: the first of those in the queue changes places with it. */
static void yield(unsigned int q, unsigned int i)
{
	unsigned int best = VCPUS;
	uint64_t before = vcpu[i].vtime;

	for (unsigned int k = 0; k < VCPUS; k++) {
		const struct model *m = &model[k], *b = &model[best % VCPUS];

		if (m->where == QUEUED && m->queue == q && vcpu[k].vm == vcpu[i].vm &&
		    (best == VCPUS || ahead(b->vtime, m->vtime) ||
		     (b->vtime == m->vtime && b->order > m->order)))
			best = k;
	}
	runq_yield(&queue[q], &vcpu[i]);
	if (best < VCPUS && vcpu[best].vtime != model[best].vtime) {
		cr_assert_eq(vcpu[i].vtime, model[best].vtime);
		cr_assert(ahead(vcpu[i].vtime, vcpu[best].vtime));
		cr_assert(ahead(vcpu[best].vtime, before), "giving way is charged");
		model[best].vtime = vcpu[best].vtime;
	} else {
		cr_assert(ahead(vcpu[i].vtime, before));
		cr_assert(best == VCPUS || !ahead(model[best].vtime, vcpu[i].vtime));
	}
	model[i].vtime = vcpu[i].vtime;
}

static void step(void)
{
	unsigned int q = below(QUEUES), i = some(HANDS, 0);
	struct vcpu *v;
	uint64_t before;

	switch (below(17)) {
	case 16:
		if (i < VCPUS && model[i].clock_of == (int)q)
			yield(q, i);
		break;
	case 0:
		expedite(q);
		break;
	case 1:
		steal(q);
		break;
	case 2:
		v = runq_pop_front(&queue[q]);
		cr_assert_eq(v != NULL, some(FRONT, q) < VCPUS);
		if (v)
			taken(q, v);
		break;
	case 3: /* a request comes or goes */
		if (i < VCPUS)
			vcpu[i].request = below(3) ? VCPU_REQ_NONE : VCPU_REQ_PARK;
		break;
	case 4:
	case 5:
	case 6: /* mostly equal efforts: many have equal virtual times */
		if (i < VCPUS) {
			before = vcpu[i].vtime;
			runq_charge(&vcpu[i], below(3) ? 100 : 1 + below(2000));
			cr_assert(ahead(vcpu[i].vtime, before));
			model[i].vtime = vcpu[i].vtime;
		}
		break;
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		if (i < VCPUS)
			push(i, q, !below(20));
		break;
	default:
		pop(q);
	}
	for (unsigned int k = 0; k < QUEUES; k++) {
		cr_assert_eq(runq_length(&queue[k]), length(k));
		cr_assert_eq(queue[k].vclock, clocks[k]);
		cr_assert_eq(queue[k].hurry, some(FRONT, k) < VCPUS);
	}
}

Test(runqueue, equals_a_plain_list)
{
	for (uint64_t seed = 0; seed < 60; seed++) {
		start(seed);
		/* Half of the seeds have few vCPUs, the others nearly all in one queue. */
		for (unsigned int i = 0; i < VCPUS; i++)
			if (seed & 1 || i % 8)
				push(i, seed & 1 ? 0 : below(QUEUES), false);
		for (unsigned int n = 0; n < 3000; n++)
			step();
		stop();
	}
}

/* In one queue, without anything else: each runs as often as by its charges, first come first. */
Test(runqueue, equals_run_in_turn)
{
	struct vcpu *cur = NULL, *v;

	start(1);
	for (unsigned int i = 0; i < VCPUS; i++)
		push(i, 0, false);
	for (unsigned int n = 0; n < 20 * VCPUS; n++) {
		v = runq_pop(&queue[0], cur);
		if (cur)
			push((unsigned int)(cur - vcpu), 0, false);
		cr_assert(v);
		cr_assert_eq(v - vcpu, n % VCPUS);
		model[v - vcpu].where = HANDS;
		runq_charge(v, 1000);
		model[v - vcpu].vtime = v->vtime;
		clocks[0] = queue[0].vclock;
		cur = v;
	}
	stop();
}
