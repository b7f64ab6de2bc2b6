// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AMD core performance counters with PerfMonV2, PERFCTR_CORE and the K7 aliases of the first four.
 *
 * Sources: APM vol. 2, 13.2 (registers) and appendix A; vol. 3, RDPMC and appendix E (CPUID); PPR
 * for family 19h model 11h, MSRC001_020x and MSRC000_030x. Where the APM says "reserved" without
 * MBZ, hardware does not fault: "AMD EPYC CPUs never raise a #GP for a WRMSR to a PerfEvtSeln MSR"
 * (Linux 9b026073db2f), and writes to read-only PMU registers are ignored (PPR: "Read-only"; Linux
 * kvm_pmu_set_msr). The model clears such bits and ignores such writes, as KVM does.
 */
#include <errno.h>

#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"

#define NR_MSRS 16 /* PERF_CTL/CTR pairs with an address */
#define NR_K7	4
#define WIDTH	48

/* PERF_CTLn, APM vol. 2 figure 13-6 */
#define SEL_USR BIT(16)
#define SEL_OS	BIT(17)
#define SEL_EN	BIT(22)
/*
 * Bits that hold what is written: event 7:0 and 35:32, unit mask, USR, OS, edge, INT, EN, INV,
 * cmask. Not 19 (once pin control), 21, 63:36. HostOnly and GuestOnly (41:40) mean something with
 * EFER.SVME only, which these guests have not; Linux sets HostOnly all the same and must not fault.
 */
#define SEL_BITS (~0xfffffff000280000ULL)

/* ---- counters and selects ---- */

static int ctr_rd(struct vpmu_guest *g, unsigned int n, uint64_t *val)
{
	if (n >= g->cfg.gp)
		return -EFAULT;
	*val = guest_ctr_read(g, n);
	return 0;
}

/* 48 bits; the reserved ones above are not kept. */
static int ctr_wr(struct vpmu_guest *g, unsigned int n, uint64_t val)
{
	if (n >= g->cfg.gp)
		return -EFAULT;
	guest_ctr_write(g, n, val);
	return 0;
}

static int ctl_rd(struct vpmu_guest *g, unsigned int n, uint64_t *val)
{
	if (n >= g->cfg.gp)
		return -EFAULT;
	*val = g->ctr[n].evtsel;
	return 0;
}

static int ctl_wr(struct vpmu_guest *g, unsigned int n, uint64_t val)
{
	uint64_t flags = VPMU_KEY_GUEST;
	vpmu_key_t sel = 0;

	if (n >= g->cfg.gp)
		return -EFAULT;
	val &= SEL_BITS;
	flags |= (val & SEL_OS ? VPMU_KEY_OS : 0) | (val & SEL_USR ? VPMU_KEY_USR : 0);
	if ((val & SEL_EN) && (val & (SEL_USR | SEL_OS)))
		sel = vpmu_key_from_raw(VPMU_SPACE_AMD, val, flags);
	guest_settle(g, 1u << n);
	g->ctr[n].evtsel = val;
	guest_select(g, n, sel);
	return 0;
}

/* PERF_CTLn at even, PERF_CTRn at odd addresses from C001_0200 */
static int core_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	return i & 1 ? ctr_rd(g, i / 2, val) : ctl_rd(g, i / 2, val);
}

static int core_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	return i & 1 ? ctr_wr(g, i / 2, val) : ctl_wr(g, i / 2, val);
}

/* PerfEvtSel0..3, then PerfCtr0..3: other addresses of the same registers */
static int k7_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	return i < NR_K7 ? ctl_rd(g, i, val) : ctr_rd(g, i - NR_K7, val);
}

static int k7_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	return i < NR_K7 ? ctl_wr(g, i, val) : ctr_wr(g, i - NR_K7, val);
}

/* ---- global control and status ---- */

enum { STATUS, CTL, STATUS_CLR, STATUS_SET, NR_GLOBAL };

/* StatusClr and StatusSet are write-only: nothing to read in them, no fault either. */
static int global_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	*val = i == STATUS ? guest_status(g) : i == CTL ? g->global_ctrl : 0;
	return 0;
}

/* One bit a counter. LbrFreeze (58) and PmcFreeze (59) come with CPUID 8000_0022H:EAX[2:1]. */
static int global_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	val &= guest_global_mask(g);
	if (i == CTL)
		guest_set_global(g, val);
	else if (i == STATUS_CLR)
		guest_set_status(g, val, 0);
	else if (i == STATUS_SET)
		guest_set_status(g, 0, val);
	return 0; /* STATUS is read-only: ignored */
}

static const struct guest_reg regs[] = {
	{0xc0010200, 2 * NR_MSRS, core_rd, core_wr},
	{0xc0000300, NR_GLOBAL, global_rd, global_wr},
	{0xc0010000, 2 * NR_K7, k7_rd, k7_wr},
	{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT, guest_pv_rd, NULL},
};

/* ECX is the number of the core counter; northbridge and L3 counters, which follow at 6 and 10
 * where CPUID announces them, do not exist here. Others are #GP (APM vol. 3, RDPMC). */
static int rdpmc(const struct vpmu_guest *g, uint32_t ecx)
{
	return ecx < g->cfg.gp ? (int)ecx : -1;
}

static void cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	switch (leaf) {
	case 0x80000000:
		if (r[0] < 0x80000022)
			r[0] = 0x80000022;
		break;
	case 0x80000001:
		r[2] |= 1u << 23; /* PerfCtrExtCore */
		break;
	case 0x80000022:
		r[0] = 1;	  /* PerfMonV2; no LbrStack, no freeze */
		r[1] = g->cfg.gp; /* NumPerfCtrCore, 3:0 */
		r[2] = r[3] = 0;
		break;
	default:
		break;
	}
}

const struct vpmu_guest_ops guest_amd_v2_ops = {
	.regs = regs,
	.nr_regs = ARRAY_SIZE(regs),
	.gp_min = NR_K7,
	.gp_max = 15, /* what NumPerfCtrCore can say */
	.gp_default = 6,
	.width = WIDTH,
	.rdpmc = rdpmc,
	.cpuid = cpuid,
};
