// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Making and taking down hosts and pCPUs, and the host's figures. Control calls only; nothing here
 * is on the switch path.
 */
#include <errno.h>
#include <stdlib.h>

#include "vpmu/internal.h"

struct vpmu_host *vpmu_host_create(void)
{
	struct vpmu_host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	pthread_mutex_init(&host->ctl_lock, NULL);
	pthread_mutex_init(&host->tree_lock, NULL);
	pthread_mutex_init(&host->slots_lock, NULL);
	taskdata_pool_init(&host->lbr_pool);
	CDS_INIT_LIST_HEAD(&host->pcpus);
	host->tree_gen = 1;
	host->pool = pool_create();
	host->root = account_alloc(host, NULL, NULL);
	if (!host->pool || !host->root || vpmu_account_create(host->root, NULL, &host->other)) {
		free(host->root);
		pool_put(host->pool);
		taskdata_pool_fini(&host->lbr_pool);
		free(host);
		return NULL;
	}
	return host;
}

void vpmu_host_destroy(struct vpmu_host *host)
{
	struct vpmu_pcpu *p, *tmp;

	if (!host)
		return;
	cds_list_for_each_entry_safe (p, tmp, &host->pcpus, node)
		vpmu_pcpu_destroy(p);
	pool_put(host->pool);
	/* A removed part is unlinked by one RCU callback, which queues another that frees it
	 * (account.c): so wait twice. */
	urcu_memb_barrier();
	urcu_memb_barrier();
	taskdata_pool_fini(&host->lbr_pool);
	account_free_tree(host->root);
	pthread_mutex_destroy(&host->ctl_lock);
	pthread_mutex_destroy(&host->tree_lock);
	pthread_mutex_destroy(&host->slots_lock);
	free(host);
}

struct vpmu_account *vpmu_host_root(struct vpmu_host *host)
{
	return host->root;
}

struct vpmu_account *vpmu_host_other(struct vpmu_host *host)
{
	return host->other;
}

void vpmu_host_sharing(struct vpmu_host *host, struct vpmu_sharing *out)
{
	struct vpmu_pcpu *p;

	*out = (struct vpmu_sharing){0};
	for (int s = 0; s < VPMU_MAX_SLOTS; s++) {
		unsigned int refs = load_relaxed(&host->slot[s].refs);

		out->consumers += refs;
		out->keys += refs != 0;
	}
	pthread_mutex_lock(&host->ctl_lock);
	cds_list_for_each_entry (p, &host->pcpus, node)
		out->host_counters += (unsigned int)__builtin_popcountll(load_relaxed(&p->active));
	pthread_mutex_unlock(&host->ctl_lock);
}

static void pcpu_free(struct rcu_head *head)
{
	struct vpmu_pcpu *p = caa_container_of(head, struct vpmu_pcpu, rcu);

	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->acked);
	free(p);
}

int vpmu_pcpu_create(struct vpmu_host *host, struct vpmu_hostpmu *pmu, unsigned int id,
		     struct vpmu_pcpu **out)
{
	struct vpmu_pcpu *p;
	int ret;

	if (!pmu->nr_ctrs || pmu->nr_ctrs > VPMU_MAX_CTRS)
		return -EINVAL;
	if (posix_memalign((void **)&p, 64, sizeof(*p)))
		return -ENOMEM;
	*p = (struct vpmu_pcpu){.host = host, .pmu = pmu, .id = id};
	CDS_INIT_LIST_HEAD(&p->cells);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->acked, NULL);
	p->pool = pool_create();
	ret = p->pool ? vpmu_context_init(&p->host_ctx, host->other, NULL) : -ENOMEM;
	if (!ret)
		ret = vpmu_context_place(&p->host_ctx, p);
	if (ret)
		goto fail;
	p->ctx = &p->host_ctx;
	p->cell = p->host_ctx.own_cell;
	p->time_snap = pmu->ops->now(pmu);
	pthread_mutex_lock(&host->ctl_lock);
	sampler_pcpu_init(p);
	pcpu_refresh(p);
	cds_list_add_tail(&p->node, &host->pcpus);
	pthread_mutex_unlock(&host->ctl_lock);
	*out = p;
	return 0;
fail:
	vpmu_context_fini(&p->host_ctx);
	pool_put(p->pool);
	pcpu_free(&p->rcu);
	return ret;
}

int vpmu_pcpu_destroy(struct vpmu_pcpu *p)
{
	struct vpmu_host *host = p->host;
	struct vpmu_cell *cell, *tmp;
	unsigned int ctr;
	int ret = -EBUSY;

	pthread_mutex_lock(&host->ctl_lock);
	pthread_mutex_lock(&p->lock);
	if (p->online || p->ctx != &p->host_ctx) {
		pthread_mutex_unlock(&p->lock);
		goto out;
	}
	pcpu_refresh(p);
	pthread_mutex_unlock(&p->lock);
	ret = account_fold_cell(p->host_ctx.own_cell);
	if (ret)
		goto out;
	for (uint32_t ctrs = p->ctrs_used; ctrs; ctrs &= ctrs - 1) {
		ctr = (unsigned int)__builtin_ctz(ctrs);
		p->pmu->ops->unbind(p->pmu, ctr);
	}
	pthread_mutex_lock(&host->tree_lock);
	cds_list_for_each_entry_safe (cell, tmp, &p->cells, pcpu_node) {
		cds_list_del(&cell->pcpu_node);
		/* account_cell and vpmu_context_place look at this without the lock. They only
		 * compare the pointer, so it orders nothing. */
		store_release(&cell->pcpu, NULL);
	}
	pthread_mutex_unlock(&host->tree_lock);
	cds_list_del(&p->node);
	context_fini_locked(&p->host_ctx);
	pool_put(p->pool);
	p->pool = NULL;
	urcu_memb_call_rcu(&p->rcu, pcpu_free);
	ret = 0;
out:
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}
