// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Moves of tasks between cgroups on the running kernel: what a task does before it is moved is the
 * old cgroup's, and what it does after that the new one's, to the count, while it runs on and does
 * not switch. Page faults are exact. A kernel on which no program sees moves skips all but the last
 * test; in the nested bed none may be skipped.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "cgroup/kernel/priv.h"
#include "tests/integration/kernel_bed.h"
#include "vpmu/event/event.h"

#define ROUNDS	    20
#define MOST_ROUNDS 400 /* until the task was not switched away from in half as many as ROUNDS */
#define PAGE	    4096

static const vpmu_key_t keys[2] = {SW(PERF_COUNT_SW_PAGE_FAULTS),
				   SW(PERF_COUNT_SW_PAGE_FAULTS_MIN)};

/* ---- a task that takes page faults, and waits between them without a switch ----------------- */

struct job {
	int start[2], done[2]; /* pipes */
	pid_t pid;
	size_t first, second; /* page faults before and after the move */
	const char *self;     /* it moves itself there; NULL: somebody moves it */
	int step;
};
enum { WAITS = 1, MOVED, DID_ALL, MAY_SLEEP };

/* The pages' faults must be the only ones: AddressSanitizer takes some of its own for each access
 * and each mmap(). */
__attribute__((no_sanitize_address, no_sanitize_thread)) static void touch(char *p, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		((volatile char *)p)[i * PAGE] = 1;
}

static void spin_until(struct job *j, int step)
{
	while (__atomic_load_n(&j->step, __ATOMIC_ACQUIRE) != step)
		;
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* The task waits without a switch. Where nothing keeps such a task from taking all of a CPU, as in
 * the beds, the kernel's own threads could not run there any more. */
static void switch_seldom(void)
{
	const struct sched_param real_time = {.sched_priority = 1};
	FILE *f = fopen("/proc/sys/kernel/sched_rt_runtime_us", "re");
	int us;

	if (f && fscanf(f, "%d", &us) == 1 && us > 0)
		sched_setscheduler(0, SCHED_FIFO, &real_time);
	if (f)
		fclose(f);
}

static void work(void *arg)
{
	struct job *j = arg;
	char c;

	run_on(1);
	switch_seldom();
	close(j->start[1]);
	while (read(j->start[0], &c, 1) == 1) {
		const size_t bytes = (j->first + j->second) * PAGE;
		char *p = (char *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise(p, bytes, MADV_NOHUGEPAGE);
		touch(p, j->first);
		__atomic_store_n(&j->step, WAITS, __ATOMIC_RELEASE);
		if (j->self)
			bed_move(getpid(), j->self);
		else
			spin_until(j, MOVED);
		touch(p + j->first * PAGE, j->second);
		__atomic_store_n(&j->step, DID_ALL, __ATOMIC_RELEASE);
		spin_until(j, MAY_SLEEP);
		syscall(SYS_munmap, p, bytes);
		cr_assert_eq(write(j->done[1], &c, 1), 1);
	}
}

static struct job *make_job(const char *cgroup)
{
	struct job *j =
		mmap(NULL, sizeof(*j), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("needs two CPUs");
	run_on(0);
	cr_assert(j != MAP_FAILED && !pipe(j->start) && !pipe(j->done));
	j->pid = bed_spawn(cgroup, work, j);
	return j;
}

static void wait_for(struct job *j, int step)
{
	while (__atomic_load_n(&j->step, __ATOMIC_ACQUIRE) != step)
		usleep(100);
}

/* How often the scheduler has switched away from the task. */
static long switches_of(pid_t pid)
{
	char path[64], line[256];
	long n = 0, more;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	cr_assert(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %ld", &more) == 1 ||
		    sscanf(line, "nonvoluntary_ctxt_switches: %ld", &more) == 1)
			n += more;
	fclose(f);
	return n;
}

/* One round: from @from to @to. Returns whether the task ran all the time. */
static bool play(struct job *j, const char *from, const char *to, bool by_itself)
{
	long switches;
	bool ran;
	char c = 0;

	bed_move(j->pid, from);
	j->self = by_itself ? to : NULL;
	__atomic_store_n(&j->step, 0, __ATOMIC_RELEASE);
	cr_assert_eq(write(j->start[1], &c, 1), 1);
	if (!by_itself) {
		wait_for(j, WAITS);
		switches = switches_of(j->pid);
		bed_move(j->pid, to);
		__atomic_store_n(&j->step, MOVED, __ATOMIC_RELEASE);
	}
	wait_for(j, DID_ALL);
	ran = !by_itself && switches_of(j->pid) == switches;
	__atomic_store_n(&j->step, MAY_SLEEP, __ATOMIC_RELEASE);
	cr_assert_eq(read(j->done[0], &c, 1), 1);
	return ran;
}

/* ---- tenants ------------------------------------------------------------------------------ */

struct tenants {
	struct kernel_plane *k;
	struct vpmu_source_node *node[3]; /* cgroups a and b, and tasks */
	struct vpmu_counting *c[3];
	uint64_t was[3][2];
};

static bool moves(struct kernel_plane *k)
{
	struct kernel_usage u;

	kernel_usage(k, &u);
	return u.moves;
}

static void end_tenants(struct tenants *t)
{
	vpmu_source_detach(t->c[2]); /* the list of all */
	bed_counting_free(t->c[2]);
	kernel_close(t->k);
	bed_end();
}

static void skip(struct tenants *t, const char *why)
{
	end_tenants(t);
	cr_skip_test("%s", why);
}

static void make_tenants(struct tenants *t, const struct kernel_opts *o)
{
	static const char *const names[] = {"a", "b"};
	struct vpmu_counting *list = NULL;
	struct kernel_usage u;

	t->k = bed_open(o);
	bed_controllers();
	for (int i = 0; i < 3; i++) {
		t->node[i] = bed_node(kernel_source(t->k)->root);
		if (i < 2)
			cr_assert_eq(kernel_bind_cgroup(t->node[i], bed_cgroup(names[i])), 0);
		t->c[i] = list = bed_counting(t->node[i], keys, 2, list);
	}
	bed_attach(list);
	kernel_usage(t->k, &u);
	printf("# tasks that move: %s\n", u.moves_why);
	if (!o->sys && ((!t->k->on_move[MOVE_FENTRY] && !t->k->on_move[MOVE_KPROBE]) ||
			strstr(u.moves_why, "not in the cgroup2 hierarchy")))
		skip(t, u.moves_why);
	cr_assert(u.moves || o->sys);
}

static void look(struct tenants *t)
{
	vpmu_source_flush(t->c[2]);
	for (int i = 0; i < 3; i++) {
		vpmu_source_read(t->c[i]);
		for (int k = 0; k < 2; k++)
			t->was[i][k] = t->c[i]->values[k].count;
	}
}

/* Whether the tenants have so many faults more than when look() was called last. */
static bool have(struct tenants *t, uint64_t a, uint64_t b, uint64_t task)
{
	const uint64_t want[3] = {a, b, task};
	uint64_t was[3][2];
	bool right = true;

	memcpy(was, t->was, sizeof(was));
	look(t);
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 2; k++)
			right &= t->was[i][k] - was[i][k] == want[i];
	if (!right)
		printf("# a %llu, b %llu, task %llu; expected %llu, %llu, %llu\n",
		       (unsigned long long)(t->was[0][0] - was[0][0]),
		       (unsigned long long)(t->was[1][0] - was[1][0]),
		       (unsigned long long)(t->was[2][0] - was[2][0]), (unsigned long long)a,
		       (unsigned long long)b, (unsigned long long)task);
	return right;
}

/* The kernel may hide a switch (docs/kernel-plane.md): no kernel that is known to do so shows
 * moves. Where it is known that it did, the round does not count. */
static uint64_t hidden(struct kernel_plane *k)
{
	struct kernel_usage u;

	kernel_usage(k, &u);
	return u.missed;
}

static void play_all(struct tenants *t, bool by_itself)
{
	struct job *j = make_job("a");
	unsigned int rounds = 0, wrong = 0, ran = 0, counted = 0;
	uint64_t missed;

	j->first = j->second = 10;
	play(j, "a", "b", by_itself); /* what a process does first is done */
	while (rounds < ROUNDS || (!by_itself && ran < ROUNDS / 2 && rounds < MOST_ROUNDS)) {
		look(t);
		missed = hidden(t->k);
		j->first = 100 + 17 * rounds;
		j->second = 1000 + 31 * rounds++;
		ran += play(j, "a", "b", by_itself);
		if (!have(t, j->first, j->second, 0) && hidden(t->k) == missed)
			wrong++;
		counted += hidden(t->k) == missed;
	}
	printf("# %u rounds, %u counted, %u without a switch, %u wrong\n", rounds, counted, ran,
	       wrong);
	cr_expect_eq(wrong, 0u);
	cr_expect(counted >= ROUNDS / 2 && (by_itself || ran >= ROUNDS / 2));
	cr_expect_gt(bed_conserved(kernel_source(t->k)), 0);
	bed_kill(j->pid);
}

Test(kernel_moves, by_another_task)
{
	const struct kernel_opts o = {0};
	struct tenants t;

	make_tenants(&t, &o);
	play_all(&t, false);
	end_tenants(&t);
}

Test(kernel_moves, by_itself)
{
	const struct kernel_opts o = {0};
	struct tenants t;

	make_tenants(&t, &o);
	play_all(&t, true);
	end_tenants(&t);
}

/* The other kind of program is attached while a task is bound. */
Test(kernel_moves, while_a_task_is_bound)
{
	const struct kernel_opts o = {0};
	struct tenants t;
	pid_t pid;

	make_tenants(&t, &o);
	pid = bed_spawn("a", work_sleeps, NULL);
	cr_assert_eq(kernel_bind_task(t.node[2], pid, bed_start_time(pid)), 0);
	cr_expect(moves(t.k));
	play_all(&t, false);
	play_all(&t, true);
	end_tenants(&t);
}

Test(kernel_moves, a_bound_task_stays_in_its_node)
{
	const struct kernel_opts o = {0};
	struct tenants t;
	struct job *j;
	unsigned int right = 0, counted = 0;
	uint64_t missed;

	make_tenants(&t, &o);
	j = make_job("a");
	cr_assert_eq(kernel_bind_task(t.node[2], j->pid, bed_start_time(j->pid)), 0);
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

/* What the tasks did, by their own numbers, is what the two cgroups were charged. */
Test(kernel_moves, nothing_is_lost_in_churn)
{
	const struct kernel_opts o = {0};
	enum { TASKS = 3, MOVES = 500, TIMES = 6 };
	struct tenants t;
	struct churn *c = mmap(NULL, TASKS * sizeof(*c), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int right = 0;
	pid_t pid[TASKS];

	make_tenants(&t, &o);
	for (int i = 0; i < TASKS; i++)
		pid[i] = bed_spawn("a", take_faults, &c[i]);
	for (int i = 0; i < TASKS; i++) /* what a process does first */
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
				cr_expect_gt(bed_conserved(kernel_source(t.k)), 0);
		}
		hold(c, TASKS);
		look(&t);
		for (int i = 0; i < 2; i++)
			got += t.was[i][0];
		for (int i = 0; i < TASKS; i++)
			want += c[i].faults;
		printf("# %d moves by others: %llu faults, %llu charged\n", MOVES,
		       (unsigned long long)want, (unsigned long long)got);
		right += got == want;
	}
	cr_expect_eq(right, TIMES);
	cr_expect_gt(bed_conserved(kernel_source(t.k)), 0);
	end_tenants(&t);
}

/* ---- each kind of program, and without one ------------------------------------------------ */

static struct kernel_sys sys;

static struct bpf_link *refuse(void)
{
	errno = ENOTSUP;
	return NULL;
}

static bool has_prefix(struct bpf_program *p, const char *prefix)
{
	return !strncmp(bpf_program__name(p), prefix, strlen(prefix));
}

static struct bpf_link *attach_no_kprobe(struct bpf_program *p)
{
	return has_prefix(p, "on_move_probe") ? refuse() : kernel_sys_real.attach(p);
}

static struct bpf_link *attach_no_fentry(struct bpf_program *p)
{
	return has_prefix(p, "on_move") && !has_prefix(p, "on_move_probe")
		       ? refuse()
		       : kernel_sys_real.attach(p);
}

static struct bpf_link *attach_no_moves(struct bpf_program *p)
{
	return has_prefix(p, "on_move") ? refuse() : kernel_sys_real.attach(p);
}

static void with(enum move_means by, struct bpf_link *(*attach)(struct bpf_program *p),
		 const char *not_there)
{
	const struct kernel_opts o = {.sys = &sys};
	struct tenants t;

	sys = kernel_sys_real;
	sys.attach = attach;
	make_tenants(&t, &o);
	if (!t.k->on_move[by])
		skip(&t, not_there);
	cr_assert(moves(t.k) && t.k->move_by == by);
	play_all(&t, false);
	play_all(&t, true);
	end_tenants(&t);
}

Test(kernel_moves, by_fentry)
{
	with(MOVE_FENTRY, attach_no_kprobe, "the kernel takes no fentry program");
}

Test(kernel_moves, by_a_kprobe)
{
	with(MOVE_KPROBE, attach_no_fentry, "the kernel has no kprobes");
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

	run_on(1);
	switch_seldom();
	for (unsigned int i = 0; i < WARM + STINTS; i++) {
		const size_t pages = 20 + i % 13;
		char *p;

		if (i == WARM) { /* what a process does first is done */
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

/* perf's own events of a cgroup, as those of perf stat --for-each-cgroup. False: not possible. */
static bool open_perf(const char *name, struct bed_counters *c)
{
	struct perf_event_attr attr;
	int dir = bed_open_cgroup(name), fd;

	cr_assert_eq(vpmu_key_to_attr(keys[0], &attr), 0);
	c->nr = 0;
	for (int cpu = 0; cpu < (int)sysconf(_SC_NPROCESSORS_ONLN) && cpu < 64; cpu++) {
		fd = (int)syscall(SYS_perf_event_open, &attr, dir, cpu, -1,
				  PERF_FLAG_PID_CGROUP | PERF_FLAG_FD_CLOEXEC);
		if (fd >= 0)
			c->fd[c->nr++] = fd;
	}
	close(dir);
	return c->nr > 0;
}

/* With a program for moves if @shown and the kernel takes it. */
static void beside_perf(bool shown)
{
	const struct kernel_opts o = {.sys = &sys};
	struct stints *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct bed_counters perf[2] = {{.nr = 0}};
	uint64_t ours[2], theirs[2];
	struct tenants t;
	bool opened, seen;
	pid_t pid;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("needs two CPUs");
	sys = kernel_sys_real;
	sys.attach = shown ? kernel_sys_real.attach : attach_no_moves;
	make_tenants(&t, &o);
	seen = moves(t.k);
	run_on(0);
	pid = bed_spawn("a", work_stints, s);
	while (__atomic_load_n(&s->step, __ATOMIC_ACQUIRE) != WAITS)
		usleep(1000);
	opened = open_perf("a", &perf[0]) && open_perf("b", &perf[1]);
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
	printf("# %d moves, page faults in a and b: %llu and %llu; vpmu %s the program for moves: "
	       "%llu and %llu; perf: %llu and %llu\n",
	       STINTS, (unsigned long long)s->faults[0], (unsigned long long)s->faults[1],
	       seen ? "with" : "without", (unsigned long long)ours[0], (unsigned long long)ours[1],
	       (unsigned long long)theirs[0], (unsigned long long)theirs[1]);
	for (int i = 0; seen && i < 2; i++)
		cr_expect_eq(ours[i], s->faults[i]);
	bed_kill(pid);
	end_tenants(&t);
	munmap(s, sizeof(*s));
}

Test(kernel_moves, beside_perf)
{
	beside_perf(true);
	beside_perf(false);
}

/* As the documentation says of such a kernel. */
Test(kernel_moves, not_shown_by_the_kernel)
{
	const struct kernel_opts o = {.sys = &sys};
	struct tenants t;
	struct kernel_usage u;
	struct job *j;
	unsigned int right = 0, ran = 0;

	sys = kernel_sys_real;
	sys.attach = attach_no_moves;
	make_tenants(&t, &o);
	kernel_usage(t.k, &u);
	cr_expect(!u.moves && strstr(u.moves_why, "from the last switch on"), "%s", u.moves_why);
	cr_expect_eq(u.programs, 1u);
	j = make_job("a");
	j->first = j->second = 100;
	play(j, "a", "b", false);
	for (unsigned int i = 0; i < MOST_ROUNDS && ran < ROUNDS / 2; i++) {
		look(&t);
		if (!play(j, "a", "b", false))
			continue;
		ran++;
		right += have(&t, 0, 200, 0);
	}
	cr_expect(ran >= ROUNDS / 2 && right + 1 >= ran, "%u of %u", right, ran);
	cr_expect_gt(bed_conserved(kernel_source(t.k)), 0);
	bed_kill(j->pid);
	end_tenants(&t);
}
