// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A real KVM with an exact PMU: instructions of the guest are counted as the guest's, to the
 * instruction, and no others are. All of vpmu's claims about guest and host on hardware
 * counters rests on this.
 */
#include "tests/beds/bed.h"
#include "tests/beds/bed_guest.h"

enum { ALL, GUEST, HOST, NR };

/* A group that counts all instructions of @tid on @cpu, those in guests, and those in the host. */
static void open_split(int fd[NR], pid_t tid, int cpu)
{
	fd[ALL] = bed_open("instructions:GH", tid, cpu, -1);
	fd[GUEST] = bed_open("instructions:G", tid, cpu, fd[ALL]);
	fd[HOST] = bed_open("instructions:H", tid, cpu, fd[ALL]);
}

static void close_split(int fd[NR])
{
	for (int i = 0; i < NR; i++)
		close(fd[i]);
}

/* Counted over @tid and @cpu: each loop is 2N + 1 instructions in the guest. */
static void loops(pid_t tid, int cpu)
{
	struct bed_guest g;
	int fd[NR];

	bed_one_cpu();
	bed_guest_make(&g);
	for (uint64_t n = 10000; n <= 10000000; n *= 10) {
		uint64_t v[NR], entries = bed_guest_entries(&g);

		open_split(fd, tid, cpu);
		bed_guest_start(&g, n);
		bed_enable(fd[ALL], true);
		cr_assert(!bed_guest_run(&g));
		bed_enable(fd[ALL], false);
		for (int i = 0; i < NR; i++)
			v[i] = bed_count(fd[i]);
		entries = bed_guest_entries(&g) - entries;
		printf("N = %lu: guest %lu, of which %lu entered it, host %lu\n", n, v[GUEST],
		       entries, v[HOST]);
		cr_expect_eq(v[GUEST], 2 * n + 1 + entries, "guest %lu", v[GUEST]);
		cr_expect_eq(v[GUEST] + v[HOST], v[ALL], "%lu + %lu != %lu", v[GUEST], v[HOST],
			     v[ALL]);
		close_split(fd);
	}
	bed_guest_free(&g);
}

Test(bed_kvm, a_thread)
{
	loops(0, -1);
}

Test(bed_kvm, a_cpu)
{
	loops(-1, 0);
}

/* An idle guest counts nothing: the host's own loop is not the guest's. */
Test(bed_kvm, the_host_is_not_the_guest)
{
	struct bed_guest g;
	uint64_t entries;
	int fd[NR];

	bed_one_cpu();
	bed_guest_make(&g);
	entries = bed_guest_entries(&g);
	open_split(fd, 0, -1);
	bed_guest_start(&g, 1000);
	bed_enable(fd[ALL], true);
	bed_loop(1000000);
	cr_assert(!bed_guest_run(&g));
	bed_loop(1000000);
	bed_enable(fd[ALL], false);
	cr_expect_eq(bed_count(fd[GUEST]), 2000u + 1 + bed_guest_entries(&g) - entries);
	cr_expect_geq(bed_count(fd[HOST]), 4000000u);
	cr_expect_eq(bed_count(fd[GUEST]) + bed_count(fd[HOST]), bed_count(fd[ALL]));
	close_split(fd);
	bed_guest_free(&g);
}
