// SPDX-License-Identifier: GPL-2.0-or-later
/* More keys than counters: their assignment, its duration, and the values' quality. */
#include "core_bed.h"

TestSuite(rotate, .fini = bed_teardown);

static const enum vpmu_generic events[] = {
	VPMU_EV_INSTRUCTIONS,	VPMU_EV_CYCLES, VPMU_EV_REF_CYCLES, VPMU_EV_BRANCHES,
	VPMU_EV_BRANCHES_TAKEN, VPMU_EV_LOADS,	VPMU_EV_STORES};

/* 8 keys on 4 + 3: those of fixed counters stay, the 5 others share 4. */
Test(rotate, eight_keys_on_seven_counters)
{
	struct vpmu_consumer *c[8];
	uint64_t total = 0;

	bed_begin(NULL);
	for (int i = 0; i < 8; i++)
		c[i] = bed_own(&b, 0,
			       i < 7 ? vpmu_key_generic(events[i], GUEST)
				     : vpmu_key_generic(VPMU_EV_BRANCHES, VPMU_KEY_USR));
	for (int t = 0; t < 500; t++) {
		bed_run(&b, 0, 100);
		total += 100;
		vpmu_pcpu_tick(b.p[0]);
	}
	cr_assert_eq(bed_sharing(&b).host_counters, 7);
	for (int i = 0; i < 8; i++) {
		struct vpmu_value v = bed_read(c[i]);

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

static void bind_by(int (*bind)(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key))
{
	static struct vpmu_hostpmu_ops ops;

	emu_ops = b.pmu[0].pmu.ops;
	ops = *emu_ops;
	ops.bind = bind;
	b.pmu[0].pmu.ops = &ops;
}

static void refuse(vpmu_key_t key)
{
	bind_by(refusing_bind);
	refused = key;
	refusals = 0;
}

/* A key that the host refuses takes nothing from those that have a counter, is not asked for at
 * each occasion, and gets its share when the host allows it. */
Test(rotate, refused)
{
	struct vpmu_emupmu_opts opts = {.gp = 4, .no_default = true};
	struct vpmu_consumer *c[5];
	uint64_t total = 0;

	bed_begin(&opts);
	refuse(STORES);
	for (int i = 0; i < 5; i++)
		c[i] = bed_own(&b, 0, vpmu_key_generic(i < 4 ? events[i] : VPMU_EV_STORES, GUEST));
	for (int t = 0; t < 500; t++) {
		bed_run(&b, 0, 50);
		vpmu_pcpu_tick(b.p[0]);
		bed_work(&b, 0, 50);
		total += 100;
	}
	for (int i = 0; i < 5; i++) {
		struct vpmu_value v = bed_read(c[i]);

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
		cr_assert_gt(bed_read(c[i]).running_ns, total + 100 * 5000 / 2 - (i == 4) * total,
			     "key %d", i);
}

/* The same when room for the key would have to be made: by moving a slot off a counter that counts
 * everything to a fixed one, which an unused slot holds. */
Test(rotate, refused_after_a_move)
{
	struct vpmu_emupmu_opts opts = {.gp = 1, .fixed = 1, .no_default = true};
	struct vpmu_consumer *user;
	struct vpmu_value v;

	bed_init(&b, &opts);
	refuse(STORES);
	/* vCPU 2 has the fixed counter, so vCPU 0's instructions of user mode get the other one. */
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	bed_own(&b, 2, INSNS);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	user = bed_own(&b, 0, vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR));
	bed_own(&b, 0, STORES);
	for (int t = 0; t < 100; t++) {
		bed_work(&b, 0, 10);
	}
	v = bed_read(user);
	cr_assert_eq(v.count, 1000);
	cr_assert_eq(v.running_ns, 1000);
	cr_assert(refusals >= 1 && refusals < 20, "%u", refusals);
}

/* Unused counters are given back by the next tick, not before, and nothing of what they
 * counted is lost. */
Test(rotate, unused)
{
	struct vpmu_consumer *a, *c;

	bed_begin(NULL);
	a = bed_own(&b, 0, INSNS);
	c = bed_own(&b, 0, LOADS);
	bed_run(&b, 0, 7);
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(bed_sharing(&b).host_counters, 2, "in use");
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(bed_sharing(&b).host_counters, 2, "in use, though not by who runs");
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(bed_end(&b, c).count, 7);
	cr_assert_eq(bed_sharing(&b).host_counters, 2, "not before a tick");
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(bed_sharing(&b).host_counters, 1);
	bed_conserved(&b);
	cr_assert_eq(bed_end(&b, a).count, 7);
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(bed_sharing(&b).host_counters, 0);
}

Test(rotate, ten_keys_on_one_counter)
{
	struct vpmu_consumer *c[10];

	bed_begin(&bed_one_counter);
	for (int i = 0; i < 10; i++)
		c[i] = bed_own(&b, 0,
			       vpmu_key_generic(events[i % 7], i < 7 ? GUEST : VPMU_KEY_USR));
	for (int t = 0; t < 100; t++) {
		bed_run(&b, 0, 50);
		vpmu_pcpu_tick(b.p[0]);
	}
	for (int i = 0; i < 10; i++)
		cr_assert_eq(bed_read(c[i]).running_ns, 500, "key %d: %lu", i,
			     bed_read(c[i]).running_ns);
}

Test(rotate, enough_counters_never_rotate)
{
	struct vpmu_consumer *c[7];

	bed_begin(NULL);
	for (int i = 6; i >= 0; i--) /* GP keys first: not on what only others can use */
		c[i] = bed_own(&b, 0, vpmu_key_generic(events[i], GUEST));
	for (int t = 0; t < 20; t++) {
		bed_run(&b, 0, 10);
		vpmu_pcpu_tick(b.p[0]);
	}
	for (int i = 0; i < 7; i++) {
		struct vpmu_value v = bed_read(c[i]);

		cr_assert_eq(v.count, 200);
		cr_assert_eq(v.running_ns, v.enabled_ns);
	}
}

/* cycles sits on a GP counter while fixed ones are taken by others' keys; when a GP key comes, it
 * moves rather than make that one wait. */
Test(rotate, fixed_counters_are_preferred_and_moved_to)
{
	struct vpmu_emupmu_opts opts = {.gp = 1, .fixed = 2, .no_default = true};
	struct vpmu_consumer *usr, *all, *loads;

	bed_begin(&opts);
	usr = bed_own(&b, 0, vpmu_key_generic(VPMU_EV_CYCLES, VPMU_KEY_USR));
	cr_assert(b.pmu[0].ctr[2].bound, "the fixed counter first");
	all = bed_own(&b, 0, CYCLES);
	cr_assert(b.pmu[0].ctr[0].bound);
	bed_end(&b, usr);
	loads = bed_own(&b, 0, LOADS);
	bed_work(&b, 0, 10);
	bed_work(&b, 0, 10);
	cr_assert_eq(bed_read(all).running_ns, bed_read(all).enabled_ns);
	cr_assert_eq(bed_read(loads).running_ns, 20);
}

/* Counters of keys that only others use go to the running account. */
Test(rotate, unused_counters_are_taken)
{
	struct vpmu_consumer *a, *c;

	bed_init(&b, &bed_one_counter);
	a = bed_own(&b, 0, LOADS);
	c = bed_own(&b, 2, BRANCHES);
	for (int i = 0; i < 10; i++) {
		bed_vcpu(&b, 0, 10);
		bed_vcpu(&b, 2, 1);
	}
	cr_assert_eq(bed_read(a).count, 100);
	cr_assert_eq(bed_read(c).count, 10);
	cr_assert_eq(bed_read(c).running_ns, bed_read(c).enabled_ns);
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
	struct vpmu_consumer *c[2];

	bed_begin(&bed_one_counter);
	refuse(LOADS);
	c[0] = bed_own(&b, 0, LOADS);
	cr_assert_eq(refusals, 1);
	c[1] = bed_own(&b, 0, INSNS);
	bed_work(&b, 0, 100);
	cr_assert_eq(bed_read(c[1]).running_ns, 100, "the only counter is free");
	cr_assert_eq(bed_read(c[0]).running_ns, 0);
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
	struct vpmu_consumer *c[3];

	bed_begin(&bed_one_counter);
	bind_by(counting_bind);
	for (int i = 0; i < 3; i++)
		c[i] = bed_own(&b, 0, vpmu_key_generic(events[i], GUEST));
	for (int t = 0; t < 300; t++) {
		binds = 0;
		vpmu_pcpu_tick(b.p[0]);
		cr_assert_eq(binds, 1, "tick %d: %u binds", t, binds);
		bed_run(&b, 0, 10);
	}
	vpmu_pcpu_flush(b.p[0]);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(bed_read(c[i]).running_ns, 1000);
}
