// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Conservation check: a CPU's count of a key must equal its charges to all accounts plus its
 * unclaimed count. backend.c offers it to sessions. It must compare with the kernel's own count,
 * not only with the program's state.
 */
#include <unistd.h>

#include "cgroup/slot.h"

/*
 * Read the count of @cpu for slot @i and the sum of its charges, as of one moment: retry until the
 * CPU does not charge during the reading. If it always does, the sum is of a moment between two
 * readings and must lie between them.
 */
static void conserve_compare(const struct bpf_backend *k, unsigned int cpu, unsigned int i,
			     struct vpmu_conservation *c)
{
	const struct kp_cpu *st = cpu_state(k, cpu);
	uint64_t low, high, done;
	int tries = 0;

	do {
		done = __atomic_load_n(&st->done_ns, __ATOMIC_ACQUIRE);
		low = VPMU_LOAD(&st->snap[i]);
		c->charged = cpu_sum(k, cpu, i) - st->base[i];
		fence_loads();
		high = VPMU_LOAD(&st->snap[i]);
		fence_loads();
	} while (done != VPMU_LOAD(&st->last_ns) && ++tries < 1000);
	low += st->retired[i] - VPMU_LOAD(&st->first[i]);
	high += st->retired[i] - VPMU_LOAD(&st->first[i]);
	c->hardware = c->charged < low ? low : c->charged > high ? high : c->charged;
}

/* The program's reading of slot @i on @cpu after a flush, between two readings of event @fd. */
struct bracket {
	uint64_t low, snap, high;
	bool current; /* snap is up to date */
};

static void bracket(struct bpf_backend *k, unsigned int cpu, unsigned int i, int fd,
		    struct bracket *b)
{
	const struct kp_cpu *st = cpu_state(k, cpu);
	uint64_t enabled, running, mask;

	*b = (struct bracket){0};
	if (k->sys->event_read(fd, &b->low, &enabled, &running) || backend_flush(k, cpu))
		return;
	mask = kp_mask(st);
	fence_loads();
	b->snap = VPMU_LOAD(&st->snap[i]);
	b->current = mask >> i & 1 && !k->sys->event_read(fd, &b->high, &enabled, &running);
}

/*
 * Compare a key that is counted without an event with a temporary event. Returns how much the
 * program counted too much or too little while it counted, in events; 0 if it cannot be compared.
 * The tolerance of 1: the program counts a switch a moment before the event does.
 */
static int64_t compare_beside(struct bpf_backend *k, unsigned int cpu, unsigned int i)
{
	int fd = slot_open_beside(k, i, cpu);
	struct bracket a, b;
	int64_t got, least, most;

	if (fd < 0)
		return 0;
	bracket(k, cpu, i, fd, &a);
	bracket(k, cpu, i, fd, &b);
	close(fd);
	if (!a.current || !b.current)
		return 0;
	got = (int64_t)(b.snap - a.snap);
	least = (int64_t)(b.low - a.high) - 1;
	most = (int64_t)(b.high - a.low) + 1;
	return got < least ? got - least : got > most ? got - most : 0;
}

/* The program's last reading must lie between the event's own counts before and after a flush. */
static int conserve_cpu(struct bpf_backend *k, unsigned int cpu,
			int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg)
{
	const struct kp_cpu *st = cpu_state(k, cpu);
	uint64_t before[VPMU_MAX_SLOTS] = {0}, after, enabled, running, snap, mask;
	struct vpmu_conservation c = {.pcpu = cpu};
	int ret = 0;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (k->slot[i].key && k->slot[i].fd[cpu] >= 0)
			k->sys->event_read(k->slot[i].fd[cpu], &before[i], &enabled, &running);
	backend_flush(k, cpu);
	for (unsigned int i = 0; !ret && i < VPMU_MAX_SLOTS; i++) {
		const struct slot *s = &k->slot[i];

		if (!s->key || !slot_has(k, i, cpu) || st->seen[i] != st->opened[i])
			continue;
		c.key = s->key;
		conserve_compare(k, cpu, i, &c);
		/* Mask before reading: a slot enters the mask after it has been read. */
		mask = kp_mask(st);
		fence_loads();
		snap = VPMU_LOAD(&st->snap[i]);
		/* A former process's event has no file descriptor here. */
		if (s->fd[cpu] >= 0 &&
		    !k->sys->event_read(s->fd[cpu], &after, &enabled, &running) && snap > after)
			c.hardware -= snap - after;
		if (snap < before[i] && mask >> i & 1)
			c.hardware += before[i] - snap;
		if (slot_needs_none(k, i))
			c.hardware -= (uint64_t)compare_beside(k, cpu, i);
		ret = fn(&c, arg);
	}
	return ret;
}

int conserve(struct vpmu_backend *s, int (*fn)(const struct vpmu_conservation *c, void *arg),
	     void *arg)
{
	struct bpf_backend *k = backend_of(s);
	int ret = 0;

	bpf_backend_tend(k);
	if (k->link)
		hotplug_check(k); /* a stopped event would be missing on both sides */
	for (unsigned int cpu = 0; !ret && k->link && cpu < k->nr_cpus; cpu++)
		if (k->online[cpu] && !k->quiet[cpu])
			ret = conserve_cpu(k, cpu, fn, arg);
	return ret;
}
