// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Registers of AMD's last branch record stack, LbrExtV2. amd.c has them in its table for amd-v2;
 * lbr.c keeps the records.
 *
 * Sources: APM vol. 2, 13.1.1 and appendix A, PPR for family 19h model 11h (MSRC000_010E,
 * MSRC000_010F, MSRC001_0300), and Linux's use of them (arch/x86/events/amd/lbr.c). Record 0 is
 * always the newest. As with the counters, reserved bits are dropped and not refused.
 *
 * The source of a branch from a privilege level that is not recorded reads as all ones, unlike AMD
 * hardware, which keeps the address: records hide it (VPMU_LBR_FROM_FILTERED) for both vendors, as
 * Intel does (SDM vol. 3, 19.1.2.3).
 */
#include <errno.h>

#include "vpmu/guest/internal.h"

enum { SELECT, EXTN_CFG };

#define SELECT_BITS  0x1ffULL
#define EXTN_CFG_LBR BIT(6)

/* FROM and TO registers: bits 57:0 of the address, its sign extended up to the flags */
#define FROM_MISPREDICT BIT(63)
#define TO_VALID	BIT(63)
#define TO_SPEC		BIT(62)

int guest_amd_lbr_cfg_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	if (!g->lbr_max)
		return -EFAULT;
	*val = i == SELECT ? g->lbr_ctl : g->lbr_enable;
	return 0;
}

int guest_amd_lbr_cfg_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	if (!g->lbr_max)
		return -EFAULT;
	if (i == SELECT)
		g->lbr_ctl = val & SELECT_BITS;
	else
		g->lbr_enable = val & EXTN_CFG_LBR;
	guest_lbr_apply(g);
	return 0;
}

/* Each bit of LBR_SELECT suppresses one kind of branch; 0 records everything. */
uint32_t guest_amd_lbr(const struct vpmu_guest *g)
{
	static const uint32_t what[] = {
		VPMU_LBR_OS,	   VPMU_LBR_USR,      VPMU_LBR_JCC,
		VPMU_LBR_REL_CALL, VPMU_LBR_IND_CALL, VPMU_LBR_RET,
		VPMU_LBR_IND_JMP,  VPMU_LBR_REL_JMP,  VPMU_LBR_OTHER,
	};
	uint32_t ctl = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(what); i++)
		ctl |= g->lbr_ctl & BIT(i) ? 0 : what[i];
	if ((g->lbr_enable & EXTN_CFG_LBR) && !(g->global_status & STATUS_LBR_FRZ))
		ctl |= VPMU_LBR_EN;
	return ctl;
}

static uint64_t sign_extended(uint64_t ip)
{
	return (uint64_t)((int64_t)(ip << 6) >> 6);
}

/* LastBranchStackFromIp at even, ...ToIp at odd addresses */
static uint64_t amd_lbr_value(const struct vpmu_lbr_entry *e, unsigned int i)
{
	if (i & 1)
		return (sign_extended(e->to) & (BIT(61) - 1)) |
		       (e->info & LBR_INFO_INVALID ? 0 : TO_VALID) |
		       (e->info & LBR_INFO_SPEC ? TO_SPEC : 0);
	return (sign_extended(e->from) & (BIT(63) - 1)) |
	       (e->info & LBR_INFO_MISPRED ? FROM_MISPREDICT : 0);
}

static void amd_lbr_set_value(struct vpmu_lbr_entry *e, unsigned int i, uint64_t val)
{
	if (i & 1) {
		e->to = sign_extended(val);
		e->info &= ~(LBR_INFO_INVALID | LBR_INFO_SPEC);
		e->info |= (val & TO_VALID ? 0 : LBR_INFO_INVALID) |
			   (val & TO_SPEC ? LBR_INFO_SPEC : 0);
	} else {
		e->from = sign_extended(val);
		e->info &= ~LBR_INFO_MISPRED;
		e->info |= val & FROM_MISPREDICT ? LBR_INFO_MISPRED : 0;
	}
}

int guest_amd_lbr_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	struct vpmu_lbr_entry e;

	if (i / 2 >= g->lbr_depth)
		return -EFAULT;
	guest_lbr_get(g, i / 2, &e);
	*val = amd_lbr_value(&e, i);
	return 0;
}

int guest_amd_lbr_wr(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	struct vpmu_lbr_entry e;

	if (i / 2 >= g->lbr_depth)
		return -EFAULT;
	guest_lbr_get(g, i / 2, &e);
	amd_lbr_set_value(&e, i, val);
	guest_lbr_put(g, i / 2, &e);
	return 0;
}

bool guest_amd_lbr_fits(uint32_t msr, uint64_t val)
{
	struct vpmu_lbr_entry e = {0};

	amd_lbr_set_value(&e, msr & 1, val);
	return amd_lbr_value(&e, msr & 1) == val;
}
