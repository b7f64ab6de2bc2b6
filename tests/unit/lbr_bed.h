/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Core tests of branch records: emulator pCPUs with counted PMU calls, and branches to record.
 */
#ifndef TESTS_UNIT_LBR_BED_H
#define TESTS_UNIT_LBR_BED_H

#include "core_bed.h"
#include "vpmu/core/internal.h"

#define P0 b.p[0]
#define C0 (&b.ctx[0]) /* vCPUs 0 and 2 are on pCPU 0 */
#define C2 (&b.ctx[2])

#define LBR_ALL	  (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES)
#define LBR_STACK (VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS)

/* How often the core called a PMU's functions. */
struct lbr_calls {
	unsigned int save, restore, reset, resume;
};

/* Of all PMUs of the bed together. */
static struct lbr_calls lbr_calls;
static const struct vpmu_hostpmu_ops *lbr_emu_ops;

static inline void lbr_count_save(struct vpmu_hostpmu *pmu, struct vpmu_lbr_regs *r)
{
	lbr_calls.save++;
	lbr_emu_ops->lbr_save(pmu, r);
}

static inline void lbr_count_restore(struct vpmu_hostpmu *pmu, const struct vpmu_lbr_regs *r)
{
	lbr_calls.restore++;
	lbr_emu_ops->lbr_restore(pmu, r);
}

static inline void lbr_count_reset(struct vpmu_hostpmu *pmu)
{
	lbr_calls.reset++;
	lbr_emu_ops->lbr_reset(pmu);
}

static inline void lbr_count_resume(struct vpmu_hostpmu *pmu, uint32_t ctl)
{
	lbr_calls.resume++;
	lbr_emu_ops->lbr_resume(pmu, ctl);
}

/* Count the calls of @b's PMUs from now on. */
static inline void lbr_count(struct bed *b)
{
	static struct vpmu_hostpmu_ops ops;

	lbr_emu_ops = b->pmu[0].pmu.ops;
	ops = *lbr_emu_ops;
	ops.lbr_save = lbr_count_save;
	ops.lbr_restore = lbr_count_restore;
	ops.lbr_reset = lbr_count_reset;
	ops.lbr_resume = lbr_count_resume;
	for (int i = 0; i < BED_PCPUS; i++)
		b->pmu[i].pmu.ops = &ops;
	lbr_calls = (struct lbr_calls){0};
}

#define LBR_CALLED(saves, restores, resets, resumes)                                               \
	do {                                                                                       \
		cr_assert(lbr_calls.save == (saves) && lbr_calls.restore == (restores) &&          \
				  lbr_calls.reset == (resets) && lbr_calls.resume == (resumes),    \
			  "saves %u, restores %u, resets %u, resumes %u", lbr_calls.save,          \
			  lbr_calls.restore, lbr_calls.reset, lbr_calls.resume);                   \
		lbr_calls = (struct lbr_calls){0};                                                 \
	} while (0)

/* One record, as hardware makes it: @now is where cycles counts from. */
static inline void lbr_push(struct vpmu_lbr_regs *r, uint64_t from, uint64_t now)
{
	r->head = (uint8_t)((r->head + 1) % VPMU_LBR_DEPTH_MAX);
	r->e[r->head] = (struct vpmu_lbr_entry){from, ~from, from << 1 | VPMU_LBR_INFO_CYC_VALID};
	r->count = r->count < r->depth ? r->count + 1 : r->depth;
	r->total++;
	r->cycles = now;
}

/* What runs on pCPU @p branches at @from. */
static inline void lbr_branch(struct bed *b, int p, uint64_t from)
{
	struct vpmu_emu_tally *t = b->pmu[p].tally;

	if (t->lbr.ctl & VPMU_LBR_EN)
		lbr_push(&t->lbr, from, vpmu_emu_clock(t));
}

static inline void lbr_branches(struct bed *b, int p, unsigned int n, uint64_t from)
{
	for (unsigned int i = 0; i < n; i++)
		lbr_branch(b, p, from + i);
}

/* The CPU's facility is as after a reset: nothing that anybody could find. */
static inline bool lbr_cpu_zero(const struct bed *b, int p)
{
	static const struct vpmu_lbr_regs zero;

	return !memcmp(&b->pmu[p].tally->lbr, &zero, sizeof(zero));
}

/* The guest of vCPU @v writes its control register. */
static inline void lbr_guest_ctl(struct bed *b, int v, struct vpmu_pcpu *p, uint32_t ctl)
{
	struct vpmu_lbr_regs r;

	cr_assert_eq(vpmu_lbr_guest_get(&b->ctx[v], p, &r), 0);
	r.ctl = ctl;
	cr_assert_eq(vpmu_lbr_guest_set(&b->ctx[v], p, &r), 0);
}

/* The guest of vCPU @v records from now on. */
static inline void lbr_guest_on(struct bed *b, int v)
{
	cr_assert_eq(vpmu_lbr_guest_open(&b->ctx[v], NULL, 32), 0);
	lbr_guest_ctl(b, v, NULL, LBR_ALL);
}

static inline struct vpmu_lbr_usage lbr_usage(const struct bed *b)
{
	struct vpmu_lbr_usage u;

	vpmu_lbr_usage(b->host, &u);
	return u;
}

#endif
