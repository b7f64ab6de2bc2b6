// SPDX-License-Identifier: GPL-2.0-or-later
/* More keys than counters: their assignment, its duration, and the values' quality. */
#include <errno.h>

#include "core_bed.h"

TestSuite(rotate, .fini = bed_teardown);

static const enum vpmu_generic events[] = {
	VPMU_EV_INSTRUCTIONS,	VPMU_EV_CYCLES, VPMU_EV_REF_CYCLES, VPMU_EV_BRANCHES,
	VPMU_EV_BRANCHES_TAKEN, VPMU_EV_LOADS,	VPMU_EV_STORES};

/* 8 keys on 4 + 3: those of fixed counters stay, the 5 others share 4. */
Test(rotate, eight_keys_on_seven_counters)
{
	struct vpmu_consumer c[8] = {0};
	uint64_t total = 0;

	bed_init(&b, NULL);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	for (int i = 0; i < 8; i++) {
		vpmu_key_t key = i < 7 ? vpmu_key_generic(events[i], GUEST)
				       : vpmu_key_generic(VPMU_EV_BRANCHES, VPMU_KEY_USR);

		cr_assert_eq(vpmu_consumer_add(&c[i], b.vcpu[0], key, b.p[0]), 0);
	}
	for (int t = 0; t < 500; t++) {
		bed_run(&b, 0, 100);
		total += 100;
		vpmu_pcpu_tick(b.p[0]);
	}
	cr_assert_eq(bed_host_counters(&b), 7);
	for (int i = 0; i < 8; i++) {
		struct vpmu_value v = bed_read(&c[i]);

		cr_assert_eq(v.enabled_ns, total);
		if (i < 3) {
			cr_assert_eq(v.running_ns, total, "key %d has a fixed counter", i);
			cr_assert_eq(v.count, total);
			continue;
		}
		cr_assert_eq(v.running_ns, total * 4 / 5, "key %d: fair share, got %lu of %lu", i,
			     v.running_ns, total);
		cr_assert_eq(v.count, v.running_ns, "counted while it had a counter, no more");
		cr_assert_eq(vpmu_value_scaled(&v), total);
	}
	bed_conserved(&b);
	for (int i = 0; i < 8; i++)
		vpmu_consumer_del(&c[i], b.p[0], NULL);
}

/* ---- a host that refuses ---- */

static const struct vpmu_hostpmu_ops *emu_ops;
static vpmu_key_t refused;
static unsigned int refusals;

static int refusing_bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	if (key != refused)
		return emu_ops->bind(pmu, ctr, key);
	refusals++;
	return -ENOSPC;
}

static void refuse(vpmu_key_t key)
{
	static struct vpmu_hostpmu_ops ops;

	emu_ops = b.pmu[0].pmu.ops;
	ops = *emu_ops;
	ops.bind = refusing_bind;
	b.pmu[0].pmu.ops = &ops;
	refused = key;
	refusals = 0;
}

/* A key that the host refuses takes nothing from those that have a counter, is not asked for at
 * each occasion, and gets its share when the host allows it. */
Test(rotate, refused)
{
	struct vpmu_emupmu_opts opts = {.gp = 4, .no_default = true};
	struct vpmu_consumer c[5] = {0};
	uint64_t total = 0;

	bed_init(&b, &opts);
	refuse(vpmu_key_generic(VPMU_EV_STORES, GUEST));
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(vpmu_consumer_add(
				     &c[i], b.vcpu[0],
				     vpmu_key_generic(i < 4 ? events[i] : VPMU_EV_STORES, GUEST),
				     b.p[0]),
			     0);
	for (int t = 0; t < 500; t++) {
		bed_run(&b, 0, 50);
		vpmu_pcpu_tick(b.p[0]);
		bed_run(&b, 0, 50);
		vpmu_pcpu_flush(b.p[0]);
		total += 100;
	}
	for (int i = 0; i < 5; i++) {
		struct vpmu_value v = bed_read(&c[i]);

		cr_assert_eq(v.enabled_ns, total);
		cr_assert_eq(v.running_ns, i < 4 ? total : 0, "key %d: %lu of %lu", i, v.running_ns,
			     total);
		cr_assert_eq(v.count, v.running_ns);
	}
	cr_assert(refusals > 1 && refusals < 20, "%u", refusals);
	bed_conserved(&b);
	refused = 0;
	for (int t = 0; t < 5000; t++) {
		bed_run(&b, 0, 100);
		vpmu_pcpu_tick(b.p[0]);
	}
	for (int i = 0; i < 5; i++)
		cr_assert_gt(bed_read(&c[i]).running_ns, total + 100 * 5000 / 2 - (i == 4) * total,
			     "key %d", i);
	bed_conserved(&b);
	for (int i = 0; i < 5; i++)
		vpmu_consumer_del(&c[i], b.p[0], NULL);
}

/* The same when room for the key would have to be made: by moving a slot off a counter that counts
 * everything to a fixed one, which an unused slot holds. */
Test(rotate, refused_after_a_move)
{
	struct vpmu_emupmu_opts opts = {.gp = 1, .fixed = 1, .no_default = true};
	struct vpmu_consumer insns = {0}, user = {0}, stores = {0};
	struct vpmu_value v;

	bed_init(&b, &opts);
	refuse(vpmu_key_generic(VPMU_EV_STORES, GUEST));
	/* vCPU 2 has the fixed counter, so vCPU 0's instructions of user mode get the other one. */
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	cr_assert_eq(vpmu_consumer_add(&insns, b.vcpu[2], INSNS, b.p[0]), 0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(vpmu_consumer_add(&user, b.vcpu[0],
				       vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR),
				       b.p[0]),
		     0);
	cr_assert_eq(vpmu_consumer_add(&stores, b.vcpu[0], vpmu_key_generic(VPMU_EV_STORES, GUEST),
				       b.p[0]),
		     0);
	for (int t = 0; t < 100; t++) {
		bed_run(&b, 0, 10);
		vpmu_pcpu_flush(b.p[0]);
	}
	v = bed_read(&user);
	cr_assert_eq(v.count, 1000);
	cr_assert_eq(v.running_ns, 1000);
	cr_assert(refusals >= 1 && refusals < 20, "%u", refusals);
	bed_conserved(&b);
	vpmu_consumer_del(&user, b.p[0], NULL);
	vpmu_consumer_del(&stores, b.p[0], NULL);
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	vpmu_consumer_del(&insns, b.p[0], NULL);
}

/* Unused counters are given back by the next tick, not before, and nothing of what they
 * counted is lost. */
Test(rotate, unused)
{
	struct vpmu_consumer a = {0}, c = {0};
	struct vpmu_value v;

	bed_init(&b, NULL);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(vpmu_consumer_add(&a, b.vcpu[0], INSNS, b.p[0]), 0);
	cr_assert_eq(vpmu_consumer_add(&c, b.vcpu[0], LOADS, b.p[0]), 0);
	bed_run(&b, 0, 7);
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(bed_host_counters(&b), 2, "in use");
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(bed_host_counters(&b), 2, "in use, though not by who runs");
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	vpmu_consumer_del(&c, b.p[0], &v);
	cr_assert_eq(v.count, 7);
	cr_assert_eq(bed_host_counters(&b), 2, "not before a tick");
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(bed_host_counters(&b), 1);
	bed_conserved(&b);
	vpmu_consumer_del(&a, b.p[0], &v);
	cr_assert_eq(v.count, 7);
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(bed_host_counters(&b), 0);
	bed_conserved(&b);
}

Test(rotate, ten_keys_on_one_counter)
{
	struct vpmu_emupmu_opts opts = {.gp = 1, .no_default = true};
	struct vpmu_consumer c[10] = {0};

	bed_init(&b, &opts);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	for (int i = 0; i < 10; i++) {
		uint64_t mode = i < 7 ? GUEST : VPMU_KEY_USR;

		cr_assert_eq(vpmu_consumer_add(&c[i], b.vcpu[0],
					       vpmu_key_generic(events[i % 7], mode), b.p[0]),
			     0);
	}
	for (int t = 0; t < 100; t++) {
		bed_run(&b, 0, 50);
		vpmu_pcpu_tick(b.p[0]);
	}
	for (int i = 0; i < 10; i++) {
		cr_assert_eq(bed_read(&c[i]).running_ns, 500, "key %d: %lu", i,
			     bed_read(&c[i]).running_ns);
		vpmu_consumer_del(&c[i], b.p[0], NULL);
	}
}

Test(rotate, enough_counters_never_rotate)
{
	struct vpmu_consumer c[7] = {0};

	bed_init(&b, NULL);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	for (int i = 6; i >= 0;
	     i--) /* GP keys first: they must not take what only others can use */
		cr_assert_eq(vpmu_consumer_add(&c[i], b.vcpu[0], vpmu_key_generic(events[i], GUEST),
					       b.p[0]),
			     0);
	for (int t = 0; t < 20; t++) {
		bed_run(&b, 0, 10);
		vpmu_pcpu_tick(b.p[0]);
	}
	for (int i = 0; i < 7; i++) {
		struct vpmu_value v = bed_read(&c[i]);

		cr_assert_eq(v.count, 200);
		cr_assert_eq(v.running_ns, v.enabled_ns);
		vpmu_consumer_del(&c[i], b.p[0], NULL);
	}
}

/* cycles sits on a GP counter while fixed ones are taken by others' keys; when a GP key comes, it
 * moves rather than make that one wait. */
Test(rotate, fixed_counters_are_preferred_and_moved_to)
{
	struct vpmu_emupmu_opts opts = {.gp = 1, .fixed = 2, .no_default = true};
	struct vpmu_consumer usr = {0}, all = {0}, loads = {0};

	bed_init(&b, &opts);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(vpmu_consumer_add(&usr, b.vcpu[0],
				       vpmu_key_generic(VPMU_EV_CYCLES, VPMU_KEY_USR), b.p[0]),
		     0);
	cr_assert(b.pmu[0].ctr[2].bound, "the fixed counter first");
	cr_assert_eq(vpmu_consumer_add(&all, b.vcpu[0], CYCLES, b.p[0]), 0);
	cr_assert(b.pmu[0].ctr[0].bound);
	vpmu_consumer_del(&usr, b.p[0], NULL);
	cr_assert_eq(vpmu_consumer_add(&loads, b.vcpu[0], LOADS, b.p[0]), 0);
	bed_run(&b, 0, 10);
	vpmu_pcpu_flush(b.p[0]);
	bed_run(&b, 0, 10);
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(bed_read(&all).running_ns, bed_read(&all).enabled_ns);
	cr_assert_eq(bed_read(&loads).running_ns, 20);
	vpmu_consumer_del(&all, b.p[0], NULL);
	vpmu_consumer_del(&loads, b.p[0], NULL);
}

/* Counters of keys that only others use go to the running account. */
Test(rotate, unused_counters_are_taken)
{
	struct vpmu_emupmu_opts opts = {.gp = 1, .no_default = true};
	struct vpmu_consumer a = {0}, c = {0};

	bed_init(&b, &opts);
	cr_assert_eq(vpmu_consumer_add(&a, b.vcpu[0], LOADS, b.p[0]), 0);
	cr_assert_eq(vpmu_consumer_add(&c, b.vcpu[2], BRANCHES, b.p[0]), 0);
	for (int i = 0; i < 10; i++) {
		bed_vcpu(&b, 0, 10);
		bed_vcpu(&b, 2, 1);
	}
	cr_assert_eq(bed_read(&a).count, 100);
	cr_assert_eq(bed_read(&c).count, 10);
	cr_assert_eq(bed_read(&c).running_ns, bed_read(&c).enabled_ns);
	bed_conserved(&b);
	vpmu_consumer_del(&a, b.p[0], NULL);
	vpmu_consumer_del(&c, b.p[0], NULL);
}

Test(rotate, scaling)
{
	struct vpmu_value v = {.count = 100, .enabled_ns = 400, .running_ns = 100};

	bed_init(&b, NULL);
	cr_assert_eq(vpmu_value_scaled(&v), 400);
	v.running_ns = 0;
	cr_assert_eq(vpmu_value_scaled(&v), 0, "never ran: nothing is made up");
	v = (struct vpmu_value){.count = 5};
	cr_assert_eq(vpmu_value_scaled(&v), 5);
	v = (struct vpmu_value){.count = UINT64_MAX, .enabled_ns = 3, .running_ns = 1};
	cr_assert_eq(vpmu_value_scaled(&v), UINT64_MAX, "saturates");
	v = (struct vpmu_value){.count = 7, .enabled_ns = 9, .running_ns = 9};
	cr_assert_eq(vpmu_value_scaled(&v), 7);
}

/* ---- limits of refusals and turns ---- */

/* One counter. The key that is refused does not keep it from the other one. */
Test(rotate, a_refused_bind_keeps_no_counter)
{
	struct vpmu_emupmu_opts opts = {.gp = 1, .no_default = true};
	struct vpmu_consumer c[2] = {0};

	bed_init(&b, &opts);
	refuse(LOADS);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(vpmu_consumer_add(&c[0], b.vcpu[0], LOADS, b.p[0]), 0);
	cr_assert_eq(refusals, 1);
	cr_assert_eq(vpmu_consumer_add(&c[1], b.vcpu[0], INSNS, b.p[0]), 0);
	bed_run(&b, 0, 100);
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(bed_read(&c[1]).running_ns, 100, "the only counter is free");
	cr_assert_eq(bed_read(&c[0]).running_ns, 0);
	for (int i = 0; i < 2; i++)
		vpmu_consumer_del(&c[i], b.p[0], NULL);
}

static unsigned int binds;

static int counting_bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	binds++;
	return emu_ops->bind(pmu, ctr, key);
}

/* Three keys on one counter: at each tick it goes to one of those that wait, which keeps it. */
Test(rotate, who_just_got_a_counter_keeps_it)
{
	static struct vpmu_hostpmu_ops ops;
	struct vpmu_emupmu_opts opts = {.gp = 1, .no_default = true};
	struct vpmu_consumer c[3] = {0};

	bed_init(&b, &opts);
	emu_ops = b.pmu[0].pmu.ops;
	ops = *emu_ops;
	ops.bind = counting_bind;
	b.pmu[0].pmu.ops = &ops;
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(vpmu_consumer_add(&c[i], b.vcpu[0], vpmu_key_generic(events[i], GUEST),
					       b.p[0]),
			     0);
	for (int t = 0; t < 300; t++) {
		binds = 0;
		vpmu_pcpu_tick(b.p[0]);
		cr_assert_eq(binds, 1, "tick %d: %u binds", t, binds);
		bed_run(&b, 0, 10);
	}
	vpmu_pcpu_flush(b.p[0]);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(bed_read(&c[i]).running_ns, 1000);
		vpmu_consumer_del(&c[i], b.p[0], NULL);
	}
}
