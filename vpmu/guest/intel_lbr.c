// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Registers of architectural last branch records. intel.c has them in its table for intel-v5; lbr.c
 * keeps the records.
 *
 * Sources: SDM vol. 3 ch. 19 (registers, filters, call-stack mode), vol. 4 table 2-2 for the bits,
 * vol. 2 for CPUID leaf 1CH. Record 0 is always the newest. IA32_LER_x (the last event record) is
 * not implemented: no software needs it, and the host records nothing for it.
 */
#include <errno.h>

#include "vpmu/guest/internal.h"

enum { CTL, DEPTH };

/* By CPUID 80000008H of the vCPUs, linear addresses have 48 bits. */
static bool canonical(uint64_t addr)
{
	return (uint64_t)((int64_t)(addr << 16) >> 16) == addr;
}

#define CTL_BITS                                                                                   \
	(VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_CALL_STACK | (uint64_t)VPMU_LBR_TYPES)

int guest_intel_lbr_ctl_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	if (!g->lbr_max)
		return -EFAULT;
	*val = i == CTL ? g->lbr_ctl : g->lbr_depth;
	return 0;
}

/* Reserved bits and a depth that CPUID does not list are #GP. Every write of the depth clears all
 * records, even if the depth stays the same (19.1.2). */
int guest_intel_lbr_ctl_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (!g->lbr_max)
		return -EFAULT;
	if (i == DEPTH) {
		if (!val || val % 8 || val > g->lbr_max)
			return -EFAULT;
		g->lbr_depth = (unsigned int)val;
		guest_lbr_reset(g);
		return 0;
	}
	if (val & ~CTL_BITS)
		return -EFAULT;
	g->lbr_ctl = val;
	guest_lbr_apply(g);
	return 0;
}

/*
 * Call-stack mode is defined only if the filter selects all kinds of near calls and returns and
 * nothing else (19.1.2.4). Other filters are undefined but not #GP. Here call-stack mode always
 * records calls and returns.
 */
uint32_t guest_intel_lbr(const struct vpmu_guest *g)
{
	uint32_t ctl = (uint32_t)g->lbr_ctl;

	if (ctl & VPMU_LBR_CALL_STACK)
		ctl = (ctl & ~VPMU_LBR_TYPES) | VPMU_LBR_CALLS;
	if (g->global_status & STATUS_LBR_FRZ)
		ctl &= ~VPMU_LBR_EN;
	return ctl;
}

/* ---- records: those beyond the depth are #GP ---- */

int guest_intel_lbr_from_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	struct vpmu_lbr_entry e;

	if (i >= g->lbr_depth)
		return -EFAULT;
	guest_lbr_get(g, i, &e);
	*val = e.from;
	return 0;
}

int guest_intel_lbr_from_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	struct vpmu_lbr_entry e;

	if (i >= g->lbr_depth || !canonical(val))
		return -EFAULT;
	guest_lbr_get(g, i, &e);
	e.from = val;
	guest_lbr_put(g, i, &e);
	return 0;
}

int guest_intel_lbr_to_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	struct vpmu_lbr_entry e;

	if (i >= g->lbr_depth)
		return -EFAULT;
	guest_lbr_get(g, i, &e);
	*val = e.to;
	return 0;
}

int guest_intel_lbr_to_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	struct vpmu_lbr_entry e;

	if (i >= g->lbr_depth || !canonical(val))
		return -EFAULT;
	guest_lbr_get(g, i, &e);
	e.to = val;
	guest_lbr_put(g, i, &e);
	return 0;
}

/*
 * The registers keep cycles, their valid bit and the branch type. Software may write any value to
 * the undefined bits (55:16), but need not read it back (vol. 4, 1200H). TSX and misprediction
 * (63:61), which CPUID does not announce, are treated in the same way.
 */
#define INFO_BITS (VPMU_LBR_INFO_CYC | VPMU_LBR_INFO_TYPE | VPMU_LBR_INFO_CYC_VALID)

int guest_intel_lbr_info_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	struct vpmu_lbr_entry e;

	if (i >= g->lbr_depth)
		return -EFAULT;
	guest_lbr_get(g, i, &e);
	*val = e.info & INFO_BITS;
	return 0;
}

int guest_intel_lbr_info_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	struct vpmu_lbr_entry e;

	if (i >= g->lbr_depth)
		return -EFAULT;
	guest_lbr_get(g, i, &e);
	e.info = val & INFO_BITS;
	guest_lbr_put(g, i, &e);
	return 0;
}

bool guest_intel_lbr_fits(uint32_t msr, uint64_t val)
{
	return msr < 0x1500 ? !(val & ~INFO_BITS) : canonical(val);
}

/* ---- CPUID ---- */

void guest_intel_lbr_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
			   uint32_t regs[4])
{
	if (!g->lbr_max)
		return;
	switch (leaf) {
	case 0x0:
		if (regs[0] < 0x1c)
			regs[0] = 0x1c;
		break;
	case 0x7:
		if (subleaf == 0)
			regs[3] |= 1u << 19;
		break;
	case 0x1c:
		if (subleaf)
			break;
		regs[0] = 0xf; /* depths 8, 16, 24, 32 */
		regs[1] = 0x7; /* CPL filter, branch filter, call-stack mode */
		regs[2] = 0x6; /* timed, branch type; no misprediction */
		break;
	default:
		break;
	}
}
