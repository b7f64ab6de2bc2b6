/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Branch record facilities with a defect, so that tests of branch records can show that they fail
 * when something is wrong. The defect is in the host PMU: its operations are replaced.
 */
#ifndef TESTS_LBR_FAULTS_H
#define TESTS_LBR_FAULTS_H

#include <assert.h>

#include "vpmu/core/internal.h"

enum lbr_fault {
	LBR_FAULT_NONE,
	LBR_FAULT_NO_RESTORE, /* a restored state has lost its records */
	LBR_FAULT_NO_RESET    /* the CPU's records survive a reset, and an empty state restored */
};

/* The operations of the sound PMU; all PMUs that are broken in one process are of one kind. */
static const struct vpmu_hostpmu_ops *lbr_sound_ops;

static inline void lbr_fault_no_restore(struct vpmu_hostpmu *pmu, const struct vpmu_lbr_regs *r)
{
	struct vpmu_lbr_regs empty = {.ctl = r->ctl, .depth = r->depth};

	lbr_sound_ops->lbr_restore(pmu, &empty);
}

static inline void lbr_fault_no_reset(struct vpmu_hostpmu *pmu)
{
	struct vpmu_lbr_regs held;

	lbr_sound_ops->lbr_save(pmu, &held); /* stops */
}

static inline void lbr_fault_keep_held(struct vpmu_hostpmu *pmu, const struct vpmu_lbr_regs *r)
{
	struct vpmu_lbr_regs held;

	if (r->count) {
		lbr_sound_ops->lbr_restore(pmu, r);
		return;
	}
	lbr_sound_ops->lbr_save(pmu, &held);
	held.ctl = r->ctl;
	held.depth = r->depth;
	held.count = held.count < r->depth ? held.count : r->depth;
	lbr_sound_ops->lbr_restore(pmu, &held);
}

/* Give @pmu the defect @fault from now on; LBR_FAULT_NONE mends it. Owner of its pCPU. */
static inline void lbr_break(struct vpmu_hostpmu *pmu, enum lbr_fault fault)
{
	static struct vpmu_hostpmu_ops no_restore, no_reset;

	if (!lbr_sound_ops) {
		lbr_sound_ops = pmu->ops;
		no_restore = no_reset = *pmu->ops;
		no_restore.lbr_restore = lbr_fault_no_restore;
		no_reset.lbr_reset = lbr_fault_no_reset;
		no_reset.lbr_restore = lbr_fault_keep_held;
	}
	pmu->ops = fault == LBR_FAULT_NO_RESTORE ? &no_restore
		   : fault == LBR_FAULT_NO_RESET ? &no_reset
						 : lbr_sound_ops;
}

static inline void lbr_break_pcpu(struct vpmu_pcpu *p, void *fault)
{
	static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&first);
	lbr_break(p->pmu, *(const enum lbr_fault *)fault);
	pthread_mutex_unlock(&first);
}

/* Every pCPU of @host, at a safe point of its owner; a machine makes its pCPUs with its first VM.
 * Control. */
static inline void lbr_break_host(struct vpmu_host *host, enum lbr_fault fault)
{
	if (fault == LBR_FAULT_NONE)
		return;
	pthread_mutex_lock(&host->ctl_lock);
	assert(!cds_list_empty(&host->pcpus));
	host_sync_locked(host, lbr_break_pcpu, &fault);
	pthread_mutex_unlock(&host->ctl_lock);
}

#endif
