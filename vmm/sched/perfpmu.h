/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Perf events as the host PMU of vCPU threads: between threads.c and vpmu/hostpmu_perf.h. */
#ifndef VMM_SCHED_PERFPMU_H
#define VMM_SCHED_PERFPMU_H

#include "vmm/sched/threads.h"
#include "vpmu/hostpmu_perf.h"

/* arg: pointer to bool, whether cycles are counted by the nominal clock where there is no hardware
 * PMU. */
extern const struct threads_pmu perfpmu_ops;

/* perfpmu_counts - whether such a PMU counts @key, and how well. Any thread. */
bool perfpmu_counts(vpmu_key_t key, bool nominal_cycles, enum vpmu_quality *q);

/* perfpmu_hardware - whether this host has hardware counters for guests: then there may be more
 * keys than counters, and threads_tick is needed. Any thread. */
bool perfpmu_hardware(void);

#endif
