// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The register models of Intel architectural performance monitoring, versions 2 to 5. msr.c finds
 * the tables below through struct vpmu_guest_ops. Counters are changed only through the functions
 * of guest.c.
 *
 * Sources: SDM vol. 3 ch. 20 (section numbers of edition 083, 2024; 18.x in older ones) and vol. 4
 * table 2-2 for the registers, vol. 2 for CPUID and RDPMC. "A non-zero write of a field that is
 * introduced in a later version results in #GP" (20.2), so each version has masks of its own.
 */
#include <errno.h>

#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"

#define NR_GP	 8
#define NR_FIXED 4
#define WIDTH	 48

/* IA32_PERFEVTSELx, figure 20-1 (v1), 20-6 (v3) */
#define SEL_EVENT 0xffULL
#define SEL_USR	  BIT(16)
#define SEL_OS	  BIT(17)
#define SEL_PC	  BIT(19)
#define SEL_INT	  BIT(20)
#define SEL_ANY	  BIT(21)
#define SEL_EN	  BIT(22)
/* Event, unit mask, edge, INV and counter mask */
#define SEL_FIELDS 0xff84ffffULL
#define COND_OLD   0x1c4ULL

/* IA32_FIXED_CTR_CTRL, four bits a counter, figure 20-2; bit 2 is AnyThread */
#define FIXED_OS   1
#define FIXED_USR  2
#define FIXED_PMI  8
#define FIXED_BITS (FIXED_OS | FIXED_USR | FIXED_PMI)

/* IA32_PERF_GLOBAL_STATUS besides the overflow bits, figure 20-10 and vol. 4 table 2-2 */
#define STATUS_OVF_UNCORE BIT(61)
#define STATUS_OVF_BUF	  BIT(62)
#define STATUS_COND_CHGD  BIT(63)

#define INUSE_PMI    BIT(63) /* figure 20-13 */
#define CAP_FW_WRITE BIT(13) /* IA32_PERF_CAPABILITIES, figure 20-65 */
#define CAP_LBR_ARCH 0x3fULL /* its LBR format: architectural */

static unsigned int version(const struct vpmu_guest *g)
{
	switch (g->cfg.model) {
	case VPMU_GUEST_INTEL_V2:
		return 2;
	case VPMU_GUEST_INTEL_V3:
		return 3;
	case VPMU_GUEST_INTEL_V4:
		return 4;
	default:
		return 5;
	}
}

/* ---- counters ---- */

/* IA32_PMCx: "the value written into IA32_PMCx by WRMSR is the signed extended 64-bit value of the
 * EAX[31:0] input" (20.2.8). EDX is ignored. */
static int gp_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (i >= g->cfg.gp)
		return -EFAULT;
	guest_ctr_write(g, i, (uint64_t)(int64_t)(int32_t)val);
	return 0;
}

/* IA32_A_PMCx takes all bits of the counter's width; the bits above are reserved (20.2.8). */
static int gp_wr_full(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (i >= g->cfg.gp || (val & ~g->width_mask))
		return -EFAULT;
	guest_ctr_write(g, i, val);
	return 0;
}

static int fixed_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	if (i >= g->cfg.fixed)
		return -EFAULT;
	*val = guest_ctr_read(g, FIXED0 + i);
	return 0;
}

/* "Bits beyond the width of the fixed-function counter are reserved and must be written as
 * zeros" (20.2.2). */
static int fixed_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (i >= g->cfg.fixed || (val & ~g->width_mask))
		return -EFAULT;
	guest_ctr_write(g, FIXED0 + i, val);
	return 0;
}

/* ---- event selects ---- */

/*
 * Bits a guest may set: 31:0 except AnyThread and, from version 4 on, pin control. AnyThread comes
 * with version 3, but CPUID.0AH:EDX[15] deprecates it, as in all models from 3 on and in KVM
 * (20.2.3, 20.2.5). Pin control moves a pin that no vCPU has, and is "reserved (not writeable)"
 * beginning with Sandy Bridge (20.2.1.1). Versions 2 and 3 store it, as KVM does. Versions 4 and 5,
 * which no part before Sandy Bridge has, refuse it.
 */
static uint64_t evtsel_bits(const struct vpmu_guest *g)
{
	return 0xffffffffULL & ~SEL_ANY & ~(version(g) >= 4 ? SEL_PC : 0);
}

static uint64_t key_flags(bool os, bool usr)
{
	return VPMU_KEY_GUEST | (os ? VPMU_KEY_OS : 0) | (usr ? VPMU_KEY_USR : 0);
}

static int evtsel_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (i >= g->cfg.gp || (val & ~evtsel_bits(g)))
		return -EFAULT;
	guest_evtsel_write(g, i, val);
	return 0;
}

static int fixed_ctrl_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = g->fixed_ctrl;
	return 0;
}

/* The event of each fixed counter (table 20-2). The host may count it with any counter. */
static vpmu_key_t fixed_key(unsigned int n, unsigned int ctrl)
{
	static const enum vpmu_generic event[NR_FIXED] = {
		VPMU_EV_INSTRUCTIONS,
		VPMU_EV_CYCLES,
		VPMU_EV_REF_CYCLES,
		VPMU_EV_SLOTS,
	};

	if (!(ctrl & (FIXED_OS | FIXED_USR)))
		return 0;
	return vpmu_key_generic(event[n], key_flags(ctrl & FIXED_OS, ctrl & FIXED_USR));
}

/*
 * The key of an event select. C4/01 is BR_INST_RETIRED.CONDITIONAL on CPUs before Ice Lake, and
 * COND_TAKEN since then (SDM vol. 3 ch. 20, event tables). A host for which the generic event is
 * not known, but which is Intel's, gets the guest's own select.
 */
static vpmu_key_t intel_raw_key(const struct vpmu_guest *g, uint64_t sel)
{
	uint64_t flags = key_flags(sel & SEL_OS, sel & SEL_USR);
	vpmu_key_t key = vpmu_key_generic(VPMU_EV_BRANCHES_CONDITIONAL, flags);

	if ((sel & SEL_FIELDS) == COND_OLD && version(g) < 5 && g->pmu->ops->eligible(g->pmu, key))
		return key;
	return vpmu_key_from_raw(VPMU_SPACE_INTEL, sel, flags);
}

static vpmu_key_t intel_selects(const struct vpmu_guest *g, unsigned int i, bool *intr)
{
	uint64_t sel;

	if (i >= FIXED0) {
		unsigned int ctrl = (g->fixed_ctrl >> (4 * (i - FIXED0))) & 0xf;

		*intr = ctrl & FIXED_PMI;
		return fixed_key(i - FIXED0, ctrl);
	}
	sel = g->ctr[i].evtsel;
	*intr = sel & SEL_INT;
	/* No event has the code 0. perf takes it for its own names of what fixed counters count. */
	if (!(sel & SEL_EN) || !(sel & (SEL_USR | SEL_OS)) || !(sel & SEL_EVENT))
		return 0;
	return intel_raw_key(g, sel);
}

static int fixed_ctrl_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	uint32_t ctrs = 0, changed = 0;

	for (unsigned int n = 0; n < g->cfg.fixed; n++) {
		ctrs |= (uint32_t)FIXED_BITS << (4 * n);
		if ((g->fixed_ctrl ^ val) >> (4 * n) & FIXED_BITS)
			changed |= 1u << (FIXED0 + n);
	}
	if (val & ~(uint64_t)ctrs)
		return -EFAULT;
	guest_settle(g, changed);
	g->fixed_ctrl = val;
	guest_derive(g, changed);
	guest_denied(g, changed);
	guest_apply(g, changed);
	return 0;
}

/* ---- global control and status ---- */

static int global_ctrl_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = g->global_ctrl;
	return 0;
}

static int global_ctrl_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (val & ~guest_global_mask(g))
		return -EFAULT;
	guest_set_global(g, val);
	return 0;
}

static int status_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = guest_status(g);
	return 0;
}

/*
 * Bits of IA32_PERF_GLOBAL_OVF_CTRL (v2, v3) and STATUS_RESET / STATUS_SET (v4 and later) by vol. 4
 * table 2-2: OvfBuf and CondChgd always, Ovf_Uncore with version > 2, LBR_Frz and CTR_Frz with
 * version > 3. Trace_ToPA_PMI (55) and ASCI (60) come with PT and SGX, which the models do not
 * have. Software cannot set CondChgd.
 */
static uint64_t status_bits(const struct vpmu_guest *g, bool set)
{
	return guest_global_mask(g) | STATUS_OVF_BUF | (set ? 0 : STATUS_COND_CHGD) |
	       (version(g) > 2 ? STATUS_OVF_UNCORE : 0) |
	       (version(g) > 3 ? STATUS_LBR_FRZ | STATUS_CTR_FRZ : 0);
}

/* STATUS_RESET and STATUS_SET act when written and keep nothing. They read as 0, as on KVM. */
static int status_cmd_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = 0;
	return 0;
}

static int status_reset_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (val & ~status_bits(g, false))
		return -EFAULT;
	guest_set_status(g, val, 0);
	return 0;
}

static int status_set_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (val & ~status_bits(g, true))
		return -EFAULT;
	guest_set_status(g, 0, val);
	return 0;
}

/* 20.2.4.3: a GP counter is in use if its event field is not 0, a fixed one if one of its enables
 * is not 0. The PMI bit is set if any counter would interrupt. */
static int inuse_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	uint64_t inuse = 0;

	for (unsigned int n = 0; n < g->cfg.gp; n++) {
		if (g->ctr[n].evtsel & SEL_EVENT)
			inuse |= BIT(n);
		if (g->ctr[n].evtsel & SEL_INT)
			inuse |= INUSE_PMI;
	}
	for (unsigned int n = 0; n < g->cfg.fixed; n++) {
		unsigned int ctrl = (g->fixed_ctrl >> (4 * n)) & 0xf;

		if (ctrl & (FIXED_OS | FIXED_USR))
			inuse |= BIT(32 + n);
		if (ctrl & FIXED_PMI)
			inuse |= INUSE_PMI;
	}
	*val = inuse;
	return 0;
}

/*
 * Freeze on PMI. Version 4 and later are streamlined (20.2.4.1): the PMI sets CTR_Frz and LBR_Frz,
 * which the handler clears. Versions 2 and 3 are legacy (18.4.7): the PMI clears the enables in
 * IA32_PERF_GLOBAL_CTRL. They have no LBR to freeze.
 */
static void intel_pmi(struct vpmu_guest *g)
{
	if (version(g) >= 4)
		guest_freeze(g);
	else if (g->debugctl & DEBUGCTL_FREEZE_PERFMON)
		guest_set_global(g, 0);
}

/* ---- the rest ---- */

/* IA32_PERF_CAPABILITIES: full-width writes, and the format of branch records. No PEBS and no
 * freeze in SMM. Read-only. */
static int caps_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = CAP_FW_WRITE | (g->lbr_max ? CAP_LBR_ARCH : 0);
	return 0;
}

/*
 * Freeze_PerfMon_On_PMI comes with version 2 (18.4.7), Freeze_LBRs_On_PMI with branch records;
 * without these its bit is reserved. LBR and BTF are dropped. On parts that have only architectural
 * LBR, hardware drops LBR, too (18.4.1). All other bits are reserved.
 */
static int intel_debugctl_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	return guest_debugctl_write(g, val, DEBUGCTL_DROPPED_INTEL);
}

#define REGS_V2                                                                                    \
	{0x0c1, NR_GP, guest_gp_rd, gp_wr},		    /* IA32_PMCx */                        \
		{0x309, NR_FIXED, fixed_rd, fixed_wr},	    /* IA32_FIXED_CTRx */                  \
		{0x38f, 1, global_ctrl_rd, global_ctrl_wr}, /* IA32_PERF_GLOBAL_CTRL */            \
		{0x4c1, NR_GP, guest_gp_rd, gp_wr_full},    /* IA32_A_PMCx */                      \
		{0x186, NR_GP, guest_evtsel_rd, evtsel_wr}, /* IA32_PERFEVTSELx */                 \
		{0x38e, 1, status_rd, NULL},		    /* IA32_PERF_GLOBAL_STATUS */          \
		{0x390, 1, status_cmd_rd, status_reset_wr}, /* ..._OVF_CTRL, ..._STATUS_RESET */   \
		{0x38d, 1, fixed_ctrl_rd, fixed_ctrl_wr},   /* IA32_FIXED_CTR_CTRL */              \
		{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT, guest_pv_rd, NULL},                          \
		{0x1d9, 1, guest_debugctl_rd, intel_debugctl_wr}, /* IA32_DEBUGCTL */              \
	{                                                                                          \
		0x345, 1, caps_rd, NULL                                                            \
	} /* IA32_PERF_CAPABILITIES */

#define REGS_V4                                                                                    \
	REGS_V2, {0x391, 1, status_cmd_rd, status_set_wr}, /* IA32_PERF_GLOBAL_STATUS_SET */       \
	{                                                                                          \
		0x392, 1, inuse_rd, NULL                                                           \
	} /* IA32_PERF_GLOBAL_INUSE */

#define NR_LBR VPMU_LBR_DEPTH_MAX

static const struct guest_reg regs_v2[] = {REGS_V2};
static const struct guest_reg regs_v4[] = {REGS_V4};
static const struct guest_reg regs_v5[] = {
	REGS_V4,
	{0x14ce, 2, guest_intel_lbr_ctl_rd, guest_intel_lbr_ctl_wr}, /* IA32_LBR_CTL, _DEPTH */
	{0x1500, NR_LBR, guest_intel_lbr_from_rd, guest_intel_lbr_from_wr}, /* x_FROM_IP */
	{0x1600, NR_LBR, guest_intel_lbr_to_rd, guest_intel_lbr_to_wr},	    /* x_TO_IP */
	{0x1200, NR_LBR, guest_intel_lbr_info_rd, guest_intel_lbr_info_wr}, /* x_INFO */
};

/*
 * RDPMC with architectural perfmon (vol. 2): ECX[31:16] is the type, 0 for general-purpose and
 * 4000H for fixed counters, and ECX[15:0] is the index. Anything else is #GP, also type 2000H,
 * metrics, which IA32_PERF_CAPABILITIES[15] does not announce, and "fast" reads (ECX[31]), which
 * exist only without architectural perfmon.
 */
static int intel_rdpmc(const struct vpmu_guest *g, uint32_t ecx)
{
	unsigned int n = ecx & 0xffff;

	switch (ecx >> 16) {
	case 0:
		return n < g->cfg.gp ? (int)n : -1;
	case 0x4000:
		return n < g->cfg.fixed ? (int)(FIXED0 + n) : -1;
	default:
		return -1;
	}
}

/* ---- CPUID ---- */

/* CPUID.0AH:EBX, table 20-1: bit n is set if architectural event n is not available, here because
 * the host cannot count it for a guest or because the policy denies it. */
static uint32_t events_missing(const struct vpmu_guest *g, unsigned int length)
{
	static const uint16_t event[] = {
		0x003c, /* 0 core cycles: umask << 8 | event */
		0x00c0, /* 1 instructions retired */
		0x013c, /* 2 reference cycles */
		0x4f2e, /* 3 last-level cache references */
		0x412e, /* 4 last-level cache misses */
		0x00c4, /* 5 branches retired */
		0x00c5, /* 6 mispredicted branches retired */
		0x01a4, /* 7 topdown slots */
	};
	uint32_t missing = 0;

	for (unsigned int n = 0; n < length; n++) {
		vpmu_key_t key =
			vpmu_key_from_raw(VPMU_SPACE_INTEL, event[n], key_flags(true, true));

		if (!g->pmu->ops->eligible(g->pmu, key) ||
		    !vpmu_policy_allows(g->cfg.policy, VPMU_SPACE_INTEL, event[n], key))
			missing |= 1u << n;
	}
	return missing;
}

static void intel_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	unsigned int ver = version(g);
	unsigned int length = ver >= 5 ? 8 : 7;

	switch (leaf) {
	case 0x0:
		if (r[0] < 0xa)
			r[0] = 0xa;
		break;
	case 0x1:
		r[2] |= 1u << 15; /* PDCM: IA32_PERF_CAPABILITIES is there */
		break;
	case 0xa:
		r[0] = ver | g->cfg.gp << 8 | WIDTH << 16 | length << 24;
		r[1] = events_missing(g, length);
		r[2] = ver >= 5 ? (1u << g->cfg.fixed) - 1 : 0; /* bitmap of fixed counters */
		/* number and width of fixed counters; bit 15: no AnyThread */
		r[3] = g->cfg.fixed | WIDTH << 5 | (ver >= 3 ? 1u << 15 : 0);
		break;
	default:
		break;
	}
	guest_intel_lbr_cpuid(g, leaf, subleaf, r);
}

/*
 * At least two general counters: no CPU has fewer, and Linux ignores a PMU with fewer (init_intel
 * sets X86_FEATURE_ARCH_PERFMON only if CPUID.0AH:EAX[15:8] > 1).
 */
#define COMMON                                                                                     \
	.intel = true, .global = true, .gp_min = 2, .gp_max = NR_GP, .gp_default = 8,              \
	.fixed_max = NR_FIXED, .fixed_default = 3, .width = WIDTH, .rdpmc = intel_rdpmc,           \
	.cpuid = intel_cpuid, .select = intel_selects, .pmi = intel_pmi

const struct vpmu_guest_ops guest_intel_v2_ops = {
	.regs = regs_v2,
	.nr_regs = ARRAY_SIZE(regs_v2),
	COMMON,
};

const struct vpmu_guest_ops guest_intel_v3_ops = {
	.regs = regs_v2,
	.nr_regs = ARRAY_SIZE(regs_v2),
	COMMON,
};

const struct vpmu_guest_ops guest_intel_v4_ops = {
	.regs = regs_v4,
	.nr_regs = ARRAY_SIZE(regs_v4),
	COMMON,
};

const struct vpmu_guest_ops guest_intel_v5_ops = {
	.regs = regs_v5,
	.nr_regs = ARRAY_SIZE(regs_v5),
	.lbr_max = NR_LBR,
	.lbr = guest_intel_lbr,
	COMMON,
};
