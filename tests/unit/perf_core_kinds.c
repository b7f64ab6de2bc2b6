// SPDX-License-Identifier: GPL-2.0-or-later
/* As test_perf_core, of which this is a part: several kinds of core, guest and host, a guest that
 * selects events all the time. */
#include "perf_count_bed.h"

TestSuite(perf_core_kinds, .init = setup, .fini = end_last);

Test(perf_core_kinds, one_event_for_each_kind_of_core)
{
	struct vpmu_consumer *both, *raw;
	struct vpmu_value v;

	fake.kinds = 2;
	begin(&b, 2, false);
	both = count(&b, BRANCHES);
	raw = count(&b, fake_raw(0x4b0));
	for (unsigned int i = 0; i < 20; i++) {
		fake.core = i % 4 == 3;
		fake_run(20 * MS);
		vpmu_pcpu_tick(b.k.pcpu);
	}
	v = read_now(&b, both);
	cr_expect(exact(&v) && v.count == 400000 && about(v.running_ns, v.enabled_ns), "%lu: %lu",
		  v.count, v.running_ns);
	/* A raw code has no meaning on the other kind of core, and its readers see that. */
	v = read_now(&b, raw);
	cr_expect(v.count == 300000 && share(&v) >= 73 && share(&v) <= 77, "%lu: %u %%", v.count,
		  share(&v));
}

/* What does not fit the group of one kind of core must not count on the other kind alone. */
Test(perf_core_kinds, on_all_kinds_of_core_or_none)
{
	unsigned int on[2] = {0};

	fake.kinds = 2;
	begin(&b, 0, false);
	count(&b, fake_raw(0x1d0));
	count(&b, vpmu_key_generic(VPMU_EV_CACHE_MISSES, UK));
	for (unsigned int i = 0; i < 50; i++) {
		fake_run(1 * MS);
		vpmu_pcpu_tick(b.k.pcpu);
		on[0] = on[1] = 0;
		fake_for_each(e)
		{
			if (e->used && e->attr.type == PERF_TYPE_HARDWARE)
				on[fake_kind(&e->attr)]++;
		}
		cr_expect_eq(on[0], on[1]);
	}
}

Test(perf_core_kinds, a_thread_that_stays_on_the_other_kind)
{
	struct vpmu_consumer *raw[3];
	struct vpmu_value v;

	fake.kinds = 2;
	begin(&b, 0, false);
	for (unsigned int i = 0; i < 3; i++)
		raw[i] = count(&b, fake_raw(0x4b0 + i));
	for (unsigned int i = 0; i < 20; i++) {
		fake.core = 1;
		run_ticking(&b, 120, 20);
		fake.core = 0;
		fake_run(10 * MS);
	}
	for (unsigned int i = 0; i < 3; i++) {
		v = read_now(&b, raw[i]);
		cr_expect_eq(v.count, 200000, "it counts at once on its own kind: %lu", v.count);
		cr_expect(about(v.running_ns, 200 * MS) && about(v.enabled_ns, 2600 * MS));
	}
}

/* ---- guest and host ----------------------------------------------------------------------- */

Test(perf_core_kinds, guest_and_host_are_told_apart)
{
	unsigned int guests = 0, hosts = 0;

	begin(&b, 2, false);
	count(&b, BRANCHES);
	count(&b, (CYCLES & ~VPMU_KEY_GUEST) | VPMU_KEY_HOST);
	fake_run(1 * MS);
	fake_for_each(e)
	{
		if (!e->used || !fake_hardware(e))
			continue;
		cr_expect_neq(e->attr.exclude_guest, e->attr.exclude_host);
		if (e->attr.config == PERF_COUNT_HW_CPU_CYCLES) {
			cr_expect(e->attr.exclude_guest);
			hosts++;
		} else {
			cr_expect(e->attr.exclude_host);
			guests++;
		}
	}
	cr_expect(guests == 1 && hosts == 1);
}

/* ---- a guest that selects events all the time ---- */

/* The rate of opened events is limited. A key beyond it waits, which shows, and is counted later.
 */
Test(perf_core_kinds, events_are_opened_at_a_bounded_rate)
{
	struct vpmu_consumer *c;
	struct vpmu_value v;
	unsigned int before = 0;

	fake_start(4, false);
	begin(&b, 2, false);
	/* More keys than are kept open. Whether the host has them is found out once. */
	for (unsigned int round = 0; round < 20; round++) {
		if (round == 1)
			before = fake.opens;
		for (unsigned int i = 0; i < 40; i++) {
			c = &b.c[0];
			cr_assert(!vpmu_consumer_add(c, b.k.vm, fake_raw(0x4b0 + i), b.k.pcpu));
			vpmu_consumer_del(c, b.k.pcpu, NULL);
		}
	}
	cr_expect_leq(fake.opens - before, 65, "%u events were opened", fake.opens - before);
	c = count(&b, fake_raw(0x4b0 + 20));
	fake_run(5 * MS);
	v = read_now(&b, c);
	cr_expect_eq(v.count, 0);
	cr_expect_eq(v.running_ns, 0);
	cr_expect(about(v.enabled_ns, 5 * MS));
	/* The core tries a key that was refused often after 1024 occasions at the latest. */
	run_ticking(&b, 12000, 10);
	before = (unsigned int)read_now(&b, c).count;
	fake_run(5 * MS);
	v = read_now(&b, c);
	cr_expect_gt(v.count, before);
	cr_expect_lt(share(&v), 100, "%lu of %lu ns", v.running_ns, v.enabled_ns);
}

/* To find out if the host has a key takes an event, too: of keys that are always new, and of those
 * that take each other's place in the cache of answers. */
Test(perf_core_kinds, keys_are_tried_at_a_bounded_rate)
{
	struct vpmu_consumer *c = &b.c[0];
	unsigned int before;

	fake_start(4, false);
	begin(&b, 2, false);
	before = fake.opens;
	for (unsigned int i = 0; i < 4000; i++) {
		cr_assert(!vpmu_consumer_add(
			c, b.k.vm, fake_raw(0xb0 + 0x100 * (i % 200) + i / 200), b.k.pcpu));
		vpmu_consumer_del(c, b.k.pcpu, NULL);
	}
	cr_expect_leq(fake.opens - before, 65, "%u events were opened", fake.opens - before);
	/* Later it is found out what the host has. */
	fake_run(20 * MS);
	cr_expect_eq(vpmu_consumer_add(c, b.k.vm, fake_raw(0x9ee), b.k.pcpu), -EOPNOTSUPP);
	vpmu_consumer_del(c, b.k.pcpu, NULL);
}

/* ---- a key that is counted in another way than before --------------------------------------- */

static uint64_t kinds_ticks(void *arg)
{
	return fake.cpu_ns;
}

/* Ticks of the TSC must not show as the hardware's count, whenever the consumer was added. */
Test(perf_core_kinds, quality_is_that_of_the_counter)
{
	const vpmu_key_t ref = vpmu_key_generic(VPMU_EV_REF_CYCLES, UK);
	struct vpmu_consumer first = {0}, later = {0};
	struct vpmu_value v;

	fake_start(4, true);
	memset(&b, 0, sizeof(b));
	perf_core_begin(&b.k, (struct vpmu_hostpmu_perf_opts){.guest_tsc = kinds_ticks});
	fake.fail = -EACCES;
	cr_assert(!vpmu_consumer_add(&first, b.k.vm, ref, b.k.pcpu));
	fake_run(10 * MS);
	v = read_now(&b, &first);
	cr_assert(v.count >= 10 * MS && v.quality == VPMU_Q_TSC, "%lu: %d", v.count, v.quality);
	/* The right to open events comes while the TSC counts for all. */
	fake.fail = 0;
	run_ticking(&b, 2000, 10);
	cr_assert(!vpmu_consumer_add(&later, b.k.vm, ref, b.k.pcpu));
	fake_run(10 * MS);
	v = read_now(&b, &later);
	cr_expect(v.count < 10 * MS || v.quality == VPMU_Q_TSC, "%lu: %d", v.count, v.quality);
	vpmu_consumer_del(&later, b.k.pcpu, NULL);
	vpmu_consumer_del(&first, b.k.pcpu, NULL);
}
