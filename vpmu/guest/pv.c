// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The paravirtual MSRs and CPUID leaves of vpmu/guest/abi.h, which show a guest the quality of its
 * counts. A guest that uses them can print "not counted" or "estimated", which a counter's value
 * alone cannot express. Other guests are not affected.
 */
#include <errno.h>

#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"

/* Guests read an enum vpmu_quality as a VPMU_PV_Q_*. */
_Static_assert(VPMU_PV_Q_EXACT == VPMU_Q_EXACT && VPMU_PV_Q_MODELLED == VPMU_Q_MODELLED &&
		       VPMU_PV_Q_ESTIMATED == VPMU_Q_ESTIMATED && VPMU_PV_Q_TSC == VPMU_Q_TSC,
	       "the guest ABI's qualities are those of the core");

enum { PV_ENABLED, PV_RUNNING, PV_QUALITY, PV_REGS = 4 };

_Static_assert(VPMU_PV_FIXED == FIXED0, "counter numbers are the ABI's");
_Static_assert(VPMU_PV_MSR_COUNT == PV_REGS * VPMU_GUEST_MAX_CTRS, "one block per counter");

int guest_pv_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val)
{
	unsigned int ctr = i / PV_REGS, what = i % PV_REGS;
	const struct vpmu_guest_ctr *c;
	bool known;

	if (!guest_has(g, ctr) || what > PV_QUALITY)
		return -EFAULT;
	guest_settle(g, 1u << ctr);
	c = &g->ctr[ctr];
	known = !c->lost && c->quality != VPMU_PV_UNSUPPORTED;
	if (what == PV_QUALITY)
		*val = known ? c->quality : VPMU_PV_UNSUPPORTED;
	else if (!known)
		*val = 0;
	else
		*val = what == PV_ENABLED ? c->enabled_ns : c->running_ns;
	return 0;
}

void guest_pv_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t regs[4])
{
	if (leaf == VPMU_PV_CPUID_BASE || leaf == VPMU_PV_CPUID_BESIDE) {
		regs[0] = leaf + 1;
		regs[1] = regs[2] = regs[3] = VPMU_PV_SIG_EBX;
	} else if (leaf == VPMU_PV_CPUID_BASE + 1 || leaf == VPMU_PV_CPUID_BESIDE + 1) {
		regs[0] = VPMU_PV_VERSION;
		regs[1] = 0;
		if (g->ops)
			regs[1] = VPMU_PV_FEAT_TIMES | (g->cfg.rdpmc ? VPMU_PV_FEAT_RDPMC : 0);
		regs[2] = regs[3] = 0;
	}
}
