/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The scheduler's figures of bound threads and CPUs. Private to this folder: included by priv.h. */
#pragma once

#include "cgroup/bpf/maps.h"
#include "vpmu/event/event.h"

struct bpf_backend;
struct binding;

/* ---- schedstat.c ---- */
/* The slot of a figure of the scheduler in a request for sums: it has none of the program's. */
#define SCHED_SLOT VPMU_MAX_SLOTS
#define SUM_SLOTS  (VPMU_MAX_SLOTS + KP_SCHED)
/* sched_use, sched_unuse - a key of enum vpmu_sched @i is attached, detached.
 * sched_begin, sched_end - task @b was bound; is about to be unbound or bound to another node.
 * sched_close - forget it without a last reading.
 * sched_read - charge what @b has done since the last reading.
 * sched_flush - the same for all threads of the nodes that are marked (k->mark).
 * sched_tend - the same for all threads, if none was requested for a while.
 * sched_probe - returns 0 or the error for which figure @i cannot be read. */
void sched_use(struct bpf_backend *k, unsigned int i);
void sched_unuse(struct bpf_backend *k, unsigned int i);
void sched_begin(struct bpf_backend *k, struct binding *b);
void sched_end(struct bpf_backend *k, struct binding *b);
void sched_read(struct bpf_backend *k, struct binding *b);
void sched_close(struct binding *b);
void sched_flush(struct bpf_backend *k);
void sched_tend(struct bpf_backend *k, uint64_t now_ns);
int sched_probe(const struct bpf_backend *k, unsigned int i);

/* ---- idle.c ---- */
/* idle_read - the time in which CPUs were idle since the boot. Returns 0 or -errno.
 * idle_take - set it in the account of the idle task, `other`. */
void idle_take(struct bpf_backend *k);
int idle_read(const struct bpf_backend *k, uint64_t *ns);

/* ---- schedtask.c ---- */
struct sched_record;
/* schedtask_open - load the iterator; sched_use() calls it. -EOPNOTSUPP and others: not here.
 * schedtask_close - NULL is fine.
 * schedtask_read - call @fn for each bound task that lives. */
int schedtask_open(struct bpf_backend *k);
void schedtask_close(struct bpf_backend *k);
int schedtask_read(struct bpf_backend *k,
		   void (*fn)(struct bpf_backend *k, const struct sched_record *r));
/* key_is_sched - returns true if @key is a figure of /proc. The others are the program's. */
static inline bool key_is_sched(vpmu_key_t key)
{
	return vpmu_key_space(key) == VPMU_SPACE_SCHED &&
	       vpmu_key_event(key) != VPMU_SCHED_PREEMPTED;
}
