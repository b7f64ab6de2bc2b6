// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program of known length for stock guests of the nested bed (linux.sh).
 *
 * - nested-spin N: N instructions in user mode, except for a few thousand at the start and the end;
 * - nested-spin --event TYPE CONFIG N M: how many more a perf event of its own counts for M
 *   instructions than for N.
 *
 * The event counts user and kernel mode, as the TSC cannot tell them apart. Between two read(2) of
 * it there are the loop and the same few thousand instructions of the kernel, unless an interrupt
 * comes. So the counts that most of many rounds have differ by M - N, if ticks are instructions.
 * The smallest need not: on a busy host few of the rounds, or most, take 460 ticks more for their
 * exits.
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

/* ticks - what the event counts between two readings around @n instructions. The same code for each
 * @n. */
static __attribute__((noinline, noclone)) uint64_t ticks(int fd, unsigned long n)
{
	uint64_t before = count(fd);

	spin(n);
	return count(fd) - before;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* usual - the most frequent of ROUNDS counts, and of those the smallest; sorts them */
static uint64_t usual(uint64_t counts[ROUNDS])
{
	int most = 0, same = 0;
	uint64_t found = 0;

	qsort(counts, ROUNDS, sizeof(counts[0]), compare);
	for (int i = 0; i < ROUNDS; i++) {
		same = i && counts[i] == counts[i - 1] ? same + 1 : 1;
		if (same > most) {
			most = same;
			found = counts[i];
		}
	}
	return found;
}

int main(int argc, char **argv)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	static uint64_t few[ROUNDS], many[ROUNDS];
	unsigned long n, m;
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
		few[i] = ticks(fd, n);
		many[i] = ticks(fd, m);
	}
	printf("%lu instructions more, %lld ticks more\n", m - n,
	       (long long)(usual(many) - usual(few)));
	return 0;
}
