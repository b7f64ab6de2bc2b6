// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Alarms against a plain account: vCPUs run, switch, migrate and rotate at random, with PMUs of
 * every kind; each alarm has fired floor(counted / period) times at every step.
 */
#include "sampling_bed.h"

#define KEYS  4
#define TICKS 12

static const enum vpmu_generic prop_events[KEYS] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_LOADS,
						    VPMU_EV_CYCLES, VPMU_EV_BRANCHES};

struct prop {
	uint64_t rng;
	struct tick t[TICKS];
	int on[BED_PCPUS];    /* vCPU that runs, -1 */
	int where[BED_VCPUS]; /* pCPU it is placed on */
	bool exact;	      /* the PMU is on time, instructions count 1 */
	uint64_t size;
	const char *name;
};

static void prop_run(struct prop *x, int p, uint64_t n)
{
	int v = x->on[p];

	n = (n + x->size - 1) / x->size * x->size;
	for (int i = 0; v >= 0 && i < TICKS; i++) {
		struct tick *t = &x->t[i];

		if (t->set && t->vcpu == v && counted(&b, p, t->key)) {
			t->at += n;
			t->want = t->at / t->period;
		}
	}
	engine_run(&b, p, v, n, x->size);
}

static void prop_tick(struct prop *x, struct tick *t)
{
	int v = (int)(t - x->t) % BED_VCPUS;
	struct vpmu_pcpu *p = b.p[x->where[v]];

	if (!t->set)
		tick_add(t, &b, p, v, vpmu_key_generic(prop_events[rnd(&x->rng, KEYS)], GUEST),
			 1 + rnd(&x->rng, rnd(&x->rng, 2) ? 300 : 20000));
	else if (rnd(&x->rng, 3))
		tick_del(t, p);
	else
		tick_set(t, &b, p);
}

static void prop_step(struct prop *x)
{
	int p = (int)rnd(&x->rng, BED_PCPUS), v = (int)rnd(&x->rng, BED_VCPUS), w = x->where[v];

	switch (rnd(&x->rng, 8)) {
	case 0: /* migrate */
		if (x->on[w] == v) {
			vpmu_pcpu_switch(b.p[w], NULL);
			x->on[w] = -1;
		}
		cr_assert_eq(vpmu_context_place(&b.ctx[v], b.p[p]), 0);
		x->where[v] = p;
		break;
	case 1:
	case 2:
		vpmu_pcpu_switch(b.p[w], &b.ctx[v]);
		x->on[w] = v;
		break;
	case 3:
		prop_tick(x, &x->t[rnd(&x->rng, TICKS)]);
		break;
	case 4:
		vpmu_pcpu_tick(b.p[p]);
		break;
	case 5:
		if (rnd(&x->rng, 2))
			vpmu_pcpu_flush(b.p[p]);
		else
			vpmu_pcpu_overflow(b.p[p]);
		break;
	default:
		/* Unwatched counters of 8 bits must be read in time. */
		prop_run(x, p, rnd(&x->rng, 100));
		if (b.pmu[p].pmu.width_mask == 255)
			vpmu_pcpu_flush(b.p[p]);
		break;
	}
}

static void prop_check(const struct prop *x, unsigned int history, int step)
{
	for (int i = 0; i < TICKS; i++) {
		const struct tick *t = &x->t[i];

		if (!t->set)
			continue;
		cr_assert_eq(t->fires, t->want,
			     "%s: history %u step %d alarm %d period %lu counted %lu: %lu fires",
			     x->name, history, step, i, t->period, t->at, t->fires);
		cr_assert(!x->exact || !t->over, "%s: history %u step %d: late", x->name, history,
			  step);
	}
}

enum kind {
	EXACT,
	NARROW, /* counters of 8 bits */
	BIG,	/* instructions that count 7 each */
	EARLY,
	LATE,
	NEVER, /* no alarms */
	ONE    /* one counter for all keys */
};

static void prop_history(unsigned int history, enum kind kind)
{
	struct vpmu_emupmu_opts opts = {.gp = 2, .fixed = 1, .no_default = true};
	static const char *const names[] = {"exact", "narrow", "big", "early",
					    "late",  "never",  "one"};
	struct prop x = {.name = names[kind],
			 .rng = history * 1000003ULL + (uint64_t)kind,
			 .on = {-1, -1},
			 .where = {0, 1, 0, 1},
			 .exact = kind == EXACT || kind == NARROW || kind == EARLY || kind == ONE,
			 .size = kind == BIG ? 7 : 1};

	opts.width = kind == NARROW ? 8 : 48;
	if (kind == ONE) {
		opts.gp = 1;
		opts.fixed = 0;
	}
	engine_init(&b, &opts);
	if (kind == EARLY || kind == LATE || kind == NEVER)
		odd(&b, kind == EARLY ? arm_early : kind == LATE ? arm_late : NULL);
	for (int step = 0; step < 1500; step++) {
		prop_step(&x);
		if (kind == LATE || kind == NEVER) /* late: all are delivered by a flush */
			for (int p = 0; p < BED_PCPUS; p++)
				vpmu_pcpu_flush(b.p[p]);
		prop_check(&x, history, step);
	}
	bed_conserved(&b);
	ticks_end(&b, x.t, TICKS);
	bed_fini(&b);
}

Test(alarm_prop, of_every_kind_of_pmu)
{
	for (enum kind kind = EXACT; kind <= ONE; kind++)
		for (unsigned int h = 0; h < 30; h++)
			prop_history(h, kind);
}
