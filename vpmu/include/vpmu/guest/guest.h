/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The PMU registers that one vCPU sees.
 *
 * A register model turns the guest's MSR writes into consumers of the vCPU's account, and its reads
 * into the values of these consumers. The VMM (vmm/vm/vcpu.c) passes MSR exits, RDPMC exits and
 * CPUID leaves; models must not depend on an engine. Every value from the guest is untrusted. An
 * access that is #GP by the manuals returns -EFAULT and changes nothing.
 *
 * Unless stated otherwise, only the thread that runs the vCPU (the owner of its pCPU) may
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

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_hostpmu;

struct vpmu_guest_ops; /* one per vendor, private */

/*
 * One counter. A field marked "(saved)" is part of a snapshot. All other fields are configuration,
 * derived from the saved ones (guest_derive, guest_lbr_apply in internal.h), or local to this
 * process.
 */
struct vpmu_guest_ctr {
	struct vpmu_consumer consumer;
	struct vpmu_alarm alarm;
	uint64_t evtsel;     /* GP: event select as the guest reads it back (saved) */
	vpmu_key_t sel;	     /* selected event, regardless of the global enable; 0: none */
	bool denied;	     /* the policy denies the selected event: sel is 0 */
	uint8_t index;	     /* in struct vpmu_guest.ctr */
	vpmu_key_t key;	     /* the consumer's key; 0: the consumer is not added */
	bool enabled;	     /* the consumer is counting (or unsupported) */
	bool lost;	     /* since the last write it was on without counting (saved) */
	uint8_t quality;     /* worst enum vpmu_quality since the last write; VPMU_PV_UNSUPPORTED if
			      * the counter was never on (saved) */
	uint64_t value;	     /* register value at @base of the consumer (saved) */
	uint64_t enabled_ns; /* enabled time since the last write, up to @base (saved) */
	uint64_t running_ns; /* (saved) */
	struct vpmu_value base;
};

/* Units of vpmu_guest.work: reading one counter, the flush before that, and starting or stopping a
 * counter. */
enum { VPMU_GUEST_WORK_READ = 1, VPMU_GUEST_WORK_FLUSH = 3, VPMU_GUEST_WORK_SWITCH = 3 };

/* The PMU of one vCPU. "(saved)" as in struct vpmu_guest_ctr. */
struct vpmu_guest {
	struct vpmu_guest_cfg cfg;
	const struct vpmu_guest_ops *ops;
	struct vpmu_context *ctx;
	struct vpmu_hostpmu *pmu; /* for the events that the host can count */
	struct vpmu_pcpu *pcpu;	  /* where the vCPU is placed; NULL: nowhere */
	uint64_t width_mask;
	uint32_t ctrs;	   /* counters that exist: GP from bit 0, fixed from VPMU_GUEST_MAX_GP */
	uint32_t enabled;  /* of ctrs: consumer enabled */
	uint32_t intr;	   /* of ctrs: an overflow interrupts (INT, or the fixed PMI bit) */
	uint32_t armed;	   /* of ctrs: the alarm is set */
	uint32_t selected; /* of ctrs: has an event, denied or not */
	uint32_t failed;   /* of ctrs: is on, but does not count: no slot, or denied */
	uint32_t again;	   /* of ctrs: is on, and is tried again: no slot, or unsupported */
	struct vpmu_guest_ctr ctr[VPMU_GUEST_MAX_CTRS];
	uint64_t fixed_ctrl;	/* Intel IA32_FIXED_CTR_CTRL (saved) */
	uint64_t global_ctrl;	/* Intel 38F, AMD C0000301 (saved) */
	uint64_t global_status; /* overflows found so far; guest_status adds newer ones (saved) */
	uint64_t debugctl;	/* the freeze bits the model owns (saved) */

	uint32_t overflowed; /* counters with a fired alarm since the last vpmu_guest_service. A
			      * hint only: guest_settle detects the overflow */
	bool pmi;	     /* a counter that interrupts has wrapped; the PMI is pending (saved) */

	uint64_t work; /* host work caused by the counters so far, in VPMU_GUEST_WORK_* units,
			* for accounting to the guest */

	/* branch records: the guest's control registers; the records are in the context */
	unsigned int lbr_max;	/* 0: the model has none */
	unsigned int lbr_depth; /* (saved) */
	uint64_t lbr_ctl;	/* Intel IA32_LBR_CTL; AMD LBR_SELECT (saved) */
	uint64_t lbr_enable;	/* AMD DBG_EXTN_CFG (saved) */

	/* denials by the policy */
	uint64_t denied;      /* number of writes that selected a denied event (saved) */
	uint64_t denied_last; /* event select (GP) or fixed counter number of the newest (saved) */

	/* events that the host cannot count; specific to this host, so not saved */
	uint64_t unsupported;	   /* number of counters started with one */
	uint64_t unsupported_last; /* as denied_last */
};

/* vpmu_guest_init - set the registers to their power-up values. @g is zeroed memory of the caller.
 * @ctx and @pmu are borrowed; @pmu determines the available events (CPUID 0AH EBX). Returns 0;
 * -EINVAL: @cfg is out of range, or the model has counters and @ctx or @pmu is NULL. */
int vpmu_guest_init(struct vpmu_guest *g, const struct vpmu_guest_cfg *cfg,
		    struct vpmu_context *ctx, struct vpmu_hostpmu *pmu);

/* vpmu_guest_fini - stop all counters and delete the consumers. Free @g a grace period later
 * (vpmu_rcu_free). Any control thread may call this while the vCPU is placed nowhere
 * (vpmu_guest_placed with NULL). */
void vpmu_guest_fini(struct vpmu_guest *g);

/*
 * vpmu_guest_placed - the vCPU was placed on @pcpu. Call it after vpmu_context_place and before the
 * vCPU runs. Retries counters for which the host had no slot, or that it could not count; so does a
 * call with the pCPU that the vCPU is on. NULL: the vCPU is placed nowhere for now; its registers
 * can be read and written, and counters that are on start counting at the next placement.
 */
void vpmu_guest_placed(struct vpmu_guest *g, struct vpmu_pcpu *pcpu);

/*
 * vpmu_guest_service - handle the overflows since the last call: set status bits, and freeze as
 * DEBUGCTL requests (IA32_PERF_GLOBAL_STATUS.CTR_Frz and LBR_Frz, PerfCntrGlobalStatus). Returns
 * true if the caller must raise a PMI now, through the local APIC's LVT entry. Call it before every
 * entry into the guest if vpmu_guest_pending returns true. The vCPU must be placed.
 */
bool vpmu_guest_service(struct vpmu_guest *g);
static inline bool vpmu_guest_pending(const struct vpmu_guest *g)
{
	return g->overflowed != 0 || g->pmi;
}

/* vpmu_guest_is_intel - returns true for Intel models. An Intel local APIC masks LVTPC when it
 * delivers a PMI (SDM vol. 3, 11.5.1), AMD's does not. Any thread. */
bool vpmu_guest_is_intel(const struct vpmu_guest *g);

/*
 * State for a VMM that moves a vCPU's MSRs one by one. The vCPU must not run; it may be placed or
 * not. Before a whole state is set, call vpmu_guest_reset.
 *
 * vpmu_guest_get_msr - read a register of the model, also one that the guest may only write.
 * Command registers (IA32_PERF_GLOBAL_OVF_CTRL, STATUS_RESET and STATUS_SET,
 * PerfCntrGlobalStatusClr and Set) read as 0. -ENOENT: not a register of the model.
 * vpmu_guest_set_msr - set a register as vpmu_guest_get_msr has read it. Unlike a guest's write:
 *   - counters take all bits of their width at each of their addresses
 *   - the status register (IA32_PERF_GLOBAL_STATUS, PerfCntrGlobalStatus) takes overflow and freeze
 *     bits; no PMI follows
 *   - command registers check their value and ignore it
 *   - the times and qualities of counters (abi.h) can be set after the counter itself, whose value
 *     starts them anew; bit 8 of a quality means that events have been lost, and a time is read
 * even if it is hidden from the guest
 *   - a register that is read-only otherwise takes the value that it has
 *   - a denied event is not counted as a denial
 *   - IA32_LBR_DEPTH clears the branch records only if it changes
 * -EINVAL: no register of a guest can hold @val; nothing has changed. -ENOENT as above. -ENOMEM: no
 * memory for branch records.
 * vpmu_guest_msr_list - store the registers that make up the state, up to @max, in an order in
 * which they can be set. Returns their number, at most VPMU_GUEST_STATE_MSRS.
 *
 * A pending PMI is not in a register: before reading, call vpmu_guest_service and raise its PMI.
 */
#define VPMU_GUEST_STATE_MSRS 256
int vpmu_guest_get_msr(struct vpmu_guest *g, uint32_t msr, uint64_t *val);
int vpmu_guest_set_msr(struct vpmu_guest *g, uint32_t msr, uint64_t val);
size_t vpmu_guest_msr_list(struct vpmu_guest *g, uint32_t *msrs, size_t max);

/* vpmu_guest_reset - set all registers to their power-up values: counters stop, branch records and
 * a pending PMI are gone. The vCPU stays where it is placed. For RESET; INIT keeps the PMU's
 * registers (SDM vol. 3 table 10-1). Counts of denials remain. */
void vpmu_guest_reset(struct vpmu_guest *g);

/*
 * vpmu_guest_rdmsr, vpmu_guest_wrmsr - execute the guest's access. 0: done. -EFAULT: #GP; this
 * includes PMU MSRs of the other vendor and of counters beyond the configured ones. -ENOENT: not a
 * PMU MSR; the VMM decides. The models also handle (IA32_)DEBUGCTL and Intel's IA32_MISC_ENABLE,
 * even without a PMU: unsupported DEBUGCTL bits are dropped (LBR, BTF) or #GP, and writes of
 * IA32_MISC_ENABLE are ignored.
 * vpmu_guest_rdpmc - @index is the guest's ECX; the engine has checked CR4.PCE and CPL. 0, or
 * -EFAULT: #GP.
 */
int vpmu_guest_rdmsr(struct vpmu_guest *g, uint32_t msr, uint64_t *val);
int vpmu_guest_wrmsr(struct vpmu_guest *g, uint32_t msr, uint64_t val);
int vpmu_guest_rdpmc(struct vpmu_guest *g, uint32_t index, uint64_t *val);

/*
 * vpmu_guest_cpuid - overwrite the PMU's part of a CPUID leaf. On entry @regs = {eax, ebx, ecx,
 * edx} holds the VMM's values, which stay unchanged except for:
 *   set     0AH; 1H ECX PDCM; 7H EDX and 1CH (Arch LBR); 80000001H ECX PERFCTR_CORE; 80000022H;
 *           the paravirtual 40000000H and 40000001H
 *   raised  the highest leaf in 0H and 80000000H, so that the leaves above can be reached
 *   cleared facilities that no model has: DS and PEBS (1H), bus lock detection (7H; DEBUGCTL would
 *           enable it), ArchPerfmonExt (7H, 23H), IBS, northbridge and L3 counters, PTSC
 *           (80000001H, 8000001BH)
 * Any thread.
 */
void vpmu_guest_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
		      uint32_t regs[4]);

#ifdef __cplusplus
}
#endif

#endif
