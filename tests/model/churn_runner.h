/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a runner of test_churn does in a slice: its vCPUs execute, and their consumers and alarms
 * come and go. */
#ifndef TESTS_MODEL_CHURN_RUNNER_H
#define TESTS_MODEL_CHURN_RUNNER_H

#include "tests/model/churn_world.h"

/* The vCPU that runs, or the host when NULL, executes a little. */
static void execute(struct runner *r, struct vcpu *v)
{
	uint64_t *sum = v ? v->executed : r->own.host_executed;

	for (int e = 0; e < PLAIN; e++) {
		uint64_t usr = rnd(&r->rng, 50), os = rnd(&r->rng, 20);

		vpmu_emu_add(&r->pmu.own_tally, VPMU_EMU_USR, e, usr);
		vpmu_emu_add(&r->pmu.own_tally, VPMU_EMU_OS, e, os);
		sum[e] += usr + os;
		r->own.here[0][e] += usr + os;
		r->own.here[v ? v->vm->tenant + 2 : 1][e] += usr + os;
		if (v && v->vm->tenant == NESTED)
			r->own.here[NESTED - 1 + 2][e] += usr + os;
	}
	if (v)
		churn_branch(&r->pmu, v->own);
	r->pmu.own_clock_ns += 1 + rnd(&r->rng, 1000);
}

static void local_add(struct runner *r, struct vcpu *v, int i)
{
	struct pub *pub = calloc(1, sizeof(*pub));
	int k = plain_keys[rnd(&r->rng, PLAIN)], ret;

	ret = vpmu_consumer_add(&pub->c, v->own, m_keys[k].key, r->p);
	if (ret) {
		fail("local add: %d", ret);
		free(pub);
		return;
	}
	v->local[i] = pub;
	v->local_key[i] = k;
	v->local_from[i] = v->executed[k];
	v->local_partial[i] = false;
	publish(pub, &r->rng);
}

static void alarm_clear(struct runner *r, struct vcpu *v, int i)
{
	churn_alarm_clear(&v->alarm[i], r->p);
	__atomic_add_fetch(&r->own.fires, v->alarm[i].fires, __ATOMIC_RELAXED);
	v->alarm[i].fires = 0;
}

static void local_del(struct runner *r, struct vcpu *v, int i)
{
	struct pub *pub = v->local[i];
	uint64_t most = v->executed[v->local_key[i]] - v->local_from[i];
	struct vpmu_value last;

	alarm_clear(r, v, i);
	unpublish(pub);
	vpmu_consumer_del(&pub->c, r->p, &last);
	if (last.count > most || (!multiplex && !v->local_partial[i] && last.count != most))
		fail("I2: a vCPU's consumer counted %lu of %lu", last.count, most);
	if (last.count < __atomic_load_n(&pub->seen.count, __ATOMIC_SEQ_CST))
		fail("I2: last value %lu is below what was read", last.count);
	vpmu_rcu_free(pub);
	v->local[i] = NULL;
}

static void program(struct runner *r, struct vcpu *v)
{
	int i = (int)rnd(&r->rng, LOCALS);

	if (!v->local[i]) {
		local_add(r, v, i);
		return;
	}
	switch (rnd(&r->rng, 5)) {
	case 0:
		local_del(r, v, i);
		break;
	case 1:
		alarm_clear(r, v, i);
		break;
	case 2:
		if (v->local[i]->c.slot < 0)
			break; /* disabled */
		alarm_clear(r, v, i);
		churn_alarm_set(&v->alarm[i], &v->ctx, &v->local[i]->c, r->p,
				&v->executed[v->local_key[i]], 1 + rnd(&r->rng, 2000), !multiplex);
		break;
	case 3:
		alarm_clear(r, v, i);
		vpmu_consumer_disable(&v->local[i]->c, r->p);
		v->local_partial[i] = true;
		break;
	default:
		if (vpmu_consumer_enable(&v->local[i]->c, r->p))
			fail("local enable");
	}
}

/* Not current any more: the VM is going. */
static void let_go(struct runner *r, int i)
{
	struct vcpu *v = r->mine[i];

	for (int k = 0; k < LOCALS; k++) {
		if (v->local[k])
			local_del(r, v, k);
	}
	r->mine[i] = r->mine[--r->n];
	__atomic_sub_fetch(&v->vm->held, 1, __ATOMIC_RELEASE);
}

static void slice(struct runner *r)
{
	int i = 0;
	struct vcpu *v = switch_to_some(r, &i);

	for (unsigned int k = rnd(&r->rng, 4); k; k--) {
		execute(r, v);
		if (vpmu_emu_alarm_due(&r->pmu.own_tally) && rnd(&r->rng, 4))
			vpmu_pcpu_overflow(r->p);
		if (v && !rnd(&r->rng, 4))
			program(r, v);
		vpmu_pcpu_poll(r->p);
	}
	if (!rnd(&r->rng, 20))
		vpmu_pcpu_tick(r->p);
	offline_sometimes(r);
	if (!v)
		return;
	if (load(&v->vm->dying)) {
		vpmu_pcpu_switch(r->p, NULL);
		let_go(r, i);
	} else if (!rnd(&r->rng, 10)) {
		vpmu_pcpu_switch(r->p, NULL);
		r->mine[i] = r->mine[--r->n];
		give(&runner[rnd(&r->rng, RUNNERS)], v);
		r->moved++;
	}
}

#endif
