// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pools of bindings, for consumer.c: each pCPU has one for local calls, the host one for control
 * calls.
 *
 * A binding that was replaced can still have readers. It comes back to a pool a grace period later,
 * in batches, so that switching a counter on and off needs little new memory. A pool belongs to one
 * thread at a time. The call_rcu thread touches nothing of it but the list "returned", which is
 * lock-free.
 */
#include <stdlib.h>

#include "vpmu/internal.h"

#define BATCH 256

/*
 * At most about so many returned bindings wait in a pool (some 2 MiB); more are freed. That is
 * enough for an owner that switches counters all the time. Without a limit a pool could grow for
 * ever: when vCPUs start counters on one pCPU and stop them on another, bindings come from the one
 * pool and go to the other.
 */
#define RETURNED_MAX (64 * BATCH)

struct vpmu_pool {
	struct vpmu_binding *free;
	struct vpmu_binding *retired;
	unsigned int nr_retired;
	struct vpmu_binding *returned; /* the call_rcu thread pushes, the owner takes all at once */
	unsigned int nr_returned;      /* about the length of returned: see pool_alloc */
	unsigned int refs;	       /* 1 for the owner, 1 for each batch under way */
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
	/* The release pairs with the acquire exchange in pool_alloc, after which the owner reads
	 * the bindings. */
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
		return; /* no memory: the list grows, and the next call tries again */
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
		/* No memory for a batch: wait for the grace period here. */
		urcu_memb_synchronize_rcu();
		free_list(pool->retired);
	}
	pool_unref(pool);
}

struct vpmu_binding *pool_alloc(struct vpmu_pool *pool)
{
	struct vpmu_binding *b;

	if (!pool->free) {
		/* The number before the list: a batch that comes in between is counted although it
		 * is taken, so a later batch is freed a little early. That is harmless. */
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
