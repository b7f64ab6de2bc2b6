// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The tree of accounts. Control calls make and remove accounts; consumers read their sums here.
 *
 * An event is charged to every account on the path from the context to the root that uses its key.
 * So an account's count is the sum over its own cells, one or a few per pCPU, and removing an
 * account moves nothing: its ancestors have its counts already. Readers take no lock and may be
 * signal handlers, so memory that they can reach is freed a grace period after its removal.
 */
#include <errno.h>
#include <stdlib.h>

#include "vpmu/core/internal.h"

struct vpmu_account *account_alloc(struct vpmu_host *host, struct vpmu_account *parent, void *owner)
{
	struct vpmu_account *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->host = host;
	a->parent = parent;
	a->owner = owner;
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
	store_relaxed(&parent->nr_children, parent->nr_children + 1); /* cell_grow reads it */
	cds_list_add_tail(&a->node, &parent->children);
	pthread_mutex_unlock(&host->ctl_lock);
	*out = a;
	return 0;
}

void *vpmu_account_owner(const struct vpmu_account *account)
{
	return account->owner;
}

static void row_sum(const struct vpmu_cell *cell, const struct vpmu_row *row, struct vpmu_sum *sum)
{
	uint64_t lost, time_ns, stood;

	/* The word and time_ns must belong together: with a stale word, a newer time_ns would count
	 * as running time while the slot is stopped. A signal handler that interrupted the writer
	 * finds the word unchanged and does not loop. */
	do {
		lost = load_acquire(&row->lost);
		time_ns = load_acquire(&cell->time_ns);
	} while (lost != load_acquire(&row->lost));
	/* The acquire pairs with the release in VPMU_STORE (charge.h): a total that includes counts
	 * charged after a consumer's state was replaced makes the new c->seq visible, and
	 * consumer_value (consumer.c) retries. */
	sum->count += load_acquire(&row->total);
	stood = time_ns - vpmu_running(lost, time_ns);
	if (lost & VPMU_UNSUP) {
		sum->time_ns += time_ns - stood;
		sum->unsup_ns += stood;
	} else {
		sum->time_ns += time_ns;
		sum->idle_ns += stood;
	}
}

void account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum)
{
	unsigned int s = (unsigned int)slot;
	const struct vpmu_cell *cell;

	for (cell = load_acquire(&a->cells); cell; cell = load_acquire(&cell->next)) {
		if (cell->mask & VPMU_BIT(s))
			row_sum(cell, &cell->row[slot_rank(cell->mask, s)], sum);
	}
}

static void account_free(struct rcu_head *head)
{
	struct vpmu_account *a = caa_container_of(head, struct vpmu_account, rcu);

	cells_free(a);
	free(a);
}

int vpmu_account_del(struct vpmu_account *a)
{
	struct vpmu_host *host = a->host;
	int ret = -EBUSY;

	pthread_mutex_lock(&host->ctl_lock);
	if (!a->parent || a == host->other || a->nr_children || a->lbr_users ||
	    load_acquire(&a->nr_consumers) || load_acquire(&a->nr_contexts))
		goto out;
	cells_retire(a);
	store_relaxed(&a->parent->nr_children, a->parent->nr_children - 1);
	cds_list_del(&a->node);
	urcu_memb_call_rcu(&a->rcu, account_free);
	ret = 0;
out:
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}

/* For vpmu_host_destroy, after urcu_memb_barrier: no callback is in flight. */
void account_free_tree(struct vpmu_account *a)
{
	struct vpmu_account *child, *tmp;

	cds_list_for_each_entry_safe (child, tmp, &a->children, node)
		account_free_tree(child);
	cells_free(a);
	free(a);
}
