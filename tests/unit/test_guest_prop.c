// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Random histories of PMU use by a hostile guest under a restless scheduler, against a model that
 * knows nothing of consumers, flushes or sharing: it has registers and adds each event to each
 * counter that is on, at once. A failing history prints its seed; VPMU_SEED=n replays that one,
 * VPMU_HISTORIES=n sets how many run per machine (2000).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "guest_bed.h"

#define NOQ   0xff
#define LOW48 ((1ULL << 48) - 1)

enum kind { V2, V5, AMD };

struct shape {
	enum kind kind;
	struct vpmu_guest_cfg cfg;
	unsigned int gp, fixed;
};

static const struct shape shapes[] = {
	{V2, {.model = VPMU_GUEST_INTEL_V2}, 8, 3},
	{V5, {.model = VPMU_GUEST_INTEL_V5}, 8, 3},
	{V5, {.model = VPMU_GUEST_INTEL_V5, .gp = 2, .fixed = 4}, 2, 4},
	{AMD, {.model = VPMU_GUEST_AMD_V2}, 6, 0},
	{AMD, {.model = VPMU_GUEST_AMD_V2, .gp = 15}, 15, 0},
};

/* ---- the plain model ---- */

struct plain {
	const struct shape *s;
	uint64_t sel[16], val[20]; /* val: 16.. are the fixed ones */
	uint64_t fctl, gctl, status, debugctl;
	bool placed, lost[20];
	uint64_t en[20];
	unsigned int q[20];
};

static void plain_reset(struct plain *p)
{
	bool placed = p->placed;

	*p = (struct plain){.s = p->s, .placed = placed};
	p->gctl = (1u << p->s->gp) - 1;
	memset(p->q, 0, sizeof(p->q));
	for (int i = 0; i < 20; i++)
		p->q[i] = NOQ;
}

/* What a select counts on a soft host: event, or -1 for what it cannot count. */
static int soft_event_of(const struct plain *p, uint64_t sel)
{
	static const struct {
		unsigned int code;
		int ev;
	} intel[] = {{0x003c, VPMU_SOFT_CYCLES},   {0x00c0, VPMU_SOFT_INSTRUCTIONS},
		     {0x00c4, VPMU_SOFT_BRANCHES}, {0x20c4, VPMU_SOFT_BRANCHES_TAKEN},
		     {0x81d0, VPMU_SOFT_LOADS},	   {0x82d0, VPMU_SOFT_STORES}},
	  amd[] = {{0x0076, VPMU_SOFT_CYCLES},	 {0x00c0, VPMU_SOFT_INSTRUCTIONS},
		   {0x00c2, VPMU_SOFT_BRANCHES}, {0x00c4, VPMU_SOFT_BRANCHES_TAKEN},
		   {0x0129, VPMU_SOFT_LOADS},	 {0x0229, VPMU_SOFT_STORES}};

	if (sel >> 18 & 1 || sel >> 24 & 0xff) /* edge, cmask */
		return -1;
	if (p->s->kind == AMD && (sel >> 23 & 1 || sel >> 32 & 0xf))
		return -1;
	for (int i = 0; i < 6; i++) {
		if (p->s->kind == AMD && amd[i].code == (sel & 0xffff))
			return amd[i].ev;
		if (p->s->kind != AMD && intel[i].code == (sel & 0xffff))
			return intel[i].ev;
	}
	return -1;
}

/* Is counter @c on, for which modes and which event? */
static bool on(const struct plain *p, int c, unsigned int *modes, int *ev)
{
	static const int fixed_ev[] = {VPMU_SOFT_INSTRUCTIONS, VPMU_SOFT_CYCLES,
				       VPMU_SOFT_REF_CYCLES, -1};
	uint64_t gbit = c < 16 ? 1ULL << c : 1ULL << (32 + c - 16);
	bool usr, os;

	if (c < 16) {
		usr = p->sel[c] >> 16 & 1;
		os = p->sel[c] >> 17 & 1;
		*ev = soft_event_of(p, p->sel[c]);
		if (!(p->sel[c] >> 22 & 1))
			return false;
	} else {
		os = p->fctl >> (4 * (c - 16)) & 1;
		usr = p->fctl >> (4 * (c - 16) + 1) & 1;
		*ev = fixed_ev[c - 16];
	}
	*modes = (usr ? 1u << VPMU_SOFT_USR : 0) | (os ? 1u << VPMU_SOFT_OS : 0);
	return *modes && (p->gctl & gbit) && !(p->s->kind == V5 && p->status >> 59 & 1);
}

static void plain_event(struct plain *p, unsigned int mode, int event, uint64_t n)
{
	unsigned int modes;
	int ev;

	for (int c = 0; c < 20; c++) {
		if (!on(p, c, &modes, &ev) || ev != event || !(modes >> mode & 1))
			continue;
		p->val[c] += n;
		if (p->val[c] >> 48) {
			p->status |= c < 16 ? 1ULL << c : 1ULL << (32 + c - 16);
			p->val[c] &= LOW48;
		}
	}
}

/* After every step: what is on and placed either counts with a quality or is lost. */
static void plain_look(struct plain *p, uint64_t ran_ns)
{
	unsigned int modes;
	int ev;

	for (int c = 0; c < 20 && p->placed; c++) {
		unsigned int q;

		if (!on(p, c, &modes, &ev))
			continue;
		q = ev == VPMU_SOFT_CYCLES || ev == VPMU_SOFT_REF_CYCLES ? VPMU_Q_MODELLED
									 : VPMU_Q_EXACT;
		if (ev < 0) {
			p->lost[c] = true;
			continue;
		}
		p->en[c] += ran_ns;
		if (p->q[c] == NOQ || q > p->q[c])
			p->q[c] = q;
	}
}

static int set_counter(struct plain *p, unsigned int c, uint64_t v)
{
	p->val[c] = v & LOW48;
	p->en[c] = 0;
	p->q[c] = NOQ;
	p->lost[c] = false;
	return 0;
}

static uint64_t gmask(const struct plain *p)
{
	return ((1ULL << p->s->gp) - 1) | ((1ULL << p->s->fixed) - 1) << 32;
}

static int plain_wr_intel(struct plain *p, uint32_t msr, uint64_t v)
{
	bool v5 = p->s->kind == V5;
	unsigned int gp = p->s->gp, fixed = p->s->fixed;
	uint64_t cmd = gmask(p) | 1ULL << 62 | (v5 ? 0x2cULL << 56 : 0);

	if (msr >= 0xc1 && msr < 0xc1 + gp)
		return set_counter(p, msr - 0xc1,
				   v & 0x80000000 ? v | ~0xffffffffULL : v & 0xffffffff);
	if (msr >= 0x4c1 && msr < 0x4c1 + gp)
		return v >> 48 ? -EFAULT : set_counter(p, msr - 0x4c1, v);
	if (msr >= 0x309 && msr < 0x309 + fixed)
		return v >> 48 ? -EFAULT : set_counter(p, 16 + msr - 0x309, v);
	if (msr >= 0x186 && msr < 0x186 + gp) {
		if (v >> 32 || v & (1u << 21) || (v5 && v & (1u << 19)))
			return -EFAULT;
		p->sel[msr - 0x186] = v;
		return 0;
	}
	switch (msr) {
	case 0x1d9:
		if (v & ~0x1000ULL)
			return -EFAULT;
		p->debugctl = v;
		return 0;
	case 0x38d:
		if (v >> (4 * fixed) || v & 0x4444)
			return -EFAULT;
		p->fctl = v;
		return 0;
	case 0x38f:
		if (v & ~gmask(p))
			return -EFAULT;
		p->gctl = v;
		return 0;
	case 0x390:
		if (v & ~(cmd | 1ULL << 63))
			return -EFAULT;
		p->status &= ~v;
		return 0;
	case 0x391:
		if (!v5 || v & ~cmd)
			return -EFAULT;
		p->status |= v;
		return 0;
	default:
		return -EFAULT;
	}
}

static int plain_wr_amd(struct plain *p, uint32_t msr, uint64_t v)
{
	unsigned int n;

	if (msr >= 0xc0010000 && msr < 0xc0010004)
		msr = 0xc0010200 + 2 * (msr & 3);
	else if (msr >= 0xc0010004 && msr < 0xc0010008)
		msr = 0xc0010201 + 2 * (msr & 3);
	n = (msr - 0xc0010200) / 2;
	if (msr >= 0xc0010200 && n < p->s->gp) {
		if (msr & 1)
			return set_counter(p, n, v);
		p->sel[n] = v & 0xfffd7ffff & ~(1ULL << 19);
		return 0;
	}
	v &= gmask(p);
	switch (msr) {
	case 0xc0000300:
		return 0;
	case 0xc0000301:
		p->gctl = v;
		return 0;
	case 0xc0000302:
		p->status &= ~v;
		return 0;
	case 0xc0000303:
		p->status |= v;
		return 0;
	default:
		return -EFAULT;
	}
}

static int plain_rd(const struct plain *p, uint32_t msr, uint64_t *v)
{
	bool amd = p->s->kind == AMD;
	unsigned int gp = p->s->gp, fixed = p->s->fixed;

	if (msr - VPMU_PV_MSR_BASE < 80) {
		unsigned int c = (msr - VPMU_PV_MSR_BASE) / 4, what = msr % 4;

		if (!(c < 16 ? c < gp : c - 16 < fixed) || what == 3)
			return -EFAULT;
		if (p->lost[c] || p->q[c] == NOQ)
			*v = what == 2 ? NOQ : 0;
		else
			*v = what == 2 ? p->q[c] : p->en[c];
		return 0;
	}
	if (amd) {
		if (msr >= 0xc0010000 && msr < 0xc0010004)
			*v = p->sel[msr & 3];
		else if (msr >= 0xc0010004 && msr < 0xc0010008)
			*v = p->val[msr & 3];
		else if (msr >= 0xc0010200 && msr < 0xc0010200 + 2 * gp)
			*v = msr & 1 ? p->val[(msr & 0x1f) / 2] : p->sel[(msr & 0x1f) / 2];
		else if (msr >= 0xc0000300 && msr < 0xc0000304)
			*v = msr == 0xc0000300 ? p->status : msr == 0xc0000301 ? p->gctl : 0;
		else
			return -EFAULT;
		return 0;
	}
	if (msr >= 0xc1 && msr < 0xc1 + gp)
		*v = p->val[msr - 0xc1];
	else if (msr >= 0x4c1 && msr < 0x4c1 + gp)
		*v = p->val[msr - 0x4c1];
	else if (msr >= 0x309 && msr < 0x309 + fixed)
		*v = p->val[16 + msr - 0x309];
	else if (msr >= 0x186 && msr < 0x186 + gp)
		*v = p->sel[msr - 0x186];
	else if (msr == 0x345)
		*v = 1 << 13;
	else if (msr == 0x1d9)
		*v = p->debugctl;
	else if (msr == 0x38d)
		*v = p->fctl;
	else if (msr == 0x38e)
		*v = p->status;
	else if (msr == 0x38f)
		*v = p->gctl;
	else if (msr == 0x390 || (msr == 0x391 && p->s->kind == V5))
		*v = 0;
	else if (msr == 0x392 && p->s->kind == V5) {
		*v = 0;
		for (unsigned int i = 0; i < gp; i++)
			*v |= (uint64_t)((p->sel[i] & 0xff) != 0) << i | (p->sel[i] >> 20 & 1)
										 << 63;
		for (unsigned int i = 0; i < fixed; i++)
			*v |= (uint64_t)((p->fctl >> (4 * i) & 3) != 0) << (32 + i) |
			      (p->fctl >> (4 * i + 3) & 1) << 63;
	} else
		return -EFAULT;
	return 0;
}

static int plain_pmc(const struct plain *p, uint32_t ecx, uint64_t *v)
{
	bool fixed = p->s->kind != AMD && ecx >> 16 == 0x4000;
	unsigned int i = fixed ? ecx & 0xffff : ecx;

	if (i >= (fixed ? p->s->fixed : p->s->gp))
		return -EFAULT;
	*v = p->val[fixed ? 16 + i : i];
	return 0;
}

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
		int want = p->s->kind == AMD ? plain_wr_amd(p, msr, v) : plain_wr_intel(p, msr, v);
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
	bed_host(&r->b, &soft);
	for (uint64_t i = 0; i < n; i++)
		history(r, &shapes[shape], env("VPMU_SEED", i * 1000 + shape));
	bed_host_fini(&r->b);
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
