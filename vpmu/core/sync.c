// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Ownership of pCPUs, and syncs: how a control call makes all owners pass a safe point.
 *
 * A control call publishes its changes, sends a request to every owner, and waits until each has
 * charged everything and applied the changes. For pCPUs without an owner the control thread does so
 * itself. The owner's side is one load if there is no request; it must never take ctl_lock.
 *
 * A pCPU whose owner misses the deadline is stalled (p->stalled): later control calls send requests
 * to it but do not wait, until it answers. Memory that its owner may still use is kept until then
 * (host_reap).
 */
#include <errno.h>
#include <time.h>

#include "vpmu/core/internal.h"

#define DEADLINE_NS 10000000000ULL
/* Parts of a deadline; see struct patience. */
#define PIECES 16

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
	if (unlikely(p->stalled)) {
		store_relaxed(&p->stalled, false);
		/* Pairs with the acquire in any_stalled: the owner's accesses are visible. */
		__atomic_sub_fetch(&p->host->nr_stalled, 1, __ATOMIC_RELEASE);
	}
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
	/* The acquire pairs with the release in sync_ask: the changes of the control call are
	 * visible. */
	if (likely(load_acquire(&p->sync_req) == p->sync_ack))
		return;
	pthread_mutex_lock(&p->lock);
	answer_sync(p);
	pthread_mutex_unlock(&p->lock);
}

/* ---- stalled pCPUs ---- */

void vpmu_host_set_deadline(struct vpmu_host *host, uint64_t ns)
{
	store_relaxed(&host->deadline_ns, ns);
}

unsigned int vpmu_host_stalled(struct vpmu_host *host, unsigned int *id)
{
	struct vpmu_pcpu *p;
	unsigned int n = 0;

	urcu_memb_read_lock();
	cds_list_for_each_entry_rcu (p, &host->pcpus, node) {
		if (load_relaxed(&p->stalled) && !n++ && id)
			*id = p->id;
	}
	urcu_memb_read_unlock();
	return n;
}

bool any_stalled(const struct vpmu_host *host)
{
	return load_acquire(&host->nr_stalled) != 0;
}

void host_reap(struct vpmu_host *host)
{
	if ((host->samplers_left || host->lbr_left) && !any_stalled(host)) {
		sampler_reap(host);
		lbr_reap(host);
	}
}

/* ---- the control side ---- */

/*
 * The rest of a control call's deadline. While the process is stopped (SIGSTOP, suspend) or gets no
 * CPU time, the clock goes on but no owner can answer. So the deadline is split into pieces, and
 * each wait uses up one piece, however long it took: a single stop of the process cannot make a
 * pCPU stalled.
 */
struct patience {
	uint64_t piece_ns;
	unsigned int left;     /* pieces, including the present one */
	struct timespec until; /* the end of the present piece */
};

static void next_piece(struct patience *w)
{
	uint64_t ns;

	clock_gettime(CLOCK_MONOTONIC, &w->until);
	ns = (uint64_t)w->until.tv_nsec + w->piece_ns;
	w->until.tv_sec += (time_t)(ns / 1000000000);
	w->until.tv_nsec = (long)(ns % 1000000000);
}

static struct patience patience(const struct vpmu_host *host)
{
	uint64_t ns = load_relaxed(&host->deadline_ns);
	struct patience w = {.piece_ns = (ns ? ns : DEADLINE_NS) / PIECES, .left = PIECES};

	next_piece(&w);
	return w;
}

/* Send the request to the owner of @p; if there is none, execute it here. */
static void sync_ask(struct vpmu_pcpu *p, void (*fn)(struct vpmu_pcpu *p, void *arg), void *arg)
{
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

/* Wait for the owner of @p. After the return it does not call the request's function any more. */
static int sync_wait_for(struct vpmu_pcpu *p, struct patience *w)
{
	int ret = 0;

	pthread_mutex_lock(&p->lock);
	while (p->sync_ack != p->sync_req && !p->stalled) {
		if (pthread_cond_timedwait(&p->acked, &p->lock, &w->until) != ETIMEDOUT ||
		    p->sync_ack == p->sync_req)
			continue;
		if (w->left > 1) {
			w->left--;
			next_piece(w);
			continue;
		}
		store_relaxed(&p->stalled, true);
		__atomic_add_fetch(&p->host->nr_stalled, 1, __ATOMIC_RELAXED);
	}
	if (p->sync_ack != p->sync_req)
		ret = -ETIMEDOUT;
	p->sync_fn = NULL;
	pthread_mutex_unlock(&p->lock);
	return ret;
}

/* All requests are sent before the first wait, so that the waits overlap. */
int host_sync_locked(struct vpmu_host *host, void (*fn)(struct vpmu_pcpu *p, void *arg), void *arg)
{
	struct patience w = patience(host);
	struct vpmu_pcpu *p;
	int ret = 0;

	cds_list_for_each_entry (p, &host->pcpus, node) {
		if (!p->spared)
			sync_ask(p, fn, arg);
	}
	cds_list_for_each_entry (p, &host->pcpus, node) {
		if (!p->spared && sync_wait_for(p, &w))
			ret = -ETIMEDOUT;
		p->spared = false;
	}
	host_reap(host);
	return ret;
}

int vpmu_host_sync(struct vpmu_host *host)
{
	int ret;

	pthread_mutex_lock(&host->ctl_lock);
	ret = host_sync_locked(host, NULL, NULL);
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}

int vpmu_host_sync_some(struct vpmu_host *host, struct vpmu_account *(*next)(void *arg), void *arg)
{
	struct vpmu_account *a;
	int ret;

	pthread_mutex_lock(&host->ctl_lock);
	sync_spare_all(host);
	while ((a = next(arg)))
		sync_concerns(a);
	ret = host_sync_locked(host, NULL, NULL);
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}
