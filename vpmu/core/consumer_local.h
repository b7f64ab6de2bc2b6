/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Private to libvpmu: starting and stopping several consumers of one vCPU at the same instant, with
 * their alarms. Register models (vpmu/guest) call this when a guest turns its counters on or off.
 * One call of vpmu_consumer_enable, vpmu_consumer_disable, vpmu_alarm_set or vpmu_alarm_clear for
 * each would read the counters and recompute the vCPU's keys that many times, and bind counters for
 * the first consumers that the last ones then need.
 *
 * The local form of vpmu/consumer.h and vpmu/alarm.h, in steps with nothing in between that
 * charges. Starting:
 *
 *   1. consumer_take for each: adds @c if @account is not NULL, and takes its slot; it does not
 *      count yet. Errors, and the state of @c after one, are those of vpmu_consumer_add.
 *   2. vpmu_pcpu_flush
 *   3. consumer_start for each that was taken
 *   4. alarm_put for each alarm, and alarms_apply
 *
 * Stopping:
 *
 *   1. consumers_charge with the slots of all
 *   2. alarm_drop for each alarm, and alarms_apply
 *   3. consumer_cease for each: *@last is its final value
 *
 * alarm_put and alarm_drop return the alarm's slot as a mask, or 0 without one; alarms_apply gets
 * these.
 */
#pragma once

#include "vpmu/alarm.h"
#include "vpmu/consumer.h"

int consumer_take(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key,
		  struct vpmu_pcpu *p);
void consumer_start(struct vpmu_consumer *c);
void consumers_charge(struct vpmu_pcpu *p, const struct vpmu_account *a, uint64_t slots);
void consumer_cease(struct vpmu_consumer *c, struct vpmu_value *last);

uint64_t alarm_put(struct vpmu_alarm *a, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		   uint64_t events);
uint64_t alarm_drop(struct vpmu_alarm *a);
void alarms_apply(struct vpmu_context *ctx, struct vpmu_pcpu *p, uint64_t slots);

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
