/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vpmu-bench: what its parts share. measure.c runs the batches, machine.c describes the machine and
 * picks a CPU, vs.c compares two builds, main.c reads the command line and prints results; each
 * bench_*.c measures one part of the product. docs/performance.md explains the method. Nothing here
 * may be a test of time: a test asserts that a benchmark runs, never how fast it is.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/measured.h"

/*
 * Units that travel from one machine to another: small pieces of code, measured in the same rounds
 * as the benchmark. A benchmark uses the unit that resembles its main work. No unit contains
 * product code.
 */
enum bench_unit {
	BENCH_BLOCK, /* 4 L1 loads, 5 ALU operations, 1 store, no waiting: fills a core */
	BENCH_CALL,  /* an indirect call that loads two words, adds, and stores two words */
	BENCH_XCHG,  /* an atomic exchange on an unshared cache line */
	BENCH_PAGE,  /* one page mapped, written and unmapped: system calls and a page fault */
	BENCH_UNITS,
};

const char *bench_unit_name(enum bench_unit unit);

#define BENCH_CASES_MAX 8

/* One thing to measure. */
struct bench_case {
	void (*fn)(void *arg, uint64_t n); /* does it @n times */
	void *arg;
	uint64_t n;	  /* times per batch; 0: as many as take about 50 us */
	bool no_warm;	  /* else an eighth of a batch runs untimed before each batch */
	double ns;	  /* result: ns of CPU time each, a low quantile of all rounds */
	double *round_ns; /* result: ns each, by round; measure.c frees it */
};

/*
 * Cases that are compared with each other. All cases and all units are measured in every round, in
 * random order.
 */
struct bench_set {
	unsigned int nr;
	struct bench_case c[BENCH_CASES_MAX];
	/* Exactly so many; 0: 3000, and up to 12000 while the core is not free. Result: how many.
	 */
	unsigned int rounds;
	bool page; /* measure BENCH_PAGE too */
	bool slow; /* a batch takes about a millisecond or more: longer batches of the units, too */
	double *unit_ns[BENCH_UNITS]; /* result: ns each, by round; NULL: not measured */
	/* A low quantile; a multiplication is taken as 3 cycles. 2 to 3 on a core that is free. */
	double cycles_per_block;
	/* Rounds in which a block took no longer than on a free core. In the others the core was
	 * shared, most likely with its other hardware thread. */
	double core_free_pct;
};

/* bench_measure - run the rounds and fill the results in. Runs on one thread; exits on -ENOMEM. */
void bench_measure(struct bench_set *set);
/* bench_ratio - case @a in terms of case @b: the median of the ratios within each round. */
double bench_ratio(const struct bench_set *set, unsigned int a, unsigned int b);
/* bench_units - case @i in terms of @unit, by the same rule. */
double bench_units(const struct bench_set *set, unsigned int i, enum bench_unit unit);
/* bench_flat - greatest over least of cases @first..@first+@nr-1, each the median of its ratios to
 * the mean of the round. 1: they cost the same. */
double bench_flat(const struct bench_set *set, unsigned int first, unsigned int nr);
/* bench_free - free what bench_measure allocated. */
void bench_free(struct bench_set *set);

/* bench_limit_rounds - no more than @rounds rounds in any set, for tests; 0: no limit. */
void bench_limit_rounds(unsigned int rounds);
/* bench_rounds - @rounds, or fewer when they are limited. */
unsigned int bench_rounds(unsigned int rounds);

/* bench_report - print one result. @goal: its upper bound (or lower, if @at_least);
 * 0: none. @params: extra fields, or NULL; the reference is taken over. */
void bench_report(const char *name, double value, const char *unit, double goal, bool at_least,
		  json_t *params);
/* bench_report_ns - print case @i of @set in ns and in terms of @unit. @goal: how many units it
 * should be at most; 0: none. */
void bench_report_ns(const char *name, const struct bench_set *set, unsigned int i,
		     enum bench_unit unit, double goal, json_t *params);
/* bench_report_as - the same for a result of case @i that is printed as @value, such as a rate. The
 * units are those of the case divided by @parts, and so is @goal. */
void bench_report_as(const char *name, double value, const char *value_unit,
		     const struct bench_set *set, unsigned int i, double parts,
		     enum bench_unit unit, double goal, json_t *params);

/* bench_oom - end without memory. */
_Noreturn void bench_oom(void);

/* CPU time in ns of this thread / of the process. */
double bench_thread_ns(void);
double bench_process_ns(void);

/* bench_pin - keep this thread, and threads it makes, on the CPU with the freest core now.
 * bench_unpin - all CPUs again. */
void bench_pin(void);
void bench_unpin(void);
/* bench_block_ns - ns per BENCH_BLOCK, the best of @batches batches of about 20 us: how much of the
 * core this thread has now. */
double bench_block_ns(unsigned int batches);

/* bench_describe_machine - new reference: CPU, kernel, load and clock of this machine, or NULL. */
json_t *bench_describe_machine(void);

/* vs_run - compare this program with the build @other. Runs each of @names (a NULL-terminated list)
 * @runs times with either program in turn, and prints ratios. Returns 0, or 1 with a line on
 * stderr. */
int vs_run(const char *other, unsigned int runs, unsigned int rounds, const char *const *names);

typedef int bench_fn(void); /* 0, or 1 with a line on stderr */

/* One benchmark; its results may have names that begin with its own. */
struct bench {
	const char *name, *what;
	bench_fn *run;
};

bench_fn bench_switch_equal, bench_switch_4keys, bench_switch_scale, bench_switch_many_keys,
	bench_tenant, bench_safe_point, bench_account_memory, bench_consumer_add_del,
	bench_consumer_read, bench_sampling, bench_lbr_switch, bench_lbr_memory, bench_emu_mips,
	bench_emu_mips_lbr, bench_emu_mips_programs, bench_emu_mips_sse, bench_emu_alarm,
	bench_linux_boot_emu, bench_linux_idle, bench_vm_create, bench_kvm_msr_exit, bench_kvm_boot,
	bench_kvm_sampling, bench_kvm_rdpmc, bench_runner_scale, bench_fair_worst,
	bench_control_stall;

#endif
