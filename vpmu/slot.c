// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The slot table of a host: which slot stands for which key, and how many consumers use it.
 * Consumers (consumer.c) take and put slots here, also on the owner's side while a guest enables
 * counters.
 *
 * The table is preallocated and nobody owns a slot, so nothing has to be handed over when a
 * consumer leaves. A slot whose last consumer left keeps its key until the table is full. So using
 * a key again is as cheap as sharing it.
 */
#include <errno.h>

#include "vpmu/internal.h"

static unsigned int key_hash(vpmu_key_t key)
{
	return (unsigned int)((key * 0x9e3779b97f4a7c15ULL) >> 56) & (VPMU_SLOT_HASH - 1);
}

/* Add a user to @slot, if it has some and still stands for @key. */
static bool slot_share(struct vpmu_slot *slot, vpmu_key_t key)
{
	unsigned int refs = load_relaxed(&slot->refs);

	do {
		if (refs == 0)
			return false;
	} while (!__atomic_compare_exchange_n(&slot->refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE,
					      __ATOMIC_RELAXED));
	/* The key changes only while refs is 0, so from here on it does not. */
	if (load_relaxed(&slot->key) == key)
		return true;
	__atomic_sub_fetch(&slot->refs, 1, __ATOMIC_RELEASE);
	return false;
}

static int slot_get_slow(struct vpmu_host *host, vpmu_key_t key)
{
	int slot = -ENOSPC;

	pthread_mutex_lock(&host->slots_lock);
	for (int i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (host->slot[i].key == key) {
			slot = i;
			break;
		}
	}
	/* A slot that was never used, rather than one that has no users now. */
	for (int i = 0; slot < 0 && i < VPMU_MAX_SLOTS; i++) {
		if (host->slot[i].key == 0)
			slot = i;
	}
	for (int i = 0; slot < 0 && i < VPMU_MAX_SLOTS; i++) {
		if (load_acquire(&host->slot[i].refs) == 0)
			slot = i;
	}
	if (slot >= 0) {
		if (host->slot[slot].key != key) {
			store_relaxed(&host->slot[slot].quality, 0);
			store_relaxed(&host->slot[slot].key, key);
			/* These releases pair with the acquires in context_update and revalidate
			 * (pcpu.c): a pCPU that knows the slot by its old key looks again before it
			 * sees the slot in anybody's keys. */
			__atomic_add_fetch(&host->slots_gen, 1, __ATOMIC_RELEASE);
			__atomic_add_fetch(&host->tree_gen, 1, __ATOMIC_RELEASE);
		}
		/* The release pairs with the acquire in slot_share, which reads the key next. */
		__atomic_add_fetch(&host->slot[slot].refs, 1, __ATOMIC_RELEASE);
		store_relaxed(&host->hash[key_hash(key)], (uint8_t)(slot + 1));
	}
	pthread_mutex_unlock(&host->slots_lock);
	return slot;
}

int slot_get(struct vpmu_host *host, vpmu_key_t key)
{
	int slot = (int)load_relaxed(&host->hash[key_hash(key)]) - 1;

	if (slot >= 0 && slot_share(&host->slot[slot], key))
		return slot;
	/* The hint of another key with the same hash: look at all slots before taking the lock. */
	for (slot = 0; slot < VPMU_MAX_SLOTS; slot++) {
		if (load_relaxed(&host->slot[slot].key) == key &&
		    slot_share(&host->slot[slot], key))
			return slot;
	}
	return slot_get_slow(host, key);
}

void slot_put(struct vpmu_host *host, int slot)
{
	__atomic_sub_fetch(&host->slot[slot].refs, 1, __ATOMIC_RELEASE);
}
