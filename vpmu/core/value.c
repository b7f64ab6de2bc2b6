// SPDX-License-Identifier: LGPL-2.1-or-later
/* Values: scaling, and names of qualities, for all that print values. Pure. */
#include "vpmu/value.h"

const char *vpmu_quality_name(enum vpmu_quality q)
{
	switch (q) {
	case VPMU_Q_EXACT:
		return "exact";
	case VPMU_Q_MODELLED:
		return "modelled";
	case VPMU_Q_ESTIMATED:
		return "estimated";
	case VPMU_Q_TSC:
		return "tsc";
	}
	return "unknown";
}

uint64_t vpmu_value_scaled(const struct vpmu_value *v)
{
	unsigned __int128 scaled;

	if (!v->running_ns)
		return v->enabled_ns ? 0 : v->count;
	if (v->running_ns >= v->enabled_ns)
		return v->count;
	scaled = (unsigned __int128)v->count * v->enabled_ns / v->running_ns;
	return scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
}
