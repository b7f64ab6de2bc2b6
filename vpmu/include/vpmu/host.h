/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A host: the root object for everything that libvpmu counts on one machine.
 *
 * The headers of libvpmu's core, one concept each:
 *
 *   host.h      this file: hosts, their two fixed accounts, syncs, statistics
 *   pcpu.h      a CPU with counters, and the calls of the thread that owns it (the switch path)
 *   account.h   where counts are charged; a tree: host root > tenants > VMs > vCPUs
 *   context.h   a vCPU task as the switch path sees it: an account plus caches
 *   consumer.h  a virtual counter: an account, a key and a base; its value is a difference
 *   alarm.h     overflows of a vCPU's own counters
 *   sampler.h   an operator's samples of any account
 *   lbr.h       branch records of vCPU tasks
 *   quota.h     limits on the keys that guests may count at a time
 *   conservation.h  the check that no count is lost
 *   hostpmu.h   the interface that a host PMU implements
 *
 * Threads. Each comment in these headers names the threads that may call the function:
 *
 *   Owner     the one thread that operates a pCPU (vpmu_pcpu_online). It also makes the "local"
 *             calls for consumers of the vCPU that is placed on its pCPU.
 *   Control   any thread that does not own an online pCPU. Control calls are serialized by a mutex
 *             of the host. They may wait until each online pCPU's owner has called vpmu_pcpu_poll,
 *             or until a deadline (vpmu_host_set_deadline).
 *   Any       any thread, and signal handlers where stated.
 *
 * An offline pCPU has no owner: control calls operate it, and any single thread may make its owner
 * calls. A program with one thread never needs to bring a pCPU online. Each thread that calls
 * libvpmu must be registered with liburcu (urcu_memb_register_thread).
 *
 * Errors are negative errno values.
 */
#ifndef VPMU_HOST_H
#define VPMU_HOST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_account;
struct vpmu_host;

/* vpmu_host_create - make an empty host. Returns NULL if out of memory. Control. */
struct vpmu_host *vpmu_host_create(void);

/*
 * vpmu_host_destroy - free @host with all its accounts and pCPUs. NULL does nothing. Waits for a
 * grace period. No pCPU may be online, and no consumer may exist. Control; the last call.
 */
void vpmu_host_destroy(struct vpmu_host *host);

/*
 * vpmu_host_root - the account of the whole host. Any thread.
 * vpmu_host_other - its child "host": the account charged while no vCPU runs.
 */
struct vpmu_account *vpmu_host_root(struct vpmu_host *host);
struct vpmu_account *vpmu_host_other(struct vpmu_host *host);

/*
 * vpmu_host_sync - bring every total up to date. Each online pCPU's owner is kicked and charges its
 * counters at its next vpmu_pcpu_poll; this call charges offline pCPUs itself. Returns 0 when all
 * pCPUs are done. -ETIMEDOUT: a pCPU is stalled; the totals of the others are current. Control.
 */
int vpmu_host_sync(struct vpmu_host *host);

/* vpmu_host_sync_some - vpmu_host_sync for only those accounts that @next returns, one per call
 * until NULL. Only pCPUs on which contexts of these accounts were placed take part. @next is called
 * under a lock and must not call libvpmu. Control. */
int vpmu_host_sync_some(struct vpmu_host *host, struct vpmu_account *(*next)(void *arg), void *arg);

/*
 * vpmu_host_set_deadline - set the time, in ns, that a control call waits for the pCPUs' owners; 0
 * is the default, 10 s. One interval in which the process is stopped uses up no more than a
 * sixteenth of it, however long. Any thread.
 *
 * A pCPU whose owner misses the deadline is stalled: control calls still kick it but no longer wait
 * for it. A call that starts something (vpmu_consumer_add and _enable, vpmu_sampler_create,
 * vpmu_lbr_attach) or checks something (vpmu_host_conservation) then does nothing and returns
 * -ETIMEDOUT. A call that ends something still does: its final values lack the stalled pCPU's
 * uncharged counts, and memory that the owner may still use is freed later. At its next
 * vpmu_pcpu_poll the pCPU applies all changes and is no longer stalled. No count is lost: uncharged
 * counts go to the account that runs there. If an owner hangs inside vpmu_pcpu_poll, control calls
 * wait for it without a deadline.
 */
void vpmu_host_set_deadline(struct vpmu_host *host, uint64_t ns);

/* vpmu_host_stalled - returns the number of stalled pCPUs; *@id (may be NULL) is set to the id of
 * one of them, if any. Any thread and signal handlers. */
unsigned int vpmu_host_stalled(struct vpmu_host *host, unsigned int *id);

/* vpmu_host_sharing - store the current numbers of consumers and of the counters that serve them.
 * Never waits for a pCPU. Any thread. */
struct vpmu_sharing {
	unsigned int consumers;	    /* enabled consumers */
	unsigned int keys;	    /* distinct keys they use */
	unsigned int host_counters; /* bound hardware counters, over all pCPUs */
	uint64_t refused;	    /* enables that failed so far: no free slot, or quota used up */
};
void vpmu_host_sharing(struct vpmu_host *host, struct vpmu_sharing *out);

#ifdef __cplusplus
}
#endif

#endif
