// SPDX-License-Identifier: GPL-2.0-or-later
/* Accounts and contexts: lazy sums, folding, charges; refusals and their errors. */
#include "core_bed.h"
#include "vpmu/core/internal.h"

TestSuite(accounts, .init = bed_setup, .fini = bed_teardown);

Test(accounts, ancestors_are_sums)
{
	struct vpmu_account *a[] = {vpmu_host_root(b.host), b.tenant, b.vm, b.vcpu[0], b.vcpu[1],
				    vpmu_host_other(b.host)};
	static const uint64_t want[] = {1111, 111, 111, 11, 100, 1000};
	struct vpmu_consumer *c[6];

	for (int i = 0; i < 6; i++)
		c[i] = bed_count(&b, a[i], INSNS);
	bed_vcpu(&b, 0, 11);
	bed_vcpu(&b, 1, 100);
	vpmu_pcpu_switch(b.p[1], NULL);
	bed_work(&b, 1, 1000);
	for (int i = 0; i < 6; i++) {
		struct vpmu_value v = bed_read(c[i]);

		cr_assert_eq(v.count, want[i], "account %d: %lu", i, v.count);
		cr_assert_eq(v.enabled_ns, want[i]);
		cr_assert_eq(v.running_ns, want[i]);
	}
}

/* I5: "host" is work in no VM, also if others count the same event. */
Test(accounts, host_does_not_get_what_nobody_asked_for)
{
	struct vpmu_consumer *host = bed_count(&b, vpmu_host_other(b.host), INSNS);
	struct vpmu_consumer *one = bed_own(&b, 0, INSNS);

	bed_vcpu(&b, 0, 10);
	bed_vcpu(&b, 2, 500); /* has not asked */
	vpmu_pcpu_switch(b.p[0], NULL);
	bed_work(&b, 0, 3);
	cr_assert_eq(bed_read(host).count, 3);
	cr_assert_eq(bed_read(one).count, 10);
	cr_assert_gt(bed_conserved(&b), 0, "and yet nothing is lost");
}

/* A vCPU's guest and the operator count the same and different things on one account. */
Test(accounts, local_and_control_on_one_account)
{
	struct vpmu_consumer *guest, *operator, * loads;

	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	guest = bed_own(&b, 0, INSNS);
	bed_run(&b, 0, 1);
	operator= bed_count(&b, b.vcpu[0], INSNS);
	loads = bed_count(&b, b.vcpu[0], LOADS);
	bed_run(&b, 0, 10);
	vpmu_consumer_disable(guest, b.p[0]);
	bed_run(&b, 0, 100);
	cr_assert_eq(bed_end(&b, operator).count, 110);
	bed_run(&b, 0, 1000);
	cr_assert_eq(vpmu_consumer_enable(guest, b.p[0]), 0);
	bed_run(&b, 0, 10000);
	cr_assert_eq(bed_end(&b, guest).count, 10011);
	cr_assert_eq(bed_end(&b, loads).count, 11110);
}

Test(accounts, enable_and_disable_twice)
{
	for (int i = 0; i < 2; i++) {
		struct vpmu_pcpu *p = i ? NULL : b.p[0];
		struct vpmu_consumer *c;

		vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
		c = i ? bed_count(&b, b.vcpu[0], INSNS) : bed_own(&b, 0, INSNS);
		bed_run(&b, 0, 5);
		cr_assert_eq(vpmu_consumer_enable(c, p), 0);
		bed_run(&b, 0, 5);
		vpmu_consumer_disable(c, p);
		bed_run(&b, 0, 5);
		vpmu_consumer_disable(c, p);
		cr_assert_eq(bed_read(c).count, 10);
		cr_assert_eq(bed_sharing(&b).consumers, 0);
		bed_end(&b, c);
	}
}

Test(accounts, busy)
{
	struct vpmu_consumer *c;
	struct vpmu_account *a;

	cr_assert_eq(vpmu_account_del(b.tenant), -EBUSY, "has a child");
	cr_assert_eq(vpmu_account_del(b.vcpu[0]), -EBUSY, "has a context");
	cr_assert_eq(vpmu_account_del(vpmu_host_root(b.host)), -EBUSY);
	cr_assert_eq(vpmu_account_del(vpmu_host_other(b.host)), -EBUSY);
	cr_assert_eq(vpmu_account_create(b.tenant, &a, &a), 0);
	cr_assert_eq(vpmu_account_owner(a), &a);
	cr_assert_eq(a->parent, b.tenant);
	c = bed_count(&b, a, INSNS);
	cr_assert_eq(vpmu_account_del(a), -EBUSY, "has a consumer");
	vpmu_consumer_disable(c, NULL);
	cr_assert_eq(vpmu_account_del(a), -EBUSY, "a disabled one, too");
	bed_end(&b, c);
	cr_assert_eq(vpmu_account_del(a), 0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(vpmu_pcpu_destroy(b.p[0]), -EBUSY, "a vCPU is current");
	vpmu_pcpu_switch(b.p[0], NULL);
	vpmu_pcpu_online(b.p[0]);
	cr_assert_eq(vpmu_pcpu_destroy(b.p[0]), -EBUSY, "online");
	vpmu_pcpu_offline(b.p[0]);
}

Test(accounts, contexts_that_are_refused)
{
	struct vpmu_context ctx;

	cr_assert_eq(vpmu_context_init(&ctx, b.vcpu[0], b.tenant), -EINVAL,
		     "the group must be the parent");
	cr_assert_eq(vpmu_context_init(&ctx, b.vcpu[0], b.vm), -EBUSY, "one context per vCPU");
}

Test(accounts, keys_that_are_refused)
{
	static const vpmu_key_t bad[] = {
		0,
		UINT64_MAX,
		VPMU_KEY_GUEST | VPMU_KEY_USR,				/* no space */
		1ULL << VPMU_KEY_SPACE_SHIFT | VPMU_KEY_GUEST,		/* no privilege */
		1ULL << VPMU_KEY_SPACE_SHIFT | VPMU_KEY_USR,		/* neither guest nor host */
		15ULL << VPMU_KEY_SPACE_SHIFT | GUEST | VPMU_KEY_GUEST, /* no such space */
	};
	struct vpmu_consumer c[3] = {0}, *list[] = {&c[0], &c[1], &c[2]};
	struct vpmu_account *acc[] = {b.tenant, b.tenant, b.tenant};
	vpmu_key_t keys[] = {INSNS, MISSES, 0};
	size_t failed = 9;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(vpmu_consumer_add(&c[0], b.tenant, bad[i], NULL), -EINVAL, "%zu", i);
		cr_assert_eq(vpmu_consumer_add(&c[0], b.vcpu[0], bad[i], b.p[0]), -EINVAL);
	}
	/* A batch: all or nothing. */
	cr_assert_eq(vpmu_consumer_add_many(list, acc, keys, 3, &failed), -EINVAL);
	cr_assert_eq(failed, 2);
	cr_assert_eq(bed_sharing(&b).consumers, 0);
	cr_assert_eq(vpmu_consumer_add_many(list, acc, keys, 0, NULL), 0);
	cr_assert_eq(vpmu_consumer_add_many(list, acc, keys, 2, NULL), -EOPNOTSUPP);
	cr_assert_eq(bed_sharing(&b).consumers, 2, "not supported, but added");
	vpmu_consumer_del_many(list, 2, NULL);
}

/* I7: an event that no PMU here counts has no number, in both forms. */
Test(accounts, not_supported)
{
	struct vpmu_consumer *local = bed_add(&b, b.vcpu[0], MISSES, 0, -EOPNOTSUPP);
	struct vpmu_consumer *control = bed_cannot(&b, b.tenant, MISSES);
	struct vpmu_value v;

	bed_vcpu(&b, 0, 100);
	v = bed_read(local);
	cr_assert(!v.supported && !v.count && !v.running_ns);
	v = bed_read(control);
	cr_assert(!v.supported && !v.count && !v.running_ns);
	cr_assert_eq(v.enabled_ns, 0);
	cr_assert_eq(vpmu_value_scaled(&v), 0);
	cr_assert_eq(vpmu_consumer_enable(local, b.p[0]), -EOPNOTSUPP);
	vpmu_consumer_disable(control, NULL);
	cr_assert(!bed_read(control).supported);
	cr_assert_eq(vpmu_consumer_enable(control, NULL), -EOPNOTSUPP);
	cr_assert(!bed_end(&b, local).supported);
	cr_assert(!bed_end(&b, control).supported);
}

/* I7: a tenant that runs on two kinds of pCPU, one of which cannot count the event: the part that
 * was counted is shown as it is and called partial, never scaled up over the other. */
Test(accounts, counted_on_some_pcpus_only)
{
	const struct vpmu_emupmu_opts one_fixed = {.fixed = 1, .no_default = true};
	struct vpmu_consumer *branches, *insns;
	struct vpmu_emupmu small;
	struct vpmu_pcpu *p;
	struct vpmu_value v;

	cr_assert_eq(vpmu_emupmu_init(&small, &one_fixed), 0);
	cr_assert_eq(vpmu_pcpu_create(b.host, &small.pmu, 2, &p), 0);
	branches = bed_count(&b, b.tenant, BRANCHES);
	insns = bed_count(&b, b.tenant, INSNS);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	vpmu_emu_add(b.pmu[0].tally, VPMU_EMU_USR, VPMU_EMU_BRANCHES, 50);
	b.pmu[0].own_clock_ns += 100;
	vpmu_pcpu_switch(b.p[0], NULL);
	v = bed_read(branches);
	cr_assert(v.supported && !v.partial && v.count == 50);
	cr_assert_eq(vpmu_context_place(&b.ctx[1], p), 0);
	vpmu_pcpu_switch(p, &b.ctx[1]);
	vpmu_emu_add(small.tally, VPMU_EMU_USR, VPMU_EMU_BRANCHES, 7);
	vpmu_emu_add(small.tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 9);
	small.own_clock_ns += 300;
	vpmu_pcpu_switch(p, NULL);
	v = bed_read(branches);
	cr_assert(v.supported && v.partial);
	cr_assert_eq(v.count, 50);
	cr_assert_eq(v.enabled_ns, 100);
	cr_assert_eq(v.running_ns, 100);
	cr_assert_eq(vpmu_value_scaled(&v), 50);
	vpmu_consumer_disable(branches, NULL);
	v = bed_read(branches);
	cr_assert(v.partial && v.count == 50 && v.running_ns == 100);
	v = bed_read(insns);
	cr_assert(!v.partial && v.count == 9 && v.enabled_ns == 400 && v.running_ns == 400);
	bed_end(&b, branches);
	bed_end(&b, insns);
	cr_assert_eq(vpmu_pcpu_destroy(p), 0);
}

/* I7: a consumer older than every pCPU learns what its counts are worth from those that come. */
Test(accounts, quality_comes_with_the_pcpus)
{
	struct vpmu_host *host = vpmu_host_create();
	struct vpmu_emupmu sp;
	struct vpmu_pcpu *p;
	struct vpmu_value v;
	struct vpmu_consumer *cycles = bed_count(&b, vpmu_host_root(host), CYCLES);
	struct vpmu_consumer *misses = bed_count(&b, vpmu_host_root(host), MISSES);

	vpmu_emupmu_init(&sp, NULL);
	cr_assert_eq(vpmu_pcpu_create(host, &sp.pmu, 0, &p), 0);
	vpmu_pcpu_flush(p);
	vpmu_emu_add(&sp.own_tally, VPMU_EMU_USR, VPMU_EMU_CYCLES, 5);
	sp.own_clock_ns += 5;
	vpmu_pcpu_flush(p);
	v = bed_read(cycles);
	cr_assert_eq(v.count, 5);
	cr_assert_eq(v.quality, VPMU_Q_MODELLED);
	cr_assert(!bed_read(misses).supported);
	vpmu_consumer_disable(cycles, NULL);
	cr_assert_eq(bed_read(cycles).quality, VPMU_Q_MODELLED);
	cr_assert_eq(vpmu_consumer_enable(cycles, NULL), 0);
	cr_assert_eq(bed_read(cycles).quality, VPMU_Q_MODELLED);
	bed_end(&b, cycles);
	bed_end(&b, misses);
	vpmu_host_destroy(host);
}

/* vpmu_host_sync and control calls wait for the owners of online pCPUs, no others. */
Test(accounts, sync_reaches_online_pcpus)
{
	struct vpmu_consumer *c = bed_count(&b, b.tenant, INSNS);
	struct bed_owner o;

	vpmu_pcpu_switch(b.p[1], &b.ctx[1]);
	bed_run(&b, 1, 1000);
	bed_owner_start(&o, b.p[1]);
	cr_assert_eq(bed_read(c).count, 0, "nobody charged it yet");
	vpmu_host_sync(b.host);
	cr_assert_eq(bed_read(c).count, 1000);
	bed_conserved(&b);
	bed_owner_stop(&o);
}
