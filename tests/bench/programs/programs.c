// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest programs of `vpmu-bench emu_mips_programs` (and emu_mips_sse), without a kernel below
 * them. start.S calls run_program(), once. Each program does the same work again @n times and
 * returns a checksum of all it computed. None may use the machine: no clock, no device, no
 * interrupt.
 */
#include <stddef.h>
#include <stdint.h>

#include "guest-tools/workloads.h"
#include "programs.h"

uint32_t run_program(const char *args);

#define WORDS 4096

static uint64_t words[WORDS], others[WORDS];

static uint64_t rnd(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 17;
}

/* ---- quicksort of 4096 random words ---- */

static __attribute__((noinline)) void quicksort(uint64_t *a, long lo, long hi)
{
	while (lo < hi) {
		uint64_t pivot = a[(lo + hi) / 2];
		long i = lo - 1, j = hi + 1;

		for (;;) {
			do
				i++;
			while (a[i] < pivot);
			do
				j--;
			while (a[j] > pivot);
			if (i >= j)
				break;
			uint64_t t = a[i];
			a[i] = a[j];
			a[j] = t;
		}
		quicksort(a, lo, j);
		lo = j + 1;
	}
}

static uint64_t run_quicksort(uint64_t n)
{
	uint64_t state = 1, sum = 0;

	for (; n; n--) {
		for (int i = 0; i < WORDS; i++)
			words[i] = rnd(&state);
		quicksort(words, 0, WORDS - 1);
		for (int i = 1; i < WORDS; i++)
			sum += words[i] * (uint64_t)i + (words[i - 1] > words[i]);
	}
	return sum;
}

/* ---- recursion: Ackermann's function and Fibonacci's ---- */

static __attribute__((noinline)) uint64_t fib(uint64_t n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

static __attribute__((noinline)) uint64_t ackermann(uint64_t m, uint64_t n)
{
	if (!m)
		return n + 1;
	return ackermann(m - 1, n ? ackermann(m, n - 1) : 1);
}

static uint64_t run_recursion(uint64_t n)
{
	uint64_t sum = 0;

	for (; n; n--)
		sum += fib(18) + ackermann(2, 30);
	return sum;
}

/* ---- CRC-32 of 32 KiB by a table of bytes ---- */

static uint64_t run_crc(uint64_t n)
{
	static uint32_t table[256];
	const uint8_t *data = (const uint8_t *)words;
	uint64_t state = 2;
	uint32_t crc = 0;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int k = 0; k < 8; k++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
	}
	for (int i = 0; i < WORDS; i++)
		words[i] = rnd(&state);
	for (; n; n--) {
		crc = ~crc;
		for (size_t i = 0; i < sizeof(words); i++)
			crc = table[(crc ^ data[i]) & 0xff] ^ crc >> 8;
		crc = ~crc;
	}
	return crc;
}

/* ---- an interpreter of bytecode; its program counts the steps of 3n+1 from 1 to 99 ---- */

enum { SET, MOV, ADD, ADDI, HALF, ODD, JNZ, JLT, JMP, END };

struct code {
	uint8_t op, a, b;
	int8_t c;
};

static const struct code collatz[] = {
	{SET, 0, 0, 1},	  /* r0: start */
	{SET, 1, 0, 0},	  /* r1: steps */
	{SET, 5, 0, 100}, /* r5: end */
	{MOV, 2, 0, 0},	  /* 3: r2 = r0 */
	{SET, 6, 0, 2},	  /* r6 = 2 */
	{JLT, 2, 6, 10},  /* 5: r2 < 2: go to 15 */
	{ADDI, 1, 0, 1},  /* one step */
	{ODD, 3, 2, 0},	  /* r3 = r2 & 1 */
	{JNZ, 3, 0, 3},	  /* go to 11 */
	{HALF, 2, 0, 0},  /* */
	{JMP, 0, 0, -5},  /* go to 5 */
	{MOV, 4, 2, 0},	  /* 11: r2 = 3 * r2 + 1 */
	{ADD, 2, 4, 0},	  /* */
	{ADD, 2, 4, 1},	  /* adds c, too */
	{JMP, 0, 0, -9},  /* go to 5 */
	{ADDI, 0, 0, 1},  /* 15: the next start */
	{JLT, 0, 5, -13}, /* go to 3 */
	{END, 0, 0, 0},
};

static __attribute__((noinline)) uint64_t interpret(const struct code *p, uint64_t *r)
{
	for (;; p++) {
		switch (p->op) {
		case SET:
			r[p->a] = (uint64_t)p->c;
			break;
		case MOV:
			r[p->a] = r[p->b];
			break;
		case ADD:
			r[p->a] += r[p->b] + (uint64_t)p->c;
			break;
		case ADDI:
			r[p->a] += (uint64_t)p->c;
			break;
		case HALF:
			r[p->a] >>= 1;
			break;
		case ODD:
			r[p->a] = r[p->b] & 1;
			break;
		case JNZ:
			if (r[p->a])
				p += p->c - 1;
			break;
		case JLT:
			if (r[p->a] < r[p->b])
				p += p->c - 1;
			break;
		case JMP:
			p += p->c - 1;
			break;
		case END:
			return r[1];
		}
	}
}

static uint64_t run_bytecode(uint64_t n)
{
	uint64_t sum = 0, r[8] = {0};

	for (; n; n--)
		sum += interpret(collatz, r);
	return sum;
}

/* ---- 64 x 64 = 128 bits and 128 / 64 bits: powers modulo a prime ---- */

static inline uint64_t mulmod(uint64_t a, uint64_t b, uint64_t m)
{
	uint64_t lo, hi;

	__asm__("mulq %3" : "=a"(lo), "=d"(hi) : "a"(a), "rm"(b) : "cc");
	__asm__("divq %2" : "+a"(lo), "+d"(hi) : "r"(m) : "cc");
	return hi;
}

static uint64_t run_muldiv128(uint64_t n)
{
	const uint64_t prime = 0xffffffffffffffc5;
	uint64_t sum = 0;

	for (; n; n--) {
		uint64_t x = n + 2, y = 1;

		for (uint64_t e = prime - 2; e; e >>= 1) {
			if (e & 1)
				y = mulmod(y, x, prime);
			x = mulmod(x, x, prime);
		}
		sum += y;
	}
	return sum;
}

/* ---- bignum: squares of a number of 4096 bits ---- */

#define LIMBS 64

static uint64_t run_bignum(uint64_t n)
{
	uint64_t *a = words, *r = others;

	for (int i = 0; i < LIMBS; i++)
		a[i] = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15;
	for (; n; n--) {
		for (int i = 0; i < 2 * LIMBS; i++)
			r[i] = 0;
		for (int i = 0; i < LIMBS; i++) {
			uint64_t carry = 0;

			for (int j = 0; j < LIMBS; j++) {
				unsigned __int128 t =
					(unsigned __int128)a[i] * a[j] + r[i + j] + carry;

				r[i + j] = (uint64_t)t;
				carry = (uint64_t)(t >> 64);
			}
			r[i + LIMBS] = carry;
		}
		for (int i = 0; i < LIMBS; i++)
			a[i] = r[i + LIMBS / 2];
	}
	return a[0] ^ a[LIMBS - 1];
}

/* ---- a hash table with open addressing: 3000 keys are put in, and looked for ---- */

static uint64_t *slot(uint64_t key)
{
	uint64_t h = key;

	h = (h ^ h >> 33) * 0xff51afd7ed558ccd;
	h = (h ^ h >> 29) % WORDS;
	while (words[h] && words[h] != key)
		h = (h + 1) % WORDS;
	return &words[h];
}

static uint64_t run_hash(uint64_t n)
{
	uint64_t state = 3, sum = 0;

	for (; n; n--) {
		uint64_t start = state;

		for (int i = 0; i < WORDS; i++)
			words[i] = 0;
		for (int i = 0; i < 3000; i++) {
			uint64_t key = rnd(&state) | 1, *s = slot(key);

			*s = key;
			others[s - words] = (uint64_t)i;
		}
		for (int i = 0; i < 3000; i++) {
			uint64_t *s = slot(rnd(&start) | 1);

			sum += *s ^ others[s - words];
		}
	}
	return sum;
}

/* ---- LOOP around locked instructions ---- */

static uint64_t run_loop_lock(uint64_t n)
{
	uint64_t count = 0, cell = 0, swap = 0;

	for (; n; n--) {
		uint64_t rcx = 1000, one = 1, old = swap;

		__asm__ volatile("1: lock incq %0\n"
				 "lock xaddq %4, %1\n"
				 "andl $15, %k4\n"
				 "lock cmpxchgq %4, %2\n"
				 "xchgq %4, %1\n"
				 "lock orq $1, %2\n"
				 "loop 1b"
				 : "+m"(count), "+m"(cell), "+m"(swap), "+c"(rcx), "+r"(one),
				   "+a"(old)
				 :
				 : "cc", "memory");
	}
	return count + cell + swap;
}

/* ---- repeated string instructions ---- */

static void fill(void)
{
	for (int i = 0; i < WORDS; i++)
		words[i] = others[i] = 0x0101010101010101;
}

/* Bytes, words, doublewords and quadwords of 4 KiB until one that differs, which is the last. */
static uint64_t run_rep_scas(uint64_t n)
{
	uint64_t sum = 0, value = 0x0101010101010101;

	fill();
	words[511] = 0x0201010101010101;
	for (; n; n--) {
		const uint64_t *p = words;
		uint64_t rcx = 8192;

		__asm__ volatile("repe scasb" : "+D"(p), "+c"(rcx) : "a"(value) : "cc", "memory");
		sum += rcx;
		p = words;
		__asm__ volatile("repe scasl" : "+D"(p), "+c"(rcx) : "a"(value) : "cc", "memory");
		sum += rcx;
		p = words;
		__asm__ volatile("repe scasq" : "+D"(p), "+c"(rcx) : "a"(value) : "cc", "memory");
		sum += rcx;
	}
	return sum;
}

static uint64_t run_rep_cmps(uint64_t n)
{
	uint64_t sum = 0;

	fill();
	words[511] = 0x0201010101010101;
	for (; n; n--) {
		const uint64_t *p = words, *q = others;
		uint64_t rcx = 8192;

		__asm__ volatile("repe cmpsb" : "+S"(p), "+D"(q), "+c"(rcx) : : "cc", "memory");
		sum += rcx;
		p = words;
		q = others;
		__asm__ volatile("repe cmpsl" : "+S"(p), "+D"(q), "+c"(rcx) : : "cc", "memory");
		sum += rcx;
		p = words;
		q = others;
		__asm__ volatile("repe cmpsq" : "+S"(p), "+D"(q), "+c"(rcx) : : "cc", "memory");
		sum += rcx;
	}
	return sum;
}

static uint64_t run_stos_backward(uint64_t n)
{
	uint64_t sum = 0;

	for (; n; n--) {
		uint8_t *b = (uint8_t *)words + 4095;
		uint64_t *q = &others[511], rcx = 4096;

		__asm__ volatile("std\n"
				 "rep stosb\n"
				 : "+D"(b), "+c"(rcx)
				 : "a"(n)
				 : "cc", "memory");
		rcx = 512;
		__asm__ volatile("rep stosq\n"
				 "cld"
				 : "+D"(q), "+c"(rcx)
				 : "a"(n)
				 : "cc", "memory");
		sum += words[0] + others[511];
	}
	return sum;
}

/* ---- the workloads of emu_mips, the same object code ---- */

static uint64_t workload(workload_fn *fn, uint64_t arg, uint64_t n)
{
	uint64_t sum = 0;

	while (n--)
		sum += fn(arg, words, sizeof(words), NULL);
	return sum;
}

static uint64_t run_loop(uint64_t n)
{
	return workload(workload_loop, 100000, n);
}

static uint64_t run_sieve(uint64_t n)
{
	return workload(workload_sieve, 32000, n);
}

static uint64_t run_fib(uint64_t n)
{
	return workload(workload_fib, 20, n);
}

static uint64_t run_memcpy(uint64_t n)
{
	return workload(workload_memcpy, 100000, n);
}

static uint64_t run_repmovs(uint64_t n)
{
	return workload(workload_repmovs, 1000000, n);
}

static uint64_t run_chase(uint64_t n)
{
	return workload(workload_chase, 100000, n);
}

static const struct {
	const char *name;
	uint64_t (*run)(uint64_t n);
} programs[] = {
	{"loop", run_loop},
	{"sieve", run_sieve},
	{"fib", run_fib},
	{"memcpy", run_memcpy},
	{"repmovs", run_repmovs},
	{"chase", run_chase},
	{"quicksort", run_quicksort},
	{"recursion", run_recursion},
	{"crc", run_crc},
	{"bytecode", run_bytecode},
	{"muldiv128", run_muldiv128},
	{"bignum", run_bignum},
	{"hash", run_hash},
	{"loop_lock", run_loop_lock},
	{"rep_scas", run_rep_scas},
	{"rep_cmps", run_rep_cmps},
	{"stos_backward", run_stos_backward},
	{"sse_memcpy", run_sse_memcpy},
	{"sse_strlen", run_sse_strlen},
	{"sse_double", run_sse_double},
	{"sse_float", run_sse_float},
};

/* @args is "NAME COUNT". Returns 1 to 126, by the checksum; 0: no such program. */
uint32_t run_program(const char *args)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		const char *a = args, *b = programs[i].name;
		uint64_t n = 0, sum;

		while (*b && *a == *b)
			a++, b++;
		if (*b || *a++ != ' ')
			continue;
		for (; *a >= '0' && *a <= '9'; a++)
			n = 10 * n + (uint64_t)(*a - '0');
		sum = programs[i].run(n);
		return (uint32_t)(sum % 126) + 1;
	}
	return 0;
}
