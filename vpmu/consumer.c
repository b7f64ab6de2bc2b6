// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Consumers: see consumer.h. Register models and sessions call this.
 *
 * The whole state of a consumer is one immutable binding. A change publishes a new binding in its
 * place. So a reader anywhere sees the old state or the new one, never a mix, and reading is
 * allowed at any moment. Nothing here may change a binding that is published, except to decide its
 * cut.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/internal.h"

static struct vpmu_sum sum_of(const struct vpmu_account *a, int slot)
{
	struct vpmu_sum sum = {0};

	urcu_memb_read_lock();
	account_sum(a, slot, &sum);
	urcu_memb_read_unlock();
	return sum;
}

/* acc + (now - base), for each field. */
static struct vpmu_sum since(const struct vpmu_sum *acc, const struct vpmu_sum *now,
			     const struct vpmu_sum *base)
{
	return (struct vpmu_sum){
		.count = acc->count + now->count - base->count,
		.time_ns = acc->time_ns + now->time_ns - base->time_ns,
		.idle_ns = acc->idle_ns + now->idle_ns - base->idle_ns,
		.unsup_ns = acc->unsup_ns + now->unsup_ns - base->unsup_ns,
	};
}

/*
 * Replace the published binding by @b.
 *
 * The exchange is a release, which pairs with the acquire loads of c->binding in
 * vpmu_consumer_read: a reader that finds @b finds its contents. It is also a full barrier before
 * the totals that stop() reads next, which pairs with the acquire loads of totals in sum_counts
 * (account.c): they are at least as new as the totals of any reader that still found the old
 * binding in place at its second look.
 */
static void publish(struct vpmu_consumer *c, struct vpmu_binding *b, struct vpmu_pool *pool)
{
	pool_retire(pool, __atomic_exchange_n(&c->binding, b, __ATOMIC_SEQ_CST));
}

#define CUT_UNSET UINT64_MAX

/* Set *@cut to *@mine if it is not set yet, and *@mine to *@cut. So everybody who meets the binding
 * uses the number of whoever came first. */
static void decide(uint64_t *cut, uint64_t *mine)
{
	uint64_t expected = CUT_UNSET;

	if (!__atomic_compare_exchange_n(cut, &expected, *mine, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		*mine = expected;
}

/*
 * The value of a consumer by its binding @b. Inside an RCU read side.
 *
 * While a control thread stops a consumer, other pCPUs go on charging its account. So a stopping
 * binding is published without its last value. The first who looks at it, the stopper or a reader,
 * decides that value, and nobody has seen more through this binding before.
 */
static struct vpmu_sum binding_value(struct vpmu_binding *b)
{
	struct vpmu_sum sum = {0};

	if (b->slot < 0)
		return b->acc;
	if (b->stopping) {
		sum = (struct vpmu_sum){load_acquire(&b->cut.count), load_acquire(&b->cut.time_ns),
					load_acquire(&b->cut.idle_ns),
					load_acquire(&b->cut.unsup_ns)};
		if (sum.count != CUT_UNSET && sum.time_ns != CUT_UNSET &&
		    sum.idle_ns != CUT_UNSET && sum.unsup_ns != CUT_UNSET)
			return since(&b->acc, &sum, &b->base);
		sum = (struct vpmu_sum){0};
	}
	account_sum(b->account, b->slot, &sum);
	if (b->stopping) {
		decide(&b->cut.count, &sum.count);
		decide(&b->cut.time_ns, &sum.time_ns);
		decide(&b->cut.idle_ns, &sum.idle_ns);
		decide(&b->cut.unsup_ns, &sum.unsup_ns);
	}
	return since(&b->acc, &sum, &b->base);
}

static struct vpmu_sum value_now(const struct vpmu_consumer *c)
{
	struct vpmu_sum v = {0};

	urcu_memb_read_lock();
	if (c->binding)
		v = binding_value(c->binding);
	urcu_memb_read_unlock();
	return v;
}

/* ---- which slots an account uses ---- */

/*
 * Tell the contexts concerned that the keys of @a have changed. In the local form that is the
 * account's own context, which belongs to the caller. In the control form it is every context, as
 * any could have @a among its ancestors. The release pairs with the acquire of tree_gen in
 * context_update (pcpu.c): whoever sees the new generation sees the new keys.
 */
static void keys_changed(struct vpmu_account *a, bool local)
{
	if (!local)
		__atomic_add_fetch(&a->host->tree_gen, 1, __ATOMIC_RELEASE);
	else if (a->ctx)
		a->ctx->tree_gen = 0;
}

static void keys_add(struct vpmu_account *a, int slot, bool local)
{
	uint32_t *refs = local ? a->refs_local : a->refs_ctl;
	uint64_t *keys = local ? &a->keys_local : &a->keys_ctl;

	if (refs[slot]++)
		return;
	store_release(keys, *keys | VPMU_BIT(slot));
	keys_changed(a, local);
}

static void keys_del(struct vpmu_account *a, int slot, bool local)
{
	uint32_t *refs = local ? a->refs_local : a->refs_ctl;
	uint64_t *keys = local ? &a->keys_local : &a->keys_ctl;

	if (--refs[slot])
		return;
	store_release(keys, *keys & ~VPMU_BIT(slot));
	keys_changed(a, local);
}

static void release(struct vpmu_consumer *c)
{
	keys_del(c->account, c->slot, c->local);
	slot_put(c->account->host, c->slot);
	c->slot = -1;
}

/* ---- starting and stopping ---- */

/*
 * The quality of a binding. Several kinds of pCPU can count for a control consumer, also pCPUs that
 * were created after it: its quality is that of the worst one that has counted the slot. A local
 * consumer has the quality that its pCPU's PMU says.
 */
static enum vpmu_quality quality_now(const struct vpmu_binding *b)
{
	enum vpmu_quality q = b->quality;

	if (!b->local && b->slot >= 0 && !b->stopping) {
		unsigned int seen = load_relaxed(&b->account->host->slot[b->slot].quality);

		if (seen > q)
			q = (enum vpmu_quality)seen;
	}
	return q;
}

/* Make the total of @slot in @a current. Owner of @p. */
static void local_charge(struct vpmu_pcpu *p, const struct vpmu_account *a, int slot)
{
	const struct vpmu_context *ctx = p->ctx;

	if (ctx->own != a)
		return; /* it does not run, so its totals are current */
	if (!ctx->tree_gen || !(p->keys & VPMU_BIT(slot)))
		pcpu_refresh(p); /* its keys changed, perhaps the account charged too */
	else
		pcpu_charge(p, VPMU_BIT(slot));
}

static void local_start(struct vpmu_consumer *c, struct vpmu_pcpu *p, struct vpmu_binding *b)
{
	keys_add(c->account, c->slot, true);
	local_charge(p, c->account, c->slot);
	b->base = sum_of(c->account, c->slot);
	publish(c, b, p->pool);
}

/* Whether the key is counted. Before the account has run anywhere, what was found when the consumer
 * was added holds. */
static bool supported_now(const struct vpmu_binding *b, const struct vpmu_sum *v)
{
	return v->time_ns || (b->supported && !v->unsup_ns);
}

/*
 * Stop: publish the spare binding. The caller has made the totals current. In the local form nobody
 * else charges the account, so the last value is known. In the control form other pCPUs charge it
 * all the time, so the last value is decided after the publication (binding_value).
 */
static void stop(struct vpmu_consumer *c, struct vpmu_pool *pool)
{
	struct vpmu_binding *b = c->spare;
	struct vpmu_sum v = value_now(c);

	*b = *c->binding;
	b->quality = quality_now(b);
	b->supported = supported_now(b, &v);
	c->spare = NULL;
	if (c->local) {
		b->acc = v;
		b->slot = -1;
	} else {
		b->stopping = true;
		b->cut = (struct vpmu_sum){CUT_UNSET, CUT_UNSET, CUT_UNSET, CUT_UNSET};
	}
	publish(c, b, pool);
	value_now(c); /* decides the last value, before the slot can get another key */
	release(c);
}

/* The worse of the quality found when the consumer was added and that of its bindings so far. */
static enum vpmu_quality quality_so_far(const struct vpmu_consumer *c)
{
	return c->binding && c->binding->quality > c->quality ? c->binding->quality : c->quality;
}

/* A binding to start with; and c->spare, to stop with. NULL: out of memory. */
static struct vpmu_binding *prepare(struct vpmu_consumer *c, struct vpmu_pool *pool)
{
	struct vpmu_binding *b;

	if (!c->spare)
		c->spare = pool_alloc(pool);
	if (!c->spare)
		return NULL;
	b = pool_alloc(pool);
	if (b)
		*b = (struct vpmu_binding){
			.slot = c->slot,
			.account = c->account,
			.acc = value_now(c),
			.quality = quality_so_far(c),
			.supported = c->supported,
			.local = c->local,
		};
	return b;
}

/* ---- what a host can do with a key ---- */

static void ask_pmu(struct vpmu_consumer *c, const struct vpmu_hostpmu *pmu)
{
	enum vpmu_quality q;

	if (!pmu->ops->eligible(pmu, c->key))
		return;
	q = pmu->ops->quality(pmu, c->key);
	if (!c->supported || q > c->quality)
		c->quality = q; /* the worst of several kinds of pCPU */
	c->supported = true;
}

/* Under ctl_lock. A host without pCPUs supports every key. */
static void ask_host(struct vpmu_consumer *c)
{
	struct vpmu_host *host = c->account->host;
	struct vpmu_pcpu *p;

	c->supported = cds_list_empty(&host->pcpus);
	cds_list_for_each_entry (p, &host->pcpus, node)
		ask_pmu(c, p->pmu);
}

/* ---- local form ---- */

static int local_enable(struct vpmu_consumer *c, struct vpmu_pcpu *p)
{
	struct vpmu_binding *b;
	int slot;

	if (c->slot >= 0 || !c->supported)
		return c->supported ? 0 : -EOPNOTSUPP;
	slot = slot_get(c->account->host, c->key);
	if (slot < 0)
		return slot;
	c->slot = slot;
	b = prepare(c, p->pool);
	if (!b) {
		slot_put(c->account->host, slot);
		c->slot = -1;
		return -ENOMEM;
	}
	local_start(c, p, b);
	return 0;
}

static void local_disable(struct vpmu_consumer *c, struct vpmu_pcpu *p)
{
	if (c->slot < 0)
		return;
	local_charge(p, c->account, c->slot);
	stop(c, p->pool);
}

/* ---- control form: many at once ---- */

/* Under ctl_lock. Take a slot and put the key into use. The consumer counts after a sync of all
 * pCPUs and ctl_start. */
static int ctl_take(struct vpmu_consumer *c)
{
	struct vpmu_binding *b;
	int slot = slot_get(c->account->host, c->key);

	if (slot < 0)
		return slot;
	c->slot = slot;
	b = prepare(c, c->account->host->pool);
	if (!b) {
		slot_put(c->account->host, slot);
		c->slot = -1;
		return -ENOMEM;
	}
	/* This one does not count. It is published so that readers find acc; ctl_start replaces
	 * it. */
	b->slot = -1;
	publish(c, b, c->account->host->pool);
	keys_add(c->account, slot, false);
	return 0;
}

/* After the sync, when every count from before the call is in the totals. */
static int ctl_start(struct vpmu_consumer *c)
{
	struct vpmu_binding *b = prepare(c, c->account->host->pool);

	if (!b)
		return -ENOMEM;
	b->base = sum_of(c->account, c->slot);
	publish(c, b, c->account->host->pool);
	return 0;
}

/* ---- public ---- */

static int init(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key, bool local)
{
	if (!vpmu_key_valid(key))
		return -EINVAL;
	*c = (struct vpmu_consumer){.account = account, .key = key, .slot = -1, .local = local};
	__atomic_add_fetch(&account->nr_consumers, 1, __ATOMIC_RELAXED);
	return 0;
}

static void fini(struct vpmu_consumer *c, struct vpmu_pool *pool)
{
	struct vpmu_account *account = c->account;
	struct vpmu_binding *b = c->binding;

	store_release(&c->binding, NULL);
	pool_retire(pool, b);
	pool_release(pool, c->spare);
	c->spare = NULL;
	c->account = NULL;
	__atomic_sub_fetch(&account->nr_consumers, 1, __ATOMIC_RELEASE);
}

/* Delete a consumer whose totals are current. */
static void del(struct vpmu_consumer *c, struct vpmu_pool *pool, struct vpmu_value *last)
{
	/*
	 * There can be concurrent readers. In the control form, none of them may read more than the
	 * last value, or what the slot counts for its next key: so stop first. In the local form
	 * the slot keeps its key until the owner, which runs this, charges again.
	 */
	if (c->slot >= 0 && !c->local)
		stop(c, pool);
	if (last)
		vpmu_consumer_read(c, last);
	if (c->slot >= 0)
		release(c);
	fini(c, pool);
}

int vpmu_consumer_add(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key,
		      struct vpmu_pcpu *pcpu)
{
	int ret;

	if (!pcpu)
		return vpmu_consumer_add_many(&c, &account, &key, 1, NULL);
	ret = init(c, account, key, true);
	if (ret)
		return ret;
	ask_pmu(c, pcpu->pmu);
	ret = local_enable(c, pcpu);
	if (ret && ret != -EOPNOTSUPP)
		fini(c, pcpu->pool);
	return ret;
}

int vpmu_consumer_enable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu)
{
	struct vpmu_host *host = c->account->host;
	int ret;

	if (pcpu)
		return local_enable(c, pcpu);
	pthread_mutex_lock(&host->ctl_lock);
	ret = c->slot >= 0 ? 0 : ctl_take(c);
	if (!ret && c->binding->slot < 0) {
		host_sync_locked(host, NULL, NULL);
		ret = ctl_start(c);
		if (ret)
			release(c);
	}
	pthread_mutex_unlock(&host->ctl_lock);
	return ret ? ret : c->supported ? 0 : -EOPNOTSUPP;
}

void vpmu_consumer_disable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu)
{
	struct vpmu_host *host = c->account->host;

	if (pcpu) {
		local_disable(c, pcpu);
		return;
	}
	pthread_mutex_lock(&host->ctl_lock);
	if (c->slot >= 0) {
		host_sync_locked(host, NULL, NULL);
		stop(c, host->pool);
	}
	pthread_mutex_unlock(&host->ctl_lock);
}

void vpmu_consumer_del(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu, struct vpmu_value *last)
{
	if (!pcpu) {
		vpmu_consumer_del_many(&c, 1, last);
		return;
	}
	if (c->slot >= 0)
		local_charge(pcpu, c->account, c->slot);
	del(c, pcpu->pool, last);
}

int vpmu_consumer_add_many(struct vpmu_consumer **c, struct vpmu_account *const *account,
			   const vpmu_key_t *key, size_t n, size_t *failed)
{
	struct vpmu_host *host;
	bool unsupported = false;
	size_t i, taken = 0, inited = 0;
	int ret = 0;

	if (!n)
		return 0;
	host = account[0]->host;
	pthread_mutex_lock(&host->ctl_lock);
	for (i = 0; i < n; i++) {
		ret = init(c[i], account[i], key[i], false);
		if (ret)
			goto fail;
		inited++;
		ask_host(c[i]);
		unsupported |= !c[i]->supported;
		ret = ctl_take(c[i]);
		if (ret)
			goto fail;
		taken++;
	}
	host_sync_locked(host, NULL, NULL);
	for (i = 0; i < n; i++) {
		ret = ctl_start(c[i]);
		if (ret)
			goto fail;
	}
	pthread_mutex_unlock(&host->ctl_lock);
	return unsupported ? -EOPNOTSUPP : 0;
fail:
	if (failed)
		*failed = i;
	for (size_t k = 0; k < inited; k++) {
		if (k < taken)
			release(c[k]);
		fini(c[k], host->pool);
	}
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}

void vpmu_consumer_del_many(struct vpmu_consumer **c, size_t n, struct vpmu_value *last)
{
	struct vpmu_host *host;

	if (!n)
		return;
	host = c[0]->account->host;
	pthread_mutex_lock(&host->ctl_lock);
	host_sync_locked(host, NULL, NULL);
	for (size_t i = 0; i < n; i++)
		del(c[i], host->pool, last ? &last[i] : NULL);
	pthread_mutex_unlock(&host->ctl_lock);
}

void vpmu_consumer_read(const struct vpmu_consumer *c, struct vpmu_value *out)
{
	struct vpmu_sum v;
	struct vpmu_binding *b;

	*out = (struct vpmu_value){0};
	urcu_memb_read_lock();
	do {
		b = load_acquire(&c->binding);
		if (!b)
			goto out;
		v = binding_value(b);
		/*
		 * The totals can be newer than the end of this binding. The value is right only if
		 * the binding is still in place. The loads of the totals are acquire, so this look
		 * at c->binding comes after them; it pairs with the exchange in publish(). A signal
		 * handler that interrupted the writer never loops, because the writer stands still.
		 */
	} while (b != load_acquire(&c->binding));
	out->count = v.count;
	out->enabled_ns = v.time_ns;
	out->running_ns = v.idle_ns < v.time_ns ? v.time_ns - v.idle_ns : 0;
	out->quality = quality_now(b);
	out->supported = supported_now(b, &v);
	out->partial = out->running_ns && v.unsup_ns;
out:
	urcu_memb_read_unlock();
}

/* ---- freeing ---- */

struct deferred {
	struct rcu_head rcu;
	void *ptr;
};

static void deferred_free(struct rcu_head *head)
{
	struct deferred *d = caa_container_of(head, struct deferred, rcu);

	free(d->ptr);
	free(d);
}

void vpmu_rcu_free(void *ptr)
{
	struct deferred *d;

	if (!ptr)
		return;
	d = malloc(sizeof(*d));
	if (!d) {
		urcu_memb_synchronize_rcu();
		free(ptr);
		return;
	}
	d->ptr = ptr;
	urcu_memb_call_rcu(&d->rcu, deferred_free);
}
