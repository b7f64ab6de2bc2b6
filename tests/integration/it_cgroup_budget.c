// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The counter budget on the running kernel, with a CPU that has few counters: each hardware event
 * is a cpu-clock here, which counts the nanoseconds for which it is switched on. So what a key has
 * counted is its running time, and everything else is real: switching, times, the program. /sys and
 * CPUID are the test's. Skipped where BPF is not permitted.
 */
#include "tests/integration/cgroup_budget_bed.h"

/* ---- turns -------------------------------------------------------------------------------- */

Test(bpf_backend_budget, keys_that_do_not_fit_take_turns)
{
	struct vpmu_counting *few, *all, *of_node;
	struct bpf_backend_budget b;
	struct vpmu_backend *s;
	vpmu_key_t keys[KEYS];
	uint64_t sum = 0;

	backend = open_backend();
	s = bpf_as_backend(backend);
	make_keys(keys);
	few = bed_counting(s->root, keys, USABLE - 1, NULL);
	all = bed_counting(s->root, keys, KEYS, NULL);
	of_node = bed_counting(bed_tenant(s->root, "a"), keys, KEYS, all);
	bed_spawn("a", work_switches, NULL);
	bed_spawn("a", work_sleeps, NULL);

	/* So many fit: nothing is ever switched. */
	bed_attach(few);
	bpf_backend_budget(backend, &b);
	cr_expect(b.known && b.general == 6 && b.left == 2 && !b.turns);
	cr_expect_eq(b.keys, USABLE - 1);
	usleep(250000);
	bpf_backend_tend(backend);
	bed_read(few);
	cr_expect_eq(switched, 0u);
	for (unsigned int i = 0; i < USABLE - 1; i++)
		cr_expect_eq(few->values[i].running_ns, few->values[i].enabled_ns);

	bed_attach(of_node);
	bpf_backend_budget(backend, &b);
	cr_expect(b.turns && b.keys == KEYS);
	for (int i = 0; i < 10; i++) {
		take_turns(backend, 2);
		cr_expect_gt(bed_conserved(s), 0);
	}
	bed_detach(of_node);
	for (struct vpmu_counting *c = of_node; c; c = c->next) {
		sum = 0;
		for (unsigned int i = 0; i < KEYS; i++) {
			const struct vpmu_value *v = &c->values[i];

			cr_expect(v->supported && (!v->partial || bed_unseen(backend)));
			cr_expect(about(v->enabled_ns, c->values[0].enabled_ns, v->enabled_ns));
			cr_expect(c == of_node ||
				  (v->running_ns > 0 && v->running_ns < v->enabled_ns));
			count_is_running_time(v, i);
			sum += v->running_ns;
		}
		if (c == of_node)
			continue;
		cr_expect_lt(sum, c->values[0].enabled_ns * (USABLE + 1));
		cr_expect_gt(sum, c->values[0].enabled_ns);
	}

	/* The others are gone, and these have their counters for themselves again. */
	bpf_backend_budget(backend, &b);
	cr_expect_not(b.turns);
	bed_read(few);
	for (unsigned int i = 0; i < USABLE - 1; i++)
		cr_expect_lt(few->values[i].running_ns, few->values[i].enabled_ns);
	switched = 0;
	usleep(250000);
	bpf_backend_tend(backend);
	cr_expect_eq(switched, 0u);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		cr_expect(!backend->slot[i].key || backend->slot[i].fd[0] < 0 ||
			  event[backend->slot[i].fd[0]].on);
	bed_close(backend);
}

/* The daemon is another one, and cannot switch the events of the former. They get successors. */
Test(bpf_backend_budget, turns_go_on_after_a_restart)
{
	struct bpf_backend_opts o = {.sys = &sys, .leave_counters = 2};
	char dir[BED_PIN_DIR];
	struct bpf_backend_base base[KEYS];
	struct vpmu_counting *c;
	vpmu_key_t keys[KEYS];
	struct bpf_backend_budget b;

	bed_pin_dir(dir);
	o.pin_dir = dir;
	make_keys(keys);
	for (int i = 0; i < 3; i++) {
		backend = NULL;
		backend = i ? bed_reopen(&o) : bed_open(&o);
		c = bed_counting(bpf_as_backend(backend)->root, keys, KEYS, NULL);
		bed_attach(c);
		for (unsigned int k = 0; k < KEYS; k++) {
			if (i)
				cr_expect_eq(bpf_backend_base_set(c, k, &base[k]), 0);
			bpf_backend_base_get(c, k, &base[k]);
		}
		bpf_backend_named(backend);
		take_turns(backend, 10);
		bpf_backend_budget(backend, &b);
		cr_expect(b.turns && b.keys == KEYS);
		cr_expect_gt(bed_conserved(bpf_as_backend(backend)), 0);
		if (i == 2)
			break;
		bed_leave(backend);
		usleep(50000); /* keys that wait now wait until the next daemon */
	}
	bed_detach(c);
	for (unsigned int k = 0; k < KEYS; k++) {
		const struct vpmu_value *v = &c->values[k];

		cr_expect(v->running_ns > 0 && v->running_ns < v->enabled_ns);
		count_is_running_time(v, k);
	}
	bed_close(backend);
}

/* ---- mediated vPMUs ----------------------------------------------------------------------- */

static void write_param(const char *text)
{
	put("/sys/module/kvm_amd/parameters/enable_mediated_pmu", text);
}

Test(bpf_backend_budget, guests_that_have_the_pmu_for_themselves)
{
	const vpmu_key_t keys[] = {
		vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_CYCLES, ALL),
		vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_CYCLES, ALL & ~VPMU_KEY_HOST),
		vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_CYCLES, HOST),
		SW(PERF_COUNT_SW_CONTEXT_SWITCHES)};
	struct vpmu_counting *c;
	struct vpmu_backend *s;
	struct bpf_backend_budget b;
	enum vpmu_quality q;
	char why[256] = "";

	write_param("N\\n");
	backend = open_backend();
	s = bpf_as_backend(backend);
	bed_spawn("", work_switches, NULL);
	c = bed_counting(s->root, keys, 4, NULL);
	bed_attach(c);
	bpf_backend_budget(backend, &b);
	cr_expect(!b.mediated && b.keys == 3);
	cr_expect(vpmu_backend_can_count(s, keys[0], &q, why, sizeof(why)));

	/* The module is loaded again with it: within a second nothing is in a VM's way. */
	write_param("Y\\n");
	no_guests = true;
	while (!b.mediated) {
		usleep(50000);
		bpf_backend_tend(backend);
		bpf_backend_budget(backend, &b);
	}
	cr_expect_eq(b.keys, 1u);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		for (unsigned int cpu = 0; cpu < backend->nr_cpus; cpu++)
			cr_expect(backend->slot[i].fd[cpu] < 0 || backend->slot[i].key == keys[2] ||
				  backend->slot[i].key == keys[3]);
	/* At once, and with a new attach. */
	for (int again = 0; again < 2; again++) {
		bed_read(c);
		for (unsigned int i = 0; i < 4; i++)
			cr_expect_eq(c->values[i].supported, i > 1, "key %u", i);
		cr_expect_eq(c->values[0].count, 0u);
		cr_expect_gt(bed_conserved(s), 0);
		bed_detach(c);
		if (!again)
			bed_attach(c);
	}
	for (unsigned int i = 0; i < 2; i++) {
		cr_expect_not(vpmu_backend_can_count(s, keys[i], &q, why, sizeof(why)));
		cr_expect(strstr(why, "enable_mediated_pmu") && strstr(why, ":H"), "%s", why);
	}
	cr_expect(vpmu_backend_can_count(s, keys[2], &q, why, sizeof(why)));
	bed_close(backend);
}

/* ---- isolated CPUs ------------------------------------------------------------------------ */

/* On CPU 1, whatever else this machine does. */
static void only_on_1(void)
{
	const struct sched_param p = {.sched_priority = 1};

	bed_run_on(0, 1);
	sched_setscheduler(0, SCHED_FIFO, &p); /* or the test takes longer */
}

static volatile unsigned int *rounds; /* of the work; [1]: that it is asked for */

/* Busy, but other tasks run in between, so that the work is charged. */
static void work_on_1(void *arg)
{
	const struct timespec ts = {.tv_nsec = 50000};

	only_on_1();
	for (;;) {
		for (volatile unsigned int i = 0; i < 1000000; i++)
			;
		++*rounds;
		nanosleep(&ts, NULL);
	}
}

static void spawn_on_1(void (*work)(void *arg))
{
	rounds = bed_share(2 * sizeof(*rounds));
	bed_spawn("a", work, NULL);
}

static void wait_for_rounds(unsigned int n)
{
	for (unsigned int begin = *rounds; *rounds - begin < n;)
		usleep(1000);
}

Test(bpf_backend_budget, isolated_cpus_take_no_turns)
{
	struct vpmu_counting *c;
	vpmu_key_t keys[KEYS];
	unsigned int served = 0;

	bed_two_cpus();
	put("/sys/devices/system/cpu/isolated", "1\\n");
	backend = open_backend();
	make_keys(keys);
	c = bed_counting(bed_tenant(bpf_as_backend(backend)->root, "a"), keys, KEYS, NULL);
	spawn_on_1(work_on_1);
	wait_for_rounds(1);
	bed_attach(c); /* it opens events there */
	cr_expect_leq(on_at(1), USABLE);
	cr_expect_gt(on_at(1), 0u);
	untouched = 1;
	take_turns(backend, 10);
	wait_for_rounds(100);
	bed_read(c);
	/* All that ran was on CPU 1, except for the worker's first steps. */
	for (unsigned int i = 0; i < KEYS; i++) {
		const struct vpmu_value *v = &c->values[i];

		count_is_running_time(v, i);
		served += 2 * v->running_ns > v->enabled_ns;
	}
	cr_expect_eq(served, on_at(1));
	untouched = -1;
	open_us = 0;
	bed_close(backend);
}

static void work_without_end(void *arg)
{
	only_on_1();
	for (;;)
		;
}

static uint64_t read_age(struct vpmu_counting *c)
{
	bed_read(c);
	return c->values[0].age_ns;
}

/* A task that has not been charged yet, on a CPU that is not asked: its node, those above it, and
 * no other carry the time for which that is so. */
Test(bpf_backend_budget, values_of_isolated_cpus_have_an_age)
{
	const vpmu_key_t key = SW(PERF_COUNT_SW_CPU_CLOCK);
	struct vpmu_counting *of_root, *of_node, *of_other, *late;
	struct vpmu_backend *s;
	uint64_t begin, age;

	bed_two_cpus();
	put("/sys/devices/system/cpu/nohz_full", "1\n");
	backend = open_backend();
	s = bpf_as_backend(backend);
	of_root = bed_counting(s->root, &key, 1, NULL);
	of_node = bed_counting(bed_tenant(s->root, "a"), &key, 1, NULL);
	of_other = bed_counting(bed_node(s->root), &key, 1, NULL);
	late = bed_counting(of_node->node, &key, 1, NULL);
	bed_attach(of_root);
	bed_attach(of_node);
	bed_attach(of_other);
	bed_spawn("a", work_without_end, NULL);
	bed_run_on(0, 0);
	/* Until the CPU's first switch its running task is unknown, and every node's values have an
	 * age; a session that began before it keeps that of what it may have too much. */
	for (unsigned int known = 0; known < 3; usleep(1000)) {
		known = read_age(of_other) ? 0 : known + 1;
		if (!known) {
			bed_detach(of_other);
			bed_attach(of_other);
		}
	}
	for (int rounds = 0; rounds < 20;) {
		uint64_t first = read_age(of_node), other = read_age(of_other),
			 all = read_age(of_root);

		/* The CPU has run nothing else since. */
		if (first > 4000000 && read_age(of_node) > first) {
			cr_expect_eq(other, 0u);
			cr_expect_geq(all, first);
			/* A value is not older than its session. */
			begin = clock_ns(CLOCK_MONOTONIC);
			bed_attach(late);
			age = read_age(late);
			cr_expect_leq(age, clock_ns(CLOCK_MONOTONIC) - begin);
			bed_detach(late);
			rounds++;
		}
		usleep(1000);
	}
	bed_close(backend);

	/* As all others, if the administrator sets it. */
	backend = NULL;
	bed_end();
	backend = bed_open(&(struct bpf_backend_opts){.sys = &sys, .isolated = true});
	of_root = bed_counting(bpf_as_backend(backend)->root, &key, 1, NULL);
	bed_attach(of_root);
	for (int i = 0; i < 100; i++)
		cr_expect_eq(read_age(of_root), 0u);
	bed_close(backend);
}

/* Busy without a switch; at a request it sleeps for a moment, and what it did is charged. */
static void work_until_asked(void *arg)
{
	const struct timespec ts = {.tv_nsec = 50000};
	unsigned int seen = 0;

	only_on_1();
	for (;;)
		if (__atomic_load_n(&rounds[1], __ATOMIC_ACQUIRE) != seen) {
			nanosleep(&ts, NULL);
			rounds[0] = ++seen;
		}
}

/* A session that begins in the middle of a stint of such a CPU has all of the stint when the CPU
 * switches, if its key was counted before. Its value tells how much may be too much. */
Test(bpf_backend_budget, what_isolated_cpus_did_before_a_session_shows)
{
	const vpmu_key_t key = SW(PERF_COUNT_SW_CPU_CLOCK), fresh = SW(PERF_COUNT_SW_TASK_CLOCK);
	struct vpmu_counting *of_node, *late, *new_key;
	struct vpmu_backend *s;
	struct bpf_backend_base base;
	uint64_t begin, age, restored;

	bed_two_cpus();
	put("/sys/devices/system/cpu/nohz_full", "1\n");
	backend = open_backend();
	s = bpf_as_backend(backend);
	of_node = bed_counting(bed_tenant(s->root, "a"), &key, 1, NULL);
	late = bed_counting(s->root, &key, 1, NULL);
	new_key = bed_counting(of_node->node, &fresh, 1, NULL);
	bed_attach(of_node);
	spawn_on_1(work_until_asked);
	bed_run_on(0, 0);
	for (unsigned int n = 1; n <= 5;) {
		do
			usleep(1000);
		while ((age = read_age(of_node)) < 10000000);
		begin = clock_ns(CLOCK_MONOTONIC);
		bed_attach(late);
		/* On a busy host the stint may have ended meanwhile. */
		if (quiet_charged(backend, late, begin - age / 2)) {
			bed_detach(late);
			continue;
		}
		bed_attach(new_key);
		/* Of a former process's base it is not known when it was. */
		bpf_backend_base_get(new_key, 0, &base);
		cr_expect_eq(bpf_backend_base_set(new_key, 0, &base), 0);
		restored = read_age(new_key);
		if (!quiet_charged(backend, new_key, begin - age / 2))
			cr_expect_geq(restored, age);
		bed_detach(new_key);
		bed_attach(new_key);
		__atomic_store_n(&rounds[1], n, __ATOMIC_RELEASE);
		while (rounds[0] != n)
			usleep(1000);
		read_age(new_key);
		age = read_age(late);
		begin = clock_ns(CLOCK_MONOTONIC) - begin;
		/* CPU 0 runs tasks of other nodes, and cpu-clock its idle time. */
		cr_expect_leq(late->values[0].count - age, begin * backend->nr_cpus);
		cr_expect_geq(age, 10000000u);
		cr_expect_leq(new_key->values[0].count, begin);
		cr_expect_leq(new_key->values[0].age_ns, begin);
		/* It still does if the session is saved and restored. */
		bpf_backend_base_get(late, 0, &base);
		cr_expect_eq(bpf_backend_base_set(late, 0, &base), 0);
		restored = read_age(late);
		cr_expect_geq(restored, 10000000u);
		bed_detach(new_key);
		bed_detach(late);
		n++;
	}
	bed_close(backend);
}

/* The same of a key whose event such a CPU has not taken up yet: it charges all of the event. */
Test(bpf_backend_budget, new_events_that_isolated_cpus_have_not_seen_show)
{
	const vpmu_key_t key = SW(PERF_COUNT_SW_CPU_CLOCK), fresh = SW(PERF_COUNT_SW_TASK_CLOCK);
	struct vpmu_counting *of_node, *first, *second;
	struct vpmu_backend *s;
	uint64_t from, begin, age;

	bed_two_cpus();
	put("/sys/devices/system/cpu/nohz_full", "1\n");
	backend = open_backend();
	s = bpf_as_backend(backend);
	of_node = bed_counting(bed_tenant(s->root, "a"), &key, 1, NULL);
	first = bed_counting(of_node->node, &fresh, 1, NULL);
	second = bed_counting(of_node->node, &fresh, 1, NULL);
	bed_attach(of_node);
	spawn_on_1(work_until_asked);
	bed_run_on(0, 0);
	for (unsigned int n = 1; n <= 10;) {
		do
			usleep(1000);
		while (read_age(of_node) < 2000000);
		bed_attach(first);
		usleep(5000);
		age = read_age(of_node);
		from = clock_ns(CLOCK_MONOTONIC);
		bed_attach(second);
		if (age >= 7000000 && !quiet_charged(backend, second, from - age / 2)) {
			__atomic_store_n(&rounds[1], n, __ATOMIC_RELEASE);
			while (rounds[0] != n)
				usleep(1000);
			age = read_age(second);
			begin = clock_ns(CLOCK_MONOTONIC) - from;
			cr_expect_geq(age, 5000000u);
			cr_expect_leq(second->values[0].count, age + begin);
			/* The first one's are its own. */
			age = read_age(first);
			cr_expect_leq(age, clock_ns(CLOCK_MONOTONIC) - from);
			n++;
		}
		bed_detach(second);
		bed_detach(first);
	}
	bed_close(backend);
}

/* ---- CPUs that come and go ---------------------------------------------------------------- */

/* Counts of a session's clock without a charge of time. */
static int64_t untimed(struct vpmu_counting *c)
{
	bed_read(c);
	return (int64_t)(c->values[0].count - c->values[0].running_ns);
}

/* A busy host can stop CPU 1 in the middle of a charge for longer than a reading tries. */
static void read_whole(struct vpmu_counting *c)
{
	const struct kp_cpu *st = cpu_state(backend, 1);
	uint64_t done;

	do {
		done = __atomic_load_n(&st->done_ns, __ATOMIC_ACQUIRE);
		vpmu_backend_read(c);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while (done != VPMU_LOAD(&st->last_ns));
}

/* All that the node of @c does now is lost: its time goes on, its running time stands. It may make
 * its rounds without a switch, and no flush reaches the CPU. */
static void expect_all_lost(struct vpmu_counting *c)
{
	uint64_t enabled_ns[3], running_ns[3];

	read_whole(c);
	for (unsigned int i = 0; i < 3; i++) {
		enabled_ns[i] = c->values[i].enabled_ns;
		running_ns[i] = c->values[i].running_ns;
	}
	do {
		wait_for_rounds(3);
		read_whole(c);
	} while (c->values[0].enabled_ns == enabled_ns[0]);
	for (unsigned int i = 0; i < 3; i++) {
		cr_expect_gt(c->values[i].enabled_ns, enabled_ns[i]);
		cr_expect_eq(c->values[i].running_ns, running_ns[i],
			     "key %u: %lld ns more, of %lld ns", i,
			     (long long)(c->values[i].running_ns - running_ns[i]),
			     (long long)(c->values[i].enabled_ns - enabled_ns[i]));
	}
}

/* In /sys CPU 1 is away, which it is not: so it runs on, without events. The time that an account
 * does there is lost time, and a clock shows it. */
Test(bpf_backend_budget, time_on_a_cpu_without_events_is_lost)
{
	const vpmu_key_t keys[] = {vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_CYCLES, ALL),
				   SW(PERF_COUNT_SW_CPU_CLOCK), SW(PERF_COUNT_SW_PAGE_FAULTS)};
	struct vpmu_counting *c, *all;
	int64_t now, last, least = INT64_MAX;
	struct vpmu_backend *s;

	bed_two_cpus();
	put("/sys/devices/system/cpu/online", "0-1\\n");
	backend = open_backend();
	s = bpf_as_backend(backend);
	all = bed_counting(s->root, keys, 1, NULL);
	c = bed_counting(bed_tenant(s->root, "a"), keys, 3, NULL);
	spawn_on_1(work_on_1);
	bed_attach(all);
	bed_attach(c);
	last = untimed(all);
	/* CPU 1 switches tasks while it has new events for some keys and not yet for the others. */
	open_us = 30000;
	for (int i = 0; i < 10; i++) {
		wait_for_rounds(3);
		cr_expect_gt(bed_conserved(s), 0);
		now = untimed(all);
		if (i && now - last < least)
			least = now - last;
		last = now;
		put("/sys/devices/system/cpu/online", "0\\n");
		bpf_backend_tend(backend);
		wait_for_rounds(3);
		expect_all_lost(c);
		cr_expect_gt(bed_conserved(s), 0);
		put("/sys/devices/system/cpu/online", "0-1\\n");
	}
	cr_expect_gt(bed_conserved(s), 0);
	/* Another task may keep us from the CPU, but not always. */
	cr_expect_lt(least, 20000000, "%lld ns", (long long)least);
	bed_detach(c);
	bed_detach(all);
	for (unsigned int i = 0; i < 3; i++) {
		cr_expect(!c->values[i].partial || bed_unseen(backend));
		cr_expect(c->values[i].running_ns > 0 &&
			  c->values[i].running_ns < c->values[i].enabled_ns);
		if (i < 2)
			count_is_running_time(&c->values[i], i);
	}
	bed_close(backend);
}
