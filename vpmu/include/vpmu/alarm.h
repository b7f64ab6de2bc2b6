/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Alarms: a call when a vCPU's own consumer has counted so many more events.
 *
 * Guest register models set an alarm per counter that interrupts on overflow. All calls are for
 * the owner of the pCPU on which the context is placed. How alarms and samplers share one hardware
 * counter is in alarm.c.
 */
#ifndef VPMU_ALARM_H
#define VPMU_ALARM_H

#include <stdint.h>

struct vpmu_consumer;
struct vpmu_context;
struct vpmu_pcpu;

/*
 * An alarm has a distance: how many more events until it fires. The distance goes down by what is
 * charged for the consumer's slot. While the slot has no counter (rotation) or the vCPU does not
 * run, it stands still; a switch or a migration loses nothing of it. The memory is the caller's.
 */
struct vpmu_alarm {
	/*
	 * The distance is used up. @over is how many events were counted after the one that used it
	 * up: one instruction can count several events, and a PMU without alarms is late.
	 *
	 * Returns the next distance, measured from the event that used up the last one; 0: no
	 * further alarm. Whenever the next distance is not longer than what is left of @over, fire
	 * is called again at once.
	 *
	 * Example: the distance is 100, and 250 events are charged at once.
	 *   fire(a, 150) returns 100   the second alarm is due after 100 of the 150
	 *   fire(a, 50)  returns 100   50 of these 100 are counted already
	 *   the alarm fires next after 50 more events
	 *
	 * Called by the owner inside vpmu_pcpu_switch, flush, tick, poll, overflow, or a consumer
	 * or alarm call. It must only take a note, and must not call libvpmu. When several alarms
	 * fire in one call, their order is not defined.
	 */
	uint64_t (*fire)(struct vpmu_alarm *a, uint64_t over);
	/* private: see alarm.c */
	struct vpmu_context *ctx; /* NULL: not set */
	struct vpmu_alarm *next;
	int slot;
	uint64_t left;
};

/*
 * vpmu_alarm_set - fire when @c has counted @events (> 0) more events from now. Replaces the
 * distance if the alarm is set already. @c must be a local consumer of ctx->own that is enabled. If
 * @c is unsupported, nothing happens. Call vpmu_alarm_clear before @c is disabled or deleted.
 */
void vpmu_alarm_set(struct vpmu_alarm *a, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		    struct vpmu_pcpu *pcpu, uint64_t events);

/* vpmu_alarm_clear - charge, so that the alarm fires if it is due, then forget it. Does nothing
 * when it is not set. @pcpu is NULL while the context is placed nowhere. */
void vpmu_alarm_clear(struct vpmu_alarm *a, struct vpmu_pcpu *pcpu);

#endif
