// SPDX-License-Identifier: GPL-2.0-or-later
/* Alarms of a vCPU thread's perf events, under libvpmu's core, on a fake kernel (fake_perf.h):
 * opened and armed events, and that no alarm is lost or invented. */
#include "perf_alarm_bed.h"

TestSuite(perf_alarm, .init = setup, .fini = end_last);

Test(perf_alarm, an_event_samples_from_the_start)
{
	struct fake_event *e;

	begin_with(&b, (struct vpmu_hostpmu_perf_opts){0});
	cr_assert(!vpmu_consumer_add(&b.guest, b.k.vm, INSTRUCTIONS, b.k.pcpu));
	e = event_of(PERF_COUNT_HW_INSTRUCTIONS);
	cr_assert(e && e->attr.sample_period);
	cr_expect(e->sig == SIGNAL && e->tid == gettid_());
	/* Nobody wants an alarm: none comes. */
	cr_expect_eq(run_guest(&b, 100000), 0);
	cr_expect_eq(counted(&b), 100000);
}

#ifdef VPMU_FEWER
enum { SLOWER = 10 };
#else
enum { SLOWER = 1 };
#endif

Test(perf_alarm, each_alarm_comes_once_and_in_time)
{
	enum { ALARMS = 1000 / SLOWER };

	begin_alarm(INSTRUCTIONS, 1000);
	cr_expect_eq(run_guest(&b, ALARMS * 1000), ALARMS);
	cr_expect_eq(b.alarm.fired, ALARMS);
	cr_expect_leq(b.alarm.latest, 2);
	cr_expect_eq(counted(&b), ALARMS * 1000);
	/* Cleared: the event is not armed any longer. */
	vpmu_alarm_clear(&b.alarm.a, b.k.pcpu);
	cr_expect_eq(run_guest(&b, 100000), 0);
}

/* Guests that only count have alarms that are far away: no system call at a start or a stop. A
 * tick arms one that has come near. */
Test(perf_alarm, a_far_alarm_is_armed_when_it_is_near)
{
	struct fake_event *e;
	uint64_t never;

	begin_alarm(INSTRUCTIONS, (1ULL << 41) + 1000);
	e = event_of(PERF_COUNT_HW_INSTRUCTIONS);
	never = e->period;
	cr_assert_gt(never, 1ULL << 60);
	vpmu_pcpu_tick(b.k.pcpu);
	cr_expect_eq(e->period, never);
	e->count += 1ULL << 41;
	vpmu_pcpu_tick(b.k.pcpu);
	cr_expect_eq(e->period, 1000, "period %lu", e->period);
	b.alarm.period = 1ULL << 41;
	run_guest(&b, 1001);
	cr_expect_eq(b.alarm.fired, 1);
	cr_expect_leq(b.alarm.latest, 2);
	cr_expect_eq(e->period, never, "the next one is far away again");
	cr_expect_eq(run_guest(&b, 10000), 0);
}

/* Nor is one lost whose counter was taken for other keys, and whose context did not always run. */
Test(perf_alarm, a_far_alarm_comes_after_multiplexing)
{
	struct vpmu_consumer more[5];
	unsigned int turns = 0;

	begin_alarm(INSTRUCTIONS, (1ULL << 42) + 100500);
	for (unsigned int i = 0; i < 5; i++)
		cr_assert(!vpmu_consumer_add(&more[i], b.k.vm, fake_raw(0x10 + i), b.k.pcpu));
	for (unsigned int i = 0; i < 50; i++) {
		uint64_t binds = b.k.p.binds;

		cr_expect_eq(run_guest(&b, 1000), 0);
		vpmu_pcpu_tick(b.k.pcpu);
		turns += b.k.p.binds > binds;
	}
	cr_expect_gt(turns, 10);
	for (unsigned int i = 0; i < 5; i++)
		vpmu_consumer_del(&more[i], b.k.pcpu, NULL);
	vpmu_pcpu_tick(b.k.pcpu);
	vpmu_pcpu_switch(b.k.pcpu, NULL);
	vpmu_pcpu_switch(b.k.pcpu, &b.k.ctx);
	event_of(PERF_COUNT_HW_INSTRUCTIONS)->count += 1ULL << 42;
	b.alarm.period = 1ULL << 42;
	for (unsigned int i = 0; i < 200; i++) {
		run_guest(&b, 1000);
		vpmu_pcpu_tick(b.k.pcpu);
	}
	cr_expect_eq(b.alarm.fired, 1);
	cr_expect_leq(b.alarm.latest, 2);
}

/* The kernel takes no short period: alarms are late, and none is lost. */
Test(perf_alarm, a_period_that_the_kernel_refuses)
{
	fake_start(4, false);
	fake.least_period = 128;
	begin_alarm(INSTRUCTIONS, 100);
	cr_expect_geq(run_guest(&b, 100000), 100000 / 230);
	cr_expect_eq(counted(&b), 100000);
	cr_expect_eq(b.alarm.fired, 1000);
	cr_expect_leq(b.alarm.latest, 130, "%lu late", b.alarm.latest);
}

/* A guest that samples, and two sessions of the operator, share one event. */
Test(perf_alarm, one_event_for_all)
{
	struct vpmu_consumer operators[2] = {0};
	struct vpmu_value v;
	unsigned int opens;

	begin_alarm(INSTRUCTIONS, 500);
	opens = fake.opens;
	for (int i = 0; i < 2; i++)
		cr_assert(!vpmu_consumer_add(&operators[i], i ? vpmu_host_root(b.k.host) : b.k.vm,
					     INSTRUCTIONS, NULL));
	run_guest(&b, 10000);
	cr_expect_eq(fake.opens, opens, "the operator opened events of his own");
	cr_assert(event_of(PERF_COUNT_HW_INSTRUCTIONS));
	cr_expect_eq(b.alarm.fired, 20);
	vpmu_pcpu_flush(b.k.pcpu);
	for (int i = 0; i < 2; i++) {
		vpmu_consumer_read(&operators[i], &v);
		cr_expect_eq(v.count, 10000);
		vpmu_consumer_del(&operators[i], NULL, NULL);
	}
}

/* A key that has its turn again does not bring an old alarm with it. */
Test(perf_alarm, an_unbound_event_is_not_armed)
{
	struct fake_event *e;

	begin_alarm(INSTRUCTIONS, 1000);
	e = event_of(PERF_COUNT_HW_INSTRUCTIONS);
	cr_assert_eq(e->period, 1000);
	vpmu_alarm_clear(&b.alarm.a, b.k.pcpu);
	vpmu_consumer_del(&b.guest, b.k.pcpu, NULL);
	cr_expect(!e->used || e->period > 1ULL << 60, "period %lu", e->period);
	b.guest = (struct vpmu_consumer){0};
	cr_assert(!vpmu_consumer_add(&b.guest, b.k.vm, INSTRUCTIONS, b.k.pcpu));
	cr_expect_eq(run_guest(&b, 10000), 0);
}

/* A PMU without an interrupt counts all the same; its alarms wait for the next charge. */
Test(perf_alarm, a_pmu_that_cannot_interrupt)
{
	struct fake_event *e;

	fake.no_interrupt = true;
	begin_alarm(CYCLES, 1000);
	e = event_of(PERF_COUNT_HW_CPU_CYCLES);
	cr_assert(e && !e->attr.sample_period);
	cr_expect_eq(run_guest(&b, 5500), 0);
	cr_expect_eq(counted(&b), 5500);
	cr_expect_eq(b.alarm.fired, 5);
}

/* Two kinds of core, each with a part of the events: early alarms are answered by arming again. */
Test(perf_alarm, two_kinds_of_core)
{
	fake.kinds = 2;
	begin_alarm(INSTRUCTIONS, 1000);
	for (unsigned int i = 0; i < 100; i++) {
		fake.core = i & 1;
		run_guest(&b, 700);
	}
	cr_expect_eq(counted(&b), 70000);
	cr_expect_eq(b.alarm.fired, 70);
	cr_expect_leq(b.alarm.latest, 2, "%lu late", b.alarm.latest);
}

/* ---- throttling ---- */

static void throttled_for(bool on, uint64_t ns)
{
	fake_throttle(event_of(PERF_COUNT_HW_INSTRUCTIONS), on);
	guest_ticks += 2 * ns;
	fake_run(ns);
}

/* While the kernel has stopped the event its running time goes on. It must not pass for time in
 * which the event counted. */
static void stopped_time(bool rdpmc)
{
	struct vpmu_value v, w;

	fake_start(4, false);
	fake.rdpmc = rdpmc;
	begin_alarm(INSTRUCTIONS, 1000);
	run_guest(&b, 10000);
	v = value(&b);
	cr_expect(v.count == 10000 && v.running_ns == v.enabled_ns && !v.partial);
	throttled_for(true, 5 * MS);
	/* It is stopped, and begins again behind the reading. */
	v = value(&b);
	cr_expect_eq(v.count, 10000);
	TIMES_ARE(v, 15 * MS, 10 * MS);
	cr_expect(about(vpmu_value_scaled(&v), 15000));
	fake_run(3 * MS);
	throttled_for(false, 2 * MS);
	w = value(&b);
	cr_expect(w.count == 12000 && w.running_ns >= v.running_ns);
	TIMES_ARE(w, 20 * MS, 12 * MS);
	/* Both ends between two readings, twice. */
	for (int i = 0; i < 2; i++) {
		throttled_for(true, 3 * MS);
		throttled_for(false, 1 * MS);
	}
	w = value(&b);
	cr_expect_eq(w.count, 14000);
	TIMES_ARE(w, 28 * MS, 14 * MS);
}

TEST_BOTH(perf_alarm, stopped_time, throttled_time_is_a_gap, throttled_time_is_a_gap_by_rdpmc)

/* While the clock is held, too. */
Test(perf_alarm, throttled_while_an_exit_is_answered)
{
	begin_alarm(INSTRUCTIONS, 1000);
	run_guest(&b, 10000);
	vpmu_hostpmu_perf_hold(&b.k.p, true);
	value(&b);
	throttled_for(true, 5 * MS);
	value(&b);
	throttled_for(false, 0);
	vpmu_hostpmu_perf_hold(&b.k.p, false);
	TIMES_ARE(value(&b), 15 * MS, 10 * MS);
}

/* A thread without a CPU loses nothing by it. */
Test(perf_alarm, throttled_while_the_thread_sleeps)
{
	begin_alarm(INSTRUCTIONS, 1000);
	run_guest(&b, 10000);
	value(&b);
	throttled_for(true, 1 * MS);
	fake_sleep(900 * MS);
	throttled_for(false, 0);
	TIMES_ARE(value(&b), 11 * MS, 10 * MS);
	run_guest(&b, 10000);
	TIMES_ARE(value(&b), 21 * MS, 20 * MS);
}

/* Records that were overwritten before any read: no count is claimed. The same
 * for an end without a begin. */
Test(perf_alarm, throttle_records_that_are_lost)
{
	struct perf_event_header sample = {.type = PERF_RECORD_SAMPLE, .size = 8};
	struct fake_event *e;
	struct vpmu_value v;

	begin_alarm(INSTRUCTIONS, 1000000);
	run_guest(&b, 10000);
	value(&b);
	e = event_of(PERF_COUNT_HW_INSTRUCTIONS);
	for (unsigned int i = 0; i <= FAKE_RING / 8; i++)
		fake_record(e, &sample, sizeof(sample));
	run_guest(&b, 5000);
	v = value(&b);
	cr_expect_eq(v.count, 15000);
	TIMES_ARE(v, 15 * MS, 10 * MS);
	run_guest(&b, 5000);
	throttled_for(false, 0);
	v = value(&b);
	cr_expect(about(v.running_ns, 10 * MS), "%lu", v.running_ns);
	/* A record that no kernel writes ends nothing. */
	fake_record(e, &(struct perf_event_header){.type = 1, .size = 3}, 8);
	run_guest(&b, 5000);
	v = value(&b);
	cr_expect(about(v.running_ns, 10 * MS), "%lu", v.running_ns);
	run_guest(&b, 5000);
	TIMES_ARE(value(&b), 30 * MS, 15 * MS);
}

/* Without memory for rings all else works. */
Test(perf_alarm, no_ring)
{
	fake.no_ring = true;
	begin_alarm(INSTRUCTIONS, 1000);
	cr_expect_eq(run_guest(&b, 10000), 10);
	cr_expect_eq(counted(&b), 10000);
}

/* Each kind of core has a ring. */
Test(perf_alarm, throttled_on_the_second_kind_of_core)
{
	struct vpmu_value v;

	fake.kinds = 2;
	fake.core = 1;
	begin_alarm(INSTRUCTIONS, 1000);
	run_guest(&b, 10000);
	value(&b);
	fake_for_each(e) if (e->used && e->attr.type == PERF_TYPE_HARDWARE && fake_kind(&e->attr))
		fake_throttle(e, true);
	run_guest(&b, 5000);
	v = value(&b);
	cr_expect_eq(v.count, 10000);
	TIMES_ARE(v, 15 * MS, 10 * MS);
}

/* ---- counts by the TSC ---- */

Test(perf_alarm, a_timer_of_the_thread)
{
	fake_start(0, false);
	/* 2 ticks are 1 ns: 1,000,000 are 500 us. */
	begin_alarm(REF_CYCLES, 1000000);
	cr_expect(fake.timer[0].used && fake.timer[0].tid == gettid_());
	cr_expect_eq(fake.timer[0].sig, SIGNAL);
	cr_expect_eq(run_guest(&b, 100000), 200);
	cr_expect_eq(b.alarm.fired, 200);
	cr_expect_leq(b.alarm.latest, 4000);
	/* While the thread has no CPU its guest counts nothing, and the timer goes on. */
	fake_sleep(10000000);
	vpmu_pcpu_overflow(b.k.pcpu);
	cr_expect_eq(b.alarm.fired, 200);
	cr_expect_eq(run_guest(&b, 490), 0);
	cr_expect_eq(run_guest(&b, 20), 1);
	cr_expect_eq(b.alarm.fired, 201);
	vpmu_alarm_clear(&b.alarm.a, b.k.pcpu);
	cr_expect_eq(run_guest(&b, 10000), 0);
}

/* Timers take queued signals, of which a user has a limited number. The alarm is set at the tick
 * after that has passed, for the rest of the distance, and may be late, but not lost. */
static void timer_fails(bool made)
{
	fake_start(0, false);
	begin_with(&b, (struct vpmu_hostpmu_perf_opts){.guest_tsc = ticks, .arg = &guest_ticks});
	if (made) {
		set_alarm(&b, REF_CYCLES, 1000000);
		vpmu_alarm_clear(&b.alarm.a, b.k.pcpu);
		fake.no_timer = -EAGAIN;
		vpmu_alarm_set(&b.alarm.a, &b.k.ctx, &b.guest, b.k.pcpu, 1000000);
	} else {
		fake.no_timer = -EAGAIN;
		set_alarm(&b, REF_CYCLES, 1000000);
	}
	vpmu_pcpu_tick(b.k.pcpu);
	cr_expect_eq(run_guest(&b, 100), 0);
	fake.no_timer = 0;
	vpmu_pcpu_tick(b.k.pcpu);
	cr_expect_eq(run_guest(&b, 398), 0, "after 498 us");
	cr_expect_eq(run_guest(&b, 4), 1, "after 502 us");
	cr_expect_eq(b.alarm.fired, 1);
	cr_expect_leq(b.alarm.latest, 4000);
	/* What was due meanwhile is found at the tick. */
	fake.no_timer = -EAGAIN;
	cr_expect_eq(run_guest(&b, 500), 1, "the timer of the second");
	cr_expect_eq(run_guest(&b, 2000), 0, "none for the third");
	fake.no_timer = 0;
	vpmu_pcpu_tick(b.k.pcpu);
	cr_expect_eq(b.alarm.fired, 6);
	/* One that was cleared is not set. */
	fake.no_timer = -EAGAIN;
	vpmu_alarm_set(&b.alarm.a, &b.k.ctx, &b.guest, b.k.pcpu, 1000);
	vpmu_alarm_clear(&b.alarm.a, b.k.pcpu);
	fake.no_timer = 0;
	vpmu_pcpu_tick(b.k.pcpu);
	cr_expect_eq(run_guest(&b, 10000), 0);
}

TEST_BOTH(perf_alarm, timer_fails, no_timer_for_a_while, a_timer_that_cannot_be_set)

/* A guest cannot make the host do nothing else. */
Test(perf_alarm, a_timer_is_not_set_too_near)
{
	unsigned int exits;

	fake_start(0, false);
	begin_alarm(REF_CYCLES, 1);
	exits = run_guest(&b, 10000);
	cr_expect_leq(exits, 10000 * 1000 / VPMU_PERF_ALARM_MIN_NS);
	cr_expect_gt(exits, 100);
}
