// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The problems that earlier discussions of sharing counters and counting cgroups left open, by
 * name, each as the smallest case that shows it (design: "every count is a difference of a shared
 * monotonic counter").
 */
#include <signal.h>
#include <string.h>

#include "core_bed.h"

TestSuite(seeds, .init = bed_setup, .fini = bed_teardown);

/* Sharing v6/v10: two events of one kind took two counters because the first was not running. */
Test(seeds, double_allocation)
{
	for (int i = 0; i < 50; i++)
		bed_count(&b, i % 2 ? b.tenant : b.vcpu[i % BED_VCPUS], INSNS);
	bed_vcpu(&b, 0, 10);
	cr_assert_eq(bed_sharing(&b).host_counters, 1,
		     "50 compatible consumers, one pCPU ran: 1 counter");
	bed_vcpu(&b, 1, 10);
	cr_assert_eq(bed_sharing(&b).host_counters, 2);
}

/* Sharing v6/v10: the master of a shared counter left, and the others had to be handed over. */
Test(seeds, master_leaves)
{
	struct vpmu_consumer *first, *second;

	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	first = bed_own(&b, 0, INSNS);
	bed_run(&b, 0, 100);
	second = bed_own(&b, 0, INSNS);
	bed_run(&b, 0, 10);
	cr_assert_eq(bed_end(&b, first).count, 110);
	bed_work(&b, 0, 1);
	cr_assert_eq(bed_read(second).count, 11, "not disturbed by the first one's leaving");
	cr_assert_eq(bed_read(second).running_ns, bed_read(second).enabled_ns);
}

/* Sharing: the master is not running, but its counter must serve the one that is. */
Test(seeds, master_not_running)
{
	struct vpmu_consumer *c[2];

	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	c[0] = bed_own(&b, 0, INSNS);
	c[1] = bed_own(&b, 2, INSNS);
	bed_vcpu(&b, 2, 70);
	cr_assert_eq(bed_read(c[0]).count, 0);
	cr_assert_eq(bed_read(c[1]).count, 70);
	bed_vcpu(&b, 0, 5);
	cr_assert_eq(bed_read(c[0]).count, 5);
	cr_assert_eq(bed_read(c[1]).count, 70);
}

static struct vpmu_consumer *in_handler;
static volatile uint64_t handler_value;

static void on_usr1(int sig)
{
	handler_value = bed_read(in_handler).count;
}

/* Sharing v10's review: values are read from NMI while the event is being changed. Every point of
 * every operation is tests/model/test_signal.c; this is the plain case. */
Test(seeds, reads_from_signal)
{
	signal(SIGUSR1, on_usr1);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	in_handler = bed_own(&b, 0, INSNS);
	bed_work(&b, 0, 42);
	urcu_memb_read_lock(); /* inside another read, as it may come */
	raise(SIGUSR1);
	urcu_memb_read_unlock();
	cr_assert_eq(handler_value, 42);
	vpmu_consumer_disable(in_handler, b.p[0]);
	raise(SIGUSR1);
	cr_assert_eq(handler_value, 42, "disabled is no state in which reading is forbidden");
}

/* Cgroup thread: attaching another counter of the same event lost or reset the value. */
Test(seeds, reattach_loses_nothing)
{
	struct vpmu_consumer *keeps, *comes_and_goes;
	uint64_t sum = 0;

	keeps = bed_count(&b, b.tenant, INSNS);
	for (unsigned int i = 1; i <= 10; i++) {
		comes_and_goes = bed_count(&b, b.tenant, INSNS);
		bed_vcpu(&b, 0, i);
		cr_assert_eq(bed_end(&b, comes_and_goes).count, i);
		sum += i;
		bed_vcpu(&b, 1, 1000);
		sum += 1000;
		cr_assert_eq(bed_read(keeps).count, sum);
	}
	vpmu_consumer_disable(keeps, NULL);
	bed_vcpu(&b, 0, 77);
	cr_assert_eq(bed_read(keeps).count, sum);
	cr_assert_eq(vpmu_consumer_enable(keeps, NULL), 0);
	bed_vcpu(&b, 0, 3);
	cr_assert_eq(bed_read(keeps).count, sum + 3, "enabled again: goes on where it was");
}

/* Cgroup thread: the first reading held counts from before the attach. */
Test(seeds, counts_from_before_attach)
{
	struct vpmu_consumer *early = bed_count(&b, b.tenant, INSNS), *late, *guest;

	bed_vcpu(&b, 0, 500);
	bed_run(&b, 0, 50); /* in the hardware counter, not yet charged */
	late = bed_count(&b, b.tenant, INSNS);
	guest = bed_own(&b, 0, INSNS);
	cr_assert_eq(bed_read(late).count, 0);
	cr_assert_eq(bed_read(guest).count, 0);
	bed_work(&b, 0, 7);
	cr_assert_eq(bed_read(late).count, 7);
	cr_assert_eq(bed_read(guest).count, 7);
	cr_assert_eq(bed_read(early).count, 557);
}

/* Cgroup thread: one event counted for many cgroups at once, at any depth, one counter. */
Test(seeds, one_event_many_cgroups)
{
	enum { DEPTH = 20 };
	struct vpmu_account *a[DEPTH], *parent = b.tenant;
	struct vpmu_consumer *c[DEPTH + 1];
	struct vpmu_context ctx;

	for (int i = 0; i < DEPTH; i++) {
		cr_assert_eq(vpmu_account_create(parent, NULL, &a[i]), 0);
		c[i] = bed_count(&b, a[i], INSNS);
		parent = a[i];
	}
	c[DEPTH] = bed_count(&b, b.tenant, INSNS);
	cr_assert_eq(vpmu_context_init(&ctx, parent, NULL), 0);
	cr_assert_eq(vpmu_context_place(&ctx, b.p[0]), 0);
	vpmu_pcpu_switch(b.p[0], &ctx);
	bed_run(&b, 0, 9);
	bed_vcpu(&b, 0, 1);
	for (int i = 0; i < DEPTH; i++)
		cr_assert_eq(bed_read(c[i]).count, 9, "depth %d", i);
	cr_assert_eq(bed_read(c[DEPTH]).count, 10);
	cr_assert_eq(bed_sharing(&b).host_counters, 1);
	vpmu_context_fini(&ctx);
}

/* Cgroup thread: counts of a removed cgroup were lost, or the parent jumped. */
Test(seeds, removed_cgroup_folds_into_its_parent)
{
	struct vpmu_account *vm, *vcpu;
	struct vpmu_context ctx;
	struct vpmu_consumer *tenant = bed_count(&b, b.tenant, INSNS);
	struct vpmu_consumer *root = bed_count(&b, vpmu_host_root(b.host), INSNS);

	for (unsigned int i = 1; i <= 20; i++) {
		cr_assert_eq(vpmu_account_create(b.tenant, NULL, &vm), 0);
		cr_assert_eq(vpmu_account_create(vm, NULL, &vcpu), 0);
		cr_assert_eq(vpmu_context_init(&ctx, vcpu, vm), 0);
		cr_assert_eq(vpmu_context_place(&ctx, b.p[i % 2]), 0);
		vpmu_pcpu_switch(b.p[i % 2], &ctx);
		bed_run(&b, (int)i % 2, 10);
		vpmu_pcpu_switch(b.p[i % 2], NULL);
		vpmu_context_fini(&ctx);
		cr_assert_eq(vpmu_account_del(vcpu), 0);
		cr_assert_eq(bed_read(tenant).count, 10 * i);
		cr_assert_eq(vpmu_account_del(vm), 0);
		cr_assert_eq(bed_read(tenant).count, 10 * i);
		cr_assert_eq(bed_read(root).count, 10 * i);
	}
}

/* 2009's equivalent contexts: vCPUs only counted as part of their VM switch without PMU work. */
Test(seeds, equivalent_contexts)
{
	struct vpmu_consumer *c = bed_count(&b, b.tenant, INSNS);

	bed_vcpu(&b, 0, 100);
	bed_run(&b, 0, 11);
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]); /* the same VM: nothing is read */
	bed_run(&b, 0, 5);
	cr_assert_eq(bed_read(c).count, 100);
	vpmu_pcpu_switch(b.p[0], NULL);
	cr_assert_eq(bed_read(c).count, 116);
}

/* A pCPU's memory comes back for another one: keys that were placed there must notice. */
Test(seeds, new_pcpu_at_an_old_address)
{
	struct vpmu_pcpu *old;
	bed_count(&b, b.tenant, INSNS);
	bed_vcpu(&b, 0, 8);
	for (int i = 0; i < 20; i++) {
		vpmu_pcpu_switch(b.p[0], NULL);
		old = b.p[0];
		cr_assert_eq(vpmu_pcpu_destroy(b.p[0]), 0);
		urcu_memb_barrier();
		cr_assert_eq(vpmu_pcpu_create(b.host, &b.pmu[0].pmu, 0, &b.p[0]), 0);
		cr_assert_eq(vpmu_context_place(&b.ctx[0], b.p[0]), 0);
		bed_vcpu(&b, 0, 8);
		bed_conserved(&b);
		if (b.p[0] == old && i > 2)
			break; /* the case itself, and then some */
	}
	vpmu_pcpu_switch(b.p[0], NULL);
	cr_assert_eq(vpmu_context_place(&b.ctx[2], b.p[0]), 0);
}
