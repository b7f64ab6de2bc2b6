// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Steps of guests with a register model: their writes, to the library and to the model,
 * their reads, and their PMIs. Every value read is compared to the last bit, across other accounts'
 * runs.
 */
#include "tests/model/guest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

void guest_create(struct history *h, int v)
{
	static const enum vpmu_guest_model models[] = {VPMU_GUEST_INTEL_V5, VPMU_GUEST_AMD_V2,
						       VPMU_GUEST_INTEL_V2, VPMU_GUEST_AMD_CORE};
	struct h_guest *g = calloc(1, sizeof(*g));
	unsigned int m = rnd(h, chance(h, 70) ? 2 : 4);
	int ret;

	g->intel = !(m & 1);
	g->version = m == 0 ? 5 : m == 3 ? 0 : 2;
	g->cfg.model = models[m];
	g->cfg.gp = g->intel ? 2 + rnd(h, 4) : m == 3 ? 6 : 4 + rnd(h, 3);
	g->cfg.fixed = g->intel ? 1 + rnd(h, 3) : 0;
	g->cfg.no_lbr = chance(h, 15);
	if (!g->cfg.no_lbr && !h->no_lbr && m < 2)
		g->depth = g->intel ? 32 : 16;
	g->g = calloc(1, sizeof(*g->g));
	h->vcpu[v].guest = g;
	ret = OP(h, M_NONE, vpmu_guest_init(g->g, &g->cfg, &h->vcpu[v].ctx, &h->reference.pmu));
	H_CHECK(h, ret == 0, "vpmu_guest_init: %d", ret);
	g_init(h, v);
	say(h, "guest of vcpu %d: %s, %u + %u counters", v, vpmu_guest_model_name(g->cfg.model),
	    g->cfg.gp, g->cfg.fixed);
}

/* Whatever is going on. */
void guest_fini(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;

	if (!g)
		return;
	say(h, "guest of vcpu %d ends", v);
	G_OP_VOID(h, vpmu_guest_fini(g->g));
	g_placed(h, v, M_NONE);
	h->vcpu[v].lbr[VPMU_LBR_GUEST].exists = false;
	consumers_changed(h);
	vpmu_rcu_free(g->g);
	free(g);
	h->vcpu[v].guest = NULL;
}

void guest_place(struct history *h, int v, int p)
{
	struct h_guest *g = h->vcpu[v].guest;

	if (!g || g->place == p)
		return;
	say(h, "guest of vcpu %d: placed on %d", v, p);
	G_OP_VOID(h, vpmu_guest_placed(g->g, p == M_NONE ? NULL : h->pcpu[p].p));
	g_placed(h, v, p);
	consumers_changed(h);
}

/* ---- interrupts ---- */

bool guest_looked(const struct history *h, int v)
{
	int p = h->vcpu[v].place;

	return p == M_NONE || h->pcpu[p].vcpu != v || fake_on_time(&h->pcpu[p].fake);
}

void guest_service(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	bool pending, raised;

	if (!g || g->place == M_NONE)
		return;
	pending = vpmu_guest_pending(g->g);
	if (pending || guest_looked(h, v))
		g_settle(h, g, ~0u);
	raised = G_OP(h, vpmu_guest_service(g->g));
	H_CHECK(h, raised == (pending && g->pmi), "guest of vcpu %d: %s, %s", v,
		raised ? "a PMI" : "no PMI", g->pmi ? "one is due" : "none is");
	if (raised) {
		say(h, "PMI of vcpu %d", v);
		H_COUNT(pmis);
		g_pmi(h, v);
	}
	consumers_changed(h);
}

void check_pending(struct history *h)
{
	for (int v = 0; v < H_VCPUS; v++) {
		struct h_guest *g = h->vcpu[v].guest;

		if (!h->vcpu[v].alive || !g || !guest_looked(h, v))
			continue;
		g_settle(h, g, ~0u);
		H_CHECK(h, vpmu_guest_pending(g->g) == g->pmi, "I5: vcpu %d: PMI is %s", v,
			g->pmi ? "due, but not pending" : "pending, but not due");
	}
}

/* ---- registers ---- */

static void write_msr(struct history *h, int v, uint32_t msr, uint64_t val)
{
	int ret = G_OP(h, vpmu_guest_wrmsr(h->vcpu[v].guest->g, msr, val));

	say(h, "guest of vcpu %d: WRMSR %#x = %#lx", v, msr, val);
	H_CHECK(h, ret == 0, "WRMSR %#x = %#lx: %d", msr, val, ret);
}

static uint64_t read_msr(struct history *h, int v, uint32_t msr)
{
	uint64_t val = 0;
	int ret = G_OP(h, vpmu_guest_rdmsr(h->vcpu[v].guest->g, msr, &val));

	H_CHECK(h, ret == 0, "RDMSR %#x: %d", msr, ret);
	return val;
}

static unsigned int some_ctr(struct history *h, const struct h_guest *g)
{
	unsigned int i;

	do
		i = rnd(h, VPMU_GUEST_MAX_CTRS);
	while (!g->ctr[i].exists);
	return i;
}

static uint32_t ctr_msr(const struct h_guest *g, unsigned int i)
{
	return i >= G_FIXED ? 0x309 + i - G_FIXED : g->intel ? 0x4c1 + i : 0xc0010201 + 2 * i;
}

static void write_select(struct history *h, int v, unsigned int i)
{
	struct h_guest *g = h->vcpu[v].guest;
	const struct g_event *e = &g_events[rnd(h, G_EVENTS)];
	uint64_t val = (g->intel ? e->intel : e->amd) | rnd(h, 4) << 16 |
		       (chance(h, 70) ? 1u << 20 : 0) | (chance(h, 85) ? 1u << 22 : 0);

	if (i < G_FIXED) {
		write_msr(h, v, g->intel ? 0x186 + i : 0xc0010200 + 2 * i, val);
		g_write_sel(h, v, i, val);
		return;
	}
	val = 0;
	for (unsigned int n = 0; n < g->cfg.fixed; n++)
		val |= (uint64_t)(rnd(h, 4) | rnd(h, 2) << 3) << 4 * n;
	write_msr(h, v, 0x38d, val);
	g_write_fixed_ctrl(h, v, val);
}

/* Mostly near its end. */
static void write_ctr(struct history *h, int v, unsigned int i)
{
	struct h_guest *g = h->vcpu[v].guest;
	uint64_t val = random_split(&h->rng) >> 16;

	if (chance(h, 85))
		val = ((1ULL << 48) - 1) &
		      -(random_split(&h->rng) % (chance(h, 70) ? 3000 : 300000));
	if (i < G_FIXED && g->intel && chance(h, 20)) { /* sign-extended 32 bits */
		write_msr(h, v, 0xc1 + i, (uint32_t)val);
		g_write_ctr(h, v, i, (uint64_t)(int64_t)(int32_t)val);
		return;
	}
	write_msr(h, v, ctr_msr(g, i), val);
	g_write_ctr(h, v, i, val);
}

static void write_global(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	uint64_t all = g_all_bits(g), bits = chance(h, 60) ? all : random_split(&h->rng) & all;
	uint64_t frz = g->version < 5 && g->intel ? 0 : G_CTR_FRZ | (g->depth ? G_LBR_FRZ : 0);

	switch (g_has_status(g) ? rnd(h, 5) : 5) {
	case 0:
	case 1:
		write_msr(h, v, g->intel ? 0x38f : 0xc0000301, bits);
		g_write_global(h, v, bits);
		break;
	case 2:
	case 3:
		bits |= frz;
		write_msr(h, v, g->intel ? 0x390 : 0xc0000302, bits);
		g_write_status(h, v, bits, 0);
		break;
	case 4:
		if (g->intel && g->version < 4)
			return;
		bits = (random_split(&h->rng) & all) | (chance(h, 20) ? frz : 0);
		write_msr(h, v, g->intel ? 0x391 : 0xc0000303, bits);
		g_write_status(h, v, 0, bits);
		break;
	default:
		break;
	}
}

static void write_rest(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	uint64_t val;

	switch (rnd(h, 8)) {
	case 0:
		if (!g_has_status(g))
			return;
		val = (chance(h, 40) ? G_FREEZE_PERFMON : 0) |
		      (chance(h, 40) && g->depth ? G_FREEZE_LBRS : 0);
		write_msr(h, v, 0x1d9, val);
		g->debugctl = val;
		return;
	case 2:
		if (!g->intel || !g->depth)
			return;
		val = 8 + 8 * rnd(h, 4);
		write_msr(h, v, 0x14cf, val);
		g_lbr_depth(h, v, (unsigned int)val);
		return;
	default:
		break;
	}
	if (!g->depth)
		return;
	if (g->intel) {
		val = chance(h, 75) | 6 | (random_split(&h->rng) & VPMU_LBR_TYPES);
		g->lbr_ctl = val | (chance(h, 20) ? VPMU_LBR_CALL_STACK : 0);
		write_msr(h, v, 0x14ce, g->lbr_ctl);
	} else if (chance(h, 50)) {
		g->lbr_ctl = random_split(&h->rng) & 0x1fc;
		write_msr(h, v, 0xc000010e, g->lbr_ctl);
	} else {
		g->lbr_cfg = chance(h, 75) ? 1u << 6 : 0;
		write_msr(h, v, 0xc000010f, g->lbr_cfg);
	}
	g_lbr_apply(h, v);
}

/* ---- its reads ---- */

static void read_ctr(struct history *h, int v, unsigned int i)
{
	struct h_guest *g = h->vcpu[v].guest;
	struct h_gctr *c = &g->ctr[i];
	uint64_t val = 0, want[3] = {0, 0, 0xff};
	int ret = 0;

	if (chance(h, 50))
		val = read_msr(h, v, ctr_msr(g, i));
	else
		ret = G_OP(h, vpmu_guest_rdpmc(g->g, i < G_FIXED ? i : 0x40000000 | (i - G_FIXED),
					       &val));
	g_settle(h, g, 1u << i);
	H_CHECK(h, ret == 0 && val == c->value, "guest of vcpu %d: counter %u is %#lx, true %#lx",
		v, i, val, c->value);
	H_COUNT(guest_reads);
	if (h->mixed)
		return; /* what can be counted changes with the place */
	if (c->known && !c->lost) {
		want[0] = c->enabled_ns;
		want[1] = c->running_ns;
		want[2] = c->modelled ? VPMU_Q_MODELLED : VPMU_Q_EXACT;
	}
	for (uint32_t n = 0; n < 3; n++) {
		val = read_msr(h, v, 0x56504d00 + 4 * i + n);
		H_CHECK(h, val == want[n],
			"I7: guest of vcpu %d: counter %u, time or quality %u is %lu, true %lu", v,
			i, n, val, want[n]);
	}
}

static void read_records(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	const struct h_lbr *l = &h->vcpu[v].lbr[VPMU_LBR_GUEST];

	for (unsigned int n = 0; n < (g->intel ? g->lbr_depth : g->depth); n++) {
		const struct vpmu_lbr_entry *e = l->exists ? vpmu_lbr_nth(&l->r, n) : NULL;
		uint64_t from, to, want_to = e ? e->to : 0;

		from = read_msr(h, v, g->intel ? 0x1500 + n : 0xc0010300 + 2 * n);
		to = read_msr(h, v, g->intel ? 0x1600 + n : 0xc0010301 + 2 * n);
		if (e && !g->intel)
			want_to |= 1ULL << 63; /* valid */
		H_CHECK(h, from == (e ? e->from : 0) && to == want_to,
			"I5: guest of vcpu %d: record %u is %#lx -> %#lx, true %#lx -> %#lx", v, n,
			from, to, e ? e->from : 0, want_to);
		H_COUNT(records);
	}
}

static void guest_read(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	uint64_t val;

	switch (rnd(h, 6)) {
	case 0:
		if (g->depth)
			read_records(h, v);
		break;
	case 1:
	case 2:
		if (!g_has_status(g))
			break;
		val = read_msr(h, v, g->intel ? 0x38e : 0xc0000300);
		g_settle(h, g, ~0u);
		H_CHECK(h, val == g->status, "I5: guest of vcpu %d: status %#lx, true %#lx", v, val,
			g->status);
		val = read_msr(h, v, g->intel ? 0x38f : 0xc0000301);
		H_CHECK(h, val == g->global, "guest of vcpu %d: global control %#lx, true %#lx", v,
			val, g->global);
		break;
	default:
		read_ctr(h, v, some_ctr(h, g));
	}
	consumers_changed(h); /* a reading charges its pCPU, or does not */
}

bool vcpu_guest(const struct history *h, int v)
{
	return h->vcpu[v].alive && h->vcpu[v].guest;
}

void guest_acts(struct history *h, int v)
{
	unsigned int what = rnd(h, 100), i = some_ctr(h, h->vcpu[v].guest);

	if (what < 20)
		write_select(h, v, i);
	else if (what < 40)
		write_ctr(h, v, i);
	else if (what < 52)
		write_global(h, v);
	else if (what < 65)
		write_rest(h, v);
	else if (what < 70)
		guest_service(h, v);
	else
		guest_read(h, v);
	consumers_changed(h);
}

static bool guest_current(const struct history *h, int v)
{
	return vcpu_guest(h, v) && vcpu_current(h, v);
}

/* As a driver does: a counter that interrupts soon, while the vCPU runs. */
static void guest_samples(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	unsigned int i = some_ctr(h, g);
	uint64_t sel = 0xc0 | 0x530000;

	if (i < G_FIXED) {
		write_msr(h, v, g->intel ? 0x186 + i : 0xc0010200 + 2 * i, sel);
		g_write_sel(h, v, i, sel);
	}
	write_ctr(h, v, i);
	if (g_has_status(g) && chance(h, 60)) {
		uint64_t frz = g->intel && g->version < 4 ? 0 : g->status & G_CTR_FRZ;

		write_msr(h, v, g->intel ? 0x390 : 0xc0000302, frz);
		g_write_status(h, v, frz, 0);
		write_msr(h, v, g->intel ? 0x38f : 0xc0000301, g_all_bits(g));
		g_write_global(h, v, g_all_bits(g));
	}
	consumers_changed(h);
	run(h, h->vcpu[v].place);
}

/* As a driver that stops one of two counters of an event, while what the vCPU has executed is not
 * charged yet: the interrupt of the other one still comes in time. Not followed by a reading, which
 * would charge. */
static void guest_stops_one(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	unsigned int pair[2] = {rnd(h, g->cfg.gp), rnd(h, g->cfg.gp)};
	uint64_t bits = g_all_bits(g);

	if (!g_has_status(g) || (g->status & G_CTR_FRZ) || pair[0] == pair[1])
		return;
	for (int n = 0; n < 2; n++) {
		unsigned int i = pair[n];
		uint64_t sel = (g->intel ? g_events[0].intel : g_events[0].amd) | 0x530000;

		write_msr(h, v, g->intel ? 0x186 + i : 0xc0010200 + 2 * i, sel);
		g_write_sel(h, v, i, sel);
		write_ctr(h, v, i);
	}
	write_msr(h, v, g->intel ? 0x38f : 0xc0000301, bits);
	g_write_global(h, v, bits);
	run(h, h->vcpu[v].place);
	bits &= ~g_bit(pair[1]);
	write_msr(h, v, g->intel ? 0x38f : 0xc0000301, bits);
	g_write_global(h, v, bits);
	consumers_changed(h);
	run(h, h->vcpu[v].place);
}

void step_guest(struct history *h)
{
	int v = pick(h, H_VCPUS, chance(h, 60) ? guest_current : vcpu_guest);

	if (v == M_NONE)
		return;
	if (guest_current(h, v) && chance(h, 10)) {
		guest_stops_one(h, v);
		return;
	}
	if (guest_current(h, v) && chance(h, 50))
		guest_samples(h, v);
	for (unsigned int n = 1 + rnd(h, 4); n; n--)
		guest_acts(h, v);
}
