// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tasks that move from one tenant to another while they run: their work before the move is the
 * first one's, and their work after it the second one's. Instructions of one CPU are exact to the
 * count; on two CPUs page faults are (see bed_one_cpu).
 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/beds/bed.h"
#include "tests/beds/tenants.h"
#include "tests/beds/workload.h"

#define MOVERS 6u
#define PAGE   4096

/* Shared with the task. */
struct mover {
	pid_t pid;
	int start[2], to; /* to: a file that moves the task when "0", or its number, is written */
	uint64_t first, second;
	int step;
};
enum { WAITS = 1, MOVED };

static int procs_of(unsigned int tenant)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/fs/cgroup/t%u/cgroup.procs", tenant);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	cr_assert(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
}

/* A task in tenant 2 * @i that will move to the next one. It runs @fn when it is started. */
static void make(struct mover *m, unsigned int i, void (*fn)(struct mover *m))
{
	char name[24], c;
	int ready[2];
	pid_t pid;

	snprintf(name, sizeof(name), "t%u", 2 * i);
	cr_assert(!pipe2(m->start, O_CLOEXEC) && !pipe2(ready, O_CLOEXEC));
	m->to = procs_of(2 * i + 1);
	pid = fork();
	cr_assert(pid >= 0);
	if (!pid) {
		cgroup_enter(name);
		close(ready[0]);
		close(ready[1]);
		if (read(m->start[0], &c, 1) != 1)
			_exit(1);
		fn(m);
		_exit(0);
	}
	m->pid = pid;
	close(ready[1]);
	cr_assert_eq(read(ready[0], &c, 1), 0);
	close(ready[0]);
}

static struct mover *make_all(void (*fn)(struct mover *m), uint64_t size)
{
	struct mover *m = mmap(NULL, MOVERS * sizeof(*m), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert(m != MAP_FAILED);
	for (unsigned int i = 0; i < MOVERS; i++) {
		m[i].first = size + 777 * i;
		m[i].second = 3 * size + 333 * i;
		make(&m[i], i, fn);
	}
	usleep(100000); /* until all of them wait */
	return m;
}

static void wait_for(struct mover *m)
{
	int status;

	cr_assert_eq(waitpid(m->pid, &status, 0), m->pid);
	cr_assert_eq(status, 0, "a task failed: %d", status);
	close(m->to);
	close(m->start[0]);
	close(m->start[1]);
}

/* All tenants have the same surplus over the known @per. */
static void compare(struct tenants *t, const struct mover *m, unsigned int per, uint64_t most)
{
	uint64_t besides[2] = {0};

	for (unsigned int i = 0; i < MOVERS; i++)
		for (unsigned int second = 0; second < 2; second++) {
			uint64_t known = per * (second ? m[i].second : m[i].first);
			uint64_t more = tenants_value(t, 2 * i + second, 0)->count - known;

			if (i == 0)
				besides[second] = more;
			cr_expect_eq(more, besides[second],
				     "mover %u, tenant %u: %lld besides %lu, not %lld", i, second,
				     (long long)more, known, (long long)besides[second]);
			cr_expect_lt(more, most);
		}
	printf("besides what is known: before the move %lld, after it %lld\n",
	       (long long)besides[0], (long long)besides[1]);
}

/* Without news of moves all up to the next switch is the first one's, what comes after it the
 * second one's, and both are partial. When that switch is depends on the kernel: Linux 6.12 and
 * later mostly have one before the mover is back from its move, and then the counts are those of a
 * move that is reported. */
static void compare_old(struct tenants *t, const struct mover *m, uint64_t most)
{
	uint64_t besides = 0;
	unsigned int all = 0;

	for (unsigned int i = 0; i < MOVERS; i++) {
		const struct vpmu_value *first = tenants_value(t, 2 * i, 0);
		const struct vpmu_value *second = tenants_value(t, 2 * i + 1, 0);
		uint64_t more = first->count + second->count - 2 * (m[i].first + m[i].second);

		if (i == 0)
			besides = more;
		cr_expect_eq(more, besides, "mover %u: %lld besides its loops, not %lld", i,
			     (long long)more, (long long)besides);
		cr_expect_lt(more, most);
		cr_expect_geq(first->count, 2 * m[i].first, "mover %u", i);
		cr_expect(first->partial && second->partial, "mover %u", i);
		all += second->count == 0;
	}
	printf("%u of %u movers have all in the first tenant\n", all, MOVERS);
}

static void say(struct tenants *t)
{
	struct bpf_backend_usage u;

	bpf_backend_usage(t->k, &u);
	printf("%s\n", u.moves_why);
	cr_expect(u.moves);
}

static void move_itself(struct mover *m)
{
	bed_loop(m->first);
	if (write(m->to, "0", 1) != 1)
		_exit(1);
	bed_loop(m->second);
}

static void by_themselves(bool tells)
{
	static const char *const events[] = {"instructions:uGH", "instructions:GH", NULL};
	struct tenants t;
	struct mover *m;

	bed_one_cpu();
	if (tells)
		cgroups_apart();
	tenants_open(&t, 2 * MOVERS, events);
	m = make_all(move_itself, 50000);
	tenants_attach(&t, t.nr_keys, true);
	say(&t);
	for (unsigned int i = 0; i < MOVERS; i++) {
		cr_assert_eq(write(m[i].start[1], "", 1), 1);
		wait_for(&m[i]);
	}
	tenants_conserved(&t, 1);
	tenants_detach(&t);
	tenants_root_is_all(&t);
	if (tells)
		compare(&t, m, 2, 200);
	else
		compare_old(&t, m, 200);
	tenants_close(&t);
}

Test(bed_moves, a_kernel_that_does_not_tell)
{
	by_themselves(false);
}

Test(bed_moves, by_themselves_to_the_instruction)
{
	by_themselves(true);
}

/* ---- beside perf's events of cgroups ------------------------------------------------------- */

#define STINTS 200u /* half of them in each tenant */

/* Iterations of stint @i. */
static uint64_t stint(unsigned int i)
{
	return 1000 + 37 * i;
}

static int to_tenant[2];

static void move_often(struct mover *m)
{
	for (unsigned int i = 0; i < STINTS; i++) {
		bed_loop(stint(i));
		if (write(to_tenant[(i + 1) & 1], "0", 1) != 1)
			_exit(1);
	}
}

Test(bed_moves, beside_perf_to_the_instruction)
{
	static const char *const events[] = {"instructions:uGH", NULL};
	uint64_t known[2] = {0}, ours, theirs, v[3];
	struct mover *m =
		mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct tenants t;
	char path[64];
	int perf[2], dir;

	cr_assert(m != MAP_FAILED);
	bed_one_cpu();
	cgroups_apart();
	tenants_open(&t, 2, events);
	for (unsigned int i = 0; i < 2; i++) {
		to_tenant[i] = procs_of(i);
		snprintf(path, sizeof(path), "/sys/fs/cgroup/t%u", i);
		dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		perf[i] = bed_open_as(events[0], dir, 0, -1, PERF_FLAG_PID_CGROUP);
		close(dir);
	}
	for (unsigned int i = 0; i < STINTS; i++)
		known[i & 1] += 2 * stint(i);
	make(m, 0, move_often);
	usleep(100000); /* until it waits */
	tenants_attach(&t, t.nr_keys, true);
	say(&t);
	for (unsigned int i = 0; i < 2; i++)
		bed_enable(perf[i], true);
	cr_assert_eq(write(m->start[1], "", 1), 1);
	wait_for(m);
	for (unsigned int i = 0; i < 2; i++)
		bed_enable(perf[i], false);
	tenants_conserved(&t, 1);
	tenants_detach(&t);
	tenants_root_is_all(&t);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(read(perf[i], v, sizeof(v)), (ssize_t)sizeof(v));
		ours = tenants_value(&t, i, 0)->count;
		theirs = v[0];
		printf("tenant %u: its loops are %lu instructions; vpmu %lu, perf %lu\n", i,
		       known[i], ours, theirs);
		cr_expect_eq(ours, theirs);
		cr_expect(ours >= known[i] && ours - known[i] < 50 * STINTS);
		close(perf[i]);
		close(to_tenant[i]);
	}
	tenants_close(&t);
}

/* ---- moved by another CPU ------------------------------------------------------------------ */

static void touch(volatile char *p, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++)
		p[i * PAGE] = 1;
}

static void fault(struct mover *m)
{
	const size_t bytes = (m->first + m->second) * PAGE;
	char *p;

	bed_run_on(1);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED || madvise(p, bytes, MADV_NOHUGEPAGE))
		_exit(1);
	touch(p, m->first);
	__atomic_store_n(&m->step, WAITS, __ATOMIC_RELEASE);
	while (__atomic_load_n(&m->step, __ATOMIC_ACQUIRE) != MOVED)
		;
	touch(p + m->first * PAGE, m->second);
}

Test(bed_moves, by_another_cpu)
{
	static const char *const events[] = {"page-faults", "minor-faults", NULL};
	struct tenants t;
	struct mover *m;
	char number[16];
	int n;

	bed_cpu1(true);
	bed_run_on(0);
	cgroups_apart();
	tenants_open(&t, 2 * MOVERS, events);
	m = make_all(fault, 100);
	tenants_attach(&t, t.nr_keys, true);
	say(&t);
	for (unsigned int i = 0; i < MOVERS; i++) {
		cr_assert_eq(write(m[i].start[1], "", 1), 1);
		while (__atomic_load_n(&m[i].step, __ATOMIC_ACQUIRE) != WAITS)
			usleep(1000);
		n = snprintf(number, sizeof(number), "%d", m[i].pid);
		cr_assert_eq(write(m[i].to, number, (size_t)n), n);
		__atomic_store_n(&m[i].step, MOVED, __ATOMIC_RELEASE);
		wait_for(&m[i]);
	}
	tenants_conserved(&t, 2);
	tenants_detach(&t);
	tenants_root_is_all(&t);
	compare(&t, m, 1, 20);
	tenants_close(&t);
}
