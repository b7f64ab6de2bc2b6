/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A host with emulator pCPUs, a tenant, and VMs to run on them: for the tests of libvpmu's core. */
#ifndef TESTS_UNIT_CORE_BED_H
#define TESTS_UNIT_CORE_BED_H

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>

#include "conserved.h"
#include "vpmu/account.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"

#define BED_PCPUS     2
#define BED_VCPUS     4
#define BED_CONSUMERS 64

#define GUEST	 (VPMU_KEY_USR | VPMU_KEY_OS)
#define INSNS	 vpmu_key_generic(VPMU_EV_INSTRUCTIONS, GUEST)
#define CYCLES	 vpmu_key_generic(VPMU_EV_CYCLES, GUEST)
#define BRANCHES vpmu_key_generic(VPMU_EV_BRANCHES, GUEST)
#define LOADS	 vpmu_key_generic(VPMU_EV_LOADS, GUEST)
#define STORES	 vpmu_key_generic(VPMU_EV_STORES, GUEST)
#define MISSES	 vpmu_key_generic(VPMU_EV_CACHE_MISSES, GUEST) /* no emulator PMU counts these */

struct bed {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu[BED_PCPUS];
	struct vpmu_pcpu *p[BED_PCPUS];
	struct vpmu_account *tenant, *vm;
	struct vpmu_account *vcpu[BED_VCPUS];
	struct vpmu_context ctx[BED_VCPUS];
	struct bed_consumer {
		struct vpmu_consumer c; /* first */
		int vcpu;		/* it is this one's own; -1: an operator's */
		bool there;
	} con[BED_CONSUMERS];
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

/* I1 now; returns how many pCPU and key pairs there are. */
static inline unsigned int bed_conserved(struct bed *b)
{
	return conserved(b->host);
}

static inline struct vpmu_consumer *bed_add(struct bed *b, struct vpmu_account *a, vpmu_key_t key,
					    int vcpu, int ret)
{
	struct bed_consumer *n = b->con;

	while (n->there)
		cr_assert(++n < b->con + BED_CONSUMERS);
	*n = (struct bed_consumer){.vcpu = vcpu, .there = true};
	cr_assert_eq(vpmu_consumer_add(&n->c, a, key, vcpu < 0 ? NULL : b->ctx[vcpu].pcpu), ret);
	return &n->c;
}

/* An operator counts @key for @a. What the test does not end, bed_fini ends. */
static inline struct vpmu_consumer *bed_count(struct bed *b, struct vpmu_account *a, vpmu_key_t key)
{
	return bed_add(b, a, key, -1, 0);
}

/* The same with a key that no PMU counts. */
static inline struct vpmu_consumer *bed_cannot(struct bed *b, struct vpmu_account *a,
					       vpmu_key_t key)
{
	return bed_add(b, a, key, -1, -EOPNOTSUPP);
}

/* vCPU @v counts @key for itself. */
static inline struct vpmu_consumer *bed_own(struct bed *b, int v, vpmu_key_t key)
{
	return bed_add(b, b->vcpu[v], key, v, 0);
}

/* Returns the last value of @c. */
static inline struct vpmu_value bed_end(struct bed *b, struct vpmu_consumer *c)
{
	struct bed_consumer *n = (struct bed_consumer *)c;
	struct vpmu_value last;

	cr_assert(n->there);
	vpmu_consumer_del(c, n->vcpu < 0 ? NULL : b->ctx[n->vcpu].pcpu, &last);
	n->there = false;
	return last;
}

/* Nothing was lost, neither before the consumers of the bed end nor after. Others must be gone. */
static inline void bed_fini(struct bed *b)
{
	bed_conserved(b);
	for (struct bed_consumer *n = b->con; n < b->con + BED_CONSUMERS; n++)
		if (n->there)
			bed_end(b, &n->c);
	bed_conserved(b);
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

/* The same, and it is charged. */
static inline void bed_work(struct bed *b, int p, uint64_t n)
{
	bed_run(b, p, n);
	vpmu_pcpu_flush(b->p[p]);
}

/* Switch to vCPU @v where it is placed, let it execute @n, flush. */
static inline void bed_vcpu(struct bed *b, int v, uint64_t n)
{
	int p = v % BED_PCPUS;

	vpmu_pcpu_switch(b->p[p], &b->ctx[v]);
	bed_work(b, p, n);
}

static inline struct vpmu_value bed_read(const struct vpmu_consumer *c)
{
	struct vpmu_value v;

	vpmu_consumer_read(c, &v);
	return v;
}

static inline struct vpmu_sharing bed_sharing(const struct bed *b)
{
	struct vpmu_sharing s;

	vpmu_host_sharing(b->host, &s);
	return s;
}

/* The owner of a pCPU that only polls. */
struct bed_owner {
	pthread_t thread;
	struct vpmu_pcpu *p;
	bool ready, stop; /* atomic */
};

static inline void *bed_owner_run(void *arg)
{
	struct bed_owner *o = arg;

	urcu_memb_register_thread();
	vpmu_pcpu_online(o->p);
	__atomic_store_n(&o->ready, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&o->stop, __ATOMIC_ACQUIRE))
		vpmu_pcpu_poll(o->p);
	vpmu_pcpu_switch(o->p, NULL);
	vpmu_pcpu_offline(o->p);
	urcu_memb_unregister_thread();
	return NULL;
}

static inline void bed_owner_start(struct bed_owner *o, struct vpmu_pcpu *p)
{
	*o = (struct bed_owner){.p = p};
	cr_assert_eq(pthread_create(&o->thread, NULL, bed_owner_run, o), 0);
	while (!__atomic_load_n(&o->ready, __ATOMIC_ACQUIRE))
		;
}

static inline void bed_owner_stop(struct bed_owner *o)
{
	__atomic_store_n(&o->stop, true, __ATOMIC_RELEASE);
	pthread_join(o->thread, NULL);
}

/* The bed of a file's tests. */
static struct bed b;

/* One counter for all keys. */
static const struct vpmu_emupmu_opts bed_one_counter = {.gp = 1, .no_default = true};

static inline void bed_setup(void)
{
	bed_init(&b, NULL);
}

/* vCPU 0 runs. */
static inline void bed_begin(const struct vpmu_emupmu_opts *opts)
{
	bed_init(&b, opts);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
}

static inline void bed_teardown(void)
{
	bed_fini(&b);
}

#endif
