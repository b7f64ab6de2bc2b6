// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How vpmu-bench measures. Called by the benchmarks; knows nothing of the product.
 *
 * A core's speed changes while a program runs: most of all when the core's other hardware thread,
 * which may belong to another virtual machine, becomes busy for seconds at a time. So everything
 * that is compared is measured in short batches in one long series of rounds, in random order, and
 * the units are measured in the same rounds. A value is a low quantile over all rounds: a round in
 * which the core was free. A ratio, also one to a unit, is the median of the ratios within each
 * round.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/random.h"

#define ROUNDS	 3000
#define BATCH_NS 50e3
#define UNIT_NS	 20e3
#define LONG_NS	 200e3 /* a unit's batch in slow sets */
/* Values are this quantile: the least few batches had a clock above the usual. */
#define LOW 0.05
/*
 * The core was free in a round in which a block took at most FREE times as long as in the best
 * rounds that this process has seen. If even those took more than ALONE cycles, the core was never
 * free: it does a block in 2 to 3 cycles, and in 3.5 to 5 while its other hardware thread is busy.
 * A set that has fewer free rounds is measured for up to PATIENCE times as long.
 */
#define FREE	 1.2
#define ALONE	 2.75
#define FREE_PCT 10
#define PATIENCE 4

static unsigned int rounds_limit;

double bench_thread_ns(void)
{
	return 1e9 * clock_s(CLOCK_THREAD_CPUTIME_ID);
}

double bench_process_ns(void)
{
	return 1e9 * clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_limit_rounds(unsigned int rounds)
{
	rounds_limit = rounds;
}

unsigned int bench_rounds(unsigned int rounds)
{
	return rounds_limit && rounds > rounds_limit ? rounds_limit : rounds;
}

void bench_oom(void)
{
	fprintf(stderr, "vpmu-bench: out of memory\n");
	exit(1);
}

/* ---- units ---- */

static void run_block(void *arg, uint64_t n)
{
	static uint64_t words[64][8];
	uint64_t a = 0, b = 0, c = 0, d = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t *w = words[i & 63];

		a += w[0];
		b ^= w[1];
		c += w[2] + a;
		d ^= w[3];
		w[4] = b;
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : : "memory");
	}
}

struct cell {
	uint64_t now, last, total;
};

static __attribute__((noinline)) void cell_charge(struct cell *c)
{
	__asm__ volatile("" : : : "memory");
	c->total += c->now - c->last;
	c->last = c->now;
}

static void run_call(void *arg, uint64_t n)
{
	static struct cell cells[8];
	void (*fn)(struct cell *) = cell_charge;

	__asm__ volatile("" : "+r"(fn)); /* the compiler does not know which function it is */
	for (uint64_t i = 0; i < n; i++)
		fn(&cells[i & 7]);
}

static void run_xchg(void *arg, uint64_t n)
{
	static uint64_t word[8] __attribute__((aligned(64)));
	uint64_t v = 1;

	for (uint64_t i = 0; i < n; i++)
		v = __atomic_exchange_n(&word[0], v, __ATOMIC_SEQ_CST);
	__asm__ volatile("" : : "r"(v));
}

static void run_page(void *arg, uint64_t n)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);

	for (uint64_t i = 0; i < n; i++) {
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		if (p == MAP_FAILED)
			bench_oom();
		*(volatile char *)p = 1;
		munmap(p, size);
	}
}

/* One chain of multiplications: limited by the clock only. */
static void run_mul(void *arg, uint64_t n)
{
	uint64_t a = 3;

	for (uint64_t i = 0; i < n; i += 8)
		for (int k = 0; k < 8; k++) {
			a *= a;
			__asm__ volatile("" : "+r"(a));
		}
}

enum { MUL = BENCH_UNITS, NR_UNITS };

static const struct {
	const char *name;
	void (*fn)(void *arg, uint64_t n);
} units[NR_UNITS] = {
	[BENCH_BLOCK] = {"block", run_block},
	[BENCH_CALL] = {"call", run_call},
	[BENCH_XCHG] = {"xchg", run_xchg},
	[BENCH_PAGE] = {"page", run_page},

	[MUL] = {"mul", run_mul},
};

const char *bench_unit_name(enum bench_unit unit)
{
	return units[unit].name;
}

/* ---- batches ---- */

static double once(const struct bench_case *c)
{
	double start;

	if (!c->no_warm)
		c->fn(c->arg, (c->n + 7) / 8);
	start = bench_thread_ns();
	c->fn(c->arg, c->n);
	return (bench_thread_ns() - start) / (double)c->n;
}

/* How many times take about @ns. The least of three: any one of them may be interrupted. */
static uint64_t calibrate(struct bench_case *c, double ns)
{
	for (c->n = 16;; c->n *= 2) {
		double each = once(c);

		for (int i = 0; i < 2; i++) {
			double again = once(c);

			each = again < each ? again : each;
		}
		if (each * (double)c->n > ns / 4 || c->n > 1ULL << 32)
			return (uint64_t)(ns / each) + 16;
	}
}

double bench_block_ns(unsigned int batches)
{
	struct bench_case c = {.fn = run_block, .n = 16384};
	double best = once(&c);

	for (unsigned int i = 1; i < batches; i++) {
		double ns = once(&c);

		best = ns < best ? ns : best;
	}
	return best;
}

/* ---- statistics ---- */

static double *copy(const double *v, unsigned int n)
{
	double *w = calloc(n, sizeof(*w));

	if (!w)
		bench_oom();
	memcpy(w, v, n * sizeof(*w));
	return w;
}

/* Which share of @v is below @limit. */
static double below(const double *v, unsigned int n, double limit)
{
	unsigned int in = 0;

	for (unsigned int i = 0; i < n; i++)
		in += v[i] < limit;
	return (double)in / n;
}

/* Sorts @v. */
static double quantile(double *v, unsigned int n, double q)
{
	qsort(v, n, sizeof(*v), by_value);
	return v[(unsigned int)(q * (double)(n - 1))];
}

static double low(const double *v, unsigned int n)
{
	double *w = copy(v, n), ns = quantile(w, n, LOW);

	free(w);
	return ns;
}

/* ---- rounds ---- */

static uint64_t rnd(void)
{
	static uint64_t state = 0x76706d75;

	return random_shift(&state);
}

/* Measure all of @all once, in random order, as round @r. */
static void one_round(struct bench_case **all, unsigned int nr, unsigned int r)
{
	for (unsigned int i = nr - 1; i > 0; i--) {
		unsigned int j = (unsigned int)(rnd() % (i + 1));
		struct bench_case *t = all[i];

		all[i] = all[j];
		all[j] = t;
	}
	for (unsigned int i = 0; i < nr; i++)
		all[i]->round_ns[r] = once(all[i]);
}

static void grow(struct bench_case *c, unsigned int rounds)
{
	double *v = realloc(c->round_ns, rounds * sizeof(*v));

	if (!v)
		bench_oom();
	c->round_ns = v;
}

void bench_measure(struct bench_set *set)
{
	struct bench_case unit[NR_UNITS] = {0}, *all[NR_UNITS + BENCH_CASES_MAX];
	unsigned int per = set->rounds ? set->rounds : ROUNDS, nr = 0, done = 0;
	static double best; /* block */
	double block, cycle;

	per = bench_rounds(per);
	for (unsigned int i = 0; i < set->nr; i++)
		all[nr++] = &set->c[i];
	for (unsigned int u = 0; u < NR_UNITS; u++) {
		if (u == BENCH_PAGE && !set->page)
			continue;
		unit[u].fn = units[u].fn;
		unit[u].n = calibrate(&unit[u], set->slow ? LONG_NS : UNIT_NS);
		all[nr++] = &unit[u];
	}
	for (unsigned int i = 0; i < set->nr; i++)
		if (!set->c[i].n)
			set->c[i].n = calibrate(&set->c[i], BATCH_NS);
	for (unsigned int more = 0; more < PATIENCE; more++) {
		for (unsigned int i = 0; i < nr; i++)
			grow(all[i], done + per);
		for (unsigned int r = 0; r < per; r++)
			one_round(all, nr, done + r);
		done += per;
		block = low(unit[BENCH_BLOCK].round_ns, done);
		cycle = low(unit[MUL].round_ns, done) / 3;
		if (best == 0 || block < best)
			best = block;
		if (best > ALONE * cycle)
			best = ALONE * cycle;
		set->core_free_pct = 100 * below(unit[BENCH_BLOCK].round_ns, done, FREE * best);
		/* Resources for a set of exactly so many rounds may not suffice for more. */
		if (set->core_free_pct >= FREE_PCT || set->rounds || rounds_limit)
			break;
	}
	set->rounds = done;
	for (unsigned int i = 0; i < set->nr; i++)
		set->c[i].ns = low(set->c[i].round_ns, done);
	for (unsigned int u = 0; u < BENCH_UNITS; u++)
		set->unit_ns[u] = unit[u].round_ns;
	set->cycles_per_block = block / cycle;
	free(unit[MUL].round_ns);
}

/* The median of a[r] / b[r]. */
static double ratio(const double *a, const double *b, unsigned int rounds)
{
	double *v = copy(a, rounds), m;

	for (unsigned int r = 0; r < rounds; r++)
		v[r] /= b[r];
	m = quantile(v, rounds, 0.5);
	free(v);
	return m;
}

double bench_ratio(const struct bench_set *set, unsigned int a, unsigned int b)
{
	return ratio(set->c[a].round_ns, set->c[b].round_ns, set->rounds);
}

double bench_units(const struct bench_set *set, unsigned int i, enum bench_unit unit)
{
	return ratio(set->c[i].round_ns, set->unit_ns[unit], set->rounds);
}

double bench_flat(const struct bench_set *set, unsigned int first, unsigned int nr)
{
	double *v = copy(set->c[first].round_ns, set->rounds), least = 0, most = 0;

	for (unsigned int i = first; i < first + nr; i++) {
		double m;

		for (unsigned int r = 0; r < set->rounds; r++) {
			double sum = 0;

			for (unsigned int j = first; j < first + nr; j++)
				sum += set->c[j].round_ns[r];
			v[r] = set->c[i].round_ns[r] / sum;
		}
		m = quantile(v, set->rounds, 0.5);
		least = i == first || m < least ? m : least;
		most = m > most ? m : most;
	}
	free(v);
	return most / least;
}

void bench_free(struct bench_set *set)
{
	for (unsigned int i = 0; i < set->nr; i++) {
		free(set->c[i].round_ns);
		set->c[i].round_ns = NULL;
	}
	for (unsigned int u = 0; u < BENCH_UNITS; u++) {
		free(set->unit_ns[u]);
		set->unit_ns[u] = NULL;
	}
}
