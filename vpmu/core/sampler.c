// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Samplers: an operator's profile of an account, by the key's shared counter. Control calls create
 * and destroy them; the switch path (alarm.c) takes samples, without locks or allocation.
 *
 * A sampler is one bit in masks: in its account, in the contexts of the account and its descendants
 * (context_update in pcpu.c collects it from the ancestors), and in the pCPU that runs one of
 * these. Each pCPU has an array for the distances. The sampler's own consumer puts its key into
 * use.
 */
#include <errno.h>
#include <stdlib.h>

#include "vpmu/core/internal.h"

#define PERIOD_MAX (1ULL << 47)

struct vpmu_sampler {
	struct vpmu_sampler_opts opts;
	unsigned int slot; /* of its consumer */
	unsigned int index;
	struct vpmu_consumer consumer;
	bool dead;		   /* atomic: takes no samples any more */
	struct vpmu_sampler *next; /* in host->samplers_left */
};

#define for_each_sampler(s, i, host, mask)                                                         \
	for (uint32_t m_ = (mask);                                                                 \
	     m_ && ((i) = (unsigned int)__builtin_ctz(m_), (s) = (host)->sampler[i], true);        \
	     m_ &= m_ - 1)

/* ---- on the switch path ---- */

uint64_t sampler_slots(const struct vpmu_host *host, uint32_t samplers)
{
	const struct vpmu_sampler *s;
	uint64_t slots = 0;
	unsigned int i;

	for_each_sampler(s, i, host, samplers) slots |= VPMU_BIT(s->slot);
	return slots;
}

void sampler_least(const struct vpmu_pcpu *p, uint64_t slots, uint64_t *least)
{
	const struct vpmu_sampler *s;
	unsigned int i;

	for_each_sampler(s, i, p->host, p->samplers)
	{
		if ((slots & VPMU_BIT(s->slot)) && p->sampler_left[i] < least[s->slot])
			least[s->slot] = p->sampler_left[i];
	}
}

static __attribute__((noinline)) void
sample_with_lbr(struct vpmu_pcpu *p, const struct vpmu_sampler *s, struct vpmu_sample *v)
{
	struct vpmu_lbr_regs regs;

	v->has_lbr = !vpmu_lbr_live(p->ctx, p, &regs, &v->lbr_user);
	v->lbr = v->has_lbr ? &regs : NULL;
	s->opts.sample(s->opts.arg, v);
}

/* Inside an RCU read side, for which sampler_stop waits if the owner is stalled. The acquire of
 * s->dead pairs with the release there. */
static void sampler_sample(struct vpmu_pcpu *p, const struct vpmu_sampler *s, uint64_t periods,
			   uint64_t over)
{
	const struct vpmu_hostpmu *pmu = p->pmu;
	struct vpmu_sample v = {
		.ctx = p->ctx,
		.pcpu = p->id,
		.time_ns = pmu->clock_ns ? load_relaxed(pmu->clock_ns) : pmu->ops->now(pmu),
		.periods = periods,
		.over = over,
	};

	if (load_acquire(&s->dead))
		return;
	/* Without alarms the sample is taken at a later charge, when the position has changed. */
	if (p->ctx->where && pmu->ops->arm) {
		v.where_known = !p->ctx->where(p->ctx, &v.where);
		if (!v.where_known)
			v.where = (struct vpmu_where){0};
	}
	if (s->opts.lbr)
		sample_with_lbr(p, s, &v);
	else
		s->opts.sample(s->opts.arg, &v);
}

void sampler_take(struct vpmu_pcpu *p, uint64_t slots, const uint64_t *counted)
{
	const struct vpmu_sampler *s;
	unsigned int i;

	for_each_sampler(s, i, p->host, p->samplers)
	{
		uint64_t *left = &p->sampler_left[i], over, periods = 1;

		if (!(slots & VPMU_BIT(s->slot)))
			continue;
		if (counted[s->slot] < *left) {
			*left -= counted[s->slot];
			continue;
		}
		over = counted[s->slot] - *left;
		if (over >= s->opts.period) {
			periods += over / s->opts.period;
			over %= s->opts.period;
		}
		*left = s->opts.period - over;
		urcu_memb_read_lock();
		sampler_sample(p, s, periods, over);
		urcu_memb_read_unlock();
	}
}

/* ---- creation and destruction ---- */

void sampler_pcpu_init(struct vpmu_pcpu *p)
{
	for (int i = 0; i < VPMU_SAMPLERS_MAX; i++) {
		if (p->host->sampler[i])
			p->sampler_left[i] = p->host->sampler[i]->opts.period;
	}
}

/* Under ctl_lock. */
static int can_sample(const struct vpmu_host *host, vpmu_key_t key)
{
	struct vpmu_pcpu *p;

	cds_list_for_each_entry (p, &host->pcpus, node) {
		if (p->pmu->ops->arm && p->pmu->ops->eligible(p->pmu, key))
			return 0;
	}
	return -EOPNOTSUPP;
}

/*
 * Under ctl_lock. After the sync no running context has the sampler in its mask, and all others
 * recompute their masks before they run. The pCPUs' last uses of the sampler happen before the end
 * of the sync (pcpu->lock), so its index can be reused.
 *
 * While a pCPU is stalled, the sampler keeps its index and memory, marked dead. The grace period
 * waits for samples that the pCPU's owner may be taking.
 */
static void sampler_stop(struct vpmu_host *host, struct vpmu_sampler *s)
{
	struct vpmu_account *a = s->opts.account;

	store_release(&a->samplers, a->samplers & ~(1u << s->index));
	__atomic_add_fetch(&host->tree_gen, 1, __ATOMIC_RELEASE);
	sync_spare_all(host);
	sync_concerns(a);
	if (!host_sync_locked(host, NULL, NULL)) {
		host->sampler[s->index] = NULL;
		return;
	}
	store_release(&s->dead, true);
	urcu_memb_synchronize_rcu();
}

/* The last step, after sampler_stop if the sampler was started. */
static void sampler_end(struct vpmu_host *host, struct vpmu_sampler *s)
{
	vpmu_consumer_del(&s->consumer, NULL, NULL);
	if (!s->dead) {
		vpmu_rcu_free(s);
		return;
	}
	pthread_mutex_lock(&host->ctl_lock);
	s->next = host->samplers_left;
	host->samplers_left = s;
	pthread_mutex_unlock(&host->ctl_lock);
}

void sampler_reap(struct vpmu_host *host)
{
	struct vpmu_sampler *s;

	while ((s = host->samplers_left)) {
		host->samplers_left = s->next;
		host->sampler[s->index] = NULL;
		vpmu_rcu_free(s);
	}
}

/*
 * Under ctl_lock. Start sampling on every pCPU. The release of a->samplers, after the distances are
 * set, pairs with the acquire in context_update (pcpu.c): a pCPU that sees the sampler sees its
 * distance. In the sync, each pCPU charges its earlier counts and then adds the sampler.
 */
static int sampler_start(struct vpmu_host *host, struct vpmu_sampler *s)
{
	struct vpmu_account *a = s->opts.account;
	int ret = can_sample(host, s->opts.key);
	struct vpmu_pcpu *p;

	if (ret)
		return ret;
	while (s->index < VPMU_SAMPLERS_MAX && host->sampler[s->index])
		s->index++;
	if (s->index == VPMU_SAMPLERS_MAX)
		return -E2BIG;
	host->sampler[s->index] = s;
	cds_list_for_each_entry (p, &host->pcpus, node)
		p->sampler_left[s->index] = s->opts.period;
	store_release(&a->samplers, a->samplers | 1u << s->index);
	__atomic_add_fetch(&host->tree_gen, 1, __ATOMIC_RELEASE);
	sync_spare_all(host);
	sync_concerns(a);
	ret = host_sync_locked(host, NULL, NULL);
	if (ret)
		sampler_stop(host, s);
	return ret;
}

int vpmu_sampler_create(struct vpmu_host *host, const struct vpmu_sampler_opts *opts,
			struct vpmu_sampler **out)
{
	struct vpmu_sampler *s;
	int ret;

	if (opts->period < 1 || opts->period > PERIOD_MAX || !opts->sample ||
	    !vpmu_key_valid(opts->key) || opts->account->host != host)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->opts = *opts;
	ret = vpmu_consumer_add(&s->consumer, opts->account, opts->key, NULL);
	if (ret && ret != -EOPNOTSUPP) {
		free(s);
		return ret;
	}
	if (!ret) {
		s->slot = (unsigned int)s->consumer.slot;
		pthread_mutex_lock(&host->ctl_lock);
		ret = sampler_start(host, s);
		pthread_mutex_unlock(&host->ctl_lock);
	}
	if (ret) {
		sampler_end(host, s);
		return ret;
	}
	*out = s;
	return 0;
}

void vpmu_sampler_destroy(struct vpmu_sampler *s)
{
	struct vpmu_host *host;

	if (!s)
		return;
	host = s->opts.account->host;
	pthread_mutex_lock(&host->ctl_lock);
	sampler_stop(host, s);
	pthread_mutex_unlock(&host->ctl_lock);
	sampler_end(host, s);
}

void vpmu_sampler_read(const struct vpmu_sampler *s, struct vpmu_value *out)
{
	vpmu_consumer_read(&s->consumer, out);
}
