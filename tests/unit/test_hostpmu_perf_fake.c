// SPDX-License-Identifier: GPL-2.0-or-later
/* The perf host PMU on a fake kernel with a PMU of 4 general and 3 fixed counters, as most machines
 * that run this have none; the TSC; and the lines of `check`. */
#include "fake_perf.h"
#include "vpmu/context.h"
#include "vpmu/guest/guest.h"

#include <cpuid.h>
#include <pthread.h>
#include <stdio.h>

static void setup(void)
{
	fake_start(4, true);
}

static struct vpmu_hostpmu_perf p;

static void teardown(void)
{
	if (p.pmu.ops)
		vpmu_hostpmu_perf_fini(&p);
}

TestSuite(hostpmu_perf_fake, .init = setup, .fini = teardown);

/* The fake kernel behaves as the real one: test_hostpmu_perf.c. */
Test(hostpmu_perf_fake, rules_of_groups)
{
	group_rules();
}

Test(hostpmu_perf_fake, capacity_of_a_pmu)
{
	vpmu_key_t instructions = vpmu_key_generic(VPMU_EV_INSTRUCTIONS, UK);
	vpmu_key_t ref = vpmu_key_generic(VPMU_EV_REF_CYCLES, UK);
	const struct vpmu_hostpmu_ops *ops;
	unsigned int opens;

	thread_pmu(&p);
	ops = p.pmu.ops;
	cr_expect(vpmu_perf_capacity().gp == 4 && vpmu_perf_capacity().fixed == 3);
	cr_expect(fake.open_fds == 0, "probing leaves nothing open");
	cr_expect(p.pmu.nr_ctrs == 32);
	cr_expect(p.pmu.fixed_mask == (7u << 10 | 3u << 30), "0x%x", p.pmu.fixed_mask);
	cr_expect(ops->eligible(&p.pmu, instructions) == 0x40f);
	cr_expect(ops->eligible(&p.pmu, vpmu_key_generic(VPMU_EV_CYCLES, UK)) == 0x80f);
	cr_expect(ops->eligible(&p.pmu, ref) == 0x1000, "hardware, not the TSC");
	cr_expect(ops->eligible(&p.pmu, vpmu_key_generic(VPMU_EV_BRANCHES, UK)) == 0x0f);
	cr_expect(ops->eligible(&p.pmu, fake_raw(0x1a8)) == 0x0f);
	cr_expect(ops->eligible(&p.pmu, fake_raw(0x1ee)) == 0);
	cr_expect(ops->eligible(&p.pmu, sw_key(PERF_COUNT_SW_TASK_CLOCK)) == 0x3fffe000);
	cr_expect(ops->quality(&p.pmu, ref) == VPMU_Q_EXACT);
	cr_expect(ops->eligible(&p.pmu, 0) == 0);
	cr_expect(ops->eligible(&p.pmu, ~0ULL) == 0);
	/* each key was tried once */
	opens = fake.opens;
	for (unsigned int i = 0; i < 100; i++) {
		ops->eligible(&p.pmu, instructions);
		ops->eligible(&p.pmu, fake_raw(0x1ee));
	}
	cr_expect(fake.opens == opens);
}

/* A thread that probes a key, and is held up in the kernel until the test lets it go. */
static sem_t probing, go_on;
static const struct vpmu_perf_sys *held_sys;
static __thread bool held_up;

static int open_held_up(const struct perf_event_attr *attr, int tid, int cpu, int group)
{
	if (held_up) {
		held_up = false;
		sem_post(&probing);
		sem_wait(&go_on);
	}
	return held_sys->open(attr, tid, cpu, group);
}

static void *prober(void *arg)
{
	const struct vpmu_hostpmu *pmu = arg;

	held_up = true;
	cr_expect(pmu->ops->eligible(pmu, fake_raw(0x1a8)) == 0x0f);
	return NULL;
}

/* With a lock around the probing, this never ends. */
Test(hostpmu_perf_fake, probing_holds_up_no_other_thread, .timeout = 20)
{
	vpmu_key_t instructions = vpmu_key_generic(VPMU_EV_INSTRUCTIONS, UK);
	struct vpmu_perf_sys sys;
	pthread_t thread;

	thread_pmu(&p);
	cr_expect(p.pmu.ops->eligible(&p.pmu, instructions) == 0x40f);
	held_sys = vpmu_perf_sys;
	sys = *held_sys;
	sys.open = open_held_up;
	vpmu_perf_sys = &sys;
	sem_init(&probing, 0, 0);
	sem_init(&go_on, 0, 0);
	cr_assert(!pthread_create(&thread, NULL, prober, &p.pmu));
	sem_wait(&probing);
	cr_expect(p.pmu.ops->eligible(&p.pmu, instructions) == 0x40f, "known");
	cr_expect(p.pmu.ops->eligible(&p.pmu, fake_raw(0x1a9)) == 0x0f, "not known yet");
	cr_expect(p.pmu.ops->eligible(&p.pmu, fake_raw(0x1a8)) == 0x0f, "the same key");
	sem_post(&go_on);
	pthread_join(thread, NULL);
	vpmu_perf_sys = held_sys;
}

/* The counters of the host and its core types are found on the control path. */
Test(hostpmu_perf_fake, capacity_is_known_before_the_first_key)
{
	unsigned int opens;

	thread_pmu(&p);
	opens = fake.opens;
	cr_expect(opens > 0);
	cr_expect(vpmu_perf_capacity().gp == 4);
	cr_expect(fake.opens == opens);
}

/* An exit of the guest makes no system call. */
Test(hostpmu_perf_fake, events_of_cpuid_are_known_before_the_guest_reads_it)
{
	struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_INTEL_V5};
	struct vpmu_context ctx = {0};
	static struct vpmu_guest g;
	uint32_t regs[4];
	unsigned int opens;

	thread_pmu(&p);
	cr_assert(!vpmu_guest_init(&g, &cfg, &ctx, &p.pmu));
	opens = fake.opens;
	vpmu_guest_cpuid(&g, 0xa, 0, regs);
	cr_expect_eq(fake.opens, opens);
	cr_expect_eq(regs[1] & 3, 0, "it has cycles and instructions");
}

Test(hostpmu_perf_fake, counters_that_are_left_are_not_offered)
{
	struct vpmu_hostpmu_perf_opts opts = {.cpu = VPMU_PERF_THREAD, .leave_counters = 2};
	vpmu_key_t cycles = vpmu_key_generic(VPMU_EV_CYCLES, UK);

	/* there are no fixed ones, as on AMD */
	fake_start(6, false);
	cr_assert(!vpmu_hostpmu_perf_init(&p, &opts));
	cr_expect(vpmu_perf_capacity().gp == 6 && vpmu_perf_capacity().fixed == 0);
	cr_expect(p.pmu.ops->eligible(&p.pmu, cycles) == 0xf);
	p.opts.leave_counters = 9;
	cr_expect(p.pmu.ops->eligible(&p.pmu, cycles) == 1);
}

Test(hostpmu_perf_fake, no_place_on_the_pmu_is_an_error_at_bind)
{
	struct vpmu_hostpmu_perf_opts opts = {.cpu = VPMU_PERF_THREAD, .pinned = true};

	fake_start(4, false);
	cr_assert(!vpmu_hostpmu_perf_init(&p, &opts));
	vpmu_hostpmu_perf_set_thread(&p, gettid_());
	for (unsigned int i = 0; i < 3; i++)
		bind_key(&p, fake_raw(0x1a0 + i));
	fake.held = 1; /* another user pinned one since */
	cr_expect(p.pmu.ops->bind(&p.pmu, 3, fake_raw(0x1a3)) == -EBUSY);
	cr_expect(!p.ctr[3].key);
	/* bound or not eligible there: refused, nothing changed */
	cr_expect(p.pmu.ops->bind(&p.pmu, 0, fake_raw(0x1a3)) == -EINVAL);
	cr_expect(p.pmu.ops->bind(&p.pmu, 7, fake_raw(0x1a3)) == -EINVAL);
	cr_expect(p.pmu.ops->bind(&p.pmu, 99, fake_raw(0x1a3)) == -EINVAL);
	cr_expect(fake.open_fds == 4, "the refused one waits for its next try");
	vpmu_hostpmu_perf_fini(&p);
	cr_expect(fake.open_fds == 0);
}

Test(hostpmu_perf_fake, attrs_of_guest_keys)
{
	unsigned int ctr;

	thread_pmu(&p);
	ctr = bind_key(&p, vpmu_key_generic(VPMU_EV_BRANCHES, VPMU_KEY_USR));
	const struct fake_event *e = &fake.ev[p.ctr[ctr].event.fd[0]];

	cr_expect(e->attr.exclude_host && !e->attr.exclude_guest && e->attr.exclude_kernel);
	cr_expect(e->state == FAKE_COUNTS && !e->attr.sample_period);
	cr_expect(e->tid == gettid_() && e->cpu == -1);
}

Test(hostpmu_perf_fake, rdpmc)
{
	static const struct {
		int line;
		int64_t offset;
		uint64_t counter;
		uint64_t value;
	} rows[] = {
		{__LINE__, 0, 0, 0},
		{__LINE__, 0, 5, 5},
		{__LINE__, 1000, 5, 1005},
		/* the kernel starts counters at minus the period: sign-extend */
		{__LINE__, 0x7fffffff, 0xffff80000001, 0},
		{__LINE__, 1LL << 47, 0x800000000000, 0},
		{__LINE__, (1LL << 47) + 3, 0x800000000001, 4},
		{__LINE__, 0x123456789abcdef, 0x7fffffffffff,
		 0x123456789abcdef + 0x7fffffffffffULL},
	};
	struct fake_event *e;
	unsigned int ctr, reads;
	pthread_t t;
	struct sleeper s;

	fake.rdpmc = true;
	thread_pmu(&p);
	ctr = bind_key(&p, vpmu_key_generic(VPMU_EV_BRANCHES, UK));
	e = &fake.ev[p.ctr[ctr].event.fd[0]];
	e->page.cap_user_rdpmc = 1;
	e->page.pmc_width = FAKE_WIDTH;
	e->page.index = (uint32_t)p.ctr[ctr].event.fd[0] + 1;
	reads = fake.reads;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		e->page.offset = rows[i].offset;
		e->counter = rows[i].counter;
		cr_expect(read_ctr(&p, ctr) == rows[i].value, "line %d: 0x%lx", rows[i].line,
			  read_ctr(&p, ctr));
	}
	cr_expect(fake.reads == reads, "no system call");

	/* moved by the kernel in the middle: read again */
	e->count = 77;
	fake.bump_lock = true;
	cr_expect(read_ctr(&p, ctr) == 77);

	/* audit goes another way */
	cr_expect(p.pmu.ops->audit(&p.pmu, ctr) == 77 - 0);
	cr_expect(fake.reads == reads + 1);

	/* not on the PMU, not allowed: read(2) */
	e->count = 78;
	e->page.index = 0;
	cr_expect(read_ctr(&p, ctr) == 78);
	e->page.index = (uint32_t)p.ctr[ctr].event.fd[0] + 1;
	e->page.cap_user_rdpmc = 0;
	cr_expect(read_ctr(&p, ctr) == 78);

	/* somebody else's thread: rdpmc would read a counter of our own CPU */
	e->page.cap_user_rdpmc = 1;
	sem_init(&s.go, 0, 0);
	sem_init(&s.done, 0, 0);
	cr_assert(!pthread_create(&t, NULL, sleeper, &s));
	sem_wait(&s.done);
	vpmu_hostpmu_perf_set_thread(&p, s.tid);
	fake.rdpmcs = 0;
	cr_expect(read_ctr(&p, ctr) == 78);
	cr_expect(fake.rdpmcs == 0);
	sem_post(&s.go);
	sem_post(&s.go);
	pthread_join(t, NULL);
}

Test(hostpmu_perf_fake, without_rights_the_clocks_count_all_the_same)
{
	unsigned int ctr;

	fake_start(0, false);
	fake.user_only = true;
	thread_pmu(&p);
	ctr = bind_key(&p, sw_key(PERF_COUNT_SW_TASK_CLOCK));
	cr_expect(fake.ev[p.ctr[ctr].event.fd[0]].attr.exclude_kernel);
	/* these would count nothing: not offered */
	cr_expect(!p.pmu.ops->eligible(&p.pmu, sw_key(PERF_COUNT_SW_CONTEXT_SWITCHES)));
	/* faults of user level are allowed */
	cr_expect(p.pmu.ops->eligible(&p.pmu, sw_key(PERF_COUNT_SW_PAGE_FAULTS) & ~VPMU_KEY_OS));
}

Test(hostpmu_perf_fake, passing_failures_are_not_remembered)
{
	thread_pmu(&p);
	fake.fail = -EMFILE;
	cr_expect(p.pmu.ops->eligible(&p.pmu, sw_key(PERF_COUNT_SW_TASK_CLOCK)));
	cr_expect(p.pmu.ops->bind(&p.pmu, 20, sw_key(PERF_COUNT_SW_TASK_CLOCK)) == -EMFILE);
	fake.fail = -EACCES;
	cr_expect(!p.pmu.ops->eligible(&p.pmu, sw_key(PERF_COUNT_SW_CPU_CLOCK)));
	fake.fail = 0;
	cr_expect(!p.pmu.ops->bind(&p.pmu, 20, sw_key(PERF_COUNT_SW_TASK_CLOCK)));
	fake_sleep(1100000000);
	cr_expect(p.pmu.ops->eligible(&p.pmu, sw_key(PERF_COUNT_SW_CPU_CLOCK)));
}

/* ---- the TSC ------------------------------------------------------------------------------------
 */

static uint64_t guest_ticks;

static uint64_t ticks(void *arg)
{
	cr_expect(arg == &guest_ticks);
	return guest_ticks;
}

static unsigned int kicks;

static void count_kick(void *arg)
{
	kicks++;
}

static bool invariant_tsc(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && edx & 1u << 8;
}

Test(hostpmu_perf_fake, ref_cycles_from_the_tsc)
{
	struct vpmu_hostpmu_perf_opts opts = {.cpu = VPMU_PERF_THREAD,
					      .guest_tsc = ticks,
					      .kick = count_kick,
					      .arg = &guest_ticks};
	vpmu_key_t ref = vpmu_key_generic(VPMU_EV_REF_CYCLES, UK);
	vpmu_key_t cycles = vpmu_key_generic(VPMU_EV_CYCLES, UK);
	const struct vpmu_hostpmu_ops *ops;
	uint64_t first;

	fake_start(0, false);
	cr_assert(!vpmu_hostpmu_perf_init(&p, &opts));
	ops = p.pmu.ops;
	cr_expect(ops->eligible(&p.pmu, ref) == 1u << CTR_TSC);
	cr_expect(ops->quality(&p.pmu, ref) == VPMU_Q_TSC);
	/* events that time cannot separate are not offered */
	cr_expect(!ops->eligible(&p.pmu, vpmu_key_generic(VPMU_EV_REF_CYCLES, VPMU_KEY_USR)));
	cr_expect(!ops->eligible(&p.pmu, ref | VPMU_KEY_HOST));
	cr_expect(!ops->eligible(&p.pmu, cycles));
	cr_expect(!ops->eligible(&p.pmu, vpmu_key_generic(VPMU_EV_INSTRUCTIONS, UK)));

	guest_ticks = 500;
	cr_assert(!ops->bind(&p.pmu, CTR_TSC, ref)); /* needs no thread */
	cr_expect(ops->bind(&p.pmu, CTR_TSC, ref) == -EINVAL);
	first = ops->read(&p.pmu, CTR_TSC);
	guest_ticks += 123456;
	cr_expect(ops->read(&p.pmu, CTR_TSC) - first == 123456);
	cr_expect(ops->audit(&p.pmu, CTR_TSC) == 123456);
	ops->unbind(&p.pmu, CTR_TSC);
	ops->kick(&p.pmu);
	cr_expect(kicks == 1);
	vpmu_hostpmu_perf_fini(&p);

	opts.nominal_cycles = true;
	opts.guest_tsc = NULL;
	cr_expect(vpmu_hostpmu_perf_init(&p, &opts) == -EINVAL);
	opts.guest_tsc = ticks;
	if (!invariant_tsc()) {
		cr_expect(vpmu_hostpmu_perf_init(&p, &opts) == -EOPNOTSUPP);
		return;
	}
	cr_assert(!vpmu_hostpmu_perf_init(&p, &opts));
	cr_expect(ops->eligible(&p.pmu, cycles) == 1u << CTR_NOMINAL);
	cr_expect(ops->quality(&p.pmu, cycles) == VPMU_Q_ESTIMATED);
	cr_expect(ops->quality(&p.pmu, ref) == VPMU_Q_TSC);
	cr_expect(!ops->eligible(&p.pmu, vpmu_key_generic(VPMU_EV_CYCLES, VPMU_KEY_OS)));
	cr_assert(!ops->bind(&p.pmu, CTR_NOMINAL, cycles));
	first = ops->read(&p.pmu, CTR_NOMINAL);
	guest_ticks += 7;
	cr_expect(ops->read(&p.pmu, CTR_NOMINAL) - first == 7);
}

/* ---- check --------------------------------------------------------------------------------------
 */

struct seen {
	unsigned int n;
	char text[8192];
};

static int see(const char *what, bool ok, const char *why, void *arg)
{
	struct seen *s = arg;
	size_t len = strlen(s->text);

	s->n++;
	cr_expect(!strchr(why, '\n') && (ok || *why), "%s", what);
	snprintf(s->text + len, sizeof(s->text) - len, "%s|%d|%s\n", what, ok, why);
	return 0;
}

static int stop_at_second(const char *what, bool ok, const char *why, void *arg)
{
	return ++*(int *)arg == 2 ? -5 : 0;
}

Test(hostpmu_perf_fake, check_says_why_not)
{
	struct seen s = {0};
	int calls = 0;

	fake_start(0, false);
	cr_expect(!vpmu_hostpmu_perf_check(2, see, &s));
	cr_expect_eq(s.n, 2 + VPMU_EV_GENERIC_NR + 11, "%d: %s", (int)s.n, s.text);
	cr_expect(strstr(s.text, "perf events|1|"), "%s", s.text);
	cr_expect(strstr(s.text, "hardware counters|0|no hardware PMU"), "%s", s.text);
	cr_expect(strstr(s.text, "\ninstructions|0|no hardware PMU"), "%s", s.text);
	cr_expect(strstr(s.text, "\nref-cycles|1|in KVM guests, as TSC"), "%s", s.text);
	cr_expect(strstr(s.text, "\ntask-clock|1|\n"), "%s", s.text);
	cr_expect(vpmu_hostpmu_perf_check(2, stop_at_second, &calls) == -5 && calls == 2);
}

Test(hostpmu_perf_fake, check_says_what_there_is)
{
	struct seen s = {0};

	fake.no_branches = true;
	cr_expect(!vpmu_hostpmu_perf_check(2, see, &s));
	cr_expect(strstr(s.text, "\nbranches|0|this CPU's PMU does not have it\n"), "%s", s.text);
	cr_expect(strstr(s.text, "hardware counters|1|4 general and 3 fixed ones; 2 general ones "
				 "are left to others\n"),
		  "%s", s.text);
	cr_expect(strstr(s.text, "\ninstructions|1|\n"), "%s", s.text);
	cr_expect(strstr(s.text, "\nref-cycles|1|\n"), "%s", s.text);
}

static void expect_why_not(vpmu_key_t key, const char *says)
{
	char why[200] = "";

	vpmu_hostpmu_perf_why_not(key, why, sizeof(why));
	cr_expect(strstr(why, says), "%s", why);
}

Test(hostpmu_perf_fake, why_not)
{
	const vpmu_key_t host = vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_INSTRUCTIONS,
					      VPMU_KEY_USR | VPMU_KEY_HOST);

	fake.no_branches = true;
	expect_why_not(vpmu_key_generic(VPMU_EV_BRANCHES, VPMU_KEY_USR), "PMU does not have it");
	/* A PMU that cannot separate guest from host. */
	fake.fail = -EOPNOTSUPP;
	expect_why_not(host, "the PMU does not count guests apart now");
}

Test(hostpmu_perf_fake, check_says_what_is_not_permitted)
{
	struct seen s = {0};

	fake.fail = -EACCES;
	cr_expect(!vpmu_hostpmu_perf_check(2, see, &s));
	cr_expect(strstr(s.text, "perf events|0|not permitted: perf_event_paranoid is"), "%s",
		  s.text);
	cr_expect(strstr(s.text, "\ntask-clock|0|not permitted"), "%s", s.text);
}
