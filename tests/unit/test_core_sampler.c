// SPDX-License-Identifier: GPL-2.0-or-later
/* Operators' samplers: of any account, on the counter everybody shares. */
#include "sampling_bed.h"
#include "vpmu/lbr.h"

static void setup(void)
{
	engine_init(&b, NULL);
}

static struct prof f[VPMU_SAMPLERS_MAX]; /* of the test that runs */
static struct tick t[3];

static void teardown(void)
{
	for (int i = 0; i < VPMU_SAMPLERS_MAX; i++)
		prof_close(&f[i]);
	ticks_end(&b, t, 3);
	bed_teardown();
}

TestSuite(sampler, .init = setup, .fini = teardown);

/* ---- sharing ---- */

/* Three of the vCPU's own, and samplers of VM, tenant and root, with a consumer besides. */
Test(sampler, six_periods_one_counter)
{
	static const uint64_t period[] = {100, 70, 1001};
	struct vpmu_consumer *c;

	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(prof_open(&f[0], &b, b.vm, INSNS, 150), 0);
	cr_assert_eq(prof_open(&f[1], &b, b.tenant, INSNS, 77), 0);
	cr_assert_eq(prof_open(&f[2], &b, vpmu_host_root(b.host), INSNS, 4096), 0);
	c = bed_count(&b, b.tenant, INSNS);
	for (int i = 0; i < 3; i++)
		tick_add(&t[i], &b, b.p[0], 0, INSNS, period[i]);
	engine_run(&b, 0, 0, 50000, 1);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(t[i].fires, 50000 / period[i]);
		cr_assert_eq(t[i].over, 0);
		cr_assert_eq(f[i].samples[0], 50000 / f[i].period, "%lu", f[i].samples[0]);
		cr_assert_eq(f[i].calls, f[i].samples[0]);
		cr_assert_eq(f[i].ip, 50000 / f[i].period * f[i].period, "where it was");
	}
	cr_assert_eq(b.pmu[0].ctr[0].bound + b.pmu[0].ctr[1].bound + b.pmu[0].ctr[2].bound +
			     b.pmu[0].ctr[3].bound + b.pmu[0].ctr[4].bound,
		     1, "7 consumers, 6 of them sample: 1 counter");
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(bed_read(c).count, 50000);
	for (int i = 0; i < 3; i++) {
		struct vpmu_value v;

		vpmu_sampler_read(f[i].s, &v);
		cr_assert_eq(v.count, 50000);
		tick_del(&t[i], b.p[0]);
	}
}

/* Distances are of the account and the pCPU, for any of the account's vCPUs there. */
Test(sampler, distances_are_per_pcpu)
{
	cr_assert_eq(prof_open(f, &b, b.vm, INSNS, 1000), 0);
	cr_assert_eq(prof_open(&f[1], &b, b.vcpu[2], INSNS, 100), 0);
	for (int i = 0; i < 40; i++) {
		for (int v = 0; v < BED_VCPUS; v++) {
			vpmu_pcpu_switch(b.p[v % 2], &b.ctx[v]);
			engine_run(&b, v % 2, v, v == 1 ? 33 : 61, 1);
		}
		vpmu_pcpu_switch(b.p[0], NULL);
		engine_run(&b, 0, -1, 500, 1);
	}
	cr_assert_eq(f->samples[0], 40 * 122 / 1000);
	cr_assert_eq(f->samples[1], 40 * (33 + 61) / 1000);
	cr_assert_eq(f[1].samples[0], 40 * 61 / 100);
	cr_assert_eq(f[1].samples[1], 0);
}

/* vCPUs that are only sampled as their VM are equal: nothing is read, nothing armed. */
Test(sampler, equal_contexts_stay_equal)
{
	odd(&b, arm_counted);
	cr_assert_eq(prof_open(f, &b, b.vm, INSNS, 1000), 0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	odd_arms = odd_reads = 0;
	for (int i = 0; i < 100; i++) {
		engine_run(&b, 0, i % 2 * 2, 9, 1);
		vpmu_pcpu_switch(b.p[0], &b.ctx[i % 2 ? 0 : 2]);
	}
	cr_assert_eq(odd_arms, 0);
	cr_assert_eq(odd_reads, 0);
	engine_run(&b, 0, 0, 99, 1);
	cr_assert_eq(f->samples[0], 0);
	engine_run(&b, 0, 0, 1, 1);
	cr_assert_eq(f->samples[0], 1, "900 + 99 + 1");
	cr_assert_eq(f->ctx, &b.ctx[0]);
}

/* ---- the content of a sample ---- */

Test(sampler, sample_fields)
{

	cr_assert_eq(
		prof_open(f, &b, vpmu_host_root(b.host),
			  vpmu_key_generic(VPMU_EV_LOADS, VPMU_KEY_USR | VPMU_KEY_OS |
								  VPMU_KEY_HOST | VPMU_KEY_GUEST),
			  10),
		0);
	bed_own(&b, 1, INSNS);
	vpmu_pcpu_switch(b.p[1], &b.ctx[1]);
	engine_run(&b, 1, 1, 25, 5);
	cr_assert_eq(f->calls, 2);
	cr_assert_eq(f->ctx, &b.ctx[1]);
	cr_assert_eq(f->pcpu, 1);
	cr_assert_eq(f->ip, 20);
	cr_assert_eq(f->time_ns, 20);
	cr_assert_eq(f->periods, 1);
	cr_assert_eq(f->over, 0);
	engine_run(&b, 1, 1, 40, 40);
	cr_assert_eq(f->calls, 3);
	cr_assert_eq(f->over, 5);
	cr_assert_eq(f->periods, 4, "one instruction counted 40: 25 + 40 = 6 periods and 5");
	b.ctx[1].where = NULL;
	engine_run(&b, 1, 1, 5, 5);
	cr_assert_eq(f->calls, 4);
	cr_assert_eq(f->unknown, 1);
	cr_assert_eq(f->ip, 0);
	/* The host itself. */
	vpmu_pcpu_switch(b.p[1], NULL);
	vpmu_emu_add(&b.pmu[1].own_tally, VPMU_EMU_HOST, VPMU_EMU_LOADS, 10);
	vpmu_pcpu_overflow(b.p[1]);
	cr_assert_eq(f->calls, 5);
	cr_assert_neq(f->ctx, NULL);
	cr_assert_eq(f->ctx->own, vpmu_host_other(b.host));
	cr_assert_eq(f->unknown, 2);
}

struct branch {
	unsigned int calls, with;
	uint64_t from;
	enum vpmu_lbr_user user;
	const struct vpmu_context *ctx;
};

static void sample_branch(void *arg, const struct vpmu_sample *s)
{
	struct branch *r = arg;

	r->calls++;
	r->ctx = s->ctx;
	r->from = 0;
	if (s->has_lbr && s->lbr->count) {
		r->with++;
		r->from = vpmu_lbr_nth(s->lbr, 0)->from;
		r->user = s->lbr_user;
	}
}

/* One branch, recorded by the running account of pCPU 0. */
static void record(uint64_t from)
{
	struct vpmu_lbr_regs *r = &b.pmu[0].own_tally.lbr;

	cr_assert(r->ctl & VPMU_LBR_EN);
	r->head = (uint8_t)((r->head + 1) % VPMU_LBR_DEPTH_MAX);
	r->count = r->count < r->depth ? (uint8_t)(r->count + 1) : r->count;
	r->e[r->head] = (struct vpmu_lbr_entry){.from = from, .to = from + 1};
}

/* A sample taken at a switch shows the branches of the former account, not of the next. */
Test(sampler, branches_of_who_ran)
{
	struct branch r = {0};
	struct vpmu_sampler *s;

	cr_assert_eq(vpmu_lbr_attach(b.vm, VPMU_LBR_USR | VPMU_LBR_TYPES), 0);
	cr_assert_eq(vpmu_sampler_create(b.host,
					 &(struct vpmu_sampler_opts){.account = b.tenant,
								     .key = INSNS,
								     .period = 100,
								     .lbr = true,
								     .sample = sample_branch,
								     .arg = &r},
					 &s),
		     0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	record(0x1000);
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	record(0x2000);
	bed_run(&b, 0, 100);
	vpmu_pcpu_overflow(b.p[0]);
	cr_assert_eq(r.calls, 1);
	cr_assert_eq(r.from, 0x2000);
	cr_assert_eq(r.user, VPMU_LBR_HOST);
	/* Not answered before the switch to the host. */
	bed_run(&b, 0, 100);
	record(0x2010);
	vpmu_pcpu_switch(b.p[0], NULL);
	cr_assert_eq(r.calls, 2);
	cr_assert_eq(r.ctx, &b.ctx[2]);
	cr_assert_eq(r.from, 0x2010, "got %#lx", r.from);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	record(0x1010);
	bed_work(&b, 0, 100);
	cr_assert_eq(r.from, 0x1010);
	vpmu_pcpu_switch(b.p[0], NULL);
	vpmu_sampler_destroy(s);
	vpmu_lbr_detach(b.vm);
}

/* ---- coming and going ---- */

Test(sampler, from_now_until_destroyed)
{
	bed_count(&b, b.vm, INSNS);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	engine_run(&b, 0, 0, 999, 1);
	cr_assert_eq(prof_open(f, &b, b.vm, INSNS, 1000), 0);
	engine_run(&b, 0, 0, 999, 1);
	cr_assert_eq(f->samples[0], 0, "nothing from before");
	engine_run(&b, 0, 0, 1002, 1);
	cr_assert_eq(f->samples[0], 2);
	/* Due, not answered, and the sampler goes. */
	bed_run(&b, 0, 999);
	prof_close(f);
	cr_assert_eq(f->samples[0], 3);
	bed_work(&b, 0, 10000);
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	vpmu_pcpu_overflow(b.p[0]);
	cr_assert_eq(f->samples[0], 3);
	/* Another in its place begins anew. */
	cr_assert_eq(prof_open(f, &b, b.tenant, INSNS, 1000), 0);
	engine_run(&b, 0, 2, 1999, 1);
	cr_assert_eq(f->samples[0], 1);
	prof_close(f);
	cr_assert_eq(b.pmu[0].tally->armed, 0);
}

/* A vCPU with an alarm is placed, the samplers in its reach go, and then the alarm is cleared. */
Test(sampler, goes_while_a_context_waits)
{
	cr_assert_eq(prof_open(f, &b, b.vm, LOADS, 100), 0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	tick_add(t, &b, b.p[0], 0, INSNS, 50);
	vpmu_pcpu_switch(b.p[0], NULL);
	prof_close(f);
	tick_del(t, b.p[0]);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	engine_run(&b, 0, 0, 1000, 1);
	cr_assert_eq(t->fires, 0);
	cr_assert_eq(f->calls, 0);
	cr_assert_eq(b.pmu[0].tally->armed, 0);
}

Test(sampler, pcpus_come_and_go)
{
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;

	cr_assert_eq(prof_open(f, &b, b.vm, INSNS, 100), 0);
	cr_assert_eq(vpmu_emupmu_init(&pmu, NULL), 0);
	for (int i = 1; i <= 3; i++) {
		cr_assert_eq(vpmu_pcpu_create(b.host, &pmu.pmu, BED_PCPUS, &p), 0);
		cr_assert_eq(vpmu_context_place(&b.ctx[0], p), 0);
		vpmu_pcpu_switch(p, &b.ctx[0]);
		vpmu_emu_add(&pmu.own_tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 99);
		vpmu_pcpu_overflow(p);
		cr_assert_eq(f->samples[BED_PCPUS], (uint64_t)i - 1, "a new pCPU begins anew");
		vpmu_emu_add(&pmu.own_tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 51);
		vpmu_pcpu_switch(p, NULL);
		cr_assert_eq(f->samples[BED_PCPUS], (uint64_t)i);
		bed_conserved(&b);
		cr_assert_eq(vpmu_pcpu_destroy(p), 0);
		cr_assert_eq(pmu.own_tally.armed, 0);
	}
	cr_assert_eq(vpmu_context_place(&b.ctx[0], b.p[0]), 0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	engine_run(&b, 0, 0, 200, 1);
	cr_assert_eq(f->samples[0], 2);
}

Test(sampler, refused)
{
	struct vpmu_sampler_opts o = {.key = INSNS, .period = 1};
	struct vpmu_sampler *s;
	struct prof g;

	o.account = b.vm;
	cr_assert_eq(vpmu_sampler_create(b.host, &o, &s), -EINVAL, "nobody to tell");
	cr_assert_eq(prof_open(&g, &b, b.vm, INSNS, 0), -EINVAL);
	cr_assert_eq(prof_open(&g, &b, b.vm, INSNS, (1ULL << 47) + 1), -EINVAL);
	cr_assert_eq(prof_open(&g, &b, b.vm, 0, 10), -EINVAL);
	cr_assert_eq(prof_open(&g, &b, b.vm, MISSES, 10), -EOPNOTSUPP);
	vpmu_sampler_destroy(NULL);
	cr_assert_eq(bed_sharing(&b).consumers, 0, "nothing is left behind");
	for (int i = 0; i < VPMU_SAMPLERS_MAX; i++)
		cr_assert_eq(prof_open(&f[i], &b, b.vm, INSNS, 1ULL << 47), 0);
	cr_assert_eq(prof_open(&g, &b, b.vm, INSNS, 10), -E2BIG);
	cr_assert_eq(bed_sharing(&b).consumers, VPMU_SAMPLERS_MAX);
	prof_close(&f[7]);
	cr_assert_eq(prof_open(&f[7], &b, b.vm, INSNS, 10), 0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	engine_run(&b, 0, 0, 105, 1);
	cr_assert_eq(f[7].calls, 10);
	for (int i = 0; i < VPMU_SAMPLERS_MAX; i++)
		prof_close(&f[i]);
	cr_assert_eq(bed_sharing(&b).consumers, 0);
}

/* No pCPU here has alarms. */
Test(sampler, refused_without_alarms)
{
	struct prof g;

	odd(&b, NULL);
	cr_assert_eq(prof_open(&g, &b, b.vm, INSNS, 10), -EOPNOTSUPP);
	cr_assert_eq(bed_sharing(&b).consumers, 0);
}

/* One pCPU of two has alarms (a modelled one beside KVM): the other's samples are counted when what
 * they are of is charged, and are of no place. */
Test(sampler, no_place_without_alarms)
{
	static struct vpmu_hostpmu_ops late;

	late = *b.pmu[1].pmu.ops;
	late.arm = NULL;
	b.pmu[1].pmu.ops = &late;
	cr_assert_eq(prof_open(f, &b, b.vm, INSNS, 10), 0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	engine_run(&b, 0, 0, 35, 1);
	cr_assert_eq(f->samples[0], 3);
	cr_assert_eq(f->unknown, 0);
	cr_assert_eq(f->ip, 30);
	vpmu_pcpu_switch(b.p[1], &b.ctx[1]);
	engine_run(&b, 1, 1, 35, 1);
	vpmu_pcpu_switch(b.p[1], NULL);
	cr_assert_eq(f->samples[1], 3);
	cr_assert_eq(f->unknown, f->calls - 3, "%lu of %lu", f->unknown, f->calls);
	cr_assert_gt(f->unknown, 0);
	cr_assert_eq(f->ip, 0);
}

/* More keys than counters, and samplers of keys without other users. */
Test(sampler, rotation_stands_still)
{
	engine_init(&b, &bed_one_counter);
	cr_assert_eq(prof_open(&f[0], &b, b.vm, LOADS, 70), 0);
	cr_assert_eq(prof_open(&f[1], &b, vpmu_host_root(b.host), BRANCHES, 40), 0);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	for (int i = 0; i < 1000; i++) {
		engine_run(&b, 0, 0, 101, 1);
		vpmu_pcpu_tick(b.p[0]);
	}
	for (int i = 0; i < 2; i++) {
		struct vpmu_value v;

		vpmu_sampler_read(f[i].s, &v);
		cr_assert_eq(v.count, 101 * 500);
		cr_assert_eq(f[i].samples[0], v.count / f[i].period);
	}
}
