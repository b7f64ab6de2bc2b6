/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Private to libvpmu: starting several consumers of one vCPU at the same instant. Register models
 * (vpmu/guest) call this when a guest turns its counters on. Calling vpmu_consumer_enable n times
 * would make the pCPU recompute the vCPU's keys n times, and bind counters for the first consumers
 * that the last ones then need.
 *
 * The local form of vpmu/consumer.h, in three steps, with nothing in between that charges:
 *
 *   1. consumer_take for each: adds @c if @account is not NULL, and takes its slot; it does not
 *      count yet. Errors, and the state of @c after one, are those of vpmu_consumer_add.
 *   2. vpmu_pcpu_flush
 *   3. consumer_start for each that was taken
 */
#ifndef VPMU_CORE_CONSUMER_LOCAL_H
#define VPMU_CORE_CONSUMER_LOCAL_H

#include "vpmu/consumer.h"

int consumer_take(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key,
		  struct vpmu_pcpu *p);
void consumer_start(struct vpmu_consumer *c);

/* ---- what consumer.c and consumer_ctl.c have of each other ---- */

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

/* Stop with current totals (consumer_start: above). To stop, to end and to release a
 * control consumer, keys_ctl_del and a sync come first. */
void consumer_stop(struct vpmu_consumer *c);
void consumer_end(struct vpmu_consumer *c, struct vpmu_value *last);
void consumer_release(struct vpmu_consumer *c);

#endif
