/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Task data: the memory that holds a vCPU task's branch records while they are not in a CPU, and
 * the pool it comes from. lbr.c (what a CPU records) and lbr_attach.c (who captures) use it, and
 * cgroup/branches.c for the threads that it captures.
 *
 * The pool maps a chunk when it needs one, and unmaps it when the last object in it is gone. So a
 * host whose vCPUs use no branch records holds no memory for them. Readers find an object through
 * an RCU pointer; a retired object goes back to its chunk a grace period later.
 */
#ifndef VPMU_CORE_TASKDATA_H
#define VPMU_CORE_TASKDATA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/lbr_regs.h"
#include "vpmu/core/rcu.h"

enum taskdata_state { TASKDATA_USED, TASKDATA_PARKED, TASKDATA_RETIRED };

/*
 * One object. It has one writer at a time: first the thread that makes it, then the owner of the
 * pCPU on which its task is placed. The owner reads @regs directly, everybody else calls
 * taskdata_read.
 */
struct vpmu_taskdata {
	union {
		uint64_t id; /* unique for ever; says whose records a CPU holds (lbr_owner) */
		struct vpmu_taskdata **slot; /* parked: the pointer to this object */
	};
	uint32_t seq; /* odd while regs is being written */
	/* under the pool's lock */
	uint8_t index; /* in its chunk */
	uint8_t state; /* enum taskdata_state */
	bool waiting;  /* call_rcu was called for it and its callback has not run yet */
	bool again;    /* it was given back once more since that call */
	struct vpmu_lbr_regs regs;
	union {
		struct rcu_head rcu;
		struct vpmu_taskdata *next; /* in host->lbr_left, before it is given back */
	};
};

_Static_assert(sizeof(struct vpmu_lbr_regs) <= 800, "I6: the size of a vCPU's records");

/* Part of struct vpmu_host. */
struct vpmu_lbr_pool {
	pthread_mutex_t lock;	      /* innermost of all */
	struct cds_list_head partial; /* chunks with room */
	struct cds_list_head full;    /* chunks without */
	uint64_t next_id;
	size_t nr_chunks; /* written under the lock, read by anybody */
	size_t nr_tasks;  /* objects in use; likewise */
};

/* taskdata_pool_init - an empty pool. taskdata_pool_fini - free what is left; no callback may be in
 * flight, so call it after the last grace period. */
void taskdata_pool_init(struct vpmu_lbr_pool *pool);
void taskdata_pool_fini(struct vpmu_lbr_pool *pool);

/* taskdata_usage - the memory that @pool holds. Any thread. */
struct vpmu_lbr_usage;
void taskdata_usage(const struct vpmu_lbr_pool *pool, struct vpmu_lbr_usage *out);

/* taskdata_alloc - an object with a new id and everything else zero. NULL when out of memory. Any
 * thread. */
struct vpmu_taskdata *taskdata_alloc(struct vpmu_lbr_pool *pool);

/* taskdata_retire - give back @d, which is no longer published. It stays readable for a grace
 * period. Any thread. */
void taskdata_retire(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d);

/*
 * taskdata_park - retire @d, but keep it reachable through *@slot (NULL before) until its grace
 * period ends. This bounds a guest that opens and closes its records in a loop to one object.
 * taskdata_unpark - take the object back from *@slot: it gets a new id, keeps its records, and may
 * still have readers. NULL: its grace period is over.
 * taskdata_retire_parked - before *@slot goes away: nobody will take its object back.
 * One thread at a time may use a slot.
 */
void taskdata_park(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d,
		   struct vpmu_taskdata **slot);
struct vpmu_taskdata *taskdata_unpark(struct vpmu_lbr_pool *pool, struct vpmu_taskdata **slot);
void taskdata_retire_parked(struct vpmu_lbr_pool *pool, struct vpmu_taskdata **slot);

/* taskdata_write - replace the records. A reader sees all of the old or all of the new ones. For
 * the object's writer only. */
void taskdata_write(struct vpmu_taskdata *d, const struct vpmu_lbr_regs *r);

/* taskdata_read - copy the records as they were at one instant. False: a writer was at work during
 * each of several tries. Any thread and any signal handler, inside an RCU read side. */
bool taskdata_read(const struct vpmu_taskdata *d, struct vpmu_lbr_regs *r);

#endif
