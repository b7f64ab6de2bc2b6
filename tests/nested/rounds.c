// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program for guests of the lab (shared.sh) whose user mode is known to the instruction: without
 * libc, so that linux-truth can single-step it. In a round it
 *
 *   writes "ready", and waits for a line; the operator reads meanwhile, since no instruction is
 *   executed in user mode;
 *   reads an event of CPU 0 that counts instructions in user mode;
 *   executes a loop: in round i of 2 * (i + 1) * LOOP instructions, in the last one of
 *   2 * SAMPLES * LOOP, while an event of its own is sampled with the period 2 * LOOP.
 *
 * Between two readings of the event, and between two waits, are the same instructions. At the end
 * it prints the readings and the number of samples. Where events cannot be opened, as on the host,
 * all else is the same.
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { ROUNDS = 6, LOOP = 5000, SAMPLES = 10, PAGE = 4096, SAMPLE = 16 };

static const struct perf_event_attr counting = {
	.type = PERF_TYPE_HARDWARE,
	.size = sizeof(counting),
	.config = PERF_COUNT_HW_INSTRUCTIONS,
	.exclude_kernel = 1,
	.pinned = 1,
};
static const struct perf_event_attr sampling = {
	.type = PERF_TYPE_HARDWARE,
	.size = sizeof(sampling),
	.config = PERF_COUNT_HW_INSTRUCTIONS,
	.sample_period = 2L * LOOP,
	.sample_type = PERF_SAMPLE_IP,
	.exclude_kernel = 1,
	.disabled = 1,
};
static uint64_t count[ROUNDS + 1];
static char line[64], ready[] = "ready\n";

static long call(long nr, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = 0;

	__asm__ volatile("syscall"
			 : "+a"(nr)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
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

static void loop(long n)
{
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(n) : : "cc");
}

__attribute__((noreturn, used)) static void rounds(void)
{
	long fd = call(SYS_perf_event_open, (long)&counting, -1, 0, -1, 0);
	long own = call(SYS_perf_event_open, (long)&sampling, 0, -1, -1, 0);
	long ring = call(SYS_mmap, 0, 2L * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, own);

	for (long i = 0; i <= ROUNDS; i++) {
		call(SYS_write, 1, (long)ready, sizeof(ready) - 1, 0, 0);
		call(SYS_read, 0, (long)line, sizeof(line), 0, 0);
		call(SYS_read, fd, (long)&count[i], sizeof(count[i]), 0, 0);
		if (i == ROUNDS - 1) {
			call(SYS_ioctl, own, PERF_EVENT_IOC_ENABLE, 0, 0, 0);
			loop(1L * SAMPLES * LOOP);
			call(SYS_ioctl, own, PERF_EVENT_IOC_DISABLE, 0, 0, 0);
		} else {
			loop((i + 1) * LOOP);
		}
	}
	for (long i = 0; i <= ROUNDS; i++)
		print(count[i]);
	print(own >= 0 ? ((struct perf_event_mmap_page *)ring)->data_head / SAMPLE : 0);
	for (;;)
		call(SYS_exit, 0, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start: and $-16, %rsp\n\tcall rounds");
