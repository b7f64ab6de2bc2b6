// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Keys, their slots and perf events: one event per online CPU and key in use. backend.c calls this
 * to count. No event is pinned, and none samples, so guests' vPMUs and pinned events of others come
 * first.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "cgroup/slot.h"
#include "service/program/memory.h"
#include "vpmu/event/event.h"
#include "vpmu/util/files.h"

#include <account.skel.h> /* it needs maps.h */

bool slot_is_hardware(vpmu_key_t key)
{
	return vpmu_key_space(key) != VPMU_SPACE_SOFTWARE && !slot_is_preempts(key);
}

/* Returns true if the kernel counts the event in a word of memory. Clocks are computed when they
 * are read. */
static bool is_memory(vpmu_key_t key)
{
	return vpmu_key_space(key) == VPMU_SPACE_SOFTWARE &&
	       vpmu_key_event(key) != PERF_COUNT_SW_CPU_CLOCK &&
	       vpmu_key_event(key) != PERF_COUNT_SW_TASK_CLOCK;
}

bool slot_is_switches(vpmu_key_t key)
{
	return vpmu_key_space(key) == VPMU_SPACE_SOFTWARE &&
	       vpmu_key_event(key) == PERF_COUNT_SW_CONTEXT_SWITCHES;
}

bool slot_is_preempts(vpmu_key_t key)
{
	return vpmu_key_space(key) == VPMU_SPACE_SCHED &&
	       vpmu_key_event(key) == VPMU_SCHED_PREEMPTED;
}

static void slot_set_bit(__u64 *word, unsigned int bit, bool on)
{
	*word = on ? *word | 1ULL << bit : *word & ~(1ULL << bit);
}

/* @group: leader's file descriptor or -1. With mediated vPMUs an event that counts in guests keeps
 * VMs from starting, or is refused while one runs. */
static int slot_open_event(const struct bpf_backend *k, vpmu_key_t key, unsigned int cpu,
			   bool disabled, int group)
{
	struct perf_event_attr attr;
	int ret = vpmu_key_to_attr(key, &attr), fd;

	if (ret)
		return ret;
	if (k->mediated && slot_is_hardware(key) && key & VPMU_KEY_GUEST)
		return -EOPNOTSUPP;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	attr.disabled = disabled;
	fd = k->sys->event_open(&attr, (int)cpu, group);
	if (fd == -EMFILE) {
		files_more();
		fd = k->sys->event_open(&attr, (int)cpu, group);
	}
	return fd;
}

static int events_fd(const struct bpf_backend *k)
{
	return bpf_map__fd(k->skel->maps.events);
}

static int give_event(struct bpf_backend *k, unsigned int i, unsigned int cpu)
{
	struct slot *s = &k->slot[i];
	uint32_t at = kp_event(cpu, i);
	int partner = budget_partner(k, s->key);
	int fd = slot_open_event(k, s->key, cpu, budget_is_off(k, i, cpu),
				 partner >= 0 ? k->slot[partner].fd[cpu] : -1);
	int ret = fd < 0 ? fd : k->sys->map_set(events_fd(k), &at, &fd);

	if (ret) {
		if (fd >= 0)
			close(fd);
		return ret;
	}
	s->fd[cpu] = fd;
	return 0;
}

int slot_open_beside(const struct bpf_backend *k, unsigned int i, unsigned int cpu)
{
	return slot_open_event(k, k->slot[i].key, cpu, false, -1);
}

int slot_open_on(struct bpf_backend *k, unsigned int i, unsigned int cpu, uint64_t final)
{
	struct kp_cpu *st = cpu_state(k, cpu);
	int ret = slot_needs_none(k, i) ? 0 : give_event(k, i, cpu);

	if (ret)
		return ret;
	slot_set_bit(&st->has, i, true);
	st->final[i] = final;
	/* Last: take_up_event() uses the event and final when this has changed. */
	__atomic_store_n(&st->opened[i], st->opened[i] + 1, __ATOMIC_RELEASE);
	return 0;
}

void slot_hide_on(struct bpf_backend *k, unsigned int i, unsigned int cpu)
{
	uint32_t at = kp_event(cpu, i);

	__atomic_store_n(&cpu_state(k, cpu)->where[i], 0, __ATOMIC_SEQ_CST);
	k->sys->map_del(events_fd(k), &at);
}

void slot_close_on(struct bpf_backend *k, unsigned int i, unsigned int cpu)
{
	slot_hide_on(k, i, cpu);
	if (k->slot[i].fd[cpu] >= 0)
		close(k->slot[i].fd[cpu]);
	k->slot[i].fd[cpu] = -1;
	slot_set_bit(&cpu_state(k, cpu)->has, i, false);
}

static void close_all(struct bpf_backend *k, unsigned int i)
{
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		slot_close_on(k, i, cpu);
}

/* Returns true if @error means that this key cannot be counted here or by this process: that is a
 * result, and no reason to refuse the other keys. */
static bool is_answer(int error)
{
	return error != -ENOMEM && error != -EMFILE && error != -ENFILE && error != -EINTR;
}

static int open_all(struct bpf_backend *k, unsigned int i)
{
	struct slot *s = &k->slot[i];
	int ret;

	s->error = -ENODEV;
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++) {
		/* Also for CPUs that may come online later. */
		cpu_state(k, cpu)->base[i] = cpu_sum(k, cpu, i);
		cpu_state(k, cpu)->retired[i] = 0;
		if (!k->online[cpu])
			continue;
		ret = slot_open_on(k, i, cpu, KP_NONE);
		if (ret && !is_answer(ret)) {
			close_all(k, i);
			return ret == -ENOMEM ? -ENOMEM : -ENOSPC;
		}
		/* One CPU that counts the key is enough. */
		if (s->error)
			s->error = ret;
	}
	return 0;
}

/* The lowest free slot: switches are cheapest when all keys are in the first chunk. A slot freed
 * since the last grace period is the last choice. */
static int find_free(struct bpf_backend *k)
{
	int used = -1;

	for (int i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (k->slot[i].key)
			continue;
		if (!k->slot[i].used || !k->link)
			return i;
		if (used < 0)
			used = i;
	}
	return used;
}

int kslot_get(struct bpf_backend *k, vpmu_key_t key, unsigned int *slot, unsigned int *fresh)
{
	struct slot *s;
	int i, ret;

	for (i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (k->slot[i].key == key) {
			k->slot[i].users++;
			*slot = (unsigned int)i;
			return 0;
		}
	}
	i = find_free(k);
	if (i < 0)
		return -ENOSPC;
	s = &k->slot[i];
	if (s->used && k->link) /* a CPU could still charge the last key's events */
		backend_sync(k);
	s->key = key;
	if (slot_is_hardware(key) && key & VPMU_KEY_GUEST)
		budget_look(k);
	/* Set before any CPU can take up the events. */
	slot_set_bit(&k->cfg->timed, (unsigned int)i, false);
	s->counted = false;
	slot_set_bit(&k->cfg->memory, (unsigned int)i, is_memory(key));
	slot_set_bit(&k->cfg->switches, (unsigned int)i, k->sees_hidden && slot_is_switches(key));
	slot_set_bit(&k->cfg->preempts, (unsigned int)i, k->sees_hidden && slot_is_preempts(key));
	budget_new(k, (unsigned int)i);
	s->begun_ns = clock_ns(CLOCK_MONOTONIC);
	ret = open_all(k, (unsigned int)i);
	if (ret) {
		s->key = 0;
		return ret;
	}
	s->users = 1;
	k->cfg->key[i] = key;
	k->cfg->use[i]++;
	if (k->chunks < (unsigned int)i / KP_CHUNK + 1)
		k->chunks = (unsigned int)i / KP_CHUNK + 1;
	*slot = (unsigned int)i;
	*fresh |= slot_is_hardware(key) ? FRESH_HARDWARE : FRESH;
	return 0;
}

static void cgroup_slot_drop(struct bpf_backend *k, unsigned int slot)
{
	close_all(k, slot);
	k->slot[slot].key = 0;
	k->slot[slot].used = true;
	k->cfg->key[slot] = 0;
}

void kslot_put(struct bpf_backend *k, unsigned int slot)
{
	struct slot *s = &k->slot[slot];

	if (--s->users || k->taken_over)
		return;
	cgroup_slot_drop(k, slot);
}

void slot_drop_guests(struct bpf_backend *k)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (!slot_is_hardware(k->slot[i].key) || !(k->slot[i].key & VPMU_KEY_GUEST))
			continue;
		close_all(k, i);
		k->slot[i].error = -EOPNOTSUPP;
	}
}

bool slot_lacks(const struct bpf_backend *k, unsigned int i)
{
	bool has = slot_needs_none(k, i);

	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		has |= slot_has(k, i, cpu);
	return k->slot[i].key && !k->slot[i].error && !has;
}

void slot_take(struct bpf_backend *k)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		k->slot[i].key = k->cfg->key[i];
		k->slot[i].counted = k->slot[i].key;
		if (slot_lacks(k, i))
			k->slot[i].error = slot_probe(k, k->slot[i].key);
		/* Without file descriptors gaps cannot be detected: read their times always. */
		if (k->slot[i].key && slot_is_hardware(k->slot[i].key))
			slot_set_bit(&k->cfg->timed, i, true);
	}
}

void slot_drop(struct bpf_backend *k)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (k->slot[i].key && !k->slot[i].users)
			cgroup_slot_drop(k, i);
	if (!k->countings)
		backend_detach(k);
}

/* Returns true if the kernel has taken the counter of a hardware event away at any time. Interrupts
 * the CPUs. */
static bool has_gap(const struct bpf_backend *k, const struct slot *s)
{
	uint64_t count, enabled, running;

	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		if (s->fd[cpu] >= 0 && k->online[cpu] && !k->quiet[cpu] &&
		    !k->sys->event_read(s->fd[cpu], &count, &enabled, &running) &&
		    enabled != running)
			return true;
	return false;
}

bool slot_gaps(struct bpf_backend *k)
{
	bool found = false;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		struct slot *s = &k->slot[i];

		if (!s->key || !slot_is_hardware(s->key) || k->cfg->timed >> i & 1 ||
		    !has_gap(k, s))
			continue;
		slot_set_bit(&k->cfg->timed, i, true);
		k->cfg->gaps[i] += s->counted;
		found = true;
	}
	if (found)
		backend_changed(k); /* CPUs have cached which keys are not timed */
	return found;
}

void slot_init(struct bpf_backend *k)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		struct slot *s = &k->slot[i];

		s->fd = xmalloc(k->nr_cpus * sizeof(*s->fd));
		memset(s->fd, 0xff, k->nr_cpus * sizeof(*s->fd));
	}
}

void slot_exit(struct bpf_backend *k)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		struct slot *s = &k->slot[i];

		for (unsigned int cpu = 0; s->fd && cpu < k->nr_cpus; cpu++)
			if (s->fd[cpu] >= 0)
				close(s->fd[cpu]);
		free(s->fd);
	}
}

int slot_probe(const struct bpf_backend *k, vpmu_key_t key)
{
	int fd = -ENODEV;

	/* Without it a switch that the program does not see goes unnoticed, too. */
	if (slot_is_preempts(key))
		return k->sees_hidden ? 0 : -EOPNOTSUPP;
	if (slot_is_hardware(key) && key & VPMU_KEY_GUEST && pmu_is_mediated(k->sys))
		return -EOPNOTSUPP;
	for (unsigned int cpu = 0; cpu < k->nr_cpus && fd == -ENODEV; cpu++)
		if (k->online[cpu])
			fd = slot_open_event(k, key, cpu, true, -1);
	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

unsigned int bpf_backend_users(const struct bpf_backend *k, vpmu_key_t key)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (k->slot[i].key == key)
			return k->slot[i].users;
	return 0;
}

void slot_sharing(struct vpmu_backend *s, struct vpmu_sharing *out)
{
	const struct bpf_backend *k = backend_of(s);

	*out = (struct vpmu_sharing){.consumers = k->countings, .refused = k->refused};
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (!k->slot[i].key)
			continue;
		out->keys++;
		for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
			out->host_counters += slot_has(k, i, cpu) && !slot_needs_none(k, i);
	}
}
