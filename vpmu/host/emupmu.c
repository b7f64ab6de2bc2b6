// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The emulator's PMU as a host PMU. The core calls it through vpmu_hostpmu_ops, on the owner of
 * the pCPU; nothing here may take a lock or allocate memory.
 *
 * A bound counter is the tally's word with the sum of its event over its modes, truncated to the
 * counter's width. So its initial value is arbitrary, and it wraps as hardware does. audit() does
 * not use these sums: it adds up the modes' own counts, in 64 bits.
 */
#include <errno.h>

#include "vpmu/emupmu.h"

#define GP_DEFAULT    4
#define FIXED_DEFAULT 3
#define WIDTH_DEFAULT 48

static struct vpmu_emupmu *emulator(const struct vpmu_hostpmu *pmu)
{
	return (struct vpmu_emupmu *)pmu; /* pmu is the first member */
}

/* The emulator event of @key, or -1. Only generic events have one. */
static int emu_event(vpmu_key_t key)
{
	static const int8_t map[VPMU_EV_GENERIC_NR] = {
		[VPMU_EV_CYCLES] = VPMU_EMU_CYCLES,
		[VPMU_EV_INSTRUCTIONS] = VPMU_EMU_INSTRUCTIONS,
		[VPMU_EV_REF_CYCLES] = VPMU_EMU_REF_CYCLES,
		[VPMU_EV_BRANCHES] = VPMU_EMU_BRANCHES,
		[VPMU_EV_BRANCHES_TAKEN] = VPMU_EMU_BRANCHES_TAKEN,
		[VPMU_EV_BRANCHES_CONDITIONAL] = VPMU_EMU_BRANCHES_CONDITIONAL,
		[VPMU_EV_LOADS] = VPMU_EMU_LOADS,
		[VPMU_EV_STORES] = VPMU_EMU_STORES,
		[VPMU_EV_BRANCH_MISSES] = -1,
		[VPMU_EV_CACHE_REFERENCES] = -1,
		[VPMU_EV_CACHE_MISSES] = -1,
		[VPMU_EV_BUS_CYCLES] = -1,
		[VPMU_EV_SLOTS] = -1,
		[VPMU_EV_STALLED_FRONTEND] = -1,
		[VPMU_EV_STALLED_BACKEND] = -1,
	};

	if (vpmu_key_space(key) != VPMU_SPACE_GENERIC || vpmu_key_event(key) >= VPMU_EV_GENERIC_NR)
		return -1;
	return map[vpmu_key_event(key)];
}

/* The modes in which @key counts. The host's privilege levels are not modelled: all of the host's
 * work is one mode, counted by keys with HOST and OS. */
static uint8_t emu_modes(vpmu_key_t key)
{
	uint8_t modes = 0;

	if ((key & VPMU_KEY_GUEST) && (key & VPMU_KEY_USR))
		modes |= 1 << VPMU_EMU_USR;
	if ((key & VPMU_KEY_GUEST) && (key & VPMU_KEY_OS))
		modes |= 1 << VPMU_EMU_OS;
	if ((key & VPMU_KEY_HOST) && (key & VPMU_KEY_OS))
		modes |= 1 << VPMU_EMU_HOST;
	if (key & VPMU_KEY_GUESTONLY)
		modes |= VPMU_EMU_GUESTONLY;
	if (key & VPMU_KEY_HOSTONLY)
		modes |= VPMU_EMU_HOSTONLY;
	return modes;
}

/* Sum of the own counts of each mode in @c's set. */
static uint64_t own_counts(const struct vpmu_emupmu *sp, const struct vpmu_emu_ctr *c)
{
	unsigned int svm = c->modes & (VPMU_EMU_GUESTONLY | VPMU_EMU_HOSTONLY);
	uint64_t sum = 0;

	for (unsigned int m = 0; m < VPMU_EMU_MODES; m++) {
		if (!(c->modes & 1u << m))
			continue;
		if (!svm)
			sum += sp->tally->ev[m][c->event];
		if (svm & VPMU_EMU_GUESTONLY)
			sum += sp->tally->ev[vpmu_emu_row(VPMU_EMU_GUESTONLY | 1u << m)][c->event];
		if (svm & VPMU_EMU_HOSTONLY)
			sum += sp->tally->ev[vpmu_emu_row(VPMU_EMU_HOSTONLY | 1u << m)][c->event];
	}
	return sum;
}

static uint32_t emu_eligible(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	static const uint8_t fixed_event[] = {VPMU_EMU_INSTRUCTIONS, VPMU_EMU_CYCLES,
					      VPMU_EMU_REF_CYCLES};
	uint32_t ctrs = ((1u << pmu->nr_ctrs) - 1) & ~pmu->fixed_mask;
	unsigned int first = (unsigned int)__builtin_popcount(ctrs);
	int ev = emu_event(key);

	if (ev < 0 || !emu_modes(key))
		return 0;
	for (unsigned int i = 0; i + first < pmu->nr_ctrs; i++) {
		if (fixed_event[i] == ev)
			ctrs |= 1u << (first + i);
	}
	return ctrs;
}

static enum vpmu_quality emu_quality(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	int ev = emu_event(key);

	return ev == VPMU_EMU_CYCLES || ev == VPMU_EMU_REF_CYCLES ? VPMU_Q_MODELLED : VPMU_Q_EXACT;
}

static int emu_bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	struct vpmu_emupmu *sp = emulator(pmu);
	struct vpmu_emu_ctr *c = &sp->ctr[ctr];

	if (ctr >= pmu->nr_ctrs || !(emu_eligible(pmu, key) & (1u << ctr)))
		return -EINVAL;
	if (c->bound)
		return -EBUSY;
	c->bound = true;
	c->key = key;
	c->event = (uint8_t)emu_event(key);
	c->modes = emu_modes(key);
	sp->word[ctr] = &sp->tally->ev[vpmu_emu_row(c->modes)][c->event];
	c->audit_base = own_counts(sp, c);
	return 0;
}

static void emu_unbind(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	emulator(pmu)->ctr[ctr].bound = false;
	emulator(pmu)->tally->armed &= ~(1u << ctr);
}

static void emu_arm(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events)
{
	struct vpmu_emupmu *sp = emulator(pmu);
	const struct vpmu_emu_ctr *c = &sp->ctr[ctr];

	sp->tally->armed &= ~(1u << ctr);
	if (!events)
		return;
	if (events > INT64_MAX) /* more would look due (vpmu_emu_alarm_left) */
		events = INT64_MAX;
	sp->tally->alarm[ctr] = (struct vpmu_emu_alarm){
		.event = c->event, .modes = c->modes, .at = *sp->word[ctr] + events};
	sp->tally->armed |= 1u << ctr;
}

/* ---- branch records ---- */

static void emu_lbr_save(struct vpmu_hostpmu *pmu, struct vpmu_lbr_regs *r)
{
	struct vpmu_emu_tally *t = emulator(pmu)->tally;

	*r = t->lbr;
	r->cycles = vpmu_emu_clock(t) - t->lbr.cycles;
	t->lbr.ctl &= ~VPMU_LBR_EN;
}

static void emu_lbr_restore(struct vpmu_hostpmu *pmu, const struct vpmu_lbr_regs *r)
{
	struct vpmu_emu_tally *t = emulator(pmu)->tally;

	t->lbr = *r;
	t->lbr.cycles = vpmu_emu_clock(t) - r->cycles;
}

static void emu_lbr_reset(struct vpmu_hostpmu *pmu)
{
	emulator(pmu)->tally->lbr = (struct vpmu_lbr_regs){0};
}

static void emu_lbr_resume(struct vpmu_hostpmu *pmu, uint32_t ctl)
{
	emulator(pmu)->tally->lbr.ctl = ctl;
}

static uint64_t emu_read(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	return *emulator(pmu)->word[ctr] & pmu->width_mask;
}

static uint64_t emu_audit(const struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	const struct vpmu_emupmu *sp = emulator(pmu);

	return own_counts(sp, &sp->ctr[ctr]) - sp->ctr[ctr].audit_base;
}

static uint64_t emu_now(const struct vpmu_hostpmu *pmu)
{
	return *pmu->clock_ns;
}

static void emupmu_emu_kick(struct vpmu_hostpmu *pmu)
{
	struct vpmu_emupmu *sp = emulator(pmu);

	if (sp->kick)
		sp->kick(sp->kick_arg);
}

static const struct vpmu_hostpmu_ops emu_ops = {
	.name = "emulator",
	.eligible = emu_eligible,
	.quality = emu_quality,
	.bind = emu_bind,
	.unbind = emu_unbind,
	.read = emu_read,
	.now = emu_now,
	.audit = emu_audit,
	.kick = emupmu_emu_kick,
	.arm = emu_arm,
	.lbr_save = emu_lbr_save,
	.lbr_restore = emu_lbr_restore,
	.lbr_reset = emu_lbr_reset,
	.lbr_resume = emu_lbr_resume,
};

int vpmu_emupmu_init(struct vpmu_emupmu *sp, const struct vpmu_emupmu_opts *opts)
{
	struct vpmu_emupmu_opts o = opts ? *opts : (struct vpmu_emupmu_opts){0};

	if (!o.no_default) {
		o.gp = o.gp ? o.gp : GP_DEFAULT;
		o.fixed = o.fixed ? o.fixed : FIXED_DEFAULT;
	}
	o.width = o.width ? o.width : WIDTH_DEFAULT;
	if (o.gp > 16 || o.fixed > 3 || o.gp + o.fixed == 0 || o.width < 8 || o.width > 63)
		return -EINVAL;
	*sp = (struct vpmu_emupmu){
		.pmu = {.ops = &emu_ops,
			.nr_ctrs = o.gp + o.fixed,
			.fixed_mask = ((1u << o.fixed) - 1) << o.gp,
			.width_mask = (1ULL << o.width) - 1,
			.lbr_depth = o.no_lbr ? 0 : VPMU_LBR_DEPTH_MAX},
	};
	sp->tally = &sp->own_tally;
	sp->pmu.clock_ns = &sp->own_clock_ns;
	sp->pmu.word = sp->word;
	return 0;
}
