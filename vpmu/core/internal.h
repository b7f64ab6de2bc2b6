/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by the files of libvpmu's core; only they and white-box tests include this.
 *
 * Locks, outermost first:
 *
 *   host->ctl_lock       control calls: one at a time
 *   pcpu->lock           online state and sync requests of the pCPU (sync.c)
 *   host->tree_lock      cells, visits and homes (cell.c)
 *   host->slots_lock     taking a slot into use, and quotas
 *   host->lbr_pool.lock  task data
 *
 * The owner of an online pCPU never takes ctl_lock. A control call that waits for an owner holds
 * ctl_lock and nothing else. The switch path takes no lock, and neither do local calls on keys that
 * are in use.
 */
#pragma once

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
#include "vpmu/quota.h"
#include "vpmu/core/rcu.h"
#include "vpmu/sampler.h"
#include "vpmu/core/taskdata.h"

#define VPMU_BIT(s)	    (1ULL << (s))
#define load_relaxed(p)	    __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)	    __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
/*
 * fence_full - a full barrier, including store-load order.
 *
 * fence_reader - in a reader of totals, between reading the totals and reading the consumer's
 * sequence number again. Pairs with fence_full in cut_sum (consumer.c), on the thread that stops
 * the consumer or on another reader. C11 requires fence_full here as well, because two threads may
 * see the stores of two other threads in different orders. x86, ARMv8 and RISC-V are multi-copy
 * atomic: there, load-load order is enough.
 *
 * ThreadSanitizer does not model fences, and gcc warns about that. Harmless: they order atomics
 * only.
 */
#pragma GCC diagnostic push
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
static inline void fence_full(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void fence_reader(void)
{
#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv)
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
#pragma GCC diagnostic pop

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Rare code, out of line so that it costs the switch path no registers. */
#define COLD __attribute__((noinline, cold))

#define vpmu_for_each_slot(s, mask)                                                                \
	for (uint64_t m_ = (mask); m_ && ((s) = __builtin_ctzll(m_), true); m_ &= m_ - 1)

/* ---- slots ---- */

struct vpmu_slot {
	vpmu_key_t key;	      /* 0: never used */
	unsigned int refs;    /* enabled consumers; 0 -> 1 only under slots_lock */
	unsigned int quality; /* worst enum vpmu_quality of the pCPUs that have counted it */
};

#define VPMU_SLOT_HASH 256

/* ---- accounts ---- */

/*
 * The counts of one account on one pCPU, for some slots. An account with keys in use has cells on
 * each pCPU on which one of its contexts was placed; an account without any has none. Keys that
 * control calls put into use later get another cell, so rows never move; a vCPU's own cell is
 * replaced by a larger copy (cell_grow).
 *
 * An event is charged to every account on the path from the context's own to the root that has the
 * key in use. The cells on that path are linked by up, and context_update makes the links. So the
 * value of an account is the sum over its own cells.
 */
struct vpmu_cell {
	struct vpmu_cell *next; /* RCU: list of the account; those of one pCPU are adjacent */
	struct vpmu_cell *up;	/* owner: the next cell charged with this one */
	__u64 time_ns;		/* time for which it was charged; owner writes */
	uint64_t mask;		/* its slots; row[] is in ascending order of slots */
	uint64_t state;		/* the pCPU's at the last pcpu_look_at; atomic */
	struct vpmu_row row[];	/* owner writes */
};

/*
 * cell->state and pcpu->state hold the number of the pCPU's home, the count of binds and unbinds
 * there, and the parity of audits (conservation.c). If the two differ, the owner must call
 * pcpu_look_at before it charges the cell.
 */
#define VPMU_CELL_AUDIT	  1ULL
#define VPMU_CELL_BIND	  2ULL
#define VPMU_CELL_HOME	  44 /* shift */
#define VPMU_HOMES_MAX	  (1u << 20)
#define VPMU_CELL_NONE(s) ((s) & (~0ULL << VPMU_CELL_HOME | VPMU_CELL_AUDIT)) /* no binds */

/* The number of bits set in @mask below slot @s. */
static inline unsigned int slot_rank(uint64_t mask, unsigned int s)
{
	uint64_t below = VPMU_BIT(s) - 1, some = mask & below;

	/* The slots in use are usually the lowest ones, and popcount can be slow. */
	return some == below ? s : some ? (unsigned int)__builtin_popcountll(some) : 0;
}

/*
 * A pCPU's number and its part of the conservation check. It outlives the pCPU while it has cells,
 * and a new pCPU that can count the same keys reuses it, so pCPUs that come and go leak nothing.
 * The numbers by slot are totals over all keys that the slot has had.
 */
struct vpmu_home {
	struct vpmu_pcpu *pcpu; /* NULL: gone; under ctl_lock and tree_lock */
	uint64_t state;		/* while pcpu is NULL */
	unsigned int nr_cells;	/* under tree_lock */
	/* unsup: the slots whose key[] the PMU cannot count; rows of keys in use have VPMU_UNSUP to
	 * match. Under tree_lock. */
	vpmu_key_t key[VPMU_MAX_SLOTS];
	uint64_t unsup;

	uint64_t hw_past[VPMU_MAX_SLOTS];   /* hardware counts of binds that have ended */
	uint64_t unclaimed[VPMU_MAX_SLOTS]; /* counted while no running account used the slot */
	uint64_t extra[VPMU_MAX_SLOTS];	    /* charged to second and further rows */
	uint64_t retired[VPMU_MAX_SLOTS];   /* totals of freed rows; under tree_lock */
	uint64_t seen[VPMU_MAX_SLOTS];	    /* rows that the owner claimed in this audit */
};

/* The pCPUs on which an account's contexts were placed. Under tree_lock. */
struct vpmu_visits {
	uint32_t n, room;
	uint32_t home[];
};

/* Consumers of an account by slot. refs 0: the entry is free. */
struct vpmu_refs {
	uint64_t slots_gen; /* local: the host's at the last cell_label */
	uint32_t n;
	struct {
		uint32_t slot, refs;
	} e[];
};

struct vpmu_account {
	/* read by the switch path; keys: slots that this account itself uses */
	uint64_t keys_local;	  /* written by the pCPU owner only */
	uint64_t keys_ctl;	  /* written under ctl_lock and tree_lock */
	struct vpmu_context *ctx; /* has this as its own account; NULL: none, or host->other */
	struct vpmu_account *parent;
	struct vpmu_host *host;

	struct vpmu_cell *cells;       /* RCU; changed under tree_lock */
	struct vpmu_visits *visits;    /* of its contexts, except ctx; under tree_lock */
	struct vpmu_refs *local;       /* owner; created under tree_lock. While set, cells stay */
	struct vpmu_refs *ctl;	       /* under ctl_lock */
	struct cds_list_head children; /* under ctl_lock */
	union {
		struct cds_list_head node; /* in parent->children */
		struct rcu_head rcu;
	};
	void *owner;
	unsigned int nr_children;  /* under ctl_lock */
	unsigned int nr_consumers; /* atomic */
	unsigned int nr_contexts;  /* atomic */
	uint32_t samplers;	   /* its own: bit per host->sampler[]; set under ctl_lock */
	unsigned int lbr_users;	   /* attaches without detach; under ctl_lock */
	uint32_t lbr_ctl;	   /* filter of these captures; under ctl_lock */
};

struct vpmu_host {
	uint64_t tree_gen;  /* incremented when a control call changes an account's keys */
	uint64_t slots_gen; /* incremented when a slot gets another key */
	struct vpmu_slot slot[VPMU_MAX_SLOTS];
	uint8_t hash[VPMU_SLOT_HASH]; /* slot + 1; a hint, checked against slot[].key */
	pthread_mutex_t slots_lock;
	uint64_t refused; /* slots refused because of a quota or a full table; atomic */

	pthread_mutex_t ctl_lock;
	pthread_mutex_t tree_lock;
	struct cds_list_head pcpus; /* RCU, changed under ctl_lock; struct vpmu_pcpu.node */
	struct vpmu_home **home;    /* by number; under ctl_lock and tree_lock */
	unsigned int nr_homes;
	uint64_t serials;	 /* last serial of a pCPU; under ctl_lock */
	bool auditing;		 /* cells must not be freed; under ctl_lock and tree_lock */
	unsigned int nr_stalled; /* stalled pCPUs; atomic */
	struct vpmu_account *root, *other;

	/* branch records: lbr.c, lbr_attach.c, taskdata.c */
	struct vpmu_context *contexts; /* all, under ctl_lock */
	struct vpmu_lbr_pool lbr_pool;

	/* sampler.c */
	struct vpmu_sampler *sampler[VPMU_SAMPLERS_MAX]; /* changed under ctl_lock */

	/* sync.c */
	uint64_t deadline_ns; /* 0: the default; atomic */
	/* Released while a pCPU was stalled, so its owner may still use them; under ctl_lock */
	struct vpmu_sampler *samplers_left;
	struct vpmu_taskdata *lbr_left;
};

/* The counter of an active slot, and its last reading. */
struct vpmu_reading {
	const uint64_t *word; /* address of the counter, if the PMU has words */
	__u64 snap;	      /* modulo the counter's width */
};

struct vpmu_pcpu {
	/* for the switch path; owner only, except where noted */
	struct vpmu_host *host;
	struct vpmu_hostpmu *pmu;
	struct vpmu_context *ctx; /* running context; &host_ctx: no vCPU */
	struct vpmu_cell *cell;	  /* head of the charged cells; &none: none */
	uint64_t state;		  /* see cell->state; atomic */
	uint64_t keys;		  /* slots in use by the running account and its ancestors */
	uint64_t active;	  /* slots that have a counter */
	uint64_t bound;		  /* slots with valid key[] and elig[] */
	uint64_t unsup;		  /* some of bound: this PMU cannot count the key */
	uint64_t watch;		  /* slots on which the running context has alarms or samplers */
	uint32_t samplers;	  /* samplers of the running account and its ancestors */
	uint64_t slots_gen;
	uint64_t time_snap;
	/* Data of ctx that the CPU records into; NULL: not recording. Dereference only while ctx
	 * publishes it: see lbr.c. */
	struct vpmu_taskdata *lbr_data;
	uint64_t sync_req, sync_ack; /* under lock, except for the load in vpmu_pcpu_poll */
	void (*sync_fn)(struct vpmu_pcpu *p, void *arg); /* under lock */
	void *sync_arg;
	bool stalled; /* the owner missed a deadline and has not answered since; written
		       * under lock */
	struct vpmu_reading last[VPMU_MAX_SLOTS];
	uint8_t ctr[VPMU_MAX_SLOTS];
	uint64_t rank_mask, rank_slots; /* rank[] caches slot_rank for this mask and these slots */
	uint8_t rank[VPMU_MAX_SLOTS];

	/* assignment of counters to slots */
	uint32_t ctrs_used;
	uint32_t elig[VPMU_MAX_SLOTS];
	uint64_t since[VPMU_MAX_SLOTS]; /* turn at which the slot got or lost its counter */
	uint64_t turn;			/* incremented by each bind and unbind */
	vpmu_key_t key[VPMU_MAX_SLOTS];
	uint8_t refused[VPMU_MAX_SLOTS]; /* consecutive refusals by the host */
	uint64_t ask_at[VPMU_MAX_SLOTS]; /* occasion of the next attempt */
	uint64_t occasion;		 /* calls of assign_counters so far, real or skipped */
	/* During this turn, binding these keys is pointless before that occasion. */
	uint64_t settled_keys, settled_turn, settled_to;

	/* conservation.c, pcpu_hw_count */
	struct vpmu_home *home;
	uint64_t hw_at_key[VPMU_MAX_SLOTS];  /* home->hw_past at the assignment of key[] */
	uint64_t bind_value[VPMU_MAX_SLOTS]; /* first reading after the bind */

	uint64_t gap_snap[VPMU_MAX_SLOTS]; /* active slots: the counter's gap_ns charged so far */

	/* alarm.c */
	uint64_t armed;			   /* some of watch: slots with an alarm in the counter */
	uint64_t arm_left[VPMU_MAX_SLOTS]; /* armed slots: events until the alarm goes off */
	uint64_t sampler_left[VPMU_SAMPLERS_MAX];

	uint64_t lbr_owner; /* lbr.c: id of the data that the CPU's records belong to; 0: records
			     * are zero */

	bool online; /* written under lock */
	bool spared; /* the next sync skips it; under ctl_lock */
	unsigned int id;
	uint64_t serial; /* unique among all pCPUs that the host ever had */
	pthread_mutex_t lock;
	pthread_cond_t acked;
	struct vpmu_context host_ctx;
	struct cds_list_head node;
	struct rcu_head rcu;
	struct vpmu_cell none; /* last: it has no rows */
};

/* The home's number in cell->state or pcpu->state. */
static inline unsigned int home_of(uint64_t state)
{
	return (unsigned int)(state >> VPMU_CELL_HOME);
}

/* The first cell of @a on @p, followed by the others; NULL: none. Needs an RCU read side, unless no
 * other thread can free cells of @a. */
static inline struct vpmu_cell *cell_first(const struct vpmu_account *a, const struct vpmu_pcpu *p)
{
	unsigned int home = home_of(load_relaxed(&p->state));
	struct vpmu_cell *cell = load_acquire(&a->cells);

	while (cell && home_of(load_relaxed(&cell->state)) != home)
		cell = load_acquire(&cell->next);
	return cell;
}

/* The next cell of the same pCPU; NULL: none. */
static inline struct vpmu_cell *cell_next(const struct vpmu_cell *cell)
{
	struct vpmu_cell *next = load_acquire(&cell->next);
	bool same =
		next && home_of(load_relaxed(&next->state)) == home_of(load_relaxed(&cell->state));

	return same ? next : NULL;
}

/* slot.c */
/* Take a slot for @key and return it. -ENOSPC: none is free; -EDQUOT: @q (NULL for operators) is
 * used up. */
int slot_get(struct vpmu_host *host, vpmu_key_t key, struct vpmu_quota *q);
void slot_put(struct vpmu_host *host, int slot, struct vpmu_quota *q);

/* account.c */
struct vpmu_account *account_alloc(struct vpmu_host *host, struct vpmu_account *parent,
				   void *owner);
/* Add the sum of @a for @slot to *@sum. Inside an RCU read side. */
void account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum);
void account_free_tree(struct vpmu_account *a);

/* cell.c */
struct vpmu_home *home_get(struct vpmu_host *host, struct vpmu_pcpu *p); /* NULL: out of memory */
void home_leave(struct vpmu_pcpu *p);
/* Place @ctx on @p: record the visit, and add rows for all keys in use by its accounts. -ENOMEM. */
int cells_place(struct vpmu_context *ctx, struct vpmu_pcpu *p);
/* Add rows of @slots on all pCPUs where contexts of @a were placed, then @slots to keys_ctl. Under
 * ctl_lock. -ENOMEM. */
int cells_ctl_add(struct vpmu_account *a, uint64_t slots);
/* Add a row for @slot on @p, where the context of @a is placed. Owner of @p. -ENOMEM. */
int cells_local_add(struct vpmu_account *a, struct vpmu_pcpu *p, int slot);
/* Free the cells of @a if it has no keys in use, after a sync of its pCPUs. Under ctl_lock. */
void cells_reap(struct vpmu_account *a);
void cells_retire(struct vpmu_account *a); /* before @a is freed: keep its totals for the
					    * conservation check. Under ctl_lock */
void cells_free(struct vpmu_account *a);
/* Make the next sync skip all pCPUs; sync_concerns adds those on which @a was placed. Under
 * ctl_lock. */
void sync_spare_all(struct vpmu_host *host);
void sync_concerns(struct vpmu_account *a);

/* keys.c. Control: under ctl_lock. Local: the owner of the pCPU where the account's context is. */
int keys_ctl_add(struct vpmu_account *a, struct vpmu_consumer *const *c, size_t n);
void keys_ctl_del(const struct vpmu_consumer *c);
int keys_local_prepare(struct vpmu_account *a, struct vpmu_pcpu *p, int slot); /* -ENOMEM */
void keys_local_add(struct vpmu_account *a, int slot); /* after keys_local_prepare */
void keys_local_del(struct vpmu_account *a, int slot);

/*
 * lbr.c: branch records at a switch and at a safe point. Owner. lbr_switch runs while p->ctx is
 * still the previous context. lbr_flush updates the data of p->ctx and applies changes of captures.
 */
void lbr_switch(struct vpmu_pcpu *p, struct vpmu_context *next);
void lbr_flush(struct vpmu_pcpu *p);
static inline bool lbr_concerns(const struct vpmu_pcpu *p, const struct vpmu_context *next)
{
	/* One test of all three: nearly always all are NULL. */
	return (uintptr_t)p->lbr_data | (uintptr_t)load_relaxed(&next->lbr.data[VPMU_LBR_GUEST]) |
	       (uintptr_t)load_relaxed(&next->lbr.data[VPMU_LBR_HOST]);
}

/* lbr_attach.c: beginning and end of a context. Under ctl_lock. */
int lbr_context_init(struct vpmu_context *ctx); /* joins the captures of its accounts; -ENOMEM */
void lbr_context_fini(struct vpmu_context *ctx);
void lbr_reap(struct vpmu_host *host); /* while no pCPU is stalled; under ctl_lock */

/* context.c: vpmu_context_fini under ctl_lock */
void context_fini_locked(struct vpmu_context *ctx);

/*
 * alarm.c: every charge of a slot in p->watch goes through watch_charge. It charges @slots,
 * subtracts the counts from the distances of the running context's alarms and of p->samplers, and
 * calls those that are due. It does not arm.
 */
void watch_charge(struct vpmu_pcpu *p, uint64_t slots);
void watch_rearm(struct vpmu_pcpu *p, uint64_t slots);			 /* arm for p->ctx */
void watch_switch(struct vpmu_pcpu *p, const struct vpmu_context *next); /* arm for @next */
void watch_update(struct vpmu_context *ctx);				 /* recompute ctx->watch */

/* sampler.c */
void sampler_reap(struct vpmu_host *host);   /* while no pCPU is stalled; under ctl_lock */
void sampler_pcpu_init(struct vpmu_pcpu *p); /* start the periods of a new pCPU; under ctl_lock */
uint64_t sampler_slots(const struct vpmu_host *host, uint32_t samplers);
/* Subtract counted[s], for each slot s in @slots, from the distances of p->samplers. */
void sampler_take(struct vpmu_pcpu *p, uint64_t slots, const uint64_t *counted);
/* Lower least[s], for each slot s in @slots, to the smallest distance of p->samplers on s. */
void sampler_least(const struct vpmu_pcpu *p, uint64_t slots, uint64_t *least);

/* pcpu.c */
void pcpu_refresh(struct vpmu_pcpu *p); /* charge everything and apply key changes */
/* Charge time and @slots. */
void pcpu_charge(struct vpmu_pcpu *p, uint64_t slots);
/* Charge @slots, not the time. */
void pcpu_charge_slots(struct vpmu_pcpu *p, uint64_t slots);
/* Charge the gaps of the counters of @slots, which were just read. */
void pcpu_charge_gaps(struct vpmu_pcpu *p, uint64_t slots);
/* Read the counters of @slots, all active: store each one's delta since its last reading. */
void pcpu_take(struct vpmu_pcpu *p, uint64_t slots, uint64_t *counted);
/* Charge counted[s] of each slot s in @slots to all accounts that use it. */
void pcpu_give(struct vpmu_pcpu *p, uint64_t slots, const uint64_t *counted);
/* Bring @cell to the pCPU's state. Its time must have been charged up to now. */
void pcpu_look_at(struct vpmu_pcpu *p, struct vpmu_cell *cell);

/* counters.c. Except for pcpu_hw_count, time must have been charged up to now. */
/* The hardware's count for @slot on @p over all its keys: hw_past plus the present counter since
 * bind_value. */
uint64_t pcpu_hw_count(struct vpmu_pcpu *p, unsigned int slot);
/* Charge the counter of slot @s, and unbind it. */
void slot_unbind(struct vpmu_pcpu *p, unsigned int s);
void pcpu_unbind_all(struct vpmu_pcpu *p);
/* Bind counters for those of @keys without one: new on this pCPU, or waiting for a counter. */
void provide_counters(struct vpmu_pcpu *p, uint64_t keys);
/* A tick: release unused counters and multiplex the waiting keys. Returns true if the running
 * context's counters may have changed. */
bool rotate_counters(struct vpmu_pcpu *p);

/* conservation.c */
void audit_see(struct vpmu_pcpu *p, struct vpmu_cell *cell);

/* sync.c */
/*
 * Make every pCPU charge everything, apply key changes, and then call @fn, which may be NULL.
 * Owners of online pCPUs do so at their next safe point, concurrently; this call does it for
 * offline pCPUs. Returns when all are done. Skips the pCPUs that are marked as spared
 * (sync_spare_all). Under ctl_lock.
 *
 * -ETIMEDOUT: a pCPU is stalled (vpmu_host_stalled). The sync is complete on the others. On that
 * one, @fn will not be called, and key changes are applied at its next safe point. A caller that
 * ends something must therefore not free anything that the owner may still use: samplers_left and
 * lbr_left keep it until no pCPU is stalled, and cells stay (cell.c). A caller that begins
 * something must undo it.
 */
int host_sync_locked(struct vpmu_host *host, void (*fn)(struct vpmu_pcpu *p, void *arg), void *arg);
/* True if a pCPU is stalled: then nothing may be freed that its owner can still use. */
bool any_stalled(const struct vpmu_host *host);
/* Free what was kept for stalled pCPUs, if none is stalled now. Under ctl_lock. */
void host_reap(struct vpmu_host *host);
