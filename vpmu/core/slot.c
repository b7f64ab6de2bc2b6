// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The slot table of a host: the key of each slot and its number of users. Consumers (consumer.c)
 * get and put slots, also on the owner's side when a guest enables counters.
 *
 * The table is preallocated and a slot has no owner, so nothing is handed over when a consumer
 * leaves. A slot without users keeps its key until the table is full; using the key again is then
 * as cheap as sharing it. Quotas of VMs and tenants (quota.h) work alike: a slot stays held until
 * the quota is full.
 */
#include <errno.h>

#include "vpmu/core/internal.h"

static unsigned int key_hash(vpmu_key_t key)
{
	return (unsigned int)((key * 0x9e3779b97f4a7c15ULL) >> 56) & (VPMU_SLOT_HASH - 1);
}

/* Add a user to @slot if it has users and its key is @key. The acquire pairs with the release of
 * refs in slot_get_slow. */
static bool slot_share(struct vpmu_slot *slot, vpmu_key_t key)
{
	unsigned int refs = load_relaxed(&slot->refs);

	do {
		if (refs == 0)
			return false;
	} while (!__atomic_compare_exchange_n(&slot->refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE,
					      __ATOMIC_RELAXED));
	/* The key changes only while refs is 0, so it is stable from here on. */
	if (load_relaxed(&slot->key) == key)
		return true;
	__atomic_sub_fetch(&slot->refs, 1, __ATOMIC_RELEASE);
	return false;
}

/* ---- quotas ---- */

/* Drop one counter on @slot, for @q and its parents below @end. */
static void quota_put(struct vpmu_quota *q, const struct vpmu_quota *end, int slot)
{
	for (; q != end; q = q->parent)
		__atomic_sub_fetch(&q->refs[slot], 1, __ATOMIC_RELEASE);
}

/*
 * Add a counter on @slot if the slot is held already. No lock: this increments refs before it reads
 * held, and quota_reclaim clears held before it reads refs (all seq_cst), so at least one of the
 * two sees the other.
 */
static bool quota_share_one(struct vpmu_quota *q, int slot)
{
	__atomic_add_fetch(&q->refs[slot], 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&q->held, __ATOMIC_SEQ_CST) & VPMU_BIT(slot))
		return true;
	__atomic_sub_fetch(&q->refs[slot], 1, __ATOMIC_RELEASE);
	return false;
}

/* Call @one for @q and all of its parents, or for none of them. */
static bool quota_all(struct vpmu_quota *q, int slot, bool (*one)(struct vpmu_quota *q, int slot))
{
	for (struct vpmu_quota *at = q; at; at = at->parent) {
		if (!one(at, slot)) {
			quota_put(q, at, slot);
			return false;
		}
	}
	return true;
}

/* Release the held slots that have no counters now. A vCPU that finds its slot not held in between
 * takes slots_lock and then finds it held again. Pairs with quota_share_one. Under slots_lock. */
static void quota_reclaim(struct vpmu_quota *q)
{
	uint64_t held = q->held;
	unsigned int s;

	vpmu_for_each_slot (s, held) {
		__atomic_and_fetch(&q->held, ~VPMU_BIT(s), __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&q->refs[s], __ATOMIC_SEQ_CST))
			__atomic_or_fetch(&q->held, VPMU_BIT(s), __ATOMIC_SEQ_CST);
	}
}

static bool quota_full(const struct vpmu_quota *q)
{
	unsigned int max = load_relaxed(&q->max);

	return max && (unsigned int)__builtin_popcountll(q->held) >= max;
}

/* As quota_share_one, and hold the slot if max allows. Slots newly held below the one that refused
 * are unused and can be reclaimed. Under slots_lock. */
static bool quota_take_one(struct vpmu_quota *q, int slot)
{
	if (quota_share_one(q, slot))
		return true;
	if (quota_full(q))
		quota_reclaim(q);
	if (quota_full(q))
		return false;
	__atomic_or_fetch(&q->held, VPMU_BIT(slot), __ATOMIC_SEQ_CST);
	return quota_share_one(q, slot);
}

/* True if guests may take one more slot for @key. Under slots_lock. */
static bool guest_room(const struct vpmu_host *host, vpmu_key_t key)
{
	unsigned int room = VPMU_MAX_SLOTS - VPMU_SLOTS_OPERATORS, used = 0;

	if (vpmu_key_space(key) != VPMU_SPACE_GENERIC)
		room -= VPMU_SLOTS_GENERIC;
	for (int i = 0; i < VPMU_MAX_SLOTS; i++)
		used += load_relaxed(&host->slot[i].refs) != 0;
	return used < room;
}

static int slot_refuse(struct vpmu_host *host, struct vpmu_quota *q, int ret)
{
	if (q)
		__atomic_add_fetch(&q->refused, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&host->refused, 1, __ATOMIC_RELAXED);
	return ret;
}

/* ---- slots ---- */

static int slot_get_slow(struct vpmu_host *host, vpmu_key_t key, struct vpmu_quota *q)
{
	int slot = -ENOSPC, hint;

	pthread_mutex_lock(&host->slots_lock);
	hint = (int)load_relaxed(&host->hash[key_hash(key)]) - 1;
	if (hint >= 0 && host->slot[hint].key == key)
		slot = hint;
	for (int i = 0; slot < 0 && i < VPMU_MAX_SLOTS; i++) {
		if (host->slot[i].key == key) {
			slot = i;
			break;
		}
	}
	/* Prefer a slot that was never used to one without users. */
	for (int i = 0; slot < 0 && i < VPMU_MAX_SLOTS; i++) {
		if (host->slot[i].key == 0)
			slot = i;
	}
	for (int i = 0; slot < 0 && i < VPMU_MAX_SLOTS; i++) {
		if (load_acquire(&host->slot[i].refs) == 0)
			slot = i;
	}
	/* Check before the slot gets a new key, which affects every pCPU. */
	if (slot >= 0 && q && !load_acquire(&host->slot[slot].refs) && !guest_room(host, key))
		slot = -ENOSPC;
	else if (slot >= 0 && q && !quota_all(q, slot, quota_take_one))
		slot = -EDQUOT;
	if (slot >= 0) {
		if (host->slot[slot].key != key) {
			store_relaxed(&host->slot[slot].quality, 0);
			store_relaxed(&host->slot[slot].key, key);
			/* These releases pair with the acquires in context_update and revalidate
			 * (pcpu.c): a pCPU with the slot's old key reloads it before it sees the
			 * slot in an account's keys. */
			__atomic_add_fetch(&host->slots_gen, 1, __ATOMIC_RELEASE);
			__atomic_add_fetch(&host->tree_gen, 1, __ATOMIC_RELEASE);
		}
		/* The release pairs with the acquire in slot_share, which reads the key next. */
		__atomic_add_fetch(&host->slot[slot].refs, 1, __ATOMIC_RELEASE);
		store_relaxed(&host->hash[key_hash(key)], (uint8_t)(slot + 1));
	}
	pthread_mutex_unlock(&host->slots_lock);
	return slot >= 0 ? slot : slot_refuse(host, q, slot);
}

/* Share a slot in use for @key. Returns -1 if there is none. No lock. */
static int find_shared(struct vpmu_host *host, vpmu_key_t key)
{
	int slot = (int)load_relaxed(&host->hash[key_hash(key)]) - 1;

	if (slot >= 0 && slot_share(&host->slot[slot], key))
		return slot;
	/* A key has one slot: this one is its, and nobody uses it at present. */
	if (slot >= 0 && load_relaxed(&host->slot[slot].key) == key)
		return -1;
	/* The hint is for another key with the same hash: try all slots before taking the lock. */
	for (slot = 0; slot < VPMU_MAX_SLOTS; slot++) {
		if (load_relaxed(&host->slot[slot].key) == key &&
		    slot_share(&host->slot[slot], key))
			return slot;
	}
	return -1;
}

int slot_get(struct vpmu_host *host, vpmu_key_t key, struct vpmu_quota *q)
{
	int slot = find_shared(host, key);
	bool ok;

	if (slot < 0)
		return slot_get_slow(host, key, q);
	if (!q || quota_all(q, slot, quota_share_one))
		return slot;
	pthread_mutex_lock(&host->slots_lock);
	ok = quota_all(q, slot, quota_take_one);
	pthread_mutex_unlock(&host->slots_lock);
	if (ok)
		return slot;
	slot_put(host, slot, NULL);
	return slot_refuse(host, q, -EDQUOT);
}

void slot_put(struct vpmu_host *host, int slot, struct vpmu_quota *q)
{
	quota_put(q, NULL, slot);
	__atomic_sub_fetch(&host->slot[slot].refs, 1, __ATOMIC_RELEASE);
}
