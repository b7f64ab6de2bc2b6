// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who owns a pCPU, and how a control call makes all owners come through a safe point.
 *
 * A control call publishes what it wants, asks every owner, and waits until each owner has charged
 * everything and taken up what has changed. The control thread itself does that for pCPUs without
 * an owner. The owner's side is one load when nobody waits; it must never take ctl_lock.
 */
#include "vpmu/internal.h"

void vpmu_pcpu_online(struct vpmu_pcpu *p)
{
	pthread_mutex_lock(&p->lock);
	p->online = true;
	pthread_mutex_unlock(&p->lock);
}

/* At a safe point, under p->lock. */
static void answer_sync(struct vpmu_pcpu *p)
{
	pcpu_refresh(p);
	if (p->sync_ack != p->sync_req && p->sync_fn)
		p->sync_fn(p, p->sync_arg);
	p->sync_ack = p->sync_req;
	pthread_cond_broadcast(&p->acked);
}

void vpmu_pcpu_offline(struct vpmu_pcpu *p)
{
	pthread_mutex_lock(&p->lock);
	answer_sync(p);
	p->online = false;
	pthread_mutex_unlock(&p->lock);
}

void vpmu_pcpu_poll(struct vpmu_pcpu *p)
{
	/* The acquire pairs with the release in host_sync_locked: we see the keys it is about. */
	if (likely(load_acquire(&p->sync_req) == p->sync_ack))
		return;
	pthread_mutex_lock(&p->lock);
	answer_sync(p);
	pthread_mutex_unlock(&p->lock);
}

/* Ask all online pCPUs before waiting for the first, so that the waits overlap. */
void host_sync_locked(struct vpmu_host *host, void (*fn)(struct vpmu_pcpu *p, void *arg), void *arg)
{
	struct vpmu_pcpu *p;

	cds_list_for_each_entry (p, &host->pcpus, node) {
		pthread_mutex_lock(&p->lock);
		if (p->online) {
			p->sync_fn = fn;
			p->sync_arg = arg;
			/* The release pairs with the acquire in vpmu_pcpu_poll. */
			store_release(&p->sync_req, p->sync_req + 1);
		} else {
			pcpu_refresh(p);
			if (fn)
				fn(p, arg);
		}
		pthread_mutex_unlock(&p->lock);
		if (p->pmu->ops->kick)
			p->pmu->ops->kick(p->pmu);
	}
	cds_list_for_each_entry (p, &host->pcpus, node) {
		pthread_mutex_lock(&p->lock);
		while (p->sync_ack != p->sync_req)
			pthread_cond_wait(&p->acked, &p->lock);
		pthread_mutex_unlock(&p->lock);
	}
}

void vpmu_host_sync(struct vpmu_host *host)
{
	pthread_mutex_lock(&host->ctl_lock);
	host_sync_locked(host, NULL, NULL);
	pthread_mutex_unlock(&host->ctl_lock);
}
