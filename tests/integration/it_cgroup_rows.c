// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every row is right or marked partial, on the running kernel: the tenants' charges
 * beside the kernel's own numbers, those of its tasks and those of its perf events of cgroups.
 * Kernels that hide switches, or show no moves of running tasks, must not make a row wrong that
 * looks right (docs/internals/cgroup-counting.md). Conservation cannot see this: the sum is right
 * for any account.
 *
 *   IT_CGROUP_ROWS=N  processes of the churn (default 200; an emulated machine takes 20)
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"
#include "vpmu/event/event.h"

#define PAGE 4096

static const vpmu_key_t keys[] = {SW(PERF_COUNT_SW_PAGE_FAULTS), SW(PERF_COUNT_SW_CONTEXT_SWITCHES),
				  SW(PERF_COUNT_SW_CPU_MIGRATIONS)};
enum { KEYS = 3 };

static void take_faults(size_t pages)
{
	char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < pages; i++)
		((volatile char *)p)[i * PAGE] = 1;
	munmap(p, pages * PAGE);
}

static uint64_t my_faults(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (uint64_t)(r.ru_minflt + r.ru_majflt);
}

static void report(const struct bpf_backend *k)
{
	struct bpf_backend_usage u;

	bpf_backend_usage((struct bpf_backend *)k, &u);
	printf("# %lu switches were hidden; tasks that move: %s\n", u.missed, u.moves_why);
	fflush(stdout);
}

/* Returns true if the row of @c is within @low and @high, or is marked as not exact. */
static bool is_honest(const struct vpmu_counting *c, size_t key, uint64_t low, uint64_t high)
{
	const struct vpmu_value *v = &c->values[key];

	return v->partial || (v->count >= low && v->count <= high);
}

/* ---- a tenant that does next to nothing, beside tasks that do much --------------------------- */

enum { NAPS = 400 };

struct sleeper {
	uint64_t from, to; /* its faults */
	int step;
};

static void work_naps(void *arg)
{
	const struct timespec ms = {0, 1000000};
	struct sleeper *s = arg;

	bed_run_on(0, 0);
	nanosleep(&ms, NULL);
	s->from = my_faults();
	__atomic_store_n(&s->step, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&s->step, __ATOMIC_ACQUIRE) == 1)
		nanosleep(&ms, NULL);
	for (int i = 0; i < NAPS; i++)
		nanosleep(&ms, NULL);
	s->to = my_faults();
	__atomic_store_n(&s->step, 3, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static void work_on_cpu_0(void *arg)
{
	bed_run_on(0, 0);
	for (;;)
		take_faults(64);
}

/* @times: sessions one after another, each with the program attached anew. */
static void beside_a_faulter(unsigned int times)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend_node *n = bed_tenant(bpf_as_backend(k)->root, "b");
	unsigned int honest = 0;

	bed_cgroup("host");
	bed_spawn("host", work_on_cpu_0, NULL);
	for (unsigned int i = 0; i < times; i++) {
		struct vpmu_counting *c = bed_counting(n, keys, 1, NULL);
		struct sleeper *s = bed_share(sizeof(*s));
		pid_t pid = bed_spawn("b", work_naps, s);
		uint64_t truth;

		while (__atomic_load_n(&s->step, __ATOMIC_ACQUIRE) != 1)
			usleep(1000);
		bed_attach(c);
		__atomic_store_n(&s->step, 2, __ATOMIC_RELEASE);
		while (__atomic_load_n(&s->step, __ATOMIC_ACQUIRE) != 3)
			usleep(1000);
		bed_detach(c);
		truth = s->to - s->from;
		printf("# faults of a tenant that sleeps: %lu, charged %lu%s\n", truth,
		       c->values[0].count, c->values[0].partial ? ", partial" : "");
		/* Its faults between the attach and its own first reading, and the other way. */
		honest += is_honest(c, 0, 0, truth + 20);
		bed_kill(pid);
		bed_counting_free(c);
		munmap(s, sizeof(*s));
	}
	report(k);
	cr_expect_eq(honest, times, "%u of %u", honest, times);
	bed_done(k);
}

Test(cgroup_rows, one_that_sleeps_beside_one_that_faults)
{
	beside_a_faulter(5);
}

/* ---- tasks that move themselves in while others ran ------------------------------------------ */

struct mover {
	uint64_t others, own; /* faults */
};

/* In the cgroup of the test's host: a process that takes faults and exits, and then a tiny one that
 * moves itself into the tenant. */
static void work_host(void *arg)
{
	struct mover *m = arg;
	uint64_t had;
	pid_t pid;

	bed_run_on(0, 0);
	for (int i = 0; i < 6; i++) {
		pid = fork();
		if (!pid) {
			had = my_faults();
			take_faults(5000);
			__atomic_add_fetch(&m->others, my_faults() - had, __ATOMIC_RELAXED);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		if (i % 2 == 0)
			continue;
		pid = fork();
		if (!pid) {
			bed_move(getpid(), "b");
			had = my_faults();
			take_faults(5);
			__atomic_add_fetch(&m->own, my_faults() - had, __ATOMIC_RELAXED);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	for (;;)
		pause();
}

Test(cgroup_rows, one_that_tasks_move_into)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *host, *b;
	struct mover *m = bed_share(sizeof(*m));
	pid_t pid;

	bed_controllers();
	b = bed_counting(bed_tenant(s->root, "b"), keys, 1, NULL);
	host = bed_counting(bed_tenant(s->root, "host"), keys, 1, b);
	bed_attach(host);
	pid = bed_spawn("host", work_host, m);
	do
		usleep(50000);
	while (!bed_asleep(pid) || __atomic_load_n(&m->others, __ATOMIC_RELAXED) < 30000);
	usleep(100000);
	bed_detach(host);
	printf("# the tenant's faults: %lu, charged %lu%s; those of the others: %lu, charged "
	       "%lu%s\n",
	       m->own, b->values[0].count, b->values[0].partial ? ", partial" : "", m->others,
	       host->values[0].count, host->values[0].partial ? ", partial" : "");
	report(k);
	/* The end of each process, and of the host's what forks and waits, are not in the numbers.
	 */
	cr_expect(is_honest(b, 0, m->own, m->own + 3 * 60));
	cr_expect(is_honest(host, 0, m->others, m->others + 12 * 200));
	bed_done(k);
}

/* ---- churn, beside perf ---------------------------------------------------------------------- */

enum { GROUPS = 20 };

static char names[GROUPS][8];

struct churn {
	uint32_t ends, ended;
};

/* One process: faults, naps, children, and moves of its own and of others. */
static void work_churn(void *arg)
{
	struct churn *c = arg;
	unsigned int seed = (unsigned int)getpid();
	pid_t child;

	while (!__atomic_load_n(&c->ends, __ATOMIC_ACQUIRE)) {
		const struct timespec nap = {0, 1000L * (long)(rand_r(&seed) % 20000)};

		take_faults(1 + (size_t)rand_r(&seed) % 40);
		switch (rand_r(&seed) % 16) {
		case 0:
			child = fork();
			if (!child) {
				take_faults(1 + (size_t)rand_r(&seed) % 200);
				_exit(0);
			}
			waitpid(child, NULL, 0);
			break;
		case 1:
			bed_move(getpid(), names[rand_r(&seed) % GROUPS]);
			break;
		case 2: {
			const struct timespec one = {0, 1};

			for (int i = 0; i < 20; i++)
				nanosleep(&one, NULL);
			break;
		}
		default:
			nanosleep(&nap, NULL);
		}
	}
	__atomic_add_fetch(&c->ended, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

/* The rows of the churn; shared by the processes that count them one after another. */
static struct rows {
	uint64_t cgroup[GROUPS];
	struct bpf_backend_base base[GROUPS][KEYS];
	int ready;
} * rows;

/* Counts all cgroups. @pins: NULL, or where the pins are; @found: those of a former process. */
static struct bpf_backend *rows_open(const char *pins, bool found, struct vpmu_counting **row)
{
	struct bpf_backend *k = bed_reopen(&(struct bpf_backend_opts){.pin_dir = pins});

	for (unsigned int i = 0; i < GROUPS; i++) {
		struct vpmu_backend_node *n = bed_node(bpf_as_backend(k)->root);

		cr_assert(!pins || bpf_backend_name(n, 1000 + i) == found);
		cr_assert(found || !bpf_backend_bind_cgroup(n, rows->cgroup[i]));
		row[i] = bed_counting(n, keys, KEYS, i ? row[i - 1] : NULL);
	}
	bed_attach(row[GROUPS - 1]);
	return k;
}

/* A process that counts them and is killed before anything runs there. */
static void rows_of_former(const char *pins, struct vpmu_counting **row)
{
	pid_t pid = bed_fork();

	if (!pid) {
		rows_open(pins, false, row);
		for (unsigned int i = 0; i < GROUPS; i++)
			for (size_t j = 0; j < KEYS; j++)
				bpf_backend_base_get(row[i], j, &rows->base[i][j]);
		__atomic_store_n(&rows->ready, 1, __ATOMIC_RELEASE);
		for (;;)
			pause();
	}
	bed_wait(pid, &rows->ready);
	bed_kill(pid);
}

/* @away: the process that counts is killed before the churn, and the next one comes after it. */
static void churn_beside_perf(bool away)
{
	static const char *const what[KEYS] = {"page-faults", "context-switches", "cpu-migrations"};
	static struct bed_counters perf[GROUPS][KEYS];
	static char dir[BED_PIN_DIR];
	const char *many = getenv("IT_CGROUP_ROWS"), *pins = away ? dir : NULL;
	const unsigned int processes = many ? (unsigned int)atoi(many) : 200;
	struct bpf_backend *k = NULL;
	struct vpmu_counting *row[GROUPS], *list;
	struct churn *c = bed_share(sizeof(*c));
	unsigned int partial = 0;
	bool opened = true;

	bed_begin();
	rows = bed_share(sizeof(*rows));
	bed_controllers();
	for (unsigned int i = 0; i < GROUPS; i++) {
		snprintf(names[i], sizeof(names[i]), "g%u", i);
		rows->cgroup[i] = bed_cgroup(names[i]);
		for (int j = 0; j < KEYS; j++)
			opened &= bed_counters_in(&perf[i][j], names[i], keys[j]);
	}
	if (!opened)
		cr_skip_test("no perf events of cgroups");
	if (away) {
		bed_pin_dir(dir);
		rows_of_former(pins, row);
	} else {
		k = rows_open(pins, false, row);
	}
	for (unsigned int i = 0; i < processes; i++)
		bed_spawn(names[i % GROUPS], work_churn, c);
	usleep(2000000);
	__atomic_store_n(&c->ends, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&c->ended, __ATOMIC_ACQUIRE) < processes)
		usleep(10000);
	usleep(200000); /* all pause */
	if (away) {
		k = rows_open(pins, true, row);
		for (unsigned int i = 0; i < GROUPS; i++)
			for (size_t j = 0; j < KEYS; j++)
				cr_assert_eq(bpf_backend_base_set(row[i], j, &rows->base[i][j]), 0);
		bpf_backend_named(k);
	}
	list = row[GROUPS - 1];
	vpmu_backend_flush(list);
	for (unsigned int i = 0; i < GROUPS; i++)
		vpmu_backend_read(row[i]);
	for (int j = 0; j < KEYS; j++) {
		unsigned int right = 0, wrong = 0;

		for (unsigned int i = 0; i < GROUPS; i++) {
			const struct vpmu_value *v = &row[i]->values[j];
			uint64_t truth = bed_counters_read(&perf[i][j]);

			right += v->count == truth;
			partial += v->partial;
			if (v->count == truth || v->partial)
				continue;
			wrong++;
			printf("# %s of %s: %lu, perf %lu\n", what[j], names[i], v->count, truth);
		}
		printf("# %s: %u of %u rows are perf's, %u are neither that nor partial\n", what[j],
		       right, GROUPS, wrong);
		cr_expect_eq(wrong, 0, "%s", what[j]);
	}
	printf("# %u rows of %u are partial\n", partial, GROUPS * KEYS);
	report(k);
	cr_expect_gt(bed_conserved(bpf_as_backend(k)), 0);
	for (unsigned int i = 0; i < GROUPS; i++)
		for (int j = 0; j < KEYS; j++)
			bed_counters_close(&perf[i][j]);
	bed_done(k);
}

Test(cgroup_rows, are_those_of_perf_or_partial)
{
	churn_beside_perf(false);
}

/* All of the churn is while no process is there that looks at CPUs now and then. */
Test(cgroup_rows, are_those_of_perf_while_nobody_is_there)
{
	churn_beside_perf(true);
}

/* ---- a node that goes while CPUs are counted ------------------------------------------------ */

/* Its charges become its parent's, and are of no CPU any more: the CPU's count keeps them. */
Test(cgroup_rows, a_removed_node_stays_in_the_count_of_its_cpu)
{
	enum { FAULTS = 1000, MORE = 100 };
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend_node *n = bed_node(bpf_as_backend(k)->root);
	struct vpmu_backend_node *below = bed_tenant(n, "b");
	struct vpmu_counting *all = bed_counting(n, keys, 1, NULL);
	struct vpmu_counting *rest = bed_counting(n, keys, 1, all);
	struct vpmu_counting *zero = bed_counting(n, keys, 1, rest);
	bool *is_zero = calloc(k->nr_cpus, sizeof(bool));
	bool *is_rest = calloc(k->nr_cpus, sizeof(bool));

	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		*(cpu ? &is_rest[cpu] : &is_zero[cpu]) = true;
	zero->cpus = is_zero;
	rest->cpus = is_rest;
	bed_run_on(bed_job("b", FAULTS), 0);
	bed_attach(zero);
	for (uint64_t want = FAULTS; want <= 2 * FAULTS; want += FAULTS) {
		bed_job_go();
		bed_read(zero);
		cr_expect(is_honest(zero, 0, want, want + MORE), "%lu faults, %lu counted", want,
			  zero->values[0].count);
		cr_expect(is_honest(rest, 0, 0, MORE), "%lu on other CPUs", rest->values[0].count);
		cr_expect_eq(all->values[0].count, zero->values[0].count + rest->values[0].count);
		if (want == FAULTS)
			vpmu_backend_node_remove(below);
		for (int t = 0; t < 100000 && k->nr_removed; t++) {
			usleep(1000); /* a CPU may not have left it yet */
			node_fold(k);
		}
		cr_assert_eq(k->nr_removed, 0);
	}
	report(k);
	bed_done(k);
	free(is_zero);
	free(is_rest);
}
