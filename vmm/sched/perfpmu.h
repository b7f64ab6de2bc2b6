/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Perf events as the PMU of vCPU threads. vmm/machine passes perfpmu_ops to threads_create, which
 * calls them; they use vpmu/hostpmu_perf.h.
 */
#pragma once

#include "vmm/sched/threads.h"
#include "vpmu/hostpmu_perf.h"

/* Configuration of perf events: see struct vpmu_hostpmu_perf_opts. */
struct perfpmu_opts {
	unsigned int leave_counters;
	bool pinned;
	bool nominal_cycles;
};

/* The user copies this and sets arg to a const struct perfpmu_opts *. */
extern const struct threads_pmu perfpmu_ops;

/* perfpmu_counts - returns true if such a PMU counts @key; then *q is the quality. Any thread. */
bool perfpmu_counts(vpmu_key_t key, const struct perfpmu_opts *conf, enum vpmu_quality *q);
