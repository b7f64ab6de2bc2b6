// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program for guests of the lab (shared.sh) whose user mode is known to the instruction: without
 * libc, so that linux-truth can single-step it. In a round it
 *
 *   writes "ready", and waits for a line; the operator reads meanwhile, since no instruction is
 *   executed in user mode;
 *   reads an event of CPU 0 that counts instructions in user mode;
 *   executes a loop: that of round i has 2 * (i + 1) * LOOP instructions.
 *
 * Between two readings of the event, and between two waits, are the same instructions. At the end
 * it prints the readings. Where the event cannot be opened, as on the host, all else is the same.
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/syscall.h>

enum { ROUNDS = 6, LOOP = 5000 };

static const struct perf_event_attr attr = {
	.type = PERF_TYPE_HARDWARE,
	.size = sizeof(attr),
	.config = PERF_COUNT_HW_INSTRUCTIONS,
	.exclude_kernel = 1,
	.pinned = 1,
};
static uint64_t count[ROUNDS + 1];
static char line[64], ready[] = "ready\n";

static long call(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e;

	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return nr;
}

static void print(uint64_t v)
{
	char text[] = "count                    \n", *p = text + sizeof(text) - 2;

	do
		*--p = (char)('0' + v % 10);
	while (v /= 10);
	call(SYS_write, 1, (long)text, sizeof(text) - 1, 0, 0);
}

__attribute__((noreturn, used)) static void rounds(void)
{
	long fd = call(SYS_perf_event_open, (long)&attr, -1, 0, -1, 0);

	for (long i = 0; i <= ROUNDS; i++) {
		long n = (i + 1) * LOOP;

		call(SYS_write, 1, (long)ready, sizeof(ready) - 1, 0, 0);
		call(SYS_read, 0, (long)line, sizeof(line), 0, 0);
		call(SYS_read, fd, (long)&count[i], sizeof(count[i]), 0, 0);
		__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(n) : : "cc");
	}
	for (long i = 0; i <= ROUNDS; i++)
		print(count[i]);
	for (;;)
		call(SYS_exit, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start: and $-16, %rsp\n\tcall rounds");
