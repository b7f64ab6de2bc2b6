// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guest counters and the host: placement, migration, reset, sharing of host counters, events that
 * the host cannot count, and the notice to the guest (the paravirtual registers).
 */
#include <errno.h>

#include "guest_use.h"
#include "vpmu/charge.h"

TestSuite(guest_place, .fini = finish);

/* ---- placement ---- */

Test(guest_place, migration)
{
	uint64_t want = 0;

	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | BOTH | EN);
	for (uint64_t i = 0; i < 50; i++) {
		bed_enter(&b, (int)(i & 1));
		work(i * 7, i);
		want += i * 8;
		if (i % 5 == 0) {
			bed_leave(&b);
			/* somebody else runs there now */
			vpmu_emu_add(b.sp[i & 1].tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 999);
			bed_enter(&b, (int)(i & 1));
		}
		if (i % 3 == 0)
			cr_assert_eq(rd(0xc1), want);
	}
	cr_assert_eq(pmc(0), want);
}

/* Registers work before the vCPU is placed; their counts start with the placement. */
Test(guest_place, not_placed_yet)
{
	struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_INTEL_V2};

	cr_assert_eq(bed_init(&b, &cfg, NULL), 0);
	wr(0x186, INSTR | USR | EN);
	wr(0xc1, 100);
	wr(0x38d, 0x2);
	wr(0x38f, 1ULL << 32 | 1);
	cr_assert_eq(rd(0xc1), 100);
	cr_assert_eq(rd(0x186), INSTR | USR | EN);
	bed_enter(&b, 1);
	work(11, 0);
	cr_assert_eq(rd(0xc1), 111);
	cr_assert_eq(rd(0x309), 11);
	bed_unplace(&b);
	cr_assert_eq(rd(0xc1), 111);
	wr(0x186, CYCLES | USR | EN);
	wr(0x309, 5);
	bed_enter(&b, 0);
	work(1, 0);
	cr_assert_eq(rd(0xc1), 114);
	cr_assert_eq(rd(0x309), 6);
	bed_unplace(&b);
}

/* Registers of a vCPU that is placed but switched out. */
Test(guest_place, switched_out)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	work(10, 0);
	vpmu_pcpu_switch(b.pcpu[0], NULL);
	vpmu_emu_add(b.sp[0].tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 12345); /* another guest */
	cr_assert_eq(rd(0xc1), 10);
	wr(0x187, BRANCH | USR | EN);
	wr(0xc1, 50);
	vpmu_emu_add(b.sp[0].tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 12345);
	vpmu_emu_add(b.sp[0].tally, VPMU_EMU_USR, VPMU_EMU_BRANCHES, 12345);
	cr_assert_eq(rd(0xc1), 50);
	cr_assert_eq(rd(0xc2), 0);
	vpmu_pcpu_switch(b.pcpu[0], &b.ctx);
	work(4, 0);
	cr_assert_eq(rd(0xc1), 54);
	cr_assert_eq(rd(0xc2), 2);
}

/* ---- sharing and limits of the host ---- */

/* All guest counters of one event are one host counter. */
Test(guest_place, one_key_one_counter)
{
	struct vpmu_sharing s;

	start(VPMU_GUEST_INTEL_V5);
	for (uint32_t i = 0; i < 8; i++)
		wr(0x186 + i, INSTR | BOTH | EN);
	wr(0x38d, 0x3);
	wr(0x38f, 1ULL << 32 | 0xff);
	work(100, 10);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rd(0xc1 + i), 110);
	cr_assert_eq(rd(0x309), 110);
	vpmu_host_sharing(b.host, &s);
	cr_assert_eq(s.consumers, 9u);
	cr_assert_eq(s.keys, 1u);
	cr_assert_eq(s.host_counters, 1u);
}

/* Eleven guest counters of different keys start and stop at one instant. */
Test(guest_place, global_write_is_one_instant)
{
	static const uint64_t sel[] = {INSTR | USR,  INSTR | OS,  BRANCH | USR, BRANCH | OS,
				       CYCLES | USR, CYCLES | OS, INSTR | BOTH, BRANCH | BOTH};
	struct vpmu_emupmu_opts emulator = {.gp = 16};

	start_on(VPMU_GUEST_INTEL_V5, 8, 3, &emulator);
	wr(0x38f, 0);
	for (uint32_t i = 0; i < 8; i++)
		wr(0x186 + i, sel[i] | EN);
	wr(0x38d, 0x333);
	for (uint64_t i = 1; i <= 20; i++) {
		work(11, 13);
		bed_time(&b, 100);
		wr(0x38f, 0x7000000ff);
		work(1000, 500);
		bed_time(&b, 50);
		wr(0x38f, 0);
		cr_assert_eq(rd(0xc1), 1000 * i);
		cr_assert_eq(rd(0xc2), 500 * i);
		cr_assert_eq(rd(0xc3), 500 * i);
		cr_assert_eq(rd(0xc4), 250 * i);
		cr_assert_eq(rd(0xc5), 3000 * i);
		cr_assert_eq(rd(0xc6), 1500 * i);
		cr_assert_eq(rd(0xc7), 1500 * i);
		cr_assert_eq(rd(0xc8), 750 * i);
		cr_assert_eq(rd(0x309), 1500 * i);
		cr_assert_eq(rd(0x30a), 4500 * i);
		cr_assert_eq(rd(0x30b), 3000 * i);
		for (unsigned int c = 0; c < 19; c++) {
			if (c >= 8 && c < 16)
				continue;
			cr_assert_eq(PV_EN(c), 50 * i, "counter %u", c);
			cr_assert_eq(PV_RUN(c), 50 * i, "counter %u", c);
		}
	}
}

/*
 * More keys than host counters: slots rotate, values are partial, and the times show the share. The
 * workload is even, so that scaling by the times gives the truth again.
 */
Test(guest_place, rotation_times)
{
	static const uint64_t sel[] = {INSTR | USR, INSTR | OS,	   INSTR | BOTH, BRANCH | USR,
				       BRANCH | OS, BRANCH | BOTH, CYCLES | USR, CYCLES | OS};
	static const uint64_t rate[] = {100, 60, 160, 50, 30, 80, 300, 180}; /* a step */
	const unsigned int steps = 8 * 600;
	struct vpmu_emupmu_opts emulator = {.gp = 3, .no_default = true};
	bool partial = false;

	start_on(VPMU_GUEST_INTEL_V2, 8, 0, &emulator);
	for (uint32_t i = 0; i < 8; i++)
		wr(0x186 + i, sel[i] | EN);
	for (unsigned int s = 0; s < steps; s++) {
		work(100, 60);
		bed_time(&b, 1000);
		vpmu_pcpu_tick(b.pcpu[0]);
	}
	for (unsigned int i = 0; i < 8; i++) {
		uint64_t val = rd(0xc1 + i), en = PV_EN(i), run = PV_RUN(i);

		cr_assert_eq(en, 1000ull * steps);
		cr_assert_leq(run, en);
		cr_assert_gt(run, 0u, "counter %u starved", i);
		partial |= run < en;
		cr_assert_eq(val * 1000, rate[i] * run, "counter %u: %llu in %llu ns", i,
			     (unsigned long long)val, (unsigned long long)run);
		cr_assert_eq(PV_Q(i), i < 6 ? VPMU_Q_EXACT : VPMU_Q_MODELLED);
	}
	cr_assert(partial, "eight keys on three counters without rotation");
	/* a write starts the times anew */
	wr(0xc1, 0);
	cr_assert_eq(PV_EN(0), 0);
	cr_assert_eq(PV_RUN(0), 0);
	bed_time(&b, 500);
	cr_assert_eq(PV_EN(0), 500);
}

Test(guest_place, times_keep_after_stop)
{
	start(VPMU_GUEST_AMD_V2);
	wr(0xc0010200, 0xc0 | USR | EN);
	bed_time(&b, 70);
	wr(0xc0000301, 0);
	bed_time(&b, 1000);
	cr_assert_eq(PV_EN(0), 70);
	cr_assert_eq(PV_RUN(0), 70);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	wr(0xc0000301, 1);
	bed_time(&b, 5);
	bed_leave(&b);
	bed_time(&b, 1000); /* not running */
	bed_enter(&b, 1);
	bed_time(&b, 5);
	cr_assert_eq(PV_EN(0), 80);
	wr(0xc0010004, 0);
	cr_assert_eq(PV_EN(0), 0);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT, "still counting");
}

/* An event that the host cannot count reads as not counted; nothing fails. */
Test(guest_place, unsupported)
{
	static const uint64_t sel[] = {
		MISSES | USR,
		0x412e | BOTH,
		INSTR | USR | EDGE,
		CYCLES | USR | 1 << 24,
		CYCLES | USR | INV | 3u << 24,
		0xffff | BOTH,
	};

	start(VPMU_GUEST_INTEL_V2);
	for (unsigned int i = 0; i < sizeof(sel) / sizeof(sel[0]); i++) {
		wr(0xc1, 55);
		wr(0x186, sel[i] | EN);
		work(1000, 1000);
		bed_time(&b, 100);
		cr_assert_eq(rd(0xc1), 55, "select %llx", (unsigned long long)sel[i]);
		cr_assert_eq(PV_EN(0), 0);
		cr_assert_eq(PV_RUN(0), 0);
		cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
		/* part of the count is missing until the counter is written again */
		wr(0x186, INSTR | USR | EN);
		work(1, 0);
		cr_assert_eq(rd(0xc1), 56);
		cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
		wr(0xc1, 0);
		bed_time(&b, 3);
		cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
		cr_assert_eq(PV_EN(0), 3);
	}
}

static bool denies; /* the host can count nothing now */
static const struct vpmu_hostpmu_ops *real_ops;

static uint32_t perhaps_eligible(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	return denies ? 0 : real_ops->eligible(pmu, key);
}

/* The PMU of pCPU @n asks @eligible what it can count. */
static void start_asking(enum vpmu_guest_model model, unsigned int n,
			 typeof(perhaps_eligible) *eligible)
{
	static struct vpmu_hostpmu_ops ops;

	start(model);
	real_ops = b.sp[n].pmu.ops;
	ops = *real_ops;
	ops.eligible = eligible;
	b.sp[n].pmu.ops = &ops;
}

/* Rights, files and vpmud come later: a guest that starts its counter again gets it. */
Test(guest_place, unsupported_for_now)
{
	start_asking(VPMU_GUEST_INTEL_V2, 0, perhaps_eligible);
	denies = true;
	wr(0x186, INSTR | USR | EN | INT);
	work(100, 0);
	cr_assert_eq(rd(0xc1), 0);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	denies = false;
	wr(0x186, INSTR | USR | INT);
	wr(0xc1, 0xffffffce); /* -50 */
	wr(0x186, INSTR | USR | EN | INT);
	bed_time(&b, 7);
	work(49, 0);
	cr_assert_eq(rd(0xc1), (1ull << 48) - 1);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	cr_assert_eq(PV_EN(0), 7);
	cr_assert_eq(PV_RUN(0), 7);
	work(1, 0);
	vpmu_pcpu_overflow(b.pcpu[0]);
	cr_assert(vpmu_guest_service(b.g), "its overflow interrupts");
	/* The global enable stops and starts as well. */
	denies = true;
	wr(0x187, BRANCH | USR | EN);
	denies = false;
	wr(0x38f, 0);
	wr(0x38f, 3);
	vpmu_emu_add(b.sp[0].tally, VPMU_EMU_USR, VPMU_EMU_BRANCHES, 5);
	cr_assert_eq(rd(0xc2), 5);
	cr_assert_eq(PV_Q(1), VPMU_PV_UNSUPPORTED, "some of it was not counted");
}

/* What one pCPU cannot count, another one may. */
Test(guest_place, unsupported_at_first)
{
	start_asking(VPMU_GUEST_INTEL_V2, 0, perhaps_eligible);
	denies = true;
	wr(0x186, INSTR | USR | EN | INT);
	wr(0xc1, 0xffffffce); /* -50 */
	work(100, 0);
	bed_enter(&b, 1);
	work(49, 0);
	cr_assert_eq(rd(0xc1), W48);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	work(1, 0);
	vpmu_pcpu_overflow(b.pcpu[1]);
	cr_assert(vpmu_guest_service(b.g), "its overflow interrupts");
}

static unsigned int asked_no_event; /* keys of Intel's event code 0 */

static uint32_t note_eligible(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	asked_no_event += vpmu_key_space(key) == VPMU_SPACE_INTEL && !(vpmu_key_event(key) & 0xff);
	return real_ops->eligible(pmu, key);
}

/* Event code 0 counts nothing. perf takes it for its names of fixed counters: they would count, and
 * evade a policy that denies the events by their own codes. */
Test(guest_place, event_0_is_none)
{
	start_asking(VPMU_GUEST_INTEL_V5, 0, note_eligible);
	for (unsigned int umask = 0; umask < 0x100; umask++) {
		wr(0x186, umask << 8 | BOTH | EN);
		wr(0x187, umask << 8 | BOTH | EN | 1u << 24);
	}
	cr_assert_eq(asked_no_event, 0);
	wr(0x186, INSTR | USR | EN);
	work(3, 0);
	cr_assert_eq(rd(0xc1), 3);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
}

/* On a pCPU that cannot count the event, the guest is told that some is missing. */
Test(guest_place, unsupported_elsewhere)
{
	start_asking(VPMU_GUEST_INTEL_V2, 1, perhaps_eligible);
	denies = true;
	wr(0x186, INSTR | USR | EN);
	work(100, 0);
	bed_time(&b, 5);
	bed_enter(&b, 1);
	work(100, 0);
	bed_time(&b, 5);
	bed_enter(&b, 0);
	work(100, 0);
	bed_time(&b, 5);
	cr_assert_eq(rd(0xc1), 200);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "some of it was not counted");
	/* A written counter begins anew, and lacks nothing here. */
	wr(0xc1, 0);
	work(100, 0);
	bed_time(&b, 5);
	cr_assert_eq(rd(0xc1), 100);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	cr_assert_eq(PV_EN(0), 5);
	bed_enter(&b, 1);
	bed_time(&b, 1);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "but there");
}

Test(guest_place, quality)
{
	start(VPMU_GUEST_INTEL_V2);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "never on");
	wr(0x186, INSTR | USR | EN);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	wr(0x186, CYCLES | USR | EN);
	cr_assert_eq(PV_Q(0), VPMU_Q_MODELLED);
	wr(0x186, INSTR | USR | EN);
	cr_assert_eq(PV_Q(0), VPMU_Q_MODELLED, "some of the value is modelled");
	wr(0xc1, 0);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	wr(0x186, 0);
	wr(0xc1, 0);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "nothing counted since the write");
}

/* Take every slot of the host for otherwise unused events; give them back. */
static struct vpmu_consumer filler[VPMU_MAX_SLOTS];

static void fill_host(void)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		vpmu_key_t key = vpmu_key_from_raw(VPMU_SPACE_INTEL, 0x100 * i | 0xa8,
						   VPMU_KEY_USR | VPMU_KEY_GUEST);
		int ret = vpmu_consumer_add(&filler[i], b.vm, key, NULL);

		cr_assert(ret == 0 || ret == -EOPNOTSUPP, "%u: %d", i, ret);
	}
}

static void empty_host(void)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		vpmu_consumer_del(&filler[i], NULL, NULL);
}

/* All slots of the host taken by others: the guest's write succeeds, the counter stands. */
Test(guest_place, host_full)
{
	start(VPMU_GUEST_INTEL_V2);
	fill_host();
	wr(0x186, INSTR | USR | EN);
	work(100, 0);
	bed_time(&b, 10);
	cr_assert_eq(rd(0xc1), 0);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	wr(0xc1, 5);
	cr_assert_eq(rd(0xc1), 5);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "still on, still not counted");
	empty_host();
	/* the next placement tries again */
	bed_enter(&b, 1);
	work(100, 0);
	cr_assert_eq(rd(0xc1), 105);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "some of it was not counted");
	wr(0xc1, 0);
	work(7, 0);
	cr_assert_eq(rd(0xc1), 7);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
}

/* It counted, stopped, and could not go on: the count lacks something from then on. */
Test(guest_place, host_full_in_between)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	work(100, 0);
	bed_time(&b, 10);
	wr(0x38f, 0);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	cr_assert_eq(PV_EN(0), 10);
	fill_host();
	wr(0x38f, 1);
	work(100, 0);
	cr_assert_eq(rd(0xc1), 100);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	cr_assert_eq(PV_EN(0), 0);
	/* off and written: a new count, which lacks nothing */
	wr(0x38f, 0);
	wr(0xc1, 0);
	empty_host();
	wr(0x38f, 1);
	work(3, 0);
	cr_assert_eq(rd(0xc1), 3);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
}

/* The operator counts the same event: both see all of it, on one counter. */
Test(guest_place, shares_with_operator)
{
	struct vpmu_consumer op = {0};
	struct vpmu_sharing s;
	struct vpmu_value v;

	start(VPMU_GUEST_AMD_V2);
	wr(0xc0010200, 0xc0 | BOTH | EN);
	work(10, 10);
	cr_assert_eq(vpmu_consumer_add(
			     &op, b.vm,
			     vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR | VPMU_KEY_OS),
			     NULL),
		     0);
	work(100, 100);
	wr(0xc0010201, 3);
	wr(0xc0010200, 0);
	work(1000, 0);
	wr(0xc0010200, 0xc0 | BOTH | EN);
	work(1, 0);
	cr_assert_eq(rd(0xc0010201), 4);
	vpmu_host_sync(b.host);
	vpmu_consumer_read(&op, &v);
	cr_assert_eq(v.count, 200 + 1000 + 1);
	vpmu_host_sharing(b.host, &s);
	cr_assert_eq(s.consumers, 2u);
	cr_assert_eq(s.host_counters, 1u);
	vpmu_consumer_del(&op, NULL, NULL);
}

/* A counter switched on and off a thousand times loses nothing. */
Test(guest_place, toggling)
{
	uint64_t want = 0;

	start(VPMU_GUEST_INTEL_V5);
	wr(0x186, INSTR | USR | EN);
	for (uint64_t i = 0; i < 1000; i++) {
		wr(0x38f, i & 1);
		work(i, 0);
		want += i & 1 ? i : 0;
	}
	cr_assert_eq(rd(0xc1), want);
}
