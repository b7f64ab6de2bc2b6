// SPDX-License-Identifier: GPL-2.0-or-later
#include "vpmu/internal.h"

void vpmu_alarm_set(struct vpmu_alarm *a, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		    struct vpmu_pcpu *pcpu, uint64_t events)
{
}

void vpmu_alarm_clear(struct vpmu_alarm *a, struct vpmu_pcpu *pcpu)
{
}

void vpmu_pcpu_overflow(struct vpmu_pcpu *pcpu)
{
}
