/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of libvpmu's core share. Nobody else includes this but tests that look inside.
 *
 * Locks, outermost first:
 *
 *   host->ctl_lock       control calls: one at a time
 *   pcpu->lock           who operates the pCPU, and what it is asked for (sync.c)
 *   host->tree_lock      lists of accounts and cells
 *   host->slots_lock     taking a slot into use
 *   host->lbr_pool.lock  task data
 *
 * The owner of an online pCPU never takes ctl_lock. A control call that waits for an owner holds
 * ctl_lock and nothing else. The switch path takes no lock, nor do local calls on keys in use.
 */
#ifndef VPMU_INTERNAL_H
#define VPMU_INTERNAL_H

#include <pthread.h>

#include "vpmu/account.h"
#include "vpmu/alarm.h"
#include "vpmu/charge.h"
#include "vpmu/conservation.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/hostpmu.h"
#include "vpmu/lbr.h"
#include "vpmu/pcpu.h"
#include "vpmu/rcu.h"
#include "vpmu/sampler.h"
#include "vpmu/taskdata.h"

#define VPMU_BIT(s)	    (1ULL << (s))
#define load_relaxed(p)	    __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)	    __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define likely(x)	    __builtin_expect(!!(x), 1)
#define unlikely(x)	    __builtin_expect(!!(x), 0)

#define vpmu_for_each_slot(s, mask)                                                                \
	for (uint64_t m_ = (mask); m_ && ((s) = __builtin_ctzll(m_), true); m_ &= m_ - 1)

/* ---- slots ---- */

struct vpmu_slot {
	vpmu_key_t key;	      /* 0: the slot was never used */
	unsigned int refs;    /* enabled consumers; goes from 0 to 1 under slots_lock only */
	unsigned int quality; /* the worst enum vpmu_quality of the pCPUs that have counted it */
};

#define VPMU_SLOT_HASH 256

/* ---- accounts ---- */

/* A part of an account's sum: one of its cells, or a child account. */
struct vpmu_part {
	struct cds_list_head node; /* RCU, in the account's cells or children */
	uint64_t dead_gen; /* 0: alive; else its counts are in the views of this gen and later */
	struct rcu_head rcu;
};

/* What one account was charged on one pCPU. */
struct vpmu_cell {
	struct vpmu_counts counts; /* written by the pCPU's owner only */
	uint64_t unsup;		   /* slots with VPMU_UNSUP in counts.unsup; owner only */
	struct vpmu_part part;
	struct vpmu_account *account;
	struct vpmu_pcpu *pcpu;		/* RCU; NULL when the pCPU is gone */
	struct cds_list_head pcpu_node; /* in pcpu->cells, under tree_lock */
};

/* The counts of an account's parts that are gone. Immutable; published by RCU, see account.c. */
struct vpmu_view {
	uint64_t gen;
	struct vpmu_counts folded;
	struct rcu_head rcu;
};

struct vpmu_account {
	/* the switch path reads these; keys: slots in use by this account itself */
	uint64_t keys_local;	  /* written by the pCPU owner only */
	uint64_t keys_ctl;	  /* written under ctl_lock only */
	struct vpmu_context *ctx; /* whose own account this is; NULL for host->other, and others
				   * that have none */
	struct vpmu_account *parent;
	struct vpmu_host *host;

	struct cds_list_head cells;    /* RCU */
	struct cds_list_head children; /* RCU */
	struct vpmu_view *view;	       /* RCU; NULL: no part is gone yet */
	struct vpmu_part part;	       /* in parent->children */
	void *owner;
	unsigned int nr_children;  /* alive, under ctl_lock */
	unsigned int nr_consumers; /* atomic */
	unsigned int nr_contexts;  /* atomic */
	unsigned int mem_refs; /* atomic: 1 for itself, 1 for each child and cell in the lists */
	uint32_t refs_local[VPMU_MAX_SLOTS];
	uint32_t refs_ctl[VPMU_MAX_SLOTS];
	uint32_t samplers;	/* of this account: bit per host->sampler[]; set under ctl_lock */
	unsigned int lbr_users; /* attaches without detach; under ctl_lock */
	uint32_t lbr_ctl;	/* what they capture; under ctl_lock */
};

/* The sum for one slot over an account and everything below it. */
struct vpmu_sum {
	uint64_t count;
	uint64_t time_ns;  /* time of the slot: the account ran where the key can be counted */
	uint64_t idle_ns;  /* part of time_ns: the slot had no counter */
	uint64_t unsup_ns; /* not in time_ns: the account ran where the key cannot be counted */
};

struct vpmu_pool;

struct vpmu_host {
	uint64_t tree_gen;  /* grows when a control call changes the keys of an account */
	uint64_t slots_gen; /* grows when a slot gets another key */
	struct vpmu_slot slot[VPMU_MAX_SLOTS];
	uint8_t hash[VPMU_SLOT_HASH]; /* slot + 1; a hint that is checked against slot[].key */
	pthread_mutex_t slots_lock;

	pthread_mutex_t ctl_lock;
	pthread_mutex_t tree_lock;
	struct cds_list_head pcpus; /* under ctl_lock; struct vpmu_pcpu.node */
	struct vpmu_account *root, *other;
	struct vpmu_pool *pool; /* bindings of control calls */

	/* branch records: lbr.c, lbr_attach.c, taskdata.c */
	struct vpmu_context *contexts; /* all, under ctl_lock */
	struct vpmu_lbr_pool lbr_pool;

	/* sampler.c */
	struct vpmu_sampler *sampler[VPMU_SAMPLERS_MAX]; /* changed under ctl_lock */
};

/* The counter of an active slot, and its last reading. */
struct vpmu_reading {
	const uint64_t *word; /* where it is read, if the PMU has words */
	__u64 snap;	      /* modulo the counter's width */
};

struct vpmu_pcpu {
	/* for the switch path; owner only, except sync_req */
	struct vpmu_host *host;
	struct vpmu_hostpmu *pmu;
	struct vpmu_context *ctx; /* who runs; &host_ctx: no vCPU */
	struct vpmu_cell *cell;
	uint64_t keys;	   /* slots in use by the running account and its ancestors */
	uint64_t active;   /* slots that have a counter */
	uint64_t bound;	   /* slots whose key this pCPU knows (key[], elig[]) */
	uint64_t unsup;	   /* some of bound: this PMU cannot count the key */
	uint64_t watch;	   /* slots on which the running context has alarms or samplers */
	uint32_t samplers; /* samplers of the running account and its ancestors */
	uint64_t slots_gen;
	uint64_t time_snap;
	struct vpmu_taskdata *lbr_data; /* data of ctx that the CPU records for; NULL: it records
					 * nothing. Must be followed only while ctx publishes it:
					 * see lbr.c */
	uint64_t sync_req, sync_ack;	/* under lock; the owner's poll reads sync_req without */
	void (*sync_fn)(struct vpmu_pcpu *p, void *arg); /* under lock */
	void *sync_arg;
	struct vpmu_reading last[VPMU_MAX_SLOTS];
	uint8_t ctr[VPMU_MAX_SLOTS];

	/* assignment of counters to slots */
	uint32_t ctrs_used;
	uint32_t elig[VPMU_MAX_SLOTS];
	uint64_t since[VPMU_MAX_SLOTS]; /* the turn in which the slot got or lost its counter */
	uint64_t turn;			/* grows with each bind and unbind */
	vpmu_key_t key[VPMU_MAX_SLOTS];
	uint8_t refused[VPMU_MAX_SLOTS];       /* how often the host refused the slot in a row */
	uint16_t refused_wait[VPMU_MAX_SLOTS]; /* occasions to let pass before asking again */

	/* conservation.c: see pcpu_hw_count for the first three */
	uint64_t hw_past[VPMU_MAX_SLOTS];    /* counted by the hardware in binds that are over */
	uint64_t hw_at_key[VPMU_MAX_SLOTS];  /* hw_past when the slot got its key */
	uint64_t bind_value[VPMU_MAX_SLOTS]; /* first reading after the bind */
	uint64_t retired[VPMU_MAX_SLOTS];    /* counts of cells that are gone; under tree_lock */
	__u64 unclaimed[VPMU_MAX_SLOTS];     /* counted while nobody who ran had asked for it */

	/* alarm.c */
	uint64_t armed;			   /* some of watch: slots whose counter has an alarm */
	uint64_t arm_left[VPMU_MAX_SLOTS]; /* armed slots: events until the alarm goes off */
	uint64_t sampler_left[VPMU_SAMPLERS_MAX];

	uint64_t lbr_owner; /* lbr.c: id of the data whose records the CPU holds; 0: all zero */

	bool online; /* under lock to change */
	unsigned int id;
	pthread_mutex_t lock;
	pthread_cond_t acked;
	struct vpmu_pool *pool; /* bindings of local calls */
	struct vpmu_context host_ctx;
	struct cds_list_head cells; /* under tree_lock */
	struct cds_list_head node;
	struct rcu_head rcu;
};

/* The state of one consumer. Immutable once it is published, except that cut is decided once. */
struct vpmu_binding {
	int slot; /* -1: not counting */
	struct vpmu_account *account;
	struct vpmu_sum base; /* the account's sum when the binding started */
	struct vpmu_sum acc;  /* what the consumer had counted before that */
	struct vpmu_sum cut;  /* stopping: the account's sum at the stop; CUT_UNSET: not decided */
	bool stopping;
	bool local;
	bool supported;
	enum vpmu_quality quality;
	struct vpmu_binding *next; /* in a pool only */
};

/* binding.c: pools of bindings. One thread at a time uses a pool. */
struct vpmu_pool *pool_create(void);
void pool_put(struct vpmu_pool *pool);
struct vpmu_binding *pool_alloc(struct vpmu_pool *pool);
void pool_release(struct vpmu_pool *pool, struct vpmu_binding *b); /* @b was never published */
void pool_retire(struct vpmu_pool *pool, struct vpmu_binding *b);  /* @b is no longer published */

/* slot.c */
int slot_get(struct vpmu_host *host, vpmu_key_t key); /* the slot, or -ENOSPC */
void slot_put(struct vpmu_host *host, int slot);

/* account.c */
struct vpmu_account *account_alloc(struct vpmu_host *host, struct vpmu_account *parent,
				   void *owner);
/* Add the sum of @a for @slot to *@sum. Inside an RCU read side. */
void account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum);
/* The cell of @a on @pcpu, found or made; NULL: out of memory. */
struct vpmu_cell *account_cell(struct vpmu_account *a, struct vpmu_pcpu *pcpu);
/* Move the counts of @cell to its account's view, when nobody charges it any more. Under ctl_lock.
 * -ENOMEM. */
int account_fold_cell(struct vpmu_cell *cell);
void account_free_tree(struct vpmu_account *a);

/*
 * lbr.c: the branch records' part of a switch and of a safe point. Owner. lbr_switch is called
 * while p->ctx is still who ran before @next. lbr_flush brings the data of p->ctx up to date and
 * takes up changes of what is recorded.
 */
void lbr_switch(struct vpmu_pcpu *p, struct vpmu_context *next);
void lbr_flush(struct vpmu_pcpu *p);
static inline bool lbr_concerns(const struct vpmu_pcpu *p, const struct vpmu_context *next)
{
	/* One test of all three together: nearly always all are NULL. */
	return (uintptr_t)p->lbr_data | (uintptr_t)load_relaxed(&next->lbr.data[VPMU_LBR_GUEST]) |
	       (uintptr_t)load_relaxed(&next->lbr.data[VPMU_LBR_HOST]);
}

/* lbr_attach.c: beginning and end of a context. Under ctl_lock. */
int lbr_context_init(struct vpmu_context *ctx); /* starts a capture it inherits; -ENOMEM */
void lbr_context_fini(struct vpmu_context *ctx);

/* context.c: vpmu_context_fini under ctl_lock */
void context_fini_locked(struct vpmu_context *ctx);

/*
 * alarm.c: distances. Each charge of a slot in p->watch goes through watch_charge. It charges
 * @slots, takes what was counted off the distances of the running context's alarms and of
 * p->samplers, and calls those whose distance is used up. It returns the slots whose hardware alarm
 * went off and must be armed again.
 */
uint64_t watch_charge(struct vpmu_pcpu *p, uint64_t slots);
void watch_rearm(struct vpmu_pcpu *p, uint64_t slots);			 /* arm for p->ctx */
void watch_switch(struct vpmu_pcpu *p, const struct vpmu_context *next); /* arm for @next */
void watch_update(struct vpmu_context *ctx); /* compute ctx->watch anew */

/* sampler.c */
void sampler_pcpu_init(struct vpmu_pcpu *p); /* a new pCPU: its periods begin; under ctl_lock */
uint64_t sampler_slots(const struct vpmu_host *host, uint32_t samplers);
/* Take counted[s], for each slot s in @slots, off the distances of p->samplers. */
void sampler_take(struct vpmu_pcpu *p, uint64_t slots, const uint64_t *counted);
/* Lower least[s], for each slot s in @slots, to the smallest distance of p->samplers on s. */
void sampler_least(const struct vpmu_pcpu *p, uint64_t slots, uint64_t *least);

/* pcpu.c */
void pcpu_refresh(struct vpmu_pcpu *p); /* charge everything and take up changed keys */
/* Charge time and @slots. Returns the slots whose alarms went off; they are armed again. */
uint64_t pcpu_charge(struct vpmu_pcpu *p, uint64_t slots);
/* What the hardware has counted for @slot on @p, under all its keys: hw_past, and the counter that
 * it has now since bind_value. */
uint64_t pcpu_hw_count(struct vpmu_pcpu *p, unsigned int slot);

/* sync.c */
/*
 * Make every pCPU charge everything, take up changed keys, and then call @fn, which may be NULL. An
 * online pCPU's owner does that at its next safe point, and several owners do it at the same time;
 * for pCPUs that are offline this call does it. Returns when all are done. Under ctl_lock.
 */
void host_sync_locked(struct vpmu_host *host, void (*fn)(struct vpmu_pcpu *p, void *arg),
		      void *arg);

#endif
