/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the files of libvpmu's core share. Nobody else includes this but tests that look inside.
 *
 * Locks, outermost first:
 *
 *   host->ctl_lock       control calls: one at a time
 *   pcpu->lock           who operates the pCPU, and what it is asked for (sync.c)
 *   host->tree_lock      cells, visits and homes (cell.c)
 *   host->slots_lock     taking a slot into use
 *   host->lbr_pool.lock  task data
 *
 * The owner of an online pCPU never takes ctl_lock. A control call that waits for an owner holds
 * ctl_lock and nothing else. The switch path takes no lock, nor do local calls on keys in use.
 */
#ifndef VPMU_CORE_INTERNAL_H
#define VPMU_CORE_INTERNAL_H

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
 * fence_full - everything before it, stores too, comes before everything behind it.
 *
 * fence_reader - for a reader of totals, between the totals and its second look at who may read
 * them. It pairs with fence_full on the thread that has said who may, and with fence_full on
 * another reader that acts on what the first one has said (consumer.c: cut_sum). C11 asks for a
 * fence_full here as well, because threads may disagree about the order of two stores by two other
 * threads. No two threads disagree about that on x86, ARMv8 and RISC-V ("multi-copy atomic"), where
 * it is enough that loads stay in order.
 *
 * ThreadSanitizer knows no fences and gcc warns of that; what they order here are atomics, of which
 * it reports nothing.
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

/* Code that switches seldom need. Out of line, it costs the common path no registers. */
#define COLD __attribute__((noinline, cold))

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

/*
 * What one account was charged on one pCPU, for some slots. An account has cells where it has keys
 * in use: on each pCPU on which one of its contexts was placed. An account nobody counts has none.
 * Keys that come into use later get a further cell, so rows never move.
 *
 * An event is charged to every account on the path from the context's own to the root that has the
 * key in use. The cells on that path are linked by up, and context_update makes the links. So the
 * value of an account is the sum over its own cells.
 */
struct vpmu_cell {
	struct vpmu_cell *next; /* RCU: of the account; those of one pCPU are neighbours */
	struct vpmu_cell *up;	/* owner: the next one that is charged with this one */
	__u64 time_ns;		/* time in which it was charged; owner writes */
	uint64_t mask;		/* its slots; row[] has them in ascending order */
	uint64_t state;		/* the pCPU's when its rows were last looked at; atomic */
	struct vpmu_row row[];	/* owner writes */
};

/*
 * cell->state and pcpu->state: the number of the pCPU (its home), how often a counter was bound or
 * unbound there, and which of two audits was last (conservation.c). When the words differ, the
 * owner has something to do before it charges the cell.
 */
#define VPMU_CELL_AUDIT	  1ULL
#define VPMU_CELL_BIND	  2ULL
#define VPMU_CELL_HOME	  44 /* shift */
#define VPMU_HOMES_MAX	  (1u << 20)
#define VPMU_CELL_NONE(s) ((s) & (~0ULL << VPMU_CELL_HOME | VPMU_CELL_AUDIT)) /* no binds */

/* How many of the bits below slot @s are set in @mask. */
static inline unsigned int slot_rank(uint64_t mask, unsigned int s)
{
	uint64_t below = VPMU_BIT(s) - 1, some = mask & below;

	/* Mostly the slots in use are the first ones, and a count of bits can be slow. */
	return some == below ? s : some ? (unsigned int)__builtin_popcountll(some) : 0;
}

/*
 * The place of a pCPU among the others, and its accounts' books. It outlives the pCPU while there
 * are cells on it, and another pCPU that can count the same keys moves in. So pCPUs that come and
 * go leave nothing. The numbers by slot are totals of all keys the slot has stood for.
 */
struct vpmu_home {
	struct vpmu_pcpu *pcpu; /* NULL: gone; under ctl_lock and tree_lock */
	uint64_t state;		/* while it is gone */
	unsigned int nr_cells;	/* under tree_lock */
	/* Of the keys noted here, by slot: which the PMU cannot count. All rows here of keys in use
	 * have VPMU_UNSUP accordingly. Under tree_lock. */
	vpmu_key_t key[VPMU_MAX_SLOTS];
	uint64_t unsup;

	uint64_t hw_past[VPMU_MAX_SLOTS];   /* counted by the hardware in binds that are over */
	uint64_t unclaimed[VPMU_MAX_SLOTS]; /* counted while nobody who ran had asked for it */
	uint64_t extra[VPMU_MAX_SLOTS];	    /* charged to a second row, a third ... */
	uint64_t retired[VPMU_MAX_SLOTS];   /* rows that are gone; under tree_lock */
	uint64_t seen[VPMU_MAX_SLOTS];	    /* rows that the owner has seen in this audit */
};

/* Which pCPUs an account's contexts were placed on. Under tree_lock. */
struct vpmu_visits {
	uint32_t n, room;
	uint32_t home[];
};

/* Consumers of an account by slot. refs 0: the entry is free. */
struct vpmu_refs {
	uint64_t slots_gen; /* local: the host's when the account's rows were labelled */
	uint32_t n;
	struct {
		uint32_t slot, refs;
	} e[];
};

struct vpmu_account {
	/* the switch path reads these; keys: slots in use by this account itself */
	uint64_t keys_local;	  /* written by the pCPU owner only */
	uint64_t keys_ctl;	  /* written under ctl_lock and tree_lock */
	struct vpmu_context *ctx; /* whose own account this is; NULL for host->other, and others
				   * that have none */
	struct vpmu_account *parent;
	struct vpmu_host *host;

	struct vpmu_cell *cells;       /* RCU; changed under tree_lock */
	struct vpmu_visits *visits;    /* of its contexts, but for ctx; under tree_lock */
	struct vpmu_refs *local;       /* owner; made under tree_lock. Cells stay then */
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
	uint32_t samplers;	/* of this account: bit per host->sampler[]; set under ctl_lock */
	unsigned int lbr_users; /* attaches without detach; under ctl_lock */
	uint32_t lbr_ctl;	/* what they capture; under ctl_lock */
};

struct vpmu_host {
	uint64_t tree_gen;  /* grows when a control call changes the keys of an account */
	uint64_t slots_gen; /* grows when a slot gets another key */
	struct vpmu_slot slot[VPMU_MAX_SLOTS];
	uint8_t hash[VPMU_SLOT_HASH]; /* slot + 1; a hint that is checked against slot[].key */
	pthread_mutex_t slots_lock;
	uint64_t refused; /* slots that nobody got because of a quota or a full table; atomic */

	pthread_mutex_t ctl_lock;
	pthread_mutex_t tree_lock;
	struct cds_list_head pcpus; /* RCU, changed under ctl_lock; struct vpmu_pcpu.node */
	struct vpmu_home **home;    /* by number; under ctl_lock and tree_lock */
	unsigned int nr_homes;
	uint64_t serials;     /* given to pCPUs so far; under ctl_lock */
	bool auditing;	      /* no cell may go; under ctl_lock and tree_lock */
	unsigned int nr_late; /* pCPUs that are late; atomic */
	struct vpmu_account *root, *other;

	/* branch records: lbr.c, lbr_attach.c, taskdata.c */
	struct vpmu_context *contexts; /* all, under ctl_lock */
	struct vpmu_lbr_pool lbr_pool;

	/* sampler.c */
	struct vpmu_sampler *sampler[VPMU_SAMPLERS_MAX]; /* changed under ctl_lock */

	/* sync.c */
	uint64_t deadline_ns; /* 0: the default; atomic */
	/* What was given back while a pCPU was late, whose owner may still use it; under ctl_lock
	 */
	struct vpmu_sampler *samplers_left;
	struct vpmu_taskdata *lbr_left;
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
	struct vpmu_cell *cell;	  /* the first that is charged; &none: there is none */
	uint64_t state;		  /* see cell->state; atomic */
	uint64_t keys;		  /* slots in use by the running account and its ancestors */
	uint64_t active;	  /* slots that have a counter */
	uint64_t bound;		  /* slots whose key this pCPU knows (key[], elig[]) */
	uint64_t unsup;		  /* some of bound: this PMU cannot count the key */
	uint64_t watch;		  /* slots on which the running context has alarms or samplers */
	uint32_t samplers;	  /* samplers of the running account and its ancestors */
	uint64_t slots_gen;
	uint64_t time_snap;
	struct vpmu_taskdata *lbr_data; /* data of ctx that the CPU records for; NULL: it records
					 * nothing. Must be followed only while ctx publishes it:
					 * see lbr.c */
	uint64_t sync_req, sync_ack;	/* under lock; the owner's poll reads sync_req without */
	void (*sync_fn)(struct vpmu_pcpu *p, void *arg); /* under lock */
	void *sync_arg;
	bool late; /* the owner missed a deadline and has not answered since; under lock to change
		    */
	struct vpmu_reading last[VPMU_MAX_SLOTS];
	uint8_t ctr[VPMU_MAX_SLOTS];
	uint64_t rank_mask, rank_slots; /* rank[] has slot_rank in this mask for these slots */
	uint8_t rank[VPMU_MAX_SLOTS];

	/* assignment of counters to slots */
	uint32_t ctrs_used;
	uint32_t elig[VPMU_MAX_SLOTS];
	uint64_t since[VPMU_MAX_SLOTS]; /* the turn in which the slot got or lost its counter */
	uint64_t turn;			/* grows with each bind and unbind */
	vpmu_key_t key[VPMU_MAX_SLOTS];
	uint8_t refused[VPMU_MAX_SLOTS]; /* how often the host refused the slot in a row */
	uint64_t ask_at[VPMU_MAX_SLOTS]; /* the occasion on which to ask the host again */
	uint64_t occasion;		 /* number of occasions so far */
	/* In this turn there is nothing to do for these keys before that occasion. */
	uint64_t settled_keys, settled_turn, settled_to;

	/* conservation.c, pcpu_hw_count */
	struct vpmu_home *home;
	uint64_t hw_at_key[VPMU_MAX_SLOTS];  /* home->hw_past when the slot got its key */
	uint64_t bind_value[VPMU_MAX_SLOTS]; /* first reading after the bind */

	uint64_t gap_snap[VPMU_MAX_SLOTS]; /* active slots: gap_ns of the counter when charged */

	/* alarm.c */
	uint64_t armed;			   /* some of watch: slots whose counter has an alarm */
	uint64_t arm_left[VPMU_MAX_SLOTS]; /* armed slots: events until the alarm goes off */
	uint64_t sampler_left[VPMU_SAMPLERS_MAX];

	uint64_t lbr_owner; /* lbr.c: id of the data whose records the CPU holds; 0: all zero */

	bool online; /* under lock to change */
	bool spared; /* the next sync is not about it; under ctl_lock */
	unsigned int id;
	uint64_t serial; /* no other pCPU of the host has or had it */
	pthread_mutex_t lock;
	pthread_cond_t acked;
	struct vpmu_context host_ctx;
	struct cds_list_head node;
	struct rcu_head rcu;
	struct vpmu_cell none; /* last: it has no rows */
};

/* cell->state's and pcpu->state's number of the home. */
static inline unsigned int home_of(uint64_t state)
{
	return (unsigned int)(state >> VPMU_CELL_HOME);
}

/* The first cell of @a on @p, the others follow; NULL: none. Inside an RCU read side, unless nobody
 * else takes cells of @a away. */
static inline struct vpmu_cell *cell_first(const struct vpmu_account *a, const struct vpmu_pcpu *p)
{
	unsigned int home = home_of(load_relaxed(&p->state));
	struct vpmu_cell *cell = load_acquire(&a->cells);

	while (cell && home_of(load_relaxed(&cell->state)) != home)
		cell = load_acquire(&cell->next);
	return cell;
}

/* The next one of the same pCPU; NULL: none. */
static inline struct vpmu_cell *cell_next(const struct vpmu_cell *cell)
{
	struct vpmu_cell *next = load_acquire(&cell->next);
	bool same =
		next && home_of(load_relaxed(&next->state)) == home_of(load_relaxed(&cell->state));

	return same ? next : NULL;
}

/* slot.c */
/* The slot; -ENOSPC: none is free; -EDQUOT: @q (NULL: an operator asks) is used up. */
int slot_get(struct vpmu_host *host, vpmu_key_t key, struct vpmu_quota *q);
void slot_put(struct vpmu_host *host, int slot, struct vpmu_quota *q);

/* account.c */
struct vpmu_account *account_alloc(struct vpmu_host *host, struct vpmu_account *parent,
				   void *owner);
/* Add the sum of @a for @slot to *@sum. Inside an RCU read side. */
void account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum);
void account_free_tree(struct vpmu_account *a);

/* cell.c */
struct vpmu_home *home_get(struct vpmu_host *host, struct vpmu_pcpu *p); /* NULL: no memory */
void home_leave(struct vpmu_pcpu *p);
/* Make @ctx's accounts known on @p, with rows for all their keys in use. -ENOMEM. */
int cells_place(struct vpmu_context *ctx, struct vpmu_pcpu *p);
/* Rows of @slots wherever contexts of @a can run; then keys_ctl has @slots. Under ctl_lock.
 * -ENOMEM. */
int cells_ctl_add(struct vpmu_account *a, uint64_t slots);
/* A row for @slot on @p, where the context of @a is placed. Owner of @p. -ENOMEM. */
int cells_local_add(struct vpmu_account *a, struct vpmu_pcpu *p, int slot);
/* Free the cells of @a when it has no keys in use. After a sync of what has them. Under ctl_lock.
 */
void cells_reap(struct vpmu_account *a);
void cells_retire(struct vpmu_account *a); /* @a goes: its books are closed. Under ctl_lock */
void cells_free(struct vpmu_account *a);
/* The next sync is about no pCPU, but for those on which @a is known. Under ctl_lock. */
void sync_spare_all(struct vpmu_host *host);
void sync_concerns(struct vpmu_account *a);

/* keys.c. Control: under ctl_lock. Local: the owner of the pCPU where the account's context is. */
int keys_ctl_add(struct vpmu_account *a, struct vpmu_consumer *const *c, size_t n);
void keys_ctl_del(const struct vpmu_consumer *c);
int keys_local_prepare(struct vpmu_account *a, struct vpmu_pcpu *p, int slot); /* -ENOMEM */
void keys_local_add(struct vpmu_account *a, int slot); /* after keys_local_prepare */
void keys_local_del(struct vpmu_account *a, int slot);

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
void lbr_reap(struct vpmu_host *host); /* no pCPU is late; under ctl_lock */

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
void sampler_reap(struct vpmu_host *host);   /* no pCPU is late; under ctl_lock */
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
/* Charge @slots, not the time. Alarms that went off are not armed again. */
void pcpu_charge_slots(struct vpmu_pcpu *p, uint64_t slots);
/* Charge the time in which counters of @slots, which were just read, did not count. */
void pcpu_charge_gaps(struct vpmu_pcpu *p, uint64_t slots);
/* Read the counters of @slots, which have some: what each has counted since it was last read. */
void pcpu_take(struct vpmu_pcpu *p, uint64_t slots, uint64_t *counted);
/* Charge counted[s] of each slot in @slots to all who have asked for it. */
void pcpu_give(struct vpmu_pcpu *p, uint64_t slots, const uint64_t *counted);
/* Bring @cell, which is not charged yet or is charged up to now, to the pCPU's state. */
void pcpu_look_at(struct vpmu_pcpu *p, struct vpmu_cell *cell);

/* counters.c. Time has been charged up to now, before each of these but pcpu_hw_count. */
/* What the hardware has counted for @slot on @p, under all its keys: hw_past, and the counter that
 * it has now since bind_value. */
uint64_t pcpu_hw_count(struct vpmu_pcpu *p, unsigned int slot);
/* Charge the counter of slot @s, and take it away. */
void slot_unbind(struct vpmu_pcpu *p, unsigned int s);
void pcpu_unbind_all(struct vpmu_pcpu *p);
/* Some of @keys have no counter: this is their first use here, or there are too few counters. */
void provide_counters(struct vpmu_pcpu *p, uint64_t keys);
/* A tick: give back what nobody uses, and let keys that wait take turns. Returns whether counters
 * may have gone to other keys of the running context. */
bool rotate_counters(struct vpmu_pcpu *p);

/* conservation.c */
void audit_see(struct vpmu_pcpu *p, struct vpmu_cell *cell);

/* sync.c */
/*
 * Make every pCPU charge everything, take up changed keys, and then call @fn, which may be NULL. An
 * online pCPU's owner does that at its next safe point, and several owners do it at the same time;
 * for pCPUs that are offline this call does it. Returns when all are done. It leaves out the
 * pCPUs that sync_spare_all has spared since the last sync. Under ctl_lock.
 *
 * -ETIMEDOUT: the owner of a pCPU did not come, see vpmu_host_late. The call is complete on the
 * other pCPUs. On that one, @fn is not called any more, and changed keys will be taken up when its
 * owner comes to a safe point. So whoever ends something must give back nothing that the owner may
 * still use: samplers_left and lbr_left keep it until no pCPU is late, and cells stay
 * (cell.c). Whoever begins something must undo it.
 */
int host_sync_locked(struct vpmu_host *host, void (*fn)(struct vpmu_pcpu *p, void *arg), void *arg);
/* Whether a pCPU is late. Then nothing may be freed that its owner can still use. */
bool any_late(const struct vpmu_host *host);
/* Give back what was kept for late pCPUs, if none is late now. Under ctl_lock. */
void host_reap(struct vpmu_host *host);

#endif
