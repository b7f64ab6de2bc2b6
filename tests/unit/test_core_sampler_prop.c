// SPDX-License-Identifier: GPL-2.0-or-later
/* Samplers against a plain account of their expected samples, and while others run. */
#include <pthread.h>
#include <sched.h>

#include "sampling_bed.h"
#include "vpmu/core/internal.h"

TestSuite(sampler_prop, .fini = bed_teardown);

/* ---- against a plain account ---- */

#define PROFS 10
#define TICKS 4

static bool below(const struct vpmu_account *a, const struct vpmu_account *top)
{
	while (a && a != top)
		a = a->parent;
	return a == top;
}

static void random_history(unsigned int history)
{
	static const enum vpmu_generic ev[] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_LOADS,
					       VPMU_EV_BRANCHES};
	struct vpmu_emupmu_opts opts = {.gp = 2, .no_default = true};
	uint64_t r = history, size = history % 3 ? 1 : 5;
	int on[BED_PCPUS] = {-1, -1}, where[BED_VCPUS] = {0, 1, 0, 1};
	struct prof f[PROFS] = {0};
	struct tick t[TICKS] = {0};

	engine_init(&b, &opts);
	for (int step = 0; step < 1000; step++) {
		int p = (int)rnd(&r, BED_PCPUS), v = (int)rnd(&r, BED_VCPUS);
		uint64_t n = (rnd(&r, 200) + size) / size * size;
		struct prof *g = &f[rnd(&r, PROFS)];
		struct tick *a = &t[v];

		switch (rnd(&r, 10)) {
		case 0:
			if (on[where[v]] == v) {
				vpmu_pcpu_switch(b.p[where[v]], NULL);
				on[where[v]] = -1;
			}
			cr_assert_eq(vpmu_context_place(&b.ctx[v], b.p[p]), 0);
			where[v] = p;
			break;
		case 1:
		case 2:
			vpmu_pcpu_switch(b.p[where[v]], &b.ctx[v]);
			on[where[v]] = v;
			break;
		case 3:
			if (g->s) {
				prof_close(g);
				break;
			}
			cr_assert_eq(prof_open(g, &b,
					       rnd(&r, 2)   ? b.vm
					       : rnd(&r, 2) ? b.vcpu[v]
					       : rnd(&r, 2) ? b.tenant
							    : vpmu_host_root(b.host),
					       vpmu_key_generic(ev[rnd(&r, 3)], GUEST),
					       1 + rnd(&r, 500)),
				     0);
			break;
		case 4:
			if (a->set)
				tick_del(a, b.p[where[v]]);
			else
				tick_add(a, &b, b.p[where[v]], v,
					 vpmu_key_generic(ev[rnd(&r, 3)], GUEST), 1 + rnd(&r, 300));
			break;
		case 5:
			vpmu_pcpu_tick(b.p[p]);
			break;
		case 6:
			vpmu_host_sync(b.host);
			break;
		default:
			v = on[p];
			for (int i = 0; i < PROFS; i++)
				if (f[i].s && counted(&b, p, f[i].key) &&
				    below(v < 0 ? vpmu_host_other(b.host) : b.vcpu[v],
					  f[i].account))
					f[i].at[p] += n;
			if (v >= 0 && t[v].set && counted(&b, p, t[v].key))
				t[v].at += n;
			engine_run(&b, p, v, n, size);
			break;
		}
		for (int i = 0; i < PROFS; i++) {
			struct vpmu_value value;

			if (!f[i].s)
				continue;
			for (int q = 0; q < BED_PCPUS; q++)
				cr_assert_eq(f[i].samples[q], f[i].at[q] / f[i].period,
					     "history %u step %d sampler %d period %lu pCPU %d: "
					     "%lu of %lu",
					     history, step, i, f[i].period, q, f[i].samples[q],
					     f[i].at[q]);
			if (step % 50)
				continue;
			vpmu_host_sync(b.host);
			vpmu_sampler_read(f[i].s, &value);
			cr_assert_eq(value.count, f[i].at[0] + f[i].at[1]);
		}
		for (int i = 0; i < TICKS; i++)
			cr_assert(!t[i].set || t[i].fires == t[i].at / t[i].period,
				  "history %u step %d", history, step);
	}
	bed_conserved(&b);
	for (int i = 0; i < PROFS; i++)
		vpmu_sampler_destroy(f[i].s);
	ticks_end(&b, t, TICKS);
}

Test(sampler_prop, as_a_plain_account_says)
{
	for (unsigned int h = 0; h < 40; h++) {
		if (h)
			bed_fini(&b);
		random_history(h);
	}
}

/* ---- while others run ---- */

static bool stop; /* atomic */

struct runner {
	pthread_t thread;
	int p;
	uint64_t executed;
};

static void *run_pcpu(void *arg)
{
	struct runner *r = arg;

	urcu_memb_register_thread();
	vpmu_pcpu_online(b.p[r->p]);
	for (int i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i++) {
		int v = i % 2 * 2 + r->p;

		vpmu_pcpu_switch(b.p[r->p], &b.ctx[v]);
		engine_run(&b, r->p, v, 50, 1);
		r->executed += 50;
		if (i % 3 == 0)
			vpmu_pcpu_poll(b.p[r->p]);
		if (i % 64 == 0)
			sched_yield(); /* the other owner and control share CPUs with us */
	}
	vpmu_pcpu_switch(b.p[r->p], NULL);
	vpmu_pcpu_offline(b.p[r->p]);
	urcu_memb_unregister_thread();
	return NULL;
}

struct seen {
	uint64_t samples[BED_PCPUS]; /* atomic: periods */
	bool over;		     /* atomic: no call may come */
	unsigned int late;	     /* atomic */
};

static void sample_seen(void *arg, const struct vpmu_sample *s)
{
	struct seen *seen = arg;

	__atomic_add_fetch(&seen->samples[s->pcpu], s->periods, __ATOMIC_RELAXED);
	if (__atomic_load_n(&seen->over, __ATOMIC_SEQ_CST))
		__atomic_add_fetch(&seen->late, 1, __ATOMIC_RELAXED);
}

Test(sampler_prop, comes_and_goes_while_others_run)
{
	struct runner r[BED_PCPUS] = {{.p = 0}, {.p = 1}};
	struct seen seen[200] = {0};
	struct seen root = {0};
	struct vpmu_sampler_opts o = {.key = INSNS, .period = 1000, .sample = sample_seen};
	struct vpmu_sampler *s, *all;

	engine_init(&b, NULL);
	o.account = vpmu_host_root(b.host);
	o.arg = &root;
	cr_assert_eq(vpmu_sampler_create(b.host, &o, &all), 0);
	for (int i = 0; i < BED_PCPUS; i++)
		cr_assert_eq(pthread_create(&r[i].thread, NULL, run_pcpu, &r[i]), 0);
	for (int i = 0; i < 200; i++) {
		struct vpmu_value v;
		uint64_t told = 0;

		o.account = i % 2 ? b.vm : b.vcpu[i / 2 % BED_VCPUS];
		o.period = 1 + (uint64_t)(i * 37 % 400);
		o.arg = &seen[i];
		cr_assert_eq(vpmu_sampler_create(b.host, &o, &s), 0);
		/* Some go as soon as they came, the others when they have sampled. */
		do {
			sched_yield();
			told = __atomic_load_n(&seen[i].samples[0], __ATOMIC_RELAXED) +
			       __atomic_load_n(&seen[i].samples[1], __ATOMIC_RELAXED);
		} while (i % 4 && !told);
		vpmu_host_sync(b.host);
		vpmu_sampler_read(s, &v);
		cr_assert_geq(v.count, told * o.period, "nothing sampled that was not counted");
		vpmu_sampler_destroy(s);
		__atomic_store_n(&seen[i].over, true, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (int i = 0; i < BED_PCPUS; i++)
		pthread_join(r[i].thread, NULL);
	for (int i = 0; i < 200; i++)
		cr_assert_eq(seen[i].late, 0, "a sample after destroy");
	vpmu_sampler_destroy(all);
	for (int i = 0; i < BED_PCPUS; i++)
		cr_assert_eq(root.samples[i], r[i].executed / 1000, "pCPU %d: %lu of %lu", i,
			     root.samples[i], r[i].executed);
	bed_conserved(&b);
}
