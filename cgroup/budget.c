// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The counter budget: some general counters of each CPU are left to others (leave_counters):
 * guests' own vPMUs, the host's perf, the NMI watchdog. If the keys in use need more than the rest,
 * they are multiplexed: the events that wait are disabled. attach, detach and bpf_backend_tend call
 * this. Only this process's events are ever touched, none is pinned, and none is opened to probe
 * for counters.
 *
 * A disabled event's times do not grow. So the program charges an account's time as lost while its
 * key is disabled (kp_cpu.turn): a value has all its time and its running share.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "cgroup/slot.h"

#define TURN_NS 100000000ULL

/* ---- the plan: which units count next ----------------------------------------------------- */

/* Take a counter for @key. A fixed counter has one event; ref-cycles and slots can use no other. */
static bool take_counter(const struct bpf_backend_pmu *p, vpmu_key_t key, unsigned int *general,
			 uint32_t *fixed)
{
	uint32_t bit = vpmu_key_space(key) == VPMU_SPACE_GENERIC ? 1u << vpmu_key_event(key) : 0;

	if (bit & *fixed) {
		*fixed &= ~bit;
		return true;
	}
	if (bit & p->fixed & (1u << VPMU_EV_REF_CYCLES | 1u << VPMU_EV_SLOTS))
		return false;
	if (!*general)
		return false;
	--*general;
	return true;
}

static int least_served(const void *a, const void *b)
{
	const struct budget_unit *x = a, *y = b;

	if (x->served_ns != y->served_ns)
		return x->served_ns < y->served_ns ? -1 : 1;
	return x->slots < y->slots ? -1 : x->slots > y->slots;
}

uint64_t budget_plan(const struct bpf_backend_pmu *p, unsigned int leave, struct budget_unit *u,
		     unsigned int n)
{
	unsigned int general = p->general > leave ? p->general - leave : 1, g;
	uint32_t fixed = p->fixed, f;
	uint64_t on = 0;

	qsort(u, n, sizeof(*u), least_served);
	for (unsigned int i = 0; i < n; i++) {
		bool fits = true;

		g = general;
		f = fixed;
		for (unsigned int j = 0; j < u[i].nr_keys; j++)
			fits = fits && take_counter(p, u[i].key[j], &g, &f);
		if (!fits)
			continue;
		general = g;
		fixed = f;
		on |= u[i].slots;
	}
	return on;
}

/* ---- keys --------------------------------------------------------------------------------- */

/* cycles and instructions of the same modes are grouped: ratios of both must cover the same time.
 * They are separate only if they never fit together. */
int budget_partner(const struct bpf_backend *k, vpmu_key_t key)
{
	struct budget_unit pair = {.slots = 1, .nr_keys = 2, .key = {key}};

	if (vpmu_key_space(key) != VPMU_SPACE_GENERIC || vpmu_key_event(key) > VPMU_EV_INSTRUCTIONS)
		return -1;
	pair.key[1] = key ^ VPMU_EV_CYCLES ^ VPMU_EV_INSTRUCTIONS;
	if (k->pmu.known && !budget_plan(&k->pmu, k->opts.leave_counters, &pair, 1))
		return -1;
	for (int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (k->slot[i].key == pair.key[1])
			return i;
	return -1;
}

static bool budget_counts(const struct bpf_backend *k, unsigned int i)
{
	return k->slot[i].key && slot_is_hardware(k->slot[i].key) && !k->slot[i].error;
}

static uint64_t hardware_slots(const struct bpf_backend *k)
{
	uint64_t all = 0;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (budget_counts(k, i))
			all |= 1ULL << i;
	return all;
}

/* Units that are enabled and disabled together: a key, or cycles and instructions. */
static unsigned int units(const struct bpf_backend *k, struct budget_unit u[VPMU_MAX_SLOTS])
{
	unsigned int n = 0;
	int other;

	for (int i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (!budget_counts(k, (unsigned int)i))
			continue;
		other = budget_partner(k, k->slot[i].key);
		if (other >= 0 && !budget_counts(k, (unsigned int)other))
			other = -1;
		if (other >= 0 && other < i)
			continue;
		u[n] = (struct budget_unit){.slots = 1ULL << i,
					    .nr_keys = 1,
					    .key = {k->slot[i].key},
					    .served_ns = k->slot[i].served_ns};
		if (other >= 0) {
			u[n].slots |= 1ULL << other;
			u[n].key[u[n].nr_keys++] = k->slot[other].key;
			if (u[n].served_ns > k->slot[other].served_ns)
				u[n].served_ns = k->slot[other].served_ns;
		}
		n++;
	}
	return n;
}

/* ---- switching events --------------------------------------------------------------------- */

static bool is_off(const struct bpf_backend *k, unsigned int i, unsigned int cpu)
{
	return cpu_state(k, cpu)->turn[i] & 1;
}

/* Also for a CPU that is not online: its events follow the mark when it comes. */
static void mark(struct bpf_backend *k, unsigned int i, unsigned int cpu, bool off)
{
	struct kp_cpu *st = cpu_state(k, cpu);

	if (is_off(k, i, cpu) != off)
		__atomic_store_n(&st->turn[i], st->turn[i] + 1, __ATOMIC_SEQ_CST);
}

bool budget_is_off(const struct bpf_backend *k, unsigned int i, unsigned int cpu)
{
	return slot_is_hardware(k->slot[i].key) && is_off(k, i, cpu);
}

static int switch_event(const struct bpf_backend *k, unsigned int i, unsigned int cpu, bool on)
{
	int fd = k->slot[i].fd[cpu];

	return fd >= 0 && k->online[cpu] ? k->sys->event_switch(fd, on) : 0;
}

/* A former process's events have no file descriptor here and cannot be switched: replace them. */
static void renew_foreign(struct bpf_backend *k, unsigned int cpu, uint64_t change)
{
	uint64_t foreign = 0;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (change >> i & 1 && slot_has(k, i, cpu) && k->slot[i].fd[cpu] < 0)
			foreign |= 1ULL << i;
	if (!foreign || !k->online[cpu])
		return;
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (foreign >> i & 1)
			mark(k, i, cpu, true);
	hotplug_renew(k, cpu, foreign);
}

/* Enable the events of slots @on on @cpu and disable those of all other hardware keys. Disables
 * first, so never more events count than before or after. */
static void budget_apply(struct bpf_backend *k, unsigned int cpu, uint64_t on)
{
	uint64_t all = hardware_slots(k), change = 0;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (all >> i & 1 && is_off(k, i, cpu) == (on >> i & 1))
			change |= 1ULL << i;
	if (!change)
		return;
	renew_foreign(k, cpu, change);
	/* Switching affects the whole group: mark all its slots first. */
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (change & ~on & 1ULL << i)
			mark(k, i, cpu, true);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (change & ~on & 1ULL << i)
			switch_event(k, i, cpu, false);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (change & on & 1ULL << i && !switch_event(k, i, cpu, true))
			mark(k, i, cpu, false);
}

/* Keys are not multiplexed on a quiet CPU: the oldest ones are counted. */
static uint64_t plan_quiet(const struct bpf_backend *k, unsigned int cpu, struct budget_unit *u,
			   unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int slot = (unsigned int)__builtin_ctzll(u[i].slots);

		u[i].served_ns = k->slot[slot].error || is_off(k, slot, cpu);
	}
	return budget_plan(&k->pmu, k->opts.leave_counters, u, n);
}

/* ---- turns -------------------------------------------------------------------------------- */

static void budget_serve(struct bpf_backend *k, uint64_t now)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (k->on >> i & 1)
			k->slot[i].served_ns += now - k->turn_ns;
	k->turn_ns = now;
}

static void next_turn(struct bpf_backend *k)
{
	struct budget_unit u[VPMU_MAX_SLOTS];

	k->on = budget_plan(&k->pmu, k->opts.leave_counters, u, units(k, u));
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		if (!k->quiet[cpu])
			budget_apply(k, cpu, k->on);
}

static bool budget_fit(const struct bpf_backend *k)
{
	struct budget_unit u[VPMU_MAX_SLOTS];
	unsigned int n = units(k, u);

	return !k->pmu.known ||
	       budget_plan(&k->pmu, k->opts.leave_counters, u, n) == hardware_slots(k);
}

static void set_timer(struct bpf_backend *k, bool on)
{
	struct itimerspec t = {0};

	if (on)
		t.it_value.tv_nsec = t.it_interval.tv_nsec = TURN_NS;
	if (k->turn_timer >= 0)
		timerfd_settime(k->turn_timer, 0, &t, NULL);
}

/* Read the times of all events from now on. Each CPU reads them once before any event is switched,
 * to record where the time without turns ended. */
static void budget_read_times(struct bpf_backend *k)
{
	uint64_t fresh = hardware_slots(k) & ~k->cfg->timed;

	if (!fresh)
		return;
	k->cfg->timed |= fresh;
	if (!k->link)
		return;
	backend_changed(k);
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		if (k->online[cpu] && !k->quiet[cpu])
			backend_flush(k, cpu);
}

void budget_new(struct bpf_backend *k, unsigned int i)
{
	uint64_t least = UINT64_MAX;
	bool off;

	for (unsigned int j = 0; j < VPMU_MAX_SLOTS; j++)
		if (j != i && budget_counts(k, j) && k->slot[j].served_ns < least)
			least = k->slot[j].served_ns;
	k->slot[i].error = 0;
	k->slot[i].served_ns = least == UINT64_MAX ? 0 : least;
	k->on &= ~(1ULL << i);
	off = slot_is_hardware(k->slot[i].key) && !budget_fit(k);
	if (off)
		k->cfg->timed |= 1ULL << i;
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		mark(k, i, cpu, off);
}

void budget_change(struct bpf_backend *k)
{
	struct budget_unit u[VPMU_MAX_SLOTS];
	uint64_t all = hardware_slots(k), now = clock_ns(CLOCK_MONOTONIC);

	if (!all && !k->turns)
		return;
	if (k->turns)
		budget_serve(k, now);
	k->turns = !budget_fit(k);
	k->turn_ns = now;
	if (k->turns) {
		budget_read_times(k);
		next_turn(k);
	} else {
		k->on = all;
	}
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		if (!k->turns)
			budget_apply(k, cpu, all);
		else if (k->quiet[cpu])
			budget_apply(k, cpu, plan_quiet(k, cpu, u, units(k, u)));
	}
	set_timer(k, k->turns);
}

void budget_look(struct bpf_backend *k)
{
	if (k->mediated || !pmu_is_mediated(k->sys))
		return;
	k->mediated = true;
	slot_drop_guests(k);
	budget_change(k);
}

void budget_tend(struct bpf_backend *k, bool thorough)
{
	uint64_t now, expired;

	if (thorough)
		budget_look(k);
	if (!k->turns)
		return;
	while (k->turn_timer >= 0 && read(k->turn_timer, &expired, sizeof(expired)) < 0 &&
	       errno == EINTR)
		;
	now = clock_ns(CLOCK_MONOTONIC);
	if (now - k->turn_ns < TURN_NS)
		return;
	budget_serve(k, now);
	next_turn(k);
}

/* ---- life --------------------------------------------------------------------------------- */

int budget_init(struct bpf_backend *k)
{
	pmu_find(k->sys, k->opts.counters, &k->pmu);
	k->mediated = pmu_is_mediated(k->sys);
	k->turn_timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return k->turn_timer < 0 ? -errno : 0;
}

void budget_exit(struct bpf_backend *k)
{
	if (k->turn_timer >= 0)
		close(k->turn_timer);
}

int bpf_backend_turn_fd(const struct bpf_backend *k)
{
	return k->turn_timer;
}

void bpf_backend_budget(const struct bpf_backend *k, struct bpf_backend_budget *out)
{
	*out = (struct bpf_backend_budget){
		.known = k->pmu.known,
		.general = k->pmu.general,
		.left = k->pmu.general > k->opts.leave_counters ? k->opts.leave_counters
			: k->pmu.general			? k->pmu.general - 1
								: 0,
		.fixed = (unsigned int)__builtin_popcount(k->pmu.fixed),
		.keys = (unsigned int)__builtin_popcountll(hardware_slots(k)),
		.turns = k->turns,
		.mediated = k->mediated,
		.from = k->pmu.from,
	};
}
