// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The loop of a modelled pCPU: choose a vCPU, run a slice of it, idle. Only the owner of the pCPU
 * calls these functions; runner_priv.h has the rules for access to a vCPU.
 */
#include "vmm/sched/runner_priv.h"
#include "vpmu/pcpu.h"

/* ---- random numbers ---- */

/* Uniform in 0 .. n - 1, to within 2^-32. */
static uint64_t random_below(struct runner_pcpu *p, uint64_t n)
{
	return (uint64_t)((unsigned __int128)random_next(&p->rng) * n >> 64);
}

/* ---- releasing a vCPU ---- */

/* Mark @v as away: from now on no pCPU owns it and it is in no queue. */
static void set_away(struct runner *r, struct vcpu *v)
{
	if (v->active)
		share_leave(&v->vm->share);
	v->active = false;
	pthread_mutex_lock(&r->away_lock);
	v->away = true;
	pthread_cond_broadcast(&r->away_cond);
	pthread_mutex_unlock(&r->away_lock);
}

void runner_serve(struct runner_pcpu *p, struct vcpu *v)
{
	bool over = v->state != VCPU_READY;
	/* Acquire: pairs with the release in take_away. */
	int req = atomic_load_explicit(&v->request, memory_order_acquire);

	if (!over && req == VCPU_REQ_SLEEP) {
		halt_sleep(p, v);
		return;
	}
	if (over || req == VCPU_REQ_DROP || req == VCPU_REQ_UNPLACE) {
		/* Only the owner of the pCPU on which it is placed may stop its counters. */
		if (v->placed && v->placed != p) {
			runq_push(v->placed, v, true);
			return;
		}
		if (over || req == VCPU_REQ_DROP) {
			vpmu_guest_fini(v->guest);
			v->guest_gone = true;
		} else {
			vpmu_guest_placed(v->guest, NULL);
			v->placed = NULL;
		}
	}
	if (over)
		vm_vcpu_ended(v);
	set_away(p->runner, v);
}

/* Release @v, which ran last and is not current any more: to @target's queue, or as requested. */
static void let_go(struct runner_pcpu *p, struct vcpu *v, struct runner_pcpu *target)
{
	if (runner_must_go(v))
		runner_serve(p, v);
	else
		runq_push(target, v, false);
}

void runner_leave(struct runner_pcpu *p)
{
	struct vcpu *prev = p->cur;

	vpmu_pcpu_switch(p->pcpu, NULL);
	p->cur = NULL;
	if (prev)
		let_go(p, prev, p);
}

/* ---- choosing the next vCPU ---- */

/*
 * Choose the queue for the vCPU that ran last on @p: that of an idle pCPU, if @p has another vCPU
 * to run (otherwise two pCPUs would pass a single vCPU back and forth); a random one; or @p's own.
 */
static struct runner_pcpu *push_target(struct runner_pcpu *p, bool have_other)
{
	struct runner *r = p->runner;
	uint64_t idle;

	if (r->nr == 1 || r->cfg.migrate == RUNNER_MIGRATE_NONE)
		return p;
	idle = atomic_load_explicit(&r->idle, memory_order_relaxed);
	if (idle && have_other) {
		idle &= -idle;
		/* Claim the idle pCPU, so that no other pCPU also sends it a vCPU. */
		if (atomic_fetch_and(&r->idle, ~idle) & idle)
			return r->pcpus[__builtin_ctzll(idle)];
	}
	if (r->cfg.migrate == RUNNER_MIGRATE_RANDOM && !random_below(p, r->cfg.migrate_every))
		return r->pcpus[random_below(p, r->nr)];
	return p;
}

/* Take the next vCPU that may run from the queue, unless it is @cur's turn again. Requests of the
 * vCPUs before it are served. */
static struct vcpu *pop_runnable(struct runner_pcpu *p, const struct vcpu *cur)
{
	struct vcpu *v;

	while ((v = runq_pop(p, cur)) && runner_must_go(v))
		runner_serve(p, v);
	return v;
}

/* Make @v, which the caller owns, current. -ENOMEM: it could not be placed. */
static int make_current(struct runner_pcpu *p, struct vcpu *v)
{
	int ret;

	if (v->placed != p) {
		ret = vpmu_context_place(&v->ctx, p->pcpu);
		if (ret)
			return ret;
		if (v->placed)
			__atomic_store_n(&p->migrated, p->migrated + 1, __ATOMIC_RELAXED);
		v->placed = p;
		vpmu_guest_placed(v->guest, p->pcpu);
		vcpu_note_uncounted(v);
		v->vm->ops->set_tally(v->ev, p->env.tally);
	}
	vpmu_pcpu_switch(p->pcpu, &v->ctx);
	return 0;
}

/* Choose the vCPU that runs next and make it current. NULL: there is none. */
static struct vcpu *runner_pick(struct runner_pcpu *p)
{
	struct vcpu *prev = p->cur, *v;
	bool again = prev && !runner_must_go(prev);
	struct runner_pcpu *target;

	v = pop_runnable(p, again ? prev : NULL);
	target = again ? push_target(p, v != NULL) : p;

	if (!v && again && target == p)
		return prev;
	if (!v && !again) {
		v = runq_steal(p, 1);
		if (v && runner_must_go(v)) {
			runner_serve(p, v);
			v = NULL;
		}
	}
	if (v && make_current(p, v)) {
		vm_fail(v->vm, "vCPU %u: out of memory", v->id);
		v->state = VCPU_FAILED;
		runner_serve(p, v);
		v = NULL;
	}
	if (!v)
		vpmu_pcpu_switch(p->pcpu, NULL);
	p->cur = v;
	/* The switch is done, so @prev is not current any more and others may run it. */
	if (prev)
		let_go(p, prev, target);
	return v;
}

/* ---- slices ---- */

/* Minimum charge of a slice, so that a vCPU with slices that end at once does not stay first in the
 * queue. */
#define MIN_EFFORT 100

static void tick(struct runner_pcpu *p)
{
	struct vcpu *v;

	vpmu_pcpu_tick(p->pcpu);
	p->next_tick_ns = *p->env.clock_ns + p->runner->tick_ns;
	__atomic_store_n(&p->ticks, p->ticks + 1, __ATOMIC_RELAXED);
	/* Fairness: take a vCPU from a queue that is longer than ours by two or more. */
	v = runq_steal(p, runq_length(p) + 2);
	if (v)
		runq_push(p, v, false);
}

bool runner_slice(struct runner_pcpu *p)
{
	const struct host_config *cfg = &p->runner->cfg;
	struct vcpu *v;
	uint64_t budget = cfg->slice_insns;
	struct vcpu_used used = {0};
	enum vcpu_slice slice;

	halt_poll(p);
	v = runner_pick(p);
	if (!v)
		return false;
	if (cfg->random_slices)
		budget = 1 + random_below(p, 2 * budget - 1);
	slice = vcpu_run_slice(v, &p->env, budget, &used);
	runq_charge(v, used.effort > MIN_EFFORT ? used.effort : MIN_EFFORT);
	if (slice == VCPU_SLICE_YIELD)
		runq_yield(p, v);
	if (slice == VCPU_SLICE_HALTED)
		halt_begin(p, v);
	if (slice == VCPU_SLICE_ENDED) {
		halt_ended(p, v);
		runner_leave(p);
	}
	__atomic_store_n(&p->slices, p->slices + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&p->insns, p->insns + used.insns, __ATOMIC_RELAXED);
	__atomic_store_n(&p->effort, p->effort + used.effort, __ATOMIC_RELAXED);
	__atomic_store_n(&p->clock_ns, *p->env.clock_ns, __ATOMIC_RELAXED);
	if (*p->env.clock_ns >= p->next_tick_ns)
		tick(p);
	vpmu_pcpu_poll(p->pcpu);
	return true;
}

/* Sleep until the queue has a vCPU. The pCPU is offline then, so that a control call need not wake
 * it for a safe point. */
static void idle(struct runner_pcpu *p)
{
	struct runner *r = p->runner;
	uint64_t bit = 1ULL << p->id;

	vpmu_pcpu_offline(p->pcpu);
	atomic_fetch_or(&r->idle, bit);
	pthread_mutex_lock(&p->lock);
	while (!runq_length(p) && !atomic_load_explicit(&r->stop, memory_order_relaxed) &&
	       !halt_wait(p))
		;
	pthread_mutex_unlock(&p->lock);
	atomic_fetch_and(&r->idle, ~bit);
	vpmu_pcpu_online(p->pcpu);
}

void *runner_thread(void *arg)
{
	struct runner_pcpu *p = arg;

	urcu_memb_register_thread();
	vpmu_pcpu_online(p->pcpu);
	while (!atomic_load_explicit(&p->runner->stop, memory_order_relaxed))
		if (!runner_slice(p))
			idle(p);
	runner_leave(p);
	vpmu_pcpu_offline(p->pcpu);
	urcu_memb_unregister_thread();
	return NULL;
}
