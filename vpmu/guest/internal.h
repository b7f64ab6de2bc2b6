/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the register models share. guest.c owns the counters: values, consumers, overflow bits.
 * A vendor file owns the layout: a table of its registers, CPUID, RDPMC encodings, and which key
 * an event select means. A counter is on iff the vendor file selected a key for it (ctr.sel) and
 * its bit is set in global_ctrl; nobody but guest.c looks at that.
 *
 * An MSR exit takes no lock, allocates nothing and makes no system call of its own; what a counter
 * that starts costs is vpmu_consumer_enable's.
 */
#ifndef VPMU_GUEST_INTERNAL_H
#define VPMU_GUEST_INTERNAL_H

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
 * A range of registers of a model. @i is the index in the range. Without @rd (@wr) every read
 * (write) is #GP. 0 or -EFAULT; on -EFAULT nothing has changed.
 */
struct guest_reg {
	uint32_t base;
	uint32_t count;
	int (*rd)(struct vpmu_guest *g, unsigned int i, uint64_t *val);
	int (*wr)(struct vpmu_guest *g, unsigned int i, uint64_t val);
};

struct vpmu_guest_ops {
	const struct guest_reg *regs; /* disjoint; hot ones first */
	unsigned int nr_regs;
	bool intel;
	bool global; /* has a global status register, where overflows are seen */
	unsigned int gp_min, gp_max, gp_default;
	unsigned int fixed_max, fixed_default;
	unsigned int width;   /* of all counters, bits */
	unsigned int lbr_max; /* branch records, where host and policy have them */
	/* counter number that RDPMC's ECX names, or -1: #GP */
	int (*rdpmc)(const struct vpmu_guest *g, uint32_t ecx);
	void (*cpuid)(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
		      uint32_t regs[4]);
	/* What the registers say counter @i counts while the global controls let it, or 0; whether
	 * its overflow interrupts. Pure. */
	vpmu_key_t (*select)(const struct vpmu_guest *g, unsigned int i, bool *intr);
	/* A PMI is raised now: what it freezes. Everything is settled. */
	void (*pmi)(struct vpmu_guest *g);
	/* What the CPU should record for the guest now: bits of vpmu/lbr.h; without VPMU_LBR_EN
	 * nothing. Pure. lbr_max > 0 only. */
	uint32_t (*lbr)(const struct vpmu_guest *g);
};

extern const struct vpmu_guest_ops guest_intel_v2_ops, guest_intel_v3_ops, guest_intel_v4_ops,
	guest_intel_v5_ops, guest_amd_k7_ops, guest_amd_core_ops, guest_amd_v2_ops;

/* Does counter @i exist? For indexes of register ranges. */
static inline bool guest_has(const struct vpmu_guest *g, unsigned int i)
{
	return i < VPMU_GUEST_MAX_CTRS && (g->ctrs & (1u << i));
}

/* Bit of counter @i in the global control and status registers, the same for both vendors. */
static inline uint64_t guest_global_bit(unsigned int i)
{
	return i < FIXED0 ? BIT(i) : BIT(32 + i - FIXED0);
}

/* All of these bits of counters that exist. */
uint64_t guest_global_mask(const struct vpmu_guest *g);

/*
 * While set no counter counts, no branch is recorded: IA32_PERF_GLOBAL_STATUS.CTR_Frz and LBR_Frz
 * (SDM vol. 3, 20.2.4), PerfCntrGlobalStatus bits of the same numbers (APM vol. 2, 13.2). And the
 * bits of (IA32_)DEBUGCTL that make a PMI freeze them, the same for both vendors, too.
 */
#define STATUS_LBR_FRZ		BIT(58)
#define STATUS_CTR_FRZ		BIT(59)
#define DEBUGCTL_FREEZE_LBRS	BIT(11)
#define DEBUGCTL_FREEZE_PERFMON BIT(12)

/* guest_settle - make the values, times and overflow bits of @ctrs current, to the instruction.
 * Before anything that reads them or changes what they count. */
void guest_settle(struct vpmu_guest *g, uint32_t ctrs);

/*
 * guest_derive - what follows from the selects and the policy for @ctrs: sel, denied, intr. After
 * these registers changed; then guest_apply.
 * guest_denied - note those of @ctrs that are denied, for the operator.
 */
void guest_derive(struct vpmu_guest *g, uint32_t ctrs);
void guest_denied(struct vpmu_guest *g, uint32_t ctrs);

/* guest_apply - after a change of sel, intr, global_ctrl or CTR_Frz: @ctrs that are now on start,
 * those that are off stop, all from the same instant, and alarms are set as they should be. They
 * were settled before the change. */
void guest_apply(struct vpmu_guest *g, uint32_t ctrs);

/* guest_ctr_read / write - the value of counter @i now; set it (counting goes on from there). */
uint64_t guest_ctr_read(struct vpmu_guest *g, unsigned int i);
void guest_ctr_write(struct vpmu_guest *g, unsigned int i, uint64_t val);

/* guest_evtsel_write - a new event select of GP counter @i; its bits were checked. */
void guest_evtsel_write(struct vpmu_guest *g, unsigned int i, uint64_t val);

/* guest_set_global / guest_set_status - replace IA32_PERF_GLOBAL_CTRL or PerfCntrGlobalCtl;
 * clear and set bits of the status register. Bits were checked. */
void guest_set_global(struct vpmu_guest *g, uint64_t val);
void guest_set_status(struct vpmu_guest *g, uint64_t clear, uint64_t set);
uint64_t guest_status(struct vpmu_guest *g);

/* pmi.c: the alarm of counter @i is set if the counter is enabled and interrupts, and is not
 * otherwise. guest_arm_again: the distance has changed. */
void guest_arm(struct vpmu_guest *g, unsigned int i);
void guest_arm_again(struct vpmu_guest *g, unsigned int i);
void guest_disarm(struct vpmu_guest *g, unsigned int i);

/*
 * lbr.c. guest_lbr_apply - after a change of what ops->lbr says: records are made, or not, from now
 * on; memory for them is taken when they are first enabled, and given back when they are disabled
 * and none is left.
 * guest_lbr_get - record @n, 0 = the newest, all zero when there is none.
 * guest_lbr_put - replace record @n (< g->lbr_depth). @empty: it reads as a record that was never
 * made; those at the old end are forgotten.
 * guest_lbr_reset - forget all, lbr_depth entries from now on.
 */
void guest_lbr_apply(struct vpmu_guest *g);
bool guest_lbr_get(struct vpmu_guest *g, unsigned int n, struct vpmu_lbr_entry *e);
void guest_lbr_put(struct vpmu_guest *g, unsigned int n, const struct vpmu_lbr_entry *e);
void guest_lbr_reset(struct vpmu_guest *g);

/*
 * What the AMD model keeps in vpmu_lbr_entry.info of records the guest wrote; those the CPU made
 * have none of them and are valid, not speculative, well predicted.
 */
#define LBR_INFO_INVALID BIT(61)
#define LBR_INFO_SPEC	 BIT(62)
#define LBR_INFO_MISPRED BIT(63)

/* Register functions and CPUID of branch records: intel_lbr.c, amd_lbr.c */
int guest_intel_lbr_ctl_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val);
int guest_intel_lbr_ctl_wr(struct vpmu_guest *g, unsigned int i, uint64_t val);
int guest_intel_lbr_from_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val);
int guest_intel_lbr_from_wr(struct vpmu_guest *g, unsigned int i, uint64_t val);
int guest_intel_lbr_to_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val);
int guest_intel_lbr_to_wr(struct vpmu_guest *g, unsigned int i, uint64_t val);
int guest_intel_lbr_info_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val);
int guest_intel_lbr_info_wr(struct vpmu_guest *g, unsigned int i, uint64_t val);
uint32_t guest_intel_lbr(const struct vpmu_guest *g);
void guest_intel_lbr_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
			   uint32_t regs[4]);
int guest_amd_lbr_cfg_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val);
int guest_amd_lbr_cfg_wr(struct vpmu_guest *g, unsigned int i, uint64_t val);
int guest_amd_lbr_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val);
int guest_amd_lbr_wr(struct vpmu_guest *g, unsigned int i, uint64_t val);
uint32_t guest_amd_lbr(const struct vpmu_guest *g);

/* pv.c */
int guest_pv_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val);
void guest_pv_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t regs[4]);

#endif
