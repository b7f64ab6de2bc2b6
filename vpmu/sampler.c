// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "vpmu/internal.h"

int vpmu_sampler_create(struct vpmu_host *host, const struct vpmu_sampler_opts *opts,
			struct vpmu_sampler **out)
{
	return -EOPNOTSUPP;
}

void vpmu_sampler_destroy(struct vpmu_sampler *s)
{
}

void vpmu_sampler_read(const struct vpmu_sampler *s, struct vpmu_value *out)
{
	*out = (struct vpmu_value){0};
}
