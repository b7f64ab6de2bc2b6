// SPDX-License-Identifier: GPL-2.0-or-later
/* Alarms of a vCPU's own consumers: each fires at its event, whatever happens in between. */
#include "sampling_bed.h"

static const struct vpmu_emupmu_opts eight_bits = {.width = 8};
static struct tick t[3]; /* of the test that runs */

static void begin(const struct vpmu_emupmu_opts *opts)
{
	engine_init(&b, opts);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
}

static void begin_odd(void (*arm)(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events))
{
	engine_init(&b, NULL);
	odd(&b, arm);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
}

static void setup(void)
{
	begin(NULL);
}

static void teardown(void)
{
	ticks_end(&b, t, 3);
	bed_teardown();
}

TestSuite(alarm, .init = setup, .fini = teardown);

/* Fires where it should: instruction size 1, so nothing is ever over. */
static uint64_t fire_exact(struct vpmu_alarm *a, uint64_t over)
{
	struct tick *t = container_of(a, struct tick, alarm);

	cr_assert_eq(over, 0);
	t->fires++;
	cr_assert_eq(bed_ip[t->vcpu], t->fires * t->period, "fire %lu at %lu, period %lu", t->fires,
		     bed_ip[t->vcpu], t->period);
	return t->period;
}

Test(alarm, three_periods_on_one_counter)
{
	static const uint64_t period[] = {100, 70, 1001};

	for (int i = 0; i < 3; i++) {
		tick_add(&t[i], &b, b.p[0], 0, INSNS, period[i]);
		t[i].alarm.fire = fire_exact;
	}
	engine_run(&b, 0, 0, 50000, 1);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(t[i].fires, 50000 / period[i], "period %lu: %lu", period[i],
			     t[i].fires);
	cr_assert_eq(bed_sharing(&b).host_counters, 1);
	/* No stop except for a fire: 100 and 70 coincide every 700. */
	cr_assert_eq(engine_run(&b, 0, 0, 700, 1), 7 + 10 - 1);
	for (int i = 0; i < 3; i++)
		tick_del(&t[i], b.p[0]);
	cr_assert_eq(b.pmu[0].tally->armed, 0);
}

/* The rest of a distance waits while another vCPU runs, and goes along to another pCPU. */
Test(alarm, switch_and_migration_lose_nothing)
{
	tick_add(&t[0], &b, b.p[0], 0, INSNS, 1000);
	tick_add(&t[1], &b, b.p[0], 0, LOADS, 333);
	t[0].alarm.fire = t[1].alarm.fire = fire_exact;
	for (int i = 0; i < 300; i++) {
		engine_run(&b, 0, 0, 77, 1);
		vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
		cr_assert_eq(b.pmu[0].tally->armed, 0, "nobody who runs has an alarm");
		engine_run(&b, 0, 2, 5000, 1);
		cr_assert_eq(vpmu_context_place(&b.ctx[0], b.p[1]), 0);
		vpmu_pcpu_switch(b.p[1], &b.ctx[0]);
		engine_run(&b, 1, 0, 34, 1);
		vpmu_pcpu_switch(b.p[1], NULL);
		cr_assert_eq(vpmu_context_place(&b.ctx[0], b.p[0]), 0);
		vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	}
	cr_assert_eq(t[0].fires, 300 * 111 / 1000);
	cr_assert_eq(t[1].fires, 300 * 111 / 333);
}

/* One instruction that counts several distances: each is delivered, with its delay. */
Test(alarm, one_instruction_counts_several_periods)
{
	tick_add(&t[0], &b, b.p[0], 0, LOADS, 10);
	tick_add(&t[1], &b, b.p[0], 0, LOADS, 64);
	tick_add(&t[2], &b, b.p[0], 0, LOADS, 1);
	engine_run(&b, 0, 0, 64, 64);
	cr_assert_eq(t[0].fires, 6);
	cr_assert_eq(t[0].over, 54 + 44 + 34 + 24 + 14 + 4);
	cr_assert_eq(t[0].last_over, 4);
	cr_assert_eq(t[1].fires, 1);
	cr_assert_eq(t[1].over, 0);
	cr_assert_eq(t[2].fires, 64);
	cr_assert_eq(t[2].last_over, 0);
	engine_run(&b, 0, 0, 64 * 99, 64);
	cr_assert_eq(t[0].fires, 640);
	cr_assert_eq(t[1].fires, 100);
	cr_assert_eq(t[2].fires, 6400);
}

/* A counter of 8 bits wraps many times within one distance. */
Test(alarm, distances_longer_than_the_counter)
{
	unsigned int stops;

	begin(&eight_bits);
	tick_add(&t[0], &b, b.p[0], 0, INSNS, 1000);
	tick_add(&t[1], &b, b.p[0], 0, INSNS, 777);
	t[0].alarm.fire = t[1].alarm.fire = fire_exact;
	stops = engine_run(&b, 0, 0, 500000, 1);
	cr_assert_eq(t[0].fires, 500);
	cr_assert_eq(t[1].fires, 500000 / 777);
	cr_assert_leq(stops, 500000 / 127 + 500 + 500000 / 777 + 1, "%u stops", stops);
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(bed_read(&t[0].c).count, 500000, "and no count is lost: half a range a step");
}

/* Half a range a step leaves room for an instruction that counts a lot. */
Test(alarm, steps_leave_room)
{
	begin(&eight_bits);
	tick_add(t, &b, b.p[0], 0, LOADS, 1000);
	engine_run(&b, 0, 0, 120 * 1000, 120);
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(bed_read(&t->c).count, 120 * 1000, "%lu", bed_read(&t->c).count);
	cr_assert_eq(t->fires, 120);
}

/* More keys than counters: distances stand still while their slot has none. */
Test(alarm, rotation_stands_still)
{
	static const enum vpmu_generic ev[] = {VPMU_EV_LOADS, VPMU_EV_STORES, VPMU_EV_BRANCHES};

	begin(&bed_one_counter);
	for (int i = 0; i < 3; i++)
		tick_add(&t[i], &b, b.p[0], 0, vpmu_key_generic(ev[i], GUEST), 70);
	for (int i = 0; i < 999; i++) {
		engine_run(&b, 0, 0, 101, 1);
		vpmu_pcpu_tick(b.p[0]);
	}
	for (int i = 0; i < 3; i++) {
		struct vpmu_value v = bed_read(&t[i].c);

		cr_assert_eq(v.count, 101 * 333);
		cr_assert_eq(t[i].fires, v.count / 70, "%lu fires", t[i].fires);
		cr_assert_eq(t[i].over, 0, "on time");
	}
}

/* A rival moves to another counter, in the middle of a distance. */
Test(alarm, moves_with_its_slot)
{
	struct vpmu_emupmu_opts opts = {.gp = 1, .fixed = 2, .no_default = true};
	struct vpmu_consumer *usr;

	begin(&opts);
	/* cycles:u takes the fixed counter, so cycles goes to the GP one. */
	usr = bed_own(&b, 0, vpmu_key_generic(VPMU_EV_CYCLES, VPMU_KEY_USR));
	tick_add(t, &b, b.p[0], 0, CYCLES, 100);
	cr_assert_eq(b.pmu[0].tally->armed, 1u << 0);
	t->alarm.fire = fire_exact;
	engine_run(&b, 0, 0, 130, 1);
	bed_end(&b, usr);
	bed_own(&b, 0, LOADS);
	cr_assert_eq(b.pmu[0].tally->armed, 1u << 2, "cycles' fixed counter has the alarm");
	engine_run(&b, 0, 0, 170, 1);
	cr_assert_eq(t->fires, 3);
}

/* ---- set and clear ---- */

Test(alarm, set_counts_from_now_and_replaces)
{
	tick_add(t, &b, b.p[0], 0, INSNS, 100);
	engine_run(&b, 0, 0, 60, 1);
	tick_set(t, &b, b.p[0]); /* 60 are forgotten */
	engine_run(&b, 0, 0, 99, 1);
	cr_assert_eq(t->fires, 0);
	engine_run(&b, 0, 0, 1, 1);
	cr_assert_eq(t->fires, 1);
	/* The same for one of a vCPU that does not run. */
	engine_run(&b, 0, 0, 50, 1);
	vpmu_pcpu_switch(b.p[0], NULL);
	bed_run(&b, 0, 1000);
	tick_set(t, &b, b.p[0]);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	engine_run(&b, 0, 0, 99, 1);
	cr_assert_eq(t->fires, 0);
	engine_run(&b, 0, 0, 1, 1);
	cr_assert_eq(t->fires, 1);
	tick_del(t, b.p[0]);
	vpmu_alarm_clear(&t->alarm, b.p[0]); /* again */
}

/* A due alarm fires before it is cleared, replaced, or its consumer goes: the PMU's alarm is not
 * answered here. */
Test(alarm, due_before_clear)
{
	tick_add(&t[0], &b, b.p[0], 0, INSNS, 100);
	tick_add(&t[1], &b, b.p[0], 0, INSNS, 40);
	bed_run(&b, 0, 105);
	vpmu_alarm_clear(&t[0].alarm, b.p[0]);
	cr_assert_eq(t[0].fires, 1);
	cr_assert_eq(t[0].last_over, 5);
	cr_assert_eq(t[1].fires, 2, "who else was due, too");
	cr_assert_eq(alarm_left(&b, 0), 15, "and was armed again");
	bed_run(&b, 0, 100);
	vpmu_consumer_disable(&t[0].c, b.p[0]);
	cr_assert_eq(t[0].fires, 1, "no longer");
	cr_assert_eq(t[1].fires, 5);
	bed_run(&b, 0, 36);
	tick_set(&t[1], &b, b.p[0]);
	cr_assert_eq(alarm_left(&b, 0), 40);
	bed_run(&b, 0, 41);
	vpmu_pcpu_switch(b.p[0], &b.ctx[2]);
	cr_assert_eq(t[1].fires, 1, "at the switch");
	cr_assert_eq(t[1].last_over, 1);
	vpmu_alarm_clear(&t[1].alarm, b.p[0]);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	bed_work(&b, 0, 1000);
	cr_assert_eq(t[1].fires, 1);
	cr_assert_eq(b.pmu[0].tally->armed, 0);
}

static uint64_t fire_once(struct vpmu_alarm *a, uint64_t over)
{
	struct tick *t = container_of(a, struct tick, alarm);

	t->fires++;
	t->over += over;
	return 0;
}

Test(alarm, ends_itself)
{
	tick_add(&t[0], &b, b.p[0], 0, INSNS, 10);
	tick_add(&t[1], &b, b.p[0], 0, LOADS, 25);
	t[0].alarm.fire = t[1].alarm.fire = fire_once;
	cr_assert_eq(engine_run(&b, 0, 0, 1000, 1), 2);
	cr_assert_eq(t[0].fires, 1);
	cr_assert_eq(t[1].fires, 1);
	cr_assert_eq(b.pmu[0].tally->armed, 0);
	/* Due at a switch, and gone at the same time. */
	t[0].fires = t[1].fires = 0;
	vpmu_alarm_set(&t[0].alarm, &b.ctx[0], &t[0].c, b.p[0], 5);
	bed_run(&b, 0, 6);
	vpmu_pcpu_switch(b.p[0], NULL);
	cr_assert_eq(t[0].fires, 1);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	engine_run(&b, 0, 0, 1000, 1);
	cr_assert_eq(t[0].fires, 1);
}

Test(alarm, unsupported_has_none)
{
	t->period = 10;
	cr_assert_eq(vpmu_consumer_add(&t->c, b.vcpu[0], MISSES, b.p[0]), -EOPNOTSUPP);
	tick_set(t, &b, b.p[0]);
	engine_run(&b, 0, 0, 1000, 1);
	vpmu_pcpu_overflow(b.p[0]); /* harmless */
	cr_assert_eq(t->fires, 0);
}

/* Used up just when something else charges, and the next distance is as long as the last. */
Test(alarm, due_at_a_flush_is_armed_again)
{
	tick_add(t, &b, b.p[0], 0, INSNS, 100);
	bed_work(&b, 0, 100);
	cr_assert_eq(t->fires, 1);
	cr_assert_eq(alarm_left(&b, 0), 100);
	bed_run(&b, 0, 100);
	vpmu_pcpu_switch(b.p[0], NULL);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	cr_assert_eq(t->fires, 2);
	cr_assert_eq(alarm_left(&b, 0), 100);
}

/* ---- PMUs that are not on time ---- */

Test(alarm, early_pmu)
{
	begin_odd(arm_early);
	tick_add(t, &b, b.p[0], 0, INSNS, 100);
	t->alarm.fire = fire_exact;
	engine_run(&b, 0, 0, 10000, 1);
	cr_assert_eq(t->fires, 100);
}

Test(alarm, late_pmu)
{
	begin_odd(arm_late);
	tick_add(t, &b, b.p[0], 0, INSNS, 100);
	engine_run(&b, 0, 0, 10013, 1);
	cr_assert_eq(t->fires, 100, "%lu", t->fires);
	cr_assert_eq(t->over, 100 * 13, "late each time, but not later and later");
}

Test(alarm, pmu_without_alarms_is_told_at_the_next_charge)
{
	begin_odd(NULL);
	tick_add(t, &b, b.p[0], 0, INSNS, 100);
	bed_run(&b, 0, 250);
	cr_assert_eq(t->fires, 0);
	vpmu_pcpu_flush(b.p[0]);
	cr_assert_eq(t->fires, 2);
	cr_assert_eq(t->last_over, 50);
	bed_run(&b, 0, 50);
	vpmu_pcpu_overflow(b.p[0]);
	cr_assert_eq(t->fires, 3);
	bed_run(&b, 0, 100);
	vpmu_pcpu_switch(b.p[0], NULL);
	cr_assert_eq(t->fires, 4);
	bed_run(&b, 0, 1000);
	vpmu_pcpu_switch(b.p[0], &b.ctx[0]);
	bed_run(&b, 0, 99);
	vpmu_pcpu_tick(b.p[0]);
	cr_assert_eq(t->fires, 4);
}

/* The PMU gets only changes: flushes, ticks and reads leave its alarm alone. */
Test(alarm, armed_once)
{
	begin_odd(arm_counted);
	tick_add(t, &b, b.p[0], 0, INSNS, 1000);
	cr_assert_eq(odd_arms, 1);
	for (int i = 0; i < 50; i++) {
		engine_run(&b, 0, 0, 10, 1);
		vpmu_pcpu_flush(b.p[0]);
		vpmu_pcpu_tick(b.p[0]);
		bed_end(&b, bed_own(&b, 0, INSNS));
	}
	cr_assert_eq(odd_arms, 1);
	engine_run(&b, 0, 0, 500, 1);
	cr_assert_eq(t->fires, 1);
	cr_assert_eq(odd_arms, 2);
}
