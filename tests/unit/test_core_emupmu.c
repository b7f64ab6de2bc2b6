// SPDX-License-Identifier: GPL-2.0-or-later
/* The emulator PMU as a host PMU: its events, modes, width and wrap, audit, its options. */
#include "core_bed.h"

static struct vpmu_emupmu sp;
static struct vpmu_emu_tally *t;

static void begin(void)
{
	cr_assert_eq(vpmu_emupmu_init(&sp, NULL), 0);
	t = sp.tally;
}

TestSuite(emupmu, .init = begin);

#define OPS sp.pmu.ops

static uint32_t eligible(enum vpmu_generic ev, uint64_t flags)
{
	return OPS->eligible(&sp.pmu, vpmu_key_generic(ev, flags));
}

Test(emupmu, options)
{
	static const struct {
		struct vpmu_emupmu_opts opts;
		int ret;
		unsigned int ctrs;
		uint32_t fixed;
	} rows[] = {
		{{0}, 0, 7, 0x70},
		{{.gp = 8}, 0, 11, 0x700},
		{{.gp = 2, .fixed = 1}, 0, 3, 0x4},
		{{.gp = 4, .no_default = true}, 0, 4, 0},
		{{.fixed = 3, .no_default = true}, 0, 3, 0x7},
		{{.no_default = true}, -EINVAL, 0, 0},
		{{.gp = 17}, -EINVAL, 0, 0},
		{{.fixed = 4}, -EINVAL, 0, 0},
		{{.width = 7}, -EINVAL, 0, 0},
		{{.width = 64}, -EINVAL, 0, 0},
		{{.width = 63}, 0, 7, 0x70},
		{{.gp = 16}, 0, 19, 0x70000},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int ret = vpmu_emupmu_init(&sp, &rows[i].opts);

		cr_assert_eq(ret, rows[i].ret, "row %zu: %d", i, ret);
		if (ret)
			continue;
		cr_assert_eq(sp.pmu.nr_ctrs, rows[i].ctrs, "row %zu", i);
		cr_assert_eq(sp.pmu.fixed_mask, rows[i].fixed, "row %zu", i);
	}
	cr_assert_eq(vpmu_emupmu_init(&sp, NULL), 0);
	cr_assert_eq(sp.pmu.width_mask, (1ULL << 48) - 1);
}

Test(emupmu, eligible)
{
	cr_assert_eq(eligible(VPMU_EV_INSTRUCTIONS, GUEST), 0x1f);
	cr_assert_eq(eligible(VPMU_EV_CYCLES, GUEST), 0x2f);
	cr_assert_eq(eligible(VPMU_EV_REF_CYCLES, VPMU_KEY_OS), 0x4f);
	cr_assert_eq(eligible(VPMU_EV_LOADS, GUEST), 0x0f);
	cr_assert_eq(eligible(VPMU_EV_CACHE_MISSES, GUEST), 0);
	cr_assert_eq(eligible(VPMU_EV_SLOTS, GUEST), 0);
	cr_assert_eq(OPS->eligible(&sp.pmu, vpmu_key_make(VPMU_SPACE_INTEL, 0xb7, GUEST)), 0);
	cr_assert_eq(OPS->eligible(&sp.pmu, vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_INSTRUCTIONS,
							  VPMU_KEY_USR | VPMU_KEY_HOST)),
		     0, "host user mode is not modelled");
	cr_assert_eq(OPS->quality(&sp.pmu, CYCLES), VPMU_Q_MODELLED);
	cr_assert_eq(OPS->quality(&sp.pmu, INSNS), VPMU_Q_EXACT);
}

Test(emupmu, bind_refuses)
{
	cr_assert_eq(OPS->bind(&sp.pmu, 5, INSNS), -EINVAL, "fixed 1 counts cycles");
	cr_assert_eq(OPS->bind(&sp.pmu, 7, INSNS), -EINVAL, "no such counter");
	cr_assert_eq(OPS->bind(&sp.pmu, 0, MISSES), -EINVAL);
	cr_assert_eq(OPS->bind(&sp.pmu, 4, INSNS), 0);
	cr_assert_eq(OPS->bind(&sp.pmu, 4, INSNS), -EBUSY);
	OPS->unbind(&sp.pmu, 4);
	cr_assert_eq(OPS->bind(&sp.pmu, 4, INSNS), 0);
}

Test(emupmu, modes)
{
	static const struct {
		uint64_t flags;
		uint64_t want;
	} rows[] = {
		{VPMU_KEY_GUEST | VPMU_KEY_USR, 1},
		{VPMU_KEY_GUEST | VPMU_KEY_OS, 10},
		{VPMU_KEY_GUEST | VPMU_KEY_USR | VPMU_KEY_OS, 11},
		{VPMU_KEY_HOST | VPMU_KEY_OS, 100},
		{VPMU_KEY_HOST | VPMU_KEY_GUEST | VPMU_KEY_OS, 110},
		{VPMU_KEY_HOST | VPMU_KEY_GUEST | VPMU_KEY_OS | VPMU_KEY_USR, 111},
		{VPMU_KEY_HOST | VPMU_KEY_GUEST | VPMU_KEY_USR, 1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		vpmu_emupmu_init(&sp, NULL);
		cr_assert_eq(
			OPS->bind(&sp.pmu, 0,
				  vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_LOADS, rows[i].flags)),
			0);
		vpmu_emu_add(sp.tally, VPMU_EMU_USR, VPMU_EMU_LOADS, 1);
		vpmu_emu_add(sp.tally, VPMU_EMU_OS, VPMU_EMU_LOADS, 10);
		vpmu_emu_add(sp.tally, VPMU_EMU_HOST, VPMU_EMU_LOADS, 100);
		vpmu_emu_add(sp.tally, VPMU_EMU_USR, VPMU_EMU_STORES, 1000);
		cr_assert_eq(OPS->read(&sp.pmu, 0), rows[i].want, "row %zu", i);
		cr_assert_eq(OPS->audit(&sp.pmu, 0), rows[i].want, "row %zu", i);
	}
}

Test(emupmu, wrap_and_audit)
{
	struct vpmu_emupmu_opts opts = {.width = 8};
	struct vpmu_consumer *c;

	bed_init(&b, &opts);
	c = bed_count(&b, b.tenant, INSNS);
	for (unsigned int i = 1; i <= 100; i++) {
		bed_vcpu(&b, 0, 255); /* the most between two readings of 8 bits */
		cr_assert_eq(bed_read(c).count, 255 * i);
	}
	cr_assert_eq(bed_conserved(&b), 1, "the audit does not wrap");
	bed_fini(&b);
}

static void count_kick(void *arg)
{
	(*(int *)arg)++;
}

Test(emupmu, kick)
{
	int kicks = 0;

	OPS->kick(&sp.pmu); /* no callee */
	sp.kick = count_kick;
	sp.kick_arg = &kicks;
	OPS->kick(&sp.pmu);
	cr_assert_eq(kicks, 1);
}

/* The row of each set of modes is the sum of its modes, by whichever way events are added; and an
 * alarm on the set has that distance. */
Test(emupmu, sums)
{
	uint64_t by_mode[VPMU_EMU_MODES][VPMU_EMU_EVENTS] = {0}, seed = 1;

	for (int i = 0; i < 1000; i++) {
		uint64_t n[VPMU_EMU_EVENTS];
		int mode, event;

		for (int e = 0; e < VPMU_EMU_EVENTS; e++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			n[e] = seed >> 40;
		}
		mode = (int)(seed >> 33) % VPMU_EMU_MODES;
		event = (int)(seed >> 35) % VPMU_EMU_EVENTS;
		vpmu_emu_count(t, mode, n);
		vpmu_emu_add(t, (mode + i) % VPMU_EMU_MODES, event, 3);
		for (int e = 0; e < VPMU_EMU_EVENTS; e++)
			by_mode[mode][e] += n[e];
		by_mode[(mode + i) % VPMU_EMU_MODES][event] += 3;
	}
	for (unsigned int set = 1; set < 1 << VPMU_EMU_MODES; set++) {
		for (uint8_t e = 0; e < VPMU_EMU_EVENTS; e++) {
			struct vpmu_emu_alarm a = {.event = e, .modes = (uint8_t)set};
			uint64_t sum = 0;

			for (int m = 0; m < VPMU_EMU_MODES; m++)
				sum += set >> m & 1 ? by_mode[m][e] : 0;
			cr_assert_eq(t->ev[vpmu_emu_row(set)][e], sum,
				     "set %u, event %u: %lu, not %lu", set, e,
				     t->ev[vpmu_emu_row(set)][e], sum);
			a.at = sum + 5;
			cr_assert_eq(vpmu_emu_alarm_left(t, &a), 5);
		}
	}
}

/* The same of the sets with HostOnly or GuestOnly; the counters and audits of their keys. */
Test(emupmu, svm_sets)
{
	static const unsigned int svm[] = {VPMU_EMU_GUESTONLY, VPMU_EMU_HOSTONLY};
	static const uint64_t where[] = {VPMU_KEY_GUESTONLY, VPMU_KEY_HOSTONLY, VPMU_KEY_SVM};
	static const uint64_t levels[] = {VPMU_KEY_OS, VPMU_KEY_USR, VPMU_KEY_OS | VPMU_KEY_USR};
	uint64_t sum[2][2] = {{0}};

	vpmu_emupmu_init(&sp, &(struct vpmu_emupmu_opts){.gp = 16});
	for (unsigned int i = 0; i < 100; i++) {
		uint64_t n[VPMU_EMU_EVENTS] = {0};

		if (i == 50)
			for (unsigned int c = 0; c < 9; c++)
				cr_assert_eq(
					OPS->bind(&sp.pmu, c,
						  vpmu_key_generic(VPMU_EV_LOADS, levels[c % 3]) |
							  where[c / 3]),
					0);
		n[VPMU_EMU_LOADS] = i * i + 1;
		vpmu_emu_count_svm(sp.tally, svm[i & 1], i >> 1 & 1, n);
		sum[i & 1][i >> 1 & 1] += i >= 50 ? n[VPMU_EMU_LOADS] : 0;
	}
	for (unsigned int c = 0; c < 9; c++) {
		uint64_t expect = 0;

		for (unsigned int s = 0; s < 4; s++)
			if ((c / 3 + 1) >> (s & 1) & 1 && (c % 3 + 1) >> (s >> 1) & 1)
				expect += sum[s & 1][s >> 1];
		cr_expect_eq(OPS->audit(&sp.pmu, c), expect, "counter %u", c);
		vpmu_emu_add(sp.tally, VPMU_EMU_OS, VPMU_EMU_LOADS, 1); /* without SVME */
	}
}

/* The engine's view of an alarm: armed for a counter's own event and modes, counted from now,
 * replaced, dropped by 0 and by unbind. */
Test(emupmu, arm)
{
	const struct vpmu_emu_alarm *a;

	vpmu_emu_add(t, VPMU_EMU_USR, VPMU_EMU_LOADS, 1000);
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_LOADS, 50);
	cr_assert_eq(OPS->bind(&sp.pmu, 2,
			       vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_LOADS,
					     VPMU_KEY_GUEST | VPMU_KEY_USR)),
		     0);
	cr_assert_eq(t->armed, 0);
	OPS->arm(&sp.pmu, 2, 7);
	cr_assert_eq(t->armed, 1 << 2);
	a = &t->alarm[2];
	cr_assert_eq(vpmu_emu_alarm_left(t, a), 7);
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_LOADS, 100);
	vpmu_emu_add(t, VPMU_EMU_USR, VPMU_EMU_LOADS, 6);
	cr_assert_eq(vpmu_emu_alarm_left(t, a), 1);
	cr_assert_not(vpmu_emu_alarm_due(t));
	vpmu_emu_add(t, VPMU_EMU_USR, VPMU_EMU_LOADS, 1);
	cr_assert_eq(vpmu_emu_alarm_left(t, a), 0);
	cr_assert(vpmu_emu_alarm_due(t));
	vpmu_emu_add(t, VPMU_EMU_USR, VPMU_EMU_LOADS, 100); /* passed: still due */
	cr_assert(vpmu_emu_alarm_due(t));
	OPS->arm(&sp.pmu, 2, UINT64_MAX);
	cr_assert_not(vpmu_emu_alarm_due(t));
	OPS->arm(&sp.pmu, 2, 1ULL << 63);
	cr_assert_not(vpmu_emu_alarm_due(t));
	OPS->arm(&sp.pmu, 2, 0);
	cr_assert_eq(t->armed, 0);
	OPS->arm(&sp.pmu, 2, 1);
	OPS->unbind(&sp.pmu, 2);
	cr_assert_eq(t->armed, 0);
	cr_assert_not(vpmu_emu_alarm_due(t));
}

/* Several alarms: due when any is; a wrapped sum is no special case. */
Test(emupmu, arm_several)
{
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_CYCLES, UINT64_MAX - 2);
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_INSTRUCTIONS, UINT64_MAX - 2);
	cr_assert_eq(OPS->bind(&sp.pmu, 0, INSNS), 0);
	cr_assert_eq(OPS->bind(&sp.pmu, 1, CYCLES), 0);
	OPS->arm(&sp.pmu, 0, 10);
	OPS->arm(&sp.pmu, 1, 5);
	cr_assert_eq(t->armed, 3);
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_CYCLES, 4);
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_INSTRUCTIONS, 4);
	cr_assert_not(vpmu_emu_alarm_due(t));
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_CYCLES, 1);
	cr_assert(vpmu_emu_alarm_due(t));
	OPS->arm(&sp.pmu, 1, 0);
	cr_assert_not(vpmu_emu_alarm_due(t));
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_INSTRUCTIONS, 6);
	cr_assert(vpmu_emu_alarm_due(t));
}

/* The clock of branch records: a distance while saved, a time while live. */
Test(emupmu, lbr_clock)
{
	struct vpmu_lbr_regs in = {.ctl = VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_TYPES,
				   .depth = 32,
				   .head = 3,
				   .count = 2,
				   .cycles = 40,
				   .total = 9},
			     out;

	vpmu_emupmu_init(&sp, NULL);
	cr_assert_eq(sp.pmu.lbr_depth, VPMU_LBR_DEPTH_MAX);
	vpmu_emu_add(t, VPMU_EMU_USR, VPMU_EMU_CYCLES, 10); /* less than the distance: it wraps */
	in.e[3] = (struct vpmu_lbr_entry){1, 2, 3};
	OPS->lbr_restore(&sp.pmu, &in);
	cr_assert(t->lbr.ctl & VPMU_LBR_EN);
	vpmu_emu_add(t, VPMU_EMU_OS, VPMU_EMU_CYCLES, 5);
	vpmu_emu_add(t, VPMU_EMU_HOST, VPMU_EMU_CYCLES, 1000);
	OPS->lbr_save(&sp.pmu, &out);
	cr_assert_eq(out.cycles, 45, "what the host did is none of the guest's business");
	out.cycles = in.cycles;
	cr_assert(!memcmp(&in, &out, sizeof(in)));
	cr_assert_not(t->lbr.ctl & VPMU_LBR_EN, "saved is stopped");
	OPS->lbr_resume(&sp.pmu, in.ctl);
	OPS->lbr_save(&sp.pmu, &out);
	cr_assert_eq(out.cycles, 45, "resumed in place");
	cr_assert_eq(out.ctl, in.ctl);
	OPS->lbr_reset(&sp.pmu);
	OPS->lbr_save(&sp.pmu, &out);
	cr_assert_eq(out.ctl | out.count | out.head | out.depth, 0);
	for (int i = 0; i < VPMU_LBR_DEPTH_MAX; i++)
		cr_assert_eq(out.e[i].from | out.e[i].to | out.e[i].info, 0);
	cr_assert_eq(vpmu_emupmu_init(&sp, &(struct vpmu_emupmu_opts){.no_lbr = true}), 0);
	cr_assert_eq(sp.pmu.lbr_depth, 0);
}
