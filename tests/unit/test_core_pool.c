// SPDX-License-Identifier: GPL-2.0-or-later
/* Pools of bindings: what comes back is used again, and what nobody uses does not pile up. */
#include <criterion/criterion.h>
#include <malloc.h>

#include "vpmu/internal.h"

/* vCPUs that start counters on one pCPU and stop them on another, for ever. */
Test(pool, one_way_traffic_is_bounded)
{
	struct vpmu_pool *gives, *gets;
	size_t before, peak = 0;

	urcu_memb_register_thread();
	gives = pool_create();
	gets = pool_create();
	cr_assert(gives && gets);
	before = mallinfo2().uordblks;
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 1000; i++)
			pool_retire(gets, pool_alloc(gives));
		urcu_memb_barrier();
		if (mallinfo2().uordblks - before > peak)
			peak = mallinfo2().uordblks - before;
	}
	/* 200,000 of them passed; a tenth may be around. */
	cr_assert_lt(peak, 20000 * (sizeof(struct vpmu_binding) + 16), "%zu bytes", peak);
	pool_put(gives);
	pool_put(gets);
	urcu_memb_barrier();
	urcu_memb_unregister_thread();
}

Test(pool, a_warm_pool_allocates_nothing)
{
	struct vpmu_pool *pool;
	size_t warm;

	urcu_memb_register_thread();
	pool = pool_create();
	for (int i = 0; i < 4000; i++)
		pool_retire(pool, pool_alloc(pool));
	urcu_memb_barrier();
	warm = mallinfo2().uordblks;
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < 500; i++)
			pool_retire(pool, pool_alloc(pool));
		urcu_memb_barrier();
	}
	cr_assert_leq(mallinfo2().uordblks, warm + 64 * 1024);
	pool_put(pool);
	urcu_memb_barrier();
	urcu_memb_unregister_thread();
}
