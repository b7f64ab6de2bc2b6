// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The runner's functions for the control thread: start, pause and remove VMs, and create, start and
 * destroy pCPUs. They must not touch a vCPU that is not away, but request it (runner_priv.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/sched/runner_priv.h"
#include "vpmu/util/fail.h"
#include "vpmu/pcpu.h"

/* ---- VMs ---- */

/* Without threads: serve the requests as the pCPUs would. Two rounds, because a pCPU passes a vCPU
 * on to the one on which it is placed. */
static void serve_all(struct runner *r)
{
	struct vcpu *v;

	for (unsigned int i = 0; i < 2 * r->nr; i++) {
		struct runner_pcpu *p = r->pcpus[i % r->nr];

		if (p->cur && runner_must_go(p->cur))
			runner_leave(p);
		while ((v = runq_pop_front(p)))
			runner_serve(p, v);
	}
}

/* Request @req of all vCPUs of @vm, and wait until they are away. */
static void take_away(struct runner *r, struct vm *vm, enum vcpu_request req)
{
	for (unsigned int i = 0; i < vm->nr_vcpus; i++) {
		struct vcpu *v = &vm->vcpus[i];
		bool away;

		if (!v->vm)
			continue; /* vm_create failed before this one */
		/* Release: pairs with the acquire in runner_serve. */
		atomic_store_explicit(&v->request, req, memory_order_release);
		pthread_mutex_lock(&r->away_lock);
		away = v->away;
		if (away && req != VCPU_REQ_PARK && v->placed && !v->guest_gone)
			v->away = false;
		pthread_mutex_unlock(&r->away_lock);
		/* It is paused and still placed: only the owner of that pCPU may stop its counters.
		 */
		if (away && !v->away)
			runq_push(v->placed, v, true);
		else if (vm->irqchip)
			halt_wake(v); /* it may be halted; wake it for the request */
	}
	for (unsigned int i = 0; i < r->nr; i++)
		runq_expedite(r->pcpus[i], vm);
	if (!r->launched)
		serve_all(r);
	for (unsigned int i = 0; i < vm->nr_vcpus; i++) {
		pthread_mutex_lock(&r->away_lock);
		while (vm->vcpus[i].vm && !vm->vcpus[i].away)
			pthread_cond_wait(&r->away_cond, &r->away_lock);
		pthread_mutex_unlock(&r->away_lock);
	}
}

static struct runner *runner_ctl_of_sched(struct vm_sched *s)
{
	return (struct runner *)s; /* sched is the first member */
}

static int sched_vcpu_init(struct vm_sched *s, struct vcpu *v, struct vpmu_hostpmu **pmu, char *err,
			   size_t errlen)
{
	struct runner *r = runner_ctl_of_sched(s);

	/* Modelled counters are the tallies that the engine counts into. */
	if (!(v->vm->ops->can & VMM_CAN_TALLY))
		return fail(-EOPNOTSUPP, err, errlen,
			    "vm %s: engine %s cannot run on modelled pCPUs, because it does not "
			    "count for them",
			    v->vm->name, v->vm->ops->name);
	for (unsigned int i = 0; i < r->nr; i++)
		if (runq_reserve(r->pcpus[i], r->vcpus + 1) ||
		    halt_reserve(r->pcpus[i], r->vcpus + 1))
			return fail(-ENOMEM, err, errlen, "vm %s: out of memory", v->vm->name);
	r->vcpus++;
	v->counted = true;
	*pmu = &r->pcpus[0]->emulator.pmu;
	return 0;
}

static void sched_vcpu_fini(struct vm_sched *s, struct vcpu *v)
{
	/* A vCPU that has not run has no counters, but its register model may hold branch
	 * records. */
	if (v->guest && !v->guest_gone)
		vpmu_guest_fini(v->guest);
	runner_ctl_of_sched(s)->vcpus -= v->counted;
	v->counted = false;
}

static struct runner_pcpu *shortest(struct runner *r)
{
	struct runner_pcpu *best = r->pcpus[0];

	for (unsigned int i = 1; i < r->nr; i++)
		if (runq_length(r->pcpus[i]) < runq_length(best))
			best = r->pcpus[i];
	return best;
}

static int runner_ctl_sched_start(struct vm_sched *s, struct vm *vm, char *err, size_t errlen)
{
	struct runner *r = runner_ctl_of_sched(s);

	halt_start(vm);
	for (unsigned int i = 0; i < vm->nr_vcpus; i++) {
		struct vcpu *v = &vm->vcpus[i];
		struct runner_pcpu *p = shortest(r);

		if (v->state != VCPU_READY)
			continue;
		if (v->placed && r->cfg.migrate == RUNNER_MIGRATE_NONE)
			p = v->placed;
		atomic_store_explicit(&v->request, VCPU_REQ_NONE, memory_order_relaxed);
		v->active = true;
		share_enter(&vm->share);
		v->away = false; /* no lock: no other thread has the vCPU before the push */
		runq_push(p, v, false);
	}
	return 0;
}

/* Stop a VM: no time passes for it then. */
static void stop_vm(struct vm_sched *s, struct vm *vm, enum vcpu_request req)
{
	take_away(runner_ctl_of_sched(s), vm, req);
	halt_stop(runner_ctl_of_sched(s), vm);
}

static void runner_ctl_sched_pause(struct vm_sched *s, struct vm *vm)
{
	stop_vm(s, vm, VCPU_REQ_PARK);
}

static int runner_ctl_sched_unplace(struct vm_sched *s, struct vm *vm)
{
	stop_vm(s, vm, VCPU_REQ_UNPLACE);
	return 0;
}

static void runner_ctl_sched_remove(struct vm_sched *s, struct vm *vm)
{
	stop_vm(s, vm, VCPU_REQ_DROP);
}

static void runner_ctl_sched_wake(struct vm_sched *s, struct vcpu *v)
{
	halt_wake(v);
}

static const struct vm_sched_ops runner_sched_ops = {
	.vcpu_init = sched_vcpu_init,
	.vcpu_fini = sched_vcpu_fini,
	.start = runner_ctl_sched_start,
	.pause = runner_ctl_sched_pause,
	.unplace = runner_ctl_sched_unplace,
	.remove = runner_ctl_sched_remove,
	.wake = runner_ctl_sched_wake,
};

struct vm_sched *runner_sched(struct runner *r)
{
	return &r->sched;
}

const struct vpmu_hostpmu *runner_pmu(const struct runner *r)
{
	return &r->pcpus[0]->emulator.pmu;
}

/* ---- pCPUs ---- */

/* Returns true if any pCPU has a vCPU. (runner_slice returns false for a pCPU that released its
 * only vCPU, but then another pCPU has one to run.) */
static bool busy(const struct runner *r)
{
	for (unsigned int i = 0; i < r->nr; i++)
		if (r->pcpus[i]->cur || runq_length(r->pcpus[i]))
			return true;
	return false;
}

uint64_t runner_step(struct runner *r, uint64_t slices)
{
	uint64_t done = 0;

	while (done < slices && (busy(r) || halt_skip(r)))
		done += runner_slice(r->pcpus[r->turn++ % r->nr]);
	return done;
}

static void runner_ctl_pcpu_free(struct runner_pcpu *p)
{
	if (!p)
		return;
	if (p->pcpu)
		vpmu_pcpu_destroy(p->pcpu);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p->heap);
	free(p->timers.heap);
	free(p);
}

static int pcpu_new(struct runner *r, struct vpmu_host *host, unsigned int id,
		    struct runner_pcpu **out)
{
	const struct vpmu_emupmu_opts opts = {
		.gp = r->cfg.gp,
		.fixed = r->cfg.fixed,
		.width = r->cfg.width,
		.no_default = true,
	};
	struct runner_pcpu *p = aligned_alloc(_Alignof(struct runner_pcpu), sizeof(*p));
	pthread_condattr_t attr;
	int ret;

	if (!p)
		return -ENOMEM;
	memset(p, 0, sizeof(*p));
	p->runner = r;
	p->id = id;
	p->rng = r->cfg.seed +
		 id * 0x632be59bd9b4e019ULL; /* odd, so each pCPU gets another stream */
	p->next_tick_ns = r->tick_ns;
	pthread_mutex_init(&p->lock, NULL);
	atomic_init(&p->timers.first, UINT64_MAX);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* halt_wait() */
	pthread_cond_init(&p->wake, &attr);
	pthread_condattr_destroy(&attr);
	ret = vpmu_emupmu_init(&p->emulator, &opts);
	if (!ret)
		ret = vpmu_pcpu_create(host, &p->emulator.pmu, id, &p->pcpu);
	if (ret) {
		runner_ctl_pcpu_free(p);
		return ret;
	}
	p->env = (struct vcpu_env){.pcpu = p->pcpu,
				   .tally = &p->emulator.own_tally,
				   .clock_ns = &p->emulator.own_clock_ns,
				   .hurry = &p->hurry};
	*out = p;
	return 0;
}

int runner_create(struct vpmu_host *host, const struct host_config *h, struct runner **out)
{
	struct runner *r = calloc(1, sizeof(*r));
	int ret = 0;

	if (!r)
		return -ENOMEM;
	r->sched.ops = &runner_sched_ops;
	r->cfg = *h;
	r->tick_ns = h->tick_us * 1000ULL;
	pthread_mutex_init(&r->away_lock, NULL);
	pthread_cond_init(&r->away_cond, NULL);
	pthread_mutex_init(&r->timer_lock, NULL);
	pthread_cond_init(&r->timer_called, NULL);
	r->pcpus = calloc(h->pcpus, sizeof(*r->pcpus));
	if (!r->pcpus)
		ret = -ENOMEM;
	for (; !ret && r->nr < h->pcpus; r->nr++)
		ret = pcpu_new(r, host, r->nr, &r->pcpus[r->nr]);
	if (ret) {
		runner_destroy(r);
		return ret;
	}
	*out = r;
	return 0;
}

static void stop_threads(struct runner *r)
{
	atomic_store(&r->stop, true);
	for (unsigned int i = 0; i < r->nr; i++) {
		struct runner_pcpu *p = r->pcpus[i];

		if (!p || !p->threaded)
			continue;
		pthread_mutex_lock(&p->lock);
		pthread_cond_signal(&p->wake);
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->thread, NULL);
		p->threaded = false;
	}
}

int runner_launch(struct runner *r)
{
	int ret = 0;

	halt_launch(r);
	for (unsigned int i = 0; i < r->nr && !ret; i++) {
		struct runner_pcpu *p = r->pcpus[i];

		runner_leave(p); /* it may have been stepped before */
		ret = -pthread_create(&p->thread, NULL, runner_thread, p);
		p->threaded = !ret;
	}
	if (ret)
		stop_threads(r);
	r->launched = !ret;
	atomic_store(&r->stop, false);
	return ret;
}

void runner_destroy(struct runner *r)
{
	stop_threads(r);
	for (unsigned int i = 0; i < r->nr; i++) {
		if (r->pcpus[i])
			runner_leave(r->pcpus[i]);
		runner_ctl_pcpu_free(r->pcpus[i]);
	}
	free(r->pcpus);
	pthread_cond_destroy(&r->away_cond);
	pthread_mutex_destroy(&r->away_lock);
	pthread_cond_destroy(&r->timer_called);
	pthread_mutex_destroy(&r->timer_lock);
	free(r);
}

void runner_stats(const struct runner *r, struct runner_stats *out)
{
	*out = (struct runner_stats){0};
	for (unsigned int i = 0; i < r->nr; i++) {
		const struct runner_pcpu *p = r->pcpus[i];

		out->slices += __atomic_load_n(&p->slices, __ATOMIC_RELAXED);
		out->insns += __atomic_load_n(&p->insns, __ATOMIC_RELAXED);
		out->effort += __atomic_load_n(&p->effort, __ATOMIC_RELAXED);
		out->migrated += __atomic_load_n(&p->migrated, __ATOMIC_RELAXED);
		out->ticks += __atomic_load_n(&p->ticks, __ATOMIC_RELAXED);
		out->clock_ns += __atomic_load_n(&p->clock_ns, __ATOMIC_RELAXED);
	}
}
