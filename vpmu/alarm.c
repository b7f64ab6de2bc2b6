// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Alarms: distances to the next sample, and the hardware counter armed for the smallest of them.
 *
 * Whoever samples a slot keeps a distance: how many more events until it wants to know. An alarm's
 * is of its context and moves with it; a sampler's is of the pCPU (sampler.c). What is charged to
 * the running account is what the distances of the running context are about, so every charge of a
 * watched slot comes through watch_charge, which takes the same number off all of them: counts and
 * distances cannot part. p->watch is the mask of such slots; it is 0 for who does not sample, and
 * the switch path tests no more than that.
 *
 * A counter can be armed for half its range at most: were it armed for more, a wrap could go by
 * between the alarm and the reading of the counter. A longer distance is reached in steps, at each
 * of which the counter is armed again; nobody but this file sees them.
 */
#include "vpmu/internal.h"

/* ---- taking counts off distances ---- */

static void unlink_alarm(struct vpmu_alarm *a)
{
	struct vpmu_alarm **at = &a->ctx->alarms;

	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	a->ctx = NULL;
}

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

/* As snapshots have it. */
static uint64_t read_ctr(const struct vpmu_pcpu *p, unsigned int slot)
{
	const struct vpmu_reading *c = &p->last[slot];

	return p->pmu->word ? *c->word : p->pmu->ops->read(p->pmu, p->ctr[slot]);
}

/*
 * All slots are charged before anybody is told: who is told may look at totals, and finds them as
 * of one instant. fire and sample() change nothing here but the list of alarms.
 */
uint64_t watch_charge(struct vpmu_pcpu *p, uint64_t slots)
{
	uint64_t counted[VPMU_MAX_SLOTS], some = 0, used_up = 0;
	struct vpmu_alarm *a, *next;
	unsigned int s;

	slots &= p->active;
	vpmu_for_each_slot (s, slots) {
		counted[s] = vpmu_charge(&p->cell->counts.total[s], &p->last[s].snap,
					 read_ctr(p, s), p->pmu->width_mask);
		if (!counted[s])
			continue;
		some |= VPMU_BIT(s);
		if (!(p->armed & VPMU_BIT(s)))
			continue;
		if (counted[s] >= p->arm_left[s]) {
			p->arm_left[s] = 0; /* nothing is that near: arm() sees it */
			used_up |= VPMU_BIT(s);
		} else {
			p->arm_left[s] -= counted[s];
		}
	}
	if (!some)
		return 0;
	for (a = p->ctx->alarms; a; a = next) {
		next = a->next;
		if (some & VPMU_BIT(a->slot))
			alarm_take(a, counted[a->slot]);
	}
	if (p->samplers)
		sampler_take(p, some, counted);
	return used_up;
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
 * Arm the counters of @slots for what @ctx waits for. One that is armed for just that is left
 * alone: two vCPUs that only have a sampler of their VM in reach hand its alarm on as it is.
 */
static void arm(struct vpmu_pcpu *p, const struct vpmu_context *ctx, uint64_t slots)
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

		/* A step need not be as long as it could. */
		if (armed && (left > most ? p->arm_left[s] > most / 2 : p->arm_left[s] == left))
			continue;
		left = left > most ? most : left;
		p->pmu->ops->arm(p->pmu, p->ctr[s], left);
		p->arm_left[s] = left;
		p->armed |= VPMU_BIT(s);
	}
}

/* @slots have counters. Their alarms went off, or their distances have changed. */
void watch_rearm(struct vpmu_pcpu *p, uint64_t slots)
{
	p->watch = p->ctx->watch;
	if (!p->pmu->ops->arm)
		return;
	disarm(p, p->armed & ~p->watch);
	p->armed &= ~slots;
	arm(p, p->ctx, slots & p->watch);
}

void watch_switch(struct vpmu_pcpu *p, const struct vpmu_context *next)
{
	p->watch = next->watch;
	p->samplers = next->samplers;
	if (!p->pmu->ops->arm)
		return;
	disarm(p, p->armed & ~p->watch);
	arm(p, next, p->watch & p->active);
}

/* @ctx runs, or is about to: only so long are the samplers it knows there for sure. */
void watch_update(struct vpmu_context *ctx)
{
	uint64_t watch = 0;

	for (const struct vpmu_alarm *a = ctx->alarms; a; a = a->next)
		watch |= VPMU_BIT(a->slot);
	if (ctx->samplers)
		watch |= sampler_slots(ctx->own->host, ctx->samplers);
	ctx->watch = watch;
}

/* ---- public ---- */

static bool running(const struct vpmu_pcpu *p, const struct vpmu_context *ctx)
{
	return p && p->ctx == ctx;
}

void vpmu_alarm_clear(struct vpmu_alarm *a, struct vpmu_pcpu *p)
{
	struct vpmu_context *ctx = a->ctx;
	uint64_t slot;

	if (!ctx)
		return;
	slot = VPMU_BIT(a->slot);
	if (running(p, ctx))
		pcpu_charge(p, slot);
	if (a->ctx) /* it did not end itself */
		unlink_alarm(a);
	if (running(p, ctx)) {
		watch_update(ctx);
		watch_rearm(p, slot & p->active);
	} else {
		ctx->tree_gen = 0; /* its samplers may be gone: not the time to look at them */
	}
}

void vpmu_alarm_set(struct vpmu_alarm *a, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		    struct vpmu_pcpu *p, uint64_t events)
{
	if (a->ctx && (a->ctx != ctx || a->slot != c->slot))
		vpmu_alarm_clear(a, p);
	if (c->slot < 0)
		return;
	if (running(p, ctx))
		pcpu_charge(p, VPMU_BIT(c->slot));
	a->left = events;
	if (!a->ctx) {
		a->ctx = ctx;
		a->slot = c->slot;
		a->next = ctx->alarms;
		ctx->alarms = a;
		ctx->watch |= VPMU_BIT(a->slot);
	}
	if (running(p, ctx))
		watch_rearm(p, VPMU_BIT(a->slot) & p->active);
}

void vpmu_pcpu_overflow(struct vpmu_pcpu *p)
{
	uint64_t rearmed;

	if (!p->watch)
		return;
	rearmed = pcpu_charge(p, p->watch);
	/* Who was not due may have lost its alarm all the same: a PMU that is early. */
	watch_rearm(p, p->watch & p->active & ~rearmed);
}
