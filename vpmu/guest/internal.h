/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Private to the files of vpmu/guest/.
 *
 * guest.c owns the counters: values, consumers, overflow bits. A vendor file (intel.c, amd.c and
 * their *_lbr.c) owns the layout: a table of its registers, CPUID, RDPMC encodings, and the mapping
 * of event selects to keys. A counter is on if and only if the vendor file selected a key for it
 * (ctr.sel), its bit is set in global_ctrl, and CTR_Frz is clear; only guest.c evaluates this.
 *
 * An MSR exit must take no lock, allocate nothing and make no system call, except in consumer_take
 * for a counter that starts.
 */
#pragma once

#include "vpmu/context.h"
#include "vpmu/guest/guest.h"
#include "vpmu/guest/policy.h"
#include "vpmu/hostpmu.h"
#include "vpmu/lbr.h"
#include "vpmu/pcpu.h"

#define BIT(n)	      (1ULL << (n))
#define FIXED0	      VPMU_GUEST_MAX_GP /* counter number of the first fixed counter */
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define guest_for_each_ctr(i, mask)                                                                \
	for (uint32_t m_ = (mask); m_ && ((i) = (unsigned int)__builtin_ctz(m_), true);            \
	     m_ &= m_ - 1)

/*
 * A range of registers of a model. @rd and @wr get the index @i in the range and return 0, or
 * -EFAULT for #GP without any change. If @rd (@wr) is NULL, every read (write) is #GP.
 */
typedef int guest_rd_fn(struct vpmu_guest *g, unsigned int i, uint64_t *val);
typedef int guest_wr_fn(struct vpmu_guest *g, unsigned int i, uint64_t val);
struct guest_reg {
	uint32_t base;
	uint32_t count;
	guest_rd_fn *rd;
	guest_wr_fn *wr;
};

struct vpmu_guest_ops {
	const struct guest_reg *regs; /* disjoint; frequently used ones first */
	unsigned int nr_regs;
	bool intel;
	bool global; /* has a global status register with overflow bits */
	unsigned int gp_min, gp_max, gp_default;
	unsigned int fixed_max, fixed_default;
	unsigned int width;   /* of all counters, bits */
	unsigned int lbr_max; /* number of branch records if host and policy have any */
	/* Returns the number of the counter selected by RDPMC's ECX, or -1 for #GP. */
	int (*rdpmc)(const struct vpmu_guest *g, uint32_t ecx);
	void (*cpuid)(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
		      uint32_t regs[4]);
	/* Returns the key selected for counter @i, or 0 for none; sets *intr if its overflow
	 * interrupts. No side effects. */
	vpmu_key_t (*select)(const struct vpmu_guest *g, unsigned int i, bool *intr);
	/* A PMI is being raised: freeze as DEBUGCTL requests. All counters are settled. NULL: this
	 * model cannot freeze. */
	void (*pmi)(struct vpmu_guest *g);
	/* Returns the guest's present recording filter, in bits of vpmu/lbr_regs.h; without
	 * VPMU_LBR_EN nothing is recorded. No side effects. Called only if lbr_max > 0. */
	uint32_t (*lbr)(const struct vpmu_guest *g);
};

extern const struct vpmu_guest_ops guest_intel_v2_ops, guest_intel_v3_ops, guest_intel_v4_ops,
	guest_intel_v5_ops, guest_amd_k7_ops, guest_amd_core_ops, guest_amd_v2_ops;

/* True if counter @i exists; @i may be any number. */
static inline bool guest_has(const struct vpmu_guest *g, unsigned int i)
{
	return i < VPMU_GUEST_MAX_CTRS && (g->ctrs & (1u << i));
}

/* Bit of counter @i in the global control and status registers, the same for both vendors. */
static inline uint64_t guest_global_bit(unsigned int i)
{
	return i < FIXED0 ? BIT(i) : BIT(32 + i - FIXED0);
}

/* guest_global_bit of every counter that exists. */
uint64_t guest_global_mask(const struct vpmu_guest *g);

/*
 * Freeze bits, the same for both vendors. While CTR_FRZ (LBR_FRZ) is set in the global status
 * register, no counter counts (no branch is recorded): IA32_PERF_GLOBAL_STATUS, SDM vol. 3, 20.2.4;
 * PerfCntrGlobalStatus, APM vol. 2, 13.2. The bits of (IA32_)DEBUGCTL make a PMI set them.
 */
#define STATUS_LBR_FRZ		BIT(58)
#define STATUS_CTR_FRZ		BIT(59)
#define DEBUGCTL_FREEZE_LBRS	BIT(11)
#define DEBUGCTL_FREEZE_PERFMON BIT(12)

/*
 * Bits of (IA32_)DEBUGCTL that a write may set but that stay 0, as on KVM. Stock guests set them
 * without checking CPUID: LBR (0) would start non-architectural branch records, BTF (1)
 * single-stepping on branches, and AMD's bits 5:2 have been pin controls or bus locks. None of
 * these exist here; the emulator keeps LBR of AMD's vCPUs itself.
 */
#define DEBUGCTL_DROPPED_INTEL 0x3ULL
#define DEBUGCTL_DROPPED_AMD   0x3fULL

/* msr.c: what the register models have in common. guest_gp_rd, guest_evtsel_rd - counter and event
 * select @i. guest_debugctl_rd, guest_debugctl_write - the freeze bits; bits of @dropped are
 * ignored, others are #GP. guest_freeze - a PMI is being raised: freeze as DEBUGCTL requests. */
guest_rd_fn guest_gp_rd, guest_evtsel_rd, guest_debugctl_rd;
int guest_debugctl_write(struct vpmu_guest *g, uint64_t val, uint64_t dropped);
void guest_freeze(struct vpmu_guest *g);

/* guest_settle - bring the values, times and overflow bits of @ctrs up to date, exact to the
 * instruction. Call it before reading them and before changing their events. */
void guest_settle(struct vpmu_guest *g, uint32_t ctrs);

/*
 * guest_derive - compute sel, denied and intr of @ctrs from their selects and the policy. Call it
 * after a write of a select, and guest_apply after it.
 * guest_denied - count those of @ctrs that are denied, for the operator.
 */
void guest_derive(struct vpmu_guest *g, uint32_t ctrs);
void guest_denied(struct vpmu_guest *g, uint32_t ctrs);

/* guest_apply - start those of @ctrs that are on, stop those that are off, and set their alarms.
 * All start at the same instant, and all stop at the same instant. Call it after a change of sel,
 * intr, global_ctrl or CTR_Frz; @ctrs must have been settled before that change. */
void guest_apply(struct vpmu_guest *g, uint32_t ctrs);

/* guest_ctr_read - the current value of counter @i.
 * guest_ctr_write - set the value of counter @i, which continues from there. */
uint64_t guest_ctr_read(struct vpmu_guest *g, unsigned int i);
void guest_ctr_write(struct vpmu_guest *g, unsigned int i, uint64_t val);

/* guest_evtsel_write - write the event select of GP counter @i. The caller has checked its bits. */
void guest_evtsel_write(struct vpmu_guest *g, unsigned int i, uint64_t val);

/* guest_set_global - replace IA32_PERF_GLOBAL_CTRL or PerfCntrGlobalCtl.
 * guest_set_status - clear, then set bits of the status register. guest_status - read it.
 * The caller has checked the bits. */
void guest_set_global(struct vpmu_guest *g, uint64_t val);
void guest_set_status(struct vpmu_guest *g, uint64_t clear, uint64_t set);
uint64_t guest_status(struct vpmu_guest *g);

/* pmi.c. guest_arm - set the alarms of those of @ctrs that are enabled and interrupt; clear those
 * of the others. guest_disarm - clear them. Both right after a charge of these counters.
 * guest_arm_again - set that of counter @i anew after the counter's value has changed. */
void guest_arm(struct vpmu_guest *g, uint32_t ctrs);
void guest_disarm(struct vpmu_guest *g, uint32_t ctrs);
void guest_arm_again(struct vpmu_guest *g, unsigned int i);

/*
 * lbr.c. Memory for the records is allocated when the guest first enables them or writes one, and
 * freed when they are disabled and none is left.
 * guest_lbr_apply - record with the filter of ops->lbr from now on. Call it after every change of
 * that.
 * guest_lbr_get - copy record @n, 0 = the newest, to *e. Returns false if there is no such record;
 * *e then has the values that its registers read as.
 * guest_lbr_put - replace record @n (< g->lbr_depth).
 * guest_lbr_reset - clear all records; the depth is lbr_depth from now on.
 */
void guest_lbr_apply(struct vpmu_guest *g);
bool guest_lbr_get(struct vpmu_guest *g, unsigned int n, struct vpmu_lbr_entry *e);
void guest_lbr_put(struct vpmu_guest *g, unsigned int n, const struct vpmu_lbr_entry *e);
void guest_lbr_reset(struct vpmu_guest *g);

/*
 * Flags that the AMD model keeps in vpmu_lbr_entry.info of records written by the guest. Records
 * made by the CPU have none of them: they are valid, not speculative and correctly predicted.
 */
#define LBR_INFO_INVALID BIT(61)
#define LBR_INFO_SPEC	 BIT(62)
#define LBR_INFO_MISPRED BIT(63)

/* intel_lbr.c, amd_lbr.c: register functions, ops->lbr and CPUID of branch records;
 * guest_*_lbr_fits: true if record register @msr can read as @val. */
guest_rd_fn guest_intel_lbr_ctl_rd, guest_intel_lbr_from_rd, guest_intel_lbr_to_rd,
	guest_intel_lbr_info_rd;
guest_wr_fn guest_intel_lbr_ctl_wr, guest_intel_lbr_from_wr, guest_intel_lbr_to_wr,
	guest_intel_lbr_info_wr;
bool guest_intel_lbr_fits(uint32_t msr, uint64_t val);
uint32_t guest_intel_lbr(const struct vpmu_guest *g);
void guest_intel_lbr_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
			   uint32_t regs[4]);
guest_rd_fn guest_amd_lbr_cfg_rd, guest_amd_lbr_rd;
guest_wr_fn guest_amd_lbr_cfg_wr, guest_amd_lbr_wr;
bool guest_amd_lbr_fits(uint32_t msr, uint64_t val);
uint32_t guest_amd_lbr(const struct vpmu_guest *g);

/* pv.c: the paravirtual MSRs and CPUID leaves of abi.h. */
guest_rd_fn guest_pv_rd;
void guest_pv_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t regs[4]);
