// SPDX-License-Identifier: GPL-2.0-or-later
/* Slots: shared by equal keys, kept for who comes back, used again when the table is full. */
#include <errno.h>

#include "core_bed.h"
#include "vpmu/charge.h"

static struct bed b;

static void setup(void)
{
	bed_init(&b, NULL);
}

static void teardown(void)
{
	bed_fini(&b);
}

TestSuite(slots, .init = setup, .fini = teardown);

/* As many distinct keys as wanted: raw ones, which take a slot though no soft PMU counts them. */
static vpmu_key_t nth_key(unsigned int n)
{
	return vpmu_key_make(VPMU_SPACE_INTEL, 0xb7, VPMU_KEY_USR | VPMU_KEY_GUEST) |
	       (vpmu_key_t)n << VPMU_KEY_UMASK_SHIFT;
}

Test(slots, equal_keys_share)
{
	struct vpmu_consumer c[3] = {0};
	struct vpmu_sharing s;

	cr_assert_eq(vpmu_consumer_add(&c[0], b.vcpu[0], INSNS, b.p[0]), 0);
	cr_assert_eq(vpmu_consumer_add(&c[1], b.tenant, INSNS, NULL), 0);
	cr_assert_eq(vpmu_consumer_add(&c[2], b.tenant,
				       vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR), NULL),
		     0);
	vpmu_host_sharing(b.host, &s);
	cr_assert_eq(s.consumers, 3);
	cr_assert_eq(s.keys, 2, "user only is another event");
	vpmu_consumer_disable(&c[1], NULL);
	vpmu_host_sharing(b.host, &s);
	cr_assert_eq(s.consumers, 2, "disabled consumers use nothing");
	vpmu_consumer_del(&c[0], b.p[0], NULL);
	vpmu_consumer_del(&c[1], NULL, NULL);
	vpmu_consumer_del(&c[2], NULL, NULL);
	vpmu_host_sharing(b.host, &s);
	cr_assert_eq(s.consumers + s.keys, 0);
}

Test(slots, no_space_and_again)
{
	struct vpmu_consumer c[VPMU_MAX_SLOTS] = {0}, more = {0};

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		cr_assert_eq(vpmu_consumer_add(&c[i], b.tenant, nth_key(i), NULL), -EOPNOTSUPP);
	cr_assert_eq(vpmu_consumer_add(&more, b.tenant, nth_key(100), NULL), -ENOSPC);
	cr_assert_eq(vpmu_consumer_add(&more, b.vcpu[0], INSNS, b.p[0]), -ENOSPC);
	cr_assert_eq(vpmu_consumer_add(&more, b.tenant, nth_key(63), NULL), -EOPNOTSUPP,
		     "a key in use needs no slot");
	vpmu_consumer_del(&more, NULL, NULL);
	vpmu_consumer_disable(&c[5], NULL);
	cr_assert_eq(vpmu_consumer_add(&more, b.vcpu[0], INSNS, b.p[0]), 0, "a slot came free");
	cr_assert_eq(vpmu_consumer_enable(&c[5], NULL), -ENOSPC);
	bed_vcpu(&b, 0, 12);
	cr_assert_eq(bed_read(&more).count, 12);
	vpmu_consumer_del(&more, b.p[0], NULL);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		vpmu_consumer_del(&c[i], NULL, NULL);
}

/* I5: a slot with another key shows nothing of what it counted before, on any pCPU. */
Test(slots, recycled_slot_shows_nothing_of_the_past)
{
	struct vpmu_consumer c[VPMU_MAX_SLOTS] = {0}, insns = {0}, branches = {0};
	unsigned int used = 0;

	cr_assert_eq(vpmu_consumer_add(&insns, b.tenant, INSNS, NULL), 0);
	bed_vcpu(&b, 0, 1000);
	bed_vcpu(&b, 1, 1000);
	bed_run(&b, 0, 500); /* still in the counter */
	for (; used < VPMU_MAX_SLOTS - 1; used++)
		cr_assert_eq(vpmu_consumer_add(&c[used], b.tenant, nth_key(used), NULL),
			     -EOPNOTSUPP);
	vpmu_consumer_del(&insns, NULL, NULL);
	/* Only the slot of INSNS is free. */
	cr_assert_eq(vpmu_consumer_add(&branches, b.vcpu[0], BRANCHES, b.p[0]), 0);
	cr_assert_eq(bed_read(&branches).count, 0);
	bed_run(&b, 0, 30);
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(bed_read(&branches).count, 30);
	cr_assert_eq(bed_read(&branches).running_ns, 30);
	/* pCPU 1 still has the counter of the old key: the vCPU moves there. */
	vpmu_pcpu_switch(b.p[0], NULL);
	cr_assert_eq(vpmu_context_place(&b.ctx[0], b.p[1]), 0);
	bed_run(&b, 1, 200);
	vpmu_pcpu_switch(b.p[1], &b.ctx[0]);
	bed_run(&b, 1, 4);
	vpmu_pcpu_flush(b.p[1]);
	cr_assert_eq(bed_read(&branches).count, 34);
	cr_assert_eq(bed_read(&branches).running_ns, 34);
	bed_conserved(&b);
	vpmu_consumer_del(&branches, b.p[1], NULL);
	while (used)
		vpmu_consumer_del(&c[--used], NULL, NULL);
	vpmu_pcpu_switch(b.p[1], NULL);
}

Test(slots, thousands_of_keys_over_time)
{
	for (unsigned int i = 0; i < 2000; i++) {
		struct vpmu_consumer c = {0}, insns = {0};

		cr_assert_eq(vpmu_consumer_add(&c, b.tenant, nth_key(i & 0xff), NULL), -EOPNOTSUPP);
		cr_assert_eq(vpmu_consumer_add(&insns, b.vcpu[0], i & 1 ? INSNS : LOADS, b.p[0]),
			     0);
		bed_vcpu(&b, 0, i);
		cr_assert_eq(bed_read(&insns).count, i);
		vpmu_consumer_del(&insns, b.p[0], NULL);
		vpmu_consumer_del(&c, NULL, NULL);
	}
	bed_conserved(&b);
}
