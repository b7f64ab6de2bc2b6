// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pools of bindings. A binding that is replaced may still be read by someone; it comes back to its
 * pool a grace period later, in batches, so that a counter that is switched on and off allocates
 * nothing once the pool is warm. A pool belongs to one thread at a time; only the call_rcu thread
 * touches it besides, through one lock-free list.
 */
#include <stdlib.h>

#include "vpmu/internal.h"

#define BATCH 256

/* Bindings that wait in a pool for their owner: enough (some 2 MiB) for one that switches counters
 * all the time. Where vCPUs start counters on one pCPU and stop them on another, the one pool only
 * gives and the other only gets: what is beyond this is freed. */
#define RETURNED_MAX (64 * BATCH)

struct vpmu_pool {
	struct vpmu_binding *free;
	struct vpmu_binding *retired;
	unsigned int nr_retired;
	struct vpmu_binding *returned; /* pushed by call_rcu, taken whole by the owner */
	unsigned int nr_returned;      /* about so many: see pool_alloc */
	unsigned int refs;	       /* the owner, and each batch under way */
};

struct batch {
	struct rcu_head rcu;
	struct vpmu_pool *pool;
	struct vpmu_binding *first, *last;
	unsigned int nr;
};

struct vpmu_pool *pool_create(void)
{
	struct vpmu_pool *pool = calloc(1, sizeof(*pool));

	if (pool)
		pool->refs = 1;
	return pool;
}

static void free_list(struct vpmu_binding *b)
{
	while (b) {
		struct vpmu_binding *next = b->next;

		free(b);
		b = next;
	}
}

static void pool_unref(struct vpmu_pool *pool)
{
	if (__atomic_sub_fetch(&pool->refs, 1, __ATOMIC_ACQ_REL) == 0) {
		free_list(pool->free);
		free_list(pool->returned);
		free(pool);
	}
}

static void batch_done(struct rcu_head *head)
{
	struct batch *batch = caa_container_of(head, struct batch, rcu);
	struct vpmu_pool *pool = batch->pool;
	struct vpmu_binding *old = load_relaxed(&pool->returned);

	if (load_relaxed(&pool->nr_returned) >= RETURNED_MAX) {
		free_list(batch->first);
		free(batch);
		pool_unref(pool);
		return;
	}
	__atomic_add_fetch(&pool->nr_returned, batch->nr, __ATOMIC_RELAXED);
	/* Release: pairs with the owner's exchange, which then reads the bindings. */
	do {
		batch->last->next = old;
	} while (!__atomic_compare_exchange_n(&pool->returned, &old, batch->first, true,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	free(batch);
	pool_unref(pool);
}

static void send_batch(struct vpmu_pool *pool)
{
	struct batch *batch = malloc(sizeof(*batch));

	if (!batch)
		return; /* the list just grows until memory comes back */
	batch->pool = pool;
	batch->first = pool->retired;
	batch->last = pool->retired;
	while (batch->last->next)
		batch->last = batch->last->next;
	batch->nr = pool->nr_retired;
	pool->retired = NULL;
	pool->nr_retired = 0;
	__atomic_add_fetch(&pool->refs, 1, __ATOMIC_RELAXED);
	urcu_memb_call_rcu(&batch->rcu, batch_done);
}

void pool_put(struct vpmu_pool *pool)
{
	if (!pool)
		return;
	if (pool->retired)
		send_batch(pool);
	if (pool->retired) {
		/* No memory for a batch: wait for the grace period here instead. */
		urcu_memb_synchronize_rcu();
		free_list(pool->retired);
	}
	pool_unref(pool);
}

struct vpmu_binding *pool_alloc(struct vpmu_pool *pool)
{
	struct vpmu_binding *b;

	if (!pool->free) {
		/* The number first: a batch that comes in between is counted although it is taken,
		 * and the next one is freed a little early. */
		store_relaxed(&pool->nr_returned, 0);
		pool->free = __atomic_exchange_n(&pool->returned, NULL, __ATOMIC_ACQUIRE);
	}
	b = pool->free;
	if (b) {
		pool->free = b->next;
		return b;
	}
	return malloc(sizeof(*b));
}

void pool_release(struct vpmu_pool *pool, struct vpmu_binding *b)
{
	if (!b)
		return;
	b->next = pool->free;
	pool->free = b;
}

void pool_retire(struct vpmu_pool *pool, struct vpmu_binding *b)
{
	if (!b)
		return;
	b->next = pool->retired;
	pool->retired = b;
	if (++pool->nr_retired >= BATCH)
		send_batch(pool);
}
