// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Performance monitoring interrupts: one for each overflow, at the event that overflows, whatever
 * happens in between; frozen registers; other causes.
 */
#include "guest_use.h"

TestSuite(guest_pmi, .fini = finish);

#define FRZ_LBR (1ULL << 58)
#define FRZ_CTR (1ULL << 59)
#define DBG_LBR (1u << 11)
#define DBG_CTR (1u << 12)

/* What differs between the models, for tests that run on all. */
static const struct target {
	int line;
	enum vpmu_guest_model model;
	uint32_t sel, ctr; /* of counter 0, full-width address */
	uint32_t stride;
	uint32_t status, clear, set, global;
	uint64_t instr;
} targets[] = {
	{__LINE__, VPMU_GUEST_INTEL_V2, 0x186, 0x4c1, 1, 0x38e, 0x390, 0, 0x38f, INSTR},
	{__LINE__, VPMU_GUEST_INTEL_V3, 0x186, 0x4c1, 1, 0x38e, 0x390, 0, 0x38f, INSTR},
	{__LINE__, VPMU_GUEST_INTEL_V4, 0x186, 0x4c1, 1, 0x38e, 0x390, 0x391, 0x38f, INSTR},
	{__LINE__, VPMU_GUEST_INTEL_V5, 0x186, 0x4c1, 1, 0x38e, 0x390, 0x391, 0x38f, INSTR},
	{__LINE__, VPMU_GUEST_AMD_K7, 0xc0010000, 0xc0010004, 1, 0, 0, 0, 0, 0xc0},
	{__LINE__, VPMU_GUEST_AMD_CORE, 0xc0010200, 0xc0010201, 2, 0, 0, 0, 0, 0xc0},
	{__LINE__, VPMU_GUEST_AMD_V2, 0xc0010200, 0xc0010201, 2, 0xc0000300, 0xc0000302, 0xc0000303,
	 0xc0000301, 0xc0},
};

#define NR_TARGETS (sizeof(targets) / sizeof(targets[0]))

/* The emulator engine: instructions one by one would be, but stops at alarms all the same. Returns
 * the number of PMIs; *at: instructions before the last one. */
static unsigned int run(uint64_t n, uint64_t *at)
{
	unsigned int pmis = 0;
	uint64_t done = 0;

	for (;;) {
		struct vpmu_emu_tally *t = b.sp[b.on].tally;
		uint64_t step = n - done;

		if (vpmu_guest_pending(b.g) && vpmu_guest_service(b.g)) {
			pmis++;
			if (at)
				*at = done;
		}
		cr_assert(!vpmu_guest_pending(b.g));
		if (done == n)
			return pmis;
		for (unsigned int c = 0; c < VPMU_MAX_CTRS; c++) {
			uint64_t left = vpmu_emu_alarm_left(t, &t->alarm[c]);

			if ((t->armed >> c & 1) && t->alarm[c].event == VPMU_EMU_INSTRUCTIONS &&
			    (t->alarm[c].modes >> VPMU_EMU_USR & 1) && left < step)
				step = left;
		}
		cr_assert_gt(step, 0u, "an alarm that is due does not go away");
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, step);
		done += step;
		vpmu_pcpu_overflow(b.pcpu[b.on]);
	}
}

/* A sampling loop as every handler's: one PMI a period, at the very event, floor(n / p) of them. */
Test(guest_pmi, periods)
{
	static const uint64_t periods[] = {1, 2, 3, 100, 4093, 99991};

	for (const struct target *t = targets; t < targets + NR_TARGETS; t++) {
		for (unsigned int i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
			uint64_t p = periods[i], n = 200000 / (p < 100 ? 20 : 1), left = n, at;
			unsigned int pmis = 0;

			start(t->model);
			wr(t->ctr, W48 + 1 - p);
			wr(t->sel, t->instr | USR | EN | INT);
			while (left >= p) {
				cr_assert_eq(run(p, &at), 1u, "line %d, period %llu", t->line,
					     (unsigned long long)p);
				cr_assert_eq(at, p, "line %d: after %llu of %llu", t->line,
					     (unsigned long long)at, (unsigned long long)p);
				left -= p;
				pmis++;
				if (t->status) {
					cr_assert_eq(rd(t->status), 1u);
					wr(t->clear, 1);
				}
				cr_assert_eq(rd(t->ctr), 0u);
				wr(t->ctr, W48 + 1 - p);
			}
			cr_assert_eq(run(left, NULL), 0u);
			cr_assert_eq(pmis, n / p);
		}
	}
}

/* Without a new value the next one comes 2^48 later, and comes. */
Test(guest_pmi, wraps_again)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(0x186, INSTR | USR | EN | INT);
	wr(0x4c1, W48);
	cr_assert_eq(run(1, NULL), 1u);
	cr_assert_eq(run(W48, NULL), 0u);
	cr_assert_eq(run(1, NULL), 1u);
	cr_assert_eq(rd(0xc1), 0u);
}

/* INT decides, and may change while the counter runs; the status bit comes anyway. */
Test(guest_pmi, int_bit)
{
	for (const struct target *t = targets; t < targets + NR_TARGETS; t++) {
		start(t->model);
		wr(t->sel, t->instr | USR | EN);
		wr(t->ctr, W48 - 9);
		cr_assert_eq(run(10, NULL), 0u, "line %d", t->line);
		if (t->status)
			cr_assert_eq(rd(t->status), 1u);
		wr(t->ctr, W48 - 9);
		run(5, NULL);
		wr(t->sel, t->instr | USR | EN | INT);
		cr_assert_eq(run(4, NULL), 0u, "line %d", t->line);
		cr_assert_eq(run(1, NULL), 1u, "line %d", t->line);
		wr(t->ctr, W48 - 9);
		run(5, NULL);
		wr(t->sel, t->instr | USR | EN);
		cr_assert_eq(run(100, NULL), 0u, "line %d", t->line);
	}
}

Test(guest_pmi, fixed)
{
	start(VPMU_GUEST_INTEL_V4);
	wr(0x38f, 7ULL << 32);
	wr(0x309, W48 - 49);
	wr(0x38d, 0x2);
	cr_assert_eq(run(50, NULL), 0u);
	cr_assert_eq(rd(0x38e), 1ULL << 32);
	wr(0x390, 1ULL << 32);
	wr(0x309, W48 - 49);
	wr(0x38d, 0xa);
	cr_assert_eq(run(49, NULL), 0u);
	cr_assert_eq(run(1, NULL), 1u);
	cr_assert_eq(rd(0x38e), 1ULL << 32);
}

/* Several at one event are one interrupt with all bits, that of one without INT included. */
Test(guest_pmi, together)
{
	start(VPMU_GUEST_INTEL_V5);
	for (uint32_t i = 0; i < 4; i++) {
		wr(0x186 + i, INSTR | USR | EN | (i < 3 ? INT : 0));
		wr(0x4c1 + i, W48 - 9 - (i == 1));
	}
	wr(0x38d, 0xa);
	wr(0x38f, 1ULL << 32 | 0xff);
	wr(0x309, W48 - 9);
	cr_assert_eq(run(10, NULL), 1u);
	cr_assert_eq(rd(0x38e), 1ULL << 32 | 0xd);
	cr_assert_eq(run(1, NULL), 1u);
	cr_assert_eq(rd(0x38e), 1ULL << 32 | 0xf);
}

/* Two counters of one event share the host's counter and its alarm. One write stops or starts one
 * of them: the other's interrupt comes at its event all the same. */
Test(guest_pmi, other_of_the_event_stops)
{
	for (const struct target *t = targets; t < targets + NR_TARGETS; t++) {
		uint64_t at = 0;

		if (!t->global)
			continue;
		start(t->model);
		for (uint32_t i = 0; i < 2; i++) {
			wr(t->ctr + i * t->stride, i ? W48 - 999 : W48 - 99);
			wr(t->sel + i * t->stride, t->instr | USR | EN | INT);
		}
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 40); /* not charged yet */
		wr(t->global, 1);
		cr_assert_eq(run(900, &at), 1u, "line %d", t->line);
		cr_assert_eq(at, 60u, "line %d, stop: after %llu", t->line, (unsigned long long)at);
		wr(t->ctr, W48 - 99);
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 40);
		wr(t->global, 3);
		cr_assert_eq(run(900, &at), 1u, "line %d", t->line);
		cr_assert_eq(at, 60u, "line %d, start: after %llu", t->line,
			     (unsigned long long)at);
		cr_assert_eq(run(900, &at), 1u, "line %d", t->line);
		cr_assert_eq(at, 60u, "line %d: after %llu", t->line, (unsigned long long)at);
	}
}

/* The host's counters have no alarm that no counter of the guest needs. */
Test(guest_pmi, alarms_are_cleared)
{
	for (const struct target *t = targets; t < targets + NR_TARGETS; t++) {
		start(t->model);
		wr(t->sel, t->instr | USR | EN | INT);
		cr_assert(b.sp[0].tally->armed, "line %d", t->line);
		wr(t->sel, t->instr | USR | EN);
		cr_assert(!b.sp[0].tally->armed, "line %d: no INT", t->line);
		wr(t->sel, t->instr | USR | EN | INT);
		cr_assert(b.sp[0].tally->armed, "line %d", t->line);
		wr(t->global ? t->global : t->sel, 0);
		cr_assert(!b.sp[0].tally->armed, "line %d: stopped", t->line);
	}
}

/* ---- the scheduler ---- */

/* At the last event before the vCPU goes, in any way it can go and come back. */
Test(guest_pmi, last_event_before)
{
	for (const struct target *t = targets; t < targets + NR_TARGETS; t++) {
		for (unsigned int way = 0; way < 6; way++) {
			start(t->model);
			wr(t->sel, t->instr | USR | EN | INT);
			wr(t->ctr, W48 - 9);
			bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 10);
			/* not even vpmu_pcpu_overflow was called */
			switch (way) {
			case 0:
				bed_leave(&b);
				bed_enter(&b, 0);
				break;
			case 1:
				bed_enter(&b, 1);
				break;
			case 2:
				bed_unplace(&b);
				bed_enter(&b, 1);
				break;
			case 3: /* the guest looks first */
				cr_assert_eq(rd(t->ctr), 0u);
				break;
			case 4: /* or stops the counter */
				wr(t->sel, 0);
				break;
			default:
				vpmu_pcpu_tick(b.pcpu[0]);
				vpmu_pcpu_flush(b.pcpu[0]);
				vpmu_pcpu_flush(b.pcpu[0]);
				break;
			}
			cr_assert(vpmu_guest_pending(b.g), "line %d way %u: lost", t->line, way);
			cr_assert(vpmu_guest_service(b.g), "line %d way %u: lost", t->line, way);
			cr_assert(!vpmu_guest_service(b.g), "line %d way %u: twice", t->line, way);
			if (t->status)
				cr_assert_eq(rd(t->status), 1u);
			if (way != 4) {
				wr(t->ctr, W48 - 9);
				cr_assert_eq(run(9, NULL), 0u, "line %d way %u", t->line, way);
				cr_assert_eq(run(1, NULL), 1u, "line %d way %u", t->line, way);
			}
		}
	}
}

/* Half of the period here, half there, others in between. */
Test(guest_pmi, across_switches)
{
	start(VPMU_GUEST_AMD_V2);
	wr(0xc0010200, 0xc0 | USR | EN | INT);
	for (unsigned int i = 1; i < 60; i++) {
		wr(0xc0010201, W48 + 1 - 2 * i);
		cr_assert_eq(run(i, NULL), 0u);
		if (i % 3 == 0)
			bed_unplace(&b);
		bed_enter(&b, (int)(i / 2 % 2));
		vpmu_emu_add(b.sp[1 - b.on].tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 12345);
		cr_assert_eq(run(i - 1, NULL), 0u, "%u", i);
		cr_assert_eq(run(1, NULL), 1u, "%u", i);
	}
}

/* More keys than host counters: counts are partial, but a PMI still comes where the guest's counter
 * wraps and nowhere else. */
Test(guest_pmi, rotation)
{
	static const uint64_t sel[] = {INSTR | USR | INT, CYCLES | USR, BRANCH | USR,
				       CYCLES | OS,	  BRANCH | OS,	INSTR | OS};
	struct vpmu_emupmu_opts emulator = {.gp = 2, .no_default = true};
	unsigned int pmis = 0;
	uint64_t counted = 0;

	start_on(VPMU_GUEST_INTEL_V4, 8, 0, &emulator);
	for (uint32_t i = 0; i < 6; i++)
		wr(0x186 + i, sel[i] | EN);
	wr(0x4c1, W48 + 1 - 1000);
	for (unsigned int i = 0; i < 3000; i++) {
		unsigned int due = run(70, NULL);

		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_CYCLES, 100);
		bed_time(&b, 1000);
		vpmu_pcpu_tick(b.pcpu[0]);
		cr_assert_leq(due, 1u);
		cr_assert_eq(rd(0x38e) & 1, due);
		if (!due)
			continue;
		cr_assert_lt(rd(0xc1), 70u);
		pmis++;
		wr(0x390, 1);
		counted += 1000 + rd(0xc1);
		wr(0x4c1, W48 + 1 - 1000);
	}
	counted += (rd(0xc1) + 1000) & W48;
	cr_assert_gt(pmis, 10u);
	cr_assert_leq(counted, 3000u * 70);
	cr_assert_lt(PV_RUN(0), PV_EN(0));
}

/* A PMU without alarms: late, at whatever charges next, but neither lost nor repeated. */
Test(guest_pmi, no_alarms)
{
	static struct vpmu_hostpmu_ops ops;

	start(VPMU_GUEST_INTEL_V2);
	ops = *b.sp[0].pmu.ops;
	ops.arm = NULL;
	b.sp[0].pmu.ops = &ops;
	wr(0x186, INSTR | USR | EN | INT);
	wr(0x4c1, W48 - 9);
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 1000);
	cr_assert(!vpmu_guest_pending(b.g));
	vpmu_pcpu_flush(b.pcpu[0]);
	cr_assert(vpmu_guest_pending(b.g));
	cr_assert(vpmu_guest_service(b.g));
	cr_assert_eq(rd(0x38e), 1u);
	cr_assert_eq(rd(0xc1), 990u);
	cr_assert(!vpmu_guest_service(b.g));
}

/* ---- no PMIs ---- */

/* Status bits that software sets are for restoring a state: no interrupt (SDM 20.2.4.2). */
Test(guest_pmi, status_set_is_silent)
{
	for (const struct target *t = targets; t < targets + NR_TARGETS; t++) {
		if (!t->set)
			continue;
		start(t->model);
		wr(t->sel, t->instr | USR | EN | INT);
		wr(t->set, 1);
		cr_assert_eq(rd(t->status), 1u);
		cr_assert(!vpmu_guest_pending(b.g), "line %d", t->line);
		cr_assert(!vpmu_guest_service(b.g), "line %d", t->line);
	}
}

/* Somebody else's overflow of the same host counter is not this vCPU's. */
Test(guest_pmi, not_anothers)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN | INT);
	wr(0x4c1, W48 - 9);
	wr(0x187, BRANCH | USR | EN | INT);
	wr(0x4c2, W48 - 99);
	run(5, NULL);
	bed_leave(&b);
	vpmu_emu_add(b.sp[0].tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 100000);
	vpmu_emu_add(b.sp[0].tally, VPMU_EMU_USR, VPMU_EMU_BRANCHES, 100000);
	vpmu_pcpu_overflow(b.pcpu[0]);
	cr_assert(!vpmu_guest_pending(b.g));
	bed_enter(&b, 0);
	vpmu_pcpu_overflow(b.pcpu[0]);
	cr_assert(!vpmu_guest_service(b.g));
	cr_assert_eq(run(4, NULL), 0u);
	cr_assert_eq(run(1, NULL), 1u);
}

/* ---- freezing ---- */

/* Legacy (versions 2 and 3): the enables in GLOBAL_CTRL are cleared (18.4.7). */
Test(guest_pmi, freeze_legacy)
{
	static const enum vpmu_guest_model models[] = {VPMU_GUEST_INTEL_V2, VPMU_GUEST_INTEL_V3};

	for (unsigned int k = 0; k < 2; k++) {
		start(models[k]);
		wr(0x1d9, DBG_CTR);
		wr(0x186, INSTR | USR | EN | INT);
		wr(0x187, INSTR | USR | EN);
		wr(0x38d, 2);
		wr(0x38f, 1ULL << 32 | 3);
		wr(0x4c1, W48 - 9);
		cr_assert_eq(run(100, NULL), 1u);
		cr_assert_eq(rd(0x38f), 0u);
		cr_assert_eq(rd(0x38e), 1u);
		cr_assert_eq(rd(0xc1), 0u);
		cr_assert_eq(rd(0xc2), 10u, "the other counters stop at the same event");
		cr_assert_eq(rd(0x309), 10u);
		wr(0x390, 1);
		wr(0x38f, 1ULL << 32 | 3);
		run(7, NULL);
		cr_assert_eq(rd(0xc2), 17u);
	}
}

/* Streamlined (version 4 on), and PerfMonV2: a status bit freezes until it is cleared. */
Test(guest_pmi, freeze_streamlined)
{
	for (const struct target *t = targets; t < targets + NR_TARGETS; t++) {
		uint64_t global;

		if (!t->set)
			continue;
		start(t->model);
		wr(0x1d9, DBG_CTR);
		wr(t->sel, t->instr | USR | EN | INT);
		wr(t->sel + t->stride, t->instr | USR | EN | INT);
		global = rd(t->global);
		wr(t->ctr, W48 - 9);
		wr(t->ctr + t->stride, W48 - 10); /* would be next */
		cr_assert_eq(run(100, NULL), 1u, "line %d: an overflow while frozen", t->line);
		cr_assert_eq(rd(t->global), global);
		cr_assert_eq(rd(t->status), FRZ_CTR | 1);
		cr_assert_eq(rd(t->ctr), 0u);
		cr_assert_eq(rd(t->ctr + t->stride), W48);
		wr(t->clear, 1); /* the freeze is a bit of its own */
		cr_assert_eq(run(100, NULL), 0u);
		wr(t->clear, FRZ_CTR);
		cr_assert_eq(run(1, NULL), 1u);
		cr_assert_eq(rd(t->status), FRZ_CTR | 2);
	}
}

/* An overflow without INT freezes nothing. */
Test(guest_pmi, no_pmi_no_freeze)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(0x1d9, DBG_CTR | DBG_LBR);
	wr(0x186, INSTR | USR | EN);
	wr(0x4c1, W48 - 9);
	cr_assert_eq(run(100, NULL), 0u);
	cr_assert_eq(rd(0x38e), 1u);
	cr_assert_eq(rd(0xc1), 90u);
}

/* LBR_Frz alone leaves the counters running. */
Test(guest_pmi, freeze_lbr_only)
{
	for (unsigned int amd = 0; amd < 2; amd++) {
		const struct target *t = &targets[amd ? 6 : 3];

		start(t->model);
		wr(0x1d9, DBG_LBR);
		wr(t->sel, t->instr | USR | EN | INT);
		wr(t->ctr, W48 - 9);
		cr_assert_eq(run(100, NULL), 1u);
		cr_assert_eq(rd(t->status), FRZ_LBR | 1);
		cr_assert_eq(rd(t->ctr), 90u);
	}
}
