// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tree of accounts: sums that are computed when somebody reads, and removal under readers.
 * Consumers and sessions read through this; control calls make and remove accounts and cells.
 *
 * The sum of an account is its view (the counts of parts that are gone), plus its cells, plus its
 * children. A reader takes no lock and can be a signal handler. Removing a part must move the
 * part's counts from the list into the view at one instant for each reader. That is done in four
 * steps:
 *
 *   1. set part.dead_gen = view.gen + 1           readers of the old view still count the part
 *   2. publish the view {gen + 1, folded + part}  readers of the new view skip the part
 *   3. a grace period later, unlink the part      nobody uses the old view any more
 *   4. another grace period later, free the part  nobody walks over it any more
 *
 * A reader loads the view first, with acquire, and then walks the lists. The acquire pairs with the
 * release of step 2, so a reader of the new view sees the dead_gen of step 1.
 */
#include <errno.h>
#include <stdlib.h>

#include "vpmu/internal.h"

struct vpmu_account *account_alloc(struct vpmu_host *host, struct vpmu_account *parent, void *owner)
{
	struct vpmu_account *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->host = host;
	a->parent = parent;
	a->owner = owner;
	a->mem_refs = 1;
	CDS_INIT_LIST_HEAD(&a->cells);
	CDS_INIT_LIST_HEAD(&a->children);
	return a;
}

int vpmu_account_create(struct vpmu_account *parent, void *owner, struct vpmu_account **out)
{
	struct vpmu_host *host = parent->host;
	struct vpmu_account *a = account_alloc(host, parent, owner);

	if (!a)
		return -ENOMEM;
	pthread_mutex_lock(&host->ctl_lock);
	pthread_mutex_lock(&host->tree_lock);
	parent->nr_children++;
	__atomic_add_fetch(&parent->mem_refs, 1, __ATOMIC_RELAXED);
	cds_list_add_tail_rcu(&a->part.node, &parent->children);
	pthread_mutex_unlock(&host->tree_lock);
	pthread_mutex_unlock(&host->ctl_lock);
	*out = a;
	return 0;
}

void *vpmu_account_owner(const struct vpmu_account *account)
{
	return account->owner;
}

/* ---- sums ---- */

static bool part_counts(const struct vpmu_part *part, uint64_t gen)
{
	uint64_t dead = load_acquire(&part->dead_gen);

	return dead == 0 || dead > gen;
}

static void sum_counts(const struct vpmu_counts *c, int slot, struct vpmu_sum *sum)
{
	uint64_t unsup, time_ns, t;

	/* The acquire pairs with the release in VPMU_STORE (charge.h): a total with a count in it
	 * that was charged after a binding was replaced makes the replacement visible, and
	 * vpmu_consumer_read looks again. */
	sum->count += load_acquire(&c->total[slot]);
	/* Word and time must be of one moment: with an old word, a newer time would run on where
	 * the slot's time stands still. A signal handler that interrupted the writer finds the word
	 * unchanged and does not loop. */
	do {
		unsup = load_acquire(&c->unsup[slot]);
		time_ns = load_acquire(&c->time_ns);
	} while (unsup != load_acquire(&c->unsup[slot]));
	t = vpmu_slot_time(unsup, time_ns);
	sum->time_ns += t;
	sum->unsup_ns += time_ns - t;
	sum->idle_ns += load_acquire(&c->idle_ns[slot]);
}

void account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum)
{
	const struct vpmu_view *view = load_acquire(&a->view);
	uint64_t gen = view ? view->gen : 0;
	struct vpmu_part *part;

	if (view)
		sum_counts(&view->folded, slot, sum);
	cds_list_for_each_entry_rcu (part, &a->cells, node) {
		if (part_counts(part, gen))
			sum_counts(&caa_container_of(part, struct vpmu_cell, part)->counts, slot,
				   sum);
	}
	cds_list_for_each_entry_rcu (part, &a->children, node) {
		if (part_counts(part, gen))
			account_sum(caa_container_of(part, struct vpmu_account, part), slot, sum);
	}
}

/* ---- cells ---- */

struct vpmu_cell *account_cell(struct vpmu_account *a, struct vpmu_pcpu *pcpu)
{
	struct vpmu_host *host = a->host;
	struct vpmu_cell *cell = NULL;
	struct vpmu_part *part;

	urcu_memb_read_lock();
	cds_list_for_each_entry_rcu (part, &a->cells, node) {
		cell = caa_container_of(part, struct vpmu_cell, part);
		if (load_relaxed(&cell->pcpu) == pcpu && !load_relaxed(&part->dead_gen))
			break;
		cell = NULL;
	}
	urcu_memb_read_unlock();
	/* Only the caller makes cells for @pcpu (its owner, or control while it is offline), so no
	 * other thread can have made the cell meanwhile. */
	if (cell)
		return cell;
	if (posix_memalign((void **)&cell, 64, sizeof(*cell)))
		return NULL;
	*cell = (struct vpmu_cell){.account = a, .pcpu = pcpu};
	pthread_mutex_lock(&host->tree_lock);
	cds_list_add(&cell->pcpu_node, &pcpu->cells);
	__atomic_add_fetch(&a->mem_refs, 1, __ATOMIC_RELAXED);
	cds_list_add_tail_rcu(&cell->part.node, &a->cells);
	pthread_mutex_unlock(&host->tree_lock);
	return cell;
}

/* Take @cell out of its pCPU's list, and keep its counts for the pCPU's conservation sum. */
static void cell_retire(struct vpmu_cell *cell)
{
	if (!cell->pcpu)
		return;
	for (int s = 0; s < VPMU_MAX_SLOTS; s++)
		cell->pcpu->retired[s] += cell->counts.total[s];
	cds_list_del(&cell->pcpu_node);
	store_release(&cell->pcpu, NULL);
}

/* ---- folding ---- */

/* Add @c, which no longer changes, to @to. */
static void add_counts(struct vpmu_counts *to, const struct vpmu_counts *c)
{
	uint64_t time_ns = load_acquire(&c->time_ns);

	to->time_ns += time_ns;
	for (int s = 0; s < VPMU_MAX_SLOTS; s++) {
		to->total[s] += load_acquire(&c->total[s]);
		to->idle_ns[s] += load_acquire(&c->idle_ns[s]);
		to->unsup[s] += time_ns - vpmu_slot_time(load_acquire(&c->unsup[s]), time_ns);
	}
}

/* Add all counts of @a to @to. They change only by folds, and ctl_lock keeps those out. */
static void account_counts(const struct vpmu_account *a, struct vpmu_counts *to)
{
	uint64_t gen = a->view ? a->view->gen : 0;
	struct vpmu_part *part;

	if (a->view)
		add_counts(to, &a->view->folded);
	urcu_memb_read_lock();
	cds_list_for_each_entry_rcu (part, &a->cells, node) {
		if (part_counts(part, gen))
			add_counts(to, &caa_container_of(part, struct vpmu_cell, part)->counts);
	}
	cds_list_for_each_entry_rcu (part, &a->children, node) {
		if (part_counts(part, gen))
			account_counts(caa_container_of(part, struct vpmu_account, part), to);
	}
	urcu_memb_read_unlock();
}

static void view_free(struct rcu_head *head)
{
	free(caa_container_of(head, struct vpmu_view, rcu));
}

/* Steps 1 and 2: from now on, new readers of @a find @next instead of the old view plus @part. */
static void fold(struct vpmu_account *a, struct vpmu_part *part, struct vpmu_view *next)
{
	struct vpmu_view *old = a->view;

	store_release(&part->dead_gen, next->gen);
	/* The release pairs with the acquire of the view in account_sum. */
	store_release(&a->view, next);
	if (old)
		urcu_memb_call_rcu(&old->rcu, view_free);
}

/* A copy of the view of @a with the next generation; NULL: out of memory. */
static struct vpmu_view *view_next(const struct vpmu_account *a)
{
	struct vpmu_view *next = malloc(sizeof(*next));

	if (!next)
		return NULL;
	if (a->view)
		*next = *a->view;
	else
		*next = (struct vpmu_view){.gen = 0};
	next->gen++;
	return next;
}

static void account_unref(struct vpmu_account *a)
{
	if (__atomic_sub_fetch(&a->mem_refs, 1, __ATOMIC_ACQ_REL) == 0) {
		free(a->view);
		free(a);
	}
}

static void cell_free(struct rcu_head *head)
{
	struct vpmu_cell *cell = caa_container_of(head, struct vpmu_cell, part.rcu);
	struct vpmu_account *a = cell->account;

	free(cell);
	account_unref(a);
}

static void cell_unlink(struct rcu_head *head)
{
	struct vpmu_cell *cell = caa_container_of(head, struct vpmu_cell, part.rcu);
	struct vpmu_host *host = cell->account->host;

	pthread_mutex_lock(&host->tree_lock);
	cds_list_del_rcu(&cell->part.node);
	pthread_mutex_unlock(&host->tree_lock);
	urcu_memb_call_rcu(&cell->part.rcu, cell_free);
}

int account_fold_cell(struct vpmu_cell *cell)
{
	struct vpmu_account *a = cell->account;
	struct vpmu_view *next = view_next(a);

	if (!next)
		return -ENOMEM;
	add_counts(&next->folded, &cell->counts);
	pthread_mutex_lock(&a->host->tree_lock);
	cell_retire(cell);
	pthread_mutex_unlock(&a->host->tree_lock);
	fold(a, &cell->part, next);
	urcu_memb_call_rcu(&cell->part.rcu, cell_unlink);
	return 0;
}

/* Step 4 for an account. Its cells go with it, since nobody can reach them any more. */
static void account_free(struct rcu_head *head)
{
	struct vpmu_account *a = caa_container_of(head, struct vpmu_account, part.rcu);
	struct vpmu_account *parent = a->parent;
	struct vpmu_part *part, *tmp;

	cds_list_for_each_entry_safe (part, tmp, &a->cells, node) {
		if (part->dead_gen)
			continue; /* its own callbacks free it and drop the reference */
		cds_list_del(&part->node);
		free(caa_container_of(part, struct vpmu_cell, part));
		__atomic_sub_fetch(&a->mem_refs, 1, __ATOMIC_RELAXED);
	}
	account_unref(a);
	account_unref(parent);
}

static void account_unlink(struct rcu_head *head)
{
	struct vpmu_account *a = caa_container_of(head, struct vpmu_account, part.rcu);
	struct vpmu_host *host = a->host;

	pthread_mutex_lock(&host->tree_lock);
	cds_list_del_rcu(&a->part.node);
	pthread_mutex_unlock(&host->tree_lock);
	urcu_memb_call_rcu(&a->part.rcu, account_free);
}

int vpmu_account_del(struct vpmu_account *a)
{
	struct vpmu_host *host = a->host;
	struct vpmu_view *next = NULL;
	struct vpmu_part *part;
	int ret = -EBUSY;

	pthread_mutex_lock(&host->ctl_lock);
	if (!a->parent || a == host->other || a->nr_children || a->lbr_users ||
	    load_acquire(&a->nr_consumers) || load_acquire(&a->nr_contexts))
		goto out;
	ret = -ENOMEM;
	next = view_next(a->parent);
	if (!next)
		goto out;
	account_counts(a, &next->folded);
	pthread_mutex_lock(&host->tree_lock);
	cds_list_for_each_entry (part, &a->cells, node) {
		if (!part->dead_gen)
			cell_retire(caa_container_of(part, struct vpmu_cell, part));
	}
	pthread_mutex_unlock(&host->tree_lock);
	fold(a->parent, &a->part, next);
	a->parent->nr_children--;
	urcu_memb_call_rcu(&a->part.rcu, account_unlink);
	ret = 0;
out:
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}

/* The last call of a host, after urcu_memb_barrier: no callback is in flight. */
void account_free_tree(struct vpmu_account *a)
{
	struct vpmu_part *part, *tmp;

	cds_list_for_each_entry_safe (part, tmp, &a->children, node)
		account_free_tree(caa_container_of(part, struct vpmu_account, part));
	cds_list_for_each_entry_safe (part, tmp, &a->cells, node)
		free(caa_container_of(part, struct vpmu_cell, part));
	free(a->view);
	free(a);
}
