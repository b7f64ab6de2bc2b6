// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sums of many nodes in one pass: each account's cells are read once and added to all nodes above
 * it. So a node's sum equals that of its parts even while CPUs charge. backend.c calls this. It
 * must neither fail nor allocate, because reading and detaching cannot fail.
 */
#include "cgroup/priv.h"

/*
 * Retry limit. A CPU that charges during a reading is read again, so that its reading is of one
 * moment; a CPU that never pauses would starve the reader. After that the reading spans the time it
 * takes to read the CPU's cells.
 */
#define TRIES 8

struct pass {
	const struct bpf_backend *k;
	unsigned int cpu;
	unsigned int nr;	      /* slots */
	unsigned int slot[SUM_SLOTS]; /* nr of them, ascending */
	unsigned int at[SUM_SLOTS];   /* by slot: its place in slot[] */
};

/* Add the charges of @n's own account on the pass's CPU. */
static void add_own(const struct pass *p, const struct knode *n, struct ksum *sum)
{
	const struct kp_account *a = account_at(p->k, n->account);
	const uint32_t lacks = a ? VPMU_LOAD(&a->lacks) : 0, missed = a ? VPMU_LOAD(&a->missed) : 0;
	const struct kp_cell *c = NULL;
	unsigned int chunk = KP_CHUNKS;

	for (unsigned int i = 0; i < p->nr; i++) {
		if (p->slot[i] >= SCHED_SLOT) {
			/* Only this thread writes them, and they are of no CPU. */
			if (a && p->cpu == p->k->nr_cpus) {
				const unsigned int f = p->slot[i] - SCHED_SLOT;
				const bool idle = f == VPMU_SCHED_IDLE;

				sum[i].total += a->sched[f];
				sum[i].time_ns += a->sched[idle ? KP_SCHED_IDLE : KP_SCHED_RAN];
				sum[i].lacks += idle ? (uint32_t)a->sched[KP_SCHED_IDLE_LOST]
						     : a->sched_lost;
			}
			continue;
		}
		if (p->slot[i] / KP_CHUNK != chunk) {
			chunk = p->slot[i] / KP_CHUNK;
			c = node_cell(p->k, p->cpu, n->account, chunk);
		}
		if (c)
			node_add_cell(c, p->slot[i], &sum[i]);
		sum[i].lacks += lacks;
		sum[i].missed += missed;
	}
}

static void aggregate_add(struct ksum *to, const struct ksum *sum)
{
	to->total += sum->total;
	to->time_ns += sum->time_ns;
	to->lost_ns += sum->lost_ns;
	to->lacks += sum->lacks;
	to->missed += sum->missed;
}

/* Add the charges of @n and everything below it to @sum, and store them in the requests for each
 * node. Recursion is as deep as tenants, VMs and vCPUs are. */
static void add_below(const struct pass *p, const struct knode *n, struct ksum *sum)
{
	struct ksum mine[SUM_SLOTS];

	for (unsigned int i = 0; i < p->nr; i++)
		mine[i] = (struct ksum){0};
	add_own(p, n, mine);
	for (const struct knode *c = n->child; c; c = c->next)
		add_below(p, c, mine);
	for (const struct sums *s = n->asked; s; s = s->same)
		for (size_t i = 0; i < s->nr; i++)
			s->key[i].pass = mine[p->at[s->key[i].slot]];
	for (unsigned int i = 0; i < p->nr; i++)
		aggregate_add(&sum[i], &mine[i]);
}

/* Returns true if a node above @n is requested, too. */
static bool aggregate_is_below(const struct knode *n)
{
	for (n = n->parent; n; n = n->parent)
		if (n->asked)
			return true;
	return false;
}

/* Returns true if @s wants the pass's CPU. */
static bool aggregate_has(const struct pass *p, const struct sums *s)
{
	return !s->cpus || (p->cpu < p->k->nr_cpus && s->cpus[p->cpu]);
}

static void read_cpu(const struct pass *p, const struct sums *list)
{
	const struct kp_cpu *st = cpu_state(p->k, p->cpu);
	struct ksum all[SUM_SLOTS] = {{0}}; /* discarded */
	const struct sums *s;
	uint64_t done;
	int tries = 0;

	do {
		done = __atomic_load_n(&st->done_ns, __ATOMIC_ACQUIRE);
		for (s = list; s; s = s->next)
			if (s == s->node->asked && !aggregate_is_below(s->node))
				add_below(p, s->node, all);
		fence_loads();
	} while (done != VPMU_LOAD(&st->last_ns) && ++tries < TRIES);
	for (s = list; s; s = s->next)
		for (size_t i = 0; i < s->nr && aggregate_has(p, s); i++)
			aggregate_add(&s->key[i].now, &s->key[i].pass);
}

static void find_slots(struct pass *p, const struct sums *list)
{
	bool asked[SUM_SLOTS] = {false};

	for (; list; list = list->next)
		for (size_t i = 0; i < list->nr; i++)
			asked[list->key[i].slot] = true;
	p->nr = 0;
	for (unsigned int i = 0; i < SUM_SLOTS; i++) {
		if (!asked[i])
			continue;
		p->at[i] = p->nr;
		p->slot[p->nr++] = i;
	}
}

void sums_take(const struct bpf_backend *k, struct sums *list)
{
	struct pass p = {.k = k};
	struct sums *s;

	find_slots(&p, list);
	for (s = list; s; s = s->next) {
		s->same = s->node->asked;
		s->node->asked = s;
		for (size_t i = 0; i < s->nr; i++)
			s->key[i].now = (struct ksum){0};
	}
	/* CPU nr_cpus is the daemon's own cells, which only this thread writes. */
	for (p.cpu = 0; p.cpu <= k->nr_cpus; p.cpu++)
		read_cpu(&p, list);
	for (s = list; s; s = s->next)
		s->node->asked = NULL;
}
