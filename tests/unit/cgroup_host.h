/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host for tests of cgroup/: soft PMUs whose tallies the test moves by hand, so that every count
 * is known. Single-threaded: no pCPU is online.
 */
#ifndef TESTS_CGROUP_HOST_H
#define TESTS_CGROUP_HOST_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <urcu/urcu-memb.h>

#include "cgroup/tenant/tenant.h"
#include "vpmu/softpmu.h"

#define TEST_PCPUS 2

struct test_host {
	struct vpmu_host *host;
	struct vpmu_softpmu pmu[TEST_PCPUS];
	struct vpmu_pcpu *pcpu[TEST_PCPUS];
	struct tenants *ts;
	char err[512];
};

/* One vCPU of a VM that can run. */
struct test_vcpu {
	struct vpmu_context ctx;
	struct vpmu_pcpu *placed;
};

static inline void test_host_init(struct test_host *h, const char *cgroup_root)
{
	memset(h, 0, sizeof(*h));
	urcu_memb_register_thread();
	h->host = vpmu_host_create();
	cr_assert(h->host);
	for (unsigned int i = 0; i < TEST_PCPUS; i++) {
		struct vpmu_softpmu_opts opts = {0};

		cr_assert_eq(vpmu_softpmu_init(&h->pmu[i], &opts), 0);
		cr_assert_eq(vpmu_pcpu_create(h->host, &h->pmu[i].pmu, i, &h->pcpu[i]), 0);
	}
	cr_assert_eq(tenants_create(h->host, cgroup_root, &h->ts, h->err, sizeof(h->err)), 0, "%s",
		     h->err);
}

static inline void test_host_fini(struct test_host *h)
{
	tenants_destroy(h->ts);
	for (unsigned int i = 0; i < TEST_PCPUS; i++)
		cr_expect_eq(vpmu_pcpu_destroy(h->pcpu[i]), 0);
	vpmu_host_destroy(h->host);
	urcu_memb_unregister_thread();
}

static inline struct node *test_tenant(struct test_host *h, const char *path)
{
	struct node *n = NULL;

	cr_assert_eq(tenant_add(h->ts, path, &n, h->err, sizeof(h->err)), 0, "%s", h->err);
	return n;
}

static inline struct node *test_vm(struct test_host *h, struct node *t, const char *name,
				   unsigned int vcpus)
{
	struct node *vm = NULL;

	cr_assert_eq(tenant_vm_add(h->ts, t, name, vcpus, NULL, &vm, h->err, sizeof(h->err)), 0,
		     "%s", h->err);
	return vm;
}

static inline void test_vcpu_init(struct test_vcpu *v, struct node *vm, unsigned int i)
{
	memset(v, 0, sizeof(*v));
	cr_assert_eq(vpmu_context_init(&v->ctx, node_vcpu(vm, i)->account, vm->account), 0);
}

static inline void test_vcpu_fini(struct test_vcpu *v)
{
	vpmu_context_fini(&v->ctx);
}

static inline void test_retire(struct vpmu_softpmu *pmu, uint64_t insns)
{
	vpmu_soft_add(pmu->tally, VPMU_SOFT_USR, VPMU_SOFT_INSTRUCTIONS, insns);
	vpmu_soft_add(pmu->tally, VPMU_SOFT_USR, VPMU_SOFT_CYCLES, 2 * insns);
	vpmu_soft_add(pmu->tally, VPMU_SOFT_USR, VPMU_SOFT_BRANCHES, insns / 4);
	pmu->own_clock_ns += insns;
}

/* Run @v (NULL: the host) on pCPU @p: @insns user instructions, 2 cycles each, every fourth a
 * branch; one ns each. */
static inline void test_run(struct test_host *h, unsigned int p, struct test_vcpu *v,
			    uint64_t insns)
{
	if (v && v->placed != h->pcpu[p]) {
		cr_assert_eq(vpmu_context_place(&v->ctx, h->pcpu[p]), 0);
		v->placed = h->pcpu[p];
	}
	vpmu_pcpu_switch(h->pcpu[p], v ? &v->ctx : NULL);
	test_retire(&h->pmu[p], insns);
	vpmu_pcpu_switch(h->pcpu[p], NULL);
}

#endif
