// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The arithmetic of share.h. Changes take one lock for all shares; they are rare (a VM starts, a
 * vCPU ends). share_rate() takes no lock: the scheduler calls it again when the generation changes.
 */
#include <pthread.h>

#include "vmm/vm/share.h"

/* Virtual time for each unit of effort of the only vCPU of a VM of weight 100. Large, so that
 * rounding loses little. */
#define UNIT 65536.0

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t generation = 1;

void share_init(struct share *s, struct share *parent, uint32_t weight)
{
	s->parent = parent;
	atomic_init(&s->weight, weight);
	atomic_init(&s->active, 0);
}

static uint64_t active(const struct share *s)
{
	return atomic_load_explicit(&s->active, memory_order_relaxed);
}

/* Add @by, which may be negative, to the competing weight below @s. A share without competing
 * children does not compete itself. */
static void share_add(struct share *s, int64_t by)
{
	for (; s; s = s->parent) {
		uint64_t before = active(s), now = before + (uint64_t)by;

		atomic_store_explicit(&s->active, now, memory_order_relaxed);
		if (!before == !now)
			break;
		by = now ? share_weight(s) : -(int64_t)share_weight(s);
	}
	/* Release: pairs with the acquire in shares_generation(). */
	atomic_fetch_add_explicit(&generation, 1, memory_order_release);
}

void share_set_weight(struct share *s, uint32_t weight)
{
	int64_t by;

	pthread_mutex_lock(&lock);
	by = (int64_t)weight - share_weight(s);
	atomic_store_explicit(&s->weight, weight, memory_order_relaxed);
	if (active(s) && by)
		share_add(s->parent, by);
	/* Release: as in share_add(), which may not have been called. */
	atomic_fetch_add_explicit(&generation, 1, memory_order_release);
	pthread_mutex_unlock(&lock);
}

void share_enter(struct share *s)
{
	pthread_mutex_lock(&lock);
	share_add(s, SHARE_WEIGHT_DEFAULT);
	pthread_mutex_unlock(&lock);
}

void share_leave(struct share *s)
{
	pthread_mutex_lock(&lock);
	share_add(s, -(int64_t)SHARE_WEIGHT_DEFAULT);
	pthread_mutex_unlock(&lock);
}

double share_rate(const struct share *s)
{
	double rate = UNIT * SHARE_WEIGHT_DEFAULT;
	uint32_t weight = SHARE_WEIGHT_DEFAULT;

	for (; s; s = s->parent) {
		uint64_t all = active(s);

		rate *= all > weight ? (double)all / weight : 1; /* others may just have left */
		weight = share_weight(s);
	}
	return rate / weight;
}

uint64_t shares_generation(void)
{
	/* Acquire: a reader of the new generation sees the new weights. */
	return atomic_load_explicit(&generation, memory_order_acquire);
}
