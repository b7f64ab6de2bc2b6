// SPDX-License-Identifier: GPL-2.0-or-later
/* Time on a CPU in TSC ticks, compared with the thread's CPU clock of the kernel. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <linux/perf_event.h>

#include "vpmu/kvm/oncpu.h"

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static uint64_t wall_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

struct sums {
	uint64_t ticks;	   /* by kvm_oncpu */
	uint64_t wall_tsc; /* TSC in the same intervals */
	uint64_t expected; /* CPU time of the thread in them, in ticks */
	uint64_t switches; /* the thread lost its CPU so often */
};

static uint64_t switches(void)
{
	struct rusage r;

	getrusage(RUSAGE_THREAD, &r);
	return (uint64_t)(r.ru_nvcsw + r.ru_nivcsw);
}

static void nap(void)
{
	usleep(2000);
}

static void work(void)
{
	for (volatile unsigned int i = 0; i < 300000; i++)
		;
}

/* Measure @n intervals of @step, with @between between them. */
static struct sums measure(bool events, unsigned int n, void (*step)(void), void (*between)(void))
{
	uint64_t tsc0 = __rdtsc(), wall0 = wall_ns(), ns = 0, lost = switches();
	struct kvm_oncpu o = {0};
	struct sums s = {0};

	kvm_oncpu_open(&o, (int)syscall(SYS_gettid), events);
	if (events && !o.page)
		cr_skip_test("perf events are not permitted");
	for (unsigned int i = 0; i < n; i++) {
		uint64_t t, c = cpu_ns();

		t = __rdtsc();
		kvm_oncpu_enter(&o);
		step();
		s.ticks += kvm_oncpu_leave(&o);
		s.wall_tsc += __rdtsc() - t;
		ns += cpu_ns() - c;
		if (between)
			between();
	}
	kvm_oncpu_close(&o);
	kvm_oncpu_close(&o);
	s.expected =
		(uint64_t)((double)ns * (double)(__rdtsc() - tsc0) / (double)(wall_ns() - wall0));
	s.switches = switches() - lost;
	return s;
}

/* A tenth and the cost of the calls around. */
static bool about(uint64_t a, uint64_t b, uint64_t more)
{
	return a + b / 10 + more >= b && b + b / 10 + more >= a;
}

/*
 * A hypervisor below this machine can take the CPU away. The TSC goes on then, and the kernel need
 * not notice, so one measurement proves little. A measurement that is wrong is made again, and a
 * test fails only if all of them are wrong.
 */
#define TRIES 20

static void expect_once(bool (*right)(bool events, char *seen, size_t len), bool events)
{
	char seen[200];

	for (unsigned int i = 0; i < TRIES; i++) {
		if (right(events, seen, sizeof(seen)))
			return;
	}
	cr_expect_fail("%s, and %d times before", seen, TRIES - 1);
}

/* A test in each way to measure. */
#define WITH_AND_WITHOUT_EVENTS(name, right)                                                       \
	Test(kvm_oncpu, name)                                                                      \
	{                                                                                          \
		expect_once(right, true);                                                          \
	}                                                                                          \
	Test(kvm_oncpu, name##_without_events)                                                     \
	{                                                                                          \
		expect_once(right, false);                                                         \
	}

static bool sleeping(bool events, char *seen, size_t len)
{
	struct sums s = measure(events, 50, nap, NULL);

	snprintf(seen, len, "%lu of %lu ticks, expected %lu, %lu switches", s.ticks, s.wall_tsc,
		 s.expected, s.switches);
	return s.switches >= 50 && s.ticks < s.wall_tsc / 5 &&
	       s.ticks <= s.expected + s.expected / 10;
}

WITH_AND_WITHOUT_EVENTS(time_asleep_is_not_counted, sleeping)

static void blink(void)
{
	usleep(100);
}

static bool sleeping_between(bool events, char *seen, size_t len)
{
	struct sums s = measure(events, 50, work, nap);

	snprintf(seen, len, "%lu ticks, not %lu", s.ticks, s.expected);
	return about(s.ticks, s.expected, 50 * 10000);
}

static bool losing_it_briefly(bool events, char *seen, size_t len)
{
	struct sums s = measure(events, 200, work, blink);

	snprintf(seen, len, "%lu ticks, not %lu", s.ticks, s.expected);
	return about(s.ticks, s.expected, 200 * 10000);
}

WITH_AND_WITHOUT_EVENTS(time_asleep_between_runs, sleeping_between)

WITH_AND_WITHOUT_EVENTS(little_time_lost_between_runs, losing_it_briefly)

static _Atomic bool stop, runs;

static void *hog(void *arg)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(*(int *)arg, &set);
	sched_setaffinity(0, sizeof(set), &set);
	runs = true;
	while (!stop)
		;
	return NULL;
}

/* The kernel need not take the CPU away just here. */
static void give_up(void)
{
	work();
	sched_yield();
}

/* Two threads on one CPU. */
static bool preempted(bool events, char *seen, size_t len)
{
	pthread_t t;
	cpu_set_t set;
	struct sums s;
	int cpu = sched_getcpu();

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	cr_assert(!sched_setaffinity(0, sizeof(set), &set));
	stop = runs = false;
	cr_assert(!pthread_create(&t, NULL, hog, &cpu));
	while (!runs)
		usleep(100);
	s = measure(events, 400, give_up, NULL);
	stop = true;
	pthread_join(t, NULL);
	snprintf(seen, len, "%lu of %lu ticks, expected %lu, %lu switches", s.ticks, s.wall_tsc,
		 s.expected, s.switches);
	return s.switches > 3 && about(s.ticks, s.expected, 400 * 10000) &&
	       s.ticks < s.wall_tsc / 10 * 9;
}

WITH_AND_WITHOUT_EVENTS(preemption_is_taken_off, preempted)

/* The kernel's clock of the thread and the TSC drift apart: here by 50 ms, since the thread got its
 * CPU. */
static bool drifted(char *seen, size_t len)
{
	struct kvm_oncpu o = {0};
	uint64_t begin, age, ns, ticks;

	kvm_oncpu_open(&o, (int)syscall(SYS_gettid), true);
	if (!o.page)
		cr_skip_test("perf events are not permitted");
	kvm_oncpu_enter(&o);
	o.ref_tsc -= 50000000;
	kvm_oncpu_enter(&o);
	begin = __rdtsc();
	ns = cpu_ns();
	work();
	age = __rdtsc() - begin;
	nap();
	ticks = kvm_oncpu_leave(&o);
	kvm_oncpu_close(&o);
	snprintf(seen, len, "%lu ticks with %lu of work, %lu ns by the kernel", ticks, age,
		 cpu_ns() - ns);
	return ticks > age / 2;
}

Test(kvm_oncpu, clocks_that_drift_apart)
{
	unsigned int right = 0;
	char seen[200];

	/* A thread that just lost its CPU has a new answer. */
	for (unsigned int i = 0; i < TRIES; i++)
		right += drifted(seen, sizeof(seen));
	cr_expect_gt(right, TRIES / 2, "%u of %d; the last: %s", right, TRIES, seen);
}

static unsigned int steps;

static void one(void)
{
	steps++;
}

Test(kvm_oncpu, short_runs_count)
{
	struct sums s = measure(true, 100000, one, NULL);

	cr_expect_geq(s.ticks, 100000);
	cr_expect_leq(s.ticks, s.wall_tsc);
	cr_expect_eq(steps, 100000);
}
