// SPDX-License-Identifier: GPL-2.0-or-later
/* Benchmarks of sampling: three samplers with different periods on one counter, against one. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench.h"
#include "vpmu/account.h"
#include "vpmu/alarm.h"
#include "vpmu/consumer.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/sampler.h"
#include "vpmu/emupmu.h"

#define WAIT (1ULL << 40) /* events: never, here */

static const uint64_t periods[] = {1000, 1500, 2300};

/* Two vCPUs of one VM in turn on one pCPU, all on one key: the alarms of each, and samplers of the
 * VM and the root. */
struct bed {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;
	struct vpmu_account *vm, *vcpu[2];
	struct vpmu_context ctx[2];
	unsigned int alarms, samplers;
	struct one {
		struct vpmu_consumer c;
		struct vpmu_alarm a;
		uint64_t period;
		uint64_t *told;
	} one[2][3];
	struct vpmu_sampler *s[2];
	uint64_t told; /* fires and samples */
};

static uint64_t fire(struct vpmu_alarm *a, uint64_t over)
{
	struct one *o = (struct one *)((char *)a - offsetof(struct one, a));

	++*o->told;
	return o->period;
}

static void sample(void *arg, const struct vpmu_sample *s)
{
	struct bed *b = arg;

	b->told += s->periods;
}

static int where(struct vpmu_context *ctx, struct vpmu_where *out)
{
	*out = (struct vpmu_where){.ip = 0x1000, .cpl = 3};
	return 0;
}

static void must(int ret)
{
	if (!ret)
		return;
	fprintf(stderr, "vpmu-bench: sampling: error %d\n", ret);
	exit(1);
}

/* @busy: periods that are used up all the time; else none ever is. */
static void bed_open(struct bed *b, unsigned int alarms, unsigned int samplers, bool busy)
{
	const vpmu_key_t key = vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR | VPMU_KEY_OS);

	*b = (struct bed){.host = vpmu_host_create(), .alarms = alarms, .samplers = samplers};
	must(b->host ? 0 : -1);
	must(vpmu_emupmu_init(&b->pmu, NULL));
	must(vpmu_pcpu_create(b->host, &b->pmu.pmu, 0, &b->p));
	must(vpmu_account_create(vpmu_host_root(b->host), NULL, &b->vm));
	for (int v = 0; v < 2; v++) {
		must(vpmu_account_create(b->vm, NULL, &b->vcpu[v]));
		must(vpmu_context_init(&b->ctx[v], b->vcpu[v], b->vm));
		b->ctx[v].where = where;
		must(vpmu_context_place(&b->ctx[v], b->p));
		vpmu_pcpu_switch(b->p, &b->ctx[v]);
		for (unsigned int i = 0; i < alarms; i++) {
			struct one *o = &b->one[v][i];

			o->period = busy ? periods[i] : WAIT;
			o->told = &b->told;
			o->a.fire = fire;
			must(vpmu_consumer_add(&o->c, b->vcpu[v], key, b->p));
			vpmu_alarm_set(&o->a, &b->ctx[v], &o->c, b->p, o->period);
		}
	}
	for (unsigned int i = 0; i < samplers; i++)
		must(vpmu_sampler_create(b->host,
					 &(struct vpmu_sampler_opts){
						 .account = i ? vpmu_host_root(b->host) : b->vm,
						 .key = key,
						 .period = busy ? periods[alarms + i] : WAIT,
						 .sample = sample,
						 .arg = b,
					 },
					 &b->s[i]));
}

static void bed_close(struct bed *b)
{
	for (unsigned int i = 0; i < b->samplers; i++)
		vpmu_sampler_destroy(b->s[i]);
	for (int v = 0; v < 2; v++)
		for (unsigned int i = 0; i < b->alarms; i++) {
			vpmu_alarm_clear(&b->one[v][i].a, b->p);
			vpmu_consumer_del(&b->one[v][i].c, b->p, NULL);
		}
	vpmu_pcpu_switch(b->p, NULL);
	for (int v = 0; v < 2; v++)
		vpmu_context_fini(&b->ctx[v]);
	vpmu_host_destroy(b->host);
}

/* To the next alarm, and answer it. */
static void run_overflow(void *arg, uint64_t n)
{
	struct bed *b = arg;
	struct vpmu_emu_tally *t = &b->pmu.own_tally;

	for (uint64_t i = 0; i < n; i++) {
		const struct vpmu_emu_alarm *a = &t->alarm[__builtin_ctz(t->armed)];

		vpmu_emu_add(t, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, vpmu_emu_alarm_left(t, a));
		vpmu_pcpu_overflow(b->p);
	}
}

static void run_switch(void *arg, uint64_t n)
{
	struct bed *b = arg;

	for (uint64_t i = 0; i < n; i++) {
		vpmu_emu_add(&b->pmu.own_tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 10);
		vpmu_pcpu_switch(b->p, &b->ctx[i & 1]);
	}
}

enum { OVERFLOW, OVERFLOW_ONE, SWITCH, SWITCH_ONE, CASES };

/* An overflow that is delivered to one or more, and a switch; each also with one consumer alone. */
static void report(const char *name, unsigned int alarms, unsigned int samplers)
{
	static struct bed busy, busy_one, calm, calm_one;
	struct bench_set set = {.nr = CASES,
				.c = {{.fn = run_overflow, .arg = &busy},
				      {.fn = run_overflow, .arg = &busy_one},
				      {.fn = run_switch, .arg = &calm},
				      {.fn = run_switch, .arg = &calm_one}}};
	double overflow, switched, told_ns;
	uint64_t told;

	bed_open(&busy, alarms, samplers, true);
	bed_open(&busy_one, 1, 0, true);
	bed_open(&calm, alarms, samplers, false);
	bed_open(&calm_one, 1, 0, false);
	bench_measure(&set);
	told = busy.told;
	run_overflow(&busy, 100000);
	told_ns = set.c[OVERFLOW].ns * 100000 / (double)(busy.told - told);
	overflow = bench_ratio(&set, OVERFLOW, OVERFLOW_ONE);
	switched = bench_ratio(&set, SWITCH, SWITCH_ONE);
	/* Both are in terms of one consumer; print its price as well, once. */
	if (alarms == 3) {
		bench_report_ns("sampling_overflow", &set, OVERFLOW_ONE, BENCH_CALL, 0,
				json_pack("{s:i}", "consumers", 1));
		bench_report_ns("sampling_switch", &set, SWITCH_ONE, BENCH_BLOCK, 0,
				json_pack("{s:i}", "consumers", 1));
	}
	bench_report(name, overflow > switched ? overflow : switched, "x one", 2, false,
		     json_pack("{s:i, s:i, s:f, s:f, s:f}", "alarms", alarms, "samplers", samplers,
			       "overflow_ratio", overflow, "switch_ratio", switched, "per_fire_ns",
			       told_ns));
	bench_free(&set);
	bed_close(&busy);
	bed_close(&busy_one);
	bed_close(&calm);
	bed_close(&calm_one);
}

/* The dearer of an overflow and a switch, three against one: three counters of one guest; and one
 * of the guest, with an operator's profiles of its VM and of the host. */
int bench_sampling(void)
{
	report("sampling", 3, 0);
	report("sampling_mixed", 1, 2);
	return 0;
}
