// SPDX-License-Identifier: GPL-2.0-or-later
/* The library alone: switches and consumers, on the soft machine's PMU. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "vpmu/rcu.h"
#include "vpmu/softpmu.h"

#define BATCHES 60
#define KEYS	4

static const enum vpmu_generic events[KEYS] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_CYCLES,
					       VPMU_EV_BRANCHES, VPMU_EV_LOADS};

static vpmu_key_t key(int k)
{
	return vpmu_key_generic(events[k], VPMU_KEY_USR | VPMU_KEY_OS);
}

/* A host with one pCPU, @vms VMs of two vCPUs each, a tenant per VM. */
struct bed {
	struct vpmu_host *host;
	struct vpmu_softpmu pmu;
	struct vpmu_pcpu *p;
	unsigned int vms;
	struct vm {
		struct vpmu_account *tenant, *vm, *vcpu[2];
		struct vpmu_context ctx[2];
	} * vm;
	struct vpmu_consumer *consumers;
	size_t nr_consumers;
	uint32_t *order; /* which VM runs next */
};

static void oom(void)
{
	fprintf(stderr, "vpmu-bench: out of memory\n");
	exit(1);
}

static void bed_open(struct bed *b, unsigned int vms)
{
	*b = (struct bed){.host = vpmu_host_create(), .vms = vms};
	b->vm = calloc(vms, sizeof(*b->vm));
	b->order = calloc(vms, sizeof(*b->order));
	if (!b->host || !b->vm || !b->order || vpmu_softpmu_init(&b->pmu, NULL) ||
	    vpmu_pcpu_create(b->host, &b->pmu.pmu, 0, &b->p))
		oom();
	for (unsigned int i = 0; i < vms; i++) {
		struct vm *vm = &b->vm[i];

		b->order[i] = i;
		if (vpmu_account_create(vpmu_host_root(b->host), NULL, &vm->tenant) ||
		    vpmu_account_create(vm->tenant, NULL, &vm->vm))
			oom();
		for (int v = 0; v < 2; v++)
			if (vpmu_account_create(vm->vm, NULL, &vm->vcpu[v]) ||
			    vpmu_context_init(&vm->ctx[v], vm->vcpu[v], vm->vm) ||
			    vpmu_context_place(&vm->ctx[v], b->p))
				oom();
	}
}

/* @per_vm consumers on each tenant, of the keys in turn. */
static void bed_consumers(struct bed *b, size_t per_vm)
{
	struct vpmu_consumer **c;
	struct vpmu_account **a;
	vpmu_key_t *k;

	b->nr_consumers = per_vm * b->vms;
	b->consumers = calloc(b->nr_consumers, sizeof(*b->consumers));
	c = calloc(b->nr_consumers, sizeof(*c));
	a = calloc(b->nr_consumers, sizeof(*a));
	k = calloc(b->nr_consumers, sizeof(*k));
	if (!b->consumers || !c || !a || !k)
		oom();
	for (size_t i = 0; i < b->nr_consumers; i++) {
		c[i] = &b->consumers[i];
		a[i] = b->vm[i / per_vm].tenant;
		k[i] = key((int)(i % per_vm % KEYS));
	}
	if (vpmu_consumer_add_many(c, a, k, b->nr_consumers, NULL))
		oom();
	free(c);
	free(a);
	free(k);
}

static void bed_close(struct bed *b)
{
	vpmu_pcpu_switch(b->p, NULL);
	for (size_t i = 0; i < b->nr_consumers; i++)
		if (i == 0) {
			struct vpmu_consumer **c = calloc(b->nr_consumers, sizeof(*c));

			if (!c)
				oom();
			for (size_t n = 0; n < b->nr_consumers; n++)
				c[n] = &b->consumers[n];
			vpmu_consumer_del_many(c, b->nr_consumers, NULL);
			free(c);
		}
	for (unsigned int i = 0; i < b->vms; i++)
		for (int v = 0; v < 2; v++)
			vpmu_context_fini(&b->vm[i].ctx[v]);
	vpmu_host_destroy(b->host);
	free(b->consumers);
	free(b->order);
	free(b->vm);
}

/* ---- switches ---- */

static void run_equal(void *arg, uint64_t n)
{
	struct bed *b = arg;

	for (uint64_t i = 0; i < n; i++)
		vpmu_pcpu_switch(b->p, &b->vm[0].ctx[i & 1]);
}

static void run_vms(void *arg, uint64_t n)
{
	struct bed *b = arg;
	unsigned int at = 0;

	for (uint64_t i = 0; i < n; i++) {
		vpmu_pcpu_switch(b->p, &b->vm[b->order[at]].ctx[0]);
		if (++at == b->vms)
			at = 0;
	}
}

/* What four consumers that each held a counter would pay: read it through the host PMU's read(),
 * and add. The second form reads the counters as memory, as the switch path does. */
struct bare {
	struct vpmu_softpmu *sp;
	__u64 total[2][KEYS], snap[KEYS];
};

static void run_bare(void *arg, uint64_t n)
{
	struct bare *b = arg;
	struct vpmu_hostpmu *pmu = &b->sp->pmu;

	for (uint64_t i = 0; i < n; i++)
		for (unsigned int k = 0; k < KEYS; k++)
			vpmu_charge(&b->total[i & 1][k], &b->snap[k], pmu->ops->read(pmu, k),
				    pmu->width_mask);
}

static void run_bare_mem(void *arg, uint64_t n)
{
	struct bare *b = arg;
	const struct vpmu_hostpmu *pmu = &b->sp->pmu;

	for (uint64_t i = 0; i < n; i++)
		for (unsigned int k = 0; k < KEYS; k++) {
			const struct vpmu_ctr_mem *m = &pmu->mem[k];

			vpmu_charge(&b->total[i & 1][k], &b->snap[k],
				    *m->part[0] + *m->part[1] + *m->part[2] - m->base,
				    pmu->width_mask);
			/* Each pass must happen. */
			__asm__ volatile("" ::: "memory");
		}
}

static void bare_init(struct bare *b)
{
	static struct vpmu_softpmu sp;

	*b = (struct bare){.sp = &sp};
	vpmu_softpmu_init(&sp, NULL);
	for (unsigned int k = 0; k < KEYS; k++)
		sp.pmu.ops->bind(&sp.pmu, k, key((int)k));
}

int bench_switch_equal(void)
{
	struct bed b;

	bed_open(&b, 1);
	bed_consumers(&b, KEYS);
	bench_report("switch_equal", bench_batch(run_equal, &b, BATCHES), "ns", 5, false,
		     json_pack("{s:i}", "keys", KEYS));
	bed_close(&b);
	return 0;
}

int bench_switch_4keys(void)
{
	double ns, bare_ns, again, mem_ns;
	struct bare bare;
	struct bed b;

	bed_open(&b, 2);
	bed_consumers(&b, KEYS);
	bare_init(&bare);
	bench_pair(run_vms, &b, run_bare, &bare, BATCHES, &ns, &bare_ns);
	bench_pair(run_vms, &b, run_bare_mem, &bare, BATCHES, &again, &mem_ns);
	ns = again < ns ? again : ns;
	bench_report("switch_4keys", ns, "ns", 0, false, json_pack("{s:i}", "keys", KEYS));
	bench_report("switch_4keys_ratio", ns / bare_ns, "x bare", 1.5, false,
		     json_pack("{s:f, s:f, s:f}", "bare_read_ns", bare_ns, "bare_memory_ns", mem_ns,
			       "ratio_to_bare_memory", ns / mem_ns));
	bed_close(&b);
	return 0;
}

static uint64_t rnd(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void shuffle(struct bed *b)
{
	uint64_t state = 0x76706d75;

	for (unsigned int i = b->vms - 1; i > 0; i--) {
		unsigned int j = (unsigned int)(rnd(&state) % (i + 1));
		uint32_t t = b->order[i];

		b->order[i] = b->order[j];
		b->order[j] = t;
	}
}

/*
 * "hot": two VMs of the many run in turn, as on a CPU with a busy pair; what else exists must not
 * matter. "all": every VM runs once per round, in random order: each switch finds the next VM's
 * account and context in no cache, which is memory's price and not ours.
 */
int bench_switch_scale(void)
{
	static const struct {
		unsigned int tenants;
		size_t per_tenant;
	} rows[] = {{2, 4}, {100, 4}, {10000, 4}, {10000, 100}};
	double least = 0, most = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		double hot, all;
		struct bed b;

		bed_open(&b, rows[i].tenants);
		bed_consumers(&b, rows[i].per_tenant);
		shuffle(&b);
		/* Warm all, then let two run. */
		run_vms(&b, b.vms);
		b.vms = 2;
		hot = bench_batch(run_vms, &b, BATCHES);
		b.vms = rows[i].tenants;
		all = bench_batch(run_vms, &b, BATCHES);
		least = i == 0 || hot < least ? hot : least;
		most = hot > most ? hot : most;
		bench_report("switch_scale", hot, "ns", 0, false,
			     json_pack("{s:i, s:I, s:f}", "tenants", (int)rows[i].tenants,
				       "consumers", (json_int_t)b.nr_consumers,
				       "all_in_random_order_ns", all));
		bed_close(&b);
	}
	bench_report("switch_scale_flat", most / least, "max/min", 1.25, false, NULL);
	return 0;
}

/* ---- consumers ---- */

struct one {
	struct bed *b;
	struct vpmu_account *a;
	struct vpmu_consumer c;
};

static void run_add_del(void *arg, uint64_t n)
{
	struct one *o = arg;

	for (uint64_t i = 0; i < n; i++) {
		vpmu_consumer_add(&o->c, o->a, key(0), o->b->p);
		vpmu_consumer_del(&o->c, o->b->p, NULL);
	}
}

static void run_read(void *arg, uint64_t n)
{
	struct one *o = arg;
	struct vpmu_value v;

	for (uint64_t i = 0; i < n; i++)
		vpmu_consumer_read(&o->c, &v);
}

static int consumers(const char *name, double goal, void (*run)(void *arg, uint64_t n), bool add)
{
	static const size_t rows[] = {1, 100, 10000, 100000};
	double least = 0, most = 0;
	char flat[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct one o = {0};
		struct bed b;
		double ns;

		bed_open(&b, 1);
		/* All of one key: compatible. The VM's vCPU 0 runs and has the guest counter. */
		b.nr_consumers = rows[i];
		b.consumers = calloc(rows[i], sizeof(*b.consumers));
		if (!b.consumers)
			oom();
		for (size_t c = 0; c < rows[i]; c++)
			if (vpmu_consumer_add(&b.consumers[c], c % 2 ? b.vm[0].tenant : b.vm[0].vm,
					      key(0), NULL))
				oom();
		vpmu_pcpu_switch(b.p, &b.vm[0].ctx[0]);
		o = (struct one){.b = &b, .a = b.vm[0].vcpu[0]};
		if (!add && vpmu_consumer_add(&o.c, o.a, key(0), b.p))
			oom();
		ns = bench_batch(run, &o, BATCHES);
		if (!add)
			vpmu_consumer_del(&o.c, b.p, NULL);
		least = i == 0 || ns < least ? ns : least;
		most = ns > most ? ns : most;
		bench_report(name, ns, "ns", goal, false,
			     json_pack("{s:I}", "consumers", (json_int_t)rows[i]));
		bed_close(&b);
	}
	snprintf(flat, sizeof(flat), "%s_flat", name);
	bench_report(flat, most / least, "max/min", 1.25, false, NULL);
	return 0;
}

int bench_consumer_add_del(void)
{
	return consumers("consumer_add_del", 100, run_add_del, true);
}

int bench_consumer_read(void)
{
	return consumers("consumer_read", 20, run_read, false);
}
