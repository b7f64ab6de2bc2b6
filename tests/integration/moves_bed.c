// SPDX-License-Identifier: GPL-2.0-or-later
/* See moves_bed.h. */
#include "tests/integration/moves_bed.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

const vpmu_key_t moves_keys[2] = {SW(PERF_COUNT_SW_PAGE_FAULTS), SW(PERF_COUNT_SW_PAGE_FAULTS_MIN)};

/* ---- a task that takes page faults, and waits between them without a switch ----------------- */

/* The pages' faults must be the only ones: AddressSanitizer takes some of its own for each access
 * and each mmap(). */
__attribute__((no_sanitize_address, no_sanitize_thread)) void touch(char *p, size_t pages)
{
	for (size_t i = 0; i < pages; i++)
		((volatile char *)p)[i * PAGE] = 1;
}

static void spin_until(struct job *j, int step)
{
	while (__atomic_load_n(&j->step, __ATOMIC_ACQUIRE) != step)
		;
}

/* The task waits without a switch. Where nothing keeps such a task from taking all of a CPU, as in
 * the beds, the kernel's own threads could not run there any more. */
void switch_seldom(void)
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
	struct rusage usage;
	char c;

	bed_run_on(0, 1);
	switch_seldom();
	close(j->start[1]);
	while (read(j->start[0], &c, 1) == 1) {
		const size_t bytes = (j->first + j->second) * PAGE;
		char *p = (char *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		madvise(p, bytes, MADV_NOHUGEPAGE);
		getrusage(RUSAGE_SELF, &usage);
		j->switches = usage.ru_nvcsw + usage.ru_nivcsw;
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

struct job *make_job(const char *cgroup)
{
	struct job *j = bed_share(sizeof(*j));

	bed_two_cpus();
	bed_run_on(0, 0);
	cr_assert(!pipe(j->start) && !pipe(j->done));
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
bool play(struct job *j, const char *from, const char *to, bool by_itself)
{
	bool ran;
	char c = 0;

	bed_move(j->pid, from);
	j->self = by_itself ? to : NULL;
	__atomic_store_n(&j->step, 0, __ATOMIC_RELEASE);
	cr_assert_eq(write(j->start[1], &c, 1), 1);
	if (!by_itself) {
		wait_for(j, WAITS);
		bed_move(j->pid, to);
		__atomic_store_n(&j->step, MOVED, __ATOMIC_RELEASE);
	}
	wait_for(j, DID_ALL);
	ran = !by_itself && switches_of(j->pid) == j->switches;
	__atomic_store_n(&j->step, MAY_SLEEP, __ATOMIC_RELEASE);
	cr_assert_eq(read(j->done[0], &c, 1), 1);
	return ran;
}
/* ---- tenants ------------------------------------------------------------------------------ */

bool moves(struct bpf_backend *k)
{
	struct bpf_backend_usage u;

	bpf_backend_usage(k, &u);
	return u.moves;
}

void end_tenants(struct tenants *t)
{
	bed_done(t->k);
}

void skip_tenants(struct tenants *t, const char *why)
{
	end_tenants(t);
	cr_skip_test("%s", why);
}

void make_tenants(struct tenants *t, const struct bpf_backend_sys *sys)
{
	static const char *const names[] = {"a", "b"};
	struct vpmu_counting *list = NULL;
	struct bpf_backend_usage u;

	t->k = bed_open(&(struct bpf_backend_opts){.sys = sys});
	bed_controllers();
	for (int i = 0; i < 3; i++) {
		t->node[i] = bed_node(bpf_as_backend(t->k)->root);
		if (i < 2)
			cr_assert_eq(bpf_backend_bind_cgroup(t->node[i], bed_cgroup(names[i])), 0);
		t->c[i] = list = bed_counting(t->node[i], moves_keys, 2, list);
	}
	bed_attach(list);
	bpf_backend_usage(t->k, &u);
	printf("# tasks that move: %s\n", u.moves_why);
	if (!sys && (t->k->move_by >= MOVE_TRACEPOINT ||
		     strstr(u.moves_why, "not in the cgroup2 hierarchy")))
		skip_tenants(t, u.moves_why);
	cr_assert(u.moves || sys);
}

void look(struct tenants *t)
{
	vpmu_backend_flush(t->c[2]);
	for (int i = 0; i < 3; i++) {
		vpmu_backend_read(t->c[i]);
		for (int k = 0; k < 2; k++)
			t->was[i][k] = t->c[i]->values[k].count;
	}
}

/* Returns true if the tenants have so many faults more than at the last look(). */
bool have(struct tenants *t, uint64_t a, uint64_t b, uint64_t task)
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
		printf("# a %lu, b %lu, task %lu; expected %lu, %lu, %lu\n",
		       (t->was[0][0] - was[0][0]), (t->was[1][0] - was[1][0]),
		       (t->was[2][0] - was[2][0]), a, b, task);
	return right;
}

/* The kernel may hide a switch (docs/internals/cgroup-counting.md): no kernel that is known to do
 * so shows moves. Where it is known that it did, the round does not count. */
uint64_t hidden(struct bpf_backend *k)
{
	struct bpf_backend_usage u;

	bpf_backend_usage(k, &u);
	return u.missed;
}
