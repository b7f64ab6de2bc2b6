/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Workloads with known results and known counts. They are compiled once, for general registers
 * only, and the same object file is linked into the guest image and into host tests. So a test that
 * single-steps natively and a guest that counts execute the same instructions.
 *
 * The functions must use no global variables and no libc, and must not return addresses. The number
 * of executed instructions depends on the arguments only, not on the addresses of code or memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The function that the workload "syscalls" calls. It returns its argument. In a guest it enters
 * the kernel by SYSCALL. */
typedef uint64_t workload_call(uint64_t arg);

/*
 * @n: the workload's argument, <= max_arg
 * @mem, @mem_bytes: scratch memory, 8-byte aligned, at least workload_mem_bytes(); its contents are
 *	ignored and overwritten
 * @call: used only by workloads with needs_call; NULL for the others
 * Returns the result given in each workload's comment below.
 */
typedef uint64_t workload_fn(uint64_t n, void *mem, size_t mem_bytes, workload_call *call);

struct workload {
	const char *name;
	workload_fn *fn;
	uint64_t default_arg;
	uint64_t max_arg;
	size_t mem_fixed;   /* scratch bytes for any @n */
	size_t mem_per_arg; /* plus these for each unit of @n */
	int needs_call;
	const char *arg;  /* meaning of the argument, for help texts */
	const char *desc; /* one line */
};

extern const struct workload workloads[];
extern const size_t nr_workloads;

/* workload_find - the workload called @name (@len bytes, not terminated), or NULL. */
const struct workload *workload_find(const char *name, size_t len);

/* workload_mem_bytes - scratch bytes that @w needs for argument @n; SIZE_MAX on overflow. */
static inline size_t workload_mem_bytes(const struct workload *w, uint64_t n)
{
	if (w->mem_per_arg && n > (SIZE_MAX - w->mem_fixed) / w->mem_per_arg)
		return SIZE_MAX;
	return w->mem_fixed + w->mem_per_arg * n;
}

/* empty: returns @n; only the call and the return are counted. */
workload_fn workload_empty;
/* loop: adds @n, @n - 1 ... 1; returns @n * (@n + 1) / 2 modulo 2^64. */
workload_fn workload_loop;
/* sieve: Eratosthenes over one byte per number; returns the number of primes <= @n. */
workload_fn workload_sieve;
/* fib: naive double recursion, no tail calls; returns the @n-th Fibonacci number. */
workload_fn workload_fib;
/* memcpy: copies @n bytes, byte by byte, in blocks; returns a checksum of the last contents. */
workload_fn workload_memcpy;
/* repmovs: the same copies and the same result with REP MOVSQ and REP MOVSB. */
workload_fn workload_repmovs;
/* chase: @n dependent loads along one cycle through WORKLOAD_CHASE_NODES pointers; returns the
 * sum of the offsets visited, in bytes. */
workload_fn workload_chase;
/* syscalls: calls @call(i) for i = 1 .. @n and returns the sum of its results. */
workload_fn workload_syscalls;
/* chain and branches are in flow.S; flow.h declares them and has functions for their history. chain
 * returns a checksum over @n visits of a call tree, branches the sum of @n states of its
 * generator. */

#define WORKLOAD_COPY_BLOCK  4096u /* bytes per block of memcpy and repmovs */
#define WORKLOAD_COPY_SHIFT  64u   /* block k starts at source offset k % this */
#define WORKLOAD_CHASE_NODES 4096u
#define WORKLOAD_CHASE_SEED  0x76706d75u
