// SPDX-License-Identifier: GPL-2.0-or-later
/* Samplers that come and go while others run. Random histories of alarms and samplers:
 * tests/model/test_model.c. */
#include <sched.h>

#include "sampling_bed.h"

TestSuite(sampler_prop, .fini = bed_teardown);

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
