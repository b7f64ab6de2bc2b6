/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Consumers and samplers of test_churn that live all the time: at its end they have all that was
 * executed. */
#ifndef TESTS_MODEL_CHURN_LASTING_H
#define TESTS_MODEL_CHURN_LASTING_H

#include "tests/model/churn_world.h"

/* Consumers that live all the time: root, host, tenants, by key. */
static struct pub lasting[TENANTS + 2][PLAIN];

static void add_lasting(void)
{
	struct vpmu_consumer *c[(TENANTS + 2) * PLAIN];
	struct vpmu_account *acc[(TENANTS + 2) * PLAIN];
	vpmu_key_t key[(TENANTS + 2) * PLAIN];
	uint64_t rng = base_seed;
	size_t n = 0;

	for (int a = 0; a < TENANTS + 2; a++) {
		for (int e = 0; e < PLAIN; e++, n++) {
			c[n] = &lasting[a][e].c;
			acc[n] = a == 0	  ? vpmu_host_root(host)
				 : a == 1 ? vpmu_host_other(host)
					  : tenant[a - 2];
			key[n] = m_keys[plain_keys[e]].key;
		}
	}
	if (vpmu_consumer_add_many(c, acc, key, n, NULL))
		fail("add_many");
	for (int a = 0; a < TENANTS + 2; a++) {
		for (int e = 0; e < PLAIN; e++)
			publish(&lasting[a][e], &rng);
	}
}

/* And samplers that do: of each account, of two keys. */
static struct churn_sampler sampler[TENANTS + 2][2];
static const int sampled_keys[2] = {VPMU_EMU_INSTRUCTIONS, VPMU_EMU_BRANCHES};

static void add_samplers(void)
{
	uint64_t rng = base_seed;

	for (int a = 0; a < TENANTS + 2; a++) {
		for (int e = 0; e < 2; e++) {
			struct vpmu_account *x = a == 0	  ? vpmu_host_root(host)
						 : a == 1 ? vpmu_host_other(host)
							  : tenant[a - 2];

			if (churn_sample(&sampler[a][e], host, x,
					 m_keys[plain_keys[sampled_keys[e]]].key,
					 1 + rnd(&rng, 1000), e))
				fail("sampler");
		}
	}
}

/* floor(N / period) of each pCPU. */
static void check_samplers(void)
{
	vpmu_host_sync(host);
	for (int a = 0; a < TENANTS + 2; a++) {
		for (int e = 0; e < 2; e++) {
			struct churn_sampler *x = &sampler[a][e];

			for (int p = 0; p < RUNNERS; p++) {
				uint64_t most = runner[p].own.here[a][sampled_keys[e]] / x->period;

				if (x->taken[p] > most || (!multiplex && x->taken[p] != most))
					fail("account %d, pCPU %d: %lu samples, %lu periods of %lu",
					     a, p, x->taken[p], most, x->period);
			}
			churn_sample_end(x);
		}
	}
}

static void check_lasting(void)
{
	uint64_t want[TENANTS + 2][PLAIN] = {0};

	vpmu_host_sync(host);
	for (int e = 0; e < PLAIN; e++) {
		for (int i = 0; i < RUNNERS; i++)
			want[1][e] += runner[i].own.host_executed[e];
		for (int t = 0; t < TENANTS; t++)
			want[t + 2][e] = tenant_gone[t][e];
		for (int i = 0; i < VMS; i++) {
			for (int k = 0; vms[i] && k < VCPUS; k++)
				want[vms[i]->tenant + 2][e] += vms[i]->vcpu[k].executed[e];
		}
		for (int a = 1; a < TENANTS + 2; a++)
			want[0][e] += want[a][e];
		want[NESTED - 1 + 2][e] += want[NESTED + 2][e]; /* a tenant has its child's */
	}
	for (int a = 0; a < TENANTS + 2; a++) {
		for (int e = 0; e < PLAIN; e++) {
			struct vpmu_value v, last;

			vpmu_consumer_read(&lasting[a][e].c, &v);
			if (v.count > want[a][e] || (!multiplex && v.count != want[a][e]) ||
			    (!multiplex && v.running_ns != v.enabled_ns))
				fail("account %d, event %d: counted %lu, executed %lu; running %lu "
				     "of %lu",
				     a, e, v.count, want[a][e], v.running_ns, v.enabled_ns);
			if (a == 0 && e == VPMU_EMU_INSTRUCTIONS)
				printf("# %lu instructions executed, %lu counted for all\n",
				       want[a][e], v.count);
			unpublish(&lasting[a][e]);
			vpmu_consumer_del(&lasting[a][e].c, NULL, &last);
			if (memcmp(&v, &last, sizeof(v)))
				fail("last value differs");
		}
	}
}

#endif
