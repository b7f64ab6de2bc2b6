/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Perf events as the PMU of vCPU threads. vmm/machine passes perfpmu_ops to threads_create, which
 * calls them; they use vpmu/hostpmu_perf.h.
 */
#ifndef VMM_SCHED_PERFPMU_H
#define VMM_SCHED_PERFPMU_H

#include "vmm/sched/threads.h"
#include "vpmu/hostpmu_perf.h"

/* The user copies this and sets arg to a bool *: whether cycles are counted by the nominal clock if
 * there is no hardware PMU. */
extern const struct threads_pmu perfpmu_ops;

/* perfpmu_counts - whether such a PMU counts @key; then *q is the quality. Any thread. */
bool perfpmu_counts(vpmu_key_t key, bool nominal_cycles, enum vpmu_quality *q);

/* perfpmu_hardware - whether this host has hardware counters for guests. If it has, there may be
 * more keys than counters, and threads_tick must be called. Any thread. */
bool perfpmu_hardware(void);

#endif
