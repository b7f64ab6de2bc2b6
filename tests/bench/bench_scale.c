// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Benchmarks of libvpmu's core with many VMs: more keys than counters, control calls on a tenant of
 * 10,000 VMs, how long a safe point lasts in that time, and the memory of accounts. Public calls
 * only.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "vpmu/account.h"
#include "vpmu/conservation.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/hostpmu.h"
#include "vpmu/lbr.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"

#define CTRS 8

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		bench_oom();
	return p;
}

/* ---- a PMU of eight equal counters that are memory ---- */

struct words {
	struct vpmu_hostpmu pmu; /* first */
	uint64_t value[CTRS], clock_ns;
	const uint64_t *word[CTRS];
};

static uint32_t any(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	return (1u << CTRS) - 1;
}

static enum vpmu_quality exact(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	return VPMU_Q_EXACT;
}

static int words_bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	return 0;
}

static void words_unbind(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
}

static uint64_t words_read(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	return ((struct words *)pmu)->value[ctr];
}

static uint64_t words_now(const struct vpmu_hostpmu *pmu)
{
	return ((const struct words *)pmu)->clock_ns;
}

static const struct vpmu_hostpmu_ops words_ops = {.name = "words",
						  .eligible = any,
						  .quality = exact,
						  .bind = words_bind,
						  .unbind = words_unbind,
						  .read = words_read,
						  .now = words_now};

static void words_init(struct words *w)
{
	*w = (struct words){.pmu = {.ops = &words_ops, .nr_ctrs = CTRS, .width_mask = UINT64_MAX}};
	for (int i = 0; i < CTRS; i++)
		w->word[i] = &w->value[i];
	w->pmu.word = w->word;
	w->pmu.clock_ns = &w->clock_ns;
}

static vpmu_key_t raw(unsigned int i)
{
	return vpmu_key_make(VPMU_SPACE_INTEL, (uint16_t)(0x80 + i),
			     VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST);
}

/* ---- more keys than counters ---- */

#define PAIR_KEYS 64

/* Two VMs, both with the same keys. */
struct pair {
	struct vpmu_host *host;
	struct words w;
	struct vpmu_pcpu *p;
	struct vpmu_account *vm[2], *vcpu[2];
	struct vpmu_context ctx[2];
	struct vpmu_consumer c[2 * PAIR_KEYS], *list[2 * PAIR_KEYS];
	size_t n;
};

static void pair_open(struct pair *x, unsigned int keys)
{
	struct vpmu_account *a[2 * PAIR_KEYS];
	vpmu_key_t key[2 * PAIR_KEYS];

	*x = (struct pair){.host = vpmu_host_create()};
	words_init(&x->w);
	if (!x->host || vpmu_pcpu_create(x->host, &x->w.pmu, 0, &x->p))
		bench_oom();
	for (int v = 0; v < 2; v++) {
		if (vpmu_account_create(vpmu_host_root(x->host), NULL, &x->vm[v]) ||
		    vpmu_account_create(x->vm[v], NULL, &x->vcpu[v]) ||
		    vpmu_context_init(&x->ctx[v], x->vcpu[v], x->vm[v]) ||
		    vpmu_context_place(&x->ctx[v], x->p))
			bench_oom();
		for (unsigned int k = 0; k < keys; k++, x->n++) {
			x->list[x->n] = &x->c[x->n];
			a[x->n] = x->vm[v];
			key[x->n] = raw(k);
		}
	}
	if (vpmu_consumer_add_many(x->list, a, key, x->n, NULL))
		bench_oom();
}

static void pair_close(struct pair *x)
{
	vpmu_pcpu_switch(x->p, NULL);
	vpmu_consumer_del_many(x->list, x->n, NULL);
	for (int v = 0; v < 2; v++)
		vpmu_context_fini(&x->ctx[v]);
	vpmu_host_destroy(x->host);
}

static void run_pair(void *arg, uint64_t n)
{
	struct pair *x = arg;

	for (uint64_t i = 0; i < n; i++)
		vpmu_pcpu_switch(x->p, &x->ctx[i & 1]);
}

int bench_switch_many_keys(void)
{
	static const unsigned int keys[3] = {8, 16, 64};
	static struct pair pair[3];
	struct bench_set set = {.nr = 3};

	for (unsigned int i = 0; i < 3; i++) {
		pair_open(&pair[i], keys[i]);
		run_pair(&pair[i], 100);
		set.c[i] = (struct bench_case){.fn = run_pair, .arg = &pair[i]};
	}
	bench_measure(&set);
	for (unsigned int i = 0; i < 3; i++) {
		char name[32];

		snprintf(name, sizeof(name), "switch_%ukeys_8ctrs", keys[i]);
		bench_report_ns(name, &set, i, BENCH_BLOCK, 0, NULL);
		if (!i)
			continue;
		snprintf(name, sizeof(name), "switch_%ukeys_8ctrs_ratio", keys[i]);
		bench_report(name, bench_ratio(&set, i, 0), "x 8 keys", 2, false, NULL);
	}
	bench_free(&set);
	for (unsigned int i = 0; i < 3; i++)
		pair_close(&pair[i]);
	return 0;
}

/* ---- a tenant of many VMs ---- */

#define VMS	  10000
#define PCPUS_MAX 16
#define KEYS	  8

/* One tenant. Each VM has one vCPU, which has been on every pCPU and is on one now. */
struct crowd {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu[PCPUS_MAX];
	struct vpmu_pcpu *p[PCPUS_MAX];
	unsigned int pcpus;
	struct vpmu_account *tenant, *vm[VMS], *vcpu[VMS];
	struct vpmu_context ctx[VMS];
	struct vpmu_consumer c[VMS * KEYS], *list[VMS * KEYS];
	struct vpmu_account *acc[VMS * KEYS];
	vpmu_key_t key[VMS * KEYS];
	size_t n;
};

static vpmu_key_t crowd_key(size_t k)
{
	static const enum vpmu_generic events[] = {
		VPMU_EV_INSTRUCTIONS,	VPMU_EV_CYCLES, VPMU_EV_REF_CYCLES, VPMU_EV_BRANCHES,
		VPMU_EV_BRANCHES_TAKEN, VPMU_EV_LOADS,	VPMU_EV_STORES};

	return k < 7 ? vpmu_key_generic(events[k], VPMU_KEY_USR | VPMU_KEY_OS)
		     : vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR);
}

static void crowd_pcpus(struct crowd *x, unsigned int pcpus)
{
	const struct vpmu_emupmu_opts opts = {.gp = 8, .no_default = true};

	*x = (struct crowd){.host = vpmu_host_create(), .pcpus = pcpus};
	if (!x->host || vpmu_account_create(vpmu_host_root(x->host), NULL, &x->tenant))
		bench_oom();
	for (unsigned int i = 0; i < pcpus; i++)
		if (vpmu_emupmu_init(&x->pmu[i], &opts) ||
		    vpmu_pcpu_create(x->host, &x->pmu[i].pmu, i, &x->p[i]))
			bench_oom();
}

static void crowd_vms(struct crowd *x)
{
	for (unsigned int i = 0; i < VMS; i++) {
		if (vpmu_account_create(x->tenant, NULL, &x->vm[i]) ||
		    vpmu_account_create(x->vm[i], NULL, &x->vcpu[i]) ||
		    vpmu_context_init(&x->ctx[i], x->vcpu[i], x->vm[i]))
			bench_oom();
		for (unsigned int p = 0; p < x->pcpus; p++)
			if (vpmu_context_place(&x->ctx[i], x->p[(i + p) % x->pcpus]))
				bench_oom();
	}
}

/* @keys consumers of the tenant, or of each VM. @one: of the tenant as often as there are VMs. */
static void crowd_attach(struct crowd *x, size_t keys, bool each, bool one)
{
	x->n = each || one ? VMS * keys : keys;
	for (size_t i = 0; i < x->n; i++) {
		x->list[i] = &x->c[i];
		x->c[i] = (struct vpmu_consumer){0};
		x->acc[i] = each ? x->vm[i / keys] : x->tenant;
		x->key[i] = crowd_key(i % keys);
	}
	if (vpmu_consumer_add_many(x->list, x->acc, x->key, x->n, NULL))
		bench_oom();
}

static void crowd_detach(struct crowd *x)
{
	vpmu_consumer_del_many(x->list, x->n, NULL);
	x->n = 0;
}

static void crowd_close(struct crowd *x)
{
	for (unsigned int p = 0; p < x->pcpus; p++)
		vpmu_pcpu_switch(x->p[p], NULL);
	for (unsigned int i = 0; i < VMS; i++)
		if (x->ctx[i].own)
			vpmu_context_fini(&x->ctx[i]);
	vpmu_host_destroy(x->host);
	free(x);
}

#define TENANT_RUNS 101

int bench_tenant(void)
{
	static double attach[TENANT_RUNS], read[TENANT_RUNS], detach[TENANT_RUNS];
	struct crowd *x = zeroed(1, sizeof(*x));
	struct vpmu_value v;

	crowd_pcpus(x, PCPUS_MAX);
	crowd_vms(x);
	for (size_t i = 0; i < TENANT_RUNS; i++) {
		double at = bench_thread_ns();

		crowd_attach(x, KEYS, false, false);
		attach[i] = bench_thread_ns() - at;
		at = bench_thread_ns();
		vpmu_host_sync(x->host);
		for (size_t k = 0; k < x->n; k++)
			vpmu_consumer_read(&x->c[k], &v);
		read[i] = bench_thread_ns() - at;
		at = bench_thread_ns();
		crowd_detach(x);
		detach[i] = bench_thread_ns() - at;
		for (unsigned int p = 0; p < x->pcpus; p++)
			vpmu_pcpu_switch(x->p[p], &x->ctx[(p + 1) % x->pcpus + i * x->pcpus]);
	}
	bench_report("attach_tenant", median(attach, TENANT_RUNS) / 1e6, "ms", 1, false, NULL);
	bench_report("read_tenant", median(read, TENANT_RUNS) / 1e6, "ms", 1, false, NULL);
	bench_report("detach_tenant", median(detach, TENANT_RUNS) / 1e6, "ms", 1, false, NULL);
	crowd_close(x);
	return 0;
}

/* ---- memory ---- */

static double heap(void)
{
	struct mallinfo2 m;

	urcu_memb_barrier();
	urcu_memb_barrier();
	m = mallinfo2();
	return (double)(m.uordblks + m.hblkhd);
}

/*
 * What malloc has given out for accounts and their counts, its own bytes per block included. The
 * consumers are not accounts' memory: what as many of them take on a single account is taken off.
 */
int bench_account_memory(void)
{
	struct crowd *x = zeroed(1, sizeof(*x)), *y = zeroed(1, sizeof(*y));
	double before, none, some, consumers;

	crowd_pcpus(x, PCPUS_MAX);
	before = heap();
	crowd_vms(x);
	none = heap() - before;
	bench_report("account_memory_none", none / (1 << 20), "MiB", 12, false,
		     json_pack("{s:i, s:i}", "vms", VMS, "pcpus", PCPUS_MAX));
	crowd_attach(x, KEYS, true, false);
	some = heap() - before;
	crowd_pcpus(y, PCPUS_MAX);
	before = heap();
	crowd_attach(y, KEYS, false, true);
	consumers = heap() - before;
	bench_report("account_memory_8keys", (some - consumers) / (1 << 20), "MiB", 32, false,
		     json_pack("{s:i, s:i, s:f}", "vms", VMS, "pcpus", PCPUS_MAX, "consumers_mib",
			       consumers / (1 << 20)));
	crowd_detach(y);
	crowd_close(y);
	crowd_detach(x);
	crowd_close(x);
	return 0;
}

/* ---- safe points ---- */

#define SAFE_PCPUS 8
#define SAFE_RUNS  9

/* One thread owns all pCPUs. It measures its own CPU time, so being preempted does not count. */
struct owner {
	struct crowd *x;
	int stop;      /* atomic */
	uint64_t most; /* atomic: the longest vpmu_pcpu_poll since it was set to 0, in ns */
	uint64_t polls;
};

static void *own(void *arg)
{
	struct owner *o = arg;
	struct crowd *x = o->x;
	unsigned int vm = 0;

	urcu_memb_register_thread();
	for (unsigned int p = 0; p < x->pcpus; p++)
		vpmu_pcpu_online(x->p[p]);
	while (!__atomic_load_n(&o->stop, __ATOMIC_ACQUIRE)) {
		for (unsigned int p = 0; p < x->pcpus; p++) {
			double at;
			uint64_t ns;

			/* The vCPU that is placed here. */
			vpmu_pcpu_switch(x->p[p], &x->ctx[vm * x->pcpus + (p + 1) % x->pcpus]);
			vpmu_emu_add(x->pmu[p].tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 100);
			x->pmu[p].own_clock_ns += 100;
			at = bench_thread_ns();
			vpmu_pcpu_poll(x->p[p]);
			ns = (uint64_t)(bench_thread_ns() - at);
			if (ns > __atomic_load_n(&o->most, __ATOMIC_RELAXED))
				__atomic_store_n(&o->most, ns, __ATOMIC_RELAXED);
		}
		vm = (vm + 1) % (VMS / x->pcpus);
	}
	for (unsigned int p = 0; p < x->pcpus; p++) {
		vpmu_pcpu_switch(x->p[p], NULL);
		vpmu_pcpu_offline(x->p[p]);
	}
	urcu_memb_unregister_thread();
	return NULL;
}

static int count_row(const struct vpmu_conservation *c, void *arg)
{
	++*(unsigned int *)arg;
	return 0;
}

static const char *const asked[] = {
	"attach_tenant", "attach_each_vm", "read", "list", "conservation", "lbr", "detach_each_vm"};
#define ASKED (sizeof(asked) / sizeof(asked[0]))

static void ask(struct crowd *x, size_t what)
{
	struct vpmu_consumer c = {0};
	struct vpmu_sharing sharing;
	struct vpmu_value v;
	unsigned int rows = 0;

	switch (what) {
	case 0:
		vpmu_consumer_add(&c, x->tenant, crowd_key(0), NULL);
		vpmu_consumer_del(&c, NULL, NULL);
		break;
	case 1:
		crowd_attach(x, KEYS, true, false);
		break;
	case 2:
		vpmu_host_sync(x->host);
		for (size_t i = 0; i < x->n; i++)
			vpmu_consumer_read(&x->c[i], &v);
		break;
	case 3:
		vpmu_host_sharing(x->host, &sharing);
		break;
	case 4:
		vpmu_host_conservation(x->host, count_row, &rows);
		break;
	case 5:
		if (!vpmu_lbr_attach(x->tenant, VPMU_LBR_TYPES | VPMU_LBR_USR))
			vpmu_lbr_detach(x->tenant);
		break;
	default:
		crowd_detach(x);
	}
}

/* The longest safe point while a control call goes on: the median of several runs, so that a single
 * interrupt in one of them does not count. Worst of all kinds of calls. */
int bench_safe_point(void)
{
	struct crowd *x = zeroed(1, sizeof(*x));
	double most[ASKED][SAFE_RUNS], worst = 0;
	struct owner o = {.x = x};
	json_t *parts = json_object();
	pthread_t t;

	crowd_pcpus(x, SAFE_PCPUS);
	crowd_vms(x);
	if (pthread_create(&t, NULL, own, &o))
		bench_oom();
	for (size_t run = 0; run < SAFE_RUNS; run++) {
		for (size_t what = 0; what < ASKED; what++) {
			__atomic_store_n(&o.most, 0, __ATOMIC_RELAXED);
			ask(x, what);
			most[what][run] = (double)__atomic_load_n(&o.most, __ATOMIC_RELAXED);
		}
	}
	__atomic_store_n(&o.stop, 1, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	for (size_t what = 0; what < ASKED; what++) {
		double us = median(most[what], SAFE_RUNS) / 1e3;

		json_object_set_new(parts, asked[what], json_real(us));
		worst = us > worst ? us : worst;
	}
	bench_report("safe_point_max", worst, "us", 100, false, parts);
	crowd_close(x);
	return 0;
}
