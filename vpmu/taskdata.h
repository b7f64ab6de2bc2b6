/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Task data: the memory that holds a vCPU task's branch records while they are not in a CPU, and
 * the pool it comes from. Private to libvpmu: lbr.c (what a CPU records) and lbr_attach.c (who
 * captures) use it.
 *
 * The pool's chunks are mapped when they are needed and unmapped when their last object is gone, so
 * a host whose vCPUs use no branch records holds no memory for them. An object is found through an
 * RCU pointer; one that is retired comes back to its chunk a grace period later.
 */
#ifndef VPMU_TASKDATA_H
#define VPMU_TASKDATA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/lbr_regs.h"
#include "vpmu/rcu.h"

enum taskdata_state { TASKDATA_USED, TASKDATA_PARKED, TASKDATA_RETIRED };

/*
 * One writer at a time: who makes it, then the owner of the pCPU where its task is placed. The
 * owner reads @regs plainly; everybody else through taskdata_read.
 */
struct vpmu_taskdata {
	union {
		uint64_t id; /* never used again; a CPU remembers whose records it holds by it */
		struct vpmu_taskdata **slot; /* parked: what points here */
	};
	uint32_t seq; /* odd while regs is being written */
	/* under the pool's lock */
	uint8_t index; /* in its chunk */
	uint8_t state; /* enum taskdata_state */
	bool waiting;  /* rcu is under way */
	bool again;    /* and was asked for once more meanwhile */
	struct vpmu_lbr_regs regs;
	struct rcu_head rcu;
};

_Static_assert(sizeof(struct vpmu_lbr_regs) <= 800, "I6: payload of a vCPU's records");

/* Part of struct vpmu_host. */
struct vpmu_lbr_pool {
	pthread_mutex_t lock;	      /* innermost of all */
	struct cds_list_head partial; /* chunks with room, and */
	struct cds_list_head full;    /* the others */
	uint64_t next_id;
	unsigned int max_chunks; /* refuse to grow beyond; 0: no limit. For tests */
	size_t nr_chunks;	 /* under lock; atomic to read */
	size_t nr_tasks;	 /* in use; the same */
};

/* taskdata_pool_init / fini - fini: after the last grace period (no callback is in flight), frees
 * what is left. */
void taskdata_pool_init(struct vpmu_lbr_pool *pool);
void taskdata_pool_fini(struct vpmu_lbr_pool *pool);

/* taskdata_alloc - an object with a new id, the rest zero; NULL when out of memory. Any thread. */
struct vpmu_taskdata *taskdata_alloc(struct vpmu_lbr_pool *pool);

/* taskdata_retire - give back what is not published any more; it stays readable for a grace
 * period. Any thread registered with liburcu. */
void taskdata_retire(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d);

/*
 * taskdata_park - the same, but until the grace period is over whoever has *@slot (NULL before) can
 * have it back by taskdata_unpark: with a new id, the records as they were, and maybe readers;
 * NULL: it is gone already. So a guest that opens and closes its records as fast as it can has one
 * object, not as many as fit in a grace period. taskdata_retire_parked - nobody wants it back,
 * @slot goes away. Each slot has one user at a time.
 */
void taskdata_park(struct vpmu_lbr_pool *pool, struct vpmu_taskdata *d,
		   struct vpmu_taskdata **slot);
struct vpmu_taskdata *taskdata_unpark(struct vpmu_lbr_pool *pool, struct vpmu_taskdata **slot);
void taskdata_retire_parked(struct vpmu_lbr_pool *pool, struct vpmu_taskdata **slot);

/* taskdata_write - replace the records, whole for every reader. The writer. */
void taskdata_write(struct vpmu_taskdata *d, const struct vpmu_lbr_regs *r);

/* taskdata_read - copy the records as they were at one time. False: a writer was at it each time.
 * Any thread, in RCU; any context. */
bool taskdata_read(const struct vpmu_taskdata *d, struct vpmu_lbr_regs *r);

#endif
