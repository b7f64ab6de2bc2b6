// SPDX-License-Identifier: GPL-2.0-or-later
/* The perf host PMU under libvpmu's core, on a fake kernel (fake_perf.h): what readers of consumers
 * see when the kernel takes counters away, multiplexes groups, or runs out of files. Nothing here
 * asks the PMU; everything is seen through the core. */
#include "perf_count_bed.h"

TestSuite(perf_core, .init = setup, .fini = end_last);

/* ---- time --------------------------------------------------------------------------------- */

Test(perf_core, a_thread_that_sleeps_is_not_enabled)
{
	struct vpmu_consumer *c;
	struct vpmu_value v;

	begin(&b, 2, false);
	c = count(&b, BRANCHES);
	fake_run(5 * MS);
	fake_sleep(500 * MS);
	v = read_now(&b, c);
	cr_expect_eq(v.count, 5000);
	cr_expect(about(v.enabled_ns, 5 * MS), "%lu", v.enabled_ns);
	cr_expect_eq(v.running_ns, v.enabled_ns);
	cr_expect(exact(&v));
	/* a thread that has ended has no time, and time does not go back */
	fake.gone = true;
	fake_sleep(100 * MS);
	v = read_now(&b, c);
	cr_expect(about(v.enabled_ns, 5 * MS), "%lu", v.enabled_ns);
}

/* The answer to one exit reads the clock once; but a gap is never more than the time charged. */
Test(perf_core, the_clock_stands_still_while_it_is_held)
{
	struct vpmu_consumer *c;
	struct vpmu_value v;
	uint64_t before;

	begin(&b, 2, false);
	c = count(&b, BRANCHES);
	fake_run(10 * MS);
	vpmu_hostpmu_perf_hold(&b.k.p, true);
	before = read_now(&b, c).enabled_ns;
	fake_run(10 * MS);
	cr_expect_eq(read_now(&b, c).enabled_ns, before);
	fake.held = fake.gp; /* no counter for us */
	fake_run(10 * MS);
	v = read_now(&b, c);
	TIMES_ARE(v, 30 * MS, 20 * MS);
	fake.held = 0;
	vpmu_hostpmu_perf_hold(&b.k.p, false);
	fake_run(10 * MS);
	v = read_now(&b, c);
	TIMES_ARE(v, 40 * MS, 30 * MS);
}

Test(perf_core, turns_with_others_are_seen_as_gaps)
{
	struct vpmu_consumer *branches, *cycles;
	struct vpmu_value v, w;

	begin(&b, 2, false);
	branches = count(&b, BRANCHES);
	cycles = count(&b, CYCLES);
	fake_run(10 * MS);
	v = read_now(&b, branches);
	cr_expect(exact(&v) && v.running_ns == v.enabled_ns && v.count == 10000);

	fake.rival = 4;
	fake_run(10 * MS);
	v = read_now(&b, branches);
	cr_expect_eq(v.count, 15000);
	TIMES_ARE(v, 20 * MS, 15 * MS);
	cr_expect(about(vpmu_value_scaled(&v), 20000));
	/* both or none: cycles have a counter of their own, and count no longer than branches */
	w = read_now(&b, cycles);
	cr_expect_eq(w.count, v.count);
	cr_expect(about(w.running_ns, v.running_ns));

	fake.rival = 0;
	fake_run(10 * MS);
	v = read_now(&b, branches);
	cr_expect(v.count == 25000 && about(v.running_ns, 25 * MS));
	cr_expect_eq(fake.pinned_opens, 0);
}

/* A signal handler's way to read, rdpmc, sees the same gaps. */
Test(perf_core, gaps_in_the_page)
{
	struct vpmu_consumer *c;
	struct vpmu_value v;
	unsigned int reads;

	fake.rdpmc = true;
	begin(&b, 2, false);
	c = count(&b, BRANCHES);
	fake.rival = 4;
	fake_run(10 * MS);
	fake.rival = 0;
	vpmu_pcpu_flush(b.k.pcpu);
	reads = fake.reads;
	fake_run(10 * MS);
	v = read_now(&b, c);
	cr_expect_eq(fake.reads, reads, "by rdpmc");
	TIMES_ARE(v, 20 * MS, 15 * MS);
}

/* ---- counters that are lost --------------------------------------------------------------- */

/* The kernel gives our pinned event's counter to another one. */
static void lose_and_get_back(bool rdpmc)
{
	struct vpmu_consumer *c;
	struct vpmu_value v, lost;
	unsigned int tries;

	fake_start(2, false);
	fake.rdpmc = rdpmc;
	begin(&b, 0, true);
	c = count(&b, BRANCHES);
	fake_run(10 * MS);
	v = read_now(&b, c);
	cr_expect(exact(&v) && v.count == 10000 && v.running_ns == v.enabled_ns);

	fake_run(10 * MS);
	fake.held = 2;
	fake_run(10 * MS);
	lost = read_now(&b, c);
	cr_expect(about(lost.enabled_ns, 30 * MS));
	/* The page has the last count, and without it the count is unknown. When it was lost is not
	 * known; it was after the last good reading. */
	cr_expect_eq(lost.count, rdpmc ? 20000 : 10000);
	cr_expect(about(lost.running_ns, 10 * MS), "%lu", lost.running_ns);
	fake_run(10 * MS);
	v = read_now(&b, c);
	cr_expect(v.count == lost.count && about(v.running_ns, 10 * MS) &&
			  about(v.enabled_ns, 40 * MS),
		  "running time stops with the counter");

	/* tried again, less and less often */
	tries = fake.enables + fake.opens;
	run_ticking(&b, 1000, 1);
	tries = fake.enables + fake.opens - tries;
	cr_expect(tries >= 6 && tries <= 60, "%u calls in 1000 ticks", tries);
	v = read_now(&b, c);
	cr_expect(v.count == lost.count && about(v.running_ns, 10 * MS));
	cr_expect(v.supported && v.running_ns < v.enabled_ns);

	/* and counts when its counter is free again */
	fake.held = 0;
	run_ticking(&b, 2000, 1);
	lost = read_now(&b, c);
	cr_expect(lost.count > v.count && lost.running_ns > v.running_ns + 500 * MS);
	fake_run(10 * MS);
	v = read_now(&b, c);
	cr_expect(v.count == lost.count + 10000 && about(v.running_ns, lost.running_ns + 10 * MS));
}

TEST_BOTH(perf_core, lose_and_get_back, a_pinned_event_in_error_state,
	  a_pinned_event_in_error_state_with_a_page)

/* The NMI watchdog, or another tool's pinned event, takes a counter that the group needs. */
Test(perf_core, a_group_that_fits_no_longer_gives_up_one)
{
	struct vpmu_consumer *c[3];
	struct vpmu_value v;
	uint64_t before;

	fake_start(3, false);
	begin(&b, 0, false);
	for (unsigned int i = 0; i < 3; i++)
		c[i] = count(&b, fake_raw(0x4b0 + i));
	run_ticking(&b, 100, 20);
	for (unsigned int i = 0; i < 3; i++) {
		v = read_now(&b, c[i]);
		cr_expect(v.count == 100000 && v.running_ns == v.enabled_ns);
	}
	fake.held = 1;
	run_ticking(&b, 2000, 20);
	for (unsigned int i = 0; i < 3; i++) {
		v = read_now(&b, c[i]);
		cr_expect(about(v.enabled_ns, 2100 * MS));
		/* never more time than counts */
		cr_expect(about(v.running_ns, v.count * 1000), "%lu, %lu", v.running_ns, v.count);
		cr_expect(share(&v) >= 40 && share(&v) <= 75, "they take turns: %u %%", share(&v));
	}
	before = read_now(&b, c[0]).count + read_now(&b, c[1]).count + read_now(&b, c[2]).count;
	fake_run(10 * MS);
	before = read_now(&b, c[0]).count + read_now(&b, c[1]).count + read_now(&b, c[2]).count -
		 before;
	cr_expect_eq(before, 20000, "two of the three count, not none: %lu", before);

	/* and when the counter is free again, all three count */
	fake.held = 0;
	run_ticking(&b, 1000, 20);
	before = read_now(&b, c[0]).count + read_now(&b, c[1]).count + read_now(&b, c[2]).count;
	fake_run(10 * MS);
	before = read_now(&b, c[0]).count + read_now(&b, c[1]).count + read_now(&b, c[2]).count -
		 before;
	cr_expect_eq(before, 30000, "%lu", before);
}

/* More keys than counters, of which others take most for good. As seen on a real Armv8 PMU: keys
 * that took turns hid from each other that none of them counted. */
Test(perf_core, turns_when_others_take_nearly_all)
{
	struct vpmu_consumer *c[6];
	struct vpmu_value v;

	fake_start(6, false);
	begin(&b, 2, false);
	for (unsigned int i = 0; i < 6; i++)
		c[i] = count(&b, fake_raw(0x4b0 + i));
	run_ticking(&b, 100, 5);
	fake.held = 5;
	run_ticking(&b, 4000, 5);
	for (unsigned int i = 0; i < 6; i++) {
		v = read_now(&b, c[i]);
		cr_expect(share(&v) >= 12 && share(&v) <= 25, "%u %%", share(&v));
		cr_expect(about(v.running_ns, v.count * 1000));
	}
}

/* ---- sharing the PMU ---------------------------------------------------------------------- */

static bool all_in_one_group(void)
{
	int leader = -1;

	fake_for_each(e)
	{
		if (!e->used || !fake_hardware(e))
			continue;
		if (leader < 0)
			leader = e->leader;
		if (e->leader != leader || e->attr.pinned || fake_hardware(&fake.ev[leader]))
			return false;
	}
	return leader >= 0;
}

Test(perf_core, counters_are_left_to_others)
{
	struct vpmu_consumer *raw[6], *instructions;
	struct vpmu_value v;

	begin(&b, 2, false);
	instructions = count(&b, INSTRUCTIONS);
	for (unsigned int i = 0; i < 6; i++)
		raw[i] = count(&b, fake_raw(0x4b0 + i));
	cr_expect(all_in_one_group());
	fake.rival = 2;	  /* another tool, or a guest's own vPMU, has its counters all the time */
	fake.most_gp = 0; /* trying a new key took one for an instant */
	run_ticking(&b, 600, 2);
	cr_expect_eq(fake.most_gp, 2, "%u", fake.most_gp);
	cr_expect(all_in_one_group());
	for (unsigned int i = 0; i < 6; i++) {
		v = read_now(&b, raw[i]);
		cr_expect(share(&v) >= 25 && share(&v) <= 42, "%u %%", share(&v));
		cr_expect(about(v.running_ns, v.count * 1000));
	}
	v = read_now(&b, instructions);
	cr_expect(share(&v) == 100 && about(v.count, 600000), "%lu", v.count);
}

Test(perf_core, at_least_one_counter_is_used)
{
	struct vpmu_value v;

	fake_start(2, false);
	begin(&b, 2, false);
	count(&b, BRANCHES);
	fake_run(10 * MS);
	v = read_now(&b, &b.c[0]);
	cr_expect(v.count == 10000 && v.running_ns == v.enabled_ns);
	cr_expect_eq(fake.most_gp, 1);
}

Test(perf_core, turns_are_taken_without_opening)
{
	unsigned int opens, enables;

	fake_start(4, false);
	begin(&b, 2, false);
	for (unsigned int i = 0; i < 6; i++)
		count(&b, fake_raw(0x4b0 + i));
	run_ticking(&b, 100, 1);
	opens = fake.opens;
	enables = fake.enables;
	run_ticking(&b, 500, 1);
	cr_expect_eq(fake.opens, opens);
	cr_expect_geq(fake.enables - enables, 500);
	cr_expect_leq(fake.open_fds, 7, "six events and their leader");
}

Test(perf_core, who_does_not_count_has_no_files_open)
{
	begin(&b, 2, false);
	for (unsigned int i = 0; i < 6; i++)
		count(&b, fake_raw(0x4b0 + i));
	count(&b, sw_key(PERF_COUNT_SW_TASK_CLOCK));
	run_ticking(&b, 50, 1);
	cr_expect(fake.open_fds >= 8);
	while (b.nr)
		vpmu_consumer_del(&b.c[--b.nr], NULL, NULL);
	run_ticking(&b, 200, 1);
	cr_expect_eq(fake.open_fds, 0, "%u", fake.open_fds);
}

/* Two events that both need counter 0. Each fits alone, so only the group can show it. */
static void constraint(bool arm)
{
	struct vpmu_consumer *good[2], *first[2];
	struct vpmu_value v, w;

	fake_start(4, true);
	fake.arm = arm;
	begin(&b, 0, false);
	good[0] = count(&b, INSTRUCTIONS);
	good[1] = count(&b, BRANCHES);
	first[0] = count(&b, fake_raw(0x1d0));
	v = read_now(&b, good[0]);
	first[1] = count(&b, fake_raw(0x2d0));
	fake_pass(1 * MS, true); /* without a switch */
	w = read_now(&b, good[0]);
	cr_expect_eq(w.count, v.count + 1000, "the others go on at once");
	run_ticking(&b, 1000, 2);
	for (unsigned int i = 0; i < 2; i++) {
		v = read_now(&b, good[i]);
		cr_expect(share(&v) >= 95, "%u %%", share(&v));
	}
	v = read_now(&b, first[0]);
	w = read_now(&b, first[1]);
	cr_expect(about(v.running_ns, v.count * 1000) && about(w.running_ns, w.count * 1000));
	cr_expect(v.running_ns + w.running_ns <= v.enabled_ns + 1 * MS,
		  "%lu and %lu of %lu cannot be true", v.running_ns, w.running_ns, v.enabled_ns);
	cr_expect(v.supported && w.supported && v.count + w.count > 500000);
}

Test(perf_core, a_constraint_harms_nobody_else)
{
	constraint(false);
}

/* The kernel reports nothing at open, so only the reading shows it. */
Test(perf_core, a_constraint_that_open_does_not_see)
{
	constraint(true);
}

/* The same, when the event that is one too many was enabled while its thread slept, so that it was
 * not visible. */
Test(perf_core, a_group_that_was_made_asleep)
{
	struct vpmu_consumer *good, *first[2];
	struct vpmu_value v, w;

	begin(&b, 0, false);
	first[0] = count(&b, fake_raw(0x1d0));
	fake_run(1 * MS);
	vpmu_consumer_disable(first[0], NULL);
	vpmu_pcpu_tick(b.k.pcpu); /* its event waits, disabled */
	first[1] = count(&b, fake_raw(0x2d0));
	good = count(&b, BRANCHES);
	fake.sleeps = true;
	vpmu_consumer_enable(first[0], NULL);
	v = read_now(&b, good);
	fake_run(20 * MS);
	w = read_now(&b, good);
	cr_expect_eq(v.count, w.count, "nothing of the group counts");
	cr_expect(w.running_ns < w.enabled_ns);

	/* Even if it never shows, a key that was given up is not taken back at once. */
	run_ticking(&b, 2000, 20);
	v = read_now(&b, good);
	cr_expect(share(&v) >= 15, "%u %%", share(&v));
	cr_expect(about(v.running_ns, v.count * 1000));

	fake.sleeps = false;
	run_ticking(&b, 3000, 20);
	v = read_now(&b, good);
	run_ticking(&b, 1000, 20);
	w = read_now(&b, good);
	cr_expect(w.count - v.count >= 600000, "%lu", w.count - v.count);
	cr_expect(about(w.running_ns, w.count * 1000));
}

static void capacity(bool arm)
{
	struct vpmu_perf_capacity c;

	fake_start(4, true);
	fake.arm = fake.no_branches = arm;
	if (arm)
		fake.fixed = false;
	c = vpmu_perf_capacity();
	cr_expect(c.gp == 4 && c.fixed == (arm ? 0 : 3), "%u and %u", c.gp, c.fixed);
	cr_expect_eq(fake.most_gp, 0);
	cr_expect_eq(vpmu_perf_probe(INSTRUCTIONS, -1), 0);
	cr_expect_eq(fake.pinned_opens, 0);
	cr_expect_eq(fake.open_fds, 0);
}

TEST_BOTH(perf_core, capacity, asking_takes_no_counters, asking_an_arm_pmu)

/* ---- what passes -------------------------------------------------------------------------- */

Test(perf_core, files_that_run_out)
{
	struct vpmu_consumer *c;
	struct vpmu_value v;

	begin(&b, 2, false);
	vpmu_perf_capacity();
	fake.emu_limit = fake.hard_limit = 1;
	c = count(&b, BRANCHES);
	cr_expect(c->supported, "it can be counted, though not now");
	run_ticking(&b, 100, 1);
	v = read_now(&b, c);
	cr_expect(v.supported && !v.count && !v.running_ns && about(v.enabled_ns, 100 * MS));
	fake.emu_limit = fake.hard_limit = 10;
	run_ticking(&b, 400, 1);
	v = read_now(&b, c);
	cr_expect(v.supported && v.count && v.running_ns && v.running_ns < v.enabled_ns);
	cr_expect(about(v.running_ns, v.count * 1000));
}

static void limit_is_raised(bool other)
{
	struct vpmu_consumer *c;
	struct vpmu_value v;

	begin(&b, 2, false);
	fake.emu_limit = 1;
	fake.hard_limit = 20;
	fake.other_raises = other;
	c = count(&b, BRANCHES);
	fake_run(10 * MS);
	v = read_now(&b, c);
	cr_expect(v.count == 10000 && v.running_ns == v.enabled_ns);
	cr_expect_eq(fake.emu_limit, 20);
}

TEST_BOTH(perf_core, limit_is_raised, the_limit_of_files_is_raised,
	  the_limit_of_files_is_raised_by_another_thread)

Test(perf_core, rights_that_are_given_later)
{
	struct vpmu_consumer *c;
	struct vpmu_value v;

	fake.fail = -EACCES;
	begin(&b, 2, false);
	cr_expect_eq(vpmu_perf_capacity().gp, 0);
	c = count(&b, BRANCHES);
	cr_expect(!c->supported);
	run_ticking(&b, 100, 10);
	v = read_now(&b, c);
	cr_expect(!v.supported && !v.count);
	fake.fail = 0;
	run_ticking(&b, 1500, 10);
	v = read_now(&b, c);
	cr_expect(v.supported && v.count > 0);
	cr_expect(v.partial, "the events from before are missing, and readers see that");
	cr_expect(about(v.running_ns, v.count * 1000), "%lu of %lu, %lu", v.running_ns,
		  v.enabled_ns, v.count);
}
