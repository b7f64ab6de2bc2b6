// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Cells: the memory that holds an account's counts, and its lifetime.
 *
 * A control call that adds keys to an account makes cells on the pCPUs where its contexts were
 * placed (visits). Placing a context makes the missing cells on the new pCPU. So a switch finds all
 * cells that it charges. The account's cells are freed with its last control consumer.
 *
 * All changes are under tree_lock, which also guards visits and homes. Control calls publish keys
 * under it, too: a context that is placed concurrently either sees the keys or is found in the
 * visits. Readers walk the cells under RCU. Nothing here is on the switch path.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/core/internal.h"

/* ---- homes ---- */

/* True if @pmu can count exactly those of the host's keys that @home's previous pCPU could. */
static bool same_kinds(const struct vpmu_host *host, const struct vpmu_home *home,
		       const struct vpmu_hostpmu *pmu)
{
	for (int s = 0; s < VPMU_MAX_SLOTS; s++) {
		vpmu_key_t key = load_relaxed(&host->slot[s].key);

		if (key && home->key[s] == key &&
		    !pmu->ops->eligible(pmu, key) != !!(home->unsup & VPMU_BIT(s)))
			return false;
	}
	return true;
}

static struct vpmu_home *home_new(struct vpmu_host *host, unsigned int at)
{
	struct vpmu_home **table = host->home, *home;

	if (at == host->nr_homes) {
		if (at == VPMU_HOMES_MAX)
			return NULL;
		table = realloc(table, (at + 1) * sizeof(*table));
		if (!table)
			return NULL;
		host->home = table;
		table[at] = NULL;
		host->nr_homes++;
	}
	home = calloc(1, sizeof(*home));
	if (home)
		home->state = (uint64_t)at << VPMU_CELL_HOME;
	table[at] = home;
	return home;
}

/* Under ctl_lock. */
struct vpmu_home *home_get(struct vpmu_host *host, struct vpmu_pcpu *p)
{
	struct vpmu_home *home = NULL;
	unsigned int at = host->nr_homes;

	pthread_mutex_lock(&host->tree_lock);
	for (unsigned int i = host->nr_homes; i-- && !home;) {
		if (!host->home[i])
			at = i;
		else if (!host->home[i]->pcpu && same_kinds(host, host->home[i], p->pmu))
			home = host->home[i];
	}
	if (!home)
		home = home_new(host, at);
	if (home) {
		home->pcpu = p;
		p->home = home;
		p->state = home->state + VPMU_CELL_BIND; /* differs from that of every cell */
	}
	pthread_mutex_unlock(&host->tree_lock);
	return home;
}

static void home_free_unused(struct vpmu_host *host, struct vpmu_home *home)
{
	if (home->pcpu || home->nr_cells)
		return;
	host->home[home_of(home->state)] = NULL;
	free(home);
}

/* Under ctl_lock. */
void home_leave(struct vpmu_pcpu *p)
{
	struct vpmu_home *home = p->home;

	pthread_mutex_lock(&p->host->tree_lock);
	home->pcpu = NULL;
	home->state = p->state;
	p->home = NULL;
	home_free_unused(p->host, home);
	pthread_mutex_unlock(&p->host->tree_lock);
}

/*
 * Record and return which of @slots the home's PMU cannot count. Without a pCPU the record stays;
 * only a pCPU that agrees with it can move in (same_kinds).
 */
static uint64_t home_unsup(const struct vpmu_host *host, struct vpmu_home *home, uint64_t slots)
{
	unsigned int s;

	vpmu_for_each_slot (s, slots) {
		vpmu_key_t key = load_acquire(&host->slot[s].key);

		if (home->key[s] == key)
			continue;
		home->key[s] = key;
		if (!home->pcpu)
			continue;
		home->unsup &= ~VPMU_BIT(s);
		if (!home->pcpu->pmu->ops->eligible(home->pcpu->pmu, key))
			home->unsup |= VPMU_BIT(s);
	}
	return home->unsup & slots;
}

/* ---- making cells ---- */

/* A new cell with rows of @slots. Its rows are stopped until the first pcpu_look_at. */
static struct vpmu_cell *cell_alloc(uint64_t state, uint64_t slots, uint64_t unsup)
{
	size_t rows = (size_t)__builtin_popcountll(slots), i = 0;
	struct vpmu_cell *cell = calloc(1, sizeof(*cell) + rows * sizeof(cell->row[0]));
	unsigned int s;

	if (!cell)
		return NULL;
	cell->mask = slots;
	cell->state = VPMU_CELL_NONE(state);
	vpmu_for_each_slot (s, slots)
		cell->row[i++].lost = VPMU_STOPPED | (unsup & VPMU_BIT(s) ? VPMU_UNSUP : 0);
	return cell;
}

/*
 * Set VPMU_UNSUP in the rows of @a by the present keys of their slots. This can change only rows of
 * slots that @a does not use yet; no consumer reads those.
 */
static void cell_label(struct vpmu_account *a)
{
	struct vpmu_cell *cell;
	unsigned int s;

	for (cell = a->cells; cell; cell = cell->next) {
		struct vpmu_home *home = a->host->home[home_of(load_relaxed(&cell->state))];
		uint64_t unsup = home_unsup(a->host, home, cell->mask);

		vpmu_for_each_slot (s, cell->mask) {
			__u64 *lost = &cell->row[slot_rank(cell->mask, s)].lost;

			if (!(load_relaxed(lost) & VPMU_UNSUP) != !(unsup & VPMU_BIT(s)))
				__atomic_xor_fetch(lost, VPMU_UNSUP, __ATOMIC_RELEASE);
		}
	}
}

/* Those of @slots without a row in @cell and the following cells of its pCPU. */
static uint64_t cell_missing(const struct vpmu_cell *cell, uint64_t slots)
{
	for (; cell; cell = cell_next(cell))
		slots &= ~cell->mask;
	return slots;
}

/* Make sure that @a has rows of @slots on @p. */
static int cover(struct vpmu_account *a, struct vpmu_pcpu *p, uint64_t slots)
{
	struct vpmu_cell *first = cell_first(a, p), *cell;

	slots = cell_missing(first, slots);
	if (!slots)
		return 0;
	cell = cell_alloc(load_relaxed(&p->state), slots, home_unsup(a->host, p->home, slots));
	if (!cell)
		return -ENOMEM;
	p->home->nr_cells++;
	cell->next = first ? first->next : a->cells;
	store_release(first ? &first->next : &a->cells, cell);
	return 0;
}

static int visit(struct vpmu_account *a, uint32_t home)
{
	struct vpmu_visits *v = a->visits;
	uint32_t n = v ? v->n : 0;

	for (uint32_t i = 0; i < n; i++) {
		if (v->home[i] == home)
			return 0;
	}
	if (!v || n == v->room) {
		uint32_t room = n ? 2 * n : 4;

		v = realloc(v, sizeof(*v) + room * sizeof(v->home[0]));
		if (!v)
			return -ENOMEM;
		v->n = n;
		v->room = room;
		a->visits = v;
	}
	v->home[v->n++] = home;
	return 0;
}

static uint64_t keys_of(const struct vpmu_account *a)
{
	return load_acquire(&a->keys_local) | load_acquire(&a->keys_ctl);
}

static void cell_drop(struct vpmu_account *a);

int cells_place(struct vpmu_context *ctx, struct vpmu_pcpu *p)
{
	struct vpmu_account *own = ctx->own;
	struct vpmu_host *host = p->host;
	int ret = 0;

	pthread_mutex_lock(&host->tree_lock);
	for (struct vpmu_account *a = own; a && !ret; a = a->parent) {
		if (load_relaxed(&a->ctx) != ctx)
			ret = visit(a, home_of(p->state));
		if (!ret)
			ret = cover(a, p, keys_of(a));
	}
	if (!ret) {
		ctx->pcpu = p;
		ctx->home = home_of(p->state);
		ctx->serial = p->serial;
		if (own->ctx == ctx && !load_acquire(&own->nr_consumers))
			cell_drop(own);
	}
	pthread_mutex_unlock(&host->tree_lock);
	return ret;
}

/* The pCPU of home @n; NULL: gone. */
static struct vpmu_pcpu *pcpu_at(const struct vpmu_host *host, uint32_t n)
{
	return n < host->nr_homes && host->home[n] ? host->home[n]->pcpu : NULL;
}

/* The pCPU on which @a's own context was placed last; NULL: none, or gone. */
static struct vpmu_pcpu *placed_on(const struct vpmu_account *a)
{
	struct vpmu_pcpu *p = a->ctx ? pcpu_at(a->host, a->ctx->home) : NULL;

	return p && p->serial == a->ctx->serial ? p : NULL;
}

/* Call @fn for each pCPU where contexts of @a were placed. Under ctl_lock and tree_lock. */
static int for_each_visited(struct vpmu_account *a,
			    int (*fn)(struct vpmu_account *a, struct vpmu_pcpu *p, uint64_t slots),
			    uint64_t slots)
{
	struct vpmu_pcpu *p = placed_on(a);
	int ret = p ? fn(a, p, slots) : 0;

	for (uint32_t i = 0; a->visits && i < a->visits->n && !ret; i++) {
		p = pcpu_at(a->host, a->visits->home[i]);
		if (p)
			ret = fn(a, p, slots);
	}
	return ret;
}

int cells_ctl_add(struct vpmu_account *a, uint64_t slots)
{
	int ret;

	pthread_mutex_lock(&a->host->tree_lock);
	cell_label(a);
	ret = for_each_visited(a, cover, slots);
	if (!ret)
		store_release(&a->keys_ctl, a->keys_ctl | slots);
	pthread_mutex_unlock(&a->host->tree_lock);
	return ret;
}

/* ---- a vCPU's own keys ---- */

/* If @p charges @old, make it charge @new instead. */
static void charge_instead(struct vpmu_pcpu *p, struct vpmu_cell *old, struct vpmu_cell *new)
{
	for (struct vpmu_cell **at = &p->cell; *at; at = &(*at)->up) {
		if (*at == old) {
			*at = new;
			break;
		}
	}
	if (p->ctx->cell == old)
		p->ctx->cell = new;
}

/*
 * Replace @old by a copy that also has @slots. Only this owner writes cells of the pCPU, so the
 * copy is exact, and each reader finds either of the two.
 */
static int cell_grow(struct vpmu_account *a, struct vpmu_pcpu *p, struct vpmu_cell *old,
		     uint64_t slots)
{
	struct vpmu_cell *new, **at = &a->cells;
	unsigned int s;

	pcpu_look_at(p, old);
	slots |= old->mask;
	new = cell_alloc(p->state, slots, home_unsup(a->host, p->home, slots));
	if (!new)
		return -ENOMEM;
	new->time_ns = old->time_ns;
	new->up = old->up;
	new->next = old->next;
	vpmu_for_each_slot (s, old->mask)
		new->row[slot_rank(slots, s)] = old->row[slot_rank(old->mask, s)];
	while (*at != old)
		at = &(*at)->next;
	store_release(at, new);
	charge_instead(p, old, new);
	vpmu_rcu_free(old);
	if (load_relaxed(&a->nr_children))
		__atomic_add_fetch(&a->host->tree_gen, 1, __ATOMIC_RELEASE);
	return 0;
}

/* Owner only: while a->local is set, no other thread frees the vCPU's cells. */
static bool has_row(const struct vpmu_account *a, const struct vpmu_pcpu *p, uint64_t slot)
{
	return a->local && a->local->slots_gen == load_acquire(&a->host->slots_gen) &&
	       !cell_missing(cell_first(a, p), slot);
}

int cells_local_add(struct vpmu_account *a, struct vpmu_pcpu *p, int slot)
{
	uint64_t slots = VPMU_BIT(slot);
	struct vpmu_cell *first;
	int ret = 0;

	if (has_row(a, p, slots))
		return 0;
	pthread_mutex_lock(&a->host->tree_lock);
	if (!a->local)
		a->local = calloc(1, sizeof(*a->local));
	if (!a->local) {
		ret = -ENOMEM;
		goto out;
	}
	a->local->slots_gen = load_acquire(&a->host->slots_gen);
	cell_label(a);
	first = cell_first(a, p);
	if (first && cell_missing(first, slots))
		ret = cell_grow(a, p, first, slots);
	else
		ret = cover(a, p, slots);
	if (a->ctx)
		a->ctx->tree_gen = 0; /* it may refer to the replaced cell */
out:
	pthread_mutex_unlock(&a->host->tree_lock);
	return ret;
}

/* ---- taking cells away ---- */

/* Keep the totals of @cell and its successors in their homes, for the conservation check. */
static void retire(struct vpmu_host *host, const struct vpmu_cell *cell)
{
	unsigned int s;

	for (; cell; cell = cell->next) {
		struct vpmu_home *home = host->home[home_of(load_relaxed(&cell->state))];

		vpmu_for_each_slot (s, cell->mask)
			home->retired[s] +=
				load_relaxed(&cell->row[slot_rank(cell->mask, s)].total);
		home->nr_cells--;
		home_free_unused(host, home);
	}
}

static void free_list(struct vpmu_cell *cell)
{
	while (cell) {
		struct vpmu_cell *next = cell->next;

		free(cell);
		cell = next;
	}
}

struct deferred {
	struct rcu_head rcu;
	struct vpmu_cell *first;
};

static void cell_deferred_free(struct rcu_head *head)
{
	struct deferred *d = caa_container_of(head, struct deferred, rcu);

	free_list(d->first);
	free(d);
}

/* Under tree_lock, when no pCPU charges the cells of @a, except a stalled one. Without memory, or
 * while a pCPU is stalled, the cells stay until the next call. */
static void cell_drop(struct vpmu_account *a)
{
	struct deferred *d;

	if (!a->cells || a->host->auditing || any_stalled(a->host))
		return;
	d = malloc(sizeof(*d));
	if (!d)
		return;
	d->first = a->cells;
	store_release(&a->cells, NULL);
	retire(a->host, d->first);
	urcu_memb_call_rcu(&d->rcu, cell_deferred_free);
}

void cells_reap(struct vpmu_account *a)
{
	pthread_mutex_lock(&a->host->tree_lock);
	if (!a->keys_ctl) {
		free(a->ctl);
		a->ctl = NULL;
		/* If the vCPU has keys of its own, its owner may be using the cells without the
		 * lock, or growing them. */
		if (!load_relaxed(&a->local))
			cell_drop(a);
	}
	pthread_mutex_unlock(&a->host->tree_lock);
}

void cells_retire(struct vpmu_account *a)
{
	pthread_mutex_lock(&a->host->tree_lock);
	retire(a->host, a->cells);
	pthread_mutex_unlock(&a->host->tree_lock);
}

void cells_free(struct vpmu_account *a)
{
	free_list(a->cells);
	free(a->visits);
	free(a->local);
	free(a->ctl);
}

/* ---- scope of a sync ---- */

void sync_spare_all(struct vpmu_host *host)
{
	struct vpmu_pcpu *p;

	cds_list_for_each_entry (p, &host->pcpus, node)
		p->spared = true;
}

static int concern(struct vpmu_account *a, struct vpmu_pcpu *p, uint64_t slots)
{
	p->spared = false;
	return 0;
}

void sync_concerns(struct vpmu_account *a)
{
	pthread_mutex_lock(&a->host->tree_lock);
	for_each_visited(a, concern, 0);
	pthread_mutex_unlock(&a->host->tree_lock);
}
