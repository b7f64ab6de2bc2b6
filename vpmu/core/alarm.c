// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Alarms and samplers: distances to the next event, and the hardware counter armed for the
 * smallest. Register models set alarms (alarm.h); the switch path calls the watch_ functions. All
 * of this runs on the owner of the pCPU and takes no lock.
 *
 * Each alarm and each sampler has a distance: the number of events until it is due. An alarm's
 * distance belongs to its context and moves with it; a sampler has one per pCPU (sampler.c). Every
 * charge of a watched slot goes through watch_charge, which subtracts the charged events from all
 * distances on the slot. p->watch is the mask of watched slots. It is 0 if the running context has
 * no alarms and no samplers: the switch path's only test.
 *
 * A counter is never armed for more than half of its range, since it could otherwise wrap between
 * the alarm and the reading. A longer distance is covered in steps, with the counter rearmed after
 * each. The steps are invisible outside this file.
 */
#include "vpmu/core/consumer_local.h"
#include "vpmu/core/internal.h"

/* ---- updating distances ---- */

static void unlink_alarm(struct vpmu_alarm *a)
{
	struct vpmu_alarm **at = &a->ctx->alarms;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	a->ctx = NULL;
}

/* Subtract @counted events from the distance of @a, and fire it as often as it is due. */
static void alarm_take(struct vpmu_alarm *a, uint64_t counted)
{
	struct vpmu_context *ctx = a->ctx;
	uint64_t over, next;

	if (counted < a->left) {
		a->left -= counted;
		return;
	}
	over = counted - a->left;
	while ((next = a->fire(a, over)) && next <= over)
		over -= next;
	if (next) {
		a->left = next - over;
		return;
	}
	unlink_alarm(a);
	watch_update(ctx);
}

/*
 * All slots are charged before the first alarm or sampler is called, so that a sample function sees
 * totals of one instant. fire() and sample() must not call libvpmu, so the list of alarms changes
 * only by alarms that end.
 */
void watch_charge(struct vpmu_pcpu *p, uint64_t slots)
{
	uint64_t counted[VPMU_MAX_SLOTS], some = 0;
	struct vpmu_alarm *a, *next;
	unsigned int s;

	slots &= p->active;
	pcpu_take(p, slots, counted);
	pcpu_give(p, slots, counted);
	vpmu_for_each_slot (s, slots) {
		if (!counted[s])
			continue;
		some |= VPMU_BIT(s);
		if (!(p->armed & VPMU_BIT(s)))
			continue;
		if (counted[s] >= p->arm_left[s])
			p->arm_left[s] = 0; /* no distance is 0, so alarm_arm rearms */
		else
			p->arm_left[s] -= counted[s];
	}
	if (!p->pmu->word)
		pcpu_charge_gaps(p, slots);
	if (!some)
		return;
	for (a = p->ctx->alarms; a; a = next) {
		next = a->next;
		if (some & VPMU_BIT(a->slot))
			alarm_take(a, counted[a->slot]);
	}
	if (p->samplers)
		sampler_take(p, some, counted);
}

/* ---- arming ---- */

static void disarm(struct vpmu_pcpu *p, uint64_t slots)
{
	unsigned int s;

	p->armed &= ~slots;
	vpmu_for_each_slot (s, slots)
		p->pmu->ops->arm(p->pmu, p->ctr[s], 0);
}

/*
 * Arm the counters of @slots for their smallest distances while @ctx runs, unless already armed for
 * just that. So a switch between vCPUs with no alarms, only a sampler of their VM, does not touch
 * the hardware.
 */
static void alarm_arm(struct vpmu_pcpu *p, const struct vpmu_context *ctx, uint64_t slots)
{
	const uint64_t most = p->pmu->width_mask / 2;
	uint64_t least[VPMU_MAX_SLOTS];
	unsigned int s;

	vpmu_for_each_slot (s, slots)
		least[s] = UINT64_MAX;
	for (const struct vpmu_alarm *a = ctx->alarms; a; a = a->next) {
		if ((slots & VPMU_BIT(a->slot)) && a->left < least[a->slot])
			least[a->slot] = a->left;
	}
	if (p->samplers)
		sampler_least(p, slots, least);
	vpmu_for_each_slot (s, slots) {
		uint64_t left = least[s];
		bool armed = p->armed & VPMU_BIT(s);

		/* An intermediate step may be shorter than possible. */
		if (armed && (left > most ? p->arm_left[s] > most / 2 : p->arm_left[s] == left))
			continue;
		left = left > most ? most : left;
		p->pmu->ops->arm(p->pmu, p->ctr[s], left);
		p->arm_left[s] = left;
		p->armed |= VPMU_BIT(s);
	}
}

/* Rearm active @slots: their hardware alarms went off, or their distances have changed. */
void watch_rearm(struct vpmu_pcpu *p, uint64_t slots)
{
	p->watch = p->ctx->watch;
	if (!p->pmu->ops->arm)
		return;
	disarm(p, p->armed & ~p->watch);
	p->armed &= ~slots;
	alarm_arm(p, p->ctx, slots & p->watch);
}

void watch_switch(struct vpmu_pcpu *p, const struct vpmu_context *next)
{
	p->watch = next->watch;
	p->samplers = next->samplers;
	if (!p->pmu->ops->arm)
		return;
	disarm(p, p->armed & ~p->watch);
	alarm_arm(p, next, p->watch & p->active);
}

/* Only while @ctx is running or about to run: otherwise ctx->samplers may be stale. */
void watch_update(struct vpmu_context *ctx)
{
	uint64_t watch = 0;

	for (const struct vpmu_alarm *a = ctx->alarms; a; a = a->next)
		watch |= VPMU_BIT(a->slot);
	if (ctx->samplers)
		watch |= sampler_slots(ctx->own->host, ctx->samplers);
	ctx->watch = watch;
}

/* ---- setting and clearing ---- */

static bool alarm_running(const struct vpmu_pcpu *p, const struct vpmu_context *ctx)
{
	return p && p->ctx == ctx;
}

uint64_t alarm_put(struct vpmu_alarm *a, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		   uint64_t events)
{
	if (c->slot < 0)
		return 0;
	a->left = events;
	if (!a->ctx) {
		a->ctx = ctx;
		a->slot = c->slot;
		a->next = ctx->alarms;
		ctx->alarms = a;
		ctx->watch |= VPMU_BIT(a->slot);
	}
	return VPMU_BIT(a->slot);
}

uint64_t alarm_drop(struct vpmu_alarm *a)
{
	if (!a->ctx)
		return 0;
	unlink_alarm(a);
	return VPMU_BIT(a->slot);
}

void alarms_apply(struct vpmu_context *ctx, struct vpmu_pcpu *p, uint64_t slots)
{
	if (!alarm_running(p, ctx)) {
		ctx->tree_gen = 0; /* recompute ctx->watch when it next runs; ctx->samplers may
				    * be stale now */
		return;
	}
	watch_update(ctx);
	watch_rearm(p, slots & p->active);
}

void vpmu_alarm_clear(struct vpmu_alarm *a, struct vpmu_pcpu *p)
{
	struct vpmu_context *ctx = a->ctx;
	uint64_t slot;

	if (!ctx)
		return;
	slot = VPMU_BIT(a->slot);
	if (alarm_running(p, ctx))
		pcpu_charge(p, slot);
	alarm_drop(a); /* unless the charge has ended it */
	alarms_apply(ctx, p, slot);
}

void vpmu_alarm_set(struct vpmu_alarm *a, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		    struct vpmu_pcpu *p, uint64_t events)
{
	if (a->ctx && (a->ctx != ctx || a->slot != c->slot))
		vpmu_alarm_clear(a, p);
	if (c->slot < 0)
		return;
	if (alarm_running(p, ctx))
		pcpu_charge(p, VPMU_BIT(c->slot));
	alarm_put(a, ctx, c, events);
	if (alarm_running(p, ctx))
		watch_rearm(p, VPMU_BIT(a->slot) & p->active);
}

void vpmu_pcpu_overflow(struct vpmu_pcpu *p)
{
	if (!p->watch)
		return;
	pcpu_charge(p, p->watch);
	/* After an early alarm, too, the counter is no longer armed. */
	watch_rearm(p, p->watch & p->active);
}
