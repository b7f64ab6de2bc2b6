/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Private to libvpmu: what consumer.c and consumer_ctl.c have of each other.
 */
#ifndef VPMU_CORE_CONSUMER_CTL_H
#define VPMU_CORE_CONSUMER_CTL_H

#include "vpmu/core/consumer_local.h"

struct vpmu_hostpmu;

/* vpmu_consumer_enable and _disable without a pCPU. Take ctl_lock. */
int consumer_ctl_enable(struct vpmu_consumer *c);
void consumer_ctl_disable(struct vpmu_consumer *c);

/* -EINVAL: @key is invalid. Otherwise consumer_fini must follow. */
int consumer_init(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key,
		  bool local);
void consumer_fini(struct vpmu_consumer *c);

/* Let @c support what @pmu can count, with the worst quality of all that were asked. */
void consumer_ask_pmu(struct vpmu_consumer *c, const struct vpmu_hostpmu *pmu);

/* Stop with current totals (consumer_start: consumer_local.h). To stop, to end and to release a
 * control consumer, keys_ctl_del and a sync come first. */
void consumer_stop(struct vpmu_consumer *c);
void consumer_end(struct vpmu_consumer *c, struct vpmu_value *last);
void consumer_release(struct vpmu_consumer *c);

#endif
