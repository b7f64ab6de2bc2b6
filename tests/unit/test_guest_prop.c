// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Random histories of PMU use by a hostile guest under a restless scheduler, against the plain
 * model. A failing history prints its seed; VPMU_SEED=n replays that one, VPMU_HISTORIES=n sets how
 * many run per machine (2000).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "guest_bed.h"
#include "guest_plain.h"

/* ---- histories ---- */

static uint64_t rng_state;

static uint64_t rnd(void)
{
	/* splitmix64 */
	uint64_t z = rng_state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static uint64_t below(uint64_t n)
{
	return rnd() % n;
}

static uint32_t some_msr(const struct shape *s)
{
	if (below(12) == 0)
		return VPMU_PV_MSR_BASE + (uint32_t)below(80);
	if (s->kind == AMD) {
		switch (below(8)) {
		case 0:
			return 0xc0000300 + (uint32_t)below(4);
		case 1:
			return 0xc0000301;
		case 2:
			return 0xc0010000 + (uint32_t)below(8);
		case 3:
			return 0xc0010200 + (uint32_t)below(32);
		default:
			return 0xc0010200 + (uint32_t)below(2 * s->gp);
		}
	}
	switch (below(12)) {
	case 0:
		return 0x4c1 + (uint32_t)below(9);
	case 1:
		return 0x309 + (uint32_t)below(5);
	case 2:
	case 3:
		return 0xc1 + (uint32_t)below(9);
	case 4:
		return 0x38d;
	case 5:
	case 6:
		return 0x38f;
	case 7:
		return 0x38d + (uint32_t)below(6);
	case 8:
		return below(2) ? 0x345 : 0x1d9;
	default:
		return 0x186 + (uint32_t)below(9);
	}
}

static uint64_t some_value(const struct shape *s, uint32_t msr)
{
	static const uint16_t intel[] = {0x3c, 0xc0, 0xc4, 0x20c4, 0x81d0, 0x82d0, 0xc5, 0x412e};
	static const uint16_t amd[] = {0x76, 0xc0, 0xc2, 0xc4, 0x129, 0x229, 0xc3, 0};
	uint64_t v;

	switch (below(10)) {
	case 0:
		return rnd(); /* nearly always reserved bits in it */
	case 1:
		return 1ULL << below(64);
	case 2:
		return 0;
	default:
		break;
	}
	if ((msr >= 0x186 && msr < 0x190) || (s->kind == AMD && msr >= 0xc0010000)) {
		if ((msr >= 0xc0010200 && msr & 1) || (msr >= 0xc0010004 && msr < 0xc0010008))
			return below(3) ? LOW48 - below(3000) : below(100000);
		v = s->kind == AMD ? amd[below(8)] : intel[below(8)];
		v |= below(4) << 16 | 1u << 22 | below(2) << 20;
		if (below(8) == 0)
			v |= 1ULL << below(36);
		return v;
	}
	switch (msr) {
	case 0x38d:
		return rnd() & 0xbbbb & ((1u << 4 * s->fixed) - 1);
	case 0x38e:
	case 0x390:
	case 0x391:
		return rnd() & 0xffULL << 32 * below(2) & 0xf000000ff;
	case 0x38f:
	case 0xc0000300:
	case 0xc0000301:
	case 0xc0000302:
	case 0xc0000303:
		v = ((1ULL << s->gp) - 1) | ((1ULL << s->fixed) - 1) << 32;
		return below(3) ? v : v & rnd();
	default:
		/* counters: near the end, so that they wrap */
		return below(3) ? LOW48 - below(3000) : below(100000);
	}
}

struct run {
	struct bed b;
	struct plain p;
	uint64_t seed;
	unsigned int step;
	char last[80];
};

static void check_rd(struct run *r, uint32_t msr)
{
	uint64_t want = 1, got = 1;
	int wret = plain_rd(&r->p, msr, &want);
	int ret = vpmu_guest_rdmsr(r->b.g, msr, &got);

	cr_assert(ret == wret && got == want,
		  "VPMU_SEED=%llu step %u (%s): RDMSR %x = %d, %llx; plain model %d, %llx",
		  (unsigned long long)r->seed, r->step, r->last, msr, ret, (unsigned long long)got,
		  wret, (unsigned long long)want);
}

static void check_all(struct run *r)
{
	static const uint32_t spans[][2] = {
		{0xc1, 8},	 {0x186, 8},	   {0x1d9, 1},
		{0x309, 4},	 {0x38d, 6},	   {0xc0000300, 4},
		{0xc0010000, 8}, {0xc0010200, 30}, {VPMU_PV_MSR_BASE, 80}};

	for (unsigned int s = 0; s < sizeof(spans) / sizeof(spans[0]); s++) {
		for (uint32_t i = 0; i < spans[s][1]; i++) {
			if (r->p.s->kind == AMD && spans[s][0] == 0x1d9)
				continue; /* not the model's: -ENOENT */
			check_rd(r, spans[s][0] + i);
		}
	}
}

static void step(struct run *r)
{
	struct plain *p = &r->p;
	struct bed *b = &r->b;
	uint64_t ns = 0;

	switch (below(20)) {
	case 0:
		snprintf(r->last, sizeof(r->last), "enter");
		bed_enter(b, (int)below(2));
		p->placed = true;
		break;
	case 1:
		snprintf(r->last, sizeof(r->last), "leave");
		bed_leave(b);
		break;
	case 2:
		if (below(3))
			break;
		snprintf(r->last, sizeof(r->last), "unplace");
		bed_unplace(b);
		p->placed = false;
		break;
	case 3: {
		/* another guest, or the host, on a pCPU where this one is not */
		int n = (int)below(2);

		if (b->on != n)
			b->sp[n].tally->ev[below(3)][below(VPMU_SOFT_EVENTS)] += below(5000);
		break;
	}
	case 4:
		ns = below(1000);
		bed_time(b, ns);
		if (b->on < 0)
			ns = 0;
		break;
	case 5:
		vpmu_pcpu_tick(b->pcpu[below(2)]);
		break;
	case 6:
		if (below(20))
			break;
		snprintf(r->last, sizeof(r->last), "reset");
		if (below(2)) {
			vpmu_guest_reset(b->g, true);
		} else {
			vpmu_guest_reset(b->g, false);
			plain_reset(p);
		}
		break;
	case 7: {
		uint32_t ecx = (uint32_t)below(9) | (below(2) ? 1u << 30 : 0);
		uint64_t want = 1, got = 1;
		int wret, ret;

		if (below(10) == 0)
			ecx ^= 1u << below(32);
		wret = plain_pmc(p, ecx, &want);
		ret = vpmu_guest_rdpmc(b->g, ecx, &got);
		cr_assert(ret == wret && got == want,
			  "VPMU_SEED=%llu step %u: RDPMC %x = %d, %llx; plain model %d, %llx",
			  (unsigned long long)r->seed, r->step, ecx, ret, (unsigned long long)got,
			  wret, (unsigned long long)want);
		break;
	}
	case 8:
	case 9:
		check_rd(r, some_msr(p->s));
		break;
	case 10:
	case 11:
	case 12:
	case 13:
	case 14: {
		unsigned int mode = (unsigned int)below(3);
		int ev = (int)below(VPMU_SOFT_EVENTS);
		uint64_t n = below(10) ? below(2000) : below(1ULL << 38);

		if (b->on < 0)
			break;
		bed_exec(b, mode, (enum vpmu_soft_event)ev, n);
		if (mode != VPMU_SOFT_HOST)
			plain_event(p, mode, ev, n);
		break;
	}
	default: {
		uint32_t msr = some_msr(p->s);
		uint64_t v = some_value(p->s, msr);
		int want = plain_wr(p, msr, v);
		int ret = vpmu_guest_wrmsr(b->g, msr, v);

		snprintf(r->last, sizeof(r->last), "WRMSR(%x, %llx)", msr, (unsigned long long)v);
		cr_assert_eq(ret, want, "VPMU_SEED=%llu step %u: %s = %d; plain model %d",
			     (unsigned long long)r->seed, r->step, r->last, ret, want);
		break;
	}
	}
	plain_look(p, ns);
}

static int conserved(const struct vpmu_conservation *c, void *arg)
{
	return c->hardware != c->charged;
}

/* One vCPU's life on the host of @r. */
static void history(struct run *r, const struct shape *s, uint64_t seed)
{
	unsigned int steps;

	rng_state = seed;
	r->seed = seed;
	r->p = (struct plain){.s = s};
	plain_reset(&r->p);
	r->last[0] = 0;
	cr_assert_eq(bed_vcpu(&r->b, &s->cfg), 0);
	steps = 20 + (unsigned int)below(200);
	for (r->step = 0; r->step < steps; r->step++)
		step(r);
	check_all(r);
	cr_assert_eq(vpmu_host_conservation(r->b.host, conserved, NULL), 0,
		     "VPMU_SEED=%llu: not conserved", (unsigned long long)seed);
	bed_vcpu_fini(&r->b);
}

static uint64_t env(const char *name, uint64_t dflt)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : dflt;
}

/* vCPUs come and go on one host, as they do. Without VPMU_SEED the whole run is the same each
 * time, so what depends on earlier vCPUs comes back, too. */
static void histories(unsigned int shape)
{
	struct vpmu_softpmu_opts soft = {.gp = 16};
	uint64_t n = getenv("VPMU_SEED") ? 1 : env("VPMU_HISTORIES", 2000);
	struct run *r = calloc(1, sizeof(*r));

	cr_assert_not_null(r);
	urcu_memb_register_thread();
	bed_host(&r->b, &soft);
	for (uint64_t i = 0; i < n; i++)
		history(r, &shapes[shape], env("VPMU_SEED", i * 1000 + shape));
	bed_host_fini(&r->b);
	urcu_memb_unregister_thread();
	free(r);
}

Test(guest_prop, intel_v2)
{
	histories(0);
}

Test(guest_prop, intel_v5)
{
	histories(1);
}

Test(guest_prop, intel_v5_small)
{
	histories(2);
}

Test(guest_prop, amd_v2)
{
	histories(3);
}

Test(guest_prop, amd_v2_15)
{
	histories(4);
}
