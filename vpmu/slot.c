// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The slot table of a host: key -> slot, refcounted. A preallocated table: nobody owns a slot, so
 * there is no master to hand over when a consumer leaves. Slots whose last consumer left keep
 * their key until the table is full, so that coming back is as cheap as sharing.
 */
#include <errno.h>

#include "vpmu/internal.h"

static unsigned int key_hash(vpmu_key_t key)
{
	return (unsigned int)((key * 0x9e3779b97f4a7c15ULL) >> 56) & (VPMU_SLOT_HASH - 1);
}

/* One more user of @slot if it has some and still means @key. */
static bool slot_share(struct vpmu_slot *slot, vpmu_key_t key)
{
	unsigned int refs = load_relaxed(&slot->refs);

	do {
		if (refs == 0)
			return false;
	} while (!__atomic_compare_exchange_n(&slot->refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE,
					      __ATOMIC_RELAXED));
	/* The key changes only while refs is 0, so now it is stable. */
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
	/* A slot never used before one that only nobody uses now. */
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
			/* pCPUs that know the slot by its old key must look again before they
			 * see it in anyone's keys (context_update in pcpu.c). */
			__atomic_add_fetch(&host->slots_gen, 1, __ATOMIC_RELEASE);
			__atomic_add_fetch(&host->tree_gen, 1, __ATOMIC_RELEASE);
		}
		/* Release: pairs with the acquire in slot_share, which then reads the key. */
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
	/* Colliding hints: look at all before taking the lock. */
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
