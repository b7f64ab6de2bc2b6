// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The problems that earlier discussions of sharing counters and counting cgroups left open, by
 * name, each as the smallest case that shows it (design: "every count is a difference of a shared
 * monotonic counter").
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core_bed.h"

TestSuite(seeds, .init = bed_setup, .fini = bed_teardown);

/* Sharing v6/v10: two events of one kind took two counters because the first was not running. */
Test(seeds, double_allocation)
{
	struct vpmu_consumer c[50] = {0};

	for (int i = 0; i < 50; i++)
		cr_assert_eq(vpmu_consumer_add(&c[i], i % 2 ? b.tenant : b.vcpu[i % BED_VCPUS],
					       INSNS, NULL),
			     0);
	bed_vcpu(&b, 0, 10);
	cr_assert_eq(bed_host_counters(&b), 1, "50 compatible consumers, one pCPU ran: 1 counter");
	bed_vcpu(&b, 1, 10);
	cr_assert_eq(bed_host_counters(&b), 2);
	for (int i = 0; i < 50; i++)
		vpmu_consumer_del(&c[i], NULL, NULL);
}

/* Sharing v6/v10: the master of a shared counter left, and the others had to be handed over. */
Test(seeds, master_leaves)
{
	struct vpmu_consumer first = {0}, second = {0};
	struct vpmu_value last;

	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(vpmu_consumer_add(&first, b.vcpu[0], INSNS, b.p[0]), 0);
	bed_run(&b, 0, 100);
	cr_assert_eq(vpmu_consumer_add(&second, b.vcpu[0], INSNS, b.p[0]), 0);
	bed_run(&b, 0, 10);
	vpmu_consumer_del(&first, b.p[0], &last);
	cr_assert_eq(last.count, 110);
	bed_run(&b, 0, 1);
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(bed_read(&second).count, 11, "not disturbed by the first one's leaving");
	cr_assert_eq(bed_read(&second).running_ns, bed_read(&second).enabled_ns);
	vpmu_consumer_del(&second, b.p[0], NULL);
}

/* Sharing: the master is not running, but its counter must serve the one that is. */
Test(seeds, master_not_running)
{
	struct vpmu_consumer c[2] = {0};

	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(vpmu_consumer_add(&c[0], b.vcpu[0], INSNS, b.p[0]), 0);
	cr_assert_eq(vpmu_consumer_add(&c[1], b.vcpu[2], INSNS, b.p[0]), 0);
	bed_vcpu(&b, 2, 70);
	cr_assert_eq(bed_read(&c[0]).count, 0);
	cr_assert_eq(bed_read(&c[1]).count, 70);
	bed_vcpu(&b, 0, 5);
	cr_assert_eq(bed_read(&c[0]).count, 5);
	cr_assert_eq(bed_read(&c[1]).count, 70);
	for (int i = 0; i < 2; i++)
		vpmu_consumer_del(&c[i], b.p[0], NULL);
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
	struct vpmu_consumer c = {0};

	signal(SIGUSR1, on_usr1);
	in_handler = &c;
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(vpmu_consumer_add(&c, b.vcpu[0], INSNS, b.p[0]), 0);
	bed_run(&b, 0, 42);
	vpmu_pcpu_flush(b.p[0]);
	urcu_memb_read_lock(); /* inside another read, as it may come */
	raise(SIGUSR1);
	urcu_memb_read_unlock();
	cr_assert_eq(handler_value, 42);
	vpmu_consumer_disable(&c, b.p[0]);
	raise(SIGUSR1);
	cr_assert_eq(handler_value, 42, "disabled is no state in which reading is forbidden");
	vpmu_consumer_del(&c, b.p[0], NULL);
}

/* Cgroup thread: attaching another counter of the same event lost or reset the value. */
Test(seeds, reattach_loses_nothing)
{
	struct vpmu_consumer keeps = {0}, comes_and_goes = {0};
	struct vpmu_value last;
	uint64_t sum = 0;

	cr_assert_eq(vpmu_consumer_add(&keeps, b.tenant, INSNS, NULL), 0);
	for (unsigned int i = 1; i <= 10; i++) {
		cr_assert_eq(vpmu_consumer_add(&comes_and_goes, b.tenant, INSNS, NULL), 0);
		bed_vcpu(&b, 0, i);
		vpmu_consumer_del(&comes_and_goes, NULL, &last);
		cr_assert_eq(last.count, i);
		sum += i;
		bed_vcpu(&b, 1, 1000);
		sum += 1000;
		cr_assert_eq(bed_read(&keeps).count, sum);
	}
	vpmu_consumer_disable(&keeps, NULL);
	bed_vcpu(&b, 0, 77);
	cr_assert_eq(bed_read(&keeps).count, sum);
	cr_assert_eq(vpmu_consumer_enable(&keeps, NULL), 0);
	bed_vcpu(&b, 0, 3);
	cr_assert_eq(bed_read(&keeps).count, sum + 3, "enabled again: goes on where it was");
	vpmu_consumer_del(&keeps, NULL, NULL);
}

/* Cgroup thread: the first reading held counts from before the attach. */
Test(seeds, counts_from_before_attach)
{
	struct vpmu_consumer early = {0}, late = {0}, guest = {0};

	cr_assert_eq(vpmu_consumer_add(&early, b.tenant, INSNS, NULL), 0);
	bed_vcpu(&b, 0, 500);
	bed_run(&b, 0, 50); /* in the hardware counter, not yet charged */
	cr_assert_eq(vpmu_consumer_add(&late, b.tenant, INSNS, NULL), 0);
	cr_assert_eq(vpmu_consumer_add(&guest, b.vcpu[0], INSNS, b.p[0]), 0);
	cr_assert_eq(bed_read(&late).count, 0);
	cr_assert_eq(bed_read(&guest).count, 0);
	bed_run(&b, 0, 7);
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(bed_read(&late).count, 7);
	cr_assert_eq(bed_read(&guest).count, 7);
	cr_assert_eq(bed_read(&early).count, 557);
	vpmu_consumer_del(&guest, b.p[0], NULL);
	vpmu_consumer_del(&late, NULL, NULL);
	vpmu_consumer_del(&early, NULL, NULL);
}

/* Cgroup thread: one event counted for many cgroups at once, at any depth, one counter. */
Test(seeds, one_event_many_cgroups)
{
	enum { DEPTH = 20 };
	struct vpmu_account *a[DEPTH], *parent = b.tenant;
	struct vpmu_consumer c[DEPTH + 1] = {0};
	struct vpmu_context ctx;

	for (int i = 0; i < DEPTH; i++) {
		cr_assert_eq(vpmu_account_create(parent, NULL, &a[i]), 0);
		cr_assert_eq(vpmu_consumer_add(&c[i], a[i], INSNS, NULL), 0);
		parent = a[i];
	}
	cr_assert_eq(vpmu_consumer_add(&c[DEPTH], b.tenant, INSNS, NULL), 0);
	cr_assert_eq(vpmu_context_init(&ctx, parent, NULL), 0);
	cr_assert_eq(vpmu_context_place(&ctx, b.p[0]), 0);
	vpmu_pcpu_switch(b.p[0], &ctx);
	bed_run(&b, 0, 9);
	bed_vcpu(&b, 0, 1);
	for (int i = 0; i < DEPTH; i++)
		cr_assert_eq(bed_read(&c[i]).count, 9, "depth %d", i);
	cr_assert_eq(bed_read(&c[DEPTH]).count, 10);
	cr_assert_eq(bed_host_counters(&b), 1);
	for (int i = 0; i <= DEPTH; i++)
		vpmu_consumer_del(&c[i], NULL, NULL);
	vpmu_context_fini(&ctx);
}

/* Cgroup thread: counts of a removed cgroup were lost, or the parent jumped. */
Test(seeds, removed_cgroup_folds_into_its_parent)
{
	struct vpmu_consumer tenant = {0}, root = {0};
	struct vpmu_account *vm, *vcpu;
	struct vpmu_context ctx;

	cr_assert_eq(vpmu_consumer_add(&tenant, b.tenant, INSNS, NULL), 0);
	cr_assert_eq(vpmu_consumer_add(&root, vpmu_host_root(b.host), INSNS, NULL), 0);
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
		cr_assert_eq(bed_read(&tenant).count, 10 * i);
		cr_assert_eq(vpmu_account_del(vm), 0);
		cr_assert_eq(bed_read(&tenant).count, 10 * i);
		cr_assert_eq(bed_read(&root).count, 10 * i);
	}
	bed_conserved(&b);
	vpmu_consumer_del(&tenant, NULL, NULL);
	vpmu_consumer_del(&root, NULL, NULL);
}

/* 2009's equivalent contexts: vCPUs only counted as part of their VM switch without PMU work. */
Test(seeds, equivalent_contexts)
{
	struct vpmu_consumer c = {0};

	cr_assert_eq(vpmu_consumer_add(&c, b.tenant, INSNS, NULL), 0);
	bed_vcpu(&b, 0, 100);
	bed_run(&b, 0, 11);
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]); /* the same VM: nothing is read */
	bed_run(&b, 0, 5);
	cr_assert_eq(bed_read(&c).count, 100);
	vpmu_pcpu_switch(b.p[0], NULL);
	cr_assert_eq(bed_read(&c).count, 116);
	vpmu_consumer_del(&c, NULL, NULL);
}

/* A pCPU's memory comes back for another one: keys that were placed there must notice. */
Test(seeds, new_pcpu_at_an_old_address)
{
	struct vpmu_consumer c = {0};
	struct vpmu_pcpu *old;

	cr_assert_eq(vpmu_consumer_add(&c, b.tenant, INSNS, NULL), 0);
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
	vpmu_consumer_del(&c, NULL, NULL);
}
