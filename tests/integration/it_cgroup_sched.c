// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The scheduler's figures of bound threads on the running kernel: threads as vCPUs that compete for
 * one CPU. A thread that sleeps has final figures, so values must equal what the test reads of
 * /proc itself, to the nanosecond. IT_CGROUP_SCHED=4000: so many threads in the last test.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

#define VCPUS	4
#define BURN_MS 30

#define SCHED(ev) ((SW(ev) & ~(15ULL << VPMU_KEY_SPACE_SHIFT)) | 6ULL << VPMU_KEY_SPACE_SHIFT)
static const vpmu_key_t key[2] = {SCHED(VPMU_SCHED_RUN_DELAY), SCHED(VPMU_SCHED_INVOLUNTARY)};

static struct vcpu {
	pthread_t thread;
	pid_t tid;
	sem_t go, done;
	bool ends, burns;
} vcpus[VCPUS];

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void *vcpu(void *arg)
{
	struct vcpu *v = arg;

	bed_run_on(0, 0);
	v->tid = (pid_t)syscall(SYS_gettid);
	sem_post(&v->done);
	for (;;) {
		uint64_t end;

		sem_wait(&v->go);
		if (v->ends)
			return NULL;
		for (end = cpu_ns() + BURN_MS * 1000000ULL; cpu_ns() < end;)
			;
		sem_post(&v->done);
	}
}

/* Wait until the thread sleeps: its figures do not change then. */
static void sleeps(pid_t tid)
{
	char path[64], line[512], *state;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	do {
		FILE *f = fopen(path, "re");

		cr_assert(f && fgets(line, sizeof(line), f), "%s", path);
		fclose(f);
		state = strrchr(line, ')');
	} while (state[2] != 'S' && !usleep(1000));
}

static void start(void)
{
	for (int i = 0; i < VCPUS; i++) {
		sem_init(&vcpus[i].go, 0, 0);
		sem_init(&vcpus[i].done, 0, 0);
		cr_assert_eq(pthread_create(&vcpus[i].thread, NULL, vcpu, &vcpus[i]), 0);
		sem_wait(&vcpus[i].done);
		sleeps(vcpus[i].tid);
	}
}

/* All compete for the CPU. */
static void burn(void)
{
	for (int i = 0; i < VCPUS; i++)
		sem_post(&vcpus[i].go);
	for (int i = 0; i < VCPUS; i++)
		sem_wait(&vcpus[i].done);
	for (int i = 0; i < VCPUS; i++)
		sleeps(vcpus[i].tid);
}

static void figures(pid_t tid, uint64_t out[3])
{
	unsigned long long ran, waited, switches = 0;
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	f = fopen(path, "re");
	cr_assert(f && fscanf(f, "%llu %llu", &ran, &waited) == 2);
	fclose(f);
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	f = fopen(path, "re");
	cr_assert(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "nonvoluntary_ctxt_switches: %llu", &switches);
	fclose(f);
	out[0] = waited;
	out[1] = switches;
	out[2] = ran;
}

/* Two VMs of two vCPUs in a tenant; a counting of each node, in this order: vCPUs, VMs, tenant. */
struct bed {
	struct bpf_backend *k;
	struct vpmu_backend_node *tenant, *vm[2], *n[VCPUS];
	struct vpmu_counting *list, *row[VCPUS], *vms[2], *sum;
};

static void bed_make(struct bed *b)
{
	*b = (struct bed){.k = bed_open(NULL)};
	start();
	burn(); /* before the attach: not counted */
	b->tenant = bed_node(bpf_as_backend(b->k)->root);
	b->sum = b->list = bed_counting(b->tenant, key, 2, NULL);
	for (int i = 0; i < 2; i++) {
		b->vm[i] = bed_node(b->tenant);
		b->vms[i] = b->list = bed_counting(b->vm[i], key, 2, b->list);
	}
	for (int i = 0; i < VCPUS; i++) {
		pid_t tid = vcpus[i].tid;

		b->n[i] = bed_node(b->vm[i / 2]);
		bed_bind_task(b->n[i], tid);
		b->row[i] = b->list = bed_counting(b->n[i], key, 2, b->list);
	}
	bed_attach(b->list);
}

Test(cgroup_sched, values_are_the_kernels_own_figures)
{
	struct bpf_backend_usage u;
	uint64_t was[VCPUS][3], now[3], waits = 0, switches = 0;
	struct bed b;

	bed_make(&b);
	for (int i = 0; i < VCPUS; i++)
		figures(vcpus[i].tid, was[i]);
	for (int round = 0; round < 2; round++) {
		burn();
		bed_read(b.list);
		for (int i = 0; i < VCPUS; i++) {
			figures(vcpus[i].tid, now);
			for (int e = 0; e < 2; e++) {
				const struct vpmu_value *v = &b.row[i]->values[e];

				cr_expect(v->supported && !v->partial);
				cr_expect_eq(v->count, now[e] - was[i][e],
					     "vCPU %d, figure %d: %lu counted, %lu in /proc", i, e,
					     v->count, (now[e] - was[i][e]));
				cr_expect_eq(v->enabled_ns, v->running_ns);
				cr_expect_eq(v->enabled_ns, now[2] - was[i][2]);
			}
		}
		for (int e = 0; e < 2; e++) {
			cr_expect_eq(b.vms[0]->values[e].count,
				     b.row[0]->values[e].count + b.row[1]->values[e].count);
			cr_expect_eq(b.sum->values[e].count,
				     b.vms[0]->values[e].count + b.vms[1]->values[e].count);
		}
	}
	waits = b.sum->values[0].count;
	switches = b.sum->values[1].count;
	printf("# 4 threads on one CPU, %d ms of work each, twice: waited %.0f ms, %lu involuntary "
	       "switches\n",
	       BURN_MS, (double)waits / 1e6, switches);
	/* Each waits for the others, at least for a part of the time. */
	cr_expect_gt(waits, 2 * BURN_MS * 1000000ULL);
	cr_expect_gt(switches, 0);
	/* Nothing is added to a switch. */
	bpf_backend_usage(b.k, &u);
	cr_expect_eq(u.programs, 0);
	cr_expect_eq(u.events, 0);
	bed_done(b.k);
}

Test(cgroup_sched, a_thread_that_ends_is_marked)
{
	struct bed b;
	uint64_t last;

	bed_make(&b);
	burn();
	bed_read(b.list);
	last = b.row[3]->values[0].count;
	vcpus[3].ends = true;
	sem_post(&vcpus[3].go);
	pthread_join(vcpus[3].thread, NULL);
	bed_read(b.list);
	for (int e = 0; e < 2; e++) {
		cr_expect(b.row[3]->values[e].partial);
		cr_expect(b.vms[1]->values[e].partial);
		cr_expect(b.sum->values[e].partial);
		cr_expect_not(b.row[2]->values[e].partial);
		cr_expect_not(b.vms[0]->values[e].partial);
	}
	cr_expect_eq(b.row[3]->values[0].count, last);
	bpf_backend_unbind_task(b.n[3], vcpus[3].tid);
	bed_read(b.list);
	cr_expect_eq(b.row[3]->values[0].count, last);
	bed_done(b.k);
}

/* What a vCPU has counted is its VM's when it goes, and another node's from then on if it moves. */
Test(cgroup_sched, a_thread_that_moves_takes_nothing_along)
{
	uint64_t was[3], now[3], first, before;
	struct bed b;

	bed_make(&b);
	figures(vcpus[0].tid, was);
	burn();
	bed_bind_task(b.n[2], vcpus[0].tid);
	figures(vcpus[0].tid, now);
	bed_read(b.list);
	first = b.row[0]->values[0].count;
	cr_expect_eq(first, now[0] - was[0]);
	before = b.row[2]->values[0].count;
	figures(vcpus[0].tid, was);
	burn();
	bed_read(b.list);
	cr_expect_eq(b.row[0]->values[0].count, first);
	figures(vcpus[0].tid, now);
	cr_expect_geq(b.row[2]->values[0].count - before, now[0] - was[0]);
	cr_expect_gt(now[0] - was[0], 0);
	bpf_backend_unbind_task(b.n[2], vcpus[0].tid);
	before = b.vms[1]->values[0].count;
	burn();
	bed_read(b.list);
	cr_expect_not(b.row[0]->values[0].partial);
	cr_expect_not(b.row[2]->values[0].partial);
	cr_expect_gt(b.vms[1]->values[0].count, before);
	bed_done(b.k);
}

/* ---- cost ----------------------------------------------------------------------------------- */

static uint32_t turn, awake;
static pid_t ends; /* the thread that ends in the next turn */

/* Runs for a moment in each turn. */
static void *waits(void *arg)
{
	*(pid_t *)arg = (pid_t)syscall(SYS_gettid);
	for (uint32_t seen = 0;; seen++) {
		if (ends == *(pid_t *)arg)
			return NULL;
		__atomic_add_fetch(&awake, 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) == seen)
			syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
	}
	return NULL;
}

static void wait_awake(uint32_t n)
{
	while (__atomic_load_n(&awake, __ATOMIC_ACQUIRE) < n)
		usleep(1000);
}

/* VM i has the threads 4 i to 4 i + 3. */
struct many {
	unsigned int nr;
	struct bpf_backend *k;
	struct vpmu_counting *list; /* the last VM first */
	pid_t *tid;
	pthread_t *thread;
	uint64_t (*was)[3];
};

static void many_start(struct many *m)
{
	struct vpmu_backend_node *vm = NULL;
	pthread_attr_t attr;

	m->tid = calloc(m->nr, sizeof(*m->tid));
	m->thread = calloc(m->nr, sizeof(*m->thread));
	m->was = calloc(m->nr, sizeof(*m->was));
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	for (unsigned int i = 0; i < m->nr; i++) {
		cr_assert_eq(pthread_create(&m->thread[i], &attr, waits, &m->tid[i]), 0);
		wait_awake(i + 1);
	}
	for (unsigned int i = 0; i < m->nr; i++) {
		struct vpmu_backend_node *n;

		if (i % 4 == 0) {
			vm = bed_node(bpf_as_backend(m->k)->root);
			m->list = bed_counting(vm, key, 2, m->list);
		}
		n = bed_node(vm);
		bed_bind_task(n, m->tid[i]);
		sleeps(m->tid[i]);
		figures(m->tid[i], m->was[i]);
	}
	bed_attach(m->list);
	vpmu_backend_flush(m->list);
}

/* All @nr threads run for a moment, and sleep. */
static void many_turn(const struct many *m, uint32_t nr)
{
	uint32_t before = __atomic_load_n(&awake, __ATOMIC_ACQUIRE);

	__atomic_add_fetch(&turn, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	wait_awake(before + nr);
	for (unsigned int i = 0; i < m->nr; i++)
		if (m->tid[i] != ends)
			sleeps(m->tid[i]);
}

/* Each VM has what /proc reports of its threads. */
static void many_compare(const struct many *m, const char *how)
{
	const struct vpmu_counting *c = m->list;

	for (unsigned int i = m->nr; i > 0; c = c->next) {
		uint64_t sum[3] = {0}, now[3];

		for (unsigned int j = 0; j < 4; j++) {
			figures(m->tid[--i], now);
			for (int e = 0; e < 3; e++)
				sum[e] += now[e] - m->was[i][e];
		}
		for (int e = 0; e < 2; e++) {
			cr_expect(c->values[e].supported && !c->values[e].partial);
			cr_expect_eq(c->values[e].count, sum[e],
				     "%s, VM %u, figure %d: %lu counted, %lu in /proc", how, i / 4,
				     e, c->values[e].count, sum[e]);
			cr_expect_eq(c->values[e].enabled_ns, sum[2]);
		}
	}
}

static void many_rounds(const struct many *m, const char *how)
{
	uint64_t t, ran = 0, slept = 0, added = 0;

	for (int i = 0; i < 5; i++) {
		many_turn(m, m->nr);
		t = cpu_ns();
		vpmu_backend_flush(m->list);
		ran += cpu_ns() - t;
		t = cpu_ns();
		vpmu_backend_flush(m->list);
		slept += cpu_ns() - t;
		t = cpu_ns();
		m->list->source->ops->read_list(m->list);
		added += cpu_ns() - t;
		many_compare(m, how);
	}
	printf("# %u threads, %s: %.2f ms CPU to read them if all have run, %.2f ms if none has; "
	       "%.2f ms to add up %u VMs: %.2f %% of a CPU every 10 s\n",
	       m->nr, how, (double)ran / 5e6, (double)slept / 5e6, (double)added / 5e6, m->nr / 4,
	       (double)(ran + added) / 5 / 1e8);
}

/* Few threads among very many tasks are read by /proc: the iterator's cost is that of all. */
static void many_few(const struct many *m)
{
	unsigned int pass = m->k->sched.pass;
	struct vpmu_counting *c = m->list, *rest;

	for (int i = 1; i < 16; i++)
		c = c->next;
	rest = c->next;
	c->next = NULL;
	many_turn(m, m->nr);
	vpmu_backend_flush(m->list);
	cr_assert_eq(m->k->sched.pass, pass);
	c->next = rest;
	bed_read(m->list);
	cr_assert_eq(m->k->sched.pass, pass + 1);
	many_compare(m, "by both");
}

/*
 * Very many threads: by the kernel's iterator of tasks, and by /proc as on kernels without it. The
 * values are the same, also over a change from one to the other.
 */
Test(cgroup_sched, many_threads_are_read)
{
	static struct many m; /* the threads use it until the process ends */

	m.nr = getenv("IT_CGROUP_SCHED") ? (unsigned int)atoi(getenv("IT_CGROUP_SCHED")) / 4 * 4
					 : 600;
	m.k = bed_open(NULL);
	many_start(&m);
	cr_assert(m.k->sched.tasks, "the kernel refuses the iterator");
	many_rounds(&m, "by the iterator");
	cr_assert_geq(m.k->sched.pass, 10);
	for (unsigned int i = 0; i < m.nr; i++)
		cr_assert_eq(bind_task(m.k, (uint64_t)m.tid[i])->sched.pass, m.k->sched.pass,
			     "thread %u of %u was not found", i, m.nr);

	schedtask_close(m.k);
	many_rounds(&m, "by /proc");
	cr_assert_eq(schedtask_open(m.k), 0);
	many_rounds(&m, "by the iterator again");
	many_few(&m);

	/* One that ends is missed by the iterator: its VM alone is marked. */
	ends = m.tid[m.nr - 1];
	many_turn(&m, m.nr - 1);
	pthread_join(m.thread[m.nr - 1], NULL);
	bed_read(m.list);
	for (const struct vpmu_counting *c = m.list; c; c = c->next)
		for (int e = 0; e < 2; e++)
			cr_expect_eq(c->values[e].partial, c == m.list);
	bed_done(m.k);
}
