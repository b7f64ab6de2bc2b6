// SPDX-License-Identifier: GPL-2.0-or-later
/* The perf host PMU on the kernel we run on: software events, alone and under the core. Skipped
 * where perf_event_open is not permitted. */
#include "perf_bed.h"
#include "vpmu/account.h"
#include "vpmu/conservation.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <urcu/urcu-memb.h>

static void need_perf(void)
{
	int rc = vpmu_perf_probe(sw_key(PERF_COUNT_SW_TASK_CLOCK), -1);

	if (rc)
		cr_skip_test("perf_event_open: %s", strerror(-rc));
}

/* Events of the kernel, not only clocks: needs the right to count the kernel. */
static void need_kernel_events(void)
{
	int rc = vpmu_perf_probe(sw_key(PERF_COUNT_SW_CONTEXT_SWITCHES), -1);

	if (rc)
		cr_skip_test("context-switches: %s", strerror(-rc));
}

Test(hostpmu_perf, rules_of_groups)
{
	need_perf();
	group_rules();
}

/* More events than the soft limit of files allows. */
Test(hostpmu_perf, the_limit_of_files_is_raised)
{
	struct vpmu_perf_where where = {.tid = 0, .cpu = -1};
	struct vpmu_perf_event e[100];
	struct rlimit l;

	need_perf();
	cr_assert(!getrlimit(RLIMIT_NOFILE, &l));
	if (l.rlim_max < 200)
		cr_skip_test("the hard limit of files is %lu", (unsigned long)l.rlim_max);
	l.rlim_cur = 50;
	cr_assert(!setrlimit(RLIMIT_NOFILE, &l));
	for (unsigned int i = 0; i < 100; i++)
		cr_assert_eq(vpmu_perf_event_open(&e[i], sw_key(PERF_COUNT_SW_TASK_CLOCK), &where),
			     0, "event %u", i);
	for (unsigned int i = 0; i < 100; i++)
		vpmu_perf_event_close(&e[i]);
}

Test(hostpmu_perf, task_clock_runs)
{
	struct vpmu_hostpmu_perf p;
	uint64_t first, a, b;
	unsigned int ctr;

	need_perf();
	thread_pmu(&p);
	ctr = bind_key(&p, sw_key(PERF_COUNT_SW_TASK_CLOCK));
	cr_expect(p.pmu.ops->quality(&p.pmu, sw_key(PERF_COUNT_SW_TASK_CLOCK)) == VPMU_Q_EXACT);
	first = read_ctr(&p, ctr);
	spin();
	a = read_ctr(&p, ctr);
	cr_expect(a > first);
	/* as of the last read, to be compared with the charges */
	cr_expect(p.pmu.ops->audit(&p.pmu, ctr) == a - first);
	spin();
	cr_expect(p.pmu.ops->audit(&p.pmu, ctr) == a - first);
	b = read_ctr(&p, ctr);
	cr_expect(b > a && p.pmu.ops->audit(&p.pmu, ctr) == b - first);
	vpmu_hostpmu_perf_fini(&p);
	cr_expect(!p.ctr[ctr].key);
}

Test(hostpmu_perf, page_faults_by_level)
{
	enum { PAGES = 500 };
	struct vpmu_hostpmu_perf p;
	unsigned int user, kernel, all;
	uint64_t u, k, a;
	char *mem;
	int fd;

	need_kernel_events();
	thread_pmu(&p);
	mem = mmap(NULL, 2 * PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	cr_assert(mem != MAP_FAILED);
	madvise(mem, 2 * PAGES * 4096, MADV_NOHUGEPAGE);
	fd = memfd_create("faults", 0);
	cr_assert(fd >= 0 && !ftruncate(fd, PAGES * 4096));

	user = bind_key(&p, sw_key(PERF_COUNT_SW_PAGE_FAULTS) & ~VPMU_KEY_OS);
	kernel = bind_key(&p, sw_key(PERF_COUNT_SW_PAGE_FAULTS) & ~VPMU_KEY_USR);
	all = bind_key(&p, sw_key(PERF_COUNT_SW_PAGE_FAULTS));
	u = read_ctr(&p, user);
	k = read_ctr(&p, kernel);
	a = read_ctr(&p, all);
	/* Faults of ours, then of the kernel's, as it copies. Not by C and read(): sanitizers would
	 * touch shadow pages of theirs along with each. */
	for (unsigned int i = 0; i < PAGES; i++)
		__asm__ volatile("movb $1, (%0)" : : "r"(mem + i * 4096) : "memory");
	cr_assert(syscall(SYS_read, fd, mem + PAGES * 4096, PAGES * 4096) == PAGES * 4096);
	u = read_ctr(&p, user) - u;
	k = read_ctr(&p, kernel) - k;
	a = read_ctr(&p, all) - a;
	/* a few more of either kind may come from our own code and stack */
	cr_expect(u >= PAGES && u < PAGES + 50, "user %lu", u);
	cr_expect(k >= PAGES / 2 && k < PAGES + 50, "kernel %lu", k);
	cr_expect(a >= u + k && a <= u + k + 4, "%lu, not %lu + %lu", a, u, k);
	vpmu_hostpmu_perf_fini(&p);
}

/* A thread that has only lost its CPU for a while has state R. */
static bool sleeps(int tid)
{
	char path[64], stat[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	cr_assert(f && fgets(stat, sizeof(stat), f));
	fclose(f);
	return strstr(stat, ") S");
}

Test(hostpmu_perf, counts_its_thread_only)
{
	struct vpmu_hostpmu_perf p;
	struct vpmu_hostpmu_perf_opts opts = {.cpu = VPMU_PERF_THREAD};
	struct sleeper s;
	pthread_t t;
	uint64_t a, b;
	unsigned int ctr;

	need_perf();
	cr_assert(!vpmu_hostpmu_perf_init(&p, &opts));
	/* no thread yet: counting the caller instead would be a lie */
	cr_expect(p.pmu.ops->bind(&p.pmu, 29, sw_key(PERF_COUNT_SW_TASK_CLOCK)) == -EAGAIN);
	cr_expect(!p.ctr[29].key);

	sem_init(&s.go, 0, 0);
	sem_init(&s.done, 0, 0);
	cr_assert(!pthread_create(&t, NULL, sleeper, &s));
	sem_wait(&s.done);
	vpmu_hostpmu_perf_set_thread(&p, s.tid);
	ctr = bind_key(&p, sw_key(PERF_COUNT_SW_TASK_CLOCK));
	while (!sleeps(s.tid))
		usleep(1000);
	a = read_ctr(&p, ctr);
	spin();
	cr_expect(read_ctr(&p, ctr) == a, "we ran, it did not");
	sem_post(&s.go);
	sem_wait(&s.done);
	b = read_ctr(&p, ctr);
	cr_expect(b > a);
	sem_post(&s.go);
	pthread_join(t, NULL);
	/* its last count stays readable */
	cr_expect(read_ctr(&p, ctr) >= b);
	vpmu_hostpmu_perf_fini(&p);
}

Test(hostpmu_perf, of_a_cpu)
{
	struct vpmu_hostpmu_perf_opts opts = {.cpu = 0};
	struct vpmu_hostpmu_perf p;
	cpu_set_t set;
	unsigned int ctr;
	uint64_t a;
	int rc;

	cr_assert(!vpmu_hostpmu_perf_init(&p, &opts));
	rc = vpmu_perf_probe(sw_key(PERF_COUNT_SW_CONTEXT_SWITCHES), 0);
	if (rc)
		cr_skip_test("context-switches of CPU 0: %s", strerror(-rc));
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		cr_skip_test("CPU 0 is not ours to run on");
	ctr = bind_key(&p, sw_key(PERF_COUNT_SW_CONTEXT_SWITCHES));
	a = read_ctr(&p, ctr);
	for (unsigned int i = 0; i < 20; i++)
		usleep(100);
	cr_expect(read_ctr(&p, ctr) >= a + 20);
	/* time in guests is a thread's */
	cr_expect(!(p.pmu.ops->eligible(&p.pmu, vpmu_key_generic(VPMU_EV_REF_CYCLES, UK)) &
		    1u << CTR_TSC));
	vpmu_hostpmu_perf_fini(&p);

	opts.nominal_cycles = true;
	cr_expect(vpmu_hostpmu_perf_init(&p, &opts) == -EINVAL);
	opts = (struct vpmu_hostpmu_perf_opts){.cpu = -2};
	cr_expect(vpmu_hostpmu_perf_init(&p, &opts) == -EINVAL);
}

/* The whole way: core, this PMU, a clock; charges equal counts. */
static int expect_conserved(const struct vpmu_conservation *c, void *arg)
{
	(*(unsigned int *)arg)++;
	cr_expect(c->hardware == c->charged, "hardware %lu, charged %lu", c->hardware, c->charged);
	cr_expect(c->hardware > 0);
	return 0;
}

static uint64_t thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static uint64_t ticks;

static uint64_t guest_ticks(void *arg)
{
	return ticks;
}

Test(hostpmu_perf, under_the_core)
{
	struct vpmu_hostpmu_perf_opts opts = {.cpu = VPMU_PERF_THREAD, .guest_tsc = guest_ticks};
	struct vpmu_consumer clock = {0}, tsc = {0};
	struct vpmu_account *account;
	struct vpmu_hostpmu_perf p;
	struct vpmu_context ctx = {0};
	struct vpmu_host *host;
	struct vpmu_pcpu *pcpu;
	struct vpmu_value v;
	unsigned int rows = 0;
	uint64_t started;
	vpmu_key_t ref = vpmu_key_generic(VPMU_EV_REF_CYCLES, UK);

	need_perf();
	urcu_memb_register_thread();
	started = thread_ns();
	cr_assert(!vpmu_hostpmu_perf_init(&p, &opts));
	vpmu_hostpmu_perf_set_thread(&p, gettid_());
	host = vpmu_host_create();
	cr_assert(host);
	cr_assert(!vpmu_pcpu_create(host, &p.pmu, 0, &pcpu));
	cr_assert(!vpmu_account_create(vpmu_host_root(host), NULL, &account));
	cr_assert(!vpmu_context_init(&ctx, account, NULL));
	cr_assert(!vpmu_consumer_add(&clock, account, sw_key(PERF_COUNT_SW_TASK_CLOCK), NULL));
	cr_assert(!vpmu_consumer_add(&tsc, account, ref, NULL));
	cr_assert(!vpmu_context_place(&ctx, pcpu));
	for (unsigned int i = 0; i < 10; i++) {
		vpmu_pcpu_switch(pcpu, &ctx);
		spin();
		ticks += 1000;
		vpmu_pcpu_switch(pcpu, NULL);
		spin();
	}
	vpmu_pcpu_switch(pcpu, &ctx);
	for (unsigned int i = 0; i < 20; i++)
		usleep(2000);
	vpmu_pcpu_switch(pcpu, NULL);
	vpmu_consumer_read(&clock, &v);
	cr_expect(v.supported && v.count > 0 && v.quality == VPMU_Q_EXACT);
	cr_expect(v.enabled_ns == v.running_ns);
	/* its time is the thread's: no less than the event's count, no more than there was */
	cr_expect(v.enabled_ns + v.enabled_ns / 10 >= v.count, "%lu, %lu", v.enabled_ns, v.count);
	cr_expect(v.enabled_ns <= thread_ns() - started, "%lu", v.enabled_ns);
	vpmu_consumer_read(&tsc, &v);
	if (p.pmu.ops->eligible(&p.pmu, ref) == 1u << CTR_TSC)
		cr_expect(v.supported && v.count == 10000 && v.quality == VPMU_Q_TSC, "%lu",
			  v.count);
	cr_expect(!vpmu_host_conservation(host, expect_conserved, &rows));
	cr_expect(rows == 2);
	vpmu_consumer_del(&clock, NULL, NULL);
	vpmu_consumer_del(&tsc, NULL, NULL);
	vpmu_context_fini(&ctx);
	vpmu_host_destroy(host);
	urcu_memb_unregister_thread();
}
