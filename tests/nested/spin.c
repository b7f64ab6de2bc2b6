// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program of known length for stock guests of the nested bed (linux.sh).
 *
 * - nested-spin N: N instructions in user mode, except for a few thousand at the start and the end;
 * - nested-spin --event TYPE CONFIG N M: how many more a perf event of its own counts for M
 *   instructions than for N.
 *
 * The event counts user and kernel mode, as the TSC cannot
 * tell them apart. Between two read(2) of it there are the loop and the same few thousand
 * instructions of the kernel, unless an interrupt comes. So the smallest counts of many rounds
 * differ by M - N, if ticks are instructions.
 */
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROUNDS = 200 };

static void spin(unsigned long n)
{
	n /= 2;
	if (n)
		__asm__ volatile("1: dec %0\n jnz 1b" : "+r"(n) : : "cc");
}

static uint64_t count(int fd)
{
	uint64_t value = 0;

	if (read(fd, &value, sizeof(value)) != sizeof(value)) {
		perror("nested-spin: read");
		exit(1);
	}
	return value;
}

/* least - the fewest ticks between two readings around @n instructions, of this round and of those
 * before in *@best */
static void least(int fd, unsigned long n, uint64_t *best)
{
	uint64_t before = count(fd), ticks;

	spin(n);
	ticks = count(fd) - before;
	if (ticks < *best)
		*best = ticks;
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	unsigned long n, m;
	uint64_t few = UINT64_MAX, many = UINT64_MAX;
	int fd;

	if (argc != 6 || strcmp(argv[1], "--event")) {
		spin(argc > 1 ? strtoul(argv[1], NULL, 0) : 0);
		return 0;
	}
	attr.type = (uint32_t)strtoul(argv[2], NULL, 0);
	attr.config = strtoull(argv[3], NULL, 0);
	n = strtoul(argv[4], NULL, 0);
	m = strtoul(argv[5], NULL, 0);
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
	if (fd < 0) {
		perror("nested-spin: perf_event_open");
		return 1;
	}
	/* Part of an exit is charged to the guest, and libvpmu has KVM copy registers at exits
	 * behind which an RDPMC has come before: from here on at each. */
	count(fd);
	count(fd);
	for (int i = 0; i < ROUNDS; i++) {
		least(fd, n, &few);
		least(fd, m, &many);
	}
	printf("%lu instructions more, %lld ticks more\n", m - n, (long long)(many - few));
	return 0;
}
