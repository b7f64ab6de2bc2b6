/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The PMU registers that one vCPU sees.
 *
 * A register model turns the guest's MSR writes into consumers of the vCPU's account, and its reads
 * into the values of these consumers. The VMM (vmm/vm/vcpu.c) passes MSR exits, RDPMC exits and
 * CPUID leaves; a model must not know any engine. Every value from the guest may be hostile. An
 * access that is #GP by the manuals returns -EFAULT and changes nothing.
 *
 * Unless a comment says otherwise, only the thread that runs the vCPU (the owner of its pCPU) may
 * call these functions.
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

/*
 * One counter. A field marked "(saved)" is part of a snapshot. All other fields are configuration,
 * follow from the saved ones (guest_derive, guest_lbr_apply in internal.h), or belong to this
 * process.
 */
struct vpmu_guest_ctr {
	struct vpmu_consumer consumer;
	struct vpmu_alarm alarm;
	uint64_t evtsel; /* GP: event select as the guest reads it back (saved) */
	vpmu_key_t sel;	 /* event that the registers select, without the global enable; 0: none */
	bool denied;	 /* the registers select an event that the policy denies: sel is 0 */
	uint8_t index;	 /* in struct vpmu_guest.ctr */
	vpmu_key_t key;	 /* the consumer's key; 0: the consumer is not added */
	bool enabled;	 /* the consumer is counting (or unsupported) */
	bool failed;	 /* the counter is on, but the host had no slot for it */
	bool lost;	 /* was on without a host counter since the last write (saved) */
	uint8_t quality; /* worst enum vpmu_quality since the last write; VPMU_PV_UNSUPPORTED if
			  * the counter was never on (saved) */
	uint64_t value;	 /* register value when the consumer's value was @base (saved) */
	uint64_t enabled_ns; /* time since the last write, as @value up to @base (saved) */
	uint64_t running_ns; /* (saved) */
	struct vpmu_value base;
};

/* Units of vpmu_guest.work: a counter that is brought up to date is one, all that comes with it,
 * and a counter that is started or stopped, are more. */
enum { VPMU_GUEST_WORK_READ = 1, VPMU_GUEST_WORK_FLUSH = 3, VPMU_GUEST_WORK_SWITCH = 3 };

/* The PMU of one vCPU. "(saved)" as in struct vpmu_guest_ctr. */
struct vpmu_guest {
	struct vpmu_guest_cfg cfg;
	const struct vpmu_guest_ops *ops;
	struct vpmu_context *ctx;
	struct vpmu_hostpmu *pmu; /* says which events the host can count */
	struct vpmu_pcpu *pcpu;	  /* where the vCPU is placed now; NULL: nowhere */
	uint64_t width_mask;
	uint32_t ctrs;	  /* counters that exist: GP from bit 0, fixed from VPMU_GUEST_MAX_GP */
	uint32_t enabled; /* of these: consumer enabled */
	uint32_t intr;	  /* of these: an overflow interrupts (INT, or the fixed PMI bit) */
	uint32_t armed;	  /* of these: the alarm is set */
	struct vpmu_guest_ctr ctr[VPMU_GUEST_MAX_CTRS];
	uint64_t fixed_ctrl;	/* Intel IA32_FIXED_CTR_CTRL (saved) */
	uint64_t global_ctrl;	/* Intel 38F, AMD C0000301 (saved) */
	uint64_t global_status; /* overflows found so far; guest_status finds newer ones (saved) */
	uint64_t debugctl;	/* the freeze bits the model owns (saved) */

	uint32_t overflowed; /* counters whose alarm fired since the last vpmu_guest_service. Only a
			      * reason to look: guest_settle finds the overflow itself */
	bool pmi;	     /* a counter that interrupts has wrapped, and the PMI was not raised
			      * yet (saved) */

	uint64_t work; /* what the counters have taken of the host's time so far, for whoever
			* charges the guest: VPMU_GUEST_WORK_* */

	/* branch records: the registers the guest wrote; the context has the records themselves */
	unsigned int lbr_max;	/* 0: the model has none */
	unsigned int lbr_depth; /* (saved) */
	uint64_t lbr_ctl;	/* Intel IA32_LBR_CTL; AMD LBR_SELECT (saved) */
	uint64_t lbr_enable;	/* AMD DBG_EXTN_CFG (saved) */

	/* denials by the policy */
	uint64_t denied;      /* number of writes that selected a denied event (saved) */
	uint64_t denied_last; /* event select (GP) or fixed counter number of the newest (saved) */

	/* events that the host cannot count. They are this host's, so they are not saved */
	uint64_t unsupported;	   /* number of counters that were given one and started */
	uint64_t unsupported_last; /* as denied_last */
};

/* vpmu_guest_init - set the registers to their power-up values. @g is zeroed memory of the caller.
 * @ctx and @pmu are borrowed; @pmu says which events can be counted (CPUID 0AH EBX). -EINVAL: @cfg
 * is out of range, or the model has counters and @ctx or @pmu is NULL. */
int vpmu_guest_init(struct vpmu_guest *g, const struct vpmu_guest_cfg *cfg,
		    struct vpmu_context *ctx, struct vpmu_hostpmu *pmu);

/* vpmu_guest_fini - stop all counters and delete the consumers. Free @g a grace period later
 * (vpmu_rcu_free). While the vCPU is placed nowhere (vpmu_guest_placed with NULL), any control
 * thread may call this. */
void vpmu_guest_fini(struct vpmu_guest *g);

/*
 * vpmu_guest_placed - tell the model that the vCPU was placed on @pcpu. Call it after
 * vpmu_context_place and before the vCPU runs. Counters for which the host had no slot are tried
 * again. With NULL the vCPU runs nowhere for now: its registers can be read and written, and
 * counters that are on start counting at the next placement.
 */
void vpmu_guest_placed(struct vpmu_guest *g, struct vpmu_pcpu *pcpu);

/*
 * vpmu_guest_service - handle the overflows since the last call: set status bits, and freeze as
 * DEBUGCTL says (IA32_PERF_GLOBAL_STATUS.CTR_Frz and LBR_Frz, PerfCntrGlobalStatus). If it returns
 * true, the caller must raise a PMI now, through the local APIC's LVT entry. Call it before every
 * entry into the guest for which vpmu_guest_pending returns true. The vCPU must be placed.
 */
bool vpmu_guest_service(struct vpmu_guest *g);
static inline bool vpmu_guest_pending(const struct vpmu_guest *g)
{
	return g->overflowed != 0 || g->pmi;
}

/* vpmu_guest_is_intel - true if the rules of an Intel local APIC hold: it masks LVTPC when it
 * delivers a PMI (SDM vol. 3, 11.5.1). AMD's does not. Any thread. */
bool vpmu_guest_is_intel(const struct vpmu_guest *g);

/*
 * vpmu_guest_save, vpmu_guest_load - the PMU of a vCPU as bytes: registers, counts, PMIs that are
 * due and branch records, so that it goes on in another process as if nothing had happened. Both
 * are for a vCPU that is placed nowhere (vpmu_guest_placed with NULL); -EBUSY otherwise.
 *
 * save appends one section to @b. -ENOMEM.
 * load reads that section from @b into @g, which vpmu_guest_init has made with the configuration of
 * the saved vCPU. It checks everything before it changes anything. -EINVAL, with one line in @err:
 * no guest can reach this state; -ENOMEM. A counter whose event this host cannot count stands still
 * after the next placement.
 */
int vpmu_guest_save(struct vpmu_guest *g, struct vpmu_blob *b);
int vpmu_guest_load(struct vpmu_guest *g, struct vpmu_blob_reader *b, char *err, size_t errlen);

/*
 * vpmu_guest_rdmsr, vpmu_guest_wrmsr - execute the guest's access. 0: done. -EFAULT: #GP; this
 * includes PMU MSRs of the other vendor and of counters beyond the configured ones. -ENOENT: not a
 * PMU MSR; the VMM decides. (IA32_)DEBUGCTL and Intel's IA32_MISC_ENABLE belong to the models, too,
 * also while there is no PMU: a bit of DEBUGCTL for what does not exist is dropped (LBR, BTF) or
 * #GP, and writes of IA32_MISC_ENABLE are ignored.
 * vpmu_guest_rdpmc - @index is the guest's ECX; the engine has checked CR4.PCE and CPL. 0, or
 * -EFAULT: #GP.
 */
int vpmu_guest_rdmsr(struct vpmu_guest *g, uint32_t msr, uint64_t *val);
int vpmu_guest_wrmsr(struct vpmu_guest *g, uint32_t msr, uint64_t val);
int vpmu_guest_rdpmc(struct vpmu_guest *g, uint32_t index, uint64_t *val);

/*
 * vpmu_guest_cpuid - overwrite the PMU's part of a leaf with what this model shows. On entry @regs
 * = {eax, ebx, ecx, edx} holds the VMM's values. Everything that is not named here stays as it is:
 *   set     0AH; 1H ECX PDCM; 7H EDX and 1CH (Arch LBR); 80000001H ECX PERFCTR_CORE; 80000022H;
 *           the paravirtual 40000000H and 40000001H
 *   raised  the highest leaf in 0H and 80000000H, so that the leaves above can be reached
 *   cleared facilities that no model has: DS and PEBS (1H), ArchPerfmonExt (7H, 23H), IBS,
 *           northbridge and L3 counters, PTSC (80000001H, 8000001BH)
 * Any thread.
 */
void vpmu_guest_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
		      uint32_t regs[4]);

#endif
