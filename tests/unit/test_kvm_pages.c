// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A vCPU's counters on vpmud's page (vpmu/kvm/pages.c) under libvpmu's core, with a vpmud
 * (fake_vpmud.h) that is killed, restarted, refuses, is silent or lies, on a fake kernel with a PMU
 * (fake_perf.h). Whatever it does: no count has an event too many, and what it lacks is shown as
 * time without a counter.
 */
#include "kvm_pages_bed.h"

/* ---- one counter -------------------------------------------------------- */

Test(kvm_pages, counts_without_events_of_the_thread)
{
	struct vpmu_value v;
	unsigned int opens;

	begin(true);
	opens = fake.opens; /* of the probe */
	for (unsigned int i = 0; i < KEYS; i++)
		start(i);
	cr_assert_eq(kvm_pages_shared(&b.pages), KEYS);
	for (unsigned int n = 0; n < 50; n++) {
		run(3 * MS);
		for (unsigned int i = 0; i < KEYS; i++) {
			v = value(i);
			cr_expect(whole(&v, i), "%lu of %lu", v.count, b.truth);
			cr_expect_eq(v.quality, VPMU_Q_EXACT);
		}
	}
	cr_expect_eq(v.enabled_ns / MS, 150);
	cr_expect_eq(fake.open_fds, 0);
	cr_expect_leq(fake.opens, opens + KEYS); /* probes */
	cr_expect_eq(vpmud.binds, KEYS);
}

/* Reading makes no system call of perf's: none takes the thread's time. */
Test(kvm_pages, reads_without_system_calls)
{
	uint64_t ns;

	begin(true);
	start(0);
	run(MS);
	ns = fake.cpu_ns;
	fake.reads = 0;
	for (unsigned int i = 0; i < 100; i++)
		value(0);
	cr_expect_eq(fake.cpu_ns, ns);
	cr_expect_eq(fake.reads, 0);
}

Test(kvm_pages, counts_for_who_may_not_open_events)
{
	begin(false);
	start(0);
	cr_assert_eq(kvm_pages_shared(&b.pages), 1);
	run(5 * MS);
	ASSERT_WHOLE(0);
}

Test(kvm_pages, lost_time_of_the_page_is_shown)
{
	struct vpmu_value v;

	begin(true);
	start(0);
	vpmud_charge(0, 4 * MS, MS);
	b.charged_ns += 4 * MS;
	fake.cpu_ns += 4 * MS;
	v = value(0);
	cr_expect_eq(v.enabled_ns - v.running_ns, MS);
	run(MS);
	v = value(0);
	cr_expect_eq(v.enabled_ns - v.running_ns, MS);
	/* A gap: all of the time since the last reading. */
	__atomic_fetch_add(&vpmud.page->gaps, 1, __ATOMIC_RELAXED);
	run(2 * MS);
	v = value(0);
	cr_expect_eq(v.enabled_ns - v.running_ns, 3 * MS);
}

/* ---- vpmud ends and comes back ------------------------------------------ */

Test(kvm_pages, goes_on_while_vpmud_is_dead)
{
	begin(true);
	start(0);
	start(1);
	for (unsigned int n = 0; n < 3; n++) {
		unsigned int binds = vpmud.binds;

		vpmud_kill();
		for (unsigned int i = 0; i < 20; i++) {
			run(MS);
			tick();
			usleep(1000);
			ASSERT_WHOLE(0);
		}
		vpmud_start(true);
		for (unsigned int i = 0; vpmud.binds < binds + 2; i++) {
			cr_assert(i < 120000);
			usleep(5000);
			run(10000);
			tick();
			ASSERT_WHOLE(1);
		}
		run(MS);
		ASSERT_WHOLE(0);
	}
	cr_expect_eq(fake.open_fds, 0);
}

Test(kvm_pages, an_ended_page_becomes_an_event_and_a_page_again)
{
	struct vpmu_value v;
	uint64_t gap;

	begin(true);
	start(0);
	run(MS);
	value(0);
	vpmud_kill_and(vpmud_end_page);
	run(3 * MS); /* no one counts this */
	v = value(0);
	cr_expect_eq(v.count, 1000);
	cr_expect_geq(v.enabled_ns - v.running_ns, 3 * MS - 10000); /* clocks differ a little */
	tick();
	cr_expect_eq(kvm_pages_shared(&b.pages), 0);
	cr_expect_gt(fake.open_fds, 0);
	gap = value(0).enabled_ns - value(0).running_ns;
	run(2 * MS);
	v = value(0);
	cr_expect_eq(v.count, 3000);
	vpmud_start(true);
	until_shared(1);
	run(MS);
	v = value(0);
	cr_expect_eq(b.truth - b.from[0] - v.count, 3000);
	cr_expect_leq(v.enabled_ns - v.running_ns, gap + 10000, "%lu", v.enabled_ns - v.running_ns);
}

/* The next vpmud knows nothing of the page, which does not end. */
Test(kvm_pages, a_page_that_is_left_behind_is_not_gone_on_with)
{
	unsigned int binds;

	begin(true);
	all_shared();
	vpmud_kill_and(vpmud_forget_page);
	binds = vpmud.binds;
	vpmud_start(true);
	UNTIL(vpmud.binds >= binds + KEYS, 10000);
	all_shared(); /* each stop() checks the count and the gap */
	ASSERT_WHOLE(0);
}

/* A bind without a page, the first one of its connection, may be on any page. */
Test(kvm_pages, a_connection_without_a_page_is_not_gone_on_with)
{
	unsigned int of_conn;

	begin(true);
	all_shared();
	vpmud_kill_and(vpmud_forget_page);
	vpmud.mode = VPMUD_NO_FD;
	vpmud_start(true);
	for (unsigned int i = 0, n = vpmud.connections; vpmud.connections < n + 3; i++) {
		cr_assert(i < 120000);
		usleep(5000);
		run(10000);
		tick();
		pthread_mutex_lock(&vpmud.lock);
		of_conn = vpmud.of_conn;
		pthread_mutex_unlock(&vpmud.lock);
		cr_assert_leq(of_conn, 1);
	}
	vpmud.mode = VPMUD_GOOD;
	UNTIL(vpmud.page && vpmud.of_conn >= KEYS, 10000);
	all_shared();
	ASSERT_WHOLE(0);
}

/* Without an end of the page or a new vpmud, the time that it stands still is a gap,
 * but for the 100 ms in which this is not certain yet. */
Test(kvm_pages, a_page_that_nobody_writes_is_a_gap)
{
	struct vpmu_value v;
	uint64_t before;

	begin(true);
	all_shared();
	vpmud_kill_and(vpmud_forget_page);
	before = b.truth;
	for (unsigned int i = 0; i < 300; i++) {
		run(MS);
		tick();
	}
	cr_assert_geq(b.truth - before, 100000);
	for (unsigned int i = 0; i < KEYS; i++) {
		vpmu_pcpu_flush(b.pcpu);
		vpmu_consumer_read(&b.c[i], &v);
		cr_expect_eq(v.count, before - b.from[i]);
		cr_expect_geq(v.enabled_ns - v.running_ns, 200 * MS, "of 300 ms, %lu ns",
			      v.enabled_ns - v.running_ns);
		vpmu_consumer_del(&b.c[i], b.pcpu, NULL);
		b.on[i] = false;
	}
}

/* A bind that has ended while its page goes on: vpmud may have given the slot another key. */
Test(kvm_pages, a_slot_that_is_given_back_is_not_read)
{
	struct share *s;

	begin(true);
	start(0);
	run(MS);
	ASSERT_WHOLE(0);
	pthread_mutex_lock(&b.client->lock);
	s = share_find(b.pages.thread, keys[0]);
	share_set(b.pages.thread, s, SHARE_UNBIND);
	__atomic_fetch_add(&vpmud.page->row[s->slot].total, 1000000, __ATOMIC_SEQ_CST);
	run(MS);
	value(0);
	pthread_mutex_unlock(&b.client->lock);
	UNTIL(kvm_pages_shared(&b.pages) == 1 && share_ready(b.pages.thread, keys[0]), 10000);
	value(0);
}

/* Without a right to events there is nothing in between, and the time shows it. */
Test(kvm_pages, who_may_not_open_events_waits)
{
	struct vpmu_value v;

	begin(false);
	start(0);
	run(MS);
	vpmud_kill_and(vpmud_end_page);
	for (unsigned int i = 0; i < 10; i++) {
		run(MS);
		tick();
		v = value(0);
	}
	cr_expect_eq(v.count, 1000);
	cr_expect_lt(v.running_ns, v.enabled_ns);
	vpmud_start(true);
	until_shared(1);
	value(0);
	b.from[0] = b.truth - b.last[0]; /* from now on nothing is missing */
	run(MS);
	v = value(0);
	cr_expect_eq(v.count, b.truth - b.from[0]);
}

/* ---- vpmud refuses, is silent, lies ------------------------------------- */

Test(kvm_pages, refused_keys_are_events)
{
	static const int errors[] = {EACCES, EOPNOTSUPP, ENOSPC, ESRCH, EINVAL};

	vpmud_start(true);
	vpmud.mode = VPMUD_REFUSES;
	begin(true);
	for (size_t n = 0; n < sizeof(errors) / sizeof(errors[0]); n++) {
		vpmud.error = errors[n];
		start(n % KEYS);
		run(MS);
		ASSERT_WHOLE(n % KEYS);
		stop(n % KEYS);
	}
	cr_expect_eq(kvm_pages_shared(&b.pages), 0);
}

Test(kvm_pages, refused_without_right_is_unsupported)
{
	struct vpmu_value v;

	vpmud_start(true);
	vpmud.mode = VPMUD_REFUSES;
	vpmud.error = EACCES;
	begin(false);
	start(0);
	run(MS);
	v = value(0);
	cr_expect(!v.supported);
	cr_expect_eq(v.count, 0);
}

/* A guest that tries again and again is refused until it is time to ask again, and not for ever. */
Test(kvm_pages, a_refusal_passes)
{
	struct share *s;
	unsigned int i;

	vpmud_start(true);
	vpmud.mode = VPMUD_REFUSES;
	vpmud.error = ENOSPC;
	begin(false);
	start(0);
	cr_assert(!b.c[0].supported);
	vpmud.mode = VPMUD_GOOD;
	cr_assert(!share_ask(b.pages.thread, keys[0], false));
	pthread_mutex_lock(&b.client->lock);
	s = share_find(b.pages.thread, keys[0]);
	cr_assert(s && s->retry_ns);
	s->retry_ns = 1; /* long ago */
	pthread_mutex_unlock(&b.client->lock);
	for (i = 0; i < 20000 && !share_ask(b.pages.thread, keys[0], false); i++)
		usleep(5000);
	cr_assert_lt(i, 20000);
	vpmu_consumer_disable(&b.c[0], b.pcpu);
	cr_assert(!vpmu_consumer_enable(&b.c[0], b.pcpu));
	until_shared(1);
	b.from[0] = b.truth;
	run(MS);
	vpmu_pcpu_flush(b.pcpu);
	value(0);
}

/* vpmud has not found the VM yet when its kernel starts a counter that is never stopped. */
Test(kvm_pages, who_is_not_found_yet_waits)
{
	struct vpmu_value v;

	vpmud_start(true);
	vpmud.mode = VPMUD_REFUSES;
	vpmud.error = ESRCH;
	begin(false);
	start(0);
	run(MS);
	v = value(0);
	cr_assert(v.supported);
	cr_expect_eq(v.count, 0);
	cr_expect_eq(v.running_ns, 0);
	vpmud.mode = VPMUD_GOOD;
	until_shared(1);
	value(0);
	b.from[0] = b.truth - b.last[0]; /* from now on nothing is missing */
	run(MS);
	v = value(0);
	cr_expect_eq(v.count, b.truth - b.from[0]);
	cr_expect_gt(v.running_ns, 0);
}

/* Not an event of the thread, nor wanted of vpmud: such a counter would wait for ever. */
Test(kvm_pages, a_key_without_room_is_not_bound)
{
	struct share_use use;

	begin(false);
	for (unsigned int i = 0; i < SHARE_KEYS; i++)
		share_get(b.pages.thread, KEY(100 + i), false, &use);
	cr_expect_lt(b.pages.pmu.ops->bind(&b.pages.pmu, VPMU_PERF_CTR_SOFTWARE, keys[0]), 0);
	share_put(b.pages.thread, KEY(100));
	cr_expect(!share_may(b.pages.thread, keys[0]));
}

Test(kvm_pages, without_vpmud_as_ever)
{
	vpmud_start(true);
	vpmud_kill();
	begin(true);
	start(0);
	run(MS);
	ASSERT_WHOLE(0);
	stop(0);
	fake.fail = -EACCES;
	start(1);
	cr_expect_eq(kvm_pages_shared(&b.pages), 0);
}

/* A silent vpmud: the event counts, until the answer comes. */
Test(kvm_pages, a_late_answer_is_taken)
{
	vpmud_start(true);
	vpmud.mode = VPMUD_SILENT;
	begin(true);
	start(0);
	start(1);
	run(MS);
	ASSERT_WHOLE(0);
	cr_expect_eq(kvm_pages_shared(&b.pages), 0);
	vpmud.mode = VPMUD_GOOD;
	until_shared(2);
	run(MS);
	ASSERT_WHOLE(0);
	for (unsigned int i = 0; i < 200; i++)
		tick(); /* parked events are closed */
	cr_expect_eq(fake.open_fds, 0);
}

Test(kvm_pages, lies_are_not_believed)
{
	struct vpmu_value v;

	vpmud_start(true);
	begin(true);
	for (int mode = VPMUD_CLOSES; mode < VPMUD_MODES; mode++) {
		vpmud.mode = mode;
		start(0);
		for (unsigned int i = 0; i < 160; i++) {
			usleep(5000);
			run(MS);
			tick();
			v = value(0);
			cr_assert(whole(&v, 0), "mode %d", mode);
			cr_assert_eq(kvm_pages_shared(&b.pages), 0, "mode %d", mode);
		}
		stop(0);
	}
	/* A page whose numbers go back. */
	vpmud.mode = VPMUD_GOOD;
	start(0);
	until_shared(1);
	b.last[0] = 0;
	pthread_mutex_lock(&vpmud.lock);
	vpmud.page->row[vpmud_slot(keys[0])].total = 0;
	pthread_mutex_unlock(&vpmud.lock);
	run(MS);
	v = value(0);
	cr_expect_lt(v.running_ns, v.enabled_ns);
	/* One that is always being written. */
	pthread_mutex_lock(&vpmud.lock);
	if (vpmud.page)
		vpmud.page->seq |= 1;
	pthread_mutex_unlock(&vpmud.lock);
	value(0);
}

/* ---- binds end ---------------------------------------------------------- */

Test(kvm_pages, gives_back_what_is_not_used)
{
	begin(true);
	start(0);
	start(1);
	stop(0);
	/* At once again: it is still bound. */
	start(0);
	cr_expect_eq(vpmud.binds, 2);
	stop(0);
	UNTIL(vpmud.unbinds, 0);
	cr_expect_eq(vpmud.unbinds, 1);
	run(MS);
	cr_expect_eq(value(1).count, b.truth - b.from[1]);
	stop(1);
	UNTIL(vpmud.unbinds >= 2, 0);
	/* And again, on a new page. */
	start(2);
	run(MS);
	cr_expect_eq(value(2).count, b.truth - b.from[2]);
	cr_expect_eq(kvm_pages_shared(&b.pages), 1);
}

/* The client has sent a request that vpmud does not answer yet. */
static bool is_asked(void)
{
	bool asked;

	pthread_mutex_lock(&b.client->lock);
	asked = b.client->asked;
	pthread_mutex_unlock(&b.client->lock);
	return asked;
}

/* An answer that comes when the key, or its thread, is not used any more. */
Test(kvm_pages, gives_back_what_is_bound_too_late)
{
	struct share_thread *t;
	struct share_use use;

	vpmud_start(true);
	vpmud.mode = VPMUD_SILENT;
	begin(true);
	for (unsigned int gone = 0; gone < 2; gone++) {
		t = share_begin(b.client, 4711);
		cr_assert(!share_get(t, keys[0], false, &use));
		UNTIL(is_asked(), 0);
		share_put(t, keys[0]);
		if (gone)
			share_end(t);
		usleep((SHARE_IDLE_NS + 200 * MS) / 1000);
		vpmud.mode = VPMUD_GOOD;
		UNTIL(vpmud.binds > gone && !is_asked(), 0);
		cr_assert_eq(vpmud.unbinds, gone + 1);
		vpmud.mode = VPMUD_SILENT;
		if (!gone)
			share_end(t);
	}
}

/* vpmud knows threads by their number: what the former one has is given back first. */
Test(kvm_pages, a_thread_of_the_same_number)
{
	struct share_thread *former, *t;
	unsigned int connections;
	struct share_use use;

	begin(true);
	former = share_begin(b.client, 4711);
	share_get(former, keys[0], false, &use);
	UNTIL(share_ready(former, keys[0]), 0);
	connections = vpmud.connections;
	vpmud.mode = VPMUD_SILENT;
	share_get(former, keys[1], false, &use);
	UNTIL(is_asked(), 0);
	share_end(former);
	t = share_begin(b.client, 4711);
	share_get(t, keys[0], false, &use);
	vpmud.mode = VPMUD_GOOD;
	UNTIL(share_ready(t, keys[0]), 0);
	cr_expect_eq(vpmud.unbinds, 2);
	cr_expect_eq(vpmud.connections, connections);
	cr_expect(vpmud.shown >> vpmud_slot(keys[0]) & 1, "given back after it was bound");
	share_end(t);
}

/* ---- alarms ------------------------------------------------------------- */

static unsigned int ctr_of(vpmu_key_t key)
{
	unsigned int i = 0;

	while (i < VPMU_MAX_CTRS && b.pages.ctr[i].key != key)
		i++;
	cr_assert(i < VPMU_MAX_CTRS);
	return i;
}

Test(kvm_pages, an_alarm_is_an_event_and_the_count_is_the_pages)
{
	unsigned int opens, signals;

	begin(true);
	start(0);
	run(MS);
	value(0);
	opens = fake.open_fds;
	b.pages.pmu.ops->arm(&b.pages.pmu, ctr_of(keys[0]), 5000);
	cr_expect_eq(fake.open_fds, opens + 1);
	signals = fake.signals;
	run(4 * MS);
	cr_expect_eq(fake.signals, signals);
	run(2 * MS);
	cr_expect_eq(fake.signals, signals + 1);
	b.pages.pmu.ops->arm(&b.pages.pmu, ctr_of(keys[0]), 0);
	run(20 * MS);
	cr_expect_eq(fake.signals, signals + 1);
	ASSERT_WHOLE(0);
	stop(0);
	run(MS);
	tick();
	cr_expect_eq(fake.open_fds, 0);
}

Test(kvm_pages, who_may_not_open_events_gets_them_from_vpmud)
{
	begin(false);
	start(0);
	run(MS);
	value(0);
	b.pages.access = true;
	b.pages.pmu.ops->arm(&b.pages.pmu, ctr_of(keys[0]), 5000);
	b.pages.access = false;
	cr_expect_eq(vpmud.events, 1);
	cr_assert_geq(given, 0);
	cr_expect(given_on);
	cr_expect_eq(given_period, 5000);
	cr_expect_eq(given_tid, gettid_());
	cr_expect_eq(given_sig, 40);
	/* Outside of an access it does not wait: it comes by a later tick. */
	stop(0);
	tick();
	cr_expect_eq(given, -1);
	start(1);
	b.pages.pmu.ops->arm(&b.pages.pmu, ctr_of(keys[1]), 7000);
	UNTIL(given >= 0, 0);
	run(MS);
	value(1);
	b.pages.pmu.ops->arm(&b.pages.pmu, ctr_of(keys[1]), 6000);
	cr_expect_eq(given_period, 6000);
}

/* ---- any order ---------------------------------------------------------- */

static void any_order(uint64_t seed, bool perf, unsigned int steps)
{
	begin(perf);
	all_shared();
	for (unsigned int n = 0; n < steps; n++) {
		unsigned int what = random_split(&seed) % 40, i = random_split(&seed) % KEYS;

		if (what < 4 && !b.on[i])
			start(i);
		else if (what == 4 && b.on[i])
			stop(i);
		else if (what == 5)
			vpmud_kill();
		else if (what < 8 && !vpmud.alive)
			vpmud_start(random_split(&seed) % 3);
		else if (what == 8)
			vpmud.mode = (int)(random_split(&seed) % VPMUD_MODES);
		else if (what < 13)
			vpmud.mode = VPMUD_GOOD;
		else if (what < 18)
			usleep(random_split(&seed) % 8000);
		else if (what < 30)
			tick();
		vpmud.error = 1 + random_split(&seed) % 40;
		run(1000 + random_split(&seed) % 2000 * 1000);
		for (i = 0; i < KEYS; i++)
			if (b.on[i] && random_split(&seed) % 3 == 0)
				value(i);
	}
	/* A new connection: no refusal is remembered. */
	vpmud_kill();
	vpmud.mode = VPMUD_GOOD;
	vpmud_start(true);
	all_shared();
	end();
	memset(&b, 0, sizeof(b));
	*vpmud.dir = 0;
}

Test(kvm_pages, no_order_of_troubles_makes_a_count_wrong)
{
	for (uint64_t seed = 1; seed <= 4; seed++)
		any_order(seed, true, 1500);
}

Test(kvm_pages, nor_for_who_may_not_open_events)
{
	for (uint64_t seed = 11; seed <= 13; seed++)
		any_order(seed, false, 1500);
}
