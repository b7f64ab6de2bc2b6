// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The check of context switches of `vpmu selftest` (selftest/switch.c) on a CPU of the test's,
 * which is idle or busy: workers, counts and the clock are fakes. How much it has them work must
 * not depend on how long that takes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "selftest/priv.h"
#include "vpmu/util/proctext.h"

ssize_t __wrap_proctext_read(char *buf, size_t len, const char *fmt, ...);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

enum { YIELDS = 4000, FEW = 400, PROBE = 50, ROUNDS = 5 }; /* as in switch.c */
#define MICROSECOND 1000ull

/* A CPU with two workers, which have a process's number each. */
static struct cpu {
	uint64_t yield_ns;	    /* of which 1 us is the worker's own */
	uint64_t lost;		    /* yields without a switch, of each round */
	unsigned int partial;	    /* so many counted rounds are */
	unsigned int missing;	    /* switches that a count lacks */
	uint64_t now_ns, worked_ns; /* each worker's */
	uint64_t switches;	    /* each worker's */
	/* what the check did */
	uint64_t yields[32]; /* of its rounds */
	bool counted[32];
	unsigned int rounds, begun, waited;
	bool counting;
	uint64_t base;
	unsigned int expected, failed;
	char text[200];
} cpu;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns = clock == CLOCK_MONOTONIC ? cpu.now_ns : cpu.worked_ns;

	if (!cpu.yield_ns) /* no check runs: Criterion's clock */
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
				.tv_nsec = (long)(ns % 1000000000)};
	return 0;
}

ssize_t __wrap_proctext_read(char *buf, size_t len, const char *fmt, ...)
{
	return snprintf(buf, len, "voluntary_ctxt_switches:\t%lu\nnonvoluntary_ctxt_switches:\t7\n",
			(unsigned long)cpu.switches);
}

/* ---- workers ---- */

int worker_start(struct selftest *t, unsigned int cgroup, struct worker *w)
{
	*w = (struct worker){.pid = getpid(), .to = -1, .from = -1};
	return 0;
}

void worker_end(struct worker *w)
{
}

int worker_do(struct selftest *t, const struct worker *w, enum work work, uint64_t n)
{
	cr_assert(work == WORK_PIN && n == t->cpus[0]);
	return 0;
}

int worker_begin(struct selftest *t, const struct worker *w, enum work work, uint64_t n)
{
	cr_assert(work == WORK_YIELD && cpu.rounds < 32);
	if (cpu.begun++ % 2) {
		cr_assert_eq(n, cpu.yields[cpu.rounds]);
		return 0;
	}
	cpu.yields[cpu.rounds] = n;
	cpu.counted[cpu.rounds] = cpu.counting;
	return 0;
}

int worker_wait(struct selftest *t, const struct worker *w)
{
	uint64_t n = cpu.yields[cpu.rounds];

	if (cpu.waited++ % 2 == 0)
		return 0;
	cpu.now_ns += n * cpu.yield_ns;
	cpu.worked_ns += n * MICROSECOND;
	cpu.switches += n > cpu.lost ? n - cpu.lost : 0;
	cpu.rounds++;
	return 0;
}

/* ---- counts ---- */

int measure_begin(struct selftest *t, const vpmu_key_t *keys, size_t nr)
{
	cr_assert_geq(nr, 1);
	cpu.counting = true;
	cpu.base = cpu.switches;
	return 0;
}

void measure_end(struct selftest *t)
{
	cpu.counting = false;
	for (int i = NODE_A; i <= NODE_B; i++)
		t->value[i][0].count = cpu.switches - cpu.base;
	t->value[NODE_A][0].count -= cpu.missing;
}

int measure_partial(const struct selftest *t)
{
	if (!cpu.partial)
		return 0;
	cpu.partial--;
	return -EAGAIN;
}

/* ---- the report ---- */

bool selftest_expect(struct selftest *t, const char *subject, uint64_t low, uint64_t high,
		     uint64_t seen, const char *fmt, ...)
{
	cpu.expected++;
	cpu.failed += seen < low || seen > high;
	return seen >= low && seen <= high;
}

__attribute__((format(printf, 2, 0))) static void report(const char *what, const char *fmt,
							 va_list ap)
{
	size_t n = strlen(cpu.text);

	n += (size_t)snprintf(cpu.text + n, sizeof(cpu.text) - n, "%s: ", what);
	vsnprintf(cpu.text + n, sizeof(cpu.text) - n, fmt, ap);
}

void selftest_skip(struct selftest *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report("skip", fmt, ap);
	va_end(ap);
}

void selftest_fact(struct selftest *t, const char *what, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report(what, fmt, ap);
	va_end(ap);
}

void selftest_give_up(struct selftest *t, const char *what, int error)
{
	cr_assert_fail("%s: %d", what, error);
}

/* ---- the check ---- */

/* Check on the CPU @c: rounds of @yields each, the first one apart, and @text in the report. */
static void check_on(struct cpu c, uint64_t yields, const char *text)
{
	static struct selftest t;

	t = (struct selftest){.cpus = {3}};
	cpu = c;
	check_switch(&t);
	cpu.yield_ns = 0;
	cr_expect_str_eq(cpu.text, text);
	cr_expect(cpu.begun == 2 * cpu.rounds && cpu.waited == 2 * cpu.rounds);
	cr_expect(cpu.yields[0] == PROBE && !cpu.counted[0]);
	for (unsigned int i = 1; i < cpu.rounds; i++)
		cr_expect_eq(cpu.yields[i], yields, "round %u", i);
}

Test(selftest_switch, idle)
{
	check_on((struct cpu){.yield_ns = 2 * MICROSECOND}, YIELDS,
		 "switch cost: 1000 ns from one cgroup to another, 1000 ns while 1 events are "
		 "counted");
	cr_expect_eq(cpu.rounds, 1 + 2 * ROUNDS);
	for (unsigned int i = 1; i < cpu.rounds; i++)
		cr_expect_eq(cpu.counted[i], i % 2 == 0, "round %u", i);
	cr_expect(cpu.expected == ROUNDS && !cpu.failed);
}

/* Milliseconds of others after each yield: one short round, counted. */
Test(selftest_switch, busy)
{
	for (uint64_t lost = 0; lost <= PROBE; lost += PROBE / 2) {
		check_on((struct cpu){.yield_ns = 3000 * MICROSECOND, .lost = lost}, FEW,
			 "switch cost: not measured: CPU 3 is busy");
		cr_expect(cpu.rounds == 2 && cpu.counted[1]);
		cr_expect(cpu.expected == 1 && !cpu.failed);
	}
}

/* It is one that fails if switches are missing. */
Test(selftest_switch, busy_and_wrong)
{
	check_on((struct cpu){.yield_ns = 3000 * MICROSECOND, .missing = 8}, FEW,
		 "switch cost: not measured: CPU 3 is busy");
	cr_expect(cpu.expected == 1 && cpu.failed == 1);
}

/* As often as needed, but no more than on an idle one. */
Test(selftest_switch, busy_and_partial)
{
	check_on((struct cpu){.yield_ns = 3000 * MICROSECOND, .partial = 2}, FEW,
		 "switch cost: not measured: CPU 3 is busy");
	cr_expect(cpu.rounds == 1 + 3 && cpu.expected == 1);
	check_on((struct cpu){.yield_ns = 3000 * MICROSECOND, .partial = ROUNDS}, FEW,
		 "skip: partial, 5 times");
	cr_expect(cpu.rounds == 1 + ROUNDS && !cpu.expected);
}
