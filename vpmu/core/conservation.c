// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Invariant I1, checked on the running system: the hardware's counts equal the rows of all
 * accounts. A control call, for `vpmu check`, the control socket and tests.
 *
 * An audit sums all rows as of one instant of each pCPU, without stopping any. At a safe point each
 * pCPU records its hardware counts and flips the audit bit of its state. From then on, a cell with
 * the old bit has not been summed. The control thread walks all cells, sums each one's rows and
 * flips its bit. An owner does the same before it charges a cell that still has the old bit. The
 * sum of the thread that flips the bit is used. So the cost of a safe point does not depend on the
 * number of cells.
 */
#include <errno.h>
#include <stdlib.h>

#include "vpmu/core/internal.h"

/* Recorded by a pCPU. */
struct books {
	unsigned int pcpu;
	bool taken;
	uint64_t state; /* with the new audit bit */
	uint64_t slots; /* slots to report */
	vpmu_key_t key[VPMU_MAX_SLOTS];
	uint64_t hardware[VPMU_MAX_SLOTS];
	uint64_t charged[VPMU_MAX_SLOTS]; /* initially without the rows */
};

struct audit {
	struct vpmu_host *host;
	struct books *books; /* by home */
};

static struct books *books_of(const struct audit *audit, uint64_t state)
{
	return &audit->books[state >> VPMU_CELL_HOME];
}

/* On the pCPU's owner, at a safe point. */
static void conservation_begin(struct vpmu_pcpu *p, void *arg)
{
	struct books *b = books_of(arg, p->state);
	const struct vpmu_home *home = p->home;
	unsigned int s;

	b->pcpu = p->id;
	b->taken = true;
	b->slots = p->bound & ~p->unsup;
	for (s = 0; s < VPMU_MAX_SLOTS; s++) {
		p->home->seen[s] = 0;
		b->key[s] = p->key[s];
		b->hardware[s] = pcpu_hw_count(p, s) - p->hw_at_key[s];
		b->charged[s] =
			home->retired[s] + home->unclaimed[s] - home->extra[s] - p->hw_at_key[s];
	}
	store_relaxed(&p->state, p->state ^ VPMU_CELL_AUDIT);
	b->state = p->state;
	for (struct vpmu_cell *cell = p->cell; cell; cell = cell->up)
		pcpu_look_at(p, cell);
}

/* Set the audit bit of @cell to that of @state. Returns false if another thread has done so. */
static bool claim(struct vpmu_cell *cell, uint64_t state)
{
	uint64_t now = load_acquire(&cell->state);

	/* While the old bit is set, only the bit changes. */
	return ((now ^ state) & VPMU_CELL_AUDIT) &&
	       __atomic_compare_exchange_n(&cell->state, &now, now ^ VPMU_CELL_AUDIT, false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static void conservation_add_rows(const struct vpmu_cell *cell, uint64_t *to)
{
	const struct vpmu_row *row = cell->row;

	for (uint64_t m = cell->mask; m; m &= m - 1)
		to[__builtin_ctzll(m)] += load_acquire(&row++->total);
}

/* Owner, before @cell is charged. */
void audit_see(struct vpmu_pcpu *p, struct vpmu_cell *cell)
{
	if (claim(cell, p->state))
		conservation_add_rows(cell, p->home->seen);
}

/* The rows do not change until a thread has claimed the cell. */
static void see(const struct audit *audit, struct vpmu_cell *cell)
{
	struct books *b = books_of(audit, load_relaxed(&cell->state));
	uint64_t rows[VPMU_MAX_SLOTS] = {0};

	if (!b->taken)
		return; /* the pCPU is gone */
	conservation_add_rows(cell, rows);
	if (!claim(cell, b->state))
		return;
	for (unsigned int s = 0; s < VPMU_MAX_SLOTS; s++)
		b->charged[s] += rows[s];
}

static void conservation_walk(const struct audit *audit, const struct vpmu_account *a)
{
	const struct vpmu_account *child;
	struct vpmu_cell *cell;

	urcu_memb_read_lock();
	for (cell = load_acquire(&a->cells); cell; cell = load_acquire(&cell->next))
		see(audit, cell);
	urcu_memb_read_unlock();
	cds_list_for_each_entry (child, &a->children, node)
		conservation_walk(audit, child);
}

/* Cells are not freed during an audit. */
static void auditing(struct vpmu_host *host, bool on)
{
	pthread_mutex_lock(&host->tree_lock);
	host->auditing = on;
	pthread_mutex_unlock(&host->tree_lock);
}

struct rows {
	struct vpmu_conservation *row;
	size_t n;
};

static void conservation_show(struct rows *rows, const struct books *b,
			      const struct vpmu_home *home)
{
	unsigned int s;

	vpmu_for_each_slot (s, b->slots)
		rows->row[rows->n++] = (struct vpmu_conservation){
			.pcpu = b->pcpu,
			.key = b->key[s],
			.hardware = b->hardware[s],
			.charged = b->charged[s] + home->seen[s],
		};
}

static int by_pcpu(const void *a, const void *b)
{
	const struct vpmu_conservation *x = a, *y = b;

	if (x->pcpu != y->pcpu)
		return x->pcpu < y->pcpu ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

int vpmu_host_conservation(struct vpmu_host *host,
			   int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg)
{
	struct audit audit = {.host = host};
	struct rows rows = {0};
	size_t room;
	int ret = -ENOMEM, stalled;

	pthread_mutex_lock(&host->ctl_lock);
	room = host->nr_homes ? host->nr_homes : 1;
	audit.books = calloc(room, sizeof(*audit.books));
	rows.row = calloc(room * VPMU_MAX_SLOTS, sizeof(*rows.row));
	if (!audit.books || !rows.row)
		goto out;
	auditing(host, true);
	ret = host_sync_locked(host, conservation_begin, &audit);
	/* Even if a pCPU is stalled: the cells of pCPUs that have begun must get the new bit. */
	conservation_walk(&audit, host->root);
	/* Completes home->seen and makes it visible. */
	stalled = host_sync_locked(host, NULL, NULL);
	ret = ret ? ret : stalled;
	auditing(host, false);
	for (unsigned int i = 0; !ret && i < host->nr_homes; i++) {
		if (audit.books[i].taken)
			conservation_show(&rows, &audit.books[i], host->home[i]);
	}
	qsort(rows.row, rows.n, sizeof(*rows.row), by_pcpu);
	for (size_t i = 0; i < rows.n && !ret; i++)
		ret = fn(&rows.row[i], arg);
out:
	pthread_mutex_unlock(&host->ctl_lock);
	free(audit.books);
	free(rows.row);
	return ret;
}
