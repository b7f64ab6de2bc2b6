/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Histories of a hostile guest under a restless scheduler, read from bytes: RDMSR, WRMSR, RDPMC,
 * CPUID, execution up to an alarm or past it, branches, switches, migration, unplacement, RESET and
 * INIT. Every answer, every PMI and the memory of branch records are compared with the plain model.
 * The includer defines PLAY_FAIL(y, text), which does not return.
 */
#ifndef TESTS_UNIT_GUEST_PLAY_H
#define TESTS_UNIT_GUEST_PLAY_H

#include <stdio.h>

#include "guest_plain.h"
#include "vpmu/conservation.h"

struct play {
	struct bed *b;
	struct plain p;
	const uint8_t *at, *end;
	bool exact; /* the host has a counter for every key */
	unsigned int steps;
	uint64_t pmis;
};

#define PLAY_CHECK(y, cond, ...)                                                                   \
	do {                                                                                       \
		char text_[200];                                                                   \
                                                                                                   \
		if (!(cond)) {                                                                     \
			snprintf(text_, sizeof(text_), __VA_ARGS__);                               \
			PLAY_FAIL(y, text_);                                                       \
		}                                                                                  \
	} while (0)

static inline uint64_t take(struct play *y, unsigned int bytes)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < bytes && y->at < y->end; i++)
		v |= (uint64_t)*y->at++ << 8 * i;
	return v;
}

/* ---- what to do: mostly sensible, sometimes anything ---- */

static inline uint32_t play_msr(struct play *y)
{
	unsigned int nr = 0, how = (unsigned int)take(y, 1);
	const struct row *r = y->p.m->rows;
	uint32_t i;

	if (how >= 0xf8)
		return (uint32_t)take(y, 4);
	if (how >= 0xf0) {
		const struct span *s =
			&pmu_spans[take(y, 1) % (sizeof(pmu_spans) / sizeof(pmu_spans[0]))];

		return s->first + (uint32_t)take(y, 1) % (s->last - s->first + 2);
	}
	while (r[nr].line)
		nr++;
	if (!nr)
		return (uint32_t)take(y, 4);
	r += how % nr;
	i = row_count(y->p.m, r, 32);
	return r->msr + r->stride * ((uint32_t)take(y, 1) % (i + 1));
}

static inline uint64_t play_value(struct play *y, uint32_t msr)
{
	static const uint16_t intel[] = {0xc0, 0x3c, 0xc4, 0x20c4, 0x81d0, 0x82d0, 0xc5, 0x412e};
	static const uint16_t amd[] = {0xc0, 0x76, 0xc2, 0xc4, 0x129, 0x229, 0xc3, 0};
	const struct row *r = row_of(y->p.m, msr, y->p.depth);
	unsigned int how = (unsigned int)take(y, 1);
	uint64_t v;

	switch (how & 15) {
	case 0:
		return take(y, 8);
	case 1:
		return 1ULL << (take(y, 1) & 63);
	case 2:
		return 0;
	case 3:
		return 1ULL << (58 + (how >> 4) % 6);
	default:
		break;
	}
	if (!r)
		return take(y, 4);
	switch (r->count) {
	case K7:
	case GP:
		if (strstr(r->name, "SEL") || strstr(r->name, "Sel") || strstr(r->name, "CTL")) {
			v = (y->p.intel ? intel : amd)[(how >> 4) & 7];
			how = (unsigned int)take(y, 1);
			v |= (uint64_t)(how & 3) << 16 | (how & 4 ? 1u << 20 : 0) | 1u << 22;
			return how >= 0xf0 ? v | 1ULL << (take(y, 1) % 36) : v;
		}
		/* fall through */
	case FIXED: /* near the end, so that they wrap */
		return how >= 0x40 ? M48 - take(y, 1) * (how & 0x80 ? 1 : 8) : take(y, 2);
	case LBRS:
	case LBR16:
		return take(y, 3) << (how & 0x80 ? 41 : 0);
	default:
		break;
	}
	switch (msr) {
	case 0x38f:
	case 0xc0000301:
		return how >= 0x40 ? r->keep : r->keep & take(y, 8);
	case 0x38d:
	case 0x1d9:
	case 0x14ce:
		return how >= 0x40 ? r->keep & take(y, 4) : r->keep;
	case 0x14cf:
		return 8 * (how >> 4);
	default:
		return take(y, 5) & 0xf0000ffff;
	}
}

/* ---- comparing ---- */

/* Exact on any host: neither counts nor what an overflow changes. */
static inline bool static_reg(const struct play *y, uint32_t msr, const struct row *r)
{
	return y->exact ||
	       !(r->count == PVREGS || r->count == FIXED || strstr(r->name, "CTR") ||
		 strstr(r->name, "Ctr") || strstr(r->name, "PMC") || strstr(r->name, "LBR") ||
		 msr == 0x38e || msr == 0x38f || msr == 0xc0000300);
}

static inline void play_rd(struct play *y, uint32_t msr)
{
	uint64_t want = 0x1234, got = 0x1234;
	int wret = plain_rd(&y->p, msr, &want), ret = vpmu_guest_rdmsr(y->b->g, msr, &got);
	const struct row *r = row_of(y->p.m, msr, y->p.depth);

	PLAY_CHECK(y, ret == wret, "RDMSR %x = %d, not %d", msr, ret, wret);
	PLAY_CHECK(y, got == want || (r && !static_reg(y, msr, r)), "RDMSR %x: %llx, not %llx", msr,
		   (unsigned long long)got, (unsigned long long)want);
	if (r && (r->count == GP || r->count == FIXED || r->count == K7))
		PLAY_CHECK(y, !(got >> 48), "%x is wider than it is", msr);
}

static inline void play_wr(struct play *y, uint32_t msr, uint64_t v)
{
	int want = plain_wr(&y->p, msr, v), ret = vpmu_guest_wrmsr(y->b->g, msr, v);

	PLAY_CHECK(y, ret == want, "WRMSR(%x, %llx) = %d, not %d", msr, (unsigned long long)v, ret,
		   want);
	if (!ret)
		play_rd(y, msr);
}

static inline void play_state(struct play *y)
{
	const struct vpmu_guest *g = y->b->g;
	bool used = g->ctx->lbr.data[VPMU_LBR_GUEST] != NULL;

	PLAY_CHECK(y, g->denied == y->p.denied, "%llu denials, not %llu",
		   (unsigned long long)g->denied, (unsigned long long)y->p.denied);
	if (!y->exact)
		return;
	PLAY_CHECK(y, vpmu_guest_pending(g) == y->p.pmi, "a PMI is %s",
		   y->p.pmi ? "lost" : "extra");
	PLAY_CHECK(y, used == plain_lbr_used(&y->p), "branch records %s memory",
		   used ? "hold" : "have no");
}

/* ---- the guest runs ---- */

static inline void play_service(struct play *y)
{
	bool want = plain_service(&y->p), got = vpmu_guest_service(y->b->g);

	y->pmis += got;
	PLAY_CHECK(y, got == want || !y->exact, "service says %d, not %d", got, want);
	PLAY_CHECK(y, !vpmu_guest_pending(y->b->g), "still pending");
	PLAY_CHECK(y, !vpmu_guest_service(y->b->g), "the same PMI twice");
}

/* Events until the nearest alarm that counts them, as the engine would stop. */
static inline uint64_t to_alarm(const struct vpmu_emu_tally *t, unsigned int mode, int ev)
{
	uint64_t least = UINT64_MAX;

	for (unsigned int c = 0; c < VPMU_MAX_CTRS; c++) {
		const struct vpmu_emu_alarm *a = &t->alarm[c];
		uint64_t left;

		if (!(t->armed >> c & 1) || a->event != ev || !(a->modes >> mode & 1))
			continue;
		left = vpmu_emu_alarm_left(t, a);
		least = left < least ? left : least;
	}
	return least;
}

static inline void play_exec(struct play *y, unsigned int mode, int ev, uint64_t n, bool stop)
{
	struct vpmu_emu_tally *t = y->b->sp[y->b->on].tally;

	while (n) {
		uint64_t left, chunk = n;

		play_service(y);
		left = to_alarm(t, mode, ev);
		PLAY_CHECK(y, left || !stop, "an alarm that is due keeps the guest from running");
		if (stop && left < chunk)
			chunk = left;
		bed_exec(y->b, (enum vpmu_emu_mode)mode, (enum vpmu_emu_event)ev, chunk);
		if (mode != VPMU_EMU_HOST)
			plain_event(&y->p, mode, ev, chunk);
		if (left <= chunk)
			vpmu_pcpu_overflow(y->b->pcpu[y->b->on]);
		n -= chunk;
		play_state(y);
	}
}

/* The CPU records a branch if records are on. */
static inline void play_branch(struct play *y, unsigned int mode, uint32_t type)
{
	struct vpmu_lbr_regs *l = &y->b->sp[y->b->on].tally->lbr;
	uint64_t from, to, info = type == VPMU_LBR_JCC ? 0 : 4ULL << VPMU_LBR_INFO_TYPE_SHIFT;

	play_service(y);
	from = take(y, 2) + 1;
	to = ~take(y, 1);
	plain_branch(&y->p, mode, type, from, to, info);
	if (!(l->ctl & VPMU_LBR_EN) || !(l->ctl & type) ||
	    !(l->ctl & (mode == VPMU_EMU_OS ? VPMU_LBR_OS : VPMU_LBR_USR)))
		return;
	l->head = (uint8_t)((l->head + 1) % VPMU_LBR_DEPTH_MAX);
	l->e[l->head] = (struct vpmu_lbr_entry){from, to, info};
	l->count = (uint8_t)(l->count < l->depth ? l->count + 1 : l->depth);
	l->total++;
}

static inline void play_pmc(struct play *y)
{
	uint32_t ecx = (uint32_t)take(y, 1) % 18 | (uint32_t)(take(y, 1) & 0xc7) << 24;
	uint64_t got = 0x1234, want = 0x1234;
	int wret = plain_pmc(&y->p, ecx, &want), ret = vpmu_guest_rdpmc(y->b->g, ecx, &got);

	PLAY_CHECK(y, ret == wret && (got == want || (!y->exact && !ret && !(got >> 48))),
		   "RDPMC %x = %d, %llx; not %d, %llx", ecx, ret, (unsigned long long)got, wret,
		   (unsigned long long)want);
}

static inline void play_step(struct play *y)
{
	unsigned int op = (unsigned int)take(y, 1);
	struct plain *p = &y->p;
	struct bed *b = y->b;
	uint64_t ns = 0;
	uint32_t msr;

	y->steps++;
	switch (op & 15) {
	case 0:
		bed_enter(b, op >> 4 & 1);
		p->placed = true;
		break;
	case 1:
		if ((op >> 4) == 15) {
			bed_unplace(b);
			p->placed = false;
		} else {
			bed_leave(b);
		}
		break;
	case 2:
		ns = take(y, 2);
		bed_time(b, ns);
		if (b->on < 0)
			ns = 0;
		break;
	case 3:
		if (op & 0x80) { /* somebody else where the vCPU is not */
			int n = op >> 4 & 1;

			if (b->on != n)
				vpmu_emu_add(b->sp[n].tally, op >> 5 & 1, VPMU_EMU_INSTRUCTIONS,
					     take(y, 2));
		} else {
			vpmu_pcpu_tick(b->pcpu[op >> 4 & 1]);
		}
		break;
	case 4:
		play_pmc(y);
		break;
	case 5:
		play_service(y);
		break;
	case 6:
		if (b->on >= 0)
			play_branch(y, op >> 4 & 1, op >> 5 & 1 ? VPMU_LBR_JCC : VPMU_LBR_REL_CALL);
		break;
	case 7:
	case 8:
	case 9:
	case 10: {
		unsigned int mode = (op >> 4) % 3;
		int ev = (int)(take(y, 1) % (2 * VPMU_EMU_EVENTS));
		uint64_t n = take(y, op & 0x80 ? 1 : 2);

		ev = ev >= VPMU_EMU_EVENTS ? VPMU_EMU_INSTRUCTIONS : ev;
		if (b->on >= 0)
			play_exec(y, mode, ev, n, !(op & 0x40));
		break;
	}
	case 11:
		play_rd(y, play_msr(y));
		break;
	default:
		msr = play_msr(y);
		play_wr(y, msr, play_value(y, msr));
		break;
	}
	plain_look(p, ns);
	play_state(y);
}

static inline void play_times(struct play *y)
{
	for (unsigned int c = 0; c < 20; c++) {
		uint32_t msr = VPMU_PV_MSR_BASE + 4 * c;
		uint64_t en, run;

		if (vpmu_guest_rdmsr(y->b->g, msr, &en))
			continue;
		PLAY_CHECK(y, !vpmu_guest_rdmsr(y->b->g, msr + 1, &run), "no running time");
		PLAY_CHECK(y, run <= en, "counter %u ran longer than it was on", c);
	}
}

static inline int play_conserved(const struct vpmu_conservation *c, void *arg)
{
	struct play *y = arg;

	PLAY_CHECK(y, c->hardware == c->charged, "key %llx: hardware %llu, charged %llu",
		   (unsigned long long)c->key, (unsigned long long)c->hardware,
		   (unsigned long long)c->charged);
	return 0;
}

/* Counters that interrupt soon, so that what follows shows. */
static inline void play_prelude(struct play *y)
{
	static const uint32_t intel[] = {0xc0, 0xc4, 0x3c, 0x20c4, 0x81d0, 0x82d0, 0xc0, 0xc4};
	static const uint32_t amd[] = {0xc0, 0xc2, 0x76, 0xc4, 0x129, 0x229, 0xc0, 0xc2};
	bool k7 = !y->p.intel && y->p.ver == 0;

	bed_enter(y->b, 0);
	y->p.placed = true;
	for (uint32_t i = 0; i < y->p.m->gp; i++) {
		play_wr(y,
			y->p.intel ? 0x186 + i
			: k7	   ? 0xc0010000 + i
				   : 0xc0010200 + 2 * i,
			(y->p.intel ? intel : amd)[i % 8] | (1 + i % 3) << 16 | 5u << 20);
		play_wr(y,
			y->p.intel ? 0x4c1 + i
			: k7	   ? 0xc0010004 + i
				   : 0xc0010201 + 2 * i,
			M48 - 40 * i);
	}
	if (y->p.intel) {
		play_wr(y, 0x38d, y->p.m->fixed == 4 ? 0x3b3b : 0xb3b);
		play_wr(y, 0x38f, row_of(y->p.m, 0x38f, 0)->keep);
	}
	plain_look(&y->p, 0);
}

/* One vCPU's life. @busy: it counts already. */
static inline void play(struct play *y, const struct machine *m, bool busy)
{
	y->p = (struct plain){0};
	plain_init(&y->p, m);
	y->steps = 0;
	PLAY_CHECK(y, !bed_vcpu(y->b, &m->cfg), "init");
	if (busy && m->gp)
		play_prelude(y);
	while (y->at < y->end)
		play_step(y);
	for (unsigned int s = 0; s < sizeof(pmu_spans) / sizeof(pmu_spans[0]); s++) {
		for (uint32_t msr = pmu_spans[s].first; msr <= pmu_spans[s].last; msr++)
			play_rd(y, msr);
	}
	play_rd(y, 0x1d9);
	play_times(y);
	vpmu_host_conservation(y->b->host, play_conserved, y);
	bed_vcpu_fini(y->b);
}

#endif
