/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A plain model of a guest's PMU, by the manuals, for the property test and the fuzzers: registers,
 * events added to each counter that is on, at once, and branches pushed on a list. What may be
 * written is guest_manual.h's. Knows nothing of consumers, alarms, flushes or sharing, and shares
 * no code with vpmu/guest. Its host is an emulator PMU with room for every key.
 */
#ifndef TESTS_UNIT_GUEST_PLAIN_H
#define TESTS_UNIT_GUEST_PLAIN_H

#include "guest_manual.h"

#define NOQ 0xff

struct plain {
	const struct machine *m;
	bool intel;
	int ver;		   /* Intel 2..5; AMD 0: K7, 1: PERFCTR_CORE, 2: PerfMonV2 */
	uint64_t sel[16], val[20]; /* val: 16.. are the fixed ones */
	uint64_t fctl, gctl, status, debugctl;
	bool pmi; /* one is due */
	bool placed, lost[20];
	uint64_t en[20];
	unsigned int q[20];
	uint64_t denied;
	unsigned int depth;
	uint64_t lctl, lcfg;
	uint64_t from[32], to[32], info[32]; /* as the registers show them, newest first */
};

static inline bool manual_intel(const struct machine *m)
{
	return m->cfg.model == VPMU_GUEST_INTEL_V2 || m->cfg.model == VPMU_GUEST_INTEL_V3 ||
	       m->cfg.model == VPMU_GUEST_INTEL_V4 || m->cfg.model == VPMU_GUEST_INTEL_V5;
}

static inline void plain_init(struct plain *p, const struct machine *m)
{
	static const int ver[VPMU_GUEST_MODELS] = {
		[VPMU_GUEST_INTEL_V2] = 2, [VPMU_GUEST_INTEL_V3] = 3, [VPMU_GUEST_INTEL_V4] = 4,
		[VPMU_GUEST_INTEL_V5] = 5, [VPMU_GUEST_AMD_CORE] = 1, [VPMU_GUEST_AMD_V2] = 2,
	};
	uint64_t denied = p->denied;
	bool placed = p->placed;

	*p = (struct plain){
		.m = m, .intel = manual_intel(m), .ver = ver[m->cfg.model], .placed = placed};
	p->denied = denied;
	p->gctl = (1u << m->gp) - 1;
	p->depth = m->lbr;
	for (int i = 0; i < 20; i++)
		p->q[i] = NOQ;
}

static inline bool has_status(const struct plain *p)
{
	return p->intel || p->ver == 2;
}

/* ---- counted events ---- */

enum { RAW, STANDARD, ARCH }; /* which tiers have it */

/* Event and unit mask: on an emulator host it counts .ev, or nothing it knows (-1). */
struct code {
	unsigned int code;
	int ev, tier;
};

static inline int code_of(const struct plain *p, uint64_t sel, int *tier)
{
	static const struct code intel[] = {{0x003c, VPMU_EMU_CYCLES, ARCH},
					    {0x00c0, VPMU_EMU_INSTRUCTIONS, ARCH},
					    {0x00c4, VPMU_EMU_BRANCHES, ARCH},
					    {0x20c4, VPMU_EMU_BRANCHES_TAKEN, STANDARD},
					    {0x11c4, VPMU_EMU_BRANCHES_CONDITIONAL, STANDARD},
					    {0x81d0, VPMU_EMU_LOADS, STANDARD},
					    {0x82d0, VPMU_EMU_STORES, STANDARD},
					    {0x00c5, -1, ARCH},
					    {0x013c, -1, ARCH},
					    {0x4f2e, -1, ARCH},
					    {0x412e, -1, ARCH},
					    {0x01a4, -1, ARCH},
					    {0, 0, -1}};
	static const struct code amd[] = {{0x0076, VPMU_EMU_CYCLES, ARCH},
					  {0x00c0, VPMU_EMU_INSTRUCTIONS, ARCH},
					  {0x00c2, VPMU_EMU_BRANCHES, ARCH},
					  {0x00c4, VPMU_EMU_BRANCHES_TAKEN, STANDARD},
					  {0x00d1, VPMU_EMU_BRANCHES_CONDITIONAL, STANDARD},
					  {0x0129, VPMU_EMU_LOADS, STANDARD},
					  {0x0229, VPMU_EMU_STORES, STANDARD},
					  {0x00c3, -1, ARCH},
					  {0x10120, VPMU_EMU_REF_CYCLES, ARCH},
					  {0, 0, -1}};
	unsigned int code = sel & 0xffff;

	*tier = RAW;
	if (sel >> 18 & 1 || sel >> 24 & 0xff) /* edge, cmask */
		return -1;
	if (!p->intel) {
		if (sel >> 23 & 1) /* inv: KVM and vpmu/event/event.h keep it for AMD */
			return -1;
		if (sel >> 32 & 0xf) /* event 1xxH: as if the unit mask began at bit 16 */
			code = (sel >> 32 & 0xf) << 8 | (sel & 0xff) | (sel & 0xff00) << 8;
	} else if (code == 0x01c4 && p->ver < 5 && !(sel >> 23 & 1)) {
		code = 0x11c4; /* before Ice Lake it was unit mask 01H */
	}
	for (const struct code *c = p->intel ? intel : amd; c->tier >= 0; c++) {
		if (c->code == code) {
			*tier = c->tier;
			return c->ev;
		}
	}
	return -1;
}

static inline int least_tier(const struct plain *p)
{
	const struct vpmu_policy *policy = p->m->cfg.policy;

	if (!policy || policy->tier == VPMU_POLICY_FULL)
		return RAW;
	return policy->tier == VPMU_POLICY_STANDARD ? STANDARD : ARCH;
}

/* Is counter @c selected, for which modes and which event (-1: nothing the host or the policy
 * has)? */
static inline bool selected(const struct plain *p, int c, unsigned int *modes, int *ev,
			    bool *denied)
{
	static const int fixed_ev[] = {VPMU_EMU_INSTRUCTIONS, VPMU_EMU_CYCLES, VPMU_EMU_REF_CYCLES,
				       -1};
	bool usr, os, en = true;
	int tier = ARCH;

	if (c < 16) {
		usr = p->sel[c] >> 16 & 1;
		os = p->sel[c] >> 17 & 1;
		en = p->sel[c] >> 22 & 1;
		*ev = code_of(p, p->sel[c], &tier);
	} else {
		os = p->fctl >> (4 * (c - 16)) & 1;
		usr = p->fctl >> (4 * (c - 16) + 1) & 1;
		*ev = fixed_ev[c - 16];
	}
	*denied = en && (usr || os) && tier < least_tier(p);
	if (*denied)
		*ev = -1;
	*modes = (usr ? 1u << VPMU_EMU_USR : 0) | (os ? 1u << VPMU_EMU_OS : 0);
	return en && *modes;
}

static inline uint64_t gbit(int c)
{
	return c < 16 ? 1ULL << c : 1ULL << (32 + c - 16);
}

static inline bool on(const struct plain *p, int c, unsigned int *modes, int *ev)
{
	bool denied;

	return selected(p, c, modes, ev, &denied) && (p->gctl & gbit(c)) && !(p->status >> 59 & 1);
}

static inline bool interrupts(const struct plain *p, int c)
{
	return c < 16 ? p->sel[c] >> 20 & 1 : p->fctl >> (4 * (c - 16) + 3) & 1;
}

static inline void plain_event(struct plain *p, unsigned int mode, int event, uint64_t n)
{
	unsigned int modes;
	int ev;

	for (int c = 0; c < 20; c++) {
		if (!on(p, c, &modes, &ev) || ev != event || !(modes >> mode & 1))
			continue;
		p->val[c] += n;
		if (!(p->val[c] >> 48))
			continue;
		p->val[c] &= M48;
		if (has_status(p))
			p->status |= gbit(c);
		if (interrupts(p, c))
			p->pmi = true;
	}
}

/* The VMM is about to enter the guest. True: a PMI goes out. */
static inline bool plain_service(struct plain *p)
{
	if (!p->pmi)
		return false;
	p->pmi = false;
	if (p->debugctl >> 12 & 1) {
		if (p->intel && p->ver < 4)
			p->gctl = 0; /* legacy */
		else
			p->status |= 1ULL << 59;
	}
	if (p->debugctl >> 11 & 1)
		p->status |= 1ULL << 58;
	return true;
}

/* After every step: an enabled, placed counter either counts with a quality or is lost. */
static inline void plain_look(struct plain *p, uint64_t ran_ns)
{
	unsigned int modes;
	int ev;

	for (int c = 0; c < 20 && p->placed; c++) {
		unsigned int q;

		if (!on(p, c, &modes, &ev))
			continue;
		q = ev == VPMU_EMU_CYCLES || ev == VPMU_EMU_REF_CYCLES ? VPMU_Q_MODELLED
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

/* ---- branch records ---- */

/* Are branches of privilege @mode and kind @type (bit of IA32_LBR_CTL) recorded? */
static inline bool plain_records(const struct plain *p, unsigned int mode, uint32_t type)
{
	static const uint32_t suppressed[] = {VPMU_LBR_JCC, VPMU_LBR_REL_CALL};
	bool os = mode == VPMU_EMU_OS;

	if (p->status >> 58 & 1 || !p->m->lbr)
		return false;
	if (p->intel) {
		if (!(p->lctl & 1) || !(p->lctl >> (os ? 1 : 2) & 1))
			return false;
		/* call-stack mode with other filters is undefined: near calls */
		return p->lctl >> 3 & 1 ? type == VPMU_LBR_REL_CALL : (p->lctl & type) != 0;
	}
	return p->lcfg >> 6 & 1 && !(p->lctl >> (os ? 0 : 1) & 1) &&
	       !(p->lctl >> (type == suppressed[0] ? 2 : 3) & 1);
}

static inline void plain_branch(struct plain *p, unsigned int mode, uint32_t type, uint64_t from,
				uint64_t to, uint64_t info)
{
	if (!plain_records(p, mode, type))
		return;
	for (unsigned int i = p->depth - 1; i; i--) {
		p->from[i] = p->from[i - 1];
		p->to[i] = p->to[i - 1];
		p->info[i] = p->info[i - 1];
	}
	p->from[0] = p->intel ? from : from & ~(1ULL << 63);
	p->to[0] = p->intel ? to : (to & ~(7ULL << 61)) | 1ULL << 63;
	p->info[0] = info;
}

/* Memory for them exists only while they are made or kept. */
static inline bool plain_lbr_used(const struct plain *p)
{
	bool en = p->intel ? p->lctl & 1 : p->lcfg >> 6 & 1;
	uint64_t any = 0;

	for (int i = 0; i < 32; i++)
		any |= p->from[i] | p->to[i] | (p->intel ? p->info[i] : 0);
	return p->m->lbr && (any || (en && !(p->status >> 58 & 1)));
}

/* ---- registers ---- */

static inline void set_counter(struct plain *p, unsigned int c, uint64_t v)
{
	p->val[c] = v;
	p->en[c] = 0;
	p->q[c] = NOQ;
	p->lost[c] = false;
}

static inline void note_denial(struct plain *p, int c)
{
	unsigned int modes;
	bool denied;
	int ev;

	selected(p, c, &modes, &ev, &denied);
	p->denied += denied;
}

static inline void set_status(struct plain *p, uint64_t clear, uint64_t set)
{
	uint64_t all = ((1ULL << p->m->gp) - 1) | ((1ULL << p->m->fixed) - 1) << 32;

	if (!p->intel) /* others are dropped */
		set &= all | 1ULL << 59 | (p->m->lbr ? 1ULL << 58 : 0);
	p->status = (p->status & ~clear) | set;
}

static inline void plain_wr_intel(struct plain *p, uint32_t msr, uint64_t v)
{
	uint64_t old = p->fctl;

	if (msr - 0xc1 < 8)
		set_counter(p, msr - 0xc1, v);
	else if (msr - 0x4c1 < 8)
		set_counter(p, msr - 0x4c1, v);
	else if (msr - 0x309 < 4)
		set_counter(p, 16 + msr - 0x309, v);
	else if (msr - 0x186 < 8) {
		p->sel[msr - 0x186] = v;
		note_denial(p, (int)(msr - 0x186));
	} else if (msr - 0x1500 < 32)
		p->from[msr - 0x1500] = v;
	else if (msr - 0x1600 < 32)
		p->to[msr - 0x1600] = v;
	else if (msr - 0x1200 < 32)
		p->info[msr - 0x1200] = v;
	else if (msr == 0x1d9)
		p->debugctl = v;
	else if (msr == 0x38f)
		p->gctl = v;
	else if (msr == 0x14ce)
		p->lctl = v;
	else if (msr == 0x38d) {
		p->fctl = v;
		for (int n = 0; n < 4; n++) {
			if ((old ^ v) >> (4 * n) & 0xf)
				note_denial(p, 16 + n);
		}
	} else if (msr == 0x14cf) {
		p->depth = (unsigned int)v;
		memset(p->from, 0, sizeof(p->from));
		memset(p->to, 0, sizeof(p->to));
		memset(p->info, 0, sizeof(p->info));
	}
}

static inline void plain_wr_amd(struct plain *p, uint32_t msr, uint64_t v)
{
	if (msr >= 0xc0010000 && msr < 0xc0010004)
		msr = 0xc0010200 + 2 * (msr & 3);
	else if (msr >= 0xc0010004 && msr < 0xc0010008)
		msr = 0xc0010201 + 2 * (msr & 3);
	if (msr - 0xc0010200 < 30) {
		unsigned int n = (msr - 0xc0010200) / 2;

		if (msr & 1) {
			set_counter(p, n, v);
		} else {
			p->sel[n] = v;
			note_denial(p, (int)n);
		}
	} else if (msr - 0xc0010300 < 32) {
		(msr & 1 ? p->to : p->from)[(msr & 31) / 2] = v;
	} else if (msr == 0xc0000301)
		p->gctl = v;
	else if (msr == 0x1d9)
		p->debugctl = v;
	else if (msr == 0xc000010e)
		p->lctl = v;
	else if (msr == 0xc000010f)
		p->lcfg = v;
}

static inline int plain_wr(struct plain *p, uint32_t msr, uint64_t v)
{
	const struct row *r = row_of(p->m, msr, p->depth);

	if (!r)
		return no_register(msr);
	if (!row_takes(r, v))
		return -EFAULT;
	if (msr == 0x390 || msr == 0xc0000302)
		set_status(p, v, 0);
	else if (msr == 0x391 || msr == 0xc0000303)
		set_status(p, 0, v);
	else if (p->intel)
		plain_wr_intel(p, msr, row_back(r, v));
	else
		plain_wr_amd(p, msr, row_back(r, v));
	return 0;
}

static inline uint64_t plain_inuse(const struct plain *p)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < p->m->gp; i++)
		v |= (uint64_t)((p->sel[i] & 0xff) != 0) << i | (p->sel[i] >> 20 & 1) << 63;
	for (unsigned int i = 0; i < p->m->fixed; i++)
		v |= (uint64_t)((p->fctl >> (4 * i) & 3) != 0) << (32 + i) |
		     (p->fctl >> (4 * i + 3) & 1) << 63;
	return v;
}

static inline uint64_t plain_rd_intel(const struct plain *p, uint32_t msr)
{
	if (msr - 0xc1 < 8)
		return p->val[msr - 0xc1];
	if (msr - 0x4c1 < 8)
		return p->val[msr - 0x4c1];
	if (msr - 0x309 < 4)
		return p->val[16 + msr - 0x309];
	if (msr - 0x186 < 8)
		return p->sel[msr - 0x186];
	if (msr - 0x1500 < 32)
		return p->from[msr - 0x1500];
	if (msr - 0x1600 < 32)
		return p->to[msr - 0x1600];
	if (msr - 0x1200 < 32)
		return p->info[msr - 0x1200];
	switch (msr) {
	case 0x1a0:
		return 0x1801 | (p->m->gp ? 0x80 : 0);
	case 0x345:
		return 1 << 13 | (p->m->lbr ? 0x3f : 0);
	case 0x1d9:
		return p->debugctl;
	case 0x38d:
		return p->fctl;
	case 0x38e:
		return p->status;
	case 0x38f:
		return p->gctl;
	case 0x392:
		return plain_inuse(p);
	case 0x14ce:
		return p->lctl;
	case 0x14cf:
		return p->depth;
	default:
		return 0;
	}
}

static inline uint64_t plain_rd_amd(const struct plain *p, uint32_t msr)
{
	if (msr >= 0xc0010000 && msr < 0xc0010004)
		return p->sel[msr & 3];
	if (msr >= 0xc0010004 && msr < 0xc0010008)
		return p->val[msr & 3];
	if (msr - 0xc0010200 < 32)
		return msr & 1 ? p->val[(msr & 0x1f) / 2] : p->sel[(msr & 0x1f) / 2];
	if (msr - 0xc0010300 < 32)
		return msr & 1 ? p->to[(msr & 0x1f) / 2] : p->from[(msr & 0x1f) / 2];
	switch (msr) {
	case 0x1d9:
		return p->debugctl;
	case 0xc0000300:
		return p->status;
	case 0xc0000301:
		return p->gctl;
	case 0xc000010e:
		return p->lctl;
	case 0xc000010f:
		return p->lcfg;
	default:
		return 0;
	}
}

static inline int plain_rd(const struct plain *p, uint32_t msr, uint64_t *v)
{
	if (!row_of(p->m, msr, p->depth))
		return no_register(msr);
	if (msr - VPMU_PV_MSR_BASE < 80) {
		unsigned int c = (msr - VPMU_PV_MSR_BASE) / 4, what = msr % 4;

		if (p->lost[c] || p->q[c] == NOQ)
			*v = what == 2 ? NOQ : 0;
		else
			*v = what == 2 ? p->q[c] : p->en[c];
		return 0;
	}
	*v = p->intel ? plain_rd_intel(p, msr) : plain_rd_amd(p, msr);
	return 0;
}

static inline int plain_pmc(const struct plain *p, uint32_t ecx, uint64_t *v)
{
	bool fixed = p->intel && ecx >> 16 == 0x4000;
	unsigned int i = fixed ? ecx & 0xffff : ecx;

	if (i >= (fixed ? p->m->fixed : p->m->gp))
		return -EFAULT;
	*v = p->val[fixed ? 16 + i : i];
	return 0;
}

#endif
