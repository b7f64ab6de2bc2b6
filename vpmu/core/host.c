// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Creation and destruction of hosts and pCPUs, and the host's statistics. Control calls only;
 * nothing here is on the switch path.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "vpmu/core/internal.h"

/* Free @host without what is in it. */
static void host_free(struct vpmu_host *host)
{
	taskdata_pool_fini(&host->lbr_pool);
	pthread_mutex_destroy(&host->ctl_lock);
	pthread_mutex_destroy(&host->tree_lock);
	pthread_mutex_destroy(&host->slots_lock);
	free(host);
}

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
	host->root = account_alloc(host, NULL, NULL);
	if (!host->root || vpmu_account_create(host->root, NULL, &host->other)) {
		free(host->root);
		host_free(host);
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
	host_reap(host);
	/* Twice, because a callback of task data can queue another one (task_waited in taskdata.c).
	 */
	urcu_memb_barrier();
	urcu_memb_barrier();
	account_free_tree(host->root);
	for (unsigned int i = 0; i < host->nr_homes; i++)
		free(host->home[i]);
	free(host->home);
	host_free(host);
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

	*out = (struct vpmu_sharing){.refused = load_relaxed(&host->refused)};
	for (int s = 0; s < VPMU_MAX_SLOTS; s++) {
		unsigned int refs = load_relaxed(&host->slot[s].refs);

		out->consumers += refs;
		out->keys += refs != 0;
	}
	urcu_memb_read_lock();
	cds_list_for_each_entry_rcu (p, &host->pcpus, node)
		out->host_counters += (unsigned int)__builtin_popcountll(load_relaxed(&p->active));
	urcu_memb_read_unlock();
}

static void host_pcpu_free(struct rcu_head *head)
{
	struct vpmu_pcpu *p = caa_container_of(head, struct vpmu_pcpu, rcu);

	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->acked);
	free(p);
}

int vpmu_pcpu_create(struct vpmu_host *host, struct vpmu_hostpmu *pmu, unsigned int id,
		     struct vpmu_pcpu **out)
{
	pthread_condattr_t monotonic;
	struct vpmu_pcpu *p;
	int ret;

	if (!pmu->nr_ctrs || pmu->nr_ctrs > VPMU_MAX_CTRS)
		return -EINVAL;
	if (posix_memalign((void **)&p, 64, sizeof(*p)))
		return -ENOMEM;
	*p = (struct vpmu_pcpu){.host = host, .pmu = pmu, .id = id};
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&p->acked, &monotonic);
	pthread_condattr_destroy(&monotonic);
	ret = vpmu_context_init(&p->host_ctx, host->other, NULL);
	if (ret)
		goto fail;
	pthread_mutex_lock(&host->ctl_lock);
	p->serial = ++host->serials;
	if (!home_get(host, p)) {
		ret = -ENOMEM;
		goto fail_locked;
	}
	ret = vpmu_context_place(&p->host_ctx, p);
	if (ret)
		goto fail_home;
	p->ctx = &p->host_ctx;
	p->cell = &p->none;
	p->none.state = VPMU_CELL_NONE(p->state);
	p->time_snap = pmu->ops->now(pmu);
	sampler_pcpu_init(p);
	pcpu_refresh(p);
	cds_list_add_tail_rcu(&p->node, &host->pcpus);
	pthread_mutex_unlock(&host->ctl_lock);
	*out = p;
	return 0;
fail_home:
	home_leave(p);
fail_locked:
	pthread_mutex_unlock(&host->ctl_lock);
fail:
	vpmu_context_fini(&p->host_ctx);
	host_pcpu_free(&p->rcu);
	return ret;
}

int vpmu_pcpu_destroy(struct vpmu_pcpu *p)
{
	struct vpmu_host *host = p->host;
	int ret = -EBUSY;

	pthread_mutex_lock(&host->ctl_lock);
	pthread_mutex_lock(&p->lock);
	if (p->online || p->ctx != &p->host_ctx) {
		pthread_mutex_unlock(&p->lock);
		goto out;
	}
	pcpu_refresh(p);
	pcpu_unbind_all(p);
	pthread_mutex_unlock(&p->lock);
	cds_list_del_rcu(&p->node);
	context_fini_locked(&p->host_ctx);
	home_leave(p);
	urcu_memb_call_rcu(&p->rcu, host_pcpu_free);
	ret = 0;
out:
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}
