// SPDX-License-Identifier: GPL-2.0-or-later
/* See fake.h. */
#include "tests/model/fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct fake *fake(const struct vpmu_hostpmu *pmu)
{
	return (struct fake *)pmu; /* pmu is the first member */
}

/* m_keys_init's order: by where, privilege and event. Called between traps, so no search. */
static int key_index(vpmu_key_t key)
{
	int where = (int)(key >> 36 & 3), priv = (int)(key >> 34 & 3);
	int i = ((3 - where) * 3 + 3 - priv) * 12 + (int)(key & 0xffff);

	return i >= 0 && i < m_nr_keys && m_keys[i].key == key ? i : M_NONE;
}

bool fake_can(const struct fake *f, int key)
{
	return m_keys[key].event != M_NONE && !f->cannot[m_keys[key].event];
}

uint32_t fake_eligible(const struct fake *f, int key)
{
	if (!fake_can(f, key))
		return 0;
	return f->emulator.pmu.ops->eligible(&f->emulator.pmu, m_keys[key].key);
}

int fake_counter_of(const struct fake *f, int key)
{
	for (unsigned int i = 0; i < f->pmu.nr_ctrs; i++) {
		if (f->key[i] == key)
			return (int)i;
	}
	return M_NONE;
}

static uint32_t eligible(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	int k = key_index(key);

	fake(pmu)->calls++;
	return k == M_NONE ? 0 : fake_eligible(fake(pmu), k);
}

static enum vpmu_quality quality(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	fake(pmu)->calls++;
	return fake(pmu)->emulator.pmu.ops->quality(&fake(pmu)->emulator.pmu, key);
}

static int bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	struct fake *f = fake(pmu);
	int k = key_index(key), ret;

	f->calls++;
	if (f->refuse_percent && random_split(&f->rng) % 100 < f->refuse_percent)
		return -EBUSY;
	ret = f->emulator.pmu.ops->bind(&f->emulator.pmu, ctr, key);
	if (ret)
		return ret;
	f->key[ctr] = k;
	f->offset[ctr] = f->memory ? 0 : random_split(&f->rng);
	f->rebound[k] = true;
	if (f->model)
		model_counter(f->model, f->pcpu, k, true);
	return 0;
}

static void unbind(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct fake *f = fake(pmu);

	f->calls++;
	f->emulator.pmu.ops->unbind(&f->emulator.pmu, ctr);
	f->rebound[f->key[ctr]] = true;
	if (f->model)
		model_counter(f->model, f->pcpu, f->key[ctr], false);
	f->key[ctr] = M_NONE;
}

static uint64_t read(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct fake *f = fake(pmu);

	f->calls++;
	f->reads[f->key[ctr]]++;
	return (f->emulator.pmu.ops->read(&f->emulator.pmu, ctr) + f->offset[ctr]) &
	       pmu->width_mask;
}

static uint64_t now(const struct vpmu_hostpmu *pmu)
{
	fake(pmu)->calls++;
	fake(pmu)->nows++;
	return fake(pmu)->emulator.pmu.ops->now(&fake(pmu)->emulator.pmu);
}

static uint64_t audit(const struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	fake(pmu)->calls++;
	return fake(pmu)->emulator.pmu.ops->audit(&fake(pmu)->emulator.pmu, ctr);
}

/* A sync asks each pCPU that it concerns, whether somebody owns it or not. */
static void kick(struct vpmu_hostpmu *pmu)
{
	fake(pmu)->kicks++;
}

static void arm(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events)
{
	struct fake *f = fake(pmu);

	f->calls++;
	if (f->key[ctr] == M_NONE)
		abort(); /* by contract a bound counter */
	f->emulator.pmu.ops->arm(&f->emulator.pmu, ctr, events);
}

static void lbr_save(struct vpmu_hostpmu *pmu, struct vpmu_lbr_regs *r)
{
	fake(pmu)->lbr_calls++;
	fake(pmu)->emulator.pmu.ops->lbr_save(&fake(pmu)->emulator.pmu, r);
}

static void lbr_restore(struct vpmu_hostpmu *pmu, const struct vpmu_lbr_regs *r)
{
	fake(pmu)->lbr_calls++;
	fake(pmu)->emulator.pmu.ops->lbr_restore(&fake(pmu)->emulator.pmu, r);
}

static void lbr_reset(struct vpmu_hostpmu *pmu)
{
	fake(pmu)->lbr_calls++;
	fake(pmu)->emulator.pmu.ops->lbr_reset(&fake(pmu)->emulator.pmu);
}

static void lbr_resume(struct vpmu_hostpmu *pmu, uint32_t ctl)
{
	fake(pmu)->lbr_calls++;
	fake(pmu)->emulator.pmu.ops->lbr_resume(&fake(pmu)->emulator.pmu, ctl);
}

#define OPS                                                                                        \
	.name = "fake", .eligible = eligible, .quality = quality, .bind = bind, .unbind = unbind,  \
	.read = read, .now = now, .audit = audit, .kick = kick, .lbr_save = lbr_save,              \
	.lbr_restore = lbr_restore, .lbr_reset = lbr_reset, .lbr_resume = lbr_resume

static const struct vpmu_hostpmu_ops fake_ops = {OPS, .arm = arm};
static const struct vpmu_hostpmu_ops fake_ops_no_alarms = {OPS};

int fake_init(struct fake *f, const struct vpmu_emupmu_opts *opts, struct model *m, int pcpu,
	      uint64_t seed, int alarms)
{
	memset(f, 0, sizeof(*f));
	f->rng = seed;
	if (vpmu_emupmu_init(&f->emulator, opts))
		return -EINVAL;
	f->pmu = f->emulator.pmu;
	/* Half of them are read as memory, the others by calls, which are counted. */
	f->memory = random_split(&f->rng) & 1;
	if (!f->memory) {
		f->pmu.word = NULL;
		f->pmu.clock_ns = NULL;
	}
	f->alarms = alarms;
	f->pmu.ops = alarms == FAKE_NEVER ? &fake_ops_no_alarms : &fake_ops;
	f->model = m;
	f->pcpu = pcpu;
	f->emulator.own_clock_ns = random_split(&f->rng) >> 20; /* any epoch */
	for (int i = 0; i < VPMU_MAX_CTRS; i++)
		f->key[i] = M_NONE;
	return 0;
}

void fake_reset_calls(struct fake *f)
{
	f->calls = f->nows = f->lbr_calls = 0;
	memset(f->reads, 0, sizeof(f->reads));
	memset(f->rebound, 0, sizeof(f->rebound));
}

void fake_execute(struct fake *f, const struct m_exec *x)
{
	for (int mode = 0; mode < M_MODES; mode++) {
		for (int e = 0; e < M_EVENTS; e++)
			vpmu_emu_add(&f->emulator.own_tally, mode, e, x->ev[mode][e]);
	}
	f->emulator.own_clock_ns += x->ns;
	if (f->model)
		model_execute(f->model, f->pcpu, x);
}

/* How much of @n events of @e in @mode may go before an alarm must be answered; *left by counter.
 */
static uint64_t most(const struct fake *f, int mode, int e, uint64_t n, const uint64_t *left)
{
	const struct vpmu_emu_tally *t = f->emulator.tally;

	for (unsigned int c = 0; c < f->pmu.nr_ctrs; c++) {
		if (t->armed >> c & 1 && t->alarm[c].event == e && t->alarm[c].modes >> mode & 1 &&
		    left[c] < n)
			n = left[c];
	}
	return n;
}

bool fake_tells_all(const struct fake *f)
{
	for (unsigned int c = 0; c < f->pmu.nr_ctrs; c++) {
		if (f->key[c] != M_NONE && !(f->emulator.tally->armed >> c & 1))
			return false;
	}
	return fake_on_time(f);
}

bool fake_execute_some(struct fake *f, struct m_exec *x)
{
	struct vpmu_emu_tally *t = f->emulator.tally;
	uint64_t left[VPMU_MAX_CTRS], slack = 0;
	int first = (int)(random_split(&f->rng) % (M_MODES * M_EVENTS));
	struct m_exec y = {0};
	bool due = false;
	uint32_t gone = 0;

	if (f->alarms == FAKE_BIG)
		slack = random_split(&f->rng) % 8;
	else if (f->alarms == FAKE_LATE)
		slack = random_split(&f->rng) % 300;
	for (unsigned int c = 0; c < f->pmu.nr_ctrs; c++) {
		if (t->armed >> c & 1)
			left[c] = vpmu_emu_alarm_left(t, &t->alarm[c]) + slack;
		if (t->armed >> c & 1 && f->alarms == FAKE_EARLY)
			left[c] -= random_split(&f->rng) % (left[c] < 20 ? left[c] + 1 : 20);
	}
	for (int i = 0; i < M_MODES * M_EVENTS && !due; i++) {
		int mode = (first + i) % (M_MODES * M_EVENTS) / M_EVENTS;
		int e = (first + i) % M_EVENTS;
		uint64_t n = most(f, mode, e, x->ev[mode][e], left);

		y.ev[mode][e] = n;
		x->ev[mode][e] -= n;
		for (unsigned int c = 0; c < f->pmu.nr_ctrs; c++) {
			if (t->armed >> c & 1 && t->alarm[c].event == e &&
			    t->alarm[c].modes >> mode & 1) {
				left[c] -= n;
				due |= left[c] <= slack;
				if (!left[c] && f->alarms == FAKE_EARLY)
					gone |= 1u << c;
			}
		}
	}
	y.ns = due ? random_split(&f->rng) % (x->ns + 1) : x->ns;
	x->ns -= y.ns;
	fake_execute(f, &y);
	t->armed &= ~gone;
	return due;
}

bool fake_record(struct vpmu_lbr_regs *r, const struct fake_branch *b)
{
	uint32_t cpl = b->mode == VPMU_EMU_USR ? VPMU_LBR_USR : VPMU_LBR_OS;

	if (!(r->ctl & VPMU_LBR_EN) || !(r->ctl & cpl) || !(r->ctl & b->type))
		return false;
	if ((r->ctl & VPMU_LBR_CALL_STACK) && b->type == VPMU_LBR_RET) {
		if (r->count) {
			r->e[r->head] = (struct vpmu_lbr_entry){0};
			r->head =
				(uint8_t)((r->head + VPMU_LBR_DEPTH_MAX - 1) % VPMU_LBR_DEPTH_MAX);
			r->count--;
		}
		return false;
	}
	r->head = (uint8_t)((r->head + 1) % VPMU_LBR_DEPTH_MAX);
	r->e[r->head] = b->e;
	r->count = (uint8_t)(r->count < r->depth ? r->count + 1 : r->depth);
	r->total++;
	return true;
}

void fake_branch(struct fake *f, const struct fake_branch *b)
{
	struct vpmu_lbr_regs *r = &f->emulator.own_tally.lbr;

	if (fake_record(r, b))
		r->cycles = vpmu_emu_clock(&f->emulator.own_tally);
}
