/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvpmu's core: a host, its pCPUs with shared counters, accounts, contexts and consumers.
 *
 *   host      the slot table (key -> slot, refcounted) and the tree of accounts
 *   pcpu      the counters of one CPU: which slot has which counter, last snapshots, who runs
 *   account   who is charged; a tree (host root > tenants > VMs > vCPUs). Only the account that
 *             runs is charged; ancestors are summed when somebody reads them
 *   context   one vCPU task as the switch path sees it: an account plus caches
 *   consumer  one counter of somebody: (account, key, base). Its value is a difference
 *
 * Threads. Each pCPU has one owner thread; vpmu_pcpu_* and the consumers of the vCPU that runs on
 * it ("local" calls) belong to the owner. Everything marked "control" may be called by any other
 * thread; control calls serialize on a mutex inside and never hold it while an owner waits for it.
 * A pCPU that is not online is operated by whoever makes the call (single-threaded programs never
 * need to bring a pCPU online). vpmu_consumer_read is for any context at all: other threads, signal
 * handlers at any point of any of these functions. Threads that call any function here must be
 * registered with liburcu (urcu_memb_register_thread).
 *
 * Errors are negative errno.
 */
#ifndef VPMU_VPMU_H
#define VPMU_VPMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/account.h"
#include "vpmu/event/event.h"
#include "vpmu/hostpmu.h"
#include "vpmu/lbr.h"

struct vpmu_host;
struct vpmu_pcpu;
struct vpmu_account;
struct vpmu_binding;

/* ---- host -------------------------------------------------------------------------------- */

/* vpmu_host_create - an empty host. NULL when out of memory. Control. */
struct vpmu_host *vpmu_host_create(void);

/* vpmu_host_destroy - free @host and every account and pCPU still in it; waits for a grace
 * period. No pCPU may be online and no consumer added. Control, last call. */
void vpmu_host_destroy(struct vpmu_host *host);

/* vpmu_host_root / vpmu_host_other - the account of the whole host, and its child "host": the
 * account of everything that runs in no VM-cgroup. */
struct vpmu_account *vpmu_host_root(struct vpmu_host *host);
struct vpmu_account *vpmu_host_other(struct vpmu_host *host);

/*
 * vpmu_host_sync - make every total current: each online pCPU's owner is kicked and charges what
 * its counters hold at its next vpmu_pcpu_poll; pCPUs that are not online are charged here.
 * Returns when all have. Control; must not be called by the owner of an online pCPU.
 */
void vpmu_host_sync(struct vpmu_host *host);

/* Figures for "how many consumers are served by how many counters". Any thread. */
struct vpmu_sharing {
	unsigned int consumers;	    /* enabled consumers */
	unsigned int keys;	    /* distinct keys they use */
	unsigned int host_counters; /* hardware counters bound now, over all pCPUs */
};
void vpmu_host_sharing(struct vpmu_host *host, struct vpmu_sharing *out);

/* ---- pCPU -------------------------------------------------------------------------------- */

/*
 * vpmu_pcpu_create - add a CPU whose counters are @pmu (borrowed until vpmu_pcpu_destroy). It
 * starts offline with the host account current. @id is for output only. Control.
 */
int vpmu_pcpu_create(struct vpmu_host *host, struct vpmu_hostpmu *pmu, unsigned int id,
		     struct vpmu_pcpu **out);

/* vpmu_pcpu_destroy - charge what is left, unbind all counters, fold the host account's part.
 * -EBUSY while online or while an account other than host is current. Control. */
int vpmu_pcpu_destroy(struct vpmu_pcpu *pcpu);

/* vpmu_pcpu_online / offline - the calling thread becomes (stops being) the owner; offline
 * charges everything first and answers waiting syncs. Owner. */
void vpmu_pcpu_online(struct vpmu_pcpu *pcpu);
void vpmu_pcpu_offline(struct vpmu_pcpu *pcpu);

/* vpmu_pcpu_poll - a safe point: answers pending syncs. One load when there is none. Owner. */
void vpmu_pcpu_poll(struct vpmu_pcpu *pcpu);

/* vpmu_pcpu_flush - charge what the counters hold to the running account, now, and take up
 * changed key sets. Owner. */
void vpmu_pcpu_flush(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_tick - rotation. When more keys are in use here than there are counters, the slots
 * that wait take their turn (keys that fit fixed counters stay there); slots that nobody used
 * since the last tick give their counter up first. Does nothing otherwise. Owner.
 */
void vpmu_pcpu_tick(struct vpmu_pcpu *pcpu);

unsigned int vpmu_pcpu_id(const struct vpmu_pcpu *pcpu);

/* ---- accounts ---------------------------------------------------------------------------- */

/*
 * vpmu_account_create - a new account below @parent (not NULL). @owner is the caller's pointer,
 * returned by vpmu_account_owner. Control; cost does not depend on how many there are.
 */
int vpmu_account_create(struct vpmu_account *parent, void *owner, struct vpmu_account **out);

/*
 * vpmu_account_del - remove: its counts fold into its parent, exactly, under concurrent readers.
 * -EBUSY while it has children, consumers or contexts, or is captured (vpmu_lbr_attach). The memory
 * goes after a grace period. Control.
 */
int vpmu_account_del(struct vpmu_account *account);

void *vpmu_account_owner(const struct vpmu_account *account);
struct vpmu_account *vpmu_account_parent(const struct vpmu_account *account);

/* ---- contexts and the switch path ---------------------------------------------------------- */

struct vpmu_where;
struct vpmu_alarm;

/*
 * A vCPU task. @own is the account charged while the vCPU itself has consumers; @group (its VM's)
 * is charged otherwise, so that vCPUs that are only counted as part of their VM are equal and
 * switching between them reads nothing.
 */
struct vpmu_context {
	struct vpmu_account *own;
	struct vpmu_account *group;
	/* Where the vCPU is, for samples: may be set after init (NULL: not known). Owner of the
	 * pCPU on which the context is current, not while guest code executes. */
	int (*where)(struct vpmu_context *ctx, struct vpmu_where *out);
	/* private: see pcpu.c */
	struct vpmu_pcpu *pcpu;
	struct vpmu_cell *own_cell;
	struct vpmu_cell *group_cell;
	struct vpmu_cell *cell;
	uint64_t tree_gen;	   /* the host's when @keys was computed; 0: compute again */
	uint64_t keys;		   /* slots in use by the account and its ancestors */
	uint64_t watch;		   /* slots that alarms, or samplers in reach, are on */
	struct vpmu_alarm *alarms; /* its own consumers', see alarm.c */
	uint32_t samplers;	   /* in reach: of the account and its ancestors */
	struct vpmu_lbr_task lbr;
	struct vpmu_context *host_next, **host_prev; /* all of the host's, under ctl_lock */
};

/* Where a vCPU is: the next instruction it will execute. */
struct vpmu_where {
	uint64_t ip;
	uint8_t cpl; /* 0..3 */
};

/* vpmu_context_init - @group may be NULL (then @own is always charged). Takes a reference on
 * both accounts. Control. */
int vpmu_context_init(struct vpmu_context *ctx, struct vpmu_account *own,
		      struct vpmu_account *group);

/* vpmu_context_fini - drop the references. Must not be current anywhere. Control. */
void vpmu_context_fini(struct vpmu_context *ctx);

/*
 * vpmu_context_place - make @ctx ready to run on @pcpu (first placement and every migration);
 * all allocation happens here so that the switch has none. Must not be current anywhere.
 * Owner of @pcpu, or control while @pcpu is offline. -ENOMEM.
 */
int vpmu_context_place(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_switch - @next (placed here; NULL = the host account) runs from now on. Nothing at
 * all happens when its cookie equals that of what ran until now. Otherwise the slots in use by
 * either are read and charged. Owner; no locks, no allocation; binds a counter on the first run
 * of a key on this pCPU only.
 */
void vpmu_pcpu_switch(struct vpmu_pcpu *pcpu, struct vpmu_context *next);

/* ---- consumers --------------------------------------------------------------------------- */

struct vpmu_value {
	uint64_t count;	     /* events counted, never scaled */
	uint64_t enabled_ns; /* the account ran, where the key can be counted, while enabled */
	uint64_t running_ns; /* of that: a host counter was counting (= enabled: exact) */
	enum vpmu_quality quality;
	bool supported; /* false: this host cannot count the key; count is 0 */
	bool partial;	/* part of the account ran where the key cannot be counted: that part is
			 * missing from count */
};

/* vpmu_value_scaled - count * enabled / running, saturating; 0 when it never ran. Pure. */
uint64_t vpmu_value_scaled(const struct vpmu_value *v);

/* Memory is the caller's: zeroed before the first use; may be freed a grace period after
 * vpmu_consumer_del (vpmu_rcu_free does). */
struct vpmu_consumer {
	/* private */
	struct vpmu_binding *binding; /* RCU: read anywhere, replaced whole */
	struct vpmu_binding *spare;   /* so that disabling cannot fail */
	struct vpmu_account *account;
	vpmu_key_t key;
	int slot;   /* -1: disabled or unsupported */
	bool local; /* the form it was added in */
	bool supported;
	enum vpmu_quality quality;
};

/*
 * vpmu_consumer_add - count @key for @account and everything below it, from now. Value 0.
 * Local form (@pcpu not NULL): the account's vCPU is @pcpu's and the caller owns @pcpu; O(1), no
 * lock and no allocation when the key is in use already. Control form (@pcpu NULL): any account;
 * waits for every pCPU to pass a safe point, so that no count from before the call is included.
 * A consumer keeps to the form it was added in. Reading and control calls walk the accounts below;
 * for a vCPU's account there are none.
 * -EOPNOTSUPP: no host PMU here counts the key (the consumer is added all the same, reads as
 * unsupported, and must be deleted); -ENOSPC: all VPMU_MAX_SLOTS slots in use (not added);
 * -EINVAL: bad key (not added); -ENOMEM (not added).
 */
int vpmu_consumer_add(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key,
		      struct vpmu_pcpu *pcpu);

/* vpmu_consumer_disable / enable - stop and go on counting, value kept. Same two forms; enable
 * may fail like add (then still disabled). Idempotent. */
int vpmu_consumer_enable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu);
void vpmu_consumer_disable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu);

/* vpmu_consumer_del - disable, store the last value in *last (may be NULL), forget. */
void vpmu_consumer_del(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu, struct vpmu_value *last);

/*
 * Batches, so that many control-form changes wait for the pCPUs once. All of @c belong to the
 * caller. add: stops at the first error other than -EOPNOTSUPP, deletes what it added, and
 * returns the error with *failed = its index.
 */
int vpmu_consumer_add_many(struct vpmu_consumer **c, struct vpmu_account *const *account,
			   const vpmu_key_t *key, size_t n, size_t *failed);
void vpmu_consumer_del_many(struct vpmu_consumer **c, size_t n, struct vpmu_value *last);

/*
 * vpmu_consumer_read - the value as of the last switch or flush of the pCPUs concerned; for an
 * exact one call vpmu_pcpu_flush (owner) or vpmu_host_sync (control) first. Any context: signal
 * handlers included, never blocks; count and enabled_ns never go back. A read in the middle of a
 * charge can show running_ns one interval ahead for a slot without a counter.
 */
void vpmu_consumer_read(const struct vpmu_consumer *c, struct vpmu_value *out);

/* vpmu_rcu_free - free(@ptr) after a grace period. Any thread. Never fails. */
void vpmu_rcu_free(void *ptr);

/* ---- sampling: alarms and samplers --------------------------------------------------------- */

/*
 * An alarm of a vCPU's own consumer: fires when the consumer has counted so many more events. The
 * counter of a slot is armed for the smallest distance among the alarms of whoever runs; each alarm
 * whose distance is used up fires, the others' distances go down by what was counted. Distances are
 * of counts charged: while a slot has no counter (rotation) they stand still, and nothing is lost
 * by a switch or a migration. Memory is the caller's. Owner of the pCPU the context is placed on.
 */
struct vpmu_alarm {
	/*
	 * The distance is used up, and @over more events were counted already (one instruction can
	 * count several; a PMU without alarms is late). Returns the next distance, from the instant
	 * at which it was used up, so @over is taken off it; one that is used up by then fires at
	 * once again with what remains of @over; 0: no further alarm. Called by the owner inside
	 * vpmu_pcpu_overflow, switch, flush, tick or a consumer call: it must only take a note, and
	 * call nothing of libvpmu. Several that fire in one call come in no particular order.
	 */
	uint64_t (*fire)(struct vpmu_alarm *a, uint64_t over);
	/* private: see alarm.c */
	struct vpmu_context *ctx; /* NULL: not set */
	struct vpmu_alarm *next;
	int slot;
	uint64_t left;
};

/*
 * vpmu_alarm_set - fire @events (> 0) events of @c from now; replaces the distance if it is set.
 * @c is a local consumer of ctx->own, enabled; one that is unsupported has no alarms (nothing
 * happens). It must be cleared before @c is disabled or deleted.
 */
void vpmu_alarm_set(struct vpmu_alarm *a, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		    struct vpmu_pcpu *pcpu, uint64_t events);
/* vpmu_alarm_clear - charge, so that what is due fires, then forget. Idempotent. */
void vpmu_alarm_clear(struct vpmu_alarm *a, struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_overflow - the host PMU's alarm went off: charge, fire what is due, arm again. Harmless
 * when nothing is due. Owner.
 */
void vpmu_pcpu_overflow(struct vpmu_pcpu *pcpu);

/*
 * An operator's sampler: an account (whatever it is: vCPU, VM, tenant, root), a key and a period.
 * On each pCPU every period-th event that is charged to the account or below it makes a sample; the
 * distances of the pCPUs are separate, as those of perf's per-CPU events are: with N events on a
 * pCPU there are exactly floor(N / period) samples from it. It shares the slot's counter with
 * everybody who counts or samples the key.
 */
struct vpmu_sampler;

struct vpmu_sample {
	/* Who ran (its own, group say which vCPU); while no vCPU ran, the pCPU's own context, whose
	 * own account is vpmu_host_other. Never NULL. */
	const struct vpmu_context *ctx;
	struct vpmu_where where; /* ip 0, cpl 0 when it is not known */
	bool where_known;	 /* not on a pCPU whose PMU has no alarms */
	unsigned int pcpu;	 /* vpmu_pcpu_id */
	uint64_t time_ns;	 /* of the pCPU's clock */
	uint64_t periods;	 /* 1, or more when one instruction counted several periods */
	/* Events counted since the last of these was used up: 0, or less than what one instruction
	 * counts; more: the PMU was late, and @where is so far behind (no alarms: not known). */
	uint64_t over;
	bool has_lbr;
	const struct vpmu_lbr_regs *lbr; /* the branch records then, when lbr was asked for */
	enum vpmu_lbr_user lbr_user;
};

struct vpmu_sampler_opts {
	struct vpmu_account *account;
	vpmu_key_t key;
	uint64_t period; /* 1 .. 2^47 */
	bool lbr;	 /* with branch records, where there are some */
	/* A sample. Owner of the pCPU (control while it is offline), inside any call that charges:
	 * no locks, no allocation, nothing of libvpmu. *s is gone on return. Calls for different
	 * pCPUs come at the same time, and before vpmu_sampler_create returns. */
	void (*sample)(void *arg, const struct vpmu_sample *s);
	void *arg;
};

#define VPMU_SAMPLERS_MAX 32 /* of one host */

/*
 * vpmu_sampler_create - sample from now on: on each pCPU the first period begins inside this call,
 * not before it, and not before vpmu_sampler_read counts. Errors as vpmu_consumer_add's; besides
 * -EINVAL: period, no sample(); -E2BIG: VPMU_SAMPLERS_MAX; -EOPNOTSUPP: no pCPU here counts the
 * key, or none of those that do has alarms (nothing is left behind). pCPUs that come later take
 * part. vpmu_sampler_destroy - no call of sample() on return. NULL is fine. Control.
 */
int vpmu_sampler_create(struct vpmu_host *host, const struct vpmu_sampler_opts *opts,
			struct vpmu_sampler **out);
void vpmu_sampler_destroy(struct vpmu_sampler *s);

/* vpmu_sampler_read - what the sampler's consumer counted: as vpmu_consumer_read. */
void vpmu_sampler_read(const struct vpmu_sampler *s, struct vpmu_value *out);

/* ---- conservation (I1) ------------------------------------------------------------------- */

struct vpmu_conservation {
	unsigned int pcpu; /* vpmu_pcpu_id */
	vpmu_key_t key;
	uint64_t hardware; /* what the host's counter counted, over all its binds */
	uint64_t charged;  /* the sum over all accounts, removed ones included, and of what was
			    * counted while somebody ran who had not asked for it */
};

/*
 * vpmu_host_conservation - syncs, then reports each pCPU and key that was ever bound there while
 * the key held its slot. @fn must not call control functions. Stops when @fn returns non-zero and
 * returns that. hardware is from the PMU's audit way where it has one. Control.
 */
int vpmu_host_conservation(struct vpmu_host *host,
			   int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg);

#endif
