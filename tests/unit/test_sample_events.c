// SPDX-License-Identifier: GPL-2.0-or-later
/* cgroup/sample/events.c on a fake kernel: users with the same samples share the events, each sees
 * its samples and no others, and refusals of the kernel are answers. */
#include "cgroup/sample/events.h"
#include "sample_fake.h"

#define CPUS 3
#define KEY                                                                                        \
	((vpmu_key_t)VPMU_SPACE_SOFTWARE << VPMU_KEY_SPACE_SHIFT | VPMU_KEY_USR | VPMU_KEY_OS |    \
	 VPMU_KEY_GUEST | VPMU_KEY_HOST)

static bool use[CPUS] = {true, true, false};
static struct samples *ss;
static const struct sample_spec spec = {.key = KEY, .period = 1000};

struct user {
	struct sample_user u; /* first */
	unsigned int n;
	uint64_t last;
	uint64_t cgroup;
};

static void take(struct sample_user *u, const struct ring_sample *s)
{
	struct user *x = (struct user *)u;

	x->n++;
	x->last = s->ip;
	x->cgroup = s->cgroup;
}

static void setup(void)
{
	ss = samples_create(CPUS, use, &fake_sys);
	cr_assert(ss);
}

static void teardown(void)
{
	samples_destroy(ss);
	cr_expect_eq(fake_events(), 0u, "all events are closed");
}

TestSuite(sample_events, .init = setup, .fini = teardown);

static void start(struct user *x, const struct sample_spec *how)
{
	x->u.take = take;
	cr_assert_eq(samples_open(ss, how, &x->u), 0);
	cr_assert_eq(samples_start(ss, &x->u), 0);
}

/* A sample on @cpu in the @n-th event there. */
static bool put(int cpu, int n, uint64_t ip)
{
	struct fake_event *e = fake_event(-1, cpu, n);
	struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, ip, 1, 1, (uint32_t)cpu);

	if (e->attr.sample_type & PERF_SAMPLE_CALLCHAIN)
		fake_word(&r, 0);
	if (e->attr.sample_type & RING_SAMPLE_CGROUP)
		fake_word(&r, 7);
	return fake_put(e, &r);
}

/* What @x has lost since its start. */
static uint64_t lost_of(struct user *x)
{
	struct ring_counts counts;

	samples_counts(ss, &x->u, &counts);
	return counts.lost;
}

Test(sample_events, an_event_on_each_cpu_in_use)
{
	struct user a = {0};
	const struct fake_event *e;

	start(&a, &spec);
	cr_expect_eq(fake_events(), 2u);
	e = fake_event(-1, 1, 0);
	cr_expect_eq(e->attr.sample_period, 1000u);
	cr_expect(!e->attr.freq && !e->attr.pinned && !e->attr.exclude_guest);
	cr_expect(e->enabled, "it samples");
	cr_expect(e->attr.disabled, "but not before its ring was there");
	cr_expect_eq(e->attr.sample_type, RING_FIXED | RING_SAMPLE_CGROUP);
	put(0, 0, 0x10);
	put(1, 0, 0x20);
	samples_take(ss);
	cr_expect_eq(a.n, 2u);
	cr_expect_eq(a.cgroup, 7u);
	samples_stop(ss, &a.u);
}

Test(sample_events, equal_specs_share)
{
	struct user a = {0}, b = {0}, c = {0}, d = {0};
	struct sample_spec slow = spec, chains = spec;

	slow.period = 1001;
	chains.chains = true;
	start(&a, &spec);
	put(0, 0, 0x10);
	start(&b, &spec);
	cr_expect_eq(fake_events(), 2u);
	cr_expect_eq(a.n, 1u);
	cr_expect_eq(b.n, 0u, "what was sampled before its start is not its own");
	put(0, 0, 0x20);
	samples_take(ss);
	cr_expect_eq(a.n, 2u);
	cr_expect_eq(b.n, 1u);
	start(&c, &slow);
	start(&d, &chains);
	cr_expect_eq(fake_events(), 6u);
	put(1, 0, 0x30);
	samples_stop(ss, &a.u);
	cr_expect_eq(a.n, 3u, "the last samples are taken at the stop");
	put(1, 0, 0x40);
	samples_stop(ss, &b.u);
	cr_expect_eq(a.n, 3u);
	cr_expect_eq(b.n, 3u);
	cr_expect_eq(c.n + d.n, 0u);
	cr_expect_eq(fake_events(), 4u);
	samples_stop(ss, &c.u);
	samples_stop(ss, &d.u);
}

Test(sample_events, what_is_lost_since_the_start)
{
	struct user a = {0}, b = {0};
	unsigned int put_in = 0;

	start(&a, &spec);
	while (put(0, 0, 1))
		put_in++;
	cr_expect(!put(0, 0, 1));
	cr_expect_eq(lost_of(&a), 2u, "without a record of it");
	cr_expect_geq(samples_take(ss), 99u);
	cr_expect_eq(a.n, put_in);
	start(&b, &spec);
	cr_expect_eq(lost_of(&b), 0u);
	fake_event(-1, 1, 0)->lost += 3;
	cr_expect_eq(lost_of(&b), 3u);
	cr_expect_eq(lost_of(&a), 5u);
	samples_stop(ss, &a.u);
	samples_stop(ss, &b.u);
}

/* A user of some CPUs beside one of all. CPU 1 loses samples, goes and comes back. */
Test(sample_events, losses_of_some_cpus)
{
	static const bool first[CPUS] = {true, false, false}, second[CPUS] = {false, true, false};
	struct user all = {0}, a = {.u = {.cpus = first}}, b = {.u = {.cpus = second}};
	struct fake_record r = {.header = {.type = PERF_RECORD_THROTTLE, .size = 8}};
	struct ring_counts counts;

	start(&all, &spec);
	fake_event(-1, 0, 0)->lost = 100;
	fake_event(-1, 1, 0)->lost = 200;
	start(&a, &spec);
	start(&b, &spec);
	fake_event(-1, 0, 0)->lost += 1;
	fake_event(-1, 1, 0)->lost += 20;
	cr_assert(fake_put(fake_event(-1, 1, 0), &r));
	use[1] = false;
	samples_cpus(ss);
	use[1] = true;
	samples_cpus(ss);
	fake_event(-1, 1, 0)->lost += 3;
	samples_counts(ss, &a.u, &counts);
	cr_expect(counts.lost == 1 && counts.throttled == 0, "%lu, %lu", counts.lost,
		  counts.throttled);
	samples_counts(ss, &b.u, &counts);
	cr_expect(counts.lost == 23 && counts.throttled == 1, "%lu, %lu", counts.lost,
		  counts.throttled);
	samples_counts(ss, &all.u, &counts);
	cr_expect(counts.lost == 324 && counts.throttled == 1, "%lu, %lu", counts.lost,
		  counts.throttled);
	samples_stop(ss, &all.u);
	samples_stop(ss, &a.u);
	samples_stop(ss, &b.u);
}

Test(sample_events, throttling_is_counted)
{
	struct fake_record r = {.header = {.type = PERF_RECORD_THROTTLE, .size = 8}};
	struct ring_counts counts;
	struct user a = {0};

	start(&a, &spec);
	cr_assert(fake_put(fake_event(-1, 0, 0), &r) && fake_put(fake_event(-1, 1, 0), &r));
	samples_take(ss);
	samples_counts(ss, &a.u, &counts);
	cr_expect_eq(counts.throttled, 2u);
	samples_stop(ss, &a.u);
}

static void old_kernel(uint64_t type)
{
	struct fake_record lost = {.header = {.type = PERF_RECORD_LOST, .size = 8}};
	struct user a = {0};

	start(&a, &spec);
	cr_expect_eq(fake_event(-1, 0, 0)->attr.sample_type, type);
	put(0, 0, 0x10);
	fake_word(&lost, 1);
	fake_word(&lost, 5);
	cr_assert(fake_put(fake_event(-1, 1, 0), &lost));
	fake_event(-1, 1, 0)->lost = 5;
	samples_take(ss);
	cr_expect_eq(a.n, 1u);
	cr_expect_eq(a.last, 0x10u);
	cr_expect_eq(lost_of(&a), 5u);
	samples_stop(ss, &a.u);
}

Test(sample_events, a_kernel_without_cgroups_in_samples)
{
	fake_unknown = RING_SAMPLE_CGROUP;
	old_kernel(RING_FIXED);
}

Test(sample_events, a_kernel_that_counts_no_losses)
{
	fake_no_lost = true;
	old_kernel(RING_FIXED | RING_SAMPLE_CGROUP);
}

Test(sample_events, a_kernel_without_both)
{
	fake_unknown = RING_SAMPLE_CGROUP;
	fake_no_lost = true;
	old_kernel(RING_FIXED);
}

/* A failure that has another reason must not make later samples lack something. */
Test(sample_events, a_refused_event_leaves_nothing_behind)
{
	static const struct {
		int error, answer;
	} row[] = {
		{-ENOENT, -EOPNOTSUPP}, {-EOPNOTSUPP, -EOPNOTSUPP}, {-EINVAL, -EOPNOTSUPP},
		{-ENODEV, -EOPNOTSUPP}, {-EACCES, -EACCES},	    {-EPERM, -EACCES},
		{-ENOMEM, -ENOMEM},	{-EMFILE, -EMFILE},	    {-ENFILE, -EMFILE},
	};
	struct user a = {0};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		fake_open_error = row[i].error;
		cr_expect_eq(samples_open(ss, &spec, &a.u), row[i].answer, "row %zu", i);
		cr_expect_eq(fake_events(), 0u);
	}
	fake_open_error = 0;
	start(&a, &spec);
	cr_expect_eq(fake_event(-1, 0, 0)->attr.sample_type, RING_FIXED | RING_SAMPLE_CGROUP);
	samples_stop(ss, &a.u);
}

Test(sample_events, little_memory_makes_small_rings)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct user a = {0};

	fake_map_max = page + 16384;
	start(&a, &spec);
	cr_expect_eq(fake_event(-1, 0, 0)->bytes, page + 16384);
	put(0, 0, 1);
	samples_stop(ss, &a.u);
	cr_expect_eq(a.n, 1u);
	fake_map_max = 1;
	cr_expect_eq(samples_open(ss, &spec, &a.u), -ENOMEM);
	cr_expect_eq(fake_events(), 0u);
}

Test(sample_events, cpus_come_and_go)
{
	struct user a = {0};

	start(&a, &spec);
	put(1, 0, 0x10);
	fake_event(-1, 1, 0)->lost = 4;
	use[1] = false;
	use[2] = true;
	samples_cpus(ss);
	cr_expect_eq(a.n, 1u, "what it had sampled is there");
	cr_expect_eq(fake_events(), 2u);
	put(2, 0, 0x20);
	use[1] = true;
	samples_cpus(ss);
	put(1, 0, 0x30);
	samples_take(ss);
	cr_expect_eq(a.n, 3u);
	cr_expect_eq(lost_of(&a), 4u, "what a CPU lost stays counted");
	samples_stop(ss, &a.u);
	use[2] = false;
}

Test(sample_events, there_are_only_so_many)
{
	struct user u[SAMPLE_SETS_MAX] = {0}, more = {0};
	struct sample_spec s = spec;

	for (unsigned int i = 0; i < SAMPLE_SETS_MAX; i++) {
		s.period++;
		start(&u[i], &s);
	}
	s.period++;
	cr_expect_eq(samples_open(ss, &s, &more.u), -E2BIG);
	s.period--;
	start(&more, &s);
	samples_stop(ss, &more.u);
	for (unsigned int i = 0; i < SAMPLE_SETS_MAX; i++)
		samples_stop(ss, &u[i].u);
}
