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

#include "vpmu/alarm.h"
#include "vpmu/consumer.h"
#include "vpmu/guest/model.h"

struct vpmu_blob;
struct vpmu_blob_reader;
struct vpmu_hostpmu;

struct vpmu_guest_ops; /* one per vendor, private */

struct vpmu_guest_ctr {
	struct vpmu_consumer consumer;
	struct vpmu_alarm alarm;
	uint64_t evtsel;     /* GP: event select as the guest reads it back (saved) */
	vpmu_key_t sel;	     /* what the registers select; 0: nothing, whatever the global enable */
	bool denied;	     /* the registers select an event that the policy denies: sel is 0 */
	uint8_t index;	     /* in struct vpmu_guest.ctr */
	vpmu_key_t key;	     /* the consumer's key; 0: the consumer is not added */
	bool enabled;	     /* the consumer is counting (or unsupported) */
	bool failed;	     /* the counter is on, but the host had no slot for it */
	bool lost;	     /* on without a host counter since it was last written (saved) */
	uint8_t quality;     /* worst since then: enum vpmu_quality, VPMU_PV_UNSUPPORTED = never on
			      * (saved) */
	uint64_t value;	     /* register value when the consumer stood at @base (saved) */
	uint64_t enabled_ns; /* likewise: times since the counter was last written (saved) */
	uint64_t running_ns; /* (saved) */
	struct vpmu_value base;
};

/*
 * "(saved)" marks what a snapshot must hold; the rest is configuration, follows from it
 * (guest_derive, guest_lbr_apply in internal.h), or is of this process.
 */
struct vpmu_guest {
	struct vpmu_guest_cfg cfg;
	const struct vpmu_guest_ops *ops;
	struct vpmu_context *ctx;
	struct vpmu_hostpmu *pmu; /* to know what the host can count */
	struct vpmu_pcpu *pcpu;	  /* where the vCPU is placed now */
	uint64_t width_mask;
	uint32_t ctrs;	  /* counters that exist: GP from bit 0, fixed from VPMU_GUEST_MAX_GP */
	uint32_t enabled; /* of these: consumer enabled */
	uint32_t intr;	  /* of these: an overflow interrupts (INT, or the fixed PMI bit) */
	uint32_t armed;	  /* of these: the alarm is set */
	struct vpmu_guest_ctr ctr[VPMU_GUEST_MAX_CTRS];
	uint64_t fixed_ctrl;	/* Intel IA32_FIXED_CTR_CTRL (saved) */
	uint64_t global_ctrl;	/* Intel 38F, AMD C0000301 (saved) */
	uint64_t global_status; /* overflows seen so far: the model looks when the guest does
				 * (saved) */
	uint64_t debugctl;	/* the freeze bits the model owns (saved) */

	uint32_t overflowed; /* alarms that fired, by counter; until vpmu_guest_service. Nothing
			      * but a reason to look: the wraps themselves set what follows */
	bool pmi;	     /* a counter that interrupts has wrapped, and the PMI was not raised
			      * yet (saved) */

	/* branch records: what the guest wrote; the records themselves are the context's */
	unsigned int lbr_max;	/* 0: the model has none */
	unsigned int lbr_depth; /* (saved) */
	uint64_t lbr_ctl;	/* Intel IA32_LBR_CTL; AMD LBR_SELECT (saved) */
	uint64_t lbr_enable;	/* AMD DBG_EXTN_CFG (saved) */

	/* denials by the policy: writes that selected an event which then counts nothing */
	uint64_t denied;      /* (saved) */
	uint64_t denied_last; /* event select (GP) or fixed counter number, of the newest (saved) */
};

/* vpmu_guest_init - registers at their power-up values. @g is zeroed caller memory; @ctx is
 * borrowed. -EINVAL: cfg out of range, or no @ctx or @pmu although the model has counters. @pmu
 * tells what can be counted (CPUID 0AH EBX). */
int vpmu_guest_init(struct vpmu_guest *g, const struct vpmu_guest_cfg *cfg,
		    struct vpmu_context *ctx, struct vpmu_hostpmu *pmu);

/* vpmu_guest_fini - stop all counters, delete the consumers. @g may be freed a grace period
 * later (vpmu_rcu_free). Owner of the pCPU the vCPU is placed on; any control thread when it is
 * placed nowhere (vpmu_guest_placed with NULL). */
void vpmu_guest_fini(struct vpmu_guest *g);

/*
 * vpmu_guest_placed - the vCPU was placed on @pcpu (after vpmu_context_place, before it runs).
 * NULL: it runs nowhere for now; registers can be read and written, and what must count starts at
 * the next placement. Counters the host had no room for are tried again.
 */
void vpmu_guest_placed(struct vpmu_guest *g, struct vpmu_pcpu *pcpu);

/*
 * vpmu_guest_service - what overflows since the last call mean: status bits, freezing (DEBUGCTL,
 * IA32_PERF_GLOBAL_STATUS.CTR_Frz and LBR_Frz, PerfCntrGlobalStatus), and whether a PMI goes out
 * now: true = through the local APIC's LVT entry. Before every entry into the guest for which
 * vpmu_guest_pending says so; cheap when not. Owner; the vCPU is placed.
 */
bool vpmu_guest_service(struct vpmu_guest *g);
static inline bool vpmu_guest_pending(const struct vpmu_guest *g)
{
	return g->overflowed != 0 || g->pmi;
}

/* vpmu_guest_is_intel - whose LVT rules hold: an Intel local APIC masks LVTPC when it delivers
 * (SDM vol. 3, 11.5.1), AMD's does not. */
bool vpmu_guest_is_intel(const struct vpmu_guest *g);

/*
 * Snapshot: registers, counts, overflows that wait, branch records; all that makes the PMU of a
 * vCPU the same in another process. Both while the vCPU is placed nowhere (vpmu_guest_placed with
 * NULL). save appends to @b; -ENOMEM. load: @g was made by vpmu_guest_init with the configuration
 * of the saved one; reads and checks everything before it changes anything: -EINVAL and one line in
 * @err; counters whose events this host cannot count stand still, as they do after any placement.
 */
int vpmu_guest_save(struct vpmu_guest *g, struct vpmu_blob *b);
int vpmu_guest_load(struct vpmu_guest *g, struct vpmu_blob_reader *b, char *err, size_t errlen);

/*
 * vpmu_guest_rdmsr / wrmsr - 0: done. -EFAULT: #GP. -ENOENT: not an MSR of this model (the VMM
 * decides; a PMU MSR of the other vendor or beyond the configured counters is -EFAULT).
 * vpmu_guest_rdpmc - @index as in ECX; the engine has checked CR4.PCE / CPL. 0 or -EFAULT.
 */
int vpmu_guest_rdmsr(struct vpmu_guest *g, uint32_t msr, uint64_t *val);
int vpmu_guest_wrmsr(struct vpmu_guest *g, uint32_t msr, uint64_t val);
int vpmu_guest_rdpmc(struct vpmu_guest *g, uint32_t index, uint64_t *val);

/*
 * vpmu_guest_cpuid - overwrite the PMU's part of a leaf with what this model shows; regs = {eax,
 * ebx, ecx, edx} hold the VMM's values on entry. Leaves: 0AH; 1H ECX PDCM; 80000001H ECX
 * PERFCTR_CORE; 80000022H; 7H EDX and 1CH Arch LBR; the highest leaf in 0H and 80000000H is raised
 * to reach these; the paravirtual 40000000H and 40000001H. PMU facilities no model has are taken
 * away: DS and PEBS (1H), ArchPerfmonExt (7H, 23H), IBS, northbridge and L3 counters, PTSC
 * (80000001H, 8000001BH). Everything else stays as it is.
 */
void vpmu_guest_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
		      uint32_t regs[4]);

#endif
