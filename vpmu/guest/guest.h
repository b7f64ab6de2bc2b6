/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The PMU registers one vCPU sees, and what they mean to libvpmu.
 *
 * A register model turns the guest's MSR writes into consumers of its vCPU's account and its
 * reads into their values. It knows nothing of engines: the VMM passes MSR exits, RDPMC exits and
 * CPUID leaves. Everything the guest sends is hostile; what the manuals make #GP returns -EFAULT
 * and changes nothing. All functions: only the thread that runs the vCPU (owner of its pCPU).
 */
#ifndef VPMU_GUEST_GUEST_H
#define VPMU_GUEST_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/vpmu.h"

enum vpmu_guest_model {
	VPMU_GUEST_NONE = 0,  /* no PMU: CPUID says so, every PMU MSR is #GP */
	VPMU_GUEST_INTEL_V2,  /* SDM vol. 3, 20.2.2: architectural version 2 */
	VPMU_GUEST_INTEL_V5,  /* 20.2.5: version 5 (fixed-counter bitmap, STATUS_RESET/SET) */
	VPMU_GUEST_AMD_V2     /* APM vol. 2, 13.2: PerfMonV2, with PERFCTR_CORE and K7 aliases */
};

/* vpmu_guest_model_parse - "none", "intel-v2", "intel-v5", "amd-v2"; -EINVAL otherwise. */
int vpmu_guest_model_parse(const char *name, enum vpmu_guest_model *model);
const char *vpmu_guest_model_name(enum vpmu_guest_model model);

#define VPMU_GUEST_MAX_GP 16
#define VPMU_GUEST_MAX_FIXED 4
#define VPMU_GUEST_MAX_CTRS (VPMU_GUEST_MAX_GP + VPMU_GUEST_MAX_FIXED)

struct vpmu_guest_cfg {
	enum vpmu_guest_model model;
	unsigned int gp;    /* 0 = the model's default (8 Intel, 6 AMD); Intel 1..8, AMD 4..16 */
	unsigned int fixed; /* Intel; 0 = default (3 for v2, 3 for v5); 1..4 */
};

struct vpmu_guest_ops; /* one per vendor, private */

struct vpmu_guest_ctr {
	struct vpmu_consumer consumer;
	bool added;          /* consumer is added (counting, or unsupported) */
	vpmu_key_t key;      /* what it counts while added */
	uint64_t value;      /* register value at the time it last stopped or was written */
	uint64_t base_count; /* consumer count that @value corresponds to */
	uint64_t evtsel;     /* GP: event select as the guest reads it back */
	struct vpmu_value time; /* enabled/running since the last write of the counter */
};

struct vpmu_guest {
	struct vpmu_guest_cfg cfg;
	const struct vpmu_guest_ops *ops;
	struct vpmu_context *ctx;
	struct vpmu_hostpmu *pmu; /* to know what the host can count */
	struct vpmu_pcpu *pcpu;   /* where the vCPU is placed now */
	uint64_t width_mask;
	struct vpmu_guest_ctr gp[VPMU_GUEST_MAX_GP];
	struct vpmu_guest_ctr fixed[VPMU_GUEST_MAX_FIXED];
	uint64_t fixed_ctrl;   /* Intel IA32_FIXED_CTR_CTRL */
	uint64_t global_ctrl;  /* Intel 38F, AMD C0000301 */
	uint64_t global_status;
	uint64_t debugctl; /* the freeze bits the model owns */
};

/* vpmu_guest_init - registers at their power-up values. @g is zeroed caller memory; @ctx is
 * borrowed. -EINVAL: cfg out of range. @pmu tells what can be counted (CPUID 0AH EBX). */
int vpmu_guest_init(struct vpmu_guest *g, const struct vpmu_guest_cfg *cfg,
		    struct vpmu_context *ctx, struct vpmu_hostpmu *pmu);

/* vpmu_guest_fini - stop all counters, delete the consumers. @g may be freed a grace period
 * later (vpmu_rcu_free). */
void vpmu_guest_fini(struct vpmu_guest *g);

/* vpmu_guest_placed - the vCPU was placed on @pcpu (after vpmu_context_place, before it runs). */
void vpmu_guest_placed(struct vpmu_guest *g, struct vpmu_pcpu *pcpu);

/* vpmu_guest_reset - power-up/INIT values (SDM vol. 3 table 10-1; APM vol. 2, 14.1.3). */
void vpmu_guest_reset(struct vpmu_guest *g, bool init);

/*
 * vpmu_guest_rdmsr / wrmsr - 0: done. -EFAULT: #GP. -ENOENT: not an MSR of this model (the VMM
 * decides; a PMU MSR of the other vendor or beyond the configured counters is -EFAULT).
 * vpmu_guest_rdpmc - @index as in ECX; the engine has checked CR4.PCE / CPL. 0 or -EFAULT.
 */
int vpmu_guest_rdmsr(struct vpmu_guest *g, uint32_t msr, uint64_t *val);
int vpmu_guest_wrmsr(struct vpmu_guest *g, uint32_t msr, uint64_t val);
int vpmu_guest_rdpmc(struct vpmu_guest *g, uint32_t index, uint64_t *val);

/* The MSR ranges a VMM must trap for the model (KVM MSR filter); NULL-terminated by count 0. */
struct vpmu_msr_range {
	uint32_t base;
	uint32_t count;
};
const struct vpmu_msr_range *vpmu_guest_msr_ranges(enum vpmu_guest_model model);

/*
 * vpmu_guest_cpuid - overwrite the registers of a PMU leaf (0AH; 80000001H ECX PERFCTR_CORE bit;
 * 80000022H; 1H ECX PDCM) with what this model shows; regs = {eax, ebx, ecx, edx} hold the
 * VMM's values on entry. Leaves that have nothing to do with the PMU stay as they are.
 */
void vpmu_guest_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
		      uint32_t regs[4]);

#endif
