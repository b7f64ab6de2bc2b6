/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What libvpmu's files share and nobody else sees.
 *
 * Locks, outermost first: host->ctl_lock (control calls), pcpu->lock (who operates a pCPU),
 * host->tree_lock (lists of accounts and cells), host->slots_lock (taking a slot into use). Owners
 * of online pCPUs never take ctl_lock, and control never waits for an owner holding anything but
 * ctl_lock. The switch path and local calls on keys in use take none.
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
	vpmu_key_t key;	      /* 0: never used */
	unsigned int refs;    /* enabled consumers; may be taken to 1 under slots_lock only */
	unsigned int quality; /* worst enum vpmu_quality of the pCPUs that took it up */
};

#define VPMU_SLOT_HASH 256

/* ---- accounts ---- */

/* Something whose counts are part of an account's sum: one of its cells, or a child account. */
struct vpmu_part {
	struct cds_list_head node; /* RCU, in the account's cells or children */
	uint64_t dead_gen;	   /* 0: alive; else folded into the views of this gen and later */
	struct rcu_head rcu;
};

struct vpmu_cell {
	struct vpmu_counts counts;
	uint64_t unsup; /* slots with VPMU_UNSUP; the pCPU's owner only */
	struct vpmu_part part;
	struct vpmu_account *account;
	struct vpmu_pcpu *pcpu;		/* RCU; NULL when the pCPU is gone */
	struct cds_list_head pcpu_node; /* in pcpu->cells, under tree_lock */
};

/* Immutable: counts of parts that are gone. Published by RCU, see account.c. */
struct vpmu_view {
	uint64_t gen;
	struct vpmu_counts folded;
	struct rcu_head rcu;
};

struct vpmu_account {
	/* read by the switch path */
	uint64_t keys_local;	  /* written by the pCPU owner only */
	uint64_t keys_ctl;	  /* written under ctl_lock only */
	struct vpmu_context *ctx; /* whose own account this is; NULL: nobody's, or several' */
	struct vpmu_account *parent;
	struct vpmu_host *host;

	struct cds_list_head cells;    /* RCU */
	struct cds_list_head children; /* RCU */
	struct vpmu_view *view;	       /* RCU; NULL: nothing folded yet */
	struct vpmu_part part;	       /* in parent->children */
	void *owner;
	unsigned int nr_children;  /* alive, under ctl_lock */
	unsigned int nr_consumers; /* atomic */
	unsigned int nr_contexts;  /* atomic */
	unsigned int mem_refs;	   /* atomic: itself, and every child or cell still linked */
	uint32_t refs_local[VPMU_MAX_SLOTS];
	uint32_t refs_ctl[VPMU_MAX_SLOTS];
	uint32_t samplers;	/* of this account: bit per host->sampler[]; under ctl_lock */
	unsigned int lbr_users; /* vpmu_lbr_attach, and */
	uint32_t lbr_ctl;	/* with what: under ctl_lock */
};

/* What one sum over an account and everything below it gives for a slot. */
struct vpmu_sum {
	uint64_t count;
	uint64_t time_ns;  /* the slot's: where its key can be counted */
	uint64_t idle_ns;  /* of that: without a counter */
	uint64_t unsup_ns; /* besides: where it cannot be counted */
};

struct vpmu_pool;

struct vpmu_host {
	uint64_t tree_gen;  /* grows when keys of any account change by control */
	uint64_t slots_gen; /* grows when a slot gets another key */
	struct vpmu_slot slot[VPMU_MAX_SLOTS];
	uint8_t hash[VPMU_SLOT_HASH]; /* slot + 1, a hint: checked against slot[].key */
	pthread_mutex_t slots_lock;

	pthread_mutex_t ctl_lock;
	pthread_mutex_t tree_lock;
	struct cds_list_head pcpus; /* under ctl_lock; struct vpmu_pcpu.node */
	struct vpmu_account *root, *other;
	struct vpmu_pool *pool; /* bindings of control calls */

	/* branch records: lbr.c, lbr_attach.c, taskdata.c */
	struct vpmu_context *contexts; /* all, under ctl_lock */
	struct vpmu_lbr_pool lbr_pool;
	unsigned int lbr_faults; /* VPMU_LBR_FAULT_*: what tests break to see that they can fail */

	/* sampler.c */
	struct vpmu_sampler *sampler[VPMU_SAMPLERS_MAX]; /* changed under ctl_lock */
};

#define VPMU_LBR_FAULT_NO_RESTORE 1u /* a task starts with empty records at each switch */
#define VPMU_LBR_FAULT_NO_RESET	  2u /* records of the task before stay in the CPU */

/* The counter of an active slot, and its last reading. */
struct vpmu_reading {
	const uint64_t *word; /* where it is read, if the PMU has words */
	__u64 snap;	      /* modulo the counter's width */
};

struct vpmu_pcpu {
	/* the switch path, owner only (but for sync_req) */
	struct vpmu_host *host;
	struct vpmu_hostpmu *pmu;
	struct vpmu_context *ctx; /* who runs; &host_ctx for the host */
	struct vpmu_cell *cell;
	uint64_t keys;	   /* slots in use by the running account */
	uint64_t active;   /* slots that have a counter */
	uint64_t bound;	   /* slots whose key this pCPU knows */
	uint64_t unsup;	   /* of those: keys this PMU cannot count */
	uint64_t watch;	   /* slots whose counts the running context's distances are taken from */
	uint32_t samplers; /* in reach of the running account */
	uint64_t slots_gen;
	uint64_t time_snap;
	struct vpmu_taskdata *lbr_data; /* lbr.c: of ctx: what the CPU records into; NULL: it does
					 * not. Not to be followed unless ctx still publishes it */
	uint64_t sync_req, sync_ack;	/* under lock but for the owner's poll */
	void (*sync_fn)(struct vpmu_pcpu *p, void *arg); /* under lock */
	void *sync_arg;
	struct vpmu_reading last[VPMU_MAX_SLOTS];
	uint8_t ctr[VPMU_MAX_SLOTS];

	/* assignment of counters to slots */
	uint32_t ctrs_used;
	uint32_t elig[VPMU_MAX_SLOTS];
	uint64_t since[VPMU_MAX_SLOTS]; /* turn in which the slot got or lost its counter */
	uint64_t turn;
	vpmu_key_t key[VPMU_MAX_SLOTS];

	/* conservation: what the hardware counted over past binds, and removed cells' counts */
	uint64_t hw_past[VPMU_MAX_SLOTS];
	uint64_t hw_at_key[VPMU_MAX_SLOTS];
	uint64_t bind_value[VPMU_MAX_SLOTS];
	uint64_t retired[VPMU_MAX_SLOTS]; /* under tree_lock */
	__u64 unclaimed[VPMU_MAX_SLOTS];  /* counted while nobody who ran asked for it */

	/* alarm.c */
	uint64_t armed;			   /* slots whose counter has an alarm; some of watch */
	uint64_t arm_left[VPMU_MAX_SLOTS]; /* armed: events until it goes off */
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

/* One consumer's state, immutable once published, but for the one decision in cut. */
struct vpmu_binding {
	int slot; /* -1: not counting */
	struct vpmu_account *account;
	struct vpmu_sum base; /* the account's sum when it started */
	struct vpmu_sum acc;  /* counted before that */
	struct vpmu_sum cut;  /* stopping: the account's sum when it stopped, or CUT_UNSET */
	bool stopping;
	bool local;
	bool supported;
	enum vpmu_quality quality;
	struct vpmu_binding *next; /* in a pool only */
};

/* binding.c: pools of bindings, so that local calls need no allocation once warm */
struct vpmu_pool *pool_create(void);
void pool_put(struct vpmu_pool *pool);
struct vpmu_binding *pool_alloc(struct vpmu_pool *pool);
void pool_release(struct vpmu_pool *pool, struct vpmu_binding *b); /* never published */
void pool_retire(struct vpmu_pool *pool, struct vpmu_binding *b);  /* after unpublishing */

/* slot.c */
int slot_get(struct vpmu_host *host, vpmu_key_t key); /* slot, or -ENOSPC */
void slot_put(struct vpmu_host *host, int slot);

/* account.c */
struct vpmu_account *account_alloc(struct vpmu_host *host, struct vpmu_account *parent,
				   void *owner);
void account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum); /* in RCU */
struct vpmu_cell *account_cell(struct vpmu_account *a, struct vpmu_pcpu *pcpu); /* find or make */
int account_fold_cell(struct vpmu_cell *cell); /* under ctl_lock; nobody charges it any more */
void account_free_tree(struct vpmu_account *a);

/* lbr.c: the branch records' part of a switch and of a safe point. Owner. */
void lbr_switch(struct vpmu_pcpu *p, struct vpmu_context *next); /* before p->ctx is @next */
void lbr_flush(struct vpmu_pcpu *p); /* p->ctx's data are as new as its records, changes taken up */
static inline bool lbr_concerns(const struct vpmu_pcpu *p, const struct vpmu_context *next)
{
	/* One branch for all three: nearly always none. */
	return (uintptr_t)p->lbr_data | (uintptr_t)load_relaxed(&next->lbr.data[VPMU_LBR_GUEST]) |
	       (uintptr_t)load_relaxed(&next->lbr.data[VPMU_LBR_HOST]);
}

/* lbr_attach.c: of a context's life. Under ctl_lock. */
int lbr_context_init(struct vpmu_context *ctx); /* inheritance. -ENOMEM */
void lbr_context_fini(struct vpmu_context *ctx);

/* context.c: vpmu_context_fini under ctl_lock */
void context_fini_locked(struct vpmu_context *ctx);

/*
 * alarm.c: distances. Every charge of a slot in p->watch takes what was counted off the distances
 * of the running context's alarms and of p->samplers, and calls whoever has used his up.
 */
uint64_t watch_charge(struct vpmu_pcpu *p, uint64_t slots); /* returns those to arm again */
void watch_rearm(struct vpmu_pcpu *p, uint64_t slots);	    /* the running context goes on */
void watch_switch(struct vpmu_pcpu *p, const struct vpmu_context *next); /* @next goes on */
void watch_update(struct vpmu_context *ctx); /* ctx->watch, after a change of what is on it */

/* sampler.c */
void sampler_pcpu_init(struct vpmu_pcpu *p); /* under ctl_lock: periods begin on a new pCPU */
uint64_t sampler_slots(const struct vpmu_host *host, uint32_t samplers);
/* What was counted, by slot, of @slots: take it off the distances of p->samplers. */
void sampler_take(struct vpmu_pcpu *p, uint64_t slots, const uint64_t *counted);
/* The distances of p->samplers on @slots go into @least, by slot, where smaller. */
void sampler_least(const struct vpmu_pcpu *p, uint64_t slots, uint64_t *least);

/* pcpu.c */
void pcpu_refresh(struct vpmu_pcpu *p); /* charge all, take up changed keys */
/* Charge time and these slots; returns those whose alarms went off: they are armed again. */
uint64_t pcpu_charge(struct vpmu_pcpu *p, uint64_t slots);
uint64_t pcpu_hw_count(struct vpmu_pcpu *p, unsigned int slot);

/* sync.c */
/* Under ctl_lock: every pCPU charges all, takes up changed keys and then calls @fn (may be NULL),
 * on its owner at a safe point, or here while it is offline; several owners at once. */
void host_sync_locked(struct vpmu_host *host, void (*fn)(struct vpmu_pcpu *p, void *arg),
		      void *arg);

#endif
