// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Very many bound tasks on the running kernel: threads as vCPUs of VMs in tenants. Each takes a
 * known number of page faults, which must be its own row's to the count. Some kernels hide the
 * switches of some tasks from the program (docs/internals/cgroup-counting.md, "Switches that are
 * not seen"). Then a row may lack a stint, which must be unclaimed, and the backend must have found
 * the switch. A row may have more when the kernel has taken a page away: each row must be right in
 * some round.
 *
 * IT_CGROUP_TASKS=100000: so many (default 2000). More than 30,000 need kernel.pid_max above its
 * default, and 30 KB of kernel memory each.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

#define TENANTS 10
#define VCPUS	10	   /* of a VM */
#define BATCH	500	   /* run between two calls of bpf_backend_tend, by which maps grow */
#define STACK	(64 << 10) /* each has one slice of one mapping: a process has 65,530 mappings */
#define PAGES	4
#define ROUNDS	5

static const vpmu_key_t key[1] = {SW(PERF_COUNT_SW_PAGE_FAULTS)};

static struct {
	unsigned int nr;
	uint32_t *go; /* by batch: the round */
	pid_t *tid;
	char *pages; /* PAGES for each */
	uint32_t there, done;
} all;

static unsigned int faults_of(unsigned int i)
{
	return i % PAGES + 1;
}

/* A thread that ended would be bound no longer. */
static void *vcpu(void *arg)
{
	unsigned int i = (unsigned int)(uintptr_t)arg;
	char *own = all.pages + (size_t)i * PAGES * 4096;
	uint32_t *go = &all.go[i / BATCH];

	all.tid[i] = (pid_t)syscall(SYS_gettid);
	__atomic_add_fetch(&all.there, 1, __ATOMIC_RELEASE);
	for (uint32_t round = 0;; round++) {
		while (__atomic_load_n(go, __ATOMIC_ACQUIRE) == round)
			syscall(SYS_futex, go, FUTEX_WAIT_PRIVATE, round, NULL, NULL, 0);
		for (unsigned int n = 0; n < faults_of(i); n++)
			*(volatile char *)(own + n * 4096) = 1;
		__atomic_add_fetch(&all.done, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void *memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	cr_assert_neq(p, MAP_FAILED, "%zu bytes", bytes);
	madvise(p, bytes, MADV_NOHUGEPAGE); /* a page fault for each page */
	return p;
}

static void wait_for(const uint32_t *what, uint32_t n)
{
	while (__atomic_load_n(what, __ATOMIC_ACQUIRE) < n)
		usleep(1000);
}

/* Threads that wait. */
static void start_threads(void)
{
	char *stacks = memory((size_t)all.nr * STACK);
	pthread_attr_t attr;
	pthread_t thread;

	all.go = calloc(all.nr / BATCH + 1, sizeof(*all.go));
	all.tid = calloc(all.nr, sizeof(*all.tid));
	all.pages = memory((size_t)all.nr * PAGES * 4096);
	cr_assert(all.go && all.tid && !pthread_attr_init(&attr));
	for (unsigned int i = 0; i < all.nr; i++) {
		int ret = pthread_attr_setstack(&attr, stacks + (size_t)i * STACK, STACK);

		if (!ret)
			ret = pthread_create(&thread, &attr, vcpu, (void *)(uintptr_t)i);
		if (ret == EAGAIN)
			cr_skip_test("no more than %u threads can be made here", i);
		cr_assert_eq(ret, 0, "thread %u: %s", i, strerror(ret));
	}
	pthread_attr_destroy(&attr);
	wait_for(&all.there, all.nr);
}

/* Each takes its faults once more. */
static void run_all(struct bpf_backend *k)
{
	madvise(all.pages, (size_t)all.nr * PAGES * 4096, MADV_DONTNEED);
	all.done = 0;
	for (unsigned int i = 0; i < all.nr; i += BATCH) {
		__atomic_add_fetch(&all.go[i / BATCH], 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &all.go[i / BATCH], FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
		wait_for(&all.done, i + BATCH < all.nr ? i + BATCH : all.nr);
		bpf_backend_tend(k);
	}
}

/* Counts of all CPUs that were charged to no account. The key is the only one: slot 0. */
static uint64_t unclaimed(const struct bpf_backend *k)
{
	uint64_t n = 0;

	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		n += kp_unclaimed(cpu_state(k, cpu), 0);
	return n;
}

static void read_all(struct vpmu_counting *list)
{
	vpmu_backend_flush(list);
	for (struct vpmu_counting *c = list; c; c = c->next)
		vpmu_backend_read(c);
}

Test(cgroup_tasks, each_of_many_bound_tasks_is_charged)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_backend_node *tenant[TENANTS], *vm = NULL;
	struct vpmu_counting *list = NULL, **row, *sum[TENANTS];
	unsigned int never, wrong = 0;
	struct bpf_backend_usage before, u;
	uint64_t *was, nobodys, missed, all_missed = 0, unmarked = 0;
	struct rusage r;
	bool *right;
	double t[6];

	all.nr = getenv("IT_CGROUP_TASKS") ? (unsigned int)atoi(getenv("IT_CGROUP_TASKS")) : 2000;
	row = calloc(all.nr, sizeof(struct vpmu_counting *));
	was = calloc(all.nr, sizeof(*was));
	right = calloc(all.nr, sizeof(*right));
	cr_assert(row && was && right);
	start_threads();
	bpf_backend_usage(k, &before);
	t[0] = now_ms();
	for (unsigned int i = 0; i < TENANTS; i++) {
		tenant[i] = bed_node(s->root);
		sum[i] = list = bed_counting(tenant[i], key, 1, list);
	}
	for (unsigned int i = 0; i < all.nr; i++) {
		struct vpmu_backend_node *n;

		if (i % VCPUS == 0)
			vm = bed_node(tenant[i / VCPUS % TENANTS]);
		n = bed_node(vm);
		bed_bind_task(n, all.tid[i]);
		row[i] = list = bed_counting(n, key, 1, list);
	}
	t[1] = now_ms();
	bed_attach(list);
	t[2] = now_ms();
	for (unsigned int round = 0; round < ROUNDS; round++) {
		uint64_t tenants[TENANTS] = {0}, lacking = 0;
		unsigned int lack = 0;

		bpf_backend_usage(k, &u);
		missed = u.missed;
		nobodys = unclaimed(k);
		run_all(k);
		t[3] = now_ms();
		read_all(list);
		t[3] = now_ms() - t[3];
		bpf_backend_usage(k, &u);
		missed = u.missed - missed;
		never = 0;
		for (unsigned int i = 0; i < all.nr; i++) {
			uint64_t count = row[i]->values[0].count, n = count - was[i];

			right[i] |= n == faults_of(i);
			lack += n < faults_of(i);
			lacking += n < faults_of(i) ? faults_of(i) - n : 0;
			unmarked += n < faults_of(i) && !row[i]->values[0].partial;
			never += !right[i];
			was[i] = count;
			tenants[i / VCPUS % TENANTS] += count;
		}
		wrong += lack;
		all_missed += missed;
		/* The task before such a switch and the one after it. */
		cr_expect_leq(lack, 2 * missed,
			      "%u rows lack a stint, and %lu switches were missed", lack, missed);
		cr_expect_leq(lacking, unclaimed(k) - nobodys, "what rows lack is not unclaimed");
		for (unsigned int i = 0; i < TENANTS; i++)
			cr_expect_eq(sum[i]->values[0].count, tenants[i],
				     "tenant %u is not its VMs", i);
	}
	cr_expect_eq(unmarked, 0);
	cr_expect_eq(never, 0, "%u of %u rows were wrong in each of %u rounds", never, all.nr,
		     ROUNDS);
	getrusage(RUSAGE_SELF, &r);
	cr_expect_gt(bed_conserved(s), 0);
	t[4] = now_ms();
	bed_detach(list);
	t[5] = now_ms();
	printf("# %u bound tasks in %u VMs: %.0f ms for nodes and bindings, %.0f to attach, %.0f "
	       "to read all; maps grew by "
	       "%.1f MB; %u events; detached in %.0f ms; %.0f MB resident, stacks of the tasks "
	       "included; in %u rounds the kernel hid %lu switches, and %u rows lacked a stint, "
	       "%lu of them unmarked\n",
	       all.nr, (all.nr + VCPUS - 1) / VCPUS, t[1] - t[0], t[2] - t[1], t[3],
	       (double)(u.map_bytes - before.map_bytes) / 1e6, u.events, t[5] - t[4],
	       (double)r.ru_maxrss / 1e3, ROUNDS, all_missed, wrong, unmarked);
	fflush(stdout);
	free(row);
	free(was);
	free(right);
	bed_done(k);
}
