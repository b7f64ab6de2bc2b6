// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Invariant I1, checked on the running system: what the hardware counted equals the sum over all
 * accounts. A control call, for `vpmu check`, the control socket and tests.
 */
#include <errno.h>
#include <stdlib.h>

#include "vpmu/internal.h"

struct rows {
	struct vpmu_conservation *row;
	size_t n, room;
};

/* Runs on the pCPU's owner at a safe point, so that counters and sums are of one instant. */
static void collect(struct vpmu_pcpu *p, void *arg)
{
	struct rows *rows = arg;
	struct vpmu_cell *cell;

	pthread_mutex_lock(&p->host->tree_lock);
	for (unsigned int s = 0; s < VPMU_MAX_SLOTS; s++) {
		uint64_t charged = p->retired[s] + p->unclaimed[s];

		if (!(p->bound & VPMU_BIT(s)) || (p->unsup & VPMU_BIT(s)) || rows->n == rows->room)
			continue;
		cds_list_for_each_entry (cell, &p->cells, pcpu_node)
			charged += load_acquire(&cell->counts.total[s]);
		rows->row[rows->n++] = (struct vpmu_conservation){
			.pcpu = p->id,
			.key = p->key[s],
			.hardware = pcpu_hw_count(p, s) - p->hw_at_key[s],
			.charged = charged - p->hw_at_key[s],
		};
	}
	pthread_mutex_unlock(&p->host->tree_lock);
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
	struct rows rows = {0};
	struct vpmu_pcpu *p;
	int ret = -ENOMEM;

	pthread_mutex_lock(&host->ctl_lock);
	cds_list_for_each_entry (p, &host->pcpus, node)
		rows.room += VPMU_MAX_SLOTS;
	rows.row = calloc(rows.room ? rows.room : 1, sizeof(*rows.row));
	if (!rows.row)
		goto out;
	host_sync_locked(host, collect, &rows);
	qsort(rows.row, rows.n, sizeof(*rows.row), by_pcpu);
	ret = 0;
	for (size_t i = 0; i < rows.n && !ret; i++)
		ret = fn(&rows.row[i], arg);
out:
	pthread_mutex_unlock(&host->ctl_lock);
	free(rows.row);
	return ret;
}
