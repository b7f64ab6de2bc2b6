/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Task data: the memory that holds a vCPU task's branch records while they are not in a CPU, and
 * the pool it comes from. Users: lbr.c (the CPU's recording), lbr_attach.c (captures), and
 * cgroup/branches.c for the threads that it captures.
 *
 * The pool maps chunks on demand and unmaps each when its last object is freed, so a host without
 * branch records uses no memory for them. Readers find an object through an RCU pointer; a retired
 * object returns to its chunk a grace period later.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/lbr_regs.h"
#include "vpmu/core/rcu.h"

enum taskdata_state { TASKDATA_USED, TASKDATA_PARKED, TASKDATA_RETIRED };

/*
 * One object. It has one writer at a time: first the thread that allocates it, then the owner of
 * the pCPU on which its task is placed. The owner reads @regs directly; all others call
 * taskdata_read.
 */
struct vpmu_taskdata {
	union {
		uint64_t id; /* never reused; identifies the records in a CPU (lbr_owner) */
		struct vpmu_taskdata **slot; /* parked: the pointer to this object */
	};
	uint32_t seq; /* odd while regs is being written */
	/* under the pool's lock */
	uint8_t index; /* in its chunk */
	uint8_t state; /* enum taskdata_state */
	bool waiting;  /* queued with call_rcu; the callback has not run yet */
	bool again;    /* given back again since then */
	struct vpmu_lbr_regs regs;
	union {
		struct rcu_head rcu;
		struct vpmu_taskdata *next; /* in host->lbr_left, until it is given back */
	};
};

_Static_assert(sizeof(struct vpmu_lbr_regs) <= 800, "I6: the size of a vCPU's records");

/* Part of struct vpmu_host. */
struct vpmu_lbr_pool {
	pthread_mutex_t lock;	      /* innermost lock */
	struct cds_list_head partial; /* chunks with room */
	struct cds_list_head full;    /* chunks without */
	uint64_t next_id;
	size_t nr_chunks; /* written under the lock, read without */
	size_t nr_tasks;  /* objects in use; likewise */
};

/* taskdata_pool_init - make an empty pool. taskdata_pool_fini - free all chunks; call it after the
 * last grace period, because no callback may be in flight. */
void taskdata_pool_init(struct vpmu_lbr_pool *pool);
void taskdata_pool_fini(struct vpmu_lbr_pool *pool);

/* taskdata_usage - store the memory that @pool uses. Any thread. */
struct vpmu_lbr_usage;
void taskdata_usage(const struct vpmu_lbr_pool *pool, struct vpmu_lbr_usage *out);

/* taskdata_alloc - returns an object with a new id and everything else zero; NULL if out of memory.
 * Any thread. */
struct vpmu_taskdata *taskdata_alloc(struct vpmu_lbr_pool *pool);

/* taskdata_retire - give back @d, which is no longer published. It stays readable for a grace
 * period. Any thread. */
void taskdata_retire(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d);

/*
 * taskdata_park - retire @d, but keep it reachable through *@slot (NULL before) until its grace
 * period ends. This bounds a guest that opens and closes its records in a loop to one object.
 * taskdata_unpark - take the object back from *@slot: it gets a new id, keeps its records, and may
 * still have readers. NULL: the slot is empty or its grace period is over.
 * taskdata_retire_parked - before *@slot goes away: give its object up.
 * One thread at a time may use a slot.
 */
void taskdata_park(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d,
		   struct vpmu_taskdata **slot);
struct vpmu_taskdata *taskdata_unpark(struct vpmu_lbr_pool *pool, struct vpmu_taskdata **slot);
void taskdata_retire_parked(struct vpmu_lbr_pool *pool, struct vpmu_taskdata **slot);

/* taskdata_write - replace the records. Readers see either all old or all new ones. The object's
 * writer only. */
void taskdata_write(struct vpmu_taskdata *d, const struct vpmu_lbr_regs *r);

/* taskdata_read - copy a consistent set of records. Returns false if a writer was active during
 * each of several tries. Any thread and any signal handler, inside an RCU read side. */
bool taskdata_read(const struct vpmu_taskdata *d, struct vpmu_lbr_regs *r);
