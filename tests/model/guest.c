// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The expected PMU registers of a guest, from the log of executed work: the value that was
 * written plus the model's count for it since. See history.h, struct h_guest.
 */
#include "tests/model/guest.h"

#include <string.h>

#define M48 ((1ULL << 48) - 1)

uint64_t g_bit(unsigned int i)
{
	return 1ULL << (i < G_FIXED ? i : 32 + i - G_FIXED);
}

uint64_t g_all_bits(const struct h_guest *g)
{
	uint64_t bits = 0;

	for (unsigned int i = 0; i < VPMU_GUEST_MAX_CTRS; i++)
		bits |= g->ctr[i].exists ? g_bit(i) : 0;
	return bits;
}

bool g_has_status(const struct h_guest *g)
{
	return g->intel || g->version >= 2;
}

/* ---- what counts ---- */

/* The index of a guest key, or M_NONE: m_keys_init's order. */
static int key_of(int event, bool os, bool usr)
{
	return os || usr ? (9 - (usr | os << 1)) * 12 + event : M_NONE;
}

const struct g_event g_events[G_EVENTS] = {
	{0xc0, 0xc0, 1},    {0x3c, 0x76, 0},	{0xc4, 0xc2, 3}, {0x20c4, 0xc4, 4},
	{0x81d0, 0x129, 5}, {0x82d0, 0x229, 6}, {0xc5, 0xc3, 7},
};

static void derive(struct h_guest *g, unsigned int i)
{
	struct h_gctr *c = &g->ctr[i];

	c->sel = M_NONE;
	if (i >= G_FIXED) {
		static const int event[] = {1, 0, 2};
		unsigned int f = g->fixed_ctrl >> 4 * (i - G_FIXED) & 0xf;

		c->intr = f & 8;
		c->sel = key_of(event[i - G_FIXED], f & 1, f & 2);
		return;
	}
	c->intr = c->evtsel >> 20 & 1;
	for (int e = 0; e < G_EVENTS && c->evtsel >> 22 & 1; e++) {
		if ((c->evtsel & 0xffff) == (g->intel ? g_events[e].intel : g_events[e].amd))
			c->sel =
				key_of(g_events[e].event, c->evtsel >> 17 & 1, c->evtsel >> 16 & 1);
	}
}

void g_settle(struct history *h, struct h_guest *g, uint32_t ctrs)
{
	for (unsigned int i = 0; i < VPMU_GUEST_MAX_CTRS; i++) {
		struct h_gctr *c = &g->ctr[i];
		struct m_truth t;

		if (!(ctrs >> i & 1) || !c->on)
			continue;
		if (!c->can) {
			c->lost = true;
			continue;
		}
		t = model_truth(h->m, c->con);
		c->value += t.counted - c->base.counted;
		c->enabled_ns += t.enabled_ns - c->base.enabled_ns;
		c->running_ns += t.running_ns - c->base.running_ns;
		c->known = true;
		c->modelled |= m_keys[c->added].modelled;
		c->lost |= t.uncountable_ns != c->base.uncountable_ns;
		c->base = t;
		if (c->value <= M48)
			continue;
		c->value &= M48;
		H_COUNT(overflows);
		if (g_has_status(g))
			g->status |= g_bit(i);
		g->pmi |= c->intr;
	}
}

static void disable(struct history *h, struct h_guest *g, unsigned int i)
{
	struct h_gctr *c = &g->ctr[i];

	g_settle(h, g, 1u << i);
	if (c->on && c->can)
		model_disable(h->m, c->con);
	c->on = false;
}

static void delete (struct history *h, struct h_guest *g, unsigned int i)
{
	struct h_gctr *c = &g->ctr[i];

	disable(h, g, i);
	if (c->added != M_NONE && c->can)
		model_forget(h->m, c->con);
	c->added = M_NONE;
	memset(&c->base, 0, sizeof(c->base));
}

static void enable(struct history *h, int v, unsigned int i)
{
	struct h_guest *g = h->vcpu[v].guest;
	struct h_gctr *c = &g->ctr[i];

	bool counts = c->added != M_NONE && c->can;
	bool can = counts || fake_can(&h->pcpu[g->place].fake, c->sel);

	c->failed = can && !h->away && slots_full(h, c->sel);
	c->lost |= c->failed || !can;
	if (c->failed)
		return;
	if (can && !counts)
		c->con = model_consumer(h->m, h->acc[h->vcpu[v].own].model, c->sel);
	c->can = can;
	c->added = c->sel;
	c->on = true;
	if (c->can) {
		model_enable(h->m, c->con);
		if (!h->away)
			key_in_use(h, c->sel);
	}
}

/* What must not go on stops first, then the others start. */
void g_apply(struct history *h, int v, uint32_t ctrs)
{
	struct h_guest *g = h->vcpu[v].guest;

	if (g->place == M_NONE)
		return;
	for (int starts = 0; starts < 2; starts++) {
		for (unsigned int i = 0; i < VPMU_GUEST_MAX_CTRS; i++) {
			struct h_gctr *c = &g->ctr[i];
			bool on = c->sel != M_NONE && (g->global & g_bit(i)) &&
				  !(g->status & G_CTR_FRZ);

			if (!(ctrs >> i & 1) || !c->exists)
				continue;
			if (starts && on && !c->on)
				enable(h, v, i);
			if (starts)
				continue;
			if (c->added != M_NONE && c->sel != M_NONE && c->added != c->sel)
				delete (h, g, i);
			else if (c->on && !on)
				disable(h, g, i);
			c->failed &= on;
		}
	}
}

/* ---- branch records ---- */

static uint32_t lbr_ctl(const struct h_guest *g)
{
	/* LBR_SELECT bit n suppresses what Intel's bit enables: */
	static const unsigned char intel_bit[] = {1, 2, 16, 19, 20, 21, 18, 17, 22};
	uint32_t ctl = (uint32_t)g->lbr_ctl;

	if (!g->intel) {
		ctl = g->lbr_cfg >> 6 & 1;
		for (int n = 0; n < 9; n++)
			ctl |= (uint32_t)(~g->lbr_ctl >> n & 1) << intel_bit[n];
	} else if (ctl & VPMU_LBR_CALL_STACK) {
		ctl = (ctl & ~VPMU_LBR_TYPES) | VPMU_LBR_CALLS;
	}
	return g->status & G_LBR_FRZ ? ctl & ~VPMU_LBR_EN : ctl;
}

/* Records are there while they are made, or some are left. */
void g_lbr_apply(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	struct h_lbr *l = &h->vcpu[v].lbr[VPMU_LBR_GUEST];

	if (!g->depth)
		return;
	if (!l->exists)
		*l = (struct h_lbr){.r.depth = (uint8_t)g->lbr_depth};
	l->r.ctl = lbr_ctl(g);
	l->exists = l->r.count || (l->r.ctl & VPMU_LBR_EN);
}

void g_lbr_depth(struct history *h, int v, unsigned int depth)
{
	h->vcpu[v].guest->lbr_depth = depth;
	h->vcpu[v].lbr[VPMU_LBR_GUEST].exists = false;
	g_lbr_apply(h, v);
}

/* ---- registers ---- */

void g_write_sel(struct history *h, int v, unsigned int i, uint64_t val)
{
	struct h_guest *g = h->vcpu[v].guest;

	g_settle(h, g, 1u << i);
	g->ctr[i].evtsel = val;
	derive(g, i);
	g_apply(h, v, 1u << i);
}

void g_write_fixed_ctrl(struct history *h, int v, uint64_t val)
{
	struct h_guest *g = h->vcpu[v].guest;
	uint32_t changed = 0;

	for (unsigned int i = G_FIXED; i < VPMU_GUEST_MAX_CTRS; i++) {
		if ((g->fixed_ctrl ^ val) >> 4 * (i - G_FIXED) & 0xf)
			changed |= 1u << i;
	}
	g_settle(h, g, changed);
	g->fixed_ctrl = val;
	for (unsigned int i = G_FIXED; i < VPMU_GUEST_MAX_CTRS; i++) {
		if (changed >> i & 1)
			derive(g, i);
	}
	g_apply(h, v, changed);
}

void g_write_ctr(struct history *h, int v, unsigned int i, uint64_t val)
{
	struct h_guest *g = h->vcpu[v].guest;
	struct h_gctr *c = &g->ctr[i];

	g_settle(h, g, 1u << i);
	c->value = val & M48;
	c->enabled_ns = c->running_ns = 0;
	c->known = c->modelled = false;
	c->lost = c->failed;
}

void g_write_global(struct history *h, int v, uint64_t val)
{
	g_settle(h, h->vcpu[v].guest, ~0u);
	h->vcpu[v].guest->global = val;
	g_apply(h, v, ~0u);
}

void g_write_status(struct history *h, int v, uint64_t clear, uint64_t set)
{
	struct h_guest *g = h->vcpu[v].guest;
	uint64_t old;

	g_settle(h, g, ~0u);
	old = g->status;
	g->status = (old & ~clear) | set;
	if ((g->status ^ old) & G_CTR_FRZ)
		g_apply(h, v, ~0u);
	if ((g->status ^ old) & G_LBR_FRZ)
		g_lbr_apply(h, v);
}

/* A PMI goes out: the registers that it freezes. */
void g_pmi(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;
	uint64_t frz = 0;

	g->pmi = false;
	if (!g_has_status(g))
		return;
	if ((g->debugctl & G_FREEZE_PERFMON) && g->intel && g->version < 4)
		g_write_global(h, v, 0);
	else if (g->debugctl & G_FREEZE_PERFMON)
		frz |= G_CTR_FRZ;
	frz |= g->debugctl & G_FREEZE_LBRS ? G_LBR_FRZ : 0;
	if (frz)
		g_write_status(h, v, 0, frz);
}

void g_placed(struct history *h, int v, int place)
{
	struct h_guest *g = h->vcpu[v].guest;

	for (unsigned int i = 0; place == M_NONE && i < VPMU_GUEST_MAX_CTRS; i++) {
		delete (h, g, i);
		g->ctr[i].failed = false;
	}
	g->place = place;
	for (unsigned int i = 0; i < VPMU_GUEST_MAX_CTRS; i++) {
		if (!g->ctr[i].on || g->ctr[i].can)
			continue;
		g->ctr[i].on = false; /* tried again */
		g->ctr[i].lost = true;
	}
	g_apply(h, v, ~0u);
	g_lbr_apply(h, v);
}

void g_reset(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;

	for (unsigned int i = 0; i < VPMU_GUEST_MAX_CTRS; i++) {
		struct h_gctr *c = &g->ctr[i];

		disable(h, g, i);
		c->evtsel = c->value = c->enabled_ns = c->running_ns = 0;
		c->known = c->modelled = c->lost = c->failed = c->intr = false;
		c->sel = M_NONE;
	}
	g->fixed_ctrl = g->status = g->debugctl = g->lbr_ctl = g->lbr_cfg = 0;
	g->pmi = false;
	g->global = g_all_bits(g) & ((1ULL << G_FIXED) - 1);
	g_lbr_depth(h, v, g->depth);
}

void g_init(struct history *h, int v)
{
	struct h_guest *g = h->vcpu[v].guest;

	g->place = M_NONE;
	for (unsigned int i = 0; i < VPMU_GUEST_MAX_CTRS; i++) {
		g->ctr[i].exists = i < g->cfg.gp || (i >= G_FIXED && i < G_FIXED + g->cfg.fixed);
		g->ctr[i].added = M_NONE;
	}
	g_reset(h, v);
}
