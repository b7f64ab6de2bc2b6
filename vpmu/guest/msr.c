// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Entry points of the register models: find the register of an MSR number, the counter of an RDPMC
 * index and the values of a CPUID leaf. vmm/vm calls these functions (guest.h). PMU facilities that
 * no model has are #GP and hidden in CPUID here.
 */
#include <errno.h>
#include <string.h>

#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"

/* IA32_MISC_ENABLE */
#define MISC_FAST_STRINGS BIT(0)
#define MISC_EMON	  BIT(7)
#define MISC_BTS_UNAVAIL  BIT(11)
#define MISC_PEBS_UNAVAIL BIT(12)

/* ---- registers ---- */

/*
 * PMU registers of both vendors, including those that no model has. An access to a register that
 * the model does not list is #GP if the register is in this table, and -ENOENT (not a PMU register)
 * otherwise.
 */
static const struct vpmu_msr_range pmu_msrs[] = {
	/* Intel: SDM vol. 4 table 2-2 */
	{0x0c1, 10},  /* IA32_PMC0..9 */
	{0x186, 10},  /* IA32_PERFEVTSEL0..9 */
	{0x1a6, 2},   /* MSR_OFFCORE_RSP_0, 1 */
	{0x1c8, 2},   /* MSR_LBR_SELECT, MSR_LASTBRANCH_TOS */
	{0x309, 16},  /* IA32_FIXED_CTR0.. */
	{0x329, 1},   /* MSR_PERF_METRICS */
	{0x345, 1},   /* IA32_PERF_CAPABILITIES */
	{0x38d, 10},  /* IA32_FIXED_CTR_CTRL .. IA32_PERF_GLOBAL_INUSE, uncore control */
	{0x3f1, 2},   /* IA32_PEBS_ENABLE, MSR_PEBS_DATA_CFG */
	{0x3f6, 2},   /* MSR_PEBS_LD_LAT, MSR_PEBS_FRONTEND */
	{0x4c1, 10},  /* IA32_A_PMC0..9 */
	{0x600, 1},   /* IA32_DS_AREA */
	{0x680, 32},  /* MSR_LASTBRANCH_x_FROM_IP */
	{0x6c0, 32},  /* MSR_LASTBRANCH_x_TO_IP */
	{0xdc0, 32},  /* MSR_LASTBRANCH_INFO_x */
	{0x1200, 32}, /* IA32_LBR_x_INFO */
	{0x14ce, 2},  /* IA32_LBR_CTL, IA32_LBR_DEPTH */
	{0x1500, 32}, /* IA32_LBR_x_FROM_IP */
	{0x1600, 32}, /* IA32_LBR_x_TO_IP */
	/* AMD: APM vol. 2 appendix A.6, and linux/arch/x86/include/asm/msr-index.h */
	{0xc000010e, 2},   /* LbrSelect, DbgExtnCfg */
	{0xc0000300, 4},   /* PerfCntrGlobalStatus, Ctl, StatusClr, StatusSet */
	{0xc0010000, 8},   /* PerfEvtSel0..3, PerfCtr0..3 */
	{0xc0010200, 32},  /* PERF_CTL0, PERF_CTR0 ... */
	{0xc0010230, 12},  /* L3 (L2I) PMC */
	{0xc0010240, 16},  /* northbridge, data fabric PMC */
	{0xc0010280, 1},   /* performance time-stamp counter */
	{0xc0010300, 32},  /* LBR stack */
	{0xc0010800, 128}, /* UMC PMC */
	{0xc0011030, 14},  /* IBS */
	/* our own */
	{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
};

static int unlisted(uint32_t msr)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(pmu_msrs); i++) {
		if (msr - pmu_msrs[i].base < pmu_msrs[i].count)
			return -EFAULT;
	}
	return -ENOENT;
}

/*
 * Registers of the CPU, not of its PMU, that PMU software uses. Every vCPU has them, even without a
 * PMU. A model that keeps bits of (IA32_)DEBUGCTL lists the register itself; here it keeps nothing.
 */
static int msr_debugctl_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = 0;
	return 0;
}

static int msr_debugctl_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	uint64_t dropped = vpmu_guest_is_intel(g) ? DEBUGCTL_DROPPED_INTEL : DEBUGCTL_DROPPED_AMD;

	return val & ~dropped ? -EFAULT : 0;
}

/*
 * IA32_MISC_ENABLE (vol. 4 table 2-2), Intel only: Linux reads it before it can handle a #GP. Fast
 * strings are on, and there is neither BTS nor PEBS. EMON is set if there is a PMU. Writes are
 * ignored: the features that they could disable do not exist here or stay as CPUID shows them.
 */
static int misc_enable_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = MISC_FAST_STRINGS | MISC_BTS_UNAVAIL | MISC_PEBS_UNAVAIL | (g->ops ? MISC_EMON : 0);
	return 0;
}

static int misc_enable_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	return 0;
}

static const struct guest_reg debugctl = {0x1d9, 1, msr_debugctl_rd, msr_debugctl_wr};
static const struct guest_reg misc_enable = {0x1a0, 1, misc_enable_rd, misc_enable_wr};

static const struct guest_reg *find_reg(const struct vpmu_guest *g, uint32_t msr)
{
	for (unsigned int i = 0; g->ops && i < g->ops->nr_regs; i++) {
		const struct guest_reg *r = &g->ops->regs[i];

		if (msr - r->base < r->count)
			return r;
	}
	if (msr == debugctl.base)
		return &debugctl;
	if (msr == misc_enable.base && vpmu_guest_is_intel(g))
		return &misc_enable;
	return NULL;
}

int vpmu_guest_rdmsr(struct vpmu_guest *g, uint32_t msr, uint64_t *val)
{
	const struct guest_reg *r = find_reg(g, msr);

	if (!r)
		return unlisted(msr);
	return r->rd ? r->rd(g, msr - r->base, val) : -EFAULT;
}

int vpmu_guest_wrmsr(struct vpmu_guest *g, uint32_t msr, uint64_t val)
{
	const struct guest_reg *r = find_reg(g, msr);

	if (!r)
		return unlisted(msr);
	return r->wr ? r->wr(g, msr - r->base, val) : -EFAULT;
}

int vpmu_guest_rdpmc(struct vpmu_guest *g, uint32_t index, uint64_t *val)
{
	int i = g->ops ? g->ops->rdpmc(g, index) : -1;

	if (i < 0)
		return -EFAULT;
	*val = guest_ctr_read(g, (unsigned int)i);
	return 0;
}

/*
 * Each model traps its own registers, and those registers of the other vendor that KVM would answer
 * without a fault when its own vPMU is off (kvm_get_msr_common: K7 and P6 counters and selects).
 * Its own come first: each exit looks for its register.
 */
#define INTEL_COMMON                                                                               \
	{0x0c1, 10},	       /* IA32_PMCx */                                                     \
		{0x186, 10},   /* IA32_PERFEVTSELx */                                              \
		{0x309, 0x8a}, /* IA32_FIXED_CTR0 .. IA32_PERF_GLOBAL_INUSE */                     \
	{                                                                                          \
		0x4c1, 10                                                                          \
	} /* IA32_A_PMCx */
#define AMD_COMMON                                                                                 \
	{0xc0010000, 8}, /* PerfEvtSel, PerfCtr */                                                 \
	{                                                                                          \
		0xc0010200, 32                                                                     \
	} /* PERF_CTL, PERF_CTR */

const struct vpmu_msr_range *vpmu_guest_msr_ranges(enum vpmu_guest_model model)
{
	static const struct vpmu_msr_range intel[] = {
		INTEL_COMMON,	 {0x1a0, 1}, /* IA32_MISC_ENABLE */
		{0x1d9, 1},		     /* IA32_DEBUGCTL */
		{0x1200, 0x420}, /* IA32_LBR_x_INFO, LBR_CTL, LBR_DEPTH, x_FROM_IP, x_TO_IP */
		AMD_COMMON,	 {VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
		{0, 0},
	};
	/* amd-k7, amd-core, and the model without a PMU */
	static const struct vpmu_msr_range amd[] = {
		AMD_COMMON,	 {0x1d9, 1}, /* DebugCtl */
		{0xc0000300, 4},	     /* PerfCntrGlobal* */
		INTEL_COMMON,	 {VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
		{0, 0},
	};
	static const struct vpmu_msr_range amd_v2[] = {
		AMD_COMMON,
		{0xc0000300, 4}, /* PerfCntrGlobal* */
		INTEL_COMMON,
		{0x1d9, 1},	  /* DebugCtl */
		{0xc000010e, 2},  /* LBR_SELECT, DBG_EXTN_CFG */
		{0xc0010300, 32}, /* LBR stack */
		{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
		{0, 0},
	};

	switch (model) {
	case VPMU_GUEST_INTEL_V2:
	case VPMU_GUEST_INTEL_V3:
	case VPMU_GUEST_INTEL_V4:
	case VPMU_GUEST_INTEL_V5:
		return intel;
	case VPMU_GUEST_AMD_V2:
		return amd_v2;
	default:
		return amd;
	}
}

/* ---- CPUID ---- */

enum { EAX, EBX, ECX, EDX };

/* Clear every PMU bit of a leaf. The model's cpuid function sets the bits of its features. */
static void cpuid_strip(uint32_t leaf, uint32_t subleaf, uint32_t regs[4])
{
	switch (leaf) {
	case 0x1:
		/* PDCM, DS-CPL, DTES64; DS */
		regs[ECX] &= ~(uint32_t)(BIT(15) | BIT(4) | BIT(2));
		regs[EDX] &= ~(uint32_t)BIT(21);
		break;
	case 0x7:
		if (subleaf == 0) {
			/* Bus lock detection, which a bit of DEBUGCTL enables; Arch LBR */
			regs[ECX] &= ~(uint32_t)BIT(24);
			regs[EDX] &= ~(uint32_t)BIT(19);
		} else if (subleaf == 1) {
			regs[EAX] &= ~(uint32_t)BIT(8); /* ArchPerfmonExt: leaf 23H */
		}
		break;
	case 0x80000001:
		/* PerfCtrExtLLC, PerfTsc, PerfCtrExtNB, PerfCtrExtCore, IBS */
		regs[ECX] &= ~(uint32_t)(BIT(28) | BIT(27) | BIT(24) | BIT(23) | BIT(10));
		break;
	case 0xa:
	case 0x1c:
	case 0x23:
	case 0x8000001b:
	case 0x80000022:
		memset(regs, 0, 4 * sizeof(*regs));
		break;
	default:
		break;
	}
}

void vpmu_guest_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf, uint32_t regs[4])
{
	cpuid_strip(leaf, subleaf, regs);
	guest_pv_cpuid(g, leaf, regs);
	if (g->ops)
		g->ops->cpuid(g, leaf, subleaf, regs);
}

/* ---- registers that the models have in common ---- */

int guest_gp_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	if (i >= g->cfg.gp)
		return -EFAULT;
	*val = guest_ctr_read(g, i);
	return 0;
}

int guest_evtsel_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	if (i >= g->cfg.gp)
		return -EFAULT;
	*val = g->ctr[i].evtsel;
	return 0;
}

int guest_debugctl_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = g->debugctl;
	return 0;
}

int guest_debugctl_write(struct vpmu_guest *g, uint64_t val, uint64_t dropped)
{
	uint64_t bits = DEBUGCTL_FREEZE_PERFMON | (g->lbr_max ? DEBUGCTL_FREEZE_LBRS : 0);

	if (val & ~(bits | dropped))
		return -EFAULT;
	g->debugctl = val & bits;
	return 0;
}

void guest_freeze(struct vpmu_guest *g)
{
	uint64_t frz = 0;

	if (g->debugctl & DEBUGCTL_FREEZE_PERFMON)
		frz |= STATUS_CTR_FRZ;
	if (g->debugctl & DEBUGCTL_FREEZE_LBRS)
		frz |= STATUS_LBR_FRZ;
	if (frz)
		guest_set_status(g, 0, frz);
}
