// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The registers of a vCPU's PMU as state, for a VMM that saves and restores MSRs one by one, as
 * with KVM_GET_MSRS and KVM_SET_MSRS. save.c is the other way: one section with everything.
 *
 * Values are untrusted: they may come from a migration stream. guest_state_fits executes each write
 * on a scratch guest with the model's own functions first, so the models' tables remain the only
 * description of the registers. The guest must not change before that check has passed.
 */
#include <errno.h>

#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"

#define TIME_MAX (1ULL << 62) /* 146 years, so that adding to it cannot wrap */
#define PV_LOST	 BIT(8)	      /* in a quality: struct vpmu_guest_ctr.lost */

enum state_kind {
	STATE_PLAIN,
	STATE_STATUS,  /* read-only or ignored for the guest, but state */
	STATE_COMMAND, /* clears or sets bits of the status; keeps nothing */
	STATE_RECORD,  /* a branch record; kept in the context */
	STATE_PV
};

static enum state_kind guest_state_kind(const struct vpmu_guest *g, uint32_t msr)
{
	bool intel = vpmu_guest_is_intel(g);

	if (msr - VPMU_PV_MSR_BASE < VPMU_PV_MSR_COUNT)
		return STATE_PV;
	if (msr == (intel ? 0x38e : 0xc0000300))
		return STATE_STATUS;
	if (intel ? msr == 0x390 || msr == 0x391 : msr == 0xc0000302 || msr == 0xc0000303)
		return STATE_COMMAND;
	if (intel ? (msr >= 0x1500 && msr < 0x1500 + VPMU_LBR_DEPTH_MAX) ||
			    (msr >= 0x1600 && msr < 0x1600 + VPMU_LBR_DEPTH_MAX) ||
			    (msr >= 0x1200 && msr < 0x1200 + VPMU_LBR_DEPTH_MAX)
		  : msr >= 0xc0010300 && msr < 0xc0010320)
		return STATE_RECORD;
	return STATE_PLAIN;
}

/* IA32_PMCx takes 32 bits, IA32_A_PMCx the same counter at full width. */
static uint32_t guest_state_full_width(const struct vpmu_guest *g, uint32_t msr)
{
	return vpmu_guest_is_intel(g) && msr - 0xc1 < 8 ? msr - 0xc1 + 0x4c1 : msr;
}

/* ---- quality registers ---- */

static int guest_state_pv_set(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	struct vpmu_guest_ctr *c = &g->ctr[i / 4];
	uint64_t quality = val & ~PV_LOST;

	guest_settle(g, 1u << i / 4);
	switch (i % 4) {
	case 0:
		if (val > TIME_MAX)
			return -EINVAL;
		/* It has run since its select was set, if the vCPU is placed. */
		c->enabled_ns = val;
		c->running_ns = c->running_ns < val ? c->running_ns : val;
		return 0;
	case 1:
		if (val > c->enabled_ns)
			return -EINVAL;
		c->running_ns = val;
		return 0;
	default:
		if (quality > VPMU_Q_TSC && quality != VPMU_PV_UNSUPPORTED)
			return -EINVAL;
		c->quality = (uint8_t)quality;
		c->lost = g->failed & 1u << c->index || (val & PV_LOST);
		return 0;
	}
}

static uint64_t guest_state_pv_get(const struct vpmu_guest *g, unsigned int i)
{
	const struct vpmu_guest_ctr *c = &g->ctr[i / 4];

	switch (i % 4) {
	case 0:
		return c->enabled_ns;
	case 1:
		return c->running_ns;
	default:
		return c->quality | (c->lost ? PV_LOST : 0);
	}
}

/* ---- set and get ---- */

/* True if @msr of @g can hold @val. @kind is not STATE_PV. */
static bool guest_state_fits(const struct vpmu_guest *g, uint32_t msr, enum state_kind kind,
			     uint64_t val)
{
	bool intel = vpmu_guest_is_intel(g);
	struct vpmu_guest scratch;
	uint64_t now;

	if (kind == STATE_RECORD)
		return intel ? guest_intel_lbr_fits(msr, val) : guest_amd_lbr_fits(msr, val);
	if (vpmu_guest_init(&scratch, &g->cfg, g->ctx, g->pmu))
		return false;
	scratch.ctx = NULL; /* registers only, so no vpmu_guest_fini is needed */
	if (kind == STATE_COMMAND)
		return !vpmu_guest_wrmsr(&scratch, msr, val);
	if (kind == STATE_STATUS) {
		/* Every counter has an overflow bit. All other set bits must be writable by a
		 * guest. */
		val &= ~guest_global_mask(g);
		if (!val)
			return true;
		return !vpmu_guest_wrmsr(&scratch, intel ? 0x391 : 0xc0000303, val) &&
		       scratch.global_status == val;
	}
	return !vpmu_guest_wrmsr(&scratch, msr, val) && !vpmu_guest_rdmsr(&scratch, msr, &now) &&
	       now == val;
}

int vpmu_guest_get_msr(struct vpmu_guest *g, uint32_t msr, uint64_t *val)
{
	uint64_t now;

	/* Also settles what is read. */
	if (vpmu_guest_rdmsr(g, msr, &now))
		return -ENOENT;
	if (guest_state_kind(g, msr) == STATE_PV)
		now = guest_state_pv_get(g, msr - VPMU_PV_MSR_BASE);
	*val = now;
	return 0;
}

int vpmu_guest_set_msr(struct vpmu_guest *g, uint32_t msr, uint64_t val)
{
	enum state_kind kind = guest_state_kind(g, msr);
	uint64_t now, denied = g->denied, denied_last = g->denied_last;
	int ret;

	if (vpmu_guest_rdmsr(g, msr, &now))
		return -ENOENT;
	if (kind == STATE_PV)
		return guest_state_pv_set(g, msr - VPMU_PV_MSR_BASE, val);
	msr = guest_state_full_width(g, msr);
	if (!guest_state_fits(g, msr, kind, val))
		return kind == STATE_PLAIN && now == val ? 0 : -EINVAL; /* read-only */
	if (kind == STATE_COMMAND)
		return 0;
	if (kind == STATE_STATUS) {
		guest_set_status(g, ~val, val);
		return 0;
	}
	if (msr == 0x14cf && now == val)
		return 0; /* even this write would clear all records */
	ret = vpmu_guest_wrmsr(g, msr, val);
	/* The guest's own write has been counted where it was executed. */
	g->denied = denied;
	g->denied_last = denied_last;
	if (ret)
		return -EINVAL;
	if (kind == STATE_RECORD && (vpmu_guest_rdmsr(g, msr, &now) || now != val))
		return -ENOMEM;
	return 0;
}

/* ---- the list ---- */

/*
 * Ranges of registers in an order in which they can be set: the depth before the records, and last,
 * when counters of earlier events have stopped, the times and qualities of the counters' values.
 * Aliases and registers without a state of their own are left out.
 */
static const struct vpmu_msr_range intel_state[] = {
	{0x4c1, 8},
	{0x309, 4},
	{0x186, 8},
	{0x38d, 1},
	{0x1d9, 1},
	{0x14cf, 1},
	{0x14ce, 1},
	{0x1500, 32},
	{0x1600, 32},
	{0x1200, 32},
	{0x38e, 1},
	{0x38f, 1},
	{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
};
static const struct vpmu_msr_range k7_state[] = {
	{0xc0010004, 4},
	{0xc0010000, 4},
	{0x1d9, 1},
	{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
};
static const struct vpmu_msr_range amd_state[] = {
	{0xc0010200, 32}, {0x1d9, 1},	   {0xc000010e, 2},
	{0xc0010300, 32}, {0xc0000300, 2}, {VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
};

size_t vpmu_guest_msr_list(struct vpmu_guest *g, uint32_t *msrs, size_t max)
{
	const struct vpmu_msr_range *r = intel_state;
	size_t ranges = ARRAY_SIZE(intel_state), n = 0;
	uint64_t val;

	if (!g->ops)
		return 0;
	if (g->cfg.model == VPMU_GUEST_AMD_K7) {
		r = k7_state;
		ranges = ARRAY_SIZE(k7_state);
	} else if (!g->ops->intel) {
		r = amd_state;
		ranges = ARRAY_SIZE(amd_state);
	}
	for (; ranges--; r++) {
		for (uint32_t msr = r->base; msr < r->base + r->count; msr++) {
			if (vpmu_guest_rdmsr(g, msr, &val))
				continue;
			if (n < max)
				msrs[n] = msr;
			n++;
		}
	}
	return n;
}
