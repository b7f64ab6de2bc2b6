// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tree of nodes: their accounts, masks and sums. A count is charged to one account only, that
 * of the node the task ran in, so a node's count is the sum over everything below it. backend.c and
 * bind.c call this.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/priv.h"
#include "service/program/memory.h"

/* Free cells kept ready on each CPU for accounts that run there for the first time. */
#define CELLS_AHEAD 2048u

struct kp_account *account_at(const struct bpf_backend *k, uint32_t account)
{
	struct kp_account *page = k->accounts.page[account / KP_PAGE_ACCOUNTS];

	return page ? page + account % KP_PAGE_ACCOUNTS : NULL;
}

/* ---- cells -------------------------------------------------------------------------------- */

static uint32_t *index_at(const struct bpf_backend *k, unsigned int cpu, uint32_t account,
			  unsigned int chunk)
{
	uint32_t *page = k->index.page[kp_index_page(k->nr_cpus, chunk, cpu, account)];

	return page ? page + account % KP_PAGE_ACCOUNTS : NULL;
}

static struct kp_cell *node_cell_nr(const struct bpf_backend *k, unsigned int cpu, uint32_t nr)
{
	struct kp_cell *page;

	if (nr <= KP_NEAR)
		return &cpu_state(k, cpu)->near_cell[nr];
	page = k->cells.page[kp_cell_page(cpu, nr)];
	return page ? page + kp_cell_at(nr) : NULL;
}

struct kp_cell *node_cell(const struct bpf_backend *k, unsigned int cpu, uint32_t account,
			  unsigned int chunk)
{
	const uint32_t *at = index_at(k, cpu, account, chunk);
	uint32_t nr = at ? __atomic_load_n(at, __ATOMIC_ACQUIRE) : 0;

	return nr ? node_cell_nr(k, cpu, nr) : NULL;
}

/* The cell of @account among the daemon's own, allocated if needed; NULL: no memory. */
static struct kp_cell *own_cell(struct bpf_backend *k, uint32_t account, unsigned int chunk)
{
	struct kp_cpu *st = cpu_state(k, k->nr_cpus);
	uint32_t *at = index_at(k, k->nr_cpus, account, chunk);

	if (!at)
		return NULL;
	if (!*at) {
		if (st->cells >= st->cells_max)
			return NULL;
		*at = ++st->cells;
	}
	return node_cell_nr(k, k->nr_cpus, *at);
}

void node_add_cell(const struct kp_cell *c, unsigned int slot, struct ksum *out)
{
	const struct vpmu_row *row = &c->row[slot % KP_CHUNK];

	out->total += VPMU_LOAD(&row->total);
	out->lost_ns += VPMU_LOAD(&row->lost);
	out->time_ns += VPMU_LOAD(&c->time_ns);
}

uint64_t cpu_sum(const struct bpf_backend *k, unsigned int cpu, unsigned int slot)
{
	const struct kp_cpu *st = cpu_state(k, cpu);
	struct ksum sum = {.total = kp_unclaimed(st, slot) + st->folded[slot]};
	const struct kp_cell *c;

	for (uint32_t account = 0; account < k->nr_accounts; account++) {
		c = node_cell(k, cpu, account, slot / KP_CHUNK);
		if (c)
			node_add_cell(c, slot, &sum);
	}
	return sum.total;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Indices of pages that are missing. */
struct missing {
	uint32_t *index, n, room;
};

static void miss(struct missing *m, const struct pages *p, uint32_t i)
{
	if (p->page[i])
		return;
	if (m->n == m->room) {
		m->room = m->room ? m->room * 2 : 64;
		m->index = xreallocarray(m->index, m->room, sizeof(*m->index));
	}
	m->index[m->n++] = i;
}

static int node_add_missing(struct pages *p, struct missing *m)
{
	int ret = m->n ? pages_add(p, m->index, m->n) : 0;

	m->n = 0;
	return ret;
}

/* Number of cells needed in pages, beyond the near ones. */
static uint64_t cells_wanted(const struct bpf_backend *k, unsigned int cpu)
{
	const uint64_t all = (uint64_t)k->nr_accounts * k->chunks,
		       used = __atomic_load_n(&cpu_state(k, cpu)->cells, __ATOMIC_RELAXED);
	uint64_t want = used + CELLS_AHEAD;

	want = want < all ? want : all; /* limit: one for every account */
	want = want > KP_NEAR ? want - KP_NEAR : 0;
	return want < (uint64_t)KP_CELL_PAGES * KP_PAGE_CELLS ? want
							      : KP_CELL_PAGES * KP_PAGE_CELLS;
}

int node_grow(struct bpf_backend *k)
{
	struct missing m = {0};
	uint64_t want;
	int ret;

	for (uint32_t a = 0; a < k->nr_accounts; a += KP_PAGE_ACCOUNTS)
		miss(&m, &k->accounts, a / KP_PAGE_ACCOUNTS);
	ret = node_add_missing(&k->accounts, &m);
	for (uint32_t a = 0; !ret && a < k->nr_accounts; a += KP_PAGE_ACCOUNTS)
		for (unsigned int chunk = 0; chunk < k->chunks; chunk++)
			for (unsigned int cpu = 0; cpu <= k->nr_cpus; cpu++)
				miss(&m, &k->index, kp_index_page(k->nr_cpus, chunk, cpu, a));
	if (!ret)
		ret = node_add_missing(&k->index, &m);
	for (unsigned int cpu = 0; !ret && cpu <= k->nr_cpus; cpu++) {
		want = cells_wanted(k, cpu);
		for (uint64_t nr = 0; nr < want; nr += KP_PAGE_CELLS)
			miss(&m, &k->cells, kp_cell_page(cpu, KP_NEAR + 1 + (uint32_t)nr));
	}
	if (!ret)
		ret = node_add_missing(&k->cells, &m);
	for (unsigned int cpu = 0; !ret && cpu <= k->nr_cpus; cpu++) {
		want = (cells_wanted(k, cpu) + KP_PAGE_CELLS - 1) / KP_PAGE_CELLS * KP_PAGE_CELLS;
		want += KP_NEAR;
		if (want > cpu_state(k, cpu)->cells_max)
			/* After the pages exist: find_cell() allocates numbers up to this. */
			__atomic_store_n(&cpu_state(k, cpu)->cells_max, (uint32_t)want,
					 __ATOMIC_RELEASE);
	}
	free(m.index);
	return ret;
}

/* Allocate the next unused number. */
static int next_account(struct bpf_backend *k, struct knode *n)
{
	if (k->nr_accounts == KP_MAX_ACCOUNTS)
		return -ENOSPC;
	if (k->nr_accounts % KP_PAGE_ACCOUNTS == 0)
		k->nodes = xreallocarray(k->nodes, k->nr_accounts + KP_PAGE_ACCOUNTS,
					 sizeof(struct knode *));
	n->account = k->nr_accounts++;
	k->nodes[n->account] = n;
	return 0;
}

static int new_account(struct bpf_backend *k, struct knode *n)
{
	int ret;

	if (k->nr_free) {
		n->account = k->free_accounts[--k->nr_free];
		k->nodes[n->account] = n;
		return 0;
	}
	ret = next_account(k, n);
	k->cfg->nr_accounts = k->nr_accounts;
	return ret;
}

static void node_free_account(struct bpf_backend *k, uint32_t account)
{
	k->nodes[account] = NULL;
	if (k->nr_free == k->room_free) {
		k->room_free += KP_PAGE_ACCOUNTS;
		k->free_accounts =
			xreallocarray(k->free_accounts, k->room_free, sizeof(*k->free_accounts));
	}
	k->free_accounts[k->nr_free++] = account;
}

/* ---- masks -------------------------------------------------------------------------------- */

static void set_mask(struct bpf_backend *k, struct knode *n, uint64_t from_above)
{
	struct kp_account *a = account_at(k, n->account);

	n->mask = n->own | from_above;
	if (k->taken_over && a) /* the former process's sessions may be attached again */
		n->mask |= a->mask;
	if (a && a->mask != n->mask)
		__atomic_store_n(&a->mask, n->mask, __ATOMIC_RELAXED);
	for (struct knode *c = n->child; c; c = c->next)
		set_mask(k, c, n->mask);
}

/* Count the accounts that count exactly the first 1, 2, 3 or 4 keys. */
static void count_usual(const struct knode *n, uint32_t count[KP_CHUNK + 1])
{
	for (unsigned int i = 1; i <= KP_CHUNK; i++)
		count[i] += n->mask == (1ULL << i) - 1;
	for (n = n->child; n; n = n->next)
		count_usual(n, count);
}

void node_masks(struct bpf_backend *k)
{
	uint32_t count[KP_CHUNK + 1] = {0}, usual = 1;

	set_mask(k, &k->root, 0);
	count_usual(&k->root, count);
	for (unsigned int i = 2; i <= KP_CHUNK; i++)
		if (count[i] > count[usual])
			usual = i;
	__atomic_store_n(&k->cfg->usual, usual, __ATOMIC_RELAXED);
}

void node_mask(struct knode *n)
{
	set_mask(backend_of(n->n.source), n, n->parent ? n->parent->mask : 0);
}

void node_use(struct knode *n, unsigned int slot)
{
	if (!n->refs)
		n->refs = xcalloc(VPMU_MAX_SLOTS, sizeof(*n->refs));
	n->refs[slot]++;
	n->own |= 1ULL << slot;
}

void node_unuse(struct knode *n, unsigned int slot)
{
	if (--n->refs[slot])
		return;
	n->own &= ~(1ULL << slot);
	if (!n->own) {
		free(n->refs);
		n->refs = NULL;
	}
}

/* ---- nodes -------------------------------------------------------------------------------- */

void knode_link(struct knode *n, struct knode *parent)
{
	struct bpf_backend *k = backend_of(parent->n.source);
	struct kp_account *a = account_at(k, n->account);

	parent->blank = false;
	n->parent = parent;
	n->next = parent->child;
	if (parent->child)
		parent->child->link = &n->next;
	n->link = &parent->child;
	parent->child = n;
	a->parent = parent->account;
	/* A VM without a tenant is one of its own. */
	a->tenant = parent == &k->root || parent == &k->other
			    ? n->account
			    : account_at(k, parent->account)->tenant;
}

void knode_unlink(struct knode *n)
{
	*n->link = n->next;
	if (n->next)
		n->next->link = n->link;
}

void node_set_name(struct bpf_backend *k, struct knode *n, uint64_t name)
{
	n->name = name;
	account_at(k, n->account)->name = name;
}

int node_orphan(struct bpf_backend *k, uint32_t i)
{
	const struct kp_account *a = account_at(k, i);
	struct knode *n = xcalloc(1, sizeof(*n));
	int ret = next_account(k, n);

	if (!ret && a && a->parent) {
		n->n.source = &k->source;
		n->orphan = true;
		n->name = a->name;
		n->mask = a->mask;
		return 0;
	}
	if (!ret)
		node_free_account(k, i);
	free(n);
	return ret;
}

int node_add(struct vpmu_backend_node *parent, uint64_t serial, struct vpmu_backend_node **out)
{
	struct bpf_backend *k = backend_of(parent->source);
	struct knode *p = knode_of(parent), *n = xcalloc(1, sizeof(*n));
	int ret = new_account(k, n);

	if (ret) {
		free(n);
		return ret;
	}
	n->n = (struct vpmu_backend_node){.source = &k->source, .serial = serial};
	if (k->link || !account_at(k, n->account))
		ret = node_grow(k);
	if (ret) {
		node_free_account(k, n->account);
		free(n);
		return ret;
	}
	knode_link(n, p);
	if (p->mask) {
		set_mask(k, n, p->mask);
		backend_changed(k);
	}
	n->blank = true;
	*out = &n->n;
	return 0;
}

/* A CPU may still charge the account, so it stays below its parent until node_fold. */
void node_remove(struct vpmu_backend_node *node)
{
	struct knode *n = knode_of(node);
	struct bpf_backend *k = backend_of(node->source);

	sampling_settle(k);
	totals_drop(k, n);
	bind_move(k, n, n->parent);
	node_set_name(k, n, 0);
	n->removed = true;
	k->nr_removed++;
	if (!k->link || k->nr_removed >= KP_REMOVED_MAX)
		node_fold(k);
}

/* Move @n's charges to the daemon's cells of @to. Returns false, with nothing moved, if there is no
 * memory. */
static bool fold_chunk(struct bpf_backend *k, const struct knode *n, const struct knode *to,
		       unsigned int chunk)
{
	struct kp_cell *dst = NULL, *c;

	for (unsigned int cpu = 0; cpu <= k->nr_cpus; cpu++) {
		c = node_cell(k, cpu, n->account, chunk);
		if (!c)
			continue;
		if (!dst)
			dst = own_cell(k, to->account, chunk);
		if (!dst)
			return false;
		if (cpu < k->nr_cpus)
			countings_folded(k, to, cpu, chunk, c);
		dst->time_ns += c->time_ns;
		for (unsigned int i = 0; i < KP_CHUNK; i++) {
			dst->row[i].total += c->row[i].total;
			dst->row[i].lost += c->row[i].lost;
			if (cpu < k->nr_cpus)
				cpu_state(k, cpu)->folded[chunk * KP_CHUNK + i] += c->row[i].total;
		}
		*c = (struct kp_cell){0};
	}
	return true;
}

static bool is_current(const struct bpf_backend *k, uint32_t account)
{
	for (unsigned int cpu = 0; k->link && cpu < k->nr_cpus; cpu++)
		if (__atomic_load_n(&cpu_state(k, cpu)->at.account, __ATOMIC_ACQUIRE) == account)
			return true;
	return false;
}

static void fold(struct bpf_backend *k, struct knode *n)
{
	struct kp_account *a = account_at(k, n->account), *to = account_at(k, n->parent->account);

	for (unsigned int chunk = 0; chunk < k->chunks; chunk++)
		if (!fold_chunk(k, n, n->parent, chunk))
			return;
	if (a && to) {
		__atomic_add_fetch(&to->lacks, a->lacks, __ATOMIC_RELAXED);
		__atomic_add_fetch(&to->missed, a->missed, __ATOMIC_RELAXED);
		to->sched_lost += a->sched_lost;
		for (unsigned int i = 0; i < KP_SCHED; i++)
			to->sched[i] += a->sched[i];
		totals_drop(k, n);
		*a = (struct kp_account){0};
	}
	knode_unlink(n);
	node_free_account(k, n->account);
	k->nr_removed--;
	free(n->refs);
	free(n);
}

/* Children before their parents: all children of a removed node are removed, too. */
static void fold_below(struct bpf_backend *k, struct knode *n)
{
	struct knode *next;

	for (struct knode *c = n->child; c; c = next) {
		next = c->next;
		fold_below(k, c);
		if (c->removed && !c->child && !is_current(k, c->account))
			fold(k, c);
	}
}

void node_fold(struct bpf_backend *k)
{
	if (!k->nr_removed)
		return;
	if (node_grow(k))
		return;
	k->folded_ns = clock_ns(CLOCK_MONOTONIC);
	if (k->link)
		backend_sync(k); /* after this no CPU looks up a removed account */
	fold_below(k, &k->root);
}

int node_init(struct bpf_backend *k)
{
	int ret;

	k->root.n.source = k->other.n.source = &k->source;
	k->nodes = xcalloc(KP_PAGE_ACCOUNTS, sizeof(struct knode *));
	k->nr_accounts = KP_OTHER + 1; /* account 0 belongs to no node */
	k->root.account = KP_ROOT;
	k->other.account = KP_OTHER;
	k->nodes[KP_ROOT] = &k->root;
	k->nodes[KP_OTHER] = &k->other;
	ret = node_grow(k);
	if (ret)
		return ret;
	account_at(k, KP_ROOT)->parent = KP_ROOT;
	if (k->taken_over) {
		k->root.mask = account_at(k, KP_ROOT)->mask;
		k->other.mask = account_at(k, KP_OTHER)->mask;
	} else {
		k->cfg->nr_accounts = k->nr_accounts;
	}
	knode_link(&k->other, &k->root);
	return 0;
}

static void free_below(struct knode *n)
{
	struct knode *next;

	for (struct knode *c = n->child; c; c = next) {
		next = c->next;
		free_below(c);
		free(c->refs);
		free(c);
	}
}

void node_exit(struct bpf_backend *k)
{
	/* other is a member of the backend */
	if (k->other.link) {
		*k->other.link = k->other.next;
		free_below(&k->other);
	}
	free_below(&k->root);
	free(k->root.refs);
	free(k->other.refs);
	free(k->nodes);
	free(k->free_accounts);
}
