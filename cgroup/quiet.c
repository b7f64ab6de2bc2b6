// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Values of quiet CPUs: isolated ones, which are not interrupted and charge at their next switch
 * only. backend.c asks for how long counts can be missing at the end of a value, or be too many
 * because they are from before its begin.
 */
#include "cgroup/slot.h"

/* Returns true if @c counts quiet CPU @cpu. */
static bool quiet_counts(const struct bpf_backend *k, const struct vpmu_counting *c,
			 unsigned int cpu)
{
	return k->online[cpu] && k->quiet[cpu] && (!c->cpus || c->cpus[cpu]);
}

/* Returns true if @cpu may run @c's node or one below it now. */
static bool quiet_runs(const struct bpf_backend *k, const struct vpmu_counting *c, unsigned int cpu)
{
	uint32_t account = __atomic_load_n(&cpu_state(k, cpu)->at.account, __ATOMIC_ACQUIRE);

	/* Account 0: no switch yet, so the CPU may run anything. */
	return !account ||
	       (account < k->nr_accounts && knode_is_below(k->nodes[account], knode_of(c->node)));
}

/* The time of @cpu's last charge. last_ns is on the CPU's own clock. */
static uint64_t quiet_last(const struct bpf_backend *k, unsigned int cpu)
{
	const struct kp_cpu *st = cpu_state(k, cpu);

	return VPMU_LOAD(&st->last_ns) + VPMU_LOAD(&st->skew_ns);
}

uint64_t quiet_age(const struct bpf_backend *k, const struct vpmu_counting *c, uint64_t since_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), last, age = 0;

	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		if (!quiet_counts(k, c, cpu) || !quiet_runs(k, c, cpu))
			continue;
		last = quiet_last(k, cpu);
		last = last > since_ns ? last : since_ns;
		if (now > last && now - last > age)
			age = now - last;
	}
	return age;
}

uint64_t quiet_early(const struct bpf_backend *k, const struct vpmu_counting *c, unsigned int slot,
		     uint64_t since_ns)
{
	uint64_t last, early = 0;

	for (unsigned int cpu = 0; slot < SCHED_SLOT && cpu < k->nr_cpus; cpu++) {
		const struct kp_cpu *st = cpu_state(k, cpu);

		if (!quiet_counts(k, c, cpu) || !quiet_runs(k, c, cpu))
			continue;
		last = quiet_last(k, cpu);
		/* The CPU charges by the mask that it has taken up, but all of a new event. */
		if (VPMU_LOAD(&st->seen[slot]) == VPMU_LOAD(&st->opened[slot])) {
			if (!(kp_mask(st) >> slot & 1))
				continue;
		} else if (slot_needs_none(k, slot)) {
			continue;
		} else if (last < k->slot[slot].begun_ns) {
			last = k->slot[slot].begun_ns;
		}
		if (last < since_ns && since_ns - last > early)
			early = since_ns - last;
	}
	return early;
}

bool quiet_charged(const struct bpf_backend *k, const struct vpmu_counting *c, uint64_t since_ns)
{
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		if (quiet_counts(k, c, cpu) && quiet_last(k, cpu) > since_ns)
			return true;
	return false;
}
