// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The register models of AMD core performance counters: amd-k7 (four counters), amd-core
 * (PERFCTR_CORE: six counters, with the K7 addresses as aliases of the first four), and amd-v2
 * (PerfMonV2: global registers, freezing, branch records). msr.c finds the tables below through
 * struct vpmu_guest_ops. Counters are changed only through the functions of guest.c.
 *
 * Sources: APM vol. 2, 13.2 (registers) and appendix A; vol. 3, RDPMC and appendix E (CPUID); PPR
 * for family 19h model 11h, MSRC001_020x and MSRC000_030x. Where the APM has "reserved" without
 * MBZ, hardware does not fault: "AMD EPYC CPUs never raise a #GP for a WRMSR to a PerfEvtSeln MSR"
 * (Linux 9b026073db2f), and writes to read-only PMU registers are ignored (PPR: "Read-only"; Linux
 * kvm_pmu_set_msr). The model clears such bits and ignores such writes, as KVM does.
 */
#include <errno.h>

#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"

#define NR_MSRS 16 /* PERF_CTL/CTR pairs with an address */
#define NR_K7	4
#define NR_CORE 6
#define NR_LBR	16
#define WIDTH	48

/* PERF_CTLn, APM vol. 2 figure 13-6 */
#define SEL_USR	      BIT(16)
#define SEL_OS	      BIT(17)
#define SEL_INT	      BIT(20)
#define SEL_EN	      BIT(22)
#define SEL_GUESTONLY BIT(40)
#define SEL_HOSTONLY  BIT(41)
/*
 * Bits that keep what is written: event 7:0 and 35:32, unit mask, USR, OS, edge, INT, EN, INV,
 * cmask. Bits 19 (once pin control), 21, 39:36 and 63:42 do not. HostOnly and GuestOnly (41:40) of
 * a guest without SVM do not either, and do not fault: Linux sets HostOnly nevertheless.
 *
 * With SVM, either bit makes a counter count only while EFER.SVME is 1, and only in the modes
 * named: outside of guests, or in them (PPR, MSRC001_020x HostGuestOnly: "count ... events if SVME
 * == 1"; Linux 1018faa6cf23: with SVME 0 a counter with either "does not count at all").
 */
#define SEL_BITS (~0xfffffff000280000ULL)
#define SEL_SVM	 (SEL_GUESTONLY | SEL_HOSTONLY)

/* ---- counters and selects ---- */

/* A counter has 48 bits. The reserved bits above are dropped. */
static int ctr_wr(struct vpmu_guest *g, unsigned int n, uint64_t val)
{
	if (n >= g->cfg.gp)
		return -EFAULT;
	guest_ctr_write(g, n, val);
	return 0;
}

static int ctl_wr(struct vpmu_guest *g, unsigned int n, uint64_t val)
{
	if (n >= g->cfg.gp)
		return -EFAULT;
	guest_evtsel_write(g, n, val & (SEL_BITS | (g->cfg.svm ? SEL_SVM : 0)));
	return 0;
}

static vpmu_key_t amd_selects(const struct vpmu_guest *g, unsigned int i, bool *intr)
{
	uint64_t sel = g->ctr[i].evtsel, flags = VPMU_KEY_GUEST, svm = 0;

	*intr = sel & SEL_INT;
	if (!(sel & SEL_EN) || !(sel & (SEL_USR | SEL_OS)))
		return 0;
	flags |= (sel & SEL_OS ? VPMU_KEY_OS : 0) | (sel & SEL_USR ? VPMU_KEY_USR : 0);
	svm |= sel & SEL_GUESTONLY ? VPMU_KEY_GUESTONLY : 0;
	svm |= sel & SEL_HOSTONLY ? VPMU_KEY_HOSTONLY : 0;
	return vpmu_key_from_raw(VPMU_SPACE_AMD, sel, flags) | svm;
}

/* PERF_CTLn at even, PERF_CTRn at odd addresses from C001_0200 */
static int core_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	return i & 1 ? guest_gp_rd(g, i / 2, val) : guest_evtsel_rd(g, i / 2, val);
}

static int core_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	return i & 1 ? ctr_wr(g, i / 2, val) : ctl_wr(g, i / 2, val);
}

/* PerfEvtSel0..3, then PerfCtr0..3: aliases of the first four selects and counters */
static int k7_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	return i < NR_K7 ? guest_evtsel_rd(g, i, val) : guest_gp_rd(g, i - NR_K7, val);
}

static int k7_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	return i < NR_K7 ? ctl_wr(g, i, val) : ctr_wr(g, i - NR_K7, val);
}

/* ---- global control and status ---- */

enum { STATUS, CTL, STATUS_CLR, STATUS_SET, NR_GLOBAL };

/* StatusClr and StatusSet are write-only. A read gives 0 and does not fault. */
static int global_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = i == STATUS ? guest_status(g) : i == CTL ? g->global_ctrl : 0;
	return 0;
}

/*
 * One bit per counter. CPUID 8000_0022H:EAX[2] adds LbrFreeze (58) and PmcFreeze (59): a PMI sets
 * them, and they freeze while they are set.
 */
static int global_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	uint64_t frz = STATUS_CTR_FRZ | (g->lbr_max ? STATUS_LBR_FRZ : 0);

	if (i == CTL)
		guest_set_global(g, val & guest_global_mask(g));
	val &= guest_global_mask(g) | frz;
	if (i == STATUS_CLR)
		guest_set_status(g, val, 0);
	else if (i == STATUS_SET)
		guest_set_status(g, 0, val);
	return 0; /* STATUS is read-only: ignored */
}

/* DebugCtl, APM vol. 2, 13.1.1.6. The model keeps the two freeze bits. It drops bits 5:0. All other
 * bits are reserved: #GP. */
static int amd_debugctl_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	return guest_debugctl_write(g, val, DEBUGCTL_DROPPED_AMD);
}

#define PV                                                                                         \
	{                                                                                          \
		VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT, guest_pv_rd, NULL                             \
	}

static const struct guest_reg regs_k7[] = {
	{0xc0010000, 2 * NR_K7, k7_rd, k7_wr},
	PV,
};

static const struct guest_reg regs_core[] = {
	{0xc0010200, 2 * NR_CORE, core_rd, core_wr},
	{0xc0010000, 2 * NR_K7, k7_rd, k7_wr},
	PV,
};

static const struct guest_reg regs_v2[] = {
	{0xc0010200, 2 * NR_MSRS, core_rd, core_wr},
	{0xc0000300, NR_GLOBAL, global_rd, global_wr},
	{0xc0010000, 2 * NR_K7, k7_rd, k7_wr},
	PV,
	{0x1d9, 1, guest_debugctl_rd, amd_debugctl_wr},
	{0xc000010e, 2, guest_amd_lbr_cfg_rd, guest_amd_lbr_cfg_wr}, /* LBR_SELECT, DBG_EXTN_CFG */
	{0xc0010300, 2 * NR_LBR, guest_amd_lbr_rd, guest_amd_lbr_wr},
};

/* ECX is the number of the core counter; all other values are #GP (APM vol. 3, RDPMC). The
 * northbridge and L3 counters, which begin at 6 and 10 if CPUID announces them, do not exist here.
 */
static int amd_rdpmc(const struct vpmu_guest *g, uint32_t ecx)
{
	return ecx < g->cfg.gp ? (int)ecx : -1;
}

static void cpuid_k7(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
}

static void cpuid_core(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	if (leaf == 0x80000001)
		r[2] |= 1u << 23; /* PerfCtrExtCore */
}

static void cpuid_v2(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	cpuid_core(g, leaf, subleaf, r);
	switch (leaf) {
	case 0x80000000:
		if (r[0] < 0x80000022)
			r[0] = 0x80000022;
		break;
	case 0x80000022:
		/* PerfMonV2, LbrStack, LbrAndPmcFreeze */
		r[0] = 1 | (g->lbr_max ? 1 << 1 : 0) | 1 << 2;
		/* NumPerfCtrCore 3:0, LbrStackSize 9:4 */
		r[1] = g->cfg.gp | (g->lbr_max ? g->lbr_max << 4 : 0);
		r[2] = r[3] = 0;
		break;
	default:
		break;
	}
}

#define COMMON .width = WIDTH, .rdpmc = amd_rdpmc, .select = amd_selects

const struct vpmu_guest_ops guest_amd_k7_ops = {
	.regs = regs_k7,
	.nr_regs = ARRAY_SIZE(regs_k7),
	.gp_min = NR_K7,
	.gp_max = NR_K7,
	.gp_default = NR_K7,
	.cpuid = cpuid_k7,
	COMMON,
};

const struct vpmu_guest_ops guest_amd_core_ops = {
	.regs = regs_core,
	.nr_regs = ARRAY_SIZE(regs_core),
	.gp_min = NR_CORE,
	.gp_max = NR_CORE,
	.gp_default = NR_CORE,
	.cpuid = cpuid_core,
	COMMON,
};

const struct vpmu_guest_ops guest_amd_v2_ops = {
	.regs = regs_v2,
	.nr_regs = ARRAY_SIZE(regs_v2),
	.global = true,
	.gp_min = NR_K7,
	.gp_max = 15, /* the largest value of NumPerfCtrCore (4 bits) */
	.gp_default = NR_CORE,
	.lbr_max = NR_LBR,
	.cpuid = cpuid_v2,
	.pmi = guest_freeze,
	.lbr = guest_amd_lbr,
	COMMON,
};
