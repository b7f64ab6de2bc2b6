// SPDX-License-Identifier: GPL-2.0-or-later
/* Checks of counts: known work in cgroups, alone, shared, on each CPU, moving. run.c calls them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "selftest/priv.h"

#define TRIES  5  /* of a measurement with partial values */
#define SLICES 5  /* jobs of each worker that share a CPU */
#define MOVES  40 /* of a task between the two cgroups */

/* The keys of all usable events. */
static size_t count_keys(const struct selftest *t, vpmu_key_t *keys, const struct known **known)
{
	size_t n = 0;

	for (const struct known *k = t->known; k < t->known + SELFTEST_KNOWN; k++)
		if (k->usable) {
			keys[n] = k->key;
			known[n++] = k;
		}
	return n;
}

/* Returns true if an event counts @work. */
static bool count_can(const struct selftest *t, enum work work)
{
	for (const struct known *k = t->known; k < t->known + SELFTEST_KNOWN; k++)
		if (k->usable && k->work == work)
			return true;
	return false;
}

/* All values of @node after @n units of @work: what other work counts is none. */
static void count_expect(struct selftest *t, const struct known *const *known, unsigned int node,
			 enum work work, uint64_t n, const char *where)
{
	for (size_t i = 0; i < t->nr_keys; i++)
		if (known[i]->work == work)
			expect_known(t, node, i, known[i], n * known[i]->unit, where);
		else if (known[i]->work == WORK_FAULTS)
			expect_known(t, node, i, known[i], 0, where);
}

/* ---- alone ---- */

static int alone_work(struct selftest *t, enum work work)
{
	const struct known *known[SELFTEST_KNOWN];
	const uint64_t n = work_n(t, work);
	vpmu_key_t keys[SELFTEST_KNOWN];
	struct worker w[2] = {{.to = -1, .from = -1}, {.to = -1, .from = -1}};
	int ret = worker_start(t, NODE_A, &w[0]);

	if (!ret)
		ret = worker_start(t, NODE_B, &w[1]);
	if (!ret)
		ret = measure_begin(t, keys, count_keys(t, keys, known));
	if (!ret)
		ret = worker_do(t, &w[0], work, n);
	if (!ret)
		ret = worker_do(t, &w[1], work, n / 4 * 3);
	if (!ret)
		ret = measure_whole(t);
	if (!ret) {
		count_expect(t, known, NODE_A, work, n, "cgroup a");
		count_expect(t, known, NODE_B, work, n / 4 * 3, "cgroup b");
		expect_sum(t);
	}
	for (int i = 0; i < 2; i++)
		worker_end(&w[i]);
	return ret;
}

/* A context switch that the kernel has not shown makes values partial: they say so, and it is done
 * again. */
static void count_try(struct selftest *t, enum work work,
		      int (*fn)(struct selftest *t, enum work work))
{
	struct bpf_backend_usage u;
	int ret = -EAGAIN;

	for (unsigned int i = 0; i < TRIES && ret == -EAGAIN; i++)
		ret = fn(t, work);
	bpf_backend_usage(t->k, &u);
	if (ret == -EAGAIN)
		selftest_skip(
			t, "partial, %d times: %llu context switches and %llu moves were not shown",
			TRIES, (unsigned long long)u.missed, (unsigned long long)u.moved);
	else if (ret)
		selftest_give_up(t, "a worker", ret);
}

static void count_both(struct selftest *t, int (*fn)(struct selftest *t, enum work work))
{
	for (enum work work = WORK_LOOP; work <= WORK_FAULTS; work++)
		if (count_can(t, work))
			count_try(t, work, fn);
}

void check_alone(struct selftest *t)
{
	count_both(t, alone_work);
}

/* ---- shared ---- */

static int shared_work(struct selftest *t, enum work work)
{
	const struct known *known[SELFTEST_KNOWN];
	const uint64_t n[2] = {work_n(t, work), work_n(t, work) / 4 * 3};
	vpmu_key_t keys[SELFTEST_KNOWN];
	struct worker w[2] = {{.to = -1, .from = -1}, {.to = -1, .from = -1}};
	int ret = 0;

	for (unsigned int i = 0; i < 2 && !ret; i++) {
		ret = worker_start(t, i, &w[i]);
		if (!ret)
			ret = worker_do(t, &w[i], WORK_PIN, t->cpus[0]);
	}
	if (!ret)
		ret = measure_begin(t, keys, count_keys(t, keys, known));
	for (unsigned int slice = 0; slice < SLICES && !ret; slice++) {
		for (unsigned int i = 0; i < 2 && !ret; i++)
			ret = worker_begin(t, &w[i], work, n[i]);
		for (unsigned int i = 0; i < 2 && !ret; i++)
			ret = worker_wait(t, &w[i]);
	}
	if (!ret)
		ret = measure_whole(t);
	if (!ret) {
		count_expect(t, known, NODE_A, work, SLICES * n[0], "cgroup a");
		count_expect(t, known, NODE_B, work, SLICES * n[1], "cgroup b");
		expect_sum(t);
	}
	for (int i = 0; i < 2; i++)
		worker_end(&w[i]);
	return ret;
}

void check_shared(struct selftest *t)
{
	count_both(t, shared_work);
}

/* ---- each CPU ---- */

/* Work on CPU number @c, and as much on another one, which is not counted. */
static int cpus_one(struct selftest *t, const struct worker *w, bool *mask, enum work work,
		    unsigned int c)
{
	const struct known *known[SELFTEST_KNOWN];
	vpmu_key_t keys[SELFTEST_KNOWN];
	const unsigned int cpu = t->cpus[c], other = t->cpus[(c + 1) % t->nr_cpus];
	const uint64_t n = work_n(t, work) / 8;
	char where[32];
	int ret = worker_do(t, w, WORK_PIN, cpu);

	memset(mask, 0, t->s->nr_cpus * sizeof(*mask));
	mask[cpu] = true;
	t->mask = mask;
	if (!ret)
		ret = measure_begin(t, keys, count_keys(t, keys, known));
	if (!ret)
		ret = worker_do(t, w, work, n);
	if (!ret && other != cpu)
		ret = worker_do(t, w, WORK_PIN, other);
	if (!ret && other != cpu)
		ret = worker_do(t, w, work, n);
	if (!ret) {
		measure_end(t);
		ret = measure_partial(t);
	}
	if (!ret) {
		snprintf(where, sizeof(where), "CPU %u", cpu);
		count_expect(t, known, NODE_A, work, n, where);
	}
	t->mask = NULL;
	return ret;
}

static int cpus_work(struct selftest *t, enum work work)
{
	bool *mask = calloc(t->s->nr_cpus, sizeof(*mask));
	struct worker w = {.to = -1, .from = -1};
	int ret = mask ? worker_start(t, NODE_A, &w) : -ENOMEM;

	for (unsigned int c = 0; c < t->nr_cpus && !ret; c++)
		ret = cpus_one(t, &w, mask, work, c);
	measure_end(t); /* before the mask */
	worker_end(&w);
	free(mask);
	return ret;
}

void check_cpus(struct selftest *t)
{
	if (!(t->s->can & VPMU_BACKEND_CPUS))
		selftest_skip(t, "the backend does not count single CPUs");
	else
		count_both(t, cpus_work);
}

/* ---- moves ---- */

/* The task moves itself: every kernel shows that. */
static int moves_work(struct selftest *t, enum work work)
{
	const uint64_t a = worker_moved(MOVES, 0), b = worker_moved(MOVES, 1);
	struct worker w = {.to = -1, .from = -1};
	int ret = worker_start(t, NODE_A, &w);

	if (!ret) /* the whole path once, outside of the count */
		ret = worker_do(t, &w, work, 2);
	if (!ret)
		ret = measure_begin(t, &t->known[0].key, 1);
	if (!ret)
		ret = worker_do(t, &w, work, MOVES);
	if (!ret)
		ret = measure_whole(t);
	if (!ret) {
		selftest_expect(t, "page-faults of a", a, a, t->value[NODE_A][0].count,
				"charged to the other cgroup, or lost");
		selftest_expect(t, "page-faults of b", b, b, t->value[NODE_B][0].count,
				"charged to the other cgroup, or lost");
		expect_sum(t);
	}
	worker_end(&w);
	return ret;
}

void check_moves(struct selftest *t)
{
	if (t->known[0].usable)
		count_try(t, WORK_MOVES, moves_work);
	else
		selftest_skip(t, "%s: %s", t->known[0].event, t->known[0].why);
}

/* ---- hotplug ---- */

static int hotplug_set(unsigned int cpu, bool online)
{
	char path[80];
	int fd, ret = 0;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", cpu);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, online ? "1" : "0", 1) != 1)
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

/* The last CPU works, goes, and works again after its return. */
static int hotplug_work(struct selftest *t, enum work work)
{
	const struct known *known[SELFTEST_KNOWN];
	const unsigned int cpu = t->cpus[t->nr_cpus - 1];
	const uint64_t n = work_n(t, work);
	vpmu_key_t keys[SELFTEST_KNOWN];
	struct worker w = {.to = -1, .from = -1};
	int ret = worker_start(t, NODE_A, &w), back;

	if (!ret)
		ret = worker_do(t, &w, WORK_PIN, cpu);
	if (!ret)
		ret = measure_begin(t, keys, count_keys(t, keys, known));
	if (!ret)
		ret = worker_do(t, &w, work, n);
	if (!ret)
		ret = worker_do(t, &w, WORK_PIN, t->cpus[0]);
	if (!ret) {
		ret = hotplug_set(cpu, false);
		if (ret) {
			selftest_skip(t, "CPU %u: %s", cpu, strerror(-ret));
			ret = 0;
			goto end;
		}
		ret = worker_do(t, &w, work, n);
		back = hotplug_set(cpu, true); /* whatever has happened */
		ret = ret ? ret : back;
	}
	for (int i = 0; i < 20; i++, usleep(50000))
		bpf_backend_tend(t->k); /* as vpmud does, until the CPU has answered */
	if (!ret)
		ret = worker_do(t, &w, WORK_PIN, cpu);
	if (!ret)
		ret = worker_do(t, &w, work, n);
	if (!ret) {
		expect_conserved(t);
		measure_end(t); /* values are partial: the CPU's return was seen late */
		count_expect(t, known, NODE_A, work, 3 * n, "a CPU was away");
		expect_sum(t);
	}
end:
	worker_end(&w);
	return ret;
}

void check_hotplug(struct selftest *t)
{
	count_both(t, hotplug_work);
}
