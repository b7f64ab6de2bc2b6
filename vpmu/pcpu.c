// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The switch path: who runs on a pCPU, and who is charged.
 *
 * A switch reads the counter of each slot that the running account or the next one uses. What the
 * counter has counted since its last reading is charged to the running account if that uses the
 * slot, and to the pCPU's unclaimed counts otherwise. So each count is charged exactly once. A
 * switch between contexts whose account and keys are equal reads nothing.
 *
 * The scheduler calls the vpmu_pcpu_ functions. Everything here runs on the owner of the pCPU, or
 * on a control thread that holds pcpu->lock while the pCPU is offline. Nothing here may take a lock
 * or allocate memory; only binding a counter may call the host.
 */
#include "vpmu/internal.h"

/* Code that switches seldom need. Out of line, it costs the common path no registers. */
#define COLD __attribute__((noinline, cold))

/* ---- charging ---- */

/* @slots were in use for @dt ns without a counter. */
static COLD void charge_idle(struct vpmu_pcpu *p, uint64_t slots, uint64_t dt)
{
	unsigned int s;

	vpmu_for_each_slot (s, slots)
		vpmu_charge_time(&p->cell->counts.idle_ns[s], dt);
}

static inline void charge_time(struct vpmu_pcpu *p)
{
	const struct vpmu_hostpmu *pmu = p->pmu;
	uint64_t now = pmu->clock_ns ? load_relaxed(pmu->clock_ns) : pmu->ops->now(pmu);
	uint64_t dt = now - p->time_snap;
	uint64_t idle = p->keys & ~p->active & ~p->unsup;

	p->time_snap = now;
	vpmu_charge_time(&p->cell->counts.time_ns, dt);
	if (unlikely(idle))
		charge_idle(p, idle, dt);
}

/* charge_to for counters that cannot be read as memory. */
static COLD void charge_call(struct vpmu_pcpu *p, __u64 *total, uint64_t slots)
{
	struct vpmu_hostpmu *pmu = p->pmu;
	unsigned int s;

	vpmu_for_each_slot (s, slots)
		vpmu_charge(&total[s], &p->last[s].snap, pmu->ops->read(pmu, p->ctr[s]),
			    pmu->width_mask);
}

/* Charge what the counters of @slots have counted since their snapshots to @total. */
static inline void charge_to(struct vpmu_pcpu *p, __u64 *total, uint64_t slots)
{
	uint64_t width_mask = p->pmu->width_mask;

	if (unlikely(!p->pmu->word)) {
		charge_call(p, total, slots);
		return;
	}
	for (; slots; slots &= slots - 1) {
		uint64_t s = (uint64_t)__builtin_ctzll(slots);
		struct vpmu_reading *c = &p->last[s];

		vpmu_charge(&total[s], &c->snap, *c->word, width_mask);
	}
}

static COLD void charge_unclaimed(struct vpmu_pcpu *p, uint64_t slots)
{
	charge_to(p, p->unclaimed, slots);
}

/* Charge @slots, none of which is watched while it is in use: those go through alarm.c. */
static inline void charge_unwatched(struct vpmu_pcpu *p, uint64_t slots)
{
	uint64_t others;

	slots &= p->active;
	others = slots & ~p->keys;
	charge_to(p, p->cell->counts.total, slots & p->keys);
	if (unlikely(others))
		charge_unclaimed(p, others);
}

/* Charge @slots. Returns the slots whose alarms went off; the caller arms them again, unless
 * another context runs next. */
static inline uint64_t charge_slots(struct vpmu_pcpu *p, uint64_t slots)
{
	uint64_t watched = slots & p->watch & p->keys, rearm = 0;

	if (unlikely(watched))
		rearm = watch_charge(p, watched);
	charge_unwatched(p, slots & ~watched);
	return rearm;
}

uint64_t pcpu_charge(struct vpmu_pcpu *p, uint64_t slots)
{
	uint64_t rearm = charge_slots(p, slots);

	charge_time(p);
	if (unlikely(rearm))
		watch_rearm(p, rearm);
	return rearm;
}

/* ---- counters for slots ---- */

/* By the PMU's audit where it has one. */
uint64_t pcpu_hw_count(struct vpmu_pcpu *p, unsigned int slot)
{
	const struct vpmu_hostpmu_ops *ops = p->pmu->ops;
	uint64_t hw = p->hw_past[slot];

	if (!(p->active & VPMU_BIT(slot)))
		return hw;
	if (ops->audit)
		return hw + ops->audit(p->pmu, p->ctr[slot]);
	return hw + ((ops->read(p->pmu, p->ctr[slot]) - p->bind_value[slot]) & p->pmu->width_mask);
}

/* A host that refuses is asked again after 1, 2, 4 ... 1024 more occasions. */
#define REFUSED_SHIFT_MAX 10

/* Give free counter @ctr to slot @s. False: the host refuses. */
static bool slot_bind(struct vpmu_pcpu *p, unsigned int s, unsigned int ctr)
{
	if (p->pmu->ops->bind(p->pmu, ctr, p->key[s])) {
		p->refused_wait[s] = (uint16_t)(1u << p->refused[s]);
		if (p->refused[s] < REFUSED_SHIFT_MAX)
			p->refused[s]++;
		return false;
	}
	p->refused[s] = 0;
	p->ctrs_used |= 1u << ctr;
	p->ctr[s] = (uint8_t)ctr;
	p->last[s].snap = p->bind_value[s] = p->pmu->ops->read(p->pmu, ctr);
	if (p->pmu->word)
		p->last[s].word = p->pmu->word[ctr];
	p->since[s] = ++p->turn;
	store_relaxed(&p->active, p->active | VPMU_BIT(s));
	return true;
}

/* Take the counter of slot @s away, and charge it. Time must have been charged up to now. */
static void slot_unbind(struct vpmu_pcpu *p, unsigned int s)
{
	charge_slots(p, VPMU_BIT(s));
	p->hw_past[s] = pcpu_hw_count(p, s);
	p->pmu->ops->unbind(p->pmu, p->ctr[s]);
	p->armed &= ~VPMU_BIT(s);
	p->ctrs_used &= ~(1u << p->ctr[s]);
	p->since[s] = ++p->turn;
	store_relaxed(&p->active, p->active & ~VPMU_BIT(s));
}

/* A free counter for slot @s, a fixed one if possible; -1: all that fit are taken. */
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

/* The active slots whose counter could count slot @s. */
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

/* Take the counter of slot @from for slot @s; if the host refuses, @from gets it back. */
static void steal(struct vpmu_pcpu *p, unsigned int s, unsigned int from)
{
	unsigned int ctr = p->ctr[from];

	slot_unbind(p, from);
	if (!slot_bind(p, s, ctr))
		slot_bind(p, from, ctr);
}

/* Whether the host refused slot @s lately, so that this occasion is not one to ask again. */
static bool refused_lately(struct vpmu_pcpu *p, unsigned int s)
{
	if (!p->refused_wait[s])
		return false;
	p->refused_wait[s]--;
	return true;
}

/*
 * Make room for slot @s: move one of @slots, its rivals, to another counter. That counter must fit
 * the rival, and be free or belong to a slot that is not in @keys.
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
		/* The host refuses: everybody gets back what it had. */
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
 * Give counters to those slots in @keys that have none. For each of them, take the first that there
 * is of:
 *
 *   1. a free counter
 *   2. the counter of a slot that is not in @keys
 *   3. a counter that becomes free by moving another slot (move_rival)
 *   4. with @rotate: the counter of a slot in @keys that did not get it in this call; not a fixed
 *      counter if there is another one, since slots on fixed counters need not share
 *
 * A slot that the host refused waits longer after each refusal, and nobody loses a counter to it.
 * Time must have been charged up to now.
 */
static COLD void assign_counters(struct vpmu_pcpu *p, uint64_t keys, bool rotate)
{
	uint64_t wait = keys & p->bound & ~p->active & ~p->unsup;
	uint64_t old = p->active;

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
		if (from < 0 && (move_rival(p, s, have, keys) || p->refused_wait[s]))
			continue;
		if (from < 0 && rotate) {
			uint64_t fixed = 0;
			unsigned int r;

			have &= old; /* not those that got theirs in this call */
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

/* Forget the slots that have got another key since this pCPU last looked. */
static void revalidate(struct vpmu_pcpu *p)
{
	uint64_t slots_gen = load_acquire(&p->host->slots_gen);
	unsigned int s;

	if (slots_gen == p->slots_gen)
		return;
	p->slots_gen = slots_gen;
	charge_time(p);
	vpmu_for_each_slot (s, p->bound) {
		if (load_acquire(&p->host->slot[s].key) == p->key[s])
			continue;
		if (p->active & VPMU_BIT(s))
			slot_unbind(p, s);
		p->bound &= ~VPMU_BIT(s);
		store_relaxed(&p->unsup, p->unsup & ~VPMU_BIT(s));
	}
}

static void raise_quality(struct vpmu_slot *slot, unsigned int q)
{
	unsigned int old = load_relaxed(&slot->quality);

	while (old < q && !__atomic_compare_exchange_n(&slot->quality, &old, q, true,
						       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* The first use of @slots on this pCPU: look up their keys, and what the PMU can do with them. */
static COLD void take_up(struct vpmu_pcpu *p, uint64_t slots)
{
	unsigned int s;

	vpmu_for_each_slot (s, slots) {
		vpmu_key_t key = load_acquire(&p->host->slot[s].key);

		if (key != p->key[s]) {
			p->key[s] = key;
			p->hw_at_key[s] = p->hw_past[s];
			p->refused[s] = 0;
			p->refused_wait[s] = 0;
		}
		p->elig[s] = p->pmu->ops->eligible(p->pmu, key);
		p->bound |= VPMU_BIT(s);
		if (p->elig[s])
			raise_quality(&p->host->slot[s], p->pmu->ops->quality(p->pmu, key));
		else
			store_relaxed(&p->unsup, p->unsup | VPMU_BIT(s));
	}
}

/* ---- switching ---- */

/*
 * Compute the account and the keys of @ctx anew.
 *
 * tree_gen is read first, with acquire. It pairs with the release of tree_gen in keys_changed
 * (consumer.c), slot.c and sampler.c, which comes after the change of keys. So the keys read here
 * are at least as new as the tree_gen remembered here. A change in between makes the next switch
 * compute once more, which is harmless.
 *
 * A recycled slot: whoever might use a slot that has got another key comes through here first,
 * because the new key has moved tree_gen too (slot.c), and a context that migrated has tree_gen 0.
 * revalidate() then makes this pCPU forget the slot's old key, so its counter is not charged to
 * somebody who means the new one.
 */
static COLD void context_update(struct vpmu_pcpu *p, struct vpmu_context *ctx)
{
	const struct vpmu_host *host = p->host;
	const struct vpmu_account *account;
	uint32_t samplers = 0;
	uint64_t keys = 0;

	ctx->tree_gen = load_acquire(&host->tree_gen);
	if (!ctx->group || load_acquire(&ctx->own->keys_local) ||
	    load_acquire(&ctx->own->keys_ctl)) {
		account = ctx->own;
		ctx->cell = ctx->own_cell;
	} else {
		account = ctx->group;
		ctx->cell = ctx->group_cell;
	}
	for (const struct vpmu_account *a = account; a; a = a->parent) {
		/* Before the keys. It pairs with the release in sampler.c: a sampler that is seen
		 * here has its key in use. */
		samplers |= load_acquire(&a->samplers);
		keys |= load_acquire(&a->keys_local) | load_acquire(&a->keys_ctl);
	}
	ctx->keys = keys;
	if (unlikely(samplers | ctx->watch)) {
		ctx->samplers = samplers;
		watch_update(ctx);
	}
	/* After the keys were read with acquire, which pairs with the release in keys_add
	 * (consumer.c): a slot in them had got its key before. */
	revalidate(p);
}

/* Some of @keys have no counter: this is their first use here, or there are too few counters. */
static COLD void provide_counters(struct vpmu_pcpu *p, uint64_t keys)
{
	if (keys & ~p->bound)
		take_up(p, keys & ~p->bound);
	assign_counters(p, keys, false);
}

/*
 * Start or stop the clock of @slots in @cell: this pCPU's support of them is not what the cell has
 * noted. The cell does not run, or time has been charged up to now.
 */
static COLD void mark_unsupported(struct vpmu_pcpu *p, struct vpmu_cell *cell, uint64_t slots)
{
	struct vpmu_counts *c = &cell->counts;
	unsigned int s;

	vpmu_for_each_slot (s, slots)
		VPMU_STORE(&c->unsup[s],
			   vpmu_unsup_set(c->unsup[s], c->time_ns, (p->unsup & VPMU_BIT(s)) != 0));
	cell->unsup ^= slots;
}

/*
 * Charge who ran, and make the pCPU's state that of @next, except p->ctx and the branch records.
 * These change last (runs_now), because charging can take samples, which tell where p->ctx is.
 */
static inline __attribute__((always_inline)) void
switch_to(struct vpmu_pcpu *p, struct vpmu_context *next, uint64_t charge, bool watched)
{
	uint64_t keys = next->keys;

	if (watched)
		charge_slots(p, charge);
	else
		charge_unwatched(p, charge);
	charge_time(p);
	if (unlikely(keys & ~p->active))
		provide_counters(p, keys);
	if (unlikely((next->cell->unsup ^ p->unsup) & keys))
		mark_unsupported(p, next->cell, (next->cell->unsup ^ p->unsup) & keys);
	p->cell = next->cell;
	p->keys = keys;
	if (watched && (p->watch | next->watch))
		watch_switch(p, next);
}

static inline bool context_stale(const struct vpmu_context *ctx, const struct vpmu_host *host)
{
	return ctx->tree_gen != load_relaxed(&host->tree_gen);
}

/* Each account has one cell per pCPU, so equal cells mean equal accounts. */
static inline bool equal(const struct vpmu_pcpu *p, const struct vpmu_context *next)
{
	return next->cell == p->cell && next->keys == p->keys;
}

/* The last step of every switch. */
static inline void runs_now(struct vpmu_pcpu *p, struct vpmu_context *next)
{
	if (unlikely(lbr_concerns(p, next)))
		lbr_switch(p, next);
	store_relaxed(&p->ctx, next);
}

static __attribute__((noinline)) void switch_plain(struct vpmu_pcpu *p, struct vpmu_context *next)
{
	switch_to(p, next, p->keys | next->keys, false);
	runs_now(p, next);
}

/*
 * A switch from or to a context with alarms or samplers. When account, keys and samplers are equal,
 * so is what is watched: alarms belong to a vCPU's own account, and a change of them while it runs
 * changes p->watch at once (alarm.c).
 */
static __attribute__((noinline)) void switch_watched(struct vpmu_pcpu *p, struct vpmu_context *next)
{
	if (!equal(p, next) || next->samplers != p->samplers)
		switch_to(p, next, p->keys | next->keys, true);
	runs_now(p, next);
}

static COLD void switch_stale(struct vpmu_pcpu *p, struct vpmu_context *next)
{
	context_update(p, next);
	if (p->watch | next->watch)
		switch_watched(p, next);
	else if (equal(p, next))
		runs_now(p, next);
	else
		switch_plain(p, next);
}

/* Only tests and tail calls, so that a switch between equal contexts costs little. */
void vpmu_pcpu_switch(struct vpmu_pcpu *p, struct vpmu_context *next)
{
	if (unlikely(!next))
		next = &p->host_ctx;
	if (unlikely(context_stale(next, p->host)))
		switch_stale(p, next);
	else if (unlikely(p->watch | next->watch))
		switch_watched(p, next);
	else if (equal(p, next))
		runs_now(p, next);
	else
		switch_plain(p, next);
}

void pcpu_refresh(struct vpmu_pcpu *p)
{
	if (context_stale(p->ctx, p->host))
		context_update(p, p->ctx);
	switch_to(p, p->ctx, p->active, true);
	if (lbr_concerns(p, p->ctx))
		lbr_flush(p);
}

void vpmu_pcpu_flush(struct vpmu_pcpu *p)
{
	pcpu_refresh(p);
}

/* Give back the counters of slots that no consumer of the host uses. Time has been charged. */
static void release_unused(struct vpmu_pcpu *p)
{
	unsigned int s;

	vpmu_for_each_slot (s, p->active & ~p->keys) {
		if (!load_relaxed(&p->host->slot[s].refs))
			slot_unbind(p, s);
	}
}

void vpmu_pcpu_tick(struct vpmu_pcpu *p)
{
	pcpu_refresh(p);
	release_unused(p);
	if (p->keys & ~p->active & ~p->unsup) {
		assign_counters(p, p->keys, true);
		if (p->watch)
			watch_switch(p, p->ctx);
	}
}
