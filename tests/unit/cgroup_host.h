/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host for tests of cgroup/: emulator PMUs with tallies that the test moves by hand, so that
 * every count is known. Single-threaded: no pCPU is online.
 */
#ifndef TESTS_UNIT_CGROUP_HOST_H
#define TESTS_UNIT_CGROUP_HOST_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <urcu/urcu-memb.h>

#include "service/tenant/tenant.h"
#include "vpmu/context.h"
#include "vpmu/pcpu.h"
#include "vpmu/emupmu.h"
#include "service/backend/core.h"

#define TEST_PCPUS 2

struct test_host {
	struct vpmu_backend *source; /* backend "emulator" */
	struct vpmu_host *host;	     /* of it */
	struct vpmu_emupmu pmu[TEST_PCPUS];
	struct vpmu_pcpu *pcpu[TEST_PCPUS];
	struct tenants *ts;
	char err[512];
};

/* One vCPU of a VM that can run. */
struct test_vcpu {
	struct vpmu_context ctx;
	struct vpmu_pcpu *placed;
};

static inline bool test_can_count(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen,
				  void *arg)
{
	const struct vpmu_hostpmu *pmu = &((struct test_host *)arg)->pmu[0].pmu;

	if (pmu->ops->eligible(pmu, key)) {
		*q = pmu->ops->quality(pmu, key);
		return true;
	}
	snprintf(why, whylen, "no such event here");
	return false;
}

static inline void test_host_init(struct test_host *h, const char *cgroup_root)
{
	const struct vpmu_backend_core_opts o = {
		.backend = "emulator",
		.can = VPMU_BACKEND_SAMPLES | VPMU_BACKEND_BRANCHES,
		.can_count = test_can_count,
		.arg = h,
	};

	memset(h, 0, sizeof(*h));
	urcu_memb_register_thread();
	cr_assert_eq(vpmu_backend_core_create(&o, &h->source), 0);
	h->host = vpmu_backend_core_host(h->source);
	for (unsigned int i = 0; i < TEST_PCPUS; i++) {
		struct vpmu_emupmu_opts opts = {0};

		cr_assert_eq(vpmu_emupmu_init(&h->pmu[i], &opts), 0);
		cr_assert_eq(vpmu_pcpu_create(h->host, &h->pmu[i].pmu, i, &h->pcpu[i]), 0);
	}
	cr_assert_eq(tenants_create(cgroup_root, &h->ts, h->err, sizeof(h->err)), 0, "%s", h->err);
	cr_assert_eq(tenants_add_source(h->ts, h->source), 0);
}

static inline void test_host_fini(struct test_host *h)
{
	tenants_destroy(h->ts);
	for (unsigned int i = 0; i < TEST_PCPUS; i++)
		cr_expect_eq(vpmu_pcpu_destroy(h->pcpu[i]), 0);
	vpmu_backend_core_destroy(h->source);
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

	cr_assert_eq(
		tenant_vm_add(h->ts, t, h->source, name, vcpus, NULL, &vm, h->err, sizeof(h->err)),
		0, "%s", h->err);
	return vm;
}

/* The account of @n, which the host's source counts. */
static inline struct vpmu_account *test_account(const struct test_host *h, const struct node *n)
{
	return vpmu_backend_core_account(node_in(n, h->source));
}

static inline void test_vcpu_init(struct test_vcpu *v, struct node *vm, unsigned int i)
{
	struct vpmu_backend *s = node_source(vm);

	memset(v, 0, sizeof(*v));
	cr_assert_eq(vpmu_context_init(&v->ctx,
				       vpmu_backend_core_account(node_in(node_vcpu(vm, i), s)),
				       vpmu_backend_core_account(node_in(vm, s))),
		     0);
}

static inline void test_vcpu_fini(struct test_vcpu *v)
{
	vpmu_context_fini(&v->ctx);
}

static inline void test_retire(struct vpmu_emupmu *pmu, uint64_t insns)
{
	vpmu_emu_add(pmu->tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, insns);
	vpmu_emu_add(pmu->tally, VPMU_EMU_USR, VPMU_EMU_CYCLES, 2 * insns);
	vpmu_emu_add(pmu->tally, VPMU_EMU_USR, VPMU_EMU_BRANCHES, insns / 4);
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
