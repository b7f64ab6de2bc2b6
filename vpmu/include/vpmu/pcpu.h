/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A pCPU: one CPU with counters, and what the thread that owns it must tell libvpmu.
 *
 * A scheduler (vmm/sched) calls this: vpmu_pcpu_switch when another vCPU runs, vpmu_pcpu_poll
 * between slices, vpmu_pcpu_tick at a fixed rate, vpmu_pcpu_overflow when a counter's alarm goes
 * off. Owner calls take no lock unless the comment says so. host.h explains who the owner is.
 */
#ifndef VPMU_PCPU_H
#define VPMU_PCPU_H

#include <stdbool.h>

struct vpmu_context;
struct vpmu_host;
struct vpmu_hostpmu;
struct vpmu_pcpu;

/*
 * vpmu_pcpu_create - add a CPU whose counters are those of @pmu, which must stay valid until
 * vpmu_pcpu_destroy. The pCPU starts offline, and the account vpmu_host_other runs on it. @id is
 * for output only. -EINVAL when @pmu has no counters or more than VPMU_MAX_CTRS; -ENOMEM. Control.
 */
int vpmu_pcpu_create(struct vpmu_host *host, struct vpmu_hostpmu *pmu, unsigned int id,
		     struct vpmu_pcpu **out);

/*
 * vpmu_pcpu_destroy - charge what is left and release all counters. Accounts keep what they were
 * charged here. -EBUSY while the pCPU is online or a context runs on it. Control.
 */
int vpmu_pcpu_destroy(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_online - the calling thread becomes the owner.
 * vpmu_pcpu_offline - it stops being the owner. Charges everything first, and answers the syncs
 * that wait. Both take a lock for a moment. Owner.
 */
void vpmu_pcpu_online(struct vpmu_pcpu *pcpu);
void vpmu_pcpu_offline(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_poll - a safe point: if a control call waits for this pCPU, charge everything, take up
 * changed keys and let the control call go on. Costs one load when nobody waits. An owner must call
 * this again and again, or control calls wait for ever. Owner.
 */
void vpmu_pcpu_poll(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_switch - @next runs from now on. It must be placed on this pCPU (vpmu_context_place);
 * NULL means that no vCPU runs and the account vpmu_host_other is charged.
 *
 * When @next is charged to the same accounts as what ran until now, no counter is read. Otherwise
 * the counters of the slots that either of them uses are read and charged. No locks and no
 * allocation. A counter is bound only when a key first runs on this pCPU or when its counter was
 * taken. Owner.
 */
void vpmu_pcpu_switch(struct vpmu_pcpu *pcpu, struct vpmu_context *next);

/* vpmu_pcpu_flush - charge what the counters hold to the account that runs, and take up changed
 * keys. Owner. */
void vpmu_pcpu_flush(struct vpmu_pcpu *pcpu);

/*
 * vpmu_pcpu_tick - rotate counters; to be called at a fixed rate. When the running context has more
 * keys in use than there are counters, the slots without a counter get their turn. Slots on fixed
 * counters keep them if there is another way. Charges, like vpmu_pcpu_flush. Owner.
 */
void vpmu_pcpu_tick(struct vpmu_pcpu *pcpu);

/* vpmu_pcpu_wants_tick - whether a tick could do anything: a counter is bound, or a key in use. An
 * answer is out of date at once, and right at the next call. Any thread. */
bool vpmu_pcpu_wants_tick(const struct vpmu_pcpu *pcpu);

/* vpmu_pcpu_overflow - the host PMU's alarm went off (hostpmu.h: arm): charge, call those alarms
 * and samplers that are due, arm again. Harmless when nothing is due. Owner. */
void vpmu_pcpu_overflow(struct vpmu_pcpu *pcpu);

#endif
