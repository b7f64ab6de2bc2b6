// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The switch path: who runs on a pCPU, and who is charged.
 *
 * A counter is read when the running account or the next one uses its slot; what it counted since
 * its last reading is charged to the running account if that uses the slot, and to nobody (the
 * pCPU's unclaimed counts) otherwise. So every count is charged exactly once, whoever comes and
 * goes. Contexts whose account and keys are equal need no PMU work at all.
 *
 * Everything here runs on the owner of the pCPU, or on a control thread that holds pcpu->lock
 * while the pCPU is offline.
 */
#include "vpmu/internal.h"

/* Off the common path of a switch: kept out of line so that it needs few registers. */
#define COLD __attribute__((noinline, cold))

/* ---- charging ---- */

/* Slots in use that have no counter. */
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

/* Counters that must be asked for. */
static COLD void charge_call(struct vpmu_pcpu *p, __u64 *total, uint64_t slots)
{
	struct vpmu_hostpmu *pmu = p->pmu;
	unsigned int s;

	vpmu_for_each_slot (s, slots)
		vpmu_charge(&total[s], &p->last[s].snap, pmu->ops->read(pmu, p->ctr[s]),
			    pmu->width_mask);
}

/* Charge what the counters of @slots hold since their snapshots to @total. */
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

/* What is watched goes through alarm.c before this. */
static inline void charge_unwatched(struct vpmu_pcpu *p, uint64_t slots)
{
	uint64_t others;

	slots &= p->active;
	others = slots & ~p->keys;
	charge_to(p, p->cell->counts.total, slots & p->keys);
	if (unlikely(others))
		charge_unclaimed(p, others);
}

/* Returns watched slots whose alarms must be set again, unless others follow. */
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

/* What the hardware counted for @slot here, by the PMU's own account where it keeps one. */
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

static bool slot_bind(struct vpmu_pcpu *p, unsigned int s, unsigned int ctr)
{
	if (p->pmu->ops->bind(p->pmu, ctr, p->key[s]))
		return false;
	p->ctrs_used |= 1u << ctr;
	p->ctr[s] = (uint8_t)ctr;
	p->last[s].snap = p->bind_value[s] = p->pmu->ops->read(p->pmu, ctr);
	if (p->pmu->word)
		p->last[s].word = p->pmu->word[ctr];
	p->since[s] = ++p->turn;
	store_relaxed(&p->active, p->active | VPMU_BIT(s));
	return true;
}

/* Time must have been charged up to now. */
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

/* A free counter for slot @s, fixed ones first; -1 when all that fit are taken. */
static int free_ctr(const struct vpmu_pcpu *p, unsigned int s)
{
	uint32_t ctrs = p->elig[s] & ~p->ctrs_used;

	if (ctrs & p->pmu->fixed_mask)
		ctrs &= p->pmu->fixed_mask;
	return ctrs ? __builtin_ctz(ctrs) : -1;
}

/* The slot out of @slots that has had (or lacked) its counter longest; -1 when none. */
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

/* Active slots whose counter could count slot @s. */
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

/* Take the counter of slot @from for slot @s. */
static void steal(struct vpmu_pcpu *p, unsigned int s, unsigned int from)
{
	unsigned int ctr = p->ctr[from];

	slot_unbind(p, from);
	slot_bind(p, s, ctr);
}

/* Make room for slot @s by moving one rival to another counter that fits it and is free, or held by
 * a slot not in @keys. */
static bool move_rival(struct vpmu_pcpu *p, unsigned int s, uint64_t slots, uint64_t keys)
{
	unsigned int r;

	vpmu_for_each_slot (r, slots) {
		int ctr = free_ctr(p, r), from;
		unsigned int old = p->ctr[r];

		if (ctr < 0) {
			from = longest(p, rivals(p, r) & ~keys);
			if (from < 0)
				continue;
			ctr = p->ctr[from];
			slot_unbind(p, (unsigned int)from);
		}
		slot_unbind(p, r);
		slot_bind(p, r, (unsigned int)ctr);
		return slot_bind(p, s, old);
	}
	return false;
}

/*
 * Give counters to the slots in use by @keys that have none: free ones, then those of slots not in
 * @keys. With @rotate also those of slots in @keys, once each per turn, those on fixed counters
 * last: they need not share. Time must have been charged up to now.
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
		if (ctr >= 0) {
			slot_bind(p, s, (unsigned int)ctr);
			continue;
		}
		have = rivals(p, s);
		from = longest(p, have & ~keys);
		if (from < 0 && move_rival(p, s, have, keys))
			continue;
		if (from < 0 && rotate) {
			uint64_t fixed = 0;
			unsigned int r;

			have &= old; /* not those that got theirs in this turn */
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

/* Forget slots that have got another key since this pCPU last looked. */
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

/* First use of some slots on this pCPU. */
static COLD void take_up(struct vpmu_pcpu *p, uint64_t slots)
{
	unsigned int s;

	vpmu_for_each_slot (s, slots) {
		vpmu_key_t key = load_acquire(&p->host->slot[s].key);

		if (key != p->key[s]) {
			p->key[s] = key;
			p->hw_at_key[s] = p->hw_past[s];
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
 * Compute a context's account and keys anew. Acquire on the generations first: they are released
 * after the keys they stand for, so that keys are at least as new as what we remember of them; a
 * change in between just makes the next switch compute once more. A slot that got another key
 * moved tree_gen too (slot.c) and a context that migrated computes anew, so whoever might use a
 * recycled slot comes through here, and this pCPU forgets the slot's old key first: its counter
 * must not be charged to someone who means the new one.
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
		samplers |= load_acquire(&a->samplers); /* first: a sampler's key is there */
		keys |= load_acquire(&a->keys_local) | load_acquire(&a->keys_ctl);
	}
	ctx->keys = keys;
	if (unlikely(samplers | ctx->watch)) {
		ctx->samplers = samplers;
		watch_update(ctx);
	}
	/* After the keys: a slot named in them got its key before (release in keys_add). */
	revalidate(p);
}

/* Some slots in use by the next context have no counter: first use here, or too few counters. */
static COLD void provide_counters(struct vpmu_pcpu *p, uint64_t keys)
{
	if (keys & ~p->bound)
		take_up(p, keys & ~p->bound);
	assign_counters(p, keys, false);
}

/* Slots in use by the next context whose time begins or ends to stand still in its cell. The cell
 * is not running, or time has been charged up to now. */
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
 * Charge who ran, and make everything but p->ctx and the branch records @next's. Those come last:
 * samples of who ran may still be taken until then, and they tell where it was.
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

/* One account has one cell here: equal cells, equal accounts. */
static inline bool equal(const struct vpmu_pcpu *p, const struct vpmu_context *next)
{
	return next->cell == p->cell && next->keys == p->keys;
}

/* The end of each way below. */
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
 * One of them has alarms or samplers in reach. Alarms are of a vCPU's own account, and when they
 * change while it runs, p->watch does (alarm.c): with equal accounts only samplers can differ.
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

/* Nothing but tests and tail calls: equal contexts pay for no more. */
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

void vpmu_pcpu_tick(struct vpmu_pcpu *p)
{
	pcpu_refresh(p);
	if (p->keys & ~p->active & ~p->unsup) {
		assign_counters(p, p->keys, true);
		if (p->watch)
			watch_switch(p, p->ctx);
	}
}

unsigned int vpmu_pcpu_id(const struct vpmu_pcpu *p)
{
	return p->id;
}
