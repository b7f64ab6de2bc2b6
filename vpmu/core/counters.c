// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Assignment of a pCPU's hardware counters to slots: binding, and multiplexing if there are too
 * few.
 *
 * pcpu.c calls this when a context uses keys without a counter, and at ticks. Everything here runs
 * on the owner of the pCPU, or on a control thread that holds pcpu->lock while the pCPU is offline.
 * Nothing here may take a lock or allocate memory, except inside the host PMU's eligible, bind and
 * unbind.
 */
#include "vpmu/core/internal.h"

/* ---- binding ---- */

/* Uses the PMU's audit operation if it has one. */
uint64_t pcpu_hw_count(struct vpmu_pcpu *p, unsigned int slot)
{
	const struct vpmu_hostpmu_ops *ops = p->pmu->ops;
	uint64_t hw = p->home->hw_past[slot];

	if (!(p->active & VPMU_BIT(slot)))
		return hw;
	if (ops->audit)
		return hw + ops->audit(p->pmu, p->ctr[slot]);
	return hw + ((ops->read(p->pmu, p->ctr[slot]) - p->bind_value[slot]) & p->pmu->width_mask);
}

/* After a refusal by the host, retry after 1, 2, 4 ... 1024 more occasions. */
#define REFUSED_SHIFT_MAX 10

/* Bind free counter @ctr to slot @s. Returns false if the host refuses. */
static bool slot_bind(struct vpmu_pcpu *p, unsigned int s, unsigned int ctr)
{
	if (p->pmu->ops->bind(p->pmu, ctr, p->key[s])) {
		p->ask_at[s] = p->occasion + 1 + (1u << p->refused[s]);
		if (p->refused[s] < REFUSED_SHIFT_MAX)
			p->refused[s]++;
		return false;
	}
	p->refused[s] = 0;
	p->ctrs_used |= 1u << ctr;
	p->ctr[s] = (uint8_t)ctr;
	p->last[s].snap = p->bind_value[s] = p->pmu->ops->read(p->pmu, ctr);
	p->gap_snap[s] = p->pmu->ops->gap_ns ? p->pmu->ops->gap_ns(p->pmu, ctr) : 0;
	if (p->pmu->word)
		p->last[s].word = p->pmu->word[ctr];
	p->since[s] = ++p->turn;
	store_relaxed(&p->active, p->active | VPMU_BIT(s));
	store_relaxed(&p->state, p->state + VPMU_CELL_BIND);
	return true;
}

void slot_unbind(struct vpmu_pcpu *p, unsigned int s)
{
	pcpu_charge_slots(p, VPMU_BIT(s));
	p->home->hw_past[s] = pcpu_hw_count(p, s);
	p->pmu->ops->unbind(p->pmu, p->ctr[s]);
	p->armed &= ~VPMU_BIT(s);
	p->ctrs_used &= ~(1u << p->ctr[s]);
	p->since[s] = ++p->turn;
	store_relaxed(&p->active, p->active & ~VPMU_BIT(s));
	store_relaxed(&p->state, p->state + VPMU_CELL_BIND);
}

void pcpu_unbind_all(struct vpmu_pcpu *p)
{
	unsigned int s;

	vpmu_for_each_slot (s, p->active)
		slot_unbind(p, s);
}

/* ---- assignment ---- */

/* A free counter for slot @s, preferably a fixed one; -1: none. */
static int free_ctr(const struct vpmu_pcpu *p, unsigned int s)
{
	uint32_t ctrs = p->elig[s] & ~p->ctrs_used;

	if (ctrs & p->pmu->fixed_mask)
		ctrs &= p->pmu->fixed_mask;
	return ctrs ? __builtin_ctz(ctrs) : -1;
}

/* The slot in @slots that got or lost its counter the longest time ago; -1: @slots is empty. */
static int longest(const struct vpmu_pcpu *p, uint64_t slots)
{
	int best = -1;
	unsigned int s;

	vpmu_for_each_slot (s, slots) {
		if (best < 0 || p->since[s] < p->since[best])
			best = (int)s;
	}
	return best;
}

/* The active slots with a counter that could count slot @s. */
static uint64_t rivals(const struct vpmu_pcpu *p, unsigned int s)
{
	uint64_t slots = 0;
	unsigned int r;

	vpmu_for_each_slot (r, p->active) {
		if (p->elig[s] & (1u << p->ctr[r]))
			slots |= VPMU_BIT(r);
	}
	return slots;
}

/* Move the counter of slot @from to slot @s; if the host refuses, @from gets it back. */
static void steal(struct vpmu_pcpu *p, unsigned int s, unsigned int from)
{
	unsigned int ctr = p->ctr[from];

	slot_unbind(p, from);
	if (!slot_bind(p, s, ctr))
		slot_bind(p, from, ctr);
}

/* True if the host refused slot @s recently and no retry is due. */
static bool refused_lately(const struct vpmu_pcpu *p, unsigned int s)
{
	return p->occasion < p->ask_at[s];
}

/*
 * Make room for slot @s: move one of @slots, its rivals, to another counter that suits the rival
 * and is free or belongs to a slot that is not in @keys.
 */
static bool move_rival(struct vpmu_pcpu *p, unsigned int s, uint64_t slots, uint64_t keys)
{
	unsigned int r;

	vpmu_for_each_slot (r, slots) {
		int ctr = free_ctr(p, r), from = -1;
		unsigned int old = p->ctr[r];

		if (ctr < 0) {
			from = longest(p, rivals(p, r) & ~keys);
			if (from < 0)
				continue;
			ctr = p->ctr[from];
			slot_unbind(p, (unsigned int)from);
		}
		slot_unbind(p, r);
		if (slot_bind(p, r, (unsigned int)ctr) && slot_bind(p, s, old))
			return true;
		/* The host refuses: restore the previous assignment. */
		if (p->active & VPMU_BIT(r))
			slot_unbind(p, r);
		slot_bind(p, r, old);
		if (from >= 0)
			slot_bind(p, (unsigned int)from, (unsigned int)ctr);
		return false;
	}
	return false;
}

/*
 * Assign counters to those slots in @keys that have none. For each, use the first available of:
 *
 *   1. a free counter
 *   2. the counter of a slot that is not in @keys
 *   3. a counter freed by moving another slot (move_rival)
 *   4. with @rotate: the counter of a slot in @keys that did not get it in this call; a fixed
 *      counter only if there is no other, since slots on fixed counters need not be multiplexed
 *
 * A slot that the host refused waits longer after each refusal, and no slot loses a counter to it
 * meanwhile. Time must have been charged up to now.
 */
static COLD void assign_counters(struct vpmu_pcpu *p, uint64_t keys, bool rotate)
{
	uint64_t wait = keys & p->bound & ~p->active & ~p->unsup;
	uint64_t old = p->active;

	p->occasion++;
	while (wait) {
		unsigned int s = (unsigned int)longest(p, wait);
		int ctr = free_ctr(p, s);
		uint64_t have;
		int from;

		wait &= ~VPMU_BIT(s);
		if (refused_lately(p, s))
			continue;
		if (ctr >= 0) {
			slot_bind(p, s, (unsigned int)ctr);
			continue;
		}
		have = rivals(p, s);
		from = longest(p, have & ~keys);
		if (from < 0 && (move_rival(p, s, have, keys) || refused_lately(p, s)))
			continue;
		if (from < 0 && rotate) {
			uint64_t fixed = 0;
			unsigned int r;

			have &= old; /* not those assigned in this call */
			vpmu_for_each_slot (r, have) {
				if (p->pmu->fixed_mask & (1u << p->ctr[r]))
					fixed |= VPMU_BIT(r);
			}
			from = longest(p, have & ~fixed ? have & ~fixed : have);
		}
		if (from >= 0)
			steal(p, s, (unsigned int)from);
	}
}

static void raise_quality(struct vpmu_slot *slot, unsigned int q)
{
	unsigned int old = load_relaxed(&slot->quality);

	while (old < q && !__atomic_compare_exchange_n(&slot->quality, &old, q, true,
						       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* First use of @slots on this pCPU: look up their keys and eligible counters. */
static COLD void take_up(struct vpmu_pcpu *p, uint64_t slots)
{
	unsigned int s;

	vpmu_for_each_slot (s, slots) {
		vpmu_key_t key = load_acquire(&p->host->slot[s].key);

		if (key != p->key[s]) {
			p->key[s] = key;
			p->hw_at_key[s] = p->home->hw_past[s];
			p->refused[s] = 0;
			p->ask_at[s] = 0;
		}
		p->elig[s] = p->pmu->ops->eligible(p->pmu, key);
		p->bound |= VPMU_BIT(s);
		if (p->elig[s])
			raise_quality(&p->host->slot[s], p->pmu->ops->quality(p->pmu, key));
		else
			store_relaxed(&p->unsup, p->unsup | VPMU_BIT(s));
	}
}

/* Remembers if nothing can be done for @keys, so that repeated switches cost little. */
COLD void provide_counters(struct vpmu_pcpu *p, uint64_t keys)
{
	uint64_t waits, due = UINT64_MAX;
	unsigned int s;

	if (keys & ~p->bound)
		take_up(p, keys & ~p->bound);
	waits = keys & ~p->active & ~p->unsup;
	if (!waits)
		return;
	if (keys == p->settled_keys && p->turn == p->settled_turn &&
	    p->occasion + 1 < p->settled_to) {
		p->occasion++;
		return;
	}
	p->settled_turn = p->turn; /* not settled if this binds or unbinds */
	assign_counters(p, keys, false);
	vpmu_for_each_slot (s, waits & ~p->active) {
		if (p->ask_at[s] > p->occasion && p->ask_at[s] < due)
			due = p->ask_at[s];
	}
	p->settled_keys = keys;
	p->settled_to = due;
}

/* ---- ticks ---- */

/* Unbind the slots that no consumer of the host uses. Time has been charged. */
static void release_unused(struct vpmu_pcpu *p)
{
	unsigned int s;

	vpmu_for_each_slot (s, p->active & ~p->keys) {
		if (!load_relaxed(&p->host->slot[s].refs))
			slot_unbind(p, s);
	}
}

/* Unbind the counters that the host has stopped; their slots wait for others. Time has been
 * charged. */
static void drop_lost(struct vpmu_pcpu *p)
{
	uint32_t lost = p->pmu->ops->lost ? p->pmu->ops->lost(p->pmu) : 0;
	unsigned int s;

	if (likely(!lost))
		return;
	vpmu_for_each_slot (s, p->active) {
		if (lost & 1u << p->ctr[s])
			slot_unbind(p, s);
	}
}

/*
 * The host's ability to count a key can change: rights, file limits, another PMU driver. Query the
 * PMU again for the running context's keys without a counter. The rows keep VPMU_UNSUP as it was
 * when they were made (cell.c).
 */
static void ask_again(struct vpmu_pcpu *p)
{
	unsigned int s;

	vpmu_for_each_slot (s, p->keys & p->bound & ~p->active) {
		uint64_t unsup = p->unsup & ~VPMU_BIT(s);

		p->elig[s] = p->pmu->ops->eligible(p->pmu, p->key[s]);
		if (!p->elig[s])
			unsup |= VPMU_BIT(s);
		else
			raise_quality(&p->host->slot[s], p->pmu->ops->quality(p->pmu, p->key[s]));
		if (unsup != p->unsup)
			p->settled_keys = 0;
		store_relaxed(&p->unsup, unsup);
	}
}

bool rotate_counters(struct vpmu_pcpu *p)
{
	release_unused(p);
	drop_lost(p);
	if (p->keys & ~p->active)
		ask_again(p);
	if (!(p->keys & ~p->active & ~p->unsup))
		return false;
	assign_counters(p, p->keys, true);
	return true;
}
