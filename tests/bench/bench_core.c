// SPDX-License-Identifier: GPL-2.0-or-later
/* Benchmarks of the library alone: switches and consumers, on the emulator's PMU. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "vpmu/account.h"
#include "vpmu/charge.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/emupmu.h"
#include "tests/random.h"

#define KEYS 4

static const enum vpmu_generic events[KEYS] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_CYCLES,
					       VPMU_EV_BRANCHES, VPMU_EV_LOADS};

static vpmu_key_t key(int k)
{
	return vpmu_key_generic(events[k], VPMU_KEY_USR | VPMU_KEY_OS);
}

/* A host with one pCPU, @vms VMs of two vCPUs each, a tenant per VM. */
struct bed {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;
	unsigned int vms;
	struct vm {
		struct vpmu_account *tenant, *vm, *vcpu[2];
		struct vpmu_context ctx[2];
	} * vm;
	struct vpmu_consumer *consumers;
	size_t nr_consumers;
	uint32_t *order; /* in which order the VMs run */
	unsigned int at; /* its next VM, where a batch does not run all */
};

static void bed_open(struct bed *b, unsigned int vms)
{
	*b = (struct bed){.host = vpmu_host_create(), .vms = vms};
	b->vm = calloc(vms, sizeof(*b->vm));
	b->order = calloc(vms, sizeof(*b->order));
	if (!b->host || !b->vm || !b->order || vpmu_emupmu_init(&b->pmu, NULL) ||
	    vpmu_pcpu_create(b->host, &b->pmu.pmu, 0, &b->p))
		bench_oom();
	for (unsigned int i = 0; i < vms; i++) {
		struct vm *vm = &b->vm[i];

		b->order[i] = i;
		if (vpmu_account_create(vpmu_host_root(b->host), NULL, &vm->tenant) ||
		    vpmu_account_create(vm->tenant, NULL, &vm->vm))
			bench_oom();
		for (int v = 0; v < 2; v++)
			if (vpmu_account_create(vm->vm, NULL, &vm->vcpu[v]) ||
			    vpmu_context_init(&vm->ctx[v], vm->vcpu[v], vm->vm) ||
			    vpmu_context_place(&vm->ctx[v], b->p))
				bench_oom();
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
		bench_oom();
	for (size_t i = 0; i < b->nr_consumers; i++) {
		c[i] = &b->consumers[i];
		a[i] = b->vm[i / per_vm].tenant;
		k[i] = key((int)(i % per_vm % KEYS));
	}
	if (vpmu_consumer_add_many(c, a, k, b->nr_consumers, NULL))
		bench_oom();
	free(c);
	free(a);
	free(k);
}

static void bed_close(struct bed *b)
{
	vpmu_pcpu_switch(b->p, NULL);
	if (b->nr_consumers) {
		struct vpmu_consumer **c = calloc(b->nr_consumers, sizeof(*c));

		if (!c)
			bench_oom();
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
	struct vpmu_emupmu *sp;
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
			vpmu_charge(&b->total[i & 1][k], &b->snap[k], *pmu->word[k],
				    pmu->width_mask);
			/* Each pass must happen. */
			__asm__ volatile("" ::: "memory");
		}
}

static void bare_init(struct bare *b)
{
	static struct vpmu_emupmu sp;

	*b = (struct bare){.sp = &sp};
	vpmu_emupmu_init(&sp, NULL);
	for (unsigned int k = 0; k < KEYS; k++)
		sp.pmu.ops->bind(&sp.pmu, k, key((int)k));
}

int bench_switch_equal(void)
{
	static struct bed b;
	struct bench_set set = {.nr = 1, .c = {{.fn = run_equal, .arg = &b}}};

	bed_open(&b, 1);
	bed_consumers(&b, KEYS);
	bench_measure(&set);
	bench_report_ns("switch_equal", &set, 0, BENCH_BLOCK, 5, json_pack("{s:i}", "keys", KEYS));
	bench_free(&set);
	bed_close(&b);
	return 0;
}

int bench_switch_4keys(void)
{
	static struct bare bare;
	static struct bed b;
	struct bench_set set = {.nr = 3,
				.c = {{.fn = run_vms, .arg = &b},
				      {.fn = run_bare, .arg = &bare},
				      {.fn = run_bare_mem, .arg = &bare}}};

	bed_open(&b, 2);
	bed_consumers(&b, KEYS);
	bare_init(&bare);
	bench_measure(&set);
	bench_report_ns("switch_4keys", &set, 0, BENCH_BLOCK, 0, json_pack("{s:i}", "keys", KEYS));
	bench_report("switch_4keys_ratio", bench_ratio(&set, 0, 1), "x bare", 1.5, false,
		     json_pack("{s:f, s:f, s:f}", "bare_read_ns", set.c[1].ns, "bare_memory_ns",
			       set.c[2].ns, "ratio_to_bare_memory", bench_ratio(&set, 0, 2)));
	bench_free(&set);
	bed_close(&b);
	return 0;
}

static void shuffle(struct bed *b)
{
	uint64_t state = 0x76706d75;

	for (unsigned int i = b->vms - 1; i > 0; i--) {
		unsigned int j = (unsigned int)(random_shift(&state) % (i + 1));
		uint32_t t = b->order[i];

		b->order[i] = b->order[j];
		b->order[j] = t;
	}
}

static void run_all(void *arg, uint64_t n)
{
	struct bed *b = arg;

	for (uint64_t i = 0; i < n; i++) {
		vpmu_pcpu_switch(b->p, &b->vm[b->order[b->at]].ctx[0]);
		if (++b->at == b->vms)
			b->at = 0;
	}
}

#define SCALES 4

/*
 * switch_scale: two VMs of the many run in turn, as on a CPU with a busy pair; what else exists
 * must not matter. The caches hold the same few lines whatever the size, so this is the cost of the
 * algorithm. switch_scale_cold: every VM runs once per round, in random order. Each switch finds
 * the next VM's account and context in no cache: this adds the price of memory, grows with the
 * machine's cache misses and has no goal.
 */
int bench_switch_scale(void)
{
	static const struct {
		unsigned int tenants;
		size_t per_tenant;
	} scale[SCALES] = {{2, 4}, {100, 4}, {10000, 4}, {10000, 100}};
	struct bench_set hot = {.nr = SCALES}, cold = {.nr = SCALES, .rounds = 300};
	static struct bed beds[SCALES];

	for (size_t i = 0; i < SCALES; i++) {
		struct bed *b = &beds[i];

		bed_open(b, scale[i].tenants);
		bed_consumers(b, scale[i].per_tenant);
		shuffle(b);
		run_all(b, b->vms); /* all have a cell on the pCPU */
		hot.c[i] = (struct bench_case){.fn = run_vms, .arg = b};
		cold.c[i] = (struct bench_case){.fn = run_all, .arg = b, .n = 2000};
		b->vms = 2;
	}
	bench_measure(&hot);
	for (size_t i = 0; i < SCALES; i++)
		beds[i].vms = scale[i].tenants;
	bench_measure(&cold);
	for (unsigned int i = 0; i < SCALES; i++)
		bench_report_ns("switch_scale", &hot, i, BENCH_BLOCK, 0,
				json_pack("{s:i, s:I}", "tenants", (int)scale[i].tenants,
					  "consumers", (json_int_t)beds[i].nr_consumers));
	bench_report("switch_scale_flat", bench_flat(&hot, 0, SCALES), "max/min", 1.25, false,
		     NULL);
	for (unsigned int i = 0; i < SCALES; i++)
		bench_report_ns("switch_scale_cold", &cold, i, BENCH_BLOCK, 0,
				json_pack("{s:i, s:I}", "tenants", (int)scale[i].tenants,
					  "consumers", (json_int_t)beds[i].nr_consumers));
	bench_free(&hot);
	bench_free(&cold);
	for (size_t i = 0; i < SCALES; i++)
		bed_close(&beds[i]);
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

#define ADD_DEL_BATCH 100

/* @add: measure adding and deleting; else reading. @goal: in @unit. */
static int consumers(const char *name, bool add, enum bench_unit unit, double goal)
{
	static const size_t others[SCALES] = {1, 100, 10000, 100000};
	static struct bed beds[SCALES];
	static struct one ones[SCALES];
	struct bench_set set = {.nr = SCALES};
	char flat[64];

	for (size_t i = 0; i < SCALES; i++) {
		struct bed *b = &beds[i];
		struct one *o = &ones[i];

		bed_open(b, 1);
		vpmu_pcpu_switch(b->p, &b->vm[0].ctx[0]);
		*o = (struct one){.b = b, .a = b->vm[0].vcpu[0]};
		/* All of one key: compatible. The VM's vCPU 0 runs and has the guest counter. */
		b->nr_consumers = others[i];
		b->consumers = calloc(others[i], sizeof(*b->consumers));
		if (!b->consumers)
			bench_oom();
		for (size_t c = 0; c < others[i]; c++)
			if (vpmu_consumer_add(&b->consumers[c],
					      c % 2 ? b->vm[0].tenant : b->vm[0].vm, key(0), NULL))
				bench_oom();
		if (!add && vpmu_consumer_add(&o->c, o->a, key(0), b->p))
			bench_oom();
		set.c[i] =
			add ? (struct bench_case){.fn = run_add_del, .arg = o, .n = ADD_DEL_BATCH}
			    : (struct bench_case){.fn = run_read, .arg = o};
	}
	bench_measure(&set);
	for (unsigned int i = 0; i < SCALES; i++)
		bench_report_ns(name, &set, i, unit, goal,
				json_pack("{s:I}", "consumers", (json_int_t)others[i]));
	snprintf(flat, sizeof(flat), "%s_flat", name);
	bench_report(flat, bench_flat(&set, 0, SCALES), "max/min", 1.25, false, NULL);
	bench_free(&set);
	for (size_t i = 0; i < SCALES; i++) {
		if (!add)
			vpmu_consumer_del(&ones[i].c, beds[i].p, NULL);
		bed_close(&beds[i]);
	}
	return 0;
}

int bench_consumer_add_del(void)
{
	return consumers("consumer_add_del", true, BENCH_XCHG, 25);
}

int bench_consumer_read(void)
{
	return consumers("consumer_read", false, BENCH_CALL, 15);
}
