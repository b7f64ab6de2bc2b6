// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The switch path: the context that runs on a pCPU, and the accounts that are charged.
 *
 * A switch reads the counter of each slot that the running context or the next one uses. The delta
 * since its last reading is charged to each account of the running context that has the slot in
 * use, or, if none has, to the pCPU's unclaimed counts. A switch between contexts that charge the
 * same accounts reads nothing.
 *
 * The scheduler calls the vpmu_pcpu_ functions. Everything here runs on the owner of the pCPU, or
 * on a control thread that holds pcpu->lock while the pCPU is offline. Nothing here may take a lock
 * or allocate memory. counters.c assigns counters to slots.
 */
#include "vpmu/core/internal.h"

/* ---- charging ---- */

static inline void charge_time(struct vpmu_pcpu *p)
{
	const struct vpmu_hostpmu *pmu = p->pmu;
	uint64_t now = pmu->clock_ns ? load_relaxed(pmu->clock_ns) : pmu->ops->now(pmu);
	uint64_t dt = now - p->time_snap;
	struct vpmu_cell *cell = p->cell;

	p->time_snap = now;
	do
		vpmu_charge_time(&cell->time_ns, dt);
	while (unlikely((cell = cell->up) && dt));
}

/* A gap is part of the charged time, so charge the time first. */
void pcpu_charge_gaps(struct vpmu_pcpu *p, uint64_t slots)
{
	const struct vpmu_hostpmu *pmu = p->pmu;
	unsigned int s;

	if (!pmu->ops->gap_ns)
		return;
	charge_time(p);
	vpmu_for_each_slot (s, slots) {
		uint64_t gap = pmu->ops->gap_ns(pmu, p->ctr[s]), add = gap - p->gap_snap[s];

		p->gap_snap[s] = gap;
		for (struct vpmu_cell *c = p->cell; add && c; c = c->up) {
			__u64 *lost;

			if (!(c->mask & VPMU_BIT(s)))
				continue;
			lost = &c->row[slot_rank(c->mask, s)].lost;
			/* Atomic: a control call may change VPMU_UNSUP concurrently (cell.c). */
			if (!(load_relaxed(lost) & VPMU_STOPPED))
				__atomic_add_fetch(lost, add, __ATOMIC_RELEASE);
		}
	}
}

static inline uint64_t read_ctr(const struct vpmu_pcpu *p, unsigned int s)
{
	return p->pmu->word ? *p->last[s].word : p->pmu->ops->read(p->pmu, p->ctr[s]);
}

void pcpu_take(struct vpmu_pcpu *p, uint64_t slots, uint64_t *counted)
{
	unsigned int s;

	vpmu_for_each_slot (s, slots) {
		uint64_t now = read_ctr(p, s);

		counted[s] = (now - p->last[s].snap) & p->pmu->width_mask;
		p->last[s].snap = now;
	}
}

/* Charge @counted events of slot @s to all accounts that use it. Charges to several rows, or to
 * none, are noted for conservation.c. */
static inline void give(struct vpmu_pcpu *p, unsigned int s, uint64_t counted)
{
	uint64_t rows = 0;

	for (struct vpmu_cell *cell = p->cell; cell; cell = cell->up) {
		__u64 *total = &cell->row[slot_rank(cell->mask, s)].total;

		if (!(cell->mask & VPMU_BIT(s)))
			continue;
		VPMU_STORE(total, *total + counted);
		rows++;
	}
	if (!rows)
		p->home->unclaimed[s] += counted;
	else if (rows > 1)
		p->home->extra[s] += counted * (rows - 1);
}

void pcpu_give(struct vpmu_pcpu *p, uint64_t slots, const uint64_t *counted)
{
	unsigned int s;

	vpmu_for_each_slot (s, slots)
		give(p, s, counted[s]);
}

/* General case: several accounts, slots without an account, or counters that are not memory. */
static __attribute__((noinline)) void charge_all(struct vpmu_pcpu *p, uint64_t slots)
{
	unsigned int s;

	vpmu_for_each_slot (s, slots) {
		uint64_t now = read_ctr(p, s), last = p->last[s].snap;

		if (now == last)
			continue; /* rare events, and guests that program several counters */
		p->last[s].snap = now;
		give(p, s, (now - last) & p->pmu->width_mask);
	}
	if (!p->pmu->word)
		pcpu_charge_gaps(p, slots);
}

/*
 * Charge @slots, a subset of the only cell's slots. Their row numbers are cached, because they are
 * the same at each switch between VMs that count the same keys.
 */
static __attribute__((noinline)) void pcpu_charge_some(struct vpmu_pcpu *p, uint64_t slots)
{
	struct vpmu_cell *cell = p->cell;
	uint64_t width_mask = p->pmu->width_mask;
	unsigned int s;

	if (cell->mask != p->rank_mask || slots != p->rank_slots) {
		vpmu_for_each_slot (s, slots)
			p->rank[s] = (uint8_t)slot_rank(cell->mask, s);
		p->rank_mask = cell->mask;
		p->rank_slots = slots;
	}
	vpmu_for_each_slot (s, slots) {
		struct vpmu_reading *c = &p->last[s];

		vpmu_charge(&cell->row[p->rank[s]].total, &c->snap, *c->word, width_mask);
	}
}

/* Charge @slots, none of which may be in use and watched (alarm.c charges those). */
static inline void charge_unwatched(struct vpmu_pcpu *p, uint64_t slots)
{
	struct vpmu_cell *cell = p->cell;
	uint64_t width_mask = p->pmu->width_mask, others;
	struct vpmu_row *row = cell->row;

	slots &= p->active;
	others = slots & ~cell->mask;
	if (unlikely(!p->pmu->word || cell->up)) {
		if (slots)
			charge_all(p, slots);
		return;
	}
	if (likely(slots - others == cell->mask)) {
		/* Exactly the slots of the only cell, in row order. */
		for (uint64_t m = cell->mask; m; m &= m - 1, row++) {
			struct vpmu_reading *c = &p->last[__builtin_ctzll(m)];

			vpmu_charge(&row->total, &c->snap, *c->word, width_mask);
		}
	} else if (slots & ~others) {
		pcpu_charge_some(p, slots & ~others);
	}
	if (unlikely(others))
		charge_all(p, others);
}

/* An alarm that a charge finds due is armed again when it goes off, or when another context runs.
 */
static inline void charge_slots(struct vpmu_pcpu *p, uint64_t slots)
{
	uint64_t watched = slots & p->watch & p->keys;

	if (unlikely(watched))
		watch_charge(p, watched);
	charge_unwatched(p, slots & ~watched);
}

void pcpu_charge_slots(struct vpmu_pcpu *p, uint64_t slots)
{
	charge_slots(p, slots);
}

void pcpu_charge(struct vpmu_pcpu *p, uint64_t slots)
{
	charge_slots(p, slots);
	charge_time(p);
}

/* ---- bringing cells up to date ---- */

/* Counters were bound or unbound since the owner last charged @cell, or an audit has begun. */
COLD void pcpu_look_at(struct vpmu_pcpu *p, struct vpmu_cell *cell)
{
	struct vpmu_row *row = cell->row;

	audit_see(p, cell);
	for (uint64_t m = cell->mask; m; m &= m - 1, row++) {
		bool stopped = !(p->active & (m & -m));
		__u64 lost = load_relaxed(&row->lost);

		/* Atomic: a control call may change VPMU_UNSUP concurrently (cell.c). */
		while (!(lost & VPMU_STOPPED) != !stopped &&
		       !__atomic_compare_exchange_n(&row->lost, &lost,
						    vpmu_stop(lost, cell->time_ns, stopped), false,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
	}
	store_release(&cell->state, p->state);
}

/* Call before @cell and its successors are charged again. Their time must be charged up to now. */
static inline void core_pcpu_look_at(struct vpmu_pcpu *p, struct vpmu_cell *cell)
{
	do {
		if (unlikely(load_relaxed(&cell->state) != p->state))
			pcpu_look_at(p, cell);
	} while (unlikely(cell = cell->up));
}

/* ---- switching ---- */

/* Charge the present cells for the last time before they change. */
static void pcpu_settle(struct vpmu_pcpu *p, bool *settled)
{
	if (*settled)
		return;
	charge_slots(p, p->keys);
	charge_time(p);
	*settled = true;
}

/* Unbind the slots that have got another key since the last call. The acquire of slots_gen pairs
 * with the release in slot_get_slow (slot.c). */
static void revalidate(struct vpmu_pcpu *p, bool *settled)
{
	uint64_t slots_gen = load_acquire(&p->host->slots_gen);
	unsigned int s;

	if (slots_gen == p->slots_gen)
		return;
	p->slots_gen = slots_gen;
	pcpu_settle(p, settled);
	vpmu_for_each_slot (s, p->bound) {
		if (load_acquire(&p->host->slot[s].key) == p->key[s])
			continue;
		if (p->active & VPMU_BIT(s))
			slot_unbind(p, s);
		p->bound &= ~VPMU_BIT(s);
		store_relaxed(&p->unsup, p->unsup & ~VPMU_BIT(s));
	}
	p->settled_keys = 0;
}

/* Link @up behind @cell. If @cell is being charged, charge it first: those counts are not @up's. */
static void link_up(struct vpmu_pcpu *p, struct vpmu_cell *cell, struct vpmu_cell *up,
		    bool *settled)
{
	if (cell->up == up)
		return;
	for (const struct vpmu_cell *c = p->cell; c; c = c->up) {
		if (c == cell)
			pcpu_settle(p, settled);
	}
	cell->up = up;
}

/*
 * Recompute the cells and keys of @ctx. Returns true if p->keys and time were charged.
 *
 * tree_gen is read first, with acquire. It pairs with the release of tree_gen in keys_changed
 * (keys.c), slot.c and sampler.c, which comes after the change of keys. So the keys read here are
 * at least as new as the tree_gen stored here; a change in between only makes the next switch
 * recompute. Keys are published after their cells (cell.c), and cells are freed only after every
 * pCPU concerned has seen that the keys are gone.
 *
 * Recycled slots: a context passes through here before it uses a slot with a new key, because a new
 * key increments tree_gen, too (slot.c), and a migrated context has tree_gen 0. revalidate() then
 * unbinds the old key's counter, so it is not charged to accounts that use the new key.
 */
static COLD bool context_update(struct vpmu_pcpu *p, struct vpmu_context *ctx)
{
	struct vpmu_cell *first = NULL, *last = NULL;
	uint32_t samplers = 0;
	uint64_t keys = 0;
	bool settled = false;

	ctx->tree_gen = load_acquire(&p->host->tree_gen);
	urcu_memb_read_lock();
	for (const struct vpmu_account *a = ctx->own; a; a = a->parent) {
		uint64_t own;

		/* Read before the keys. Pairs with the release in sampler_start (sampler.c): the
		 * key of a sampler seen here is in use. */
		samplers |= load_acquire(&a->samplers);
		own = load_acquire(&a->keys_local) | load_acquire(&a->keys_ctl);
		keys |= own;
		if (!own)
			continue;
		for (struct vpmu_cell *c = cell_first(a, p); c; c = cell_next(c)) {
			if (last)
				link_up(p, last, c, &settled);
			else
				first = c;
			last = c;
		}
	}
	urcu_memb_read_unlock();
	if (last)
		link_up(p, last, NULL, &settled);
	ctx->cell = first ? first : &p->none;
	ctx->keys = keys;
	if (unlikely(samplers | ctx->watch)) {
		ctx->samplers = samplers;
		watch_update(ctx);
	}
	/* After the acquire of the keys, which pairs with the release in cells_ctl_add (cell.c):
	 * their slots have their keys by now. */
	revalidate(p, &settled);
	return settled;
}

/* Second half of a switch, after everything has been charged. */
static inline __attribute__((always_inline)) void
pcpu_enter(struct vpmu_pcpu *p, struct vpmu_context *next, bool watched)
{
	uint64_t keys = next->keys;

	if (unlikely(keys & ~p->active))
		provide_counters(p, keys);
	core_pcpu_look_at(p, next->cell);
	p->cell = next->cell;
	store_relaxed(&p->keys, keys); /* vpmu_pcpu_wants_tick reads it */
	if (watched && (p->watch | next->watch))
		watch_switch(p, next);
}

/*
 * Charge the running context, and make the pCPU's state that of @next, except p->ctx and the branch
 * records. These change last (runs_now), because charging can take samples of p->ctx.
 */
static inline __attribute__((always_inline)) void
switch_to(struct vpmu_pcpu *p, struct vpmu_context *next, uint64_t charge, bool watched)
{
	if (watched)
		charge_slots(p, charge);
	else
		charge_unwatched(p, charge);
	charge_time(p);
	pcpu_enter(p, next, watched);
}

static inline bool context_stale(const struct vpmu_context *ctx, const struct vpmu_host *host)
{
	return ctx->tree_gen != load_relaxed(&host->tree_gen);
}

/* The first cell determines the others: context_update. */
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

/* True if a delayed sample may be attributed to either of the two. */
static inline bool same_vm(const struct vpmu_context *a, const struct vpmu_context *b)
{
	return a == b || (a->group && a->group == b->group);
}

/*
 * A switch from or to a context with alarms or samplers. If cells, keys and samplers are equal, so
 * are the watched slots: a vCPU with alarms has keys of its own, so its first cell is its own. A
 * change of alarms while it runs updates p->watch at once (alarm.c).
 */
static __attribute__((noinline)) void switch_watched(struct vpmu_pcpu *p, struct vpmu_context *next)
{
	if (!equal(p, next) || next->samplers != p->samplers || !same_vm(p->ctx, next))
		switch_to(p, next, p->keys | next->keys, true);
	runs_now(p, next);
}

static COLD void switch_stale(struct vpmu_pcpu *p, struct vpmu_context *next)
{
	if (context_update(p, next)) {
		charge_slots(p, next->keys & ~p->keys);
		pcpu_enter(p, next, true);
		runs_now(p, next);
	} else if (p->watch | next->watch) {
		switch_watched(p, next);
	} else if (equal(p, next)) {
		runs_now(p, next);
	} else {
		switch_plain(p, next);
	}
}

/* Only tests and tail calls: a switch between equal contexts must stay cheap. Aligned to a cache
 * line: elsewhere in one the same instructions take up to an eighth longer. */
__attribute__((aligned(64))) void vpmu_pcpu_switch(struct vpmu_pcpu *p, struct vpmu_context *next)
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
	if (context_stale(p->ctx, p->host) && context_update(p, p->ctx)) {
		charge_slots(p, p->active & ~p->keys);
		pcpu_enter(p, p->ctx, true);
	} else {
		switch_to(p, p->ctx, p->active, true);
	}
	if (lbr_concerns(p, p->ctx))
		lbr_flush(p);
}

void vpmu_pcpu_flush(struct vpmu_pcpu *p)
{
	pcpu_refresh(p);
}

bool vpmu_pcpu_wants_tick(const struct vpmu_pcpu *p)
{
	return load_relaxed(&p->active) | load_relaxed(&p->keys);
}

void vpmu_pcpu_tick(struct vpmu_pcpu *p)
{
	pcpu_refresh(p);
	if (rotate_counters(p) && p->watch)
		watch_switch(p, p->ctx);
	core_pcpu_look_at(p, p->cell);
}
