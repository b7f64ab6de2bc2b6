// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counting by the backend, and the comparisons that the checks share: a known count, conservation,
 * the root as the sum of all nodes.
 *
 * What silicon adds to a known count. On x86 an interrupt may count as an instruction in user mode,
 * and as a branch: V. Weaver, D. Terpstra, S. Moore, "Non-Determinism and Overcount on Modern
 * Hardware Performance Counter Implementations", ISPASS 2013. So the upper bound grows by the
 * host's interrupts of that time. Nothing may be missing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "selftest/priv.h"

#define AROUND 2000 /* instructions of a worker around its work: system calls, its own loop */

uint64_t host_interrupts(void)
{
	unsigned long long n = 0;
	char line[256];
	FILE *f = fopen("/proc/stat", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "intr %llu", &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

int measure_begin(struct selftest *t, const vpmu_key_t *keys, size_t nr)
{
	struct vpmu_counting *list = NULL;
	size_t failed = 0;
	int ret = -ENOMEM;

	memcpy(t->keys, keys, nr * sizeof(*keys));
	t->nr_keys = nr;
	memset(t->value, 0, sizeof(t->value));
	for (unsigned int i = 0; i < NODE_NR; i++) {
		t->counting[i] = vpmu_counting_new(t->node[i], t->keys, nr, t->value[i]);
		if (!t->counting[i])
			goto fail;
		t->counting[i]->cpus = t->mask;
		t->counting[i]->next = list;
		list = t->counting[i];
	}
	t->interrupts = host_interrupts();
	ret = vpmu_backend_attach(list, &failed);
	if (!ret)
		return 0;
fail:
	for (unsigned int i = 0; i < NODE_NR; i++) {
		vpmu_counting_free(t->counting[i]);
		t->counting[i] = NULL;
	}
	selftest_give_up(t, "attaching", ret);
	return ret;
}

void measure_read(struct selftest *t)
{
	struct vpmu_counting *list = t->counting[NODE_NR - 1];

	vpmu_backend_flush(list);
	if (t->s->ops->read_list)
		t->s->ops->read_list(list);
	else
		for (; list; list = list->next)
			vpmu_backend_read(list);
}

void measure_end(struct selftest *t)
{
	if (!t->counting[0])
		return;
	vpmu_backend_detach(t->counting[NODE_NR - 1]);
	t->interrupts = host_interrupts() - t->interrupts;
	for (unsigned int i = 0; i < NODE_NR; i++) {
		vpmu_counting_free(t->counting[i]);
		t->counting[i] = NULL;
	}
}

int measure_partial(const struct selftest *t)
{
	for (unsigned int n = NODE_A; n <= NODE_B; n++)
		for (size_t i = 0; i < t->nr_keys; i++)
			if (t->value[n][i].partial)
				return -EAGAIN;
	return 0;
}

int measure_whole(struct selftest *t)
{
	expect_conserved(t);
	measure_end(t);
	return measure_partial(t);
}

uint64_t work_n(const struct selftest *t, enum work work)
{
	if (work == WORK_FAULTS)
		return 5000;
	return t->o->exact ? 500000 : 10000000;
}

uint64_t known_most(const struct selftest *t, const struct known *k, uint64_t count)
{
	if (!k->hardware)
		return count;
	return count + AROUND + (t->o->exact ? 0 : t->interrupts);
}

bool expect_known(struct selftest *t, unsigned int n, size_t i, const struct known *k,
		  uint64_t count, const char *where)
{
	const struct vpmu_value *v = &t->value[n][i];

	if (!v->supported)
		return selftest_expect(t, k->event, 1, 1, 0, "%s: it cannot be counted", where);
	if (v->running_ns < v->enabled_ns && t->nr_keys <= SELFTEST_KNOWN)
		return selftest_expect(
			t, k->event, v->enabled_ns, v->enabled_ns, v->running_ns,
			"%s: ns with a counter: others use the PMU; `vpmu check` names them",
			where);
	return selftest_expect(t, k->event, count, known_most(t, k, count), v->count, "%s%s", where,
			       v->partial ? ": partial" : "");
}

static int measure_compare(const struct vpmu_conservation *c, void *arg)
{
	char name[VPMU_EVENT_NAME_MAX];

	selftest_expect(arg, "hardware = charged", c->hardware, c->hardware, c->charged,
			"CPU %u, %s", c->pcpu, vpmu_event_name(c->key, name));
	return 0;
}

void expect_conserved(struct selftest *t)
{
	int ret = vpmu_backend_conservation(t->s, measure_compare, t);

	if (ret)
		selftest_give_up(t, "conservation", ret);
}

void expect_sum(struct selftest *t)
{
	char name[VPMU_EVENT_NAME_MAX];

	for (size_t i = 0; i < t->nr_keys; i++) {
		uint64_t sum = 0;

		for (unsigned int n = 0; n < NODE_ROOT; n++)
			sum += t->value[n][i].count;
		selftest_expect(t, "cgroups + others = host", sum, sum,
				t->value[NODE_ROOT][i].count, "%s",
				vpmu_event_name(t->keys[i], name));
	}
}
