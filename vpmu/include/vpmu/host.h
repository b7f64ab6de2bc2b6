/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A host: everything that libvpmu counts on one machine.
 *
 * The headers of libvpmu's core, one concept each:
 *
 *   host.h      this file: making a host, its two fixed accounts, its figures
 *   pcpu.h      a CPU with counters, and the calls of the thread that owns it (the switch path)
 *   account.h   who is charged; a tree: host root > tenants > VMs > vCPUs
 *   context.h   a vCPU task as the switch path sees it: an account plus caches
 *   consumer.h  one counter of somebody: an account, a key and a base; its value is a difference
 *   alarm.h     a vCPU's own overflows          sampler.h   an operator's samples of any account
 *   lbr.h       branch records of vCPU tasks    conservation.h  the check that nothing is lost
 *   quota.h    limits of what guests may count at a time
 *   hostpmu.h   what a host PMU must implement
 *
 * Threads. Each comment in these headers names who may call the function:
 *
 *   Owner     the one thread that operates a pCPU (vpmu_pcpu_online). It also makes the "local"
 *             calls for consumers of the vCPU that is placed on its pCPU.
 *   Control   any thread that does not own an online pCPU. Control calls take a mutex inside the
 *             library, one after another. They may wait until each online pCPU's owner has called
 *             vpmu_pcpu_poll, or until a deadline (vpmu_host_set_deadline).
 *   Any       any thread, and signal handlers too where the comment says so.
 *
 * A pCPU that is offline has no owner: a control call operates it, and so may any single thread. A
 * program with one thread never needs to bring a pCPU online. Each thread that calls libvpmu must
 * be registered with liburcu (urcu_memb_register_thread).
 *
 * Errors are negative errno values.
 */
#ifndef VPMU_HOST_H
#define VPMU_HOST_H

#include <stdint.h>

struct vpmu_account;
struct vpmu_host;

/* vpmu_host_create - make an empty host. Returns NULL when out of memory. Control. */
struct vpmu_host *vpmu_host_create(void);

/*
 * vpmu_host_destroy - free @host with every account and pCPU that is still in it. Waits for a
 * grace period. No pCPU may be online, and no consumer may be left. Control; the last call.
 */
void vpmu_host_destroy(struct vpmu_host *host);

/*
 * vpmu_host_root - the account of the whole host. Any thread.
 * vpmu_host_other - its child "host": the account of everything that runs in no VM-cgroup.
 */
struct vpmu_account *vpmu_host_root(struct vpmu_host *host);
struct vpmu_account *vpmu_host_other(struct vpmu_host *host);

/*
 * vpmu_host_sync - make every total current. The owner of each online pCPU is kicked and charges
 * what its counters hold at its next vpmu_pcpu_poll; pCPUs that are offline are charged by this
 * call. Returns when all pCPUs are done. Control. -ETIMEDOUT: a pCPU is late, and the totals of the
 * others are current.
 */
int vpmu_host_sync(struct vpmu_host *host);

/* vpmu_host_sync_some - vpmu_host_sync for the totals of those accounts only that @next returns,
 * one by one until NULL. It asks only pCPUs on which contexts of these accounts were placed. @next
 * is called under a lock and must not call libvpmu. */
int vpmu_host_sync_some(struct vpmu_host *host, struct vpmu_account *(*next)(void *arg), void *arg);

/*
 * vpmu_host_set_deadline - how long a control call waits for the pCPUs' owners; 0 is the default,
 * 10 s. Time for which the process was stopped counts for a sixteenth at most. Any thread.
 *
 * When an owner has not come to vpmu_pcpu_poll by then, its pCPU is late: control calls still kick
 * and ask it, but no longer wait for it. A call that begins something (vpmu_consumer_add and
 * _enable, vpmu_sampler_create, vpmu_lbr_attach) or checks something (vpmu_host_conservation) then
 * has done nothing and returns -ETIMEDOUT. A call that ends something ends it: the last values do
 * not include what the late pCPU has counted since it last charged, and memory that its owner could
 * still use is freed later. When the owner comes to vpmu_pcpu_poll again, the pCPU takes everything
 * up and is no longer late. No count is lost: what its counters hold is charged to the account that
 * runs there. An owner that hangs inside of vpmu_pcpu_poll is still waited for.
 */
void vpmu_host_set_deadline(struct vpmu_host *host, uint64_t ns);

/* vpmu_host_late - how many pCPUs are late; *@id (may be NULL) is the id of one of them. Any thread
 * and signal handlers. */
unsigned int vpmu_host_late(struct vpmu_host *host, unsigned int *id);

/* vpmu_host_sharing - how many consumers are served by how many counters at the moment. Never waits
 * for a pCPU. Any thread. */
struct vpmu_sharing {
	unsigned int consumers;	    /* enabled consumers */
	unsigned int keys;	    /* distinct keys they use */
	unsigned int host_counters; /* hardware counters that are bound, over all pCPUs */
	uint64_t refused; /* consumers not enabled so far: no slot free, or a quota used up */
};
void vpmu_host_sharing(struct vpmu_host *host, struct vpmu_sharing *out);

#endif
