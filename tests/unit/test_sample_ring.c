// SPDX-License-Identifier: GPL-2.0-or-later
/* cgroup/sample/ring.c: records of perf rings are read as they were written, and nothing outside of
 * the ring is read whatever is in it. */
#include "sample_fake.h"

#define BYTES 4096

static struct fake_event e;
static struct ring ring;
static struct ring_counts counts;
static struct ring_sample seen[200];
static struct perf_branch_entry branch[4];
static unsigned int nr;

static void setup(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	e = (struct fake_event){.open = true, .enabled = true, .bytes = page + BYTES};
	e.memory = calloc(1, e.bytes);
	ring_init(&ring, e.memory, page, BYTES);
}

static void teardown(void)
{
	free(e.memory);
}

TestSuite(sample_ring, .init = setup, .fini = teardown);

static void take(const struct ring_sample *s, void *arg)
{
	cr_assert_lt(nr, 200u);
	seen[nr++] = *s;
	for (unsigned int i = 0; i < s->nr_branches && i < 4; i++)
		branch[i] = s->branches[i];
}

static unsigned int read_all(uint64_t type)
{
	nr = 0;
	return ring_read(&ring, type, &counts, take, NULL);
}

/* The kernel writes @r, and it is the only sample. */
static void one_sample(const struct fake_record *r, uint64_t type)
{
	cr_assert(fake_put(&e, r));
	read_all(type);
	cr_assert_eq(nr, 1u);
}

Test(sample_ring, a_sample_is_what_the_kernel_wrote)
{
	struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, 0x1234, 10, 11, 3);

	fake_word(&r, 77); /* cgroup */
	one_sample(&r, RING_FIXED | RING_SAMPLE_CGROUP);
	cr_expect_eq(seen[0].mode, RING_USER);
	cr_expect_eq(seen[0].ip, 0x1234u);
	cr_expect_eq(seen[0].pid, 10u);
	cr_expect_eq(seen[0].tid, 11u);
	cr_expect_eq(seen[0].cpu, 3u);
	cr_expect_eq(seen[0].cgroup, 77u);
	cr_expect_eq(counts.bad, 0u);
	/* It is gone, and the kernel has the room back. */
	read_all(RING_FIXED | RING_SAMPLE_CGROUP);
	cr_expect_eq(nr, 0u);
	cr_expect_eq(fake_page(&e)->data_tail, fake_page(&e)->data_head);
}

Test(sample_ring, whose_code_it_was)
{
	static const struct {
		uint16_t misc;
		enum ring_mode mode;
	} row[] = {
		{PERF_RECORD_MISC_KERNEL, RING_KERNEL},
		{PERF_RECORD_MISC_USER, RING_USER},
		{PERF_RECORD_MISC_HYPERVISOR, RING_HYPERVISOR},
		{PERF_RECORD_MISC_GUEST_KERNEL, RING_GUEST_KERNEL},
		{PERF_RECORD_MISC_GUEST_USER, RING_GUEST_USER},
		{PERF_RECORD_MISC_CPUMODE_UNKNOWN, RING_UNKNOWN},
		{PERF_RECORD_MISC_GUEST_USER | PERF_RECORD_MISC_EXACT_IP, RING_GUEST_USER},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct fake_record r = fake_sample(row[i].misc, 1, 2, 3, 0);

		one_sample(&r, RING_FIXED);
		cr_expect_eq(seen[0].mode, row[i].mode, "row %zu", i);
	}
}

Test(sample_ring, call_chains_have_callers_only)
{
	struct fake_record r = fake_sample(PERF_RECORD_MISC_KERNEL, 0x8000000000000010, 1, 1, 0);

	fake_word(&r, 6);
	fake_word(&r, (uint64_t)PERF_CONTEXT_KERNEL);
	fake_word(&r, 0x8000000000000010); /* the instruction itself */
	fake_word(&r, 0x8000000000000010); /* a function that called itself */
	fake_word(&r, 0x8000000000000020);
	fake_word(&r, (uint64_t)PERF_CONTEXT_USER);
	fake_word(&r, 0x30);
	one_sample(&r, RING_FIXED | PERF_SAMPLE_CALLCHAIN);
	cr_assert_eq(seen[0].nr_calls, 3u);
	cr_expect_eq(seen[0].calls[0], 0x8000000000000010u);
	cr_expect_eq(seen[0].calls[1], 0x8000000000000020u);
	cr_expect_eq(seen[0].calls[2], 0x30u);
}

Test(sample_ring, guests_have_no_callers_in_the_host)
{
	struct fake_record r = fake_sample(PERF_RECORD_MISC_GUEST_KERNEL, 0x10, 1, 1, 0);

	fake_word(&r, 2);
	fake_word(&r, (uint64_t)PERF_CONTEXT_KERNEL);
	fake_word(&r, 0x8000000000000010);
	fake_word(&r, 9); /* cgroup */
	one_sample(&r, RING_FIXED | PERF_SAMPLE_CALLCHAIN | RING_SAMPLE_CGROUP);
	cr_expect_eq(seen[0].nr_calls, 0u);
	cr_expect_eq(seen[0].cgroup, 9u);
}

Test(sample_ring, long_chains_are_cut)
{
	struct fake_record r = fake_sample(PERF_RECORD_MISC_KERNEL, 5, 1, 1, 0);

	fake_word(&r, 127);
	for (uint64_t i = 0; i < 127; i++)
		fake_word(&r, 0x1000 + i);
	fake_word(&r, 9);
	one_sample(&r, RING_FIXED | PERF_SAMPLE_CALLCHAIN | RING_SAMPLE_CGROUP);
	cr_expect_eq(seen[0].nr_calls, (unsigned int)RING_CALLS_MAX);
	cr_expect_eq(seen[0].calls[RING_CALLS_MAX - 1], 0x1000u + RING_CALLS_MAX - 1);
	cr_expect_eq(seen[0].cgroup, 9u, "what follows the chain is found");
}

Test(sample_ring, branches)
{
	struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, 5, 1, 1, 0);

	fake_word(&r, 2);
	for (uint64_t i = 0; i < 2; i++) {
		fake_word(&r, 0x100 + i);
		fake_word(&r, 0x200 + i);
		fake_word(&r, 0);
	}
	fake_word(&r, 9);
	one_sample(&r, RING_FIXED | PERF_SAMPLE_BRANCH_STACK | RING_SAMPLE_CGROUP);
	cr_assert_eq(seen[0].nr_branches, 2u);
	cr_expect_eq(branch[1].from, 0x101u);
	cr_expect_eq(branch[1].to, 0x201u);
	cr_expect_eq(seen[0].cgroup, 9u);
}

/* Thousands of records of several lengths, so that they go round the end at every place. */
Test(sample_ring, records_go_round_the_end)
{
	uint64_t put = 0, got = 0;

	srand(1);
	for (int i = 0; i < 5000; i++) {
		struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, put, 1, 1, 0);
		uint64_t n = (uint64_t)rand() % 20;

		fake_word(&r, n);
		for (uint64_t k = 0; k < n; k++)
			fake_word(&r, put + k + 1);
		if (fake_put(&e, &r))
			put++;
		if (rand() % 10)
			continue;
		read_all(RING_FIXED | PERF_SAMPLE_CALLCHAIN);
		for (unsigned int k = 0; k < nr; k++, got++) {
			cr_assert_eq(seen[k].ip, got);
			for (unsigned int c = 0; c < seen[k].nr_calls; c++)
				cr_assert_eq(seen[k].calls[c], got + c + 1);
		}
	}
	read_all(RING_FIXED | PERF_SAMPLE_CALLCHAIN);
	cr_expect_eq(got + nr, put);
	cr_expect_eq(counts.bad, 0u);
	cr_expect_gt(put, 4000u);
}

Test(sample_ring, what_is_no_sample_is_counted)
{
	struct fake_record lost = {.header = {.type = PERF_RECORD_LOST, .size = 8}};
	struct fake_record stop = {.header = {.type = PERF_RECORD_THROTTLE, .size = 8}};
	struct fake_record other = {.header = {.type = PERF_RECORD_COMM, .size = 8}};
	struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, 5, 1, 1, 0);

	fake_word(&lost, 1);
	fake_word(&lost, 42);
	fake_word(&stop, 0);
	fake_word(&other, 0);
	cr_assert(fake_put(&e, &lost) && fake_put(&e, &stop) && fake_put(&e, &other));
	cr_assert(fake_put(&e, &lost) && fake_put(&e, &r));
	read_all(RING_FIXED);
	cr_expect_eq(nr, 1u);
	cr_expect_eq(counts.lost, 84u);
	cr_expect_eq(counts.throttled, 1u);
	cr_expect_eq(counts.bad, 0u);
}

Test(sample_ring, how_full_it_was)
{
	for (int i = 0; i < 51; i++) { /* of 40 bytes each: 2,040 of 4,096 */
		struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, 5, 1, 1, 0);

		cr_assert(fake_put(&e, &r));
	}
	cr_expect_eq(read_all(RING_FIXED), 49u);
	cr_expect_eq(read_all(RING_FIXED), 0u);
}

/* ---- nonsense ------------------------------------------------------------------------------- */

static void nonsense(const struct fake_record *r, uint64_t type)
{
	uint64_t bad = counts.bad;

	cr_assert(fake_put(&e, r));
	read_all(type);
	cr_expect_eq(nr, 0u);
	cr_expect_eq(counts.bad, bad + 1);
	cr_expect_eq(fake_page(&e)->data_tail, fake_page(&e)->data_head, "the ring goes on");
}

Test(sample_ring, lengths_that_make_no_sense)
{
	struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, 5, 1, 1, 0);

	fake_word(&r, 1000); /* callers, of which there are none */
	nonsense(&r, RING_FIXED | PERF_SAMPLE_CALLCHAIN);
	r.word[4] = UINT64_MAX;
	nonsense(&r, RING_FIXED | PERF_SAMPLE_CALLCHAIN);
	/* Three words each: the product overflows, and is 2. */
	r.word[4] = UINT64_MAX / 3 + 1;
	fake_word(&r, 0);
	fake_word(&r, 0);
	nonsense(&r, RING_FIXED | PERF_SAMPLE_BRANCH_STACK);
	r.header.size -= 32;
	r.n -= 4;
	nonsense(&r, RING_FIXED);
}

Test(sample_ring, headers_that_make_no_sense)
{
	static const uint16_t size[] = {0, 7, 9, 44, 48, 65528};

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, 5, 1, 1, 0);
		uint64_t head = fake_page(&e)->data_head;

		cr_assert(fake_put(&e, &r));
		fake_bytes(&e, head + offsetof(struct perf_event_header, size), &size[i], 2);
		read_all(RING_FIXED);
		cr_expect_eq(nr, 0u, "size %u", size[i]);
		cr_expect_eq(counts.bad, i + 1);
		cr_expect_eq(fake_page(&e)->data_tail, fake_page(&e)->data_head);
	}
}

Test(sample_ring, a_head_that_makes_no_sense)
{
	fake_page(&e)->data_head = UINT64_MAX - 7;
	cr_expect_eq(read_all(RING_FIXED), 100u);
	cr_expect_eq(nr, 0u);
	cr_expect_eq(counts.bad, 1u);
	cr_expect_eq(fake_page(&e)->data_tail, UINT64_MAX - 7);
}

/* ---- backwards ------------------------------------------------------------------------------ */

static bool newest(void)
{
	nr = 0;
	return ring_newest(&ring, RING_FIXED, &counts, take, NULL);
}

Test(sample_ring, the_newest_of_a_ring_that_is_written_backwards)
{
	struct fake_record other = {.header = {.type = PERF_RECORD_COMM, .size = 8}};

	e.attr.write_backward = 1;
	cr_expect(!newest(), "nothing was written");
	for (uint64_t i = 1; i < 500; i++) {
		struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, i, 1, 1, 0);

		cr_assert(fake_put(&e, &r));
		cr_assert(newest() && nr == 1);
		cr_assert_eq(seen[0].ip, i);
	}
	fake_word(&other, 0);
	cr_assert(fake_put(&e, &other));
	cr_assert(newest(), "a record that is no sample is passed over");
	cr_expect_eq(seen[0].ip, 499u);
	cr_expect_eq(counts.bad, 0u);
}

Test(sample_ring, a_backward_ring_without_a_sample)
{
	struct fake_record other = {.header = {.type = PERF_RECORD_COMM, .size = 8}};

	e.attr.write_backward = 1;
	for (int i = 0; i < 10; i++)
		fake_word(&other, 0);
	for (int i = 0; i < 100; i++) { /* 88 bytes do not divide the ring: the oldest is cut */
		cr_assert(fake_put(&e, &other));
		cr_assert(!newest());
	}
	cr_expect_eq(counts.bad, 0u);
}
