// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Workloads with known results and known counts; see workloads.h. The guest tools run them in CPL3,
 * and host tests run them natively. They must not use a global variable, a jump table or a library
 * call, because the object must be the same bytes wherever it is linked.
 */
#include "guest-tools/workloads.h"
#include "guest-tools/flow.h"

/* Hides @x from the optimizer, which would replace most of these loops by a closed form. */
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))

uint64_t workload_empty(uint64_t n, void *mem, size_t mem_bytes, workload_call *call)
{
	return n;
}

uint64_t workload_loop(uint64_t n, void *mem, size_t mem_bytes, workload_call *call)
{
	uint64_t sum = 0;

	for (; n; n--) {
		sum += n;
		OPAQUE(sum);
	}
	return sum;
}

uint64_t workload_sieve(uint64_t n, void *mem, size_t mem_bytes, workload_call *call)
{
	volatile uint8_t *composite = mem;
	uint64_t primes = 0;

	for (uint64_t i = 0; i <= n; i++)
		composite[i] = 0;
	for (uint64_t i = 2; i <= n; i++) {
		if (composite[i])
			continue;
		primes++;
		for (uint64_t j = i * i; j <= n; j += i)
			composite[j] = 1;
	}
	return primes;
}

uint64_t workload_fib(uint64_t n, void *mem, size_t mem_bytes, workload_call *call)
{
	if (n < 2)
		return n;
	return workload_fib(n - 1, mem, mem_bytes, call) +
	       workload_fib(n - 2, mem, mem_bytes, call);
}

/* Fill the source block, which is long enough for every shift, so that neighbouring bytes differ.
 */
static void copy_fill(uint8_t *src, uint8_t *dst)
{
	for (unsigned int i = 0; i < WORKLOAD_COPY_BLOCK + WORKLOAD_COPY_SHIFT; i++)
		src[i] = (uint8_t)(i * 167 + (i >> 8));
	for (unsigned int i = 0; i < WORKLOAD_COPY_BLOCK; i++)
		dst[i] = 0;
}

static uint64_t copy_checksum(const uint8_t *dst)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < WORKLOAD_COPY_BLOCK; i++)
		sum = sum * 31 + dst[i];
	return sum;
}

uint64_t workload_memcpy(uint64_t n, void *mem, size_t mem_bytes, workload_call *call)
{
	uint8_t *dst = mem;
	uint8_t *src = dst + WORKLOAD_COPY_BLOCK;

	copy_fill(src, dst);
	for (unsigned int k = 0; n; k++) {
		const uint8_t *from = src + k % WORKLOAD_COPY_SHIFT;
		uint64_t len = n < WORKLOAD_COPY_BLOCK ? n : WORKLOAD_COPY_BLOCK;

		for (uint64_t i = 0; i < len; i++) {
			uint8_t b = from[i];

			OPAQUE(b);
			dst[i] = b;
		}
		n -= len;
	}
	return copy_checksum(dst);
}

uint64_t workload_repmovs(uint64_t n, void *mem, size_t mem_bytes, workload_call *call)
{
	uint8_t *dst = mem;
	uint8_t *src = dst + WORKLOAD_COPY_BLOCK;

	copy_fill(src, dst);
	for (unsigned int k = 0; n; k++) {
		const uint8_t *from = src + k % WORKLOAD_COPY_SHIFT;
		uint64_t len = n < WORKLOAD_COPY_BLOCK ? n : WORKLOAD_COPY_BLOCK;
		uint64_t quads = len / 8, bytes = len % 8;
		uint8_t *to = dst;

		__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(quads) : : "memory");
		__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
		n -= len;
	}
	return copy_checksum(dst);
}

uint64_t workload_chase(uint64_t n, void *mem, size_t mem_bytes, workload_call *call)
{
	uintptr_t *node = mem, *p = mem;
	uint64_t rnd = WORKLOAD_CHASE_SEED, sum = 0;

	for (uint64_t i = 0; i < WORKLOAD_CHASE_NODES; i++)
		node[i] = i;
	/* Sattolo's shuffle makes a permutation that is a single cycle. */
	for (uint64_t i = WORKLOAD_CHASE_NODES - 1; i; i--) {
		uint64_t j, tmp;

		rnd = rnd * 6364136223846793005u + 1442695040888963407u;
		j = (rnd >> 32) * i >> 32;
		tmp = node[i];
		node[i] = node[j];
		node[j] = tmp;
	}
	for (uint64_t i = 0; i < WORKLOAD_CHASE_NODES; i++)
		node[i] = (uintptr_t)&node[node[i]];
	for (; n; n--) {
		p = (uintptr_t *)*p;
		sum += (uint64_t)((uintptr_t)p - (uintptr_t)mem);
	}
	return sum;
}

uint64_t workload_syscalls(uint64_t n, void *mem, size_t mem_bytes, workload_call *call)
{
	uint64_t sum = 0;

	for (uint64_t i = 1; i <= n; i++)
		sum += call(i);
	return sum;
}

const struct workload workloads[] = {
	{"empty", workload_empty, 0, UINT64_MAX, 0, 0, 0, "any number",
	 "returns at once; shows the counts of a measurement itself"},
	{"loop", workload_loop, 1000000, UINT64_MAX, 0, 0, 0, "iterations",
	 "adds and a taken branch, no memory"},
	{"sieve", workload_sieve, 100000, 1u << 30, 1, 1, 0, "largest number",
	 "primes by Eratosthenes, mostly stores"},
	{"fib", workload_fib, 20, 93, 0, 0, 0, "which Fibonacci number",
	 "naive recursion: calls, returns, stack"},
	{"memcpy", workload_memcpy, 1000000, UINT64_MAX,
	 2 * WORKLOAD_COPY_BLOCK + WORKLOAD_COPY_SHIFT, 0, 0, "bytes", "copies byte by byte"},
	{"repmovs", workload_repmovs, 1000000, UINT64_MAX,
	 2 * WORKLOAD_COPY_BLOCK + WORKLOAD_COPY_SHIFT, 0, 0, "bytes",
	 "the same copies by REP MOVS: one instruction per string"},
	{"chase", workload_chase, 100000, UINT64_MAX, WORKLOAD_CHASE_NODES * 8, 0, 0, "steps",
	 "dependent loads through a random cycle of 4096 pointers"},
	{"syscalls", workload_syscalls, 1000, UINT64_MAX, 0, 0, 1, "system calls",
	 "null system calls: user and kernel halves"},
	{"chain", workload_chain, 10000, UINT64_MAX, FLOW_MEM_BYTES, 0, 0, "visits",
	 "a tree of calls, 24 deep; the call chain is known at every instruction"},
	{"branches", workload_branches, 10000, UINT64_MAX, 0, 0, 0, "blocks",
	 "branches of all kinds; two registers give the history at every instruction"},
};
const size_t nr_workloads = sizeof(workloads) / sizeof(workloads[0]);

const struct workload *workload_find(const char *name, size_t len)
{
	for (size_t i = 0; i < nr_workloads; i++) {
		const char *w = workloads[i].name;
		size_t k = 0;

		while (k < len && w[k] && w[k] == name[k])
			k++;
		if (k == len && !w[k])
			return &workloads[i];
	}
	return NULL;
}
