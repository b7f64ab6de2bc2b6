// SPDX-License-Identifier: GPL-2.0-or-later
/* Keys of guests' PMUs, see guest_keys.h. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "service/daemon/guest_keys.h"
#include "service/daemon/keys.h"

int guest_pmu_parse(const char *value, enum vpmu_guest_model *model)
{
	if (!strcmp(value, "auto")) {
		*model = VPMU_GUEST_MODELS;
		return 0;
	}
	if (vpmu_guest_model_parse(value, model))
		return -EINVAL;
	switch (*model) {
	case VPMU_GUEST_NONE:
	case VPMU_GUEST_AMD_CORE:
	case VPMU_GUEST_AMD_V2:
	case VPMU_GUEST_INTEL_V2:
	case VPMU_GUEST_INTEL_V5:
		return 0;
	default:
		return -EINVAL;
	}
}

int guest_gp_parse(const char *value, unsigned int *gp)
{
	uint64_t n;

	if (config_parse_u64(value, &n) || n < 2 || n > 15)
		return -EINVAL;
	*gp = (unsigned int)n;
	return 0;
}

const char *guest_gp_expected(enum vpmu_guest_model model, unsigned int gp)
{
	switch (model) {
	case VPMU_GUEST_AMD_CORE:
		return gp == 6 ? NULL : "6";
	case VPMU_GUEST_AMD_V2:
		return gp >= 4 && gp <= 15 ? NULL : "4 to 15";
	default:
		return gp >= 2 && gp <= 8 ? NULL : "2 to 8";
	}
}
