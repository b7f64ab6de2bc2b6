/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The keys that are counted, their events on each CPU as CPUs come and go, and the counters that
 * they may use. Private to this folder, as priv.h is. */
#pragma once

#include "cgroup/priv.h"

/* ---- slot.c ---- */
/* kslot_get - the slot of @key, with a reference; a new slot gets its events, and FRESH or
 * FRESH_HARDWARE is added to *fresh. -ENOSPC: none is free; -ENOMEM. */
#define FRESH	       1u
#define FRESH_HARDWARE 2u
int kslot_get(struct bpf_backend *k, vpmu_key_t key, unsigned int *slot, unsigned int *fresh);
void kslot_put(struct bpf_backend *k, unsigned int slot);
void slot_init(struct bpf_backend *k);
void slot_exit(struct bpf_backend *k);
/* slot_is_switches - returns true if @key counts context switches, as the kernel's own number does.
 */
bool slot_is_switches(vpmu_key_t key);
/* slot_is_preempts - returns true if @key counts preemptions by other tenants. */
bool slot_is_preempts(vpmu_key_t key);
/* slot_is_hardware - returns true if @key needs a counter of the CPU. */
bool slot_is_hardware(vpmu_key_t key);
/* slot_drop_guests - guests own the PMU now: close the events that count in guests. Values of these
 * keys become unsupported. */
void slot_drop_guests(struct bpf_backend *k);
/* slot_probe - returns 0 or the error for which no CPU counts @key. Opens a disabled event. */
int slot_probe(const struct bpf_backend *k, vpmu_key_t key);
/* slot_take - take over a former process's keys, without users.
 * slot_drop - drop the keys that still have none. */
void slot_take(struct bpf_backend *k);
void slot_drop(struct bpf_backend *k);
/* slot_lacks - returns true if no CPU has an event of the slot's key and no error explains it. */
bool slot_lacks(const struct bpf_backend *k, unsigned int slot);
/* slot_gaps - find hardware events that have lost their counters to others; their times are read
 * from now on. Returns true if there are new ones. */
bool slot_gaps(struct bpf_backend *k);
/* slot_open_on - open the event of @slot on @cpu; the program uses it from the next generation on.
 * @final: the final count of the previous event if it was of the same key; else KP_NONE.
 * slot_close_on - close it; it may be absent. */
int slot_open_on(struct bpf_backend *k, unsigned int slot, unsigned int cpu, uint64_t final);
/* slot_open_beside - open another event of the slot's key on @cpu, unknown to the program. Returns
 * a file descriptor. */
int slot_open_beside(const struct bpf_backend *k, unsigned int slot, unsigned int cpu);
void slot_close_on(struct bpf_backend *k, unsigned int slot, unsigned int cpu);
/* slot_hide_on - hide the event of @slot on @cpu from the program; it stays open. */
void slot_hide_on(struct bpf_backend *k, unsigned int slot, unsigned int cpu);
/* slot_needs_none - returns true if the key is counted without an event. Such a slot needs no work
 * when CPUs come and go. */
static inline bool slot_needs_none(const struct bpf_backend *k, unsigned int slot)
{
	return (k->cfg->switches | k->cfg->preempts) >> slot & 1;
}
/* slot_has - returns true if @cpu has an event of the slot's key, perhaps a former process's. */
static inline bool slot_has(const struct bpf_backend *k, unsigned int slot, unsigned int cpu)
{
	return cpu_state(k, cpu)->has >> slot & 1;
}

/* slot_use - how many keys @slot has had; 0: the scheduler's figures, which are kept all the time.
 */
static inline uint32_t slot_use(const struct bpf_backend *k, unsigned int slot)
{
	return slot < VPMU_MAX_SLOTS ? k->cfg->use[slot] : 0;
}

/* slot_sharing - see struct vpmu_backend_ops. */
void slot_sharing(struct vpmu_backend *s, struct vpmu_sharing *out);

/* ---- alive.c ---- */
int alive_init(struct bpf_backend *k);
void alive_exit(struct bpf_backend *k);
/* alive_dead - the slots with an event on @cpu, which is online, that has stopped although it
 * should count. Interrupts the CPU. */
uint64_t alive_dead(const struct bpf_backend *k, unsigned int cpu);

/* ---- hotplug.c ---- */
void hotplug_init(struct bpf_backend *k);
/* hotplug_take - take over a former process's events. */
void hotplug_take(struct bpf_backend *k);
/* hotplug_check - hotplug_tend(), then replace the events that have stopped for another reason and
 * open those that have become possible. Interrupts all CPUs except quiet ones. */
void hotplug_check(struct bpf_backend *k);
/* hotplug_tend - notice CPUs that have come or gone. @thorough: also those that went and came back
 * since the last call, at the cost of a system call per CPU. */
void hotplug_tend(struct bpf_backend *k, bool thorough);
/* hotplug_renew - replace the events of @slots on @cpu; past charges do not change. Returns false
 * if the CPU is not online or must be checked again. */
bool hotplug_renew(struct bpf_backend *k, unsigned int cpu, uint64_t slots);

/* ---- pmu.c ---- */
/* pmu_find - @counters: number of general counters by the configuration; 0: detect. */
void pmu_find(const struct bpf_backend_sys *sys, unsigned int counters, struct bpf_backend_pmu *p);
/* pmu_is_mediated - returns true if KVM gives its guests the whole PMU. */
bool pmu_is_mediated(const struct bpf_backend_sys *sys);

/* ---- budget.c ---- */
int budget_init(struct bpf_backend *k);
void budget_exit(struct bpf_backend *k);
/* budget_look - check if guests own the PMU by now.
 * budget_new - slot @i has a new key: decide if its events start disabled. Call before masks
 * include the slot.
 * budget_is_off - returns true if the event of slot @i on @cpu must be disabled.
 * budget_change - keys have come, with their events, or gone.
 * budget_tend - start the next turn if it is due. */
void budget_look(struct bpf_backend *k);
void budget_new(struct bpf_backend *k, unsigned int i);
bool budget_is_off(const struct bpf_backend *k, unsigned int i, unsigned int cpu);
void budget_change(struct bpf_backend *k);
void budget_tend(struct bpf_backend *k, bool thorough);
/* budget_partner - the slot to group with @key's event; -1: none. */
int budget_partner(const struct bpf_backend *k, vpmu_key_t key);

/* Keys that are counted together or not at all. */
struct budget_unit {
	uint64_t slots;
	unsigned int nr_keys;
	vpmu_key_t key[2];
	uint64_t served_ns;
};
/* budget_plan - choose which of @n units get a counter while @leave general ones stay free, the
 * least served first; sorts @u. Returns their slots. Pure. */
uint64_t budget_plan(const struct bpf_backend_pmu *p, unsigned int leave, struct budget_unit *u,
		     unsigned int n);
