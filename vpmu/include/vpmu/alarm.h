/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Alarms: a callback after a vCPU's own consumer has counted a given number of events.
 *
 * Guest register models set an alarm per counter that interrupts on overflow. Only the owner of the
 * pCPU on which the context is placed may make these calls. alarm.c describes how alarms and
 * samplers share a hardware counter.
 */
#ifndef VPMU_ALARM_H
#define VPMU_ALARM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_consumer;
struct vpmu_context;
struct vpmu_pcpu;

/*
 * An alarm has a distance: the number of events until it fires. It decreases by the events charged
 * for the consumer's slot, and so stands still while the slot has no counter (multiplexing) or the
 * vCPU does not run. Switches and migrations keep it. The memory is the caller's.
 */
struct vpmu_alarm {
	/*
	 * The distance is used up. @over is the number of events counted since then: one
	 * instruction can count several events, and on a PMU without alarms the charge comes later.
	 *
	 * Returns the next distance, measured from the event that used up the last one; 0: clear
	 * the alarm. If that distance is no longer than the rest of @over, fire is called again at
	 * once.
	 *
	 * Example: the distance is 100, and 250 events are charged at once.
	 *   fire(a, 150) returns 100   the second alarm is due after 100 of the 150
	 *   fire(a, 50)  returns 100   50 of these 100 are counted already
	 *   the alarm fires next after 50 more events
	 *
	 * Called by the owner inside vpmu_pcpu_switch, flush, tick, poll, overflow, or a consumer
	 * or alarm call. It must only record the event and must not call libvpmu. The order of
	 * several alarms that fire in one call is undefined.
	 */
	uint64_t (*fire)(struct vpmu_alarm *a, uint64_t over);
	/* private: see alarm.c */
	struct vpmu_context *ctx; /* NULL: not set */
	struct vpmu_alarm *next;
	int slot;
	uint64_t left;
};

/*
 * vpmu_alarm_set - fire after @events (> 0) more events of @c. Replaces the distance of an alarm
 * that is set. @c must be an enabled local consumer of ctx->own; if it is unsupported, nothing
 * happens. Call vpmu_alarm_clear before @c is disabled or deleted.
 */
void vpmu_alarm_set(struct vpmu_alarm *a, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		    struct vpmu_pcpu *pcpu, uint64_t events);

/* vpmu_alarm_clear - charge, so that the alarm fires if it is due, then clear it. Does nothing if
 * it is not set. @pcpu is NULL while the context is placed nowhere. */
void vpmu_alarm_clear(struct vpmu_alarm *a, struct vpmu_pcpu *pcpu);

#ifdef __cplusplus
}
#endif

#endif
