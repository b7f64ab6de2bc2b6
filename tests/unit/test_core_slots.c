// SPDX-License-Identifier: GPL-2.0-or-later
/* Slots: shared by equal keys, kept for a return, used again when the table is full. */
#include "core_bed.h"
#include "vpmu/charge.h"
#include "vpmu/core/internal.h"

TestSuite(slots, .init = bed_setup, .fini = bed_teardown);

/* As many distinct keys as wanted: raw ones, which take a slot though no emulator PMU counts them.
 */
static vpmu_key_t nth_key(unsigned int n)
{
	return vpmu_key_make(VPMU_SPACE_INTEL, 0xb7, VPMU_KEY_USR | VPMU_KEY_GUEST) |
	       (vpmu_key_t)n << VPMU_KEY_UMASK_SHIFT;
}

Test(slots, equal_keys_share)
{
	struct vpmu_consumer *c[3];

	c[0] = bed_own(&b, 0, INSNS);
	c[1] = bed_count(&b, b.tenant, INSNS);
	c[2] = bed_count(&b, b.tenant, vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR));
	cr_assert_eq(bed_sharing(&b).consumers, 3);
	cr_assert_eq(bed_sharing(&b).keys, 2, "user only is another event");
	vpmu_consumer_disable(c[1], NULL);
	cr_assert_eq(bed_sharing(&b).consumers, 2, "disabled consumers use nothing");
	for (int i = 0; i < 3; i++)
		bed_end(&b, c[i]);
	cr_assert_eq(bed_sharing(&b).consumers + bed_sharing(&b).keys, 0);
}

Test(slots, no_space_and_again)
{
	struct vpmu_consumer *c[VPMU_MAX_SLOTS], more = {0};

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		c[i] = bed_cannot(&b, b.tenant, nth_key(i));
	cr_assert_eq(vpmu_consumer_add(&more, b.tenant, nth_key(100), NULL), -ENOSPC);
	cr_assert_eq(vpmu_consumer_add(&more, b.vcpu[0], INSNS, b.p[0]), -ENOSPC);
	cr_assert_eq(vpmu_consumer_add(&more, b.tenant, nth_key(63), NULL), -EOPNOTSUPP,
		     "a key in use needs no slot");
	vpmu_consumer_del(&more, NULL, NULL);
	vpmu_consumer_disable(c[5], NULL);
	cr_assert_eq(vpmu_consumer_add(&more, b.vcpu[0], INSNS, b.p[0]), 0, "a slot came free");
	cr_assert_eq(vpmu_consumer_enable(c[5], NULL), -ENOSPC);
	bed_vcpu(&b, 0, 12);
	cr_assert_eq(bed_read(&more).count, 12);
	vpmu_consumer_del(&more, b.p[0], NULL);
}

/* I5: a slot with another key shows none of its former counts, on any pCPU. */
Test(slots, recycled_slot_shows_nothing_of_the_past)
{
	struct vpmu_consumer *insns = bed_count(&b, b.tenant, INSNS), *branches;

	bed_vcpu(&b, 0, 1000);
	bed_vcpu(&b, 1, 1000);
	bed_run(&b, 0, 500); /* still in the counter */
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS - 1; i++)
		bed_cannot(&b, b.tenant, nth_key(i));
	bed_end(&b, insns);
	/* Only the slot of INSNS is free. */
	branches = bed_own(&b, 0, BRANCHES);
	cr_assert_eq(bed_read(branches).count, 0);
	bed_work(&b, 0, 30);
	cr_assert_eq(bed_read(branches).count, 30);
	cr_assert_eq(bed_read(branches).running_ns, 30);
	/* pCPU 1 still has the counter of the old key: the vCPU moves there. */
	vpmu_pcpu_switch(b.p[0], NULL);
	cr_assert_eq(vpmu_context_place(&b.ctx[0], b.p[1]), 0);
	bed_run(&b, 1, 200);
	vpmu_pcpu_switch(b.p[1], &b.ctx[0]);
	bed_work(&b, 1, 4);
	cr_assert_eq(bed_read(branches).count, 34);
	cr_assert_eq(bed_read(branches).running_ns, 34);
}

Test(slots, thousands_of_keys_over_time)
{
	for (unsigned int i = 0; i < 2000; i++) {
		struct vpmu_consumer *c = bed_cannot(&b, b.tenant, nth_key(i & 0xff));
		struct vpmu_consumer *insns = bed_own(&b, 0, i & 1 ? INSNS : LOADS);

		bed_vcpu(&b, 0, i);
		cr_assert_eq(bed_read(insns).count, i);
		bed_end(&b, insns);
		bed_end(&b, c);
	}
}

/* ---- quotas: what guests may take ----------------------------------------------------------- */

static vpmu_key_t nth_generic(unsigned int n)
{
	return vpmu_key_generic((enum vpmu_generic)(n / 3), n % 3 == 0	 ? VPMU_KEY_USR
							    : n % 3 == 1 ? VPMU_KEY_OS
									 : GUEST);
}

/* How many of @n keys of @make a guest without a quota of its own gets. */
static unsigned int take(vpmu_key_t (*make)(unsigned int n), unsigned int n, struct vpmu_quota *q)
{
	unsigned int got = 0;
	int slot;

	for (unsigned int i = 0; i < n; i++) {
		slot = slot_get(b.host, make(i), q);
		got += slot >= 0;
		cr_assert(slot >= 0 || slot == -ENOSPC || slot == -EDQUOT);
	}
	return got;
}

Test(slots, guests_leave_room_for_generic_events_and_operators)
{
	struct vpmu_quota greedy = {.max = VPMU_MAX_SLOTS}, victim = {.max = VPMU_MAX_SLOTS};

	cr_expect_eq(take(nth_key, 64, &greedy),
		     VPMU_MAX_SLOTS - VPMU_SLOTS_OPERATORS - VPMU_SLOTS_GENERIC);
	cr_expect_eq(greedy.refused, VPMU_SLOTS_OPERATORS + VPMU_SLOTS_GENERIC);
	cr_expect_geq(slot_get(b.host, INSNS, &victim), 0, "another guest's instructions");
	cr_expect_eq(take(nth_generic, 24, &victim), VPMU_SLOTS_GENERIC,
		     "INSNS is one of them, and is shared");
	cr_expect_geq(slot_get(b.host, nth_key(0), &victim), 0, "a key in use needs no room");
	cr_expect_eq(take(nth_generic, 24, NULL), VPMU_SLOTS_GENERIC + VPMU_SLOTS_OPERATORS);
	cr_expect_eq(bed_sharing(&b).refused, greedy.refused + victim.refused + 24 - 16);
}

Test(slots, a_vm_has_a_quota_of_distinct_keys)
{
	struct vpmu_consumer c[4] = {0};
	struct vpmu_quota q = {.max = 2};

	b.ctx[0].quota = b.ctx[1].quota = &q;
	cr_assert_eq(vpmu_consumer_add(&c[0], b.vcpu[0], INSNS, b.p[0]), 0);
	cr_assert_eq(vpmu_consumer_add(&c[1], b.vcpu[1], CYCLES, b.p[1]), 0);
	cr_expect_eq(vpmu_consumer_add(&c[2], b.vcpu[0], BRANCHES, b.p[0]), -EDQUOT);
	cr_expect_eq(q.refused, 1);
	/* Keys that the VM counts already cost it nothing more, whichever vCPU counts them. */
	cr_assert_eq(vpmu_consumer_add(&c[2], b.vcpu[0], CYCLES, b.p[0]), 0);
	/* Neither another VM nor the operator is concerned, and their events do not help. */
	bed_own(&b, 2, BRANCHES);
	bed_count(&b, b.vm, LOADS);
	cr_expect_eq(vpmu_consumer_add(&c[3], b.vcpu[1], BRANCHES, b.p[1]), -EDQUOT);
	cr_expect_eq(vpmu_consumer_add(&c[3], b.vcpu[1], LOADS, b.p[1]), -EDQUOT);
	/* A key that no vCPU counts any more makes room. */
	vpmu_consumer_disable(&c[1], b.p[1]);
	cr_expect_eq(vpmu_consumer_add(&c[3], b.vcpu[1], BRANCHES, b.p[1]), -EDQUOT);
	vpmu_consumer_disable(&c[2], b.p[0]);
	cr_assert_eq(vpmu_consumer_add(&c[3], b.vcpu[1], BRANCHES, b.p[1]), 0);
	cr_expect_eq(vpmu_consumer_enable(&c[1], b.p[1]), -EDQUOT, "and takes it");
	cr_expect_eq(q.refused, 5);
	for (int i = 0; i < 4; i++)
		vpmu_consumer_del(&c[i], b.p[i % 2 == 0 ? 0 : 1], NULL);
	for (int i = 0; i < VPMU_MAX_SLOTS; i++)
		cr_expect_eq(q.refs[i], 0);
	b.ctx[0].quota = b.ctx[1].quota = NULL;
}

/* The events of a tenant's VMs together are limited, and other tenants have the rest. */
Test(slots, a_tenant_has_a_quota_for_all_of_its_vms)
{
	struct vpmu_quota tenant = {.max = 2},
			  vm[2] = {{.max = 8, .parent = &tenant}, {.max = 8, .parent = &tenant}};
	struct vpmu_quota other = {.max = 8};
	int insns, cycles, branches;

	insns = slot_get(b.host, INSNS, &vm[0]);
	cycles = slot_get(b.host, CYCLES, &vm[1]);
	cr_assert(insns >= 0 && cycles >= 0);
	cr_expect_eq(slot_get(b.host, BRANCHES, &vm[0]), -EDQUOT);
	cr_expect(vm[0].refused == 1 && vm[1].refused == 0, "who asked is told");
	/* What another VM of the tenant counts costs it nothing more. */
	cr_expect_eq(slot_get(b.host, CYCLES, &vm[0]), cycles);
	branches = slot_get(b.host, BRANCHES, &other);
	cr_assert_geq(branches, 0, "another tenant");
	cr_expect_eq(slot_get(b.host, BRANCHES, &vm[0]), -EDQUOT, "whoever else counts it");
	/* A key that no VM of the tenant counts any more makes room. */
	slot_put(b.host, cycles, &vm[1]);
	cr_expect_eq(slot_get(b.host, BRANCHES, &vm[1]), -EDQUOT);
	slot_put(b.host, cycles, &vm[0]);
	cr_expect_eq(slot_get(b.host, BRANCHES, &vm[1]), branches);
	/* The limit can change, either way: nothing that runs is stopped. */
	vpmu_quota_set_max(&tenant, 3);
	cr_expect_eq(slot_get(b.host, CYCLES, &vm[0]), cycles);
	vpmu_quota_set_max(&tenant, 1);
	cr_expect_eq(slot_get(b.host, LOADS, &vm[0]), -EDQUOT);
	cr_expect_eq(slot_get(b.host, INSNS, &vm[1]), insns);
	slot_put(b.host, insns, &vm[1]);
	slot_put(b.host, cycles, &vm[0]);
	slot_put(b.host, branches, &vm[1]);
	slot_put(b.host, insns, &vm[0]);
	slot_put(b.host, branches, &other);
	for (int i = 0; i < VPMU_MAX_SLOTS; i++)
		cr_expect(!tenant.refs[i] && !vm[0].refs[i] && !vm[1].refs[i]);
}

/* Three greedy VMs of one tenant with the default quotas. */
Test(slots, a_tenant_leaves_room_for_another_vm)
{
	struct vpmu_quota tenant = {.max = 32}, vm[3], victim = {.max = 24};
	unsigned int got = 0;

	for (unsigned int i = 0; i < 3; i++) {
		vm[i] = (struct vpmu_quota){.max = 24, .parent = &tenant};
		for (unsigned int k = 0; k < 24; k++)
			got += slot_get(b.host, nth_key(24 * i + k), &vm[i]) >= 0;
	}
	cr_expect_eq(got, 32);
	cr_expect_eq(take(nth_generic, 24, &victim), 24);
}

#define RACE_KEYS 6
#define RACE_MAX  3

static _Atomic unsigned int race_over, race_lost, race_got[RACE_KEYS];

/* A vCPU that switches counters on and off. */
static void *race(void *arg)
{
	static _Atomic unsigned int racers;
	struct vpmu_quota *q = arg;
	const struct vpmu_quota *limit = q->parent ? q->parent : q;
	unsigned int seed = ++racers;

	for (int i = 0; i < 200000; i++) {
		unsigned int k = (seed = seed * 1103515245 + 12345) >> 16;
		int slot = slot_get(b.host, nth_key(k %= RACE_KEYS), q);

		if (slot < 0)
			continue;
		pthread_mutex_lock(&b.host->slots_lock);
		race_over += __builtin_popcountll(limit->held) > RACE_MAX;
		race_lost += !(limit->held & q->held & VPMU_BIT(slot));
		pthread_mutex_unlock(&b.host->slots_lock);
		race_got[k]++;
		slot_put(b.host, slot, q);
	}
	return NULL;
}

static void run_race(struct vpmu_quota *const q[3], const struct vpmu_quota *limit)
{
	pthread_t t[3];

	for (int i = 0; i < 3; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, race, q[i]), 0);
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	cr_expect_eq(race_over, 0, "more keys than the quota");
	cr_expect_eq(race_lost, 0, "a key in use that the quota does not know");
	for (int i = 0; i < RACE_KEYS; i++)
		cr_expect_gt(race_got[i], 0);
	for (int i = 0; i < VPMU_MAX_SLOTS; i++)
		cr_expect(!limit->refs[i] && !q[0]->refs[i] && !q[1]->refs[i]);
	cr_expect_leq(__builtin_popcountll(limit->held), RACE_MAX);
	/* All of it can be had again. */
	cr_expect_eq(take(nth_key, RACE_KEYS, q[0]), RACE_MAX);
}

Test(slots, a_quota_of_a_tenant_holds_while_its_vms_race)
{
	struct vpmu_quota tenant = {.max = RACE_MAX};
	struct vpmu_quota vm[2] = {{.max = RACE_KEYS, .parent = &tenant},
				   {.max = RACE_KEYS, .parent = &tenant}};

	run_race((struct vpmu_quota *const[]){&vm[0], &vm[1], &vm[0]}, &tenant);
}

Test(slots, a_quota_holds_while_vcpus_race)
{
	struct vpmu_quota quota = {.max = RACE_MAX};

	run_race((struct vpmu_quota *const[]){&quota, &quota, &quota}, &quota);
}
