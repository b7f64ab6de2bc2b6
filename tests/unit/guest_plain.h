/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A plain model of a guest's PMU, by the manuals, for the property test and the fuzzer: registers,
 * and events added to each counter that is on, at once. Knows nothing of consumers, flushes or
 * sharing, and shares no code with vpmu/guest. Its host is a soft PMU with room for every key.
 */
#ifndef GUEST_PLAIN_H
#define GUEST_PLAIN_H

#include <errno.h>
#include <string.h>

#include "vpmu/guest/abi.h"
#include "vpmu/guest/guest.h"
#include "vpmu/softpmu.h"

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

struct plain {
	const struct shape *s;
	uint64_t sel[16], val[20]; /* val: 16.. are the fixed ones */
	uint64_t fctl, gctl, status, debugctl;
	bool placed, lost[20];
	uint64_t en[20];
	unsigned int q[20];
};

static inline void plain_reset(struct plain *p)
{
	bool placed = p->placed;

	*p = (struct plain){.s = p->s, .placed = placed};
	p->gctl = (1u << p->s->gp) - 1;
	memset(p->q, 0, sizeof(p->q));
	for (int i = 0; i < 20; i++)
		p->q[i] = NOQ;
}

/* What a select counts on a soft host: event, or -1 for what it cannot count. */
static inline int soft_event_of(const struct plain *p, uint64_t sel)
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
static inline bool on(const struct plain *p, int c, unsigned int *modes, int *ev)
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

static inline void plain_event(struct plain *p, unsigned int mode, int event, uint64_t n)
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
static inline void plain_look(struct plain *p, uint64_t ran_ns)
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

static inline int set_counter(struct plain *p, unsigned int c, uint64_t v)
{
	p->val[c] = v & LOW48;
	p->en[c] = 0;
	p->q[c] = NOQ;
	p->lost[c] = false;
	return 0;
}

static inline uint64_t gmask(const struct plain *p)
{
	return ((1ULL << p->s->gp) - 1) | ((1ULL << p->s->fixed) - 1) << 32;
}

static inline int plain_wr_intel(struct plain *p, uint32_t msr, uint64_t v)
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

static inline int plain_wr_amd(struct plain *p, uint32_t msr, uint64_t v)
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

static inline int plain_rd(const struct plain *p, uint32_t msr, uint64_t *v)
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

static inline int plain_pmc(const struct plain *p, uint32_t ecx, uint64_t *v)
{
	bool fixed = p->s->kind != AMD && ecx >> 16 == 0x4000;
	unsigned int i = fixed ? ecx & 0xffff : ecx;

	if (i >= (fixed ? p->s->fixed : p->s->gp))
		return -EFAULT;
	*v = p->val[fixed ? 16 + i : i];
	return 0;
}

static inline int plain_wr(struct plain *p, uint32_t msr, uint64_t v)
{
	return p->s->kind == AMD ? plain_wr_amd(p, msr, v) : plain_wr_intel(p, msr, v);
}

#endif
