// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CPU hotplug. When a CPU goes offline the kernel disables its events for good, so a CPU that is
 * back gets new ones. load.c calls this. The difference of two unrelated events must never be
 * charged: a CPU takes up one new event before it gets the next.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cgroup/slot.h"

/* The kernel creates this directory when a CPU comes online, so its inode number identifies the
 * hotplug cycle, even if the absence went unnoticed. 1: unknown. */
static uint64_t ident_of(const struct bpf_backend *k, unsigned int cpu)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu%u/topology", k->sys->files,
		 cpu);
	return stat(path, &st) ? 1 : st.st_ino;
}

void hotplug_init(struct bpf_backend *k)
{
	if (!bpf_backend_cpus(k->sys, "/sys/devices/system/cpu/online", k->online, k->nr_cpus))
		memset(k->online, true, k->nr_cpus * sizeof(*k->online));
	for (unsigned int cpu = 0; !k->taken_over && cpu < k->nr_cpus; cpu++)
		cpu_state(k, cpu)->ident = k->online[cpu] ? ident_of(k, cpu) : 0;
}

/* Record a loss that no time accounts for. */
static void gap(struct bpf_backend *k, unsigned int i)
{
	k->cfg->gaps[i] += k->slot[i].key && k->slot[i].counted && !slot_needs_none(k, i);
}

/* Hide the events: the program then charges time as lost, should the CPU be back before this
 * process notices. ident is cleared last, when all are hidden: this process may be killed in
 * between. */
static void cpu_gone(struct bpf_backend *k, unsigned int cpu)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (k->slot[i].key && !slot_needs_none(k, i))
			slot_hide_on(k, i, cpu);
	k->online[cpu] = false;
	VPMU_STORE(&cpu_state(k, cpu)->ident, 0);
}

/* The final count of slot @i's event; KP_NONE: there was no event of this key, or it was a former
 * process's. */
static uint64_t end_of(const struct bpf_backend *k, unsigned int i, unsigned int cpu)
{
	uint64_t count, enabled, running;
	int fd = k->slot[i].fd[cpu];

	return fd >= 0 && !k->sys->event_read(fd, &count, &enabled, &running) ? count : KP_NONE;
}

/*
 * First the CPU takes up pending new events, so that its state of each slot belongs to the event
 * that ends here. Group members must be closed before their leaders are replaced, so all are closed
 * before any is opened. The CPU may switch tasks all the while: it reads none of these slots
 * between the two flushes, and uses the new events from the second one on.
 */
bool hotplug_renew(struct bpf_backend *k, unsigned int cpu, uint64_t slots)
{
	struct kp_cpu *st = cpu_state(k, cpu);
	uint64_t final[VPMU_MAX_SLOTS], read[VPMU_MAX_SLOTS], had = st->has & slots;

	VPMU_STORE(&st->opening, slots);
	backend_changed(k);
	if (backend_flush(k, cpu)) {
		VPMU_STORE(&st->opening, 0);
		backend_changed(k);
		return false;
	}
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		final[i] = KP_NONE;
		if (!(slots >> i & 1))
			continue;
		slot_hide_on(k, i, cpu);
		if (st->seen[i] == st->opened[i])
			final[i] = end_of(k, i, cpu);
		else
			had &= ~(1ULL << i);
		/* Account for its last reading now: this process may be killed before the new event
		 * is open. */
		read[i] = VPMU_LOAD(&st->snap[i]);
		if (had >> i & 1)
			st->retired[i] += read[i] - VPMU_LOAD(&st->first[i]);
		slot_close_on(k, i, cpu);
	}
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (!(slots >> i & 1))
			continue;
		if (slot_open_on(k, i, cpu, final[i]))
			final[i] = KP_NONE; /* then the rest of the old one is lost */
		if (had >> i & 1 && final[i] != KP_NONE)
			st->retired[i] += final[i] - read[i];
	}
	/* Start them together. The time since the first was opened is lost, so its counts must be,
	 * too: the CPU starts from the value at which it takes them up. */
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (slots >> i & 1 && k->slot[i].fd[cpu] >= 0)
			k->sys->event_reset(k->slot[i].fd[cpu]);
	VPMU_STORE(&st->opening, 0);
	backend_changed(k);
	return !backend_flush(k, cpu);
}

static bool cpu_back(struct bpf_backend *k, unsigned int cpu)
{
	uint64_t slots = 0;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (k->slot[i].key && !(slot_needs_none(k, i) && slot_has(k, i, cpu)))
			slots |= 1ULL << i;
	return hotplug_renew(k, cpu, slots);
}

void hotplug_tend(struct bpf_backend *k, bool thorough)
{
	bool now[k->nr_cpus], missed;
	struct kp_cpu *st;
	uint64_t ident;

	if (!bpf_backend_cpus(k->sys, "/sys/devices/system/cpu/online", now, k->nr_cpus))
		return;
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		st = cpu_state(k, cpu);
		if (!now[cpu] && k->online[cpu])
			cpu_gone(k, cpu);
		if (!now[cpu] || (k->online[cpu] && !thorough))
			continue;
		ident = ident_of(k, cpu);
		if (k->online[cpu] && ident == st->ident)
			continue;
		/* The CPU went and came back unnoticed: its counts in between are lost. */
		missed = k->online[cpu];
		for (unsigned int i = 0; missed && i < VPMU_MAX_SLOTS; i++)
			gap(k, i);
		k->online[cpu] = cpu_back(k, cpu);
		if (k->online[cpu])
			VPMU_STORE(&st->ident, ident);
	}
}

/* CPUs that went and came back before the takeover are found later, by ident (hotplug_tend). CPUs
 * on which the former process ended while replacing events are treated as offline, so that
 * hotplug_tend finishes the work. */
void hotplug_take(struct bpf_backend *k)
{
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		if (!k->online[cpu])
			cpu_gone(k, cpu);
		else if (cpu_state(k, cpu)->opening || !cpu_state(k, cpu)->ident)
			k->online[cpu] = false;
	}
}

void hotplug_check(struct bpf_backend *k)
{
	uint64_t dead, lacking = 0;

	hotplug_tend(k, true);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		lacking |= (uint64_t)slot_lacks(k, i) << i;
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		if (!k->online[cpu] || k->quiet[cpu])
			continue;
		dead = alive_dead(k, cpu);
		for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
			if (dead >> i & 1)
				gap(k, i);
		if (dead | lacking)
			k->online[cpu] = hotplug_renew(k, cpu, dead | lacking);
	}
}
