// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Moves of tasks between cgroups on the running kernel: a task's work before it is moved is the
 * old cgroup's, and its work after that the new one's, to the count, while it runs on and does
 * not switch. Page faults are exact. A kernel on which no program sees all moves skips all but the
 * last tests; in the nested bed none may be skipped.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "tests/integration/moves_bed.h"
#include "vpmu/event/event.h"

#define ROUNDS	    20
#define MOST_ROUNDS 400 /* until the task was not switched away from in enough of them */

/* @enough: rounds without a switch; 0: it moves by itself. */
static void play_all(struct tenants *t, unsigned int enough)
{
	const bool by_itself = !enough;
	struct job *j = make_job("a");
	unsigned int rounds = 0, wrong = 0, ran = 0, counted = 0;
	uint64_t missed;

	j->first = j->second = 10;
	play(j, "a", "b", by_itself); /* the process's first part is done */
	while (rounds < ROUNDS || (ran < enough && rounds < MOST_ROUNDS)) {
		look(t);
		missed = hidden(t->k);
		/* Few, so that it takes less than a time slice on an emulated CPU, too. */
		j->first = 50 + 7 * (rounds % ROUNDS);
		j->second = 100 + 11 * (rounds++ % ROUNDS);
		ran += play(j, "a", "b", by_itself);
		if (!have(t, j->first, j->second, 0) && hidden(t->k) == missed)
			wrong++;
		counted += hidden(t->k) == missed;
	}
	printf("# %u rounds, %u counted, %u without a switch, %u wrong\n", rounds, counted, ran,
	       wrong);
	cr_expect_eq(wrong, 0u);
	cr_expect(counted >= ROUNDS / 2 && ran >= enough);
	cr_expect_gt(bed_conserved(bpf_as_backend(t->k)), 0);
	bed_kill(j->pid);
}

/* Seldom, and on the other CPU: beside one that wakes up often a slow CPU has no round without a
 * switch. */
static void wakes_up(void *arg)
{
	const struct timespec ts = {.tv_nsec = 5000000};

	bed_run_on(0, 0);
	for (;;)
		nanosleep(&ts, NULL);
}

/* The other kind of program is attached while a task is bound. */
Test(bpf_backend_moves, while_a_task_is_bound)
{
	struct tenants t;
	pid_t pid;

	make_tenants(&t, NULL);
	pid = bed_spawn("a", wakes_up, NULL);
	bed_bind_task(t.node[2], pid);
	cr_expect(moves(t.k));
	play_all(&t, ROUNDS / 10);
	play_all(&t, 0);
	end_tenants(&t);
}

Test(bpf_backend_moves, a_bound_task_stays_in_its_node)
{
	struct tenants t;
	struct job *j;
	unsigned int right = 0, counted = 0;
	uint64_t missed;

	make_tenants(&t, NULL);
	j = make_job("a");
	bed_bind_task(t.node[2], j->pid);
	j->first = j->second = 10;
	play(j, "a", "b", false);
	play(j, "a", "b", true);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		look(&t);
		missed = hidden(t.k);
		j->first = 100 + i;
		j->second = 1000 + i;
		play(j, "a", "b", i & 1);
		if (hidden(t.k) != missed)
			continue;
		counted++;
		right += have(&t, 0, 0, j->first + j->second);
	}
	cr_expect(right == counted && counted >= ROUNDS / 2, "%u of %u", right, counted);
	bed_kill(j->pid);
	end_tenants(&t);
}

/* ---- moved at any moment, again and again ------------------------------------------------- */

struct churn {
	uint64_t faults;
	int hold; /* test: 1, wait; task: 2, waits; test: 0, go on */
};

static void take_faults(void *arg)
{
	struct churn *c = arg;
	const size_t pages = 16;
	int hold;
	char *p;

	for (;;) {
		p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
		madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
		touch(p, pages);
		munmap(p, pages * PAGE);
		c->faults += pages;
		if (c->faults % (64 * pages) == 0)
			bed_move(getpid(), c->faults / pages & 64 ? "a" : "b");
		while ((hold = __atomic_load_n(&c->hold, __ATOMIC_ACQUIRE)) != 0) {
			if (hold == 1)
				__atomic_store_n(&c->hold, 2, __ATOMIC_RELEASE);
			usleep(1000);
		}
	}
}

static void hold(struct churn *c, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		__atomic_store_n(&c[i].hold, 1, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < n; i++)
		while (__atomic_load_n(&c[i].hold, __ATOMIC_ACQUIRE) != 2)
			usleep(1000);
}

/* The tasks' work, by their own numbers, equals the charges of the two cgroups. */
Test(bpf_backend_moves, nothing_is_lost_in_churn)
{
	enum { TASKS = 3, MOVES = 500, TIMES = 6 };
	struct tenants t;
	struct churn *c = bed_share(TASKS * sizeof(*c));
	unsigned int right = 0;
	pid_t pid[TASKS];

	make_tenants(&t, NULL);
	bed_first();
	for (int i = 0; i < TASKS; i++)
		pid[i] = bed_spawn("a", take_faults, &c[i]);
	for (int i = 0; i < TASKS; i++) /* the process's first part */
		while (__atomic_load_n(&c[i].faults, __ATOMIC_ACQUIRE) < 4096)
			usleep(1000);
	for (int time = 0; time < TIMES; time++) {
		uint64_t want = 0, got = 0;

		hold(c, TASKS);
		look(&t);
		for (int i = 0; i < 2; i++)
			got -= t.was[i][0];
		for (int i = 0; i < TASKS; i++) {
			want -= c[i].faults;
			__atomic_store_n(&c[i].hold, 0, __ATOMIC_RELEASE);
		}
		for (int i = 0; i < MOVES; i++) {
			bed_move(pid[i % TASKS], i / TASKS & 1 ? "a" : "b");
			if (i % 100 == 0)
				cr_expect_gt(bed_conserved(bpf_as_backend(t.k)), 0);
		}
		hold(c, TASKS);
		look(&t);
		for (int i = 0; i < 2; i++)
			got += t.was[i][0];
		for (int i = 0; i < TASKS; i++)
			want += c[i].faults;
		printf("# %d moves by others: %lu faults, %lu charged\n", MOVES, want, got);
		right += got == want;
	}
	cr_expect_eq(right, TIMES);
	cr_expect_gt(bed_conserved(bpf_as_backend(t.k)), 0);
	end_tenants(&t);
}

/* ---- each kind of program, and without one ------------------------------------------------ */

static struct bpf_backend_sys sys;

static unsigned int refused; /* a bit for each of the means */

static bool may_hook(unsigned int means, int hook)
{
	return !(refused >> means & 1) && bpf_backend_sys_real.may_hook(means, hook);
}

/* All means but @by are refused; MOVE_MEANS: all are. */
static void only(enum move_means by)
{
	refused = ~(1u << by);
	sys = bpf_backend_sys_real;
	sys.may_hook = may_hook;
}

static void with(enum move_means by, const char *not_there)
{
	struct tenants t;

	only(by);
	make_tenants(&t, &sys);
	if (t.k->move_by != by)
		skip_tenants(&t, not_there);
	cr_assert(moves(t.k));
	play_all(&t, ROUNDS / 2);
	play_all(&t, 0);
	end_tenants(&t);
}

Test(bpf_backend_moves, by_fentry)
{
	with(MOVE_FENTRY, "the kernel takes no fentry program");
}

Test(bpf_backend_moves, by_a_kprobe)
{
	with(MOVE_KPROBE, "the kernel has no kprobes");
}

/* ---- beside perf -------------------------------------------------------------------------- */

struct stints {
	uint64_t faults[2]; /* in a and b */
	int step;
};
enum { STINTS = 200, WARM = 4 };

static void work_stints(void *arg)
{
	static const char *const names[] = {"a", "b"};
	struct stints *s = arg;

	bed_run_on(0, 1);
	switch_seldom();
	for (unsigned int i = 0; i < WARM + STINTS; i++) {
		const size_t pages = 20 + i % 13;
		char *p;

		if (i == WARM) { /* the process's first part is done */
			__atomic_store_n(&s->step, WAITS, __ATOMIC_RELEASE);
			while (__atomic_load_n(&s->step, __ATOMIC_ACQUIRE) == WAITS)
				;
		}
		p = (char *)syscall(SYS_mmap, NULL, pages * PAGE, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
		touch(p, pages);
		syscall(SYS_munmap, p, pages * PAGE);
		if (i >= WARM)
			s->faults[i & 1] += pages;
		bed_move(getpid(), names[(i + 1) & 1]);
	}
	__atomic_store_n(&s->step, DID_ALL, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

/* With a program for moves if @shown and the kernel takes it. */
static void beside_perf(bool shown)
{
	struct stints *s = bed_share(sizeof(*s));
	struct bed_counters perf[2] = {{.nr = 0}};
	uint64_t ours[2], theirs[2];
	struct tenants t;
	bool opened, seen;
	pid_t pid;

	bed_two_cpus();
	only(MOVE_MEANS);
	if (shown)
		refused = 0;
	make_tenants(&t, &sys);
	seen = moves(t.k);
	bed_run_on(0, 0);
	pid = bed_spawn("a", work_stints, s);
	while (__atomic_load_n(&s->step, __ATOMIC_ACQUIRE) != WAITS)
		usleep(1000);
	opened = bed_counters_in(&perf[0], "a", moves_keys[0]) &&
		 bed_counters_in(&perf[1], "b", moves_keys[0]);
	look(&t);
	for (int i = 0; i < 2; i++) {
		ours[i] = t.was[i][0];
		theirs[i] = opened ? bed_counters_read(&perf[i]) : 0;
	}
	__atomic_store_n(&s->step, 0, __ATOMIC_RELEASE);
	while (__atomic_load_n(&s->step, __ATOMIC_ACQUIRE) != DID_ALL)
		usleep(1000);
	look(&t);
	for (int i = 0; i < 2; i++) {
		ours[i] = t.was[i][0] - ours[i];
		theirs[i] = opened ? bed_counters_read(&perf[i]) - theirs[i] : 0;
		bed_counters_close(&perf[i]);
	}
	printf("# %d moves, page faults in a and b: %lu and %lu; vpmu %s the program for moves: "
	       "%lu and %lu; perf: %lu and %lu\n",
	       STINTS, s->faults[0], s->faults[1], seen ? "with" : "without", ours[0], ours[1],
	       theirs[0], theirs[1]);
	for (int i = 0; seen && i < 2; i++)
		cr_expect_eq(ours[i], s->faults[i]);
	bed_kill(pid);
	end_tenants(&t);
	munmap(s, sizeof(*s));
}

Test(bpf_backend_moves, beside_perf)
{
	beside_perf(true);
	beside_perf(false);
}

/* As documented for such kernels. */
static void not_shown(enum move_means by, unsigned int programs)
{
	struct tenants t;
	struct bpf_backend_usage u;
	struct job *j;
	unsigned int right = 0, ran = 0;
	uint64_t missed;
	bool as_said;

	only(by);
	make_tenants(&t, &sys);
	bpf_backend_usage(t.k, &u);
	cr_expect(!u.moves && strstr(u.moves_why, "up to the next switch"), "%s", u.moves_why);
	cr_expect_eq(u.programs, programs);
	if (programs == 2)
		play_all(&t, 0); /* those of a task itself are seen */
	j = make_job("a");
	j->first = j->second = 100;
	play(j, "a", "b", false);
	for (unsigned int i = 0; i < MOST_ROUNDS && ran < ROUNDS / 2; i++) {
		look(&t);
		missed = hidden(t.k);
		if (!play(j, "a", "b", false))
			continue;
		as_said = have(&t, 200, 0, 0);
		if (hidden(t.k) != missed)
			continue;
		ran++;
		right += as_said;
	}
	cr_expect(ran >= ROUNDS / 2 && right == ran, "%u of %u", right, ran);
	bpf_backend_usage(t.k, &u);
	cr_expect_geq(u.moved, right);
	for (int i = 0; i < 2; i++)
		cr_expect(t.c[i]->values[0].partial);
	cr_expect_gt(bed_conserved(bpf_as_backend(t.k)), 0);
	bed_kill(j->pid);
	end_tenants(&t);
}

Test(bpf_backend_moves, of_others_are_not_shown)
{
	not_shown(MOVE_TRACEPOINT, 2);
}

Test(bpf_backend_moves, not_shown_by_the_kernel)
{
	not_shown(MOVE_MEANS, 1);
}
