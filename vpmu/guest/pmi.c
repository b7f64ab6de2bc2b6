// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Performance monitoring interrupts of a vCPU.
 *
 * Each counter that is on and interrupts has an alarm at its overflow. When the alarm fires, the
 * engine stops the vCPU, and the VMM calls vpmu_guest_service before the guest continues. The alarm
 * is only a hint: guest_settle then detects the wrap of the counter, and only a wrap makes a PMI.
 * So a late alarm (on a host PMU without alarms) makes a late PMI, but no PMI is lost, repeated or
 * spurious because of a switch, a migration, or a guest that reads the counter first.
 *
 * A pending PMI is raised even if the guest has cleared the status bit, just as hardware delivers a
 * PMI that has reached the local APIC. Setting status bits by software
 * (IA32_PERF_GLOBAL_STATUS_SET, PerfCntrGlobalStatusSet) causes no PMI: these registers exist to
 * restore a saved state (SDM vol. 3, 20.2.4.2; KVM uses them in this way).
 */
#include <stddef.h>

#include "vpmu/core/consumer_local.h"
#include "vpmu/guest/internal.h"

/* Called while libvpmu charges, so it must only record the overflow. */
static uint64_t fire(struct vpmu_alarm *a, uint64_t over)
{
	struct vpmu_guest_ctr *c =
		(struct vpmu_guest_ctr *)((char *)a - offsetof(struct vpmu_guest_ctr, alarm));
	struct vpmu_guest *g =
		(struct vpmu_guest *)((char *)(c - c->index) - offsetof(struct vpmu_guest, ctr));

	(void)over;
	g->overflowed |= 1u << c->index;
	return g->width_mask + 1; /* the next wrap */
}

void guest_arm_again(struct vpmu_guest *g, unsigned int i)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];

	if (!c->enabled || !(g->intr & (1u << i)))
		return;
	vpmu_alarm_set(&c->alarm, g->ctx, &c->consumer, g->pcpu, g->width_mask + 1 - c->value);
}

void guest_disarm(struct vpmu_guest *g, uint32_t ctrs)
{
	uint64_t slots = 0;
	unsigned int i;

	ctrs &= g->armed;
	guest_for_each_ctr(i, ctrs) slots |= alarm_drop(&g->ctr[i].alarm);
	g->armed &= ~ctrs;
	if (slots)
		alarms_apply(g->ctx, g->pcpu, slots);
}

void guest_arm(struct vpmu_guest *g, uint32_t ctrs)
{
	uint32_t want = ctrs & g->enabled & g->intr;
	uint64_t slots = 0;
	unsigned int i;

	guest_disarm(g, ctrs & ~want);
	want &= ~g->armed;
	guest_for_each_ctr(i, want)
	{
		struct vpmu_guest_ctr *c = &g->ctr[i];

		c->alarm.fire = fire;
		slots |= alarm_put(&c->alarm, g->ctx, &c->consumer, g->width_mask + 1 - c->value);
	}
	g->armed |= want;
	if (slots)
		alarms_apply(g->ctx, g->pcpu, slots);
}

bool vpmu_guest_service(struct vpmu_guest *g)
{
	if (!vpmu_guest_pending(g))
		return false;
	guest_settle(g, g->ctrs);
	g->overflowed = 0;
	if (!g->pmi)
		return false;
	g->pmi = false;
	if (g->ops->pmi)
		g->ops->pmi(g);
	return true;
}
