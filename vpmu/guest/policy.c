// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "vpmu/guest/policy.h"

static const char *const tiers[] = {"full", "standard", "architectural", "off"};

int vpmu_policy_tier_parse(const char *name, enum vpmu_policy_tier *tier)
{
	for (unsigned int i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
		if (!strcmp(name, tiers[i])) {
			*tier = (enum vpmu_policy_tier)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *vpmu_policy_tier_name(enum vpmu_policy_tier tier)
{
	return (unsigned int)tier < sizeof(tiers) / sizeof(tiers[0]) ? tiers[tier] : "?";
}

int vpmu_policy_add(struct vpmu_policy *p, enum vpmu_space space, const char *text, char *err,
		    size_t errlen)
{
	return -EINVAL;
}

bool vpmu_policy_allows(const struct vpmu_policy *p, enum vpmu_space space, uint64_t evtsel,
			vpmu_key_t key)
{
	return true;
}

bool vpmu_policy_allows_fixed(const struct vpmu_policy *p, unsigned int n, vpmu_key_t key)
{
	return true;
}

bool vpmu_policy_lbr(const struct vpmu_policy *p)
{
	return true;
}
