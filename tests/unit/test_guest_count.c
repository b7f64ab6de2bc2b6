// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What guest counters count: value = (written + events) mod 2^48, exactly, through all a guest does
 * to its registers; and the overflow bits.
 */
#include "guest_use.h"

TestSuite(guest_count, .fini = finish);

/* ---- privilege, enables, writes ---- */

static const struct {
	int line;
	uint64_t sel;
	uint64_t usr, os; /* weight of a user and a kernel instruction */
} priv_rows[] = {
	{__LINE__, INSTR | USR | EN, 1, 0},
	{__LINE__, INSTR | OS | EN, 0, 1},
	{__LINE__, INSTR | BOTH | EN, 1, 1},
	{__LINE__, INSTR | EN, 0, 0},
	{__LINE__, INSTR | BOTH, 0, 0},
	{__LINE__, CYCLES | USR | EN, 3, 0},
	{__LINE__, INSTR | BOTH | EN | INT, 1, 1},
	{__LINE__, CYCLES | BOTH | EN | INV, 3, 3},
};

Test(guest_count, privilege)
{
	for (unsigned int k = 0; k < sizeof(priv_rows) / sizeof(priv_rows[0]); k++) {
		uint64_t want = 1000 * priv_rows[k].usr + 77 * priv_rows[k].os;

		start(VPMU_GUEST_INTEL_V2);
		wr(0x186, priv_rows[k].sel);
		work(1000, 77);
		cr_assert_eq(rd(0xc1), want, "line %d: %llu", priv_rows[k].line,
			     (unsigned long long)rd(0xc1));
		cr_assert_eq(pmc(0), want, "line %d", priv_rows[k].line);
	}
}

Test(guest_count, fixed_privilege)
{
	/* counter n: instructions, cycles (x3), ref-cycles (x2); control 1 = OS, 2 = USR */
	start(VPMU_GUEST_INTEL_V5);
	for (unsigned int ctrl = 0; ctrl < 4; ctrl++) {
		uint64_t n = (ctrl & 2 ? 1000 : 0) + (ctrl & 1 ? 77 : 0);

		wr(0x38d, 0x111 * ctrl);
		for (unsigned int i = 0; i < 3; i++)
			wr(0x309 + i, 0);
		wr(0x38f, 7ULL << 32);
		work(1000, 77);
		wr(0x38f, 0);
		work(5000, 5000);
		cr_assert_eq(rd(0x309), n);
		cr_assert_eq(rd(0x30a), 3 * n);
		cr_assert_eq(rd(0x30b), 2 * n);
		cr_assert_eq(pmc(0x40000001), 3 * n);
	}
}

Test(guest_count, global_and_local_enable)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(0x38f, 0);
	wr(0x186, INSTR | BOTH | EN);
	wr(0x189, BRANCH | BOTH | EN);
	wr(0x38d, 0x3);
	work(10, 0);
	cr_assert_eq(rd(0xc1), 0);
	wr(0x38f, 1ULL << 32 | 9);
	work(100, 0);
	wr(0x38f, 8);
	work(1000, 0);
	wr(0x189, BRANCH | BOTH); /* local off */
	work(10000, 0);
	wr(0x38f, 9);
	wr(0x189, BRANCH | BOTH | EN);
	work(100000, 0);
	cr_assert_eq(rd(0xc1), 100100);
	cr_assert_eq(rd(0xc4), 50 + 500 + 50000);
	cr_assert_eq(rd(0x309), 100);
}

/* Power-up: GP counters are enabled globally, fixed ones are not. */
Test(guest_count, version_1_software)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | BOTH | EN);
	wr(0x38d, 0x3);
	work(10, 0);
	cr_assert_eq(rd(0xc1), 10);
	cr_assert_eq(rd(0x309), 0);

	start(VPMU_GUEST_AMD_V2);
	wr(0xc0010003, 0xc0 | BOTH | EN); /* K7 software */
	work(10, 0);
	cr_assert_eq(rd(0xc0010007), 10);
}

Test(guest_count, write_while_counting)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	work(500, 0);
	wr(0xc1, 7);
	work(20, 0);
	cr_assert_eq(rd(0xc1), 27);
	wr(0xc1, 0xffffffffu); /* sign-extended: -1 */
	cr_assert_eq(rd(0xc1), W48);
	wr(0x4c1, 0x1234567890);
	work(1, 0);
	cr_assert_eq(rd(0xc1), 0x1234567891);
	work(1, 0);
	cr_assert_eq(pmc(0), 0x1234567892);
}

Test(guest_count, event_change)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	work(100, 0);
	wr(0x186, CYCLES | USR | EN); /* the value stays and goes on with cycles */
	work(10, 0);
	wr(0x186, INSTR | OS | EN);
	work(100, 5);
	wr(0x186, INSTR | USR | EN); /* back to a key that was there before */
	work(1, 0);
	wr(0x186, 0);
	work(1000, 1000);
	cr_assert_eq(rd(0xc1), 100 + 30 + 5 + 1);
}

Test(guest_count, amd_events)
{
	static const struct {
		uint64_t sel;
		enum vpmu_emu_event ev;
	} e[] = {
		{0xc0, VPMU_EMU_INSTRUCTIONS},	 {0x76, VPMU_EMU_CYCLES}, {0xc2, VPMU_EMU_BRANCHES},
		{0xc4, VPMU_EMU_BRANCHES_TAKEN}, {0x129, VPMU_EMU_LOADS}, {0x229, VPMU_EMU_STORES},
	};

	start(VPMU_GUEST_AMD_V2);
	for (uint32_t i = 0; i < 6; i++)
		wr(0xc0010200 + 2 * i, e[i].sel | USR | EN | 1ULL << 41); /* HostOnly: ignored */
	for (uint32_t i = 0; i < 6; i++)
		bed_exec(&b, VPMU_EMU_USR, e[i].ev, 1000 + i);
	for (uint32_t i = 0; i < 6; i++) {
		cr_assert_eq(rd(0xc0010201 + 2 * i), 1000 + i, "event %llx",
			     (unsigned long long)e[i].sel);
		cr_assert_eq(pmc(i), 1000 + i);
	}
	wr(0xc0000301, 0x3e);
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 5);
	cr_assert_eq(pmc(0), 1000);
	/* event 1C0H: bit 32 is part of the event, so this is something else */
	wr(0xc0010200, 0xc0 | 1ULL << 32 | USR | EN);
	wr(0xc0000301, 0x3f);
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 5);
	cr_assert_eq(pmc(0), 1000);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
}

/* C4/01 is all conditional branches up to version 4, and only the taken ones since: no event here.
 */
Test(guest_count, intel_conditional)
{
	static const enum vpmu_guest_model models[] = {VPMU_GUEST_INTEL_V2, VPMU_GUEST_INTEL_V3,
						       VPMU_GUEST_INTEL_V4, VPMU_GUEST_INTEL_V5};

	for (unsigned int i = 0; i < 4; i++) {
		bool v5 = models[i] == VPMU_GUEST_INTEL_V5;

		start(models[i]);
		if (v5)
			wr(0x38f, 3);
		wr(0x186, 0x1c4 | USR | EN);
		wr(0x187, 0x1c4 | USR | EN | INV | 1ULL << 24);
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_BRANCHES_CONDITIONAL, 12);
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_BRANCHES_TAKEN, 5);
		cr_assert_eq(rd(0xc1), v5 ? 0 : 12);
		cr_assert_eq(PV_Q(0) == VPMU_PV_UNSUPPORTED, v5);
		cr_assert_eq(rd(0xc2), 0);
		cr_assert_eq(PV_Q(1), VPMU_PV_UNSUPPORTED);
	}
}

/* ---- overflow ---- */

struct ovf {
	enum vpmu_guest_model model;
	uint32_t sel, ctr, ctr_fw, status, clr;
	uint64_t event;
};

static const struct ovf ovf_models[] = {
	{VPMU_GUEST_INTEL_V2, 0x187, 0xc2, 0x4c2, 0x38e, 0x390, INSTR},
	{VPMU_GUEST_INTEL_V5, 0x187, 0xc2, 0x4c2, 0x38e, 0x390, INSTR},
	{VPMU_GUEST_AMD_V2, 0xc0010202, 0xc0010203, 0xc0010203, 0xc0000300, 0xc0000302, 0xc0},
};

Test(guest_count, overflow_exact)
{
	for (const struct ovf *o = ovf_models; o < ovf_models + 3; o++) {
		start(o->model);
		wr(o->sel, o->event | USR | EN | INT);
		wr(o->ctr_fw, W48 - 99);
		work(99, 0);
		cr_assert_eq(rd(o->status), 0, "one too early");
		cr_assert_eq(rd(o->ctr), W48);
		work(1, 0);
		cr_assert_eq(rd(o->status), 2);
		cr_assert_eq(rd(o->ctr), 0);
		work(5, 0);
		cr_assert_eq(rd(o->status), 2, "the bit is sticky");
		cr_assert_eq(rd(o->ctr), 5);
		wr(o->clr, 2);
		cr_assert_eq(rd(o->status), 0);
		work(5, 0);
		cr_assert_eq(rd(o->status), 0);
	}
}

/* The bit belongs to the moment of the wrap, whatever is looked at first afterwards. */
Test(guest_count, overflow_seen_by_any_look)
{
	for (unsigned int look = 0; look < 9; look++) {
		start(VPMU_GUEST_INTEL_V5);
		wr(0x186, INSTR | USR | EN);
		wr(0xc1, -10);
		work(25, 0);
		switch (look) {
		case 0:
			cr_assert_eq(rd(0xc1), 15);
			break;
		case 1:
			cr_assert_eq(pmc(0), 15);
			break;
		case 2:
			wr(0xc1, 0); /* the wrap came before the write */
			break;
		case 3:
			wr(0x186, 0);
			break;
		case 4:
			wr(0x38f, 0);
			break;
		case 5:
			wr(0x186, CYCLES | USR | EN);
			break;
		case 6:
			bed_enter(&b, 1);
			break;
		case 7:
			bed_unplace(&b);
			break;
		default:
			cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
			break;
		}
		cr_assert_eq(rd(0x38e), 1, "look %u", look);
		wr(0x390, 1);
		cr_assert_eq(rd(0x38e), 0, "look %u: the bit came back", look);
	}
}

/* Clearing takes with it what happened until then, not what happens later. */
Test(guest_count, overflow_clear_is_a_moment)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	wr(0x38d, 0x2);
	wr(0x38f, 1ULL << 32 | 1);
	wr(0xc1, -1);
	wr(0x309, W48);
	work(1, 0);
	wr(0x390, 1); /* not read yet; bit 32 is not cleared */
	cr_assert_eq(rd(0x38e), 1ULL << 32);
	wr(0xc1, -1);
	work(1, 0);
	cr_assert_eq(rd(0x38e), 1ULL << 32 | 1);
}

Test(guest_count, overflow_more_than_once)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, CYCLES | USR | EN);
	for (int i = 0; i < 5; i++) {
		wr(0x4c1, W48 - 1);
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_CYCLES, W48 - 5);
		cr_assert_eq(rd(0xc1), (W48 - 1 + W48 - 5) & W48);
		cr_assert_eq(rd(0x38e), 1);
		wr(0x390, 1);
		cr_assert_eq(rd(0x38e), 0);
	}
}

/* Two counters of the same event, one near its end: only that one overflows. */
Test(guest_count, overflow_is_the_counters_own)
{
	start(VPMU_GUEST_INTEL_V5);
	for (uint32_t i = 0; i < 8; i++) {
		wr(0x186 + i, INSTR | USR | EN);
		wr(0x4c1 + i, W48 - 10 * i);
	}
	work(35, 0);
	cr_assert_eq(rd(0x38e), 0x0f);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rd(0xc1 + i), (W48 - 10 * i + 35) & W48);
}

/* CTR_Frz is a control, too: nothing counts while it is set (SDM vol. 3 20.2.4). */
Test(guest_count, freeze_bit)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(0x186, INSTR | USR | EN);
	wr(0x38d, 0x2);
	wr(0x38f, 1ULL << 32 | 1);
	work(10, 0);
	wr(0x391, 1ULL << 59);
	work(100, 0);
	wr(0x187, INSTR | USR | EN);
	wr(0x38f, 1ULL << 32 | 3);
	work(100, 0);
	cr_assert_eq(rd(0x38e), 1ULL << 59);
	cr_assert_eq(rd(0xc1), 10);
	cr_assert_eq(rd(0x309), 10);
	wr(0x390, 1ULL << 59);
	work(1000, 0);
	cr_assert_eq(rd(0xc1), 1010);
	cr_assert_eq(rd(0xc2), 1000);
	cr_assert_eq(rd(0x309), 1010);
}
