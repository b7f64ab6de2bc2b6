/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A guest's PMU model: the register models and the options of a VM's configuration. Configuration
 * (vmm/config) and engines include this file. It must not depend on the registers, which are in
 * guest.h.
 */
#ifndef VPMU_GUEST_MODEL_H
#define VPMU_GUEST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/guest/msr_range.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_policy;

enum vpmu_guest_model {
	VPMU_GUEST_NONE = 0, /* no PMU: none in CPUID, every PMU MSR is #GP */
	VPMU_GUEST_INTEL_V2, /* SDM vol. 3, 20.2.2: architectural version 2 */
	VPMU_GUEST_INTEL_V5, /* 20.2.5: version 5 (fixed-counter bitmap), Arch LBR */
	VPMU_GUEST_AMD_V2,   /* APM vol. 2, 13.2: PerfMonV2, PERFCTR_CORE, K7 aliases, LbrExtV2 */
	VPMU_GUEST_INTEL_V3, /* 20.2.3 */
	VPMU_GUEST_INTEL_V4, /* 20.2.4: STATUS_RESET/SET, INUSE, streamlined freeze */
	VPMU_GUEST_AMD_K7,   /* four counters at C001_0000, no global registers */
	VPMU_GUEST_AMD_CORE, /* PERFCTR_CORE: six counters at C001_0200, K7 aliases */
	VPMU_GUEST_MODELS
};

/* vpmu_guest_model_parse - "none", "intel-v2" .. "intel-v5", "amd-k7", "amd-core" or "amd-v2";
 * -EINVAL for any other name. vpmu_guest_model_name - the inverse; a static string. Any thread. */
int vpmu_guest_model_parse(const char *name, enum vpmu_guest_model *model);
const char *vpmu_guest_model_name(enum vpmu_guest_model model);

#define VPMU_GUEST_MAX_GP    16
#define VPMU_GUEST_MAX_FIXED 4
#define VPMU_GUEST_MAX_CTRS  (VPMU_GUEST_MAX_GP + VPMU_GUEST_MAX_FIXED)

struct vpmu_guest_cfg {
	enum vpmu_guest_model model;
	/* General-purpose counters. 0 is the model's default: Intel 8 (of 2..8), amd-k7 4 (only),
	 * amd-core 6 (only), amd-v2 6 (of 4..15). */
	unsigned int gp;
	unsigned int fixed; /* fixed counters: Intel 1..4, 0 is the default 3; AMD 0 */
	bool rdpmc;	    /* the engine supports RDPMC; shown in the paravirtual leaf */
	bool no_lbr;	    /* no branch records, even if model and policy permit them */
	/* AMD: the guest can run guests itself (SVM), and the engine counts by its EFER.SVME and
	 * mode: HostOnly and GuestOnly of event selects have their effect. Else they have none. */
	bool svm;
	const struct vpmu_policy *policy; /* policy.h; must outlive the guest; NULL: no limit */
};

/*
 * vpmu_guest_msr_ranges - returns the MSR ranges that a VMM must trap for @model (KVM's MSR
 * filter): up to 12, terminated by one with count 0. They may include MSRs that are not PMU
 * registers; accesses to these return -ENOENT. A constant table. Any thread.
 */
const struct vpmu_msr_range *vpmu_guest_msr_ranges(enum vpmu_guest_model model);

#ifdef __cplusplus
}
#endif

#endif
