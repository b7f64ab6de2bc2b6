/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A pCPU: one CPU with counters, and the calls that its owner thread must make.
 *
 * A scheduler (vmm/sched) calls vpmu_pcpu_switch when another vCPU runs, vpmu_pcpu_poll between
 * slices, vpmu_pcpu_tick at a fixed rate, and vpmu_pcpu_overflow when a counter's alarm goes off.
 * Owner calls take no lock unless stated otherwise. See host.h for threads and owners.
 */
#ifndef VPMU_PCPU_H
#define VPMU_PCPU_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_context;
struct vpmu_host;
struct vpmu_hostpmu;
struct vpmu_pcpu;

/*
 * vpmu_pcpu_create - add a CPU whose counters are those of @pmu, which must stay valid until
 * vpmu_pcpu_destroy. The pCPU starts offline and charges the account vpmu_host_other. @id is for
 * output only. Returns 0; -EINVAL if @pmu has no counters or more than VPMU_MAX_CTRS; -ENOMEM.
 * Control.
 */
int vpmu_pcpu_create(struct vpmu_host *host, struct vpmu_hostpmu *pmu, unsigned int id,
		     struct vpmu_pcpu **out);

/*
 * vpmu_pcpu_destroy - charge the remaining counts, release all counters and free the pCPU. Accounts
 * keep their counts. Returns 0, or -EBUSY if the pCPU is online or a context runs on it. Control.
 */
int vpmu_pcpu_destroy(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_online - the calling thread becomes the owner.
 * vpmu_pcpu_offline - the pCPU no longer has an owner. Charges everything and answers pending syncs
 * first. Both take the pCPU's lock. Owner.
 */
void vpmu_pcpu_online(struct vpmu_pcpu *pcpu);
void vpmu_pcpu_offline(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_poll - a safe point: if a control call waits for this pCPU, charge everything, apply
 * key changes and release the control call. Costs one load if none waits. An owner must call this
 * regularly; otherwise control calls time out (vpmu_host_set_deadline). Owner.
 */
void vpmu_pcpu_poll(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_switch - @next runs from now on. It must be placed on this pCPU (vpmu_context_place).
 * NULL: no vCPU runs, and the account vpmu_host_other is charged.
 *
 * If @next charges the same accounts as the previous context, no counter is read. Otherwise the
 * counters of the slots that either uses are read and charged. Takes no lock and allocates nothing,
 * except inside the host PMU: it is called to bind a counter only if a key is new on this pCPU or
 * has lost its counter. Owner.
 */
void vpmu_pcpu_switch(struct vpmu_pcpu *pcpu, struct vpmu_context *next);

/* vpmu_pcpu_flush - charge the counts so far to the running account, and apply key changes. Owner.
 */
void vpmu_pcpu_flush(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_tick - multiplex: call this at a fixed rate. If the running context uses more keys than
 * there are counters, slots without a counter replace others. Slots on fixed counters keep them if
 * possible. Charges as vpmu_pcpu_flush does. Owner.
 */
void vpmu_pcpu_tick(struct vpmu_pcpu *pcpu);

/* vpmu_pcpu_wants_tick - returns true if a tick can have an effect: a counter is bound or a key is
 * in use. The answer can be stale by the time it is used; call it again before each tick. Any
 * thread. */
bool vpmu_pcpu_wants_tick(const struct vpmu_pcpu *pcpu);

/* vpmu_pcpu_overflow - the host PMU's alarm went off (hostpmu.h: arm): charge, call the alarms and
 * samplers that are due, and arm again. Harmless if none is due. Owner. */
void vpmu_pcpu_overflow(struct vpmu_pcpu *pcpu);

#ifdef __cplusplus
}
#endif

#endif
