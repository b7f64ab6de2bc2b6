// SPDX-License-Identifier: GPL-2.0-or-later
/* Alarms of a vCPU thread's events and timers on the real kernel. A part of test_perf_alarm. */
#include "perf_alarm_bed.h"

static _Atomic unsigned int alarms, elsewhere;
static int tid;

static void on_alarm(int sig)
{
	if (gettid_() == tid)
		alarms++;
	else
		elsewhere++;
}

static uint64_t real_ticks(void *arg)
{
	return __rdtsc();
}

static void *sleep_through(void *arg)
{
	while (!*(_Atomic bool *)arg)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	return NULL;
}

/* The kernel's timers come to this thread and no other, as often as in the count. */
Test(perf_alarm_real, a_timer)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	_Atomic bool over = false;
	unsigned int seen = 0;
	pthread_t t;

	tid = gettid_();
	sigaction(SIGNAL, &sa, NULL);
	cr_assert(!pthread_create(&t, NULL, sleep_through, &over));
	begin_with(&b, (struct vpmu_hostpmu_perf_opts){.guest_tsc = real_ticks});
	if (!(b.k.p.pmu.ops->eligible(&b.k.p.pmu, REF_CYCLES) & 1u << CTR_TSC))
		cr_skip_test("this host counts ref-cycles in hardware");
	set_alarm(&b, REF_CYCLES, 2000000);
	while (b.alarm.fired < 50) {
		if (alarms == seen)
			continue;
		seen = alarms;
		vpmu_pcpu_overflow(b.k.pcpu);
	}
	/* Each was late by less than a period, or fire() was called twice for one signal. */
	cr_expect_geq(seen, 1);
	cr_expect_eq(elsewhere, 0);
	cr_expect_leq(b.alarm.fired, counted(&b) / 2000000);
	over = true;
	pthread_join(t, NULL);
}

/* A real clock of the thread that overflows: its signal, and no more after it is disarmed. */
Test(perf_alarm_real, an_event)
{
	const vpmu_key_t clock = sw_key(PERF_COUNT_SW_TASK_CLOCK);
	struct sigaction sa = {.sa_handler = on_alarm};
	const struct vpmu_hostpmu_ops *ops;
	unsigned int ctr;
	uint64_t from;
	struct bed b;

	tid = gettid_();
	sigaction(SIGNAL, &sa, NULL);
	begin_with(&b, (struct vpmu_hostpmu_perf_opts){0});
	ops = b.k.p.pmu.ops;
	if (!ops->eligible(&b.k.p.pmu, clock)) {
		perf_core_end(&b.k);
		cr_skip_test("no right to count");
	}
	ctr = bind_key(&b.k.p, clock);
	from = read_ctr(&b.k.p, ctr);
	ops->arm(&b.k.p.pmu, ctr, 3000000);
	while (!alarms)
		;
	cr_expect_geq(read_ctr(&b.k.p, ctr) - from, 3000000);
	ops->arm(&b.k.p.pmu, ctr, 0);
	alarms = 0;
	from = read_ctr(&b.k.p, ctr);
	while (read_ctr(&b.k.p, ctr) - from < 20000000)
		;
	cr_expect_eq(alarms, 0);
	ops->unbind(&b.k.p.pmu, ctr);
	perf_core_end(&b.k);
}
