// SPDX-License-Identifier: GPL-2.0-or-later
/* The guests' workloads on the host: their results against plain C that shares nothing with them.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "guest-tools/flow.h"
#include "guest-tools/workloads.h"

static uint64_t calls;

static uint64_t identity(uint64_t arg)
{
	calls++;
	return arg;
}

static uint64_t run(const char *name, uint64_t n)
{
	const struct workload *w = workload_find(name, strlen(name));
	size_t bytes;
	uint64_t result;
	uint8_t *mem;

	cr_assert(w, "no workload %s", name);
	/* Exactly the memory it asks for, with a guard: contents must not matter. */
	bytes = workload_mem_bytes(w, n);
	mem = malloc(bytes + 64);
	memset(mem, 0xa5, bytes + 64);
	result = w->fn(n, mem, bytes, w->needs_call ? identity : NULL);
	for (size_t i = bytes; i < bytes + 64; i++)
		cr_assert(mem[i] == 0xa5, "%s %lu wrote behind its %zu bytes", name, n, bytes);
	free(mem);
	return result;
}

static uint64_t ref_primes(uint64_t n)
{
	uint64_t primes = 0;

	for (uint64_t i = 2; i <= n; i++) {
		uint64_t d = 2;

		while (d * d <= i && i % d)
			d++;
		primes += d * d > i;
	}
	return primes;
}

static uint64_t ref_fib(uint64_t n)
{
	uint64_t a = 0, b = 1;

	for (; n; n--) {
		uint64_t t = a + b;

		a = b;
		b = t;
	}
	return a;
}

/* Where byte i of the last contents came from, without copying anything: the last block that
 * reached it. */
static uint64_t ref_copy(uint64_t n)
{
	uint64_t blocks = (n + WORKLOAD_COPY_BLOCK - 1) / WORKLOAD_COPY_BLOCK, sum = 0;
	uint64_t last = n - (blocks ? (blocks - 1) * WORKLOAD_COPY_BLOCK : 0);

	for (uint64_t i = 0; i < WORKLOAD_COPY_BLOCK; i++) {
		uint64_t b = 0;

		if (blocks && (i < last || blocks > 1)) {
			uint64_t k = i < last ? blocks - 1 : blocks - 2;
			uint64_t at = k % WORKLOAD_COPY_SHIFT + i;

			b = (at * 167 + at / 256) & 0xff;
		}
		sum = sum * 31 + b;
	}
	return sum;
}

/* The same cycle built of indices, walked by index. */
static uint64_t ref_chase(uint64_t n)
{
	static uint32_t next[WORKLOAD_CHASE_NODES];
	uint64_t rnd = WORKLOAD_CHASE_SEED, sum = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < WORKLOAD_CHASE_NODES; i++)
		next[i] = i;
	for (uint32_t i = WORKLOAD_CHASE_NODES - 1; i; i--) {
		uint32_t j, tmp;

		rnd = rnd * 6364136223846793005u + 1442695040888963407u;
		j = (uint32_t)((rnd >> 32) * i >> 32);
		tmp = next[i];
		next[i] = next[j];
		next[j] = tmp;
	}
	for (; n; n--) {
		at = next[at];
		sum += 8ull * at;
	}
	return sum;
}

Test(workloads, results)
{
	static const uint64_t args[] = {0, 1, 2, 3, 4, 7, 10, 63, 64, 100, 1000, 4095, 4096, 4097};
	static const uint64_t big[] = {8191, 8192, 12289, 65536, 266241};

	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
		uint64_t n = args[i];

		cr_expect_eq(run("empty", n), n);
		cr_expect_eq(run("loop", n), n * (n + 1) / 2);
		cr_expect_eq(run("sieve", n), ref_primes(n), "n=%lu", n);
		cr_expect_eq(run("memcpy", n), ref_copy(n), "n=%lu", n);
		cr_expect_eq(run("repmovs", n), ref_copy(n), "n=%lu", n);
		cr_expect_eq(run("chase", n), ref_chase(n), "n=%lu", n);
		calls = 0;
		cr_expect_eq(run("syscalls", n), n * (n + 1) / 2);
		cr_expect_eq(calls, n);
		if (n <= 20)
			cr_expect_eq(run("fib", n), ref_fib(n));
	}
	for (size_t i = 0; i < sizeof(big) / sizeof(big[0]); i++) {
		cr_expect_eq(run("memcpy", big[i]), ref_copy(big[i]));
		cr_expect_eq(run("repmovs", big[i]), ref_copy(big[i]));
		cr_expect_eq(run("chase", big[i]), ref_chase(big[i]));
	}
	cr_expect_eq(run("sieve", 100000), 9592);
	cr_expect_eq(run("fib", 25), ref_fib(25));
}

/* chain in C: callers and callees, and the state that decides it. */
static struct {
	uint64_t n, sum, state;
} walk;

static bool visit(uint64_t id, uint64_t depth)
{
	if (!walk.n)
		return false;
	walk.n--;
	walk.sum = walk.sum * 31 + id + depth;
	walk.state = walk.state * FLOW_CHAIN_MUL + FLOW_CHAIN_ADD;
	return true;
}

static void ref_a(uint64_t depth);
static void ref_d(uint64_t depth);

static void ref_c(uint64_t depth)
{
	if (!visit(3, depth) || !depth)
		return;
	if (walk.state >> 45 & 1)
		ref_d(depth);
	else
		ref_a(depth - 1);
}

static void ref_b(uint64_t depth)
{
	if (!visit(2, depth) || !depth)
		return;
	for (uint64_t more = walk.state >> 63;; more--) {
		if (walk.state >> 50 & 1)
			ref_d(depth - 1);
		else
			ref_c(depth - 1);
		if (more != 1)
			return;
	}
}

static void ref_a(uint64_t depth)
{
	if (!visit(1, depth) || !depth)
		return;
	ref_b(depth - 1);
	if (walk.state >> 40 & 1)
		ref_c(depth - 1);
}

static void ref_d(uint64_t depth)
{
	if (!visit(4, depth) || !depth)
		return;
	ref_b(depth - 1);
	if (walk.state >> 55 & 1)
		ref_a(depth - 1);
}

static uint64_t ref_chain(uint64_t n)
{
	walk.n = n;
	walk.sum = 0;
	walk.state = FLOW_CHAIN_SEED;
	while (walk.n)
		ref_a(FLOW_CHAIN_DEPTH);
	return walk.sum;
}

static uint64_t ref_branches(uint64_t n)
{
	uint64_t state = FLOW_BRANCH_SEED, sum = 0;

	for (; n; n--)
		sum += state *= FLOW_BRANCH_MUL;
	return sum;
}

Test(workloads, known_flow)
{
	static const uint64_t n[] = {0, 1, 2, 3, 10, 100, 1000, 54321};

	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		cr_expect_eq(run("chain", n[i]), ref_chain(n[i]), "n=%lu", n[i]);
		cr_expect_eq(run("branches", n[i]), ref_branches(n[i]), "n=%lu", n[i]);
	}
}

Test(workloads, chase_is_one_cycle)
{
	uint64_t all = 8ull * WORKLOAD_CHASE_NODES * (WORKLOAD_CHASE_NODES - 1) / 2;

	cr_assert_eq(run("chase", WORKLOAD_CHASE_NODES), all);
	/* A shorter cycle would come to the start early and sum up to a multiple of itself. */
	for (uint64_t part = WORKLOAD_CHASE_NODES / 2; part; part /= 2)
		cr_expect_neq(run("chase", part) * (WORKLOAD_CHASE_NODES / part), all);
}

Test(workloads, table)
{
	cr_assert(nr_workloads >= 8);
	for (size_t i = 0; i < nr_workloads; i++) {
		const struct workload *w = &workloads[i];

		cr_expect(workload_find(w->name, strlen(w->name)) == w);
		cr_expect(workload_find(w->name, strlen(w->name) - 1) == NULL);
		cr_expect(w->default_arg <= w->max_arg);
		cr_expect(workload_mem_bytes(w, w->default_arg) <= 110000,
			  "%s must fit a vCPU's share of 16 MiB at 64 vCPUs", w->name);
	}
	cr_expect(workload_find("", 0) == NULL);
	cr_expect(workload_find("sieves", 6) == NULL);
	cr_expect_eq(workload_mem_bytes(workload_find("sieve", 5), UINT64_MAX), SIZE_MAX);
}
