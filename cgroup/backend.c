// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF backend's implementation of service/backend/backend.h: a node is an account of the BPF
 * program, a counting holds the sums at its start. Sessions call these. A value must never include
 * counts from before its attach, and any loss must show in it.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "cgroup/slot.h"
#include "service/program/memory.h"

struct kcounting {
	struct vpmu_counting c; /* first */
	struct sums sums;	/* of the last reading */
	uint64_t since_ns;	/* when it was attached */
	uint64_t age_ns;	/* of the last reading */
	uint32_t blind;		/* backend_blind() at attach */
	struct kcounting *next_on_cpus;
	struct {
		unsigned int slot;
		uint64_t early_ns; /* see quiet_early() */
		uint32_t gaps;	   /* the slot's cfg.gaps at attach */
		uint64_t ran_ns;   /* running_ns of the last reading */
		struct ksum base;
	} key[];
};

static struct kcounting *backend_counting_of(const struct vpmu_counting *c)
{
	return (struct kcounting *)c;
}

static struct vpmu_counting *backend_counting_new(struct vpmu_backend_node *n, size_t nr_keys)
{
	struct kcounting *c =
		xcalloc(1, sizeof(*c) + nr_keys * (sizeof(c->key[0]) + sizeof(struct sum_key)));

	c->sums = (struct sums){
		.node = knode_of(n), .nr = nr_keys, .key = (struct sum_key *)&c->key[nr_keys]};
	return &c->c;
}

int bpf_backend_slot(const struct vpmu_counting *c, size_t i)
{
	unsigned int slot = backend_counting_of(c)->key[i].slot;

	return slot >= VPMU_MAX_SLOTS || backend_of(c->source)->slot[slot].error ? -1 : (int)slot;
}

static void backend_counting_free(struct vpmu_counting *c)
{
	struct kcounting **at = &backend_of(c->source)->on_cpus;

	while (*at && *at != backend_counting_of(c))
		at = &(*at)->next_on_cpus;
	if (*at)
		*at = (*at)->next_on_cpus;
	free(backend_counting_of(c));
}

/* ---- reading ------------------------------------------------------------------------------ */

/* The scheduler keeps these figures all the time; their time is that for which the threads ran. */
static void read_sched(const struct bpf_backend *k, const struct kcounting *c, size_t i,
		       struct vpmu_value *v)
{
	const struct ksum *base = &c->key[i].base, *now = &c->sums.key[i].now;
	uint64_t time_ns = now->time_ns - base->time_ns;

	*v = (struct vpmu_value){
		/* The scheduler's figures are of threads, not of CPUs. */
		.supported = !k->sched.error[c->key[i].slot - SCHED_SLOT] && !c->c.cpus,
		.enabled_ns = time_ns,
		.running_ns = time_ns,
		.partial = now->lacks != base->lacks,
		.losses = now->lacks - base->lacks,
		.quality = c->key[i].slot == SCHED_SLOT + VPMU_SCHED_IDLE ? VPMU_Q_ESTIMATED
									  : VPMU_Q_EXACT,
	};
	if (v->supported)
		v->count = now->total - base->total;
}

static void read_key(const struct bpf_backend *k, const struct vpmu_counting *c, size_t i)
{
	struct kcounting *kc = backend_counting_of(c);
	const struct ksum *base = &kc->key[i].base;
	struct vpmu_value *v = &c->values[i];
	const struct ksum now = kc->sums.key[i].now;
	uint64_t lost_ns;
	bool inexact;

	if (kc->key[i].slot >= SCHED_SLOT) {
		read_sched(k, kc, i, v);
		return;
	}
	*v = (struct vpmu_value){.supported = !k->slot[kc->key[i].slot].error,
				 .age_ns = kc->age_ns};
	/* After the sums: a charge just before them can have brought early counts. */
	if (kc->key[i].early_ns > v->age_ns && quiet_charged(k, c, kc->since_ns))
		v->age_ns = kc->key[i].early_ns;
	if (!v->supported)
		return;
	v->count = now.total - base->total;
	v->enabled_ns = now.time_ns - base->time_ns;
	lost_ns = now.lost_ns - base->lost_ns;
	/* Lost time is of the event's clock. While the event has no counter it can grow by some
	 * ns more than the time, but the running time of an interval is not below 0. */
	if (v->enabled_ns > lost_ns && v->enabled_ns - lost_ns > kc->key[i].ran_ns)
		kc->key[i].ran_ns = v->enabled_ns - lost_ns;
	v->running_ns = kc->key[i].ran_ns;
	/* An event of switches counts after the program has run: the next task has the switch. */
	inexact = now.missed != base->missed || backend_blind(k) != kc->blind ||
		  (!k->sees_hidden && slot_is_switches(k->slot[kc->key[i].slot].key));
	/* A switch that was not seen is in no account's number of preemptions. */
	v->partial = now.lacks != base->lacks ||
		     (inexact && (knode_of(c->node) != &k->root ||
				  slot_is_preempts(k->slot[kc->key[i].slot].key))) ||
		     k->cfg->gaps[kc->key[i].slot] != kc->key[i].gaps;
	v->losses = now.lacks - base->lacks + now.missed - base->missed + backend_blind(k) -
		    kc->blind + k->cfg->gaps[kc->key[i].slot] - kc->key[i].gaps;
}

/* A value is a difference, so the base moves with what the CPU's sum loses. */
void countings_folded(struct bpf_backend *k, const struct knode *to, unsigned int cpu,
		      unsigned int chunk, const struct kp_cell *c)
{
	for (struct kcounting *kc = k->on_cpus; kc; kc = kc->next_on_cpus) {
		if (!kc->c.cpus[cpu] || !knode_is_below(to, knode_of(kc->c.node)))
			continue;
		for (size_t i = 0; i < kc->c.nr_keys; i++) {
			struct ksum *base = &kc->key[i].base, lost = {0};

			if (kc->key[i].slot >= SCHED_SLOT || kc->key[i].slot / KP_CHUNK != chunk)
				continue;
			node_add_cell(c, kc->key[i].slot, &lost);
			base->total -= lost.total;
			base->time_ns -= lost.time_ns;
			base->lost_ns -= lost.lost_ns;
		}
	}
}

/* Read the sums of all countings in @list in one pass. */
static void backend_take(struct bpf_backend *k, struct vpmu_counting *list)
{
	struct sums *all = NULL;

	for (; list; list = list->next) {
		struct kcounting *c = backend_counting_of(list);

		for (size_t i = 0; i < list->nr_keys; i++)
			c->sums.key[i].slot = c->key[i].slot;
		c->sums.cpus = list->cpus;
		c->sums.next = all;
		all = &c->sums;
	}
	sums_take(k, all);
}

static void read_list(struct vpmu_counting *list)
{
	struct bpf_backend *k;

	if (!list)
		return;
	k = backend_of(list->source);
	/* Ages first: what a CPU has charged by then is in the sums. After them, a charge in
	 * between would make a value that lacks it look current. */
	for (struct vpmu_counting *c = list; c; c = c->next)
		backend_counting_of(c)->age_ns = quiet_age(k, c, backend_counting_of(c)->since_ns);
	backend_take(k, list);
	for (; list; list = list->next)
		for (size_t i = 0; i < list->nr_keys; i++)
			read_key(k, list, i);
}

static void backend_read_values(const struct vpmu_counting *c)
{
	struct kcounting *kc = backend_counting_of(c);
	struct vpmu_counting *next = c->next;

	/* Read this counting alone. */
	kc->c.next = NULL;
	read_list(&kc->c);
	kc->c.next = next;
}

/* ---- flush -------------------------------------------------------------------------------- */

static bool is_marked(const struct bpf_backend *k, uint32_t account)
{
	const struct knode *n = account < k->nr_accounts ? k->nodes[account] : NULL;

	while (n && n->mark != k->mark)
		n = n->parent;
	return n;
}

/* A CPU charges an account when it switches away from it, so only CPUs that run one of the accounts
 * now, or have not seen the last change, are interrupted. */
static void flush_marked(struct bpf_backend *k)
{
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		const struct kp_cpu *st = cpu_state(k, cpu);

		if (k->online[cpu] && !k->quiet[cpu] &&
		    (VPMU_LOAD(&st->gen) != k->cfg->gen ||
		     is_marked(k, __atomic_load_n(&st->at.account, __ATOMIC_ACQUIRE))))
			backend_flush(k, cpu);
	}
}

/* Mark the nodes of @list, and read their threads if it asks for figures of the scheduler. */
static void mark_list(struct bpf_backend *k, const struct vpmu_counting *list)
{
	bool sched = false;

	k->mark++;
	for (; list; list = list->next) {
		knode_of(list->node)->mark = k->mark;
		for (size_t i = 0; i < list->nr_keys; i++)
			sched |= key_is_sched(list->keys[i]);
	}
	if (sched)
		sched_flush(k);
}

static void cgroup_backend_flush(struct vpmu_backend *s, const struct vpmu_counting *list)
{
	struct bpf_backend *k = backend_of(s);

	bpf_backend_tend(k);
	mark_list(k, list);
	flush_marked(k);
}

static void backend_flush_node(struct vpmu_backend_node *n)
{
	struct bpf_backend *k = backend_of(n->source);

	/* Samples first, so that the counts are never behind them. */
	samples_take(k->samples);
	knode_of(n)->mark = ++k->mark;
	flush_marked(k);
	branches_flush(knode_of(n));
}

/* ---- counting ----------------------------------------------------------------------------- */

/* Take a reference to the key's slot for @n; see kslot_get. */
static int use_key(struct bpf_backend *k, struct knode *n, vpmu_key_t key, unsigned int *slot,
		   unsigned int *fresh)
{
	int ret;

	if (key_is_sched(key)) {
		*slot = SCHED_SLOT + vpmu_key_event(key);
		sched_use(k, vpmu_key_event(key));
		return 0;
	}
	ret = kslot_get(k, key, slot, fresh);
	if (ret)
		return ret;
	node_use(n, *slot);
	k->countings++;
	return 0;
}

static int use(struct bpf_backend *k, struct vpmu_counting *list, size_t *n, unsigned int *fresh)
{
	int ret = 0;

	for (; list; list = list->next) {
		for (size_t i = 0; i < list->nr_keys; i++) {
			unsigned int slot;

			ret = use_key(k, knode_of(list->node), list->keys[i], &slot, fresh);
			if (ret)
				return ret;
			backend_counting_of(list)->key[i].slot = slot;
			++*n;
		}
	}
	return 0;
}

/* Update the masks for @list. A change of one node must not visit all of very many. */
static void masks(struct bpf_backend *k, const struct vpmu_counting *list)
{
	if (list && !list->next)
		node_mask(knode_of(list->node));
	else
		node_masks(k);
}

/* Stop counting the first @n keys of @list. All counts are charged when this returns, so all last
 * values are of the same moment of each CPU. */
static void backend_stop(struct bpf_backend *k, struct vpmu_counting *list, size_t n)
{
	struct vpmu_counting *first = list;

	for (; list && n; list = list->next)
		for (size_t i = 0; i < list->nr_keys && n; i++, n--)
			if (!key_is_sched(list->keys[i]))
				node_unuse(knode_of(list->node),
					   backend_counting_of(list)->key[i].slot);
	masks(k, first);
	backend_changed(k);
	backend_flush_all(k);
}

static void backend_release(struct bpf_backend *k, struct vpmu_counting *list, size_t n)
{
	for (; list && n; list = list->next) {
		for (size_t i = 0; i < list->nr_keys && n; i++, n--) {
			unsigned int slot = backend_counting_of(list)->key[i].slot;

			if (slot >= SCHED_SLOT) {
				sched_unuse(k, slot - SCHED_SLOT);
				continue;
			}
			kslot_put(k, slot);
			k->countings--;
		}
	}
	budget_change(k);
	if (!k->countings)
		backend_detach(k);
}

static void base(struct bpf_backend *k, struct vpmu_counting *list)
{
	for (struct vpmu_counting *l = list; l; l = l->next) {
		struct kcounting *c = backend_counting_of(l);

		c->since_ns = k->cfg->since_ns;
		for (size_t i = 0; i < l->nr_keys; i++)
			c->key[i].early_ns = quiet_early(k, l, c->key[i].slot, c->since_ns);
	}
	backend_take(k, list);
	for (; list; list = list->next) {
		struct kcounting *c = backend_counting_of(list);

		c->blind = backend_blind(k);
		for (size_t i = 0; i < list->nr_keys; i++) {
			c->key[i].base = c->sums.key[i].now;
			c->key[i].ran_ns = 0;
			if (c->key[i].slot >= SCHED_SLOT)
				continue;
			c->key[i].gaps = k->cfg->gaps[c->key[i].slot];
			k->slot[c->key[i].slot].counted = true;
		}
	}
}

/* Nothing can have been charged to any node of @list, so a CPU has nothing that a flush could
 * bring. Each takes up the masks with the first binding. */
static bool is_blank(const struct vpmu_counting *list)
{
	while (list && knode_of(list->node)->blank)
		list = list->next;
	return !list;
}

/*
 * New events must be in place on all CPUs before any account has them in its mask: otherwise a CPU
 * could take the difference of a new event and an old one. Hence the grace period between the two
 * changes.
 */
static int cgroup_backend_attach(struct vpmu_backend *s, struct vpmu_counting *list, size_t *failed)
{
	struct bpf_backend *k = backend_of(s);
	const bool counts = k->link;
	unsigned int fresh = 0;
	size_t n = 0;
	int ret;

	*failed = 0;
	bpf_backend_tend(k);
	k->cfg->since_ns = clock_ns(CLOCK_MONOTONIC);
	ret = use(k, list, &n, &fresh);
	*failed = n;
	if (!ret)
		ret = node_grow(k);
	if (!ret)
		budget_change(k);
	if (!ret && fresh && (k->link || fresh & FRESH_HARDWARE)) {
		backend_changed(k);
		backend_sync(k); /* also gives the kernel time to take counters away */
		slot_gaps(k);
	}
	if (!ret) {
		masks(k, list);
		backend_changed(k);
		/* The scheduler's figures need no program. */
		ret = k->countings ? backend_attach(k) : 0;
	}
	if (ret) {
		backend_stop(k, list, n);
		backend_release(k, list, n);
		k->refused++;
		for (; list->next && *failed >= list->nr_keys; list = list->next)
			*failed -= list->nr_keys;
		if (*failed >= list->nr_keys)
			*failed = 0;
		return ret;
	}
	s->base_ns = clock_ns(CLOCK_MONOTONIC);
	/* A session adds a row for each of thousands of new nodes. */
	if (!counts || fresh || !is_blank(list)) {
		backend_flush_all(k);
		mark_list(k, list);
	}
	base(k, list);
	for (; list; list = list->next) {
		if (!list->cpus)
			continue;
		backend_counting_of(list)->next_on_cpus = k->on_cpus;
		k->on_cpus = backend_counting_of(list);
	}
	return 0;
}

static void cgroup_backend_detach(struct vpmu_backend *s, struct vpmu_counting *list)
{
	struct bpf_backend *k = backend_of(s);
	size_t n = 0;

	bpf_backend_tend(k);
	for (struct vpmu_counting *l = list; l; l = l->next)
		n += l->nr_keys;
	backend_stop(k, list, n);
	mark_list(k, list);
	read_list(list);
	backend_release(k, list, n);
}

void bpf_backend_base_get(const struct vpmu_counting *c, size_t i, struct bpf_backend_base *out)
{
	const struct kcounting *kc = backend_counting_of(c);
	const struct ksum *base = &kc->key[i].base;
	uint64_t early_ms = (kc->key[i].early_ns + 999999) / 1000000;

	*out = (struct bpf_backend_base){
		.total = base->total,
		.time_ns = base->time_ns,
		.lost_ns = base->lost_ns,
		.gaps = kc->key[i].gaps,
		.early_ms = early_ms < UINT32_MAX ? (uint32_t)early_ms : UINT32_MAX,
		.lacks = base->lacks,
		.missed = base->missed,
		.blind = kc->blind,
		.slot = kc->key[i].slot,
		.use = slot_use(backend_of(c->source), kc->key[i].slot),
	};
}

int bpf_backend_base_set(struct vpmu_counting *c, size_t i, const struct bpf_backend_base *base)
{
	struct ksum *b = &backend_counting_of(c)->key[i].base;
	unsigned int slot = backend_counting_of(c)->key[i].slot;

	if (base->slot != slot || base->use != slot_use(backend_of(c->source), slot))
		return -EINVAL;
	/* A base above today's totals is of other counts: totals only grow. */
	if (base->total > b->total || base->time_ns > b->time_ns || base->lost_ns > b->lost_ns)
		return -EINVAL;
	*b = (struct ksum){base->total, base->time_ns, base->lost_ns, (uint32_t)base->lacks,
			   (uint32_t)base->missed};
	backend_counting_of(c)->key[i].gaps = base->gaps;
	backend_counting_of(c)->key[i].early_ns = base->early_ms * 1000000ULL;
	backend_counting_of(c)->since_ns = 0; /* unknown, before today's */
	backend_counting_of(c)->blind = (uint32_t)base->blind;
	return 0;
}

const struct vpmu_backend_ops bpf_backend_ops = {
	.node_add = node_add,
	.node_remove = node_remove,
	.counting_new = backend_counting_new,
	.counting_free = backend_counting_free,
	.attach = cgroup_backend_attach,
	.detach = cgroup_backend_detach,
	.flush = cgroup_backend_flush,
	.flush_node = backend_flush_node,
	.read = backend_read_values,
	.read_list = read_list,
	.can_count = can_count,
	.sharing = slot_sharing,
	.conservation = conserve,
	.sample_start = sample_start,
	.sample_stop = sample_stop,
	.sample_read = sample_read,
	.sample_take = sample_take,
	.sample_state = sample_state,
	.branches_attach = branches_attach,
	.branches_detach = branches_detach,
	.branches_read = branches_get,
	.branches_usage = branches_usage,
	.branches_why = branches_why,
};
