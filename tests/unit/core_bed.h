/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A host with emulator pCPUs, a tenant, and VMs to run on them: for the tests of libvpmu's core. */
#ifndef TESTS_UNIT_CORE_BED_H
#define TESTS_UNIT_CORE_BED_H

#include <criterion/criterion.h>

#include "conserved.h"
#include "vpmu/account.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"

#define BED_PCPUS 2
#define BED_VCPUS 4

#define GUEST	 (VPMU_KEY_USR | VPMU_KEY_OS)
#define INSNS	 vpmu_key_generic(VPMU_EV_INSTRUCTIONS, GUEST)
#define CYCLES	 vpmu_key_generic(VPMU_EV_CYCLES, GUEST)
#define BRANCHES vpmu_key_generic(VPMU_EV_BRANCHES, GUEST)
#define LOADS	 vpmu_key_generic(VPMU_EV_LOADS, GUEST)
#define MISSES	 vpmu_key_generic(VPMU_EV_CACHE_MISSES, GUEST) /* no emulator PMU counts these */

struct bed {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu[BED_PCPUS];
	struct vpmu_pcpu *p[BED_PCPUS];
	struct vpmu_account *tenant, *vm;
	struct vpmu_account *vcpu[BED_VCPUS];
	struct vpmu_context ctx[BED_VCPUS];
};

/* vCPU n of one VM is placed on pCPU n % 2. */
static inline void bed_init(struct bed *b, const struct vpmu_emupmu_opts *opts)
{
	urcu_memb_register_thread();
	*b = (struct bed){.host = vpmu_host_create()};
	cr_assert(b->host);
	for (unsigned int i = 0; i < BED_PCPUS; i++) {
		cr_assert_eq(vpmu_emupmu_init(&b->pmu[i], opts), 0);
		cr_assert_eq(vpmu_pcpu_create(b->host, &b->pmu[i].pmu, i, &b->p[i]), 0);
	}
	cr_assert_eq(vpmu_account_create(vpmu_host_root(b->host), NULL, &b->tenant), 0);
	cr_assert_eq(vpmu_account_create(b->tenant, NULL, &b->vm), 0);
	for (int i = 0; i < BED_VCPUS; i++) {
		cr_assert_eq(vpmu_account_create(b->vm, NULL, &b->vcpu[i]), 0);
		cr_assert_eq(vpmu_context_init(&b->ctx[i], b->vcpu[i], b->vm), 0);
		cr_assert_eq(vpmu_context_place(&b->ctx[i], b->p[i % BED_PCPUS]), 0);
	}
}

/* Consumers must be gone. */
static inline void bed_fini(struct bed *b)
{
	for (int i = 0; i < BED_PCPUS; i++)
		vpmu_pcpu_switch(b->p[i], NULL);
	for (int i = 0; i < BED_VCPUS; i++)
		vpmu_context_fini(&b->ctx[i]);
	vpmu_host_destroy(b->host);
	b->host = NULL;
	urcu_memb_unregister_thread();
}

/* @n of each event in user mode, in @n ns, by the account that runs on pCPU @p. */
static inline void bed_run(struct bed *b, int p, uint64_t n)
{
	for (int e = 0; e < VPMU_EMU_EVENTS; e++)
		vpmu_emu_add(&b->pmu[p].own_tally, VPMU_EMU_USR, e, n);
	b->pmu[p].own_clock_ns += n;
}

/* Switch to vCPU @v where it is placed, let it execute @n, flush. */
static inline void bed_vcpu(struct bed *b, int v, uint64_t n)
{
	int p = v % BED_PCPUS;

	vpmu_pcpu_switch(b->p[p], &b->ctx[v]);
	bed_run(b, p, n);
	vpmu_pcpu_flush(b->p[p]);
}

static inline struct vpmu_value bed_read(const struct vpmu_consumer *c)
{
	struct vpmu_value v;

	vpmu_consumer_read(c, &v);
	return v;
}

static inline unsigned int bed_host_counters(struct bed *b)
{
	struct vpmu_sharing s;

	vpmu_host_sharing(b->host, &s);
	return s.host_counters;
}

/* I1 now; returns how many pCPU and key pairs there are. */
static inline unsigned int bed_conserved(struct bed *b)
{
	return conserved(b->host);
}

/* The bed of a file's tests. */
static struct bed b;

static inline void bed_setup(void)
{
	bed_init(&b, NULL);
}

static inline void bed_teardown(void)
{
	bed_fini(&b);
}

#endif
