// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Consumers, see consumer.h. Register models and sessions call this. The control form is in
 * consumer_ctl.c.
 *
 * The state for readers is a latch: two copies and a sequence number, as in the kernel's
 * seqcount_latch_t. Readers use the copy that the number selects. A writer changes the other copy
 * and then increments the number, so a signal handler that interrupts the writer finds a complete
 * copy and never waits. A reader on another thread retries if the number has changed. Writers
 * allocate nothing and never wait for readers. Nothing here may write the copy in use, except to
 * decide the cut of a consumer that stops.
 */
#include <errno.h>
#include <stdlib.h>

#include "vpmu/core/consumer_local.h"
#include "vpmu/core/internal.h"

static struct vpmu_sum sum_of(const struct vpmu_account *a, int slot)
{
	struct vpmu_sum sum = {0};

	urcu_memb_read_lock();
	account_sum(a, slot, &sum);
	urcu_memb_read_unlock();
	return sum;
}

static struct vpmu_sum plus(const struct vpmu_sum *a, const struct vpmu_sum *b)
{
	return (struct vpmu_sum){
		.count = a->count + b->count,
		.time_ns = a->time_ns + b->time_ns,
		.idle_ns = a->idle_ns + b->idle_ns,
		.unsup_ns = a->unsup_ns + b->unsup_ns,
	};
}

static struct vpmu_sum minus(const struct vpmu_sum *a, const struct vpmu_sum *b)
{
	return (struct vpmu_sum){
		.count = a->count - b->count,
		.time_ns = a->time_ns - b->time_ns,
		.idle_ns = a->idle_ns - b->idle_ns,
		.unsup_ns = a->unsup_ns - b->unsup_ns,
	};
}

/* ---- the latch ---- */

/* The present state. Writer only: the owner in the local form, the holder of ctl_lock otherwise. */
static struct vpmu_state *consumer_now(struct vpmu_consumer *c)
{
	return &c->state[c->seq & 1];
}

/*
 * Make @s the state that readers use.
 *
 * The releases of the words, which come after the previous store of c->seq, pair with the acquires
 * in load_state: a reader that sees a word of @s in the copy of an older number sees at its second
 * load that c->seq has changed. The release of c->seq pairs with its first load in consumer_value:
 * a reader of the new number sees all of @s, and totals no older than those from which @s was
 * computed.
 */
static void publish(struct vpmu_consumer *c, struct vpmu_state *s)
{
	struct vpmu_state *to = &c->state[(c->seq + 1) & 1];

	__atomic_store(&to->how, &s->how, __ATOMIC_RELEASE);
	store_release(&to->account, s->account);
	store_release(&to->add.count, s->add.count);
	store_release(&to->add.time_ns, s->add.time_ns);
	store_release(&to->add.idle_ns, s->add.idle_ns);
	store_release(&to->add.unsup_ns, s->add.unsup_ns);
	store_release(&c->seq, c->seq + 1);
}

/* If c->seq changes during the call, *@s may mix two states. */
static void load_state(const struct vpmu_state *from, struct vpmu_state *s)
{
	__atomic_load(&from->how, &s->how, __ATOMIC_ACQUIRE);
	s->account = load_acquire(&from->account);
	s->add.count = load_acquire(&from->add.count);
	s->add.time_ns = load_acquire(&from->add.time_ns);
	s->add.idle_ns = load_acquire(&from->add.idle_ns);
	s->add.unsup_ns = load_acquire(&from->add.unsup_ns);
}

/*
 * The undecided value of a cut field, for the stop with sequence number @seq. No sum gets that
 * large. Including @seq keeps a reader of an earlier stop of the same consumer from deciding this
 * one.
 */
static uint64_t cut_unset(uint64_t seq)
{
	return 0xffffULL << 48 | (seq & 0xffffffffffffULL);
}

/* Set *@cut to @mine if it is undecided. Returns the decided value: that of the first caller. */
static uint64_t consumer_decide(uint64_t *cut, uint64_t seq, uint64_t mine)
{
	uint64_t found = cut_unset(seq);

	return __atomic_compare_exchange_n(cut, &found, mine, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE)
		       ? mine
		       : found;
}

/*
 * The account's sum at which a stopping consumer ends.
 *
 * While a control thread stops a consumer, other pCPUs go on charging its account. So the stopping
 * state is published without the final value, and its first user, the stopper or a reader, decides
 * the value. No reader has returned more before: fence_full here pairs with fence_reader in
 * consumer_value. If ours comes first, the other reader sees the new c->seq at its second load and
 * discards its sum. If ours comes second, the sum that we read next is no older than the other
 * reader's. For the choice of fences see internal.h.
 */
static struct vpmu_sum cut_sum(struct vpmu_consumer *c, const struct vpmu_state *s, uint64_t seq)
{
	struct vpmu_sum sum = {0};

	fence_full();
	account_sum(s->account, s->how.slot, &sum);
	return (struct vpmu_sum){
		.count = consumer_decide(&c->cut.count, seq, sum.count),
		.time_ns = consumer_decide(&c->cut.time_ns, seq, sum.time_ns),
		.idle_ns = consumer_decide(&c->cut.idle_ns, seq, sum.idle_ns),
		.unsup_ns = consumer_decide(&c->cut.unsup_ns, seq, sum.unsup_ns),
	};
}

/*
 * Returns the value of @c, and in *@s the corresponding state. Needs an RCU read side, which keeps
 * the accounts of any state found here from being freed.
 */
static struct vpmu_sum consumer_value(const struct vpmu_consumer *c, struct vpmu_state *s)
{
	struct vpmu_sum sum;
	uint64_t seq;

	do {
		do {
			seq = load_acquire(&c->seq);
			load_state(&c->state[seq & 1], s);
		} while (seq != load_acquire(&c->seq));
		sum = (struct vpmu_sum){0};
		if (s->how.kind == VPMU_CONSUMER_STOPPING)
			sum = cut_sum((struct vpmu_consumer *)c, s, seq);
		else if (s->how.kind == VPMU_CONSUMER_COUNTING)
			account_sum(s->account, s->how.slot, &sum);
		/*
		 * The totals can be newer than the end of this state, so the value is valid only if
		 * the state is still current. A signal handler that interrupted the writer never
		 * retries. Pairs with fence_full in cut_sum.
		 */
		fence_reader();
	} while (seq != load_acquire(&c->seq));
	return plus(&sum, &s->add);
}

static struct vpmu_sum value_now(const struct vpmu_consumer *c)
{
	struct vpmu_state s;
	struct vpmu_sum v;

	urcu_memb_read_lock();
	v = consumer_value(c, &s);
	urcu_memb_read_unlock();
	return v;
}

/* Only guests have quotas. */
static struct vpmu_quota *quota_of(const struct vpmu_consumer *c)
{
	return c->local && c->account->ctx ? c->account->ctx->quota : NULL;
}

void consumer_release(struct vpmu_consumer *c)
{
	if (c->local)
		keys_local_del(c->account, c->slot);
	slot_put(c->account->host, c->slot, quota_of(c));
	c->slot = -1;
}

/* ---- starting and stopping ---- */

/*
 * The quality of a value in state @s: the worst among the PMUs that have counted the slot. A local
 * consumer's pCPU, too, may count a key with another quality than when the consumer was added.
 * Inside an RCU read side.
 */
static enum vpmu_quality quality_now(const struct vpmu_state *s)
{
	unsigned int q = s->how.quality;

	if (s->how.kind == VPMU_CONSUMER_COUNTING) {
		unsigned int seen = load_relaxed(&s->account->host->slot[s->how.slot].quality);

		if (seen > q)
			q = seen;
	}
	return (enum vpmu_quality)q;
}

/* True if the key is counted. Until the account has run, this is the result of vpmu_consumer_add.
 */
static bool supported_now(const struct vpmu_state *s, const struct vpmu_sum *v)
{
	return v->time_ns || (s->how.supported && !v->unsup_ns);
}

/* Start counting from the consumer's present value. The account's total must be current. */
void consumer_start(struct vpmu_consumer *c)
{
	struct vpmu_sum base = sum_of(c->account, c->slot), v = value_now(c);
	unsigned int q = consumer_now(c)->how.quality;
	struct vpmu_state s = {
		.how = {.kind = VPMU_CONSUMER_COUNTING,
			.slot = (uint8_t)c->slot,
			.quality = (uint8_t)(q > c->quality ? q : c->quality),
			.supported = c->supported},
		.account = c->account,
		.add = minus(&v, &base),
	};

	publish(c, &s);
}

/*
 * Stop counting. The totals are current. In the local form only the caller charges the account, so
 * the final value is known. In the control form other pCPUs go on charging it, so the final value
 * is decided after the publication (cut_sum), and before the slot can get another key.
 */
void consumer_stop(struct vpmu_consumer *c)
{
	struct vpmu_sum v = value_now(c);
	struct vpmu_state s = *consumer_now(c);

	s.how.quality = (uint8_t)quality_now(&s);
	s.how.supported = supported_now(&s, &v);
	if (!c->local) {
		uint64_t unset = cut_unset(c->seq + 1);

		s.how.kind = VPMU_CONSUMER_STOPPING;
		store_relaxed(&c->cut.count, unset);
		store_relaxed(&c->cut.time_ns, unset);
		store_relaxed(&c->cut.idle_ns, unset);
		store_relaxed(&c->cut.unsup_ns, unset);
		publish(c, &s);
		v = value_now(c);
	}
	s.how.kind = VPMU_CONSUMER_STOPPED;
	s.add = v;
	publish(c, &s);
	consumer_release(c);
}

/* ---- support of a key ---- */

void consumer_ask_pmu(struct vpmu_consumer *c, const struct vpmu_hostpmu *pmu)
{
	enum vpmu_quality q;

	if (!pmu->ops->eligible(pmu, c->key))
		return;
	q = pmu->ops->quality(pmu, c->key);
	if (!c->supported || q > c->quality)
		c->quality = q; /* the worst of all pCPUs */
	c->supported = true;
}

/* ---- local form ---- */

/* Take a slot and put it into use. Counting starts with a refresh of @p and consumer_start. */
static int local_take(struct vpmu_consumer *c, struct vpmu_pcpu *p)
{
	int slot;

	/* The host's ability can have come since the last start: rights, files, vpmud. */
	if (!c->supported)
		consumer_ask_pmu(c, p->pmu);
	if (!c->supported)
		return -EOPNOTSUPP;
	slot = slot_get(c->account->host, c->key, quota_of(c));
	if (slot < 0)
		return slot;
	if (keys_local_prepare(c->account, p, slot)) {
		slot_put(c->account->host, slot, quota_of(c));
		return -ENOMEM;
	}
	c->slot = slot;
	keys_local_add(c->account, slot);
	return 0;
}

/* Start counting, after local_take. */
static void local_start(struct vpmu_consumer *c, struct vpmu_pcpu *p)
{
	if (p->ctx->own == c->account)
		pcpu_refresh(p);
	consumer_start(c);
}

static int local_enable(struct vpmu_consumer *c, struct vpmu_pcpu *p)
{
	int ret;

	if (c->slot >= 0)
		return 0;
	ret = local_take(c, p);
	if (!ret)
		local_start(c, p);
	return ret;
}

static void local_disable(struct vpmu_consumer *c, struct vpmu_pcpu *p)
{
	if (c->slot < 0)
		return;
	consumers_charge(p, c->account, VPMU_BIT(c->slot));
	consumer_stop(c);
}

/* ---- adding and ending ---- */

int consumer_init(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key, bool local)
{
	if (!vpmu_key_valid(key))
		return -EINVAL;
	/* Keep the latch: readers of a previous consumer in this memory may still use it. */
	c->account = account;
	c->key = key;
	c->slot = -1;
	c->local = local;
	c->supported = false;
	c->quality = VPMU_Q_EXACT;
	__atomic_add_fetch(&account->nr_consumers, 1, __ATOMIC_RELAXED);
	return 0;
}

void consumer_fini(struct vpmu_consumer *c)
{
	struct vpmu_state none = {0};
	struct vpmu_account *account = c->account;

	publish(c, &none);
	c->account = NULL;
	__atomic_sub_fetch(&account->nr_consumers, 1, __ATOMIC_RELEASE);
}

/* End a consumer with current totals; consumer_fini must follow. */
void consumer_end(struct vpmu_consumer *c, struct vpmu_value *last)
{
	/*
	 * With concurrent readers: in the control form, none may read more than the final value, or
	 * counts of the slot's next key, so stop first. In the local form the slot keeps its key
	 * until the owner, the calling thread, charges again.
	 */
	if (c->slot >= 0 && !c->local)
		consumer_stop(c);
	if (last)
		vpmu_consumer_read(c, last);
	if (c->slot >= 0)
		consumer_release(c);
}

/* A guest counter comes and goes as often as its guest likes. Functions that consumer_ctl.c calls,
 * too, are not inlined here without the attribute. */
__attribute__((flatten)) int vpmu_consumer_add(struct vpmu_consumer *c,
					       struct vpmu_account *account, vpmu_key_t key,
					       struct vpmu_pcpu *pcpu)
{
	int ret;

	if (!pcpu)
		return vpmu_consumer_add_many(&c, &account, &key, 1, NULL);
	ret = consumer_take(c, account, key, pcpu);
	if (!ret)
		local_start(c, pcpu);
	return ret;
}

int consumer_take(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key,
		  struct vpmu_pcpu *p)
{
	int ret;

	if (!account)
		return local_take(c, p);
	ret = consumer_init(c, account, key, true);
	if (ret)
		return ret;
	ret = local_take(c, p);
	if (ret && ret != -EOPNOTSUPP)
		consumer_fini(c);
	return ret;
}

/* Pending key changes take effect at the next switch and do not concern a consumer that counts
 * already, so they are not applied here. */
void consumers_charge(struct vpmu_pcpu *p, const struct vpmu_account *a, uint64_t slots)
{
	if (!slots || p->ctx->own != a)
		return; /* not running: its totals are current */
	if (likely(!(slots & ~p->keys)))
		pcpu_charge(p, slots);
	else
		pcpu_refresh(p);
}

void consumer_cease(struct vpmu_consumer *c, struct vpmu_value *last)
{
	if (c->slot >= 0)
		consumer_stop(c);
	vpmu_consumer_read(c, last);
}

int vpmu_consumer_enable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu)
{
	return pcpu ? local_enable(c, pcpu) : consumer_ctl_enable(c);
}

void vpmu_consumer_disable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu)
{
	if (pcpu)
		local_disable(c, pcpu);
	else
		consumer_ctl_disable(c);
}

__attribute__((flatten)) void vpmu_consumer_del(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu,
						struct vpmu_value *last)
{
	if (!pcpu) {
		vpmu_consumer_del_many(&c, 1, last);
		return;
	}
	if (c->slot >= 0)
		consumers_charge(pcpu, c->account, VPMU_BIT(c->slot));
	consumer_end(c, last);
	consumer_fini(c);
}

void vpmu_consumer_read(const struct vpmu_consumer *c, struct vpmu_value *out)
{
	struct vpmu_state s;
	struct vpmu_sum v;

	*out = (struct vpmu_value){0};
	urcu_memb_read_lock();
	v = consumer_value(c, &s);
	if (s.how.kind != VPMU_CONSUMER_NONE) {
		out->count = v.count;
		out->enabled_ns = v.time_ns;
		out->running_ns = v.idle_ns < v.time_ns ? v.time_ns - v.idle_ns : 0;
		out->quality = quality_now(&s);
		out->supported = supported_now(&s, &v);
		out->partial = out->running_ns && v.unsup_ns;
		out->losses = (uint32_t)v.unsup_ns;
	}
	urcu_memb_read_unlock();
}

/* ---- freeing ---- */

struct deferred {
	struct rcu_head rcu;
	void *ptr;
};

static void consumer_deferred_free(struct rcu_head *head)
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
	urcu_memb_call_rcu(&d->rcu, consumer_deferred_free);
}
