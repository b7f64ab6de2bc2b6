// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CPUs that come and go around a restart of the daemon, and events that count no longer for another
 * reason: uncounted work must show in the values, and the CPU gets new events. With a /sys of
 * the test's own, and, where CPU 1 can be switched off (root), with the real one. Skipped where BPF
 * or mounting is not permitted.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "cgroup/slot.h"
#include "tests/integration/cgroup_bed.h"

#define FAULTS 1000
#define KEYS   5
#define ONLINE "/sys/devices/system/cpu/cpu1/online"

/* SWITCHES needs no event on some kernels. The host cannot count CYCLES until a test enables them.
 */
enum { SWITCHES = 3, CYCLES };
static const vpmu_key_t keys[KEYS] = {
	SW(PERF_COUNT_SW_PAGE_FAULTS), SW(PERF_COUNT_SW_PAGE_FAULTS_MIN),
	SW(PERF_COUNT_SW_CPU_CLOCK), SW(PERF_COUNT_SW_CONTEXT_SWITCHES),
	(vpmu_key_t)VPMU_SPACE_GENERIC << VPMU_KEY_SPACE_SHIFT | VPMU_EV_CYCLES | VPMU_KEY_USR |
		VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST};

static char dir[BED_PIN_DIR];
static char files[64];
static struct bpf_backend_sys sys;
static pid_t job;

static struct shared {
	uint64_t cgroup;
	struct bpf_backend_base base[KEYS];
	int ready, tend;
} * sh;

/* ---- the machine -------------------------------------------------------------------------- */

static void command(const char *cmd)
{
	bed_system("cd %s/sys/devices/system/cpu && %s", files, cmd);
}

static void write_online(const char *text)
{
	int fd = open(ONLINE, O_WRONLY | O_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, text, 1) == 1, "%s: %s", ONLINE, strerror(errno));
	close(fd);
}

/* With the test's own /sys the CPU itself stays as it is: only its directory is another one. */
static void cpu1(bool real, bool online)
{
	if (real)
		write_online(online ? "1" : "0");
	else if (online)
		command("echo 0-1 > online && mkdir new && rm -r cpu1/topology && "
			"mv new cpu1/topology");
	else
		command("echo 0 > online");
}

static bool dead;   /* the next events of CPU 1 do not count */
static bool cycles; /* they are a clock */

static int open_some(const struct perf_event_attr *attr, int cpu, int group)
{
	struct perf_event_attr a = *attr;

	a.disabled |= dead && cpu == 1;
	if (a.type == PERF_TYPE_HARDWARE) {
		if (!cycles)
			return -ENOENT;
		a.type = PERF_TYPE_SOFTWARE;
		a.config = PERF_COUNT_SW_CPU_CLOCK;
	}
	return bpf_backend_sys_real.event_open(&a, cpu, group);
}

static void job_on_cpu1(void)
{
	bed_run_on(job, 1);
	bed_job_go();
}

static void finish(void)
{
	bed_end();
	if (files[0])
		bed_system("rm -r %s", files);
}

static void begin(bool real)
{
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	/* The real CPU 1 goes while no other test of this program runs. */
	cr_assert(self >= 0 && !flock(self, real ? LOCK_EX : LOCK_SH));
	bed_begin();
	bed_two_cpus();
	bed_pin_dir(dir);
	strcpy(files, "/tmp/vpmu-cpus-XXXXXX");
	cr_assert(mkdtemp(files));
	sys = bpf_backend_sys_real;
	sys.event_open = open_some;
	if (!real) {
		bed_system("cd %s && mkdir -p sys/devices/system/cpu/cpu0/topology "
			   "sys/devices/system/cpu/cpu1/topology && ln -s /proc . && "
			   "ln -s /sys/kernel /sys/bus sys",
			   files);
		command("echo 0-1 > online");
		sys.files = files;
	}
	sh = bed_share(sizeof(*sh));
	sh->cgroup = bed_cgroup("t");
	job = bed_job("t", FAULTS);
	job_on_cpu1();
}

/* ---- the daemons -------------------------------------------------------------------------- */

static struct bpf_backend *backend_open(bool found, struct vpmu_counting **c)
{
	const struct bpf_backend_opts o = {.pin_dir = dir, .sys = &sys};
	struct bpf_backend *k = bed_reopen(&o);
	struct vpmu_backend_node *n = bed_node(bpf_as_backend(k)->root);

	cr_assert_eq(bpf_backend_name(n, 77), found);
	if (!found)
		cr_assert_eq(bpf_backend_bind_cgroup(n, sh->cgroup), 0);
	*c = bed_counting(n, keys, KEYS, NULL);
	bed_attach(*c);
	return k;
}

/* It tends at a command, and is killed. */
static pid_t former(void)
{
	struct bpf_backend *k;
	struct vpmu_counting *c;
	pid_t pid;

	sh->ready = sh->tend = 0;
	pid = bed_fork();
	if (!pid) {
		k = backend_open(false, &c);
		for (size_t i = 0; i < KEYS; i++)
			bpf_backend_base_get(c, i, &sh->base[i]);
		__atomic_store_n(&sh->ready, 1, __ATOMIC_RELEASE);
		for (;; usleep(1000)) {
			if (!__atomic_load_n(&sh->tend, __ATOMIC_ACQUIRE))
				continue;
			bpf_backend_tend(k);
			__atomic_store_n(&sh->tend, 0, __ATOMIC_RELEASE);
		}
	}
	bed_wait(pid, &sh->ready);
	return pid;
}

static void former_tends(void)
{
	__atomic_store_n(&sh->tend, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&sh->tend, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static struct bpf_backend *next(struct vpmu_counting **c)
{
	struct bpf_backend *k = backend_open(true, c);

	for (size_t i = 0; i < KEYS; i++)
		cr_assert_eq(bpf_backend_base_set(*c, i, &sh->base[i]), 0);
	bpf_backend_named(k);
	return k;
}

/* What @c counted: @jobs times FAULTS, and @partial. @lost: some of the time has no count. Where
 * the kernel has hidden a switch, a value may be partial for that, and then lacks something. */
static void expect(const char *what, struct bpf_backend *k, struct vpmu_counting *c,
		   unsigned int jobs, bool partial, bool lost)
{
	struct bpf_backend_usage u;

	bpf_backend_usage(k, &u);
	if (u.missed)
		printf("# %s: %lu switches were hidden\n", what, u.missed);
	for (size_t i = 0; i < KEYS; i++) {
		const struct vpmu_value *v = &c->values[i];
		bool none = k->sees_hidden && i == SWITCHES;

		cr_expect_eq(v->supported, i != CYCLES || cycles, "%s: key %zu", what, i);
		if (!v->supported)
			continue;
		if (u.missed && v->partial) {
			cr_expect(i >= 2 || v->count <= jobs * FAULTS, "%s: key %zu: %lu faults",
				  what, i, v->count);
			continue;
		}
		cr_expect_eq(v->partial, partial && !none, "%s: key %zu: partial %d", what, i,
			     v->partial);
		if (i < 2)
			cr_expect_eq(v->count, jobs * FAULTS, "%s: key %zu: %lu faults", what, i,
				     v->count);
		if (!none)
			cr_expect_eq(v->running_ns < v->enabled_ns, lost,
				     "%s: key %zu: %lu of %lu ns", what, i, v->running_ns,
				     v->enabled_ns);
	}
}

/* ---- a CPU that goes and comes ------------------------------------------------------------ */

static const struct way {
	const char *what;
	bool seen;  /* the former daemon has seen that it went */
	bool later; /* it is back when the next one is there */
} ways[] = {
	{"went and came while nobody was there", false, false},
	{"came while nobody was there", true, false},
	{"went while nobody was there", false, true},
};

static void goes_and_comes(const struct way *w, bool real)
{
	bool gap = !w->seen && !w->later;
	struct vpmu_counting *c;
	struct bpf_backend *k;
	pid_t pid = former();

	printf("# %s: CPU 1 %s\n", real ? "real" : "own /sys", w->what);
	job_on_cpu1();
	if (w->seen) {
		cpu1(real, false);
		former_tends();
	}
	bed_kill(pid);
	if (!w->seen)
		cpu1(real, false);
	if (!w->later) {
		cpu1(real, true);
		job_on_cpu1();
	}
	k = next(&c);
	if (w->later) {
		cpu1(real, true);
		job_on_cpu1();
	}
	bpf_backend_tend(k);
	job_on_cpu1();
	for (unsigned int i = 0; i < CYCLES; i++)
		cr_expect(slot_needs_none(k, i) || k->slot[i].fd[1] >= 0, "slot %u", i);
	cr_expect_geq(bed_conserved(bpf_as_backend(k)), CYCLES);
	bed_detach(c);
	/* In a /sys of the test's own the events of the CPU went on. */
	expect(w->what, k, c, gap && !real ? 3 : 2, gap, !gap);
	bed_close(k);
	bed_system("rm -r %s", dir);
}

Test(bpf_backend_cpus, around_a_restart)
{
	begin(false);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		goes_and_comes(&ways[i], false);
	finish();
}

/* Whatever becomes of the test, the CPU comes back. */
static int guard(void)
{
	int end[2];
	char c;

	cr_assert_eq(pipe2(end, O_CLOEXEC), 0);
	if (!fork()) {
		close(end[1]);
		setsid();
		while (read(end[0], &c, 1) < 0 && errno == EINTR)
			;
		write_online("1");
		_exit(0);
	}
	close(end[0]);
	return end[1];
}

Test(bpf_backend_cpus_real, around_a_restart)
{
	int end;

	if (access(ONLINE, W_OK))
		cr_skip_test("CPU 1 cannot be switched off: %s: %s", ONLINE, strerror(errno));
	begin(true);
	end = guard();
	goes_and_comes(&ways[0], true);
	close(end);
	finish();
}

/* ---- events that count no longer ---------------------------------------------------------- */

/* Whatever the cause: the next daemon looks whether the events of the former one count. */
Test(bpf_backend_cpus, dead_events_are_found_at_a_takeover)
{
	struct bpf_backend_usage u;
	struct vpmu_counting *c;
	struct bpf_backend *k;

	begin(false);
	dead = true;
	bed_kill(former());
	dead = false;
	job_on_cpu1();
	k = next(&c);
	bpf_backend_usage(k, &u);
	cr_expect_eq(u.events % (CYCLES - k->sees_hidden), 0u, "%u events", u.events);
	cr_expect_gt(u.events, CYCLES);
	job_on_cpu1();
	for (unsigned int i = 0; i < CYCLES; i++) {
		cr_expect(slot_needs_none(k, i) || k->slot[i].fd[1] >= 0, "slot %u of CPU 1", i);
		cr_expect_lt(k->slot[i].fd[0], 0, "slot %u of CPU 0", i);
	}
	bed_detach(c);
	expect("at a takeover", k, c, 1, true, false);
	bed_close(k);
	finish();
}

/* A comparison of counts and charges finds nothing wrong with an event that counts no
 * longer. */
Test(bpf_backend_cpus, dead_events_are_found_by_conservation)
{
	struct vpmu_counting *c;
	struct bpf_backend *k;

	begin(false);
	k = backend_open(false, &c);
	job_on_cpu1();
	cr_expect_geq(bed_conserved(bpf_as_backend(k)), CYCLES);
	bed_read(c);
	expect("before", k, c, 1, false, false);
	for (unsigned int i = 0; i < KEYS; i++)
		if (k->slot[i].fd[1] >= 0)
			cr_assert_eq(ioctl(k->slot[i].fd[1], PERF_EVENT_IOC_DISABLE, 0), 0);
	job_on_cpu1();
	cr_expect_geq(bed_conserved(bpf_as_backend(k)), CYCLES);
	job_on_cpu1();
	bed_read(c);
	expect("by conservation", k, c, 2, true, false);
	for (size_t i = 0; i < KEYS; i++)
		bpf_backend_base_get(c, i, &sh->base[i]);
	bed_leave(k);

	/* That something was not counted is known after a restart, too. */
	k = next(&c);
	bed_detach(c);
	expect("after a restart", k, c, 2, true, false);
	bed_close(k);
	finish();
}

/* ---- events that no CPU could count ------------------------------------------------------ */

/* An event that the host cannot count is still not supported after a restart, and is counted after
 * one that finds that it can. */
Test(bpf_backend_cpus, unsupported_events_after_a_restart)
{
	struct vpmu_counting *c, *again;
	struct bpf_backend_budget b;
	struct bpf_backend *k;
	const struct vpmu_value *v;

	begin(false);
	bed_kill(former());
	k = next(&c);
	bpf_backend_budget(k, &b);
	cr_expect_eq(b.keys, 0u);
	again = bed_counting(c->node, &keys[CYCLES], 1, NULL);
	bed_attach(again);
	job_on_cpu1();
	bed_read(again);
	cr_expect_not(again->values[0].supported);
	vpmu_backend_read(c);
	expect("after a restart", k, c, 1, false, false);
	bed_leave(k);

	cycles = true;
	k = next(&c);
	bpf_backend_budget(k, &b);
	cr_expect_eq(b.keys, 1u);
	job_on_cpu1();
	cr_expect_geq(bed_conserved(bpf_as_backend(k)), KEYS);
	bed_detach(c);
	v = &c->values[CYCLES];
	cr_expect(v->supported && v->count && v->running_ns);
	cr_expect_lt(v->running_ns, v->enabled_ns);
	bed_close(k);
	finish();
}
