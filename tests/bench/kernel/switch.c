// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-kernel-bench: what the kernel plane adds to a context switch, beside perf's two ways to
 * count cgroups, in one run. Two processes on one CPU pass a byte back and forth. What is printed
 * is CPU time of both for each switch, less that without any counting: the best of the rounds, in
 * each of which all candidates take their turns. Needs root, BPF, cgroup2; peers need perf.
 *
 *   vpmu-kernel-bench [--rounds N] [--tenants N,N...] [--quick] [PERF=path] switch|scale|read
 *
 * switch compares; read says what reading 1,000 VMs with 8 keys costs, and what a switch costs
 * meanwhile; scale opens and reads 10,000 tenants. docs/kernel-plane.md explains the figures. It
 * never judges: the exit status is 0, or 77 where it cannot run.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "cgroup/kernel/kernel.h"
#include "vpmu/event/event.h"

#define EVENTS4	    "cpu-clock,context-switches,page-faults,cpu-migrations"
#define EVENTS8	    EVENTS4 ",task-clock,minor-faults,major-faults,alignment-faults"
#define MAX_ROUNDS  101
#define MAX_TENANTS 10000
#define PLAYS	    6	 /* of one measurement; the best one counts, for others use the CPU too */
#define SWITCHES    8000 /* of a play */

static const char *perf_path = "perf";
static char top[128], rel[24];
static uint64_t ids[MAX_TENANTS];
static unsigned int made;

static _Noreturn void skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# SKIP ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	exit(77);
}

static double now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* ---- cgroups ------------------------------------------------------------------------------ */

static void end_cgroups(void)
{
	char path[200];

	while (made) {
		snprintf(path, sizeof(path), "%s/c%u", top, --made);
		for (int i = 0; rmdir(path) && errno == EBUSY && i < 100; i++)
			usleep(10000);
	}
	if (top[0])
		rmdir(top);
}

static void begin_cgroups(void)
{
	char line[512], dir[100], type[32];
	FILE *f = fopen("/proc/self/mounts", "re");

	while (!top[0] && f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %99s %31s", dir, type) == 2 && !strcmp(type, "cgroup2")) {
			snprintf(rel, sizeof(rel), "vpmu-bench-%d", getpid());
			snprintf(top, sizeof(top), "%s/%s", dir, rel);
		}
	if (f)
		fclose(f);
	if (!top[0] || mkdir(top, 0755))
		skip("no cgroup2 where cgroups can be made");
	atexit(end_cgroups);
}

static void need_cgroups(unsigned int n)
{
	char path[200];
	struct stat st;

	for (; made < n; made++) {
		snprintf(path, sizeof(path), "%s/c%u", top, made);
		if (mkdir(path, 0755) || stat(path, &st))
			skip("%s: %s", path, strerror(errno));
		ids[made] = st.st_ino;
	}
}

static void enter(int cgroup)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/c%d/cgroup.procs", top, cgroup);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		_exit(1);
	close(fd);
}

/* ---- the workload ------------------------------------------------------------------------- */

/* Two processes on @cpu, in cgroups a and b (-1: ours): CPU ns for each switch. */
static double play(int a, int b, int cpu, unsigned int switches)
{
	const int cgroup[2] = {a, b};
	struct rusage u;
	double ns = 0;
	pid_t pid[2];
	int p[2][2], status;

	if (pipe(p[0]) || pipe(p[1]))
		skip("pipe: %s", strerror(errno));
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i])
			continue;
		cpu_set_t set;
		char c = 0;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
		if (cgroup[i] >= 0)
			enter(cgroup[i]);
		for (unsigned int n = 0; n < switches / 2; n++) {
			if (i == 0 && write(p[0][1], &c, 1) != 1)
				_exit(1);
			if (read(p[!i][0], &c, 1) != 1)
				_exit(1);
			if (i == 1 && write(p[1][1], &c, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	for (int i = 0; i < 2; i++) {
		wait4(pid[i], &status, 0, &u);
		if (status) /* the other one waits for it */
			kill(pid[!i], SIGKILL);
		ns += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 +
		      (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
		close(p[i][0]);
		close(p[i][1]);
	}
	return ns / switches;
}

/* ---- who counts --------------------------------------------------------------------------- */

struct plane {
	struct kernel_plane *k;
	struct vpmu_source_node *node[MAX_TENANTS];
	struct vpmu_counting *list;
	unsigned int nr;
};

static void plane_open(struct plane *p, unsigned int tenants, const char *events)
{
	static struct vpmu_value values[MAX_TENANTS][8];
	static vpmu_key_t keys[8];
	const struct kernel_opts o = {.pin_dir = NULL};
	char why[512];
	size_t n = 8, failed;
	int ret = kernel_open(&o, &p->k, why, sizeof(why));

	if (ret)
		skip("%s", why);
	if (vpmu_event_parse_list(events, VPMU_SPACE_GENERIC, keys, NULL, &n, why, sizeof(why)))
		skip("%s", why);
	p->nr = tenants;
	p->list = NULL;
	for (unsigned int i = 0; i < tenants; i++) {
		struct vpmu_counting *c;

		if (vpmu_source_node_add(kernel_source(p->k)->root, i + 1, &p->node[i]) ||
		    kernel_bind_cgroup(p->node[i], ids[i]) ||
		    !(c = vpmu_counting_new(p->node[i], keys, n, values[i])))
			skip("node %u: no memory", i);
		c->next = p->list;
		p->list = c;
	}
	ret = tenants ? vpmu_source_attach(p->list, &failed) : 0;
	if (ret)
		skip("attach: %s", strerror(-ret));
}

static void plane_close(struct plane *p)
{
	if (p->nr)
		vpmu_source_detach(p->list);
	while (p->list) {
		struct vpmu_counting *c = p->list;

		p->list = c->next;
		vpmu_counting_free(c);
	}
	kernel_close(p->k);
}

/* perf stat --for-each-cgroup, once it counts. */
static pid_t perf_start(unsigned int tenants, const char *events, bool bpf)
{
	size_t len = tenants * (strlen(rel) + 8) + 1;
	char *list = malloc(len), *at = list;
	int ready[2];
	pid_t pid;
	char c;

	for (unsigned int i = 0; i < tenants; i++)
		at += snprintf(at, len - (size_t)(at - list), "%s%s/c%u", i ? "," : "", rel, i);
	if (pipe(ready))
		skip("pipe: %s", strerror(errno));
	pid = fork();
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0); /* perf leaves it to the terminal to end its command */
		dup2(null, 1);
		dup2(null, 2);
		/* perf starts the command when it counts. */
		char sh[64];

		snprintf(sh, sizeof(sh), "echo >/dev/fd/%d; exec sleep 1000", ready[1]);
		if (bpf)
			execlp(perf_path, "perf", "stat", "--bpf-counters", "-a", "-e", events,
			       "--for-each-cgroup", list, "sh", "-c", sh, NULL);
		else
			execlp(perf_path, "perf", "stat", "-a", "-e", events, "--for-each-cgroup",
			       list, "sh", "-c", sh, NULL);
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &c, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	free(list);
	return pid;
}

static void perf_stop(pid_t pid)
{
	kill(-pid, SIGINT);
	waitpid(pid, NULL, 0);
}

/* A program that does nothing, at every switch as ours is (tp_btf). */
static int empty_btf_start(void)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP);
	int prog, link, id = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);

	if (id <= 0)
		return -1;
	opts.attach_btf_id = (__u32)id;
	prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "GPL", insns, 2, &opts);
	if (prog < 0)
		return -1;
	link = bpf_raw_tracepoint_open(NULL, prog);
	close(prog);
	return link;
}

/* A program that does nothing, at the switch (raw_tp) or when the cgroup changes (perf event). */
static int empty_start(bool cgroup_switches, int cpu)
{
	const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CGROUP_SWITCHES,
		.sample_period = 1,
	};
	int prog = bpf_prog_load(cgroup_switches ? BPF_PROG_TYPE_PERF_EVENT
						 : BPF_PROG_TYPE_RAW_TRACEPOINT,
				 "empty", "GPL", insns, 2, NULL);
	int fd;

	if (prog < 0)
		return -1;
	if (!cgroup_switches) {
		fd = bpf_raw_tracepoint_open("sched_switch", prog);
	} else {
		fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog)) {
			close(fd);
			fd = -1;
		}
	}
	close(prog);
	return fd;
}

/* ---- measuring ---------------------------------------------------------------------------- */

enum who { NOBODY, EMPTY_BTF, EMPTY_TP, EMPTY_CG, PLANE, PERF, BPERF };

struct candidate {
	const char *name;
	enum who who;
	unsigned int tenants;
	int events; /* 4 or 8 */
	int a, b;   /* the workers' cgroups */
	double ns[MAX_ROUNDS];
	unsigned int n;
	double added; /* in bench_switch, after all rounds */
};

static double measure(struct candidate *c, int cpu)
{
	static struct plane plane;
	const char *events = c->events == 8 ? EVENTS8 : EVENTS4;
	pid_t perf = 0;
	int fd = -1;
	double ns;

	if (c->who == PLANE)
		plane_open(&plane, c->tenants, events);
	if (c->who == PERF || c->who == BPERF) {
		perf = perf_start(c->tenants, events, c->who == BPERF);
		if (!perf)
			return -1;
	}
	if (c->who == EMPTY_BTF || c->who == EMPTY_TP || c->who == EMPTY_CG) {
		fd = c->who == EMPTY_BTF ? empty_btf_start() : empty_start(c->who == EMPTY_CG, cpu);
		if (fd < 0)
			return -1;
	}
	ns = play(c->a, c->b, cpu, SWITCHES);
	for (int i = 1; i < PLAYS; i++) {
		double more = play(c->a, c->b, cpu, SWITCHES);

		ns = more < ns ? more : ns;
	}
	if (c->who == PLANE)
		plane_close(&plane);
	if (perf)
		perf_stop(perf);
	if (fd >= 0)
		close(fd);
	return ns;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v, unsigned int n)
{
	if (!n)
		return -1;
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}

/* Others use the CPU, too: that only makes a play dearer. */
static double best(double *v, unsigned int n)
{
	if (!n)
		return -1;
	qsort(v, n, sizeof(*v), by_value);
	return v[0];
}

static const struct candidate *find(const struct candidate *c, unsigned int n, enum who who,
				    unsigned int tenants, int events, int a, int b)
{
	for (unsigned int i = 0; i < n; i++)
		if (c[i].who == who && c[i].tenants == tenants && c[i].events == events &&
		    c[i].a == a && c[i].b == b)
			return &c[i];
	return NULL;
}

static void print_ratio(const char *what, unsigned int tenants, const struct candidate *a,
			const struct candidate *b, double goal)
{
	if (a && b && a->n && b->n && b->added > 0)
		printf("%-52s %7u %6.2f   goal %.2f\n", what, tenants, a->added / b->added, goal);
}

/* The goals are ratios of one run. */
static void print_ratios(const struct candidate *c, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int t = c[i].tenants;

		if (c[i].who != PLANE || c[i].a == c[i].b || c[i].a != 0 || !t)
			continue;
		if (c[i].events == 4)
			print_ratio("4 events / perf --for-each-cgroup, 4 events", t, &c[i],
				    find(c, n, PERF, t, 4, 0, 1), 0.3);
		print_ratio(c[i].events == 4 ? "4 events / perf --bpf-counters, 4 events"
					     : "8 events / perf --bpf-counters, 4 events",
			    t, &c[i], find(c, n, BPERF, t, 4, 0, 1), c[i].events == 4 ? 0.5 : 0.75);
	}
	print_ratio("within one tenant / empty tp_btf", 2, find(c, n, PLANE, 2, 4, 0, 0),
		    find(c, n, EMPTY_BTF, 0, 4, 0, 0), 1.2);
	print_ratio("uncounted, one cgroup / empty tp_btf", 2, find(c, n, PLANE, 2, 4, 2, 2),
		    find(c, n, EMPTY_BTF, 0, 4, 0, 0), 1.2);
	print_ratio("uncounted, two cgroups / empty tp_btf", 2, find(c, n, PLANE, 2, 4, 2, 3),
		    find(c, n, EMPTY_BTF, 0, 4, 0, 1), 1.2);
}

static int bench_switch(unsigned int rounds, const unsigned int *tenants, unsigned int nr, int cpu)
{
	struct candidate c[64] = {
		{"nothing", NOBODY, 0, 4, 0, 1, {0}, 0, 0},
		{"nothing, one cgroup", NOBODY, 0, 4, 0, 0, {0}, 0, 0},
		{"empty program, tp_btf", EMPTY_BTF, 0, 4, 0, 1, {0}, 0, 0},
		{"empty program, tp_btf, one cgroup", EMPTY_BTF, 0, 4, 0, 0, {0}, 0, 0},
		{"empty program, raw_tp", EMPTY_TP, 0, 4, 0, 1, {0}, 0, 0},
		{"empty program, raw_tp, one cgroup", EMPTY_TP, 0, 4, 0, 0, {0}, 0, 0},
		{"empty program, cgroup-switches", EMPTY_CG, 0, 4, 0, 1, {0}, 0, 0},
		{"empty program, cgroup-switches, one cgroup", EMPTY_CG, 0, 4, 0, 0, {0}, 0, 0},
		{"vpmu, nobody counts", PLANE, 0, 4, 0, 1, {0}, 0, 0},
		{"vpmu, within one tenant", PLANE, 2, 4, 0, 0, {0}, 0, 0},
		{"vpmu, uncounted tasks of one cgroup", PLANE, 2, 4, 2, 2, {0}, 0, 0},
		{"vpmu, uncounted tasks of two cgroups", PLANE, 2, 4, 2, 3, {0}, 0, 0},
	};
	unsigned int n = 12;

	need_cgroups(4);
	for (unsigned int i = 0; i < nr; i++) {
		need_cgroups(tenants[i] < 4 ? 4 : tenants[i]);
		for (int events = 4; events <= 8; events += 4) {
			c[n++] = (struct candidate){"vpmu", PLANE, tenants[i], events, 0,
						    1,	    {0},   0,	       0};
			c[n++] = (struct candidate){
				"perf --bpf-counters", BPERF, tenants[i], events, 0, 1, {0}, 0, 0};
			if (tenants[i] <= 1000)
				c[n++] = (struct candidate){"perf", PERF, tenants[i], events, 0,
							    1,	    {0},  0,	      0};
		}
	}
	for (unsigned int r = 0; r < rounds; r++) {
		for (unsigned int i = 0; i < n; i++) {
			double ns = measure(&c[i], cpu);

			if (ns >= 0)
				c[i].ns[c[i].n++] = ns;
		}
	}
	printf("%-44s %7s %6s %9s %9s\n", "added CPU ns per switch", "tenants", "events", "ns",
	       "added");
	for (unsigned int i = 0; i < n; i++) {
		double ns = median(c[i].ns, c[i].n);

		c[i].added =
			ns < 0 ? -1 : ns - median(c[c[i].a == c[i].b].ns, c[c[i].a == c[i].b].n);
		if (ns < 0)
			printf("%-44s %7u %6d   cannot run here\n", c[i].name, c[i].tenants,
			       c[i].events);
		else
			printf("%-44s %7u %6d %9.0f %9.0f\n", c[i].name, c[i].tenants, c[i].events,
			       ns, c[i].added);
	}
	print_ratios(c, n);
	return 0;
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 65536; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int bench_scale(unsigned int tenants)
{
	static struct plane p;
	struct kernel_usage u;
	struct rusage r;
	double t0, t1;
	unsigned int files = open_files();

	need_cgroups(tenants);
	t0 = now(CLOCK_MONOTONIC);
	plane_open(&p, tenants, EVENTS8);
	t1 = now(CLOCK_MONOTONIC);
	printf("%u tenants, 8 keys: opened and attached in %.0f ms", tenants, (t1 - t0) / 1e6);
	for (int i = 0; i < 3; i++) {
		t0 = now(CLOCK_MONOTONIC);
		vpmu_source_flush(p.list);
		for (struct vpmu_counting *c = p.list; c; c = c->next)
			vpmu_source_read(c);
		t1 = now(CLOCK_MONOTONIC);
		printf("%s %.1f ms", i ? "," : "; all read in", (t1 - t0) / 1e6);
	}
	kernel_usage(p.k, &u);
	getrusage(RUSAGE_SELF, &r);
	printf("; %u files, %u of them events; maps %.1f MB; at most %.1f MB resident\n",
	       open_files() - files, u.events, (double)u.map_bytes / 1e6,
	       (double)r.ru_maxrss / 1e3);
	t0 = now(CLOCK_MONOTONIC);
	plane_close(&p);
	printf("detached and closed in %.0f ms\n", (now(CLOCK_MONOTONIC) - t0) / 1e6);
	return 0;
}

/* What reading 1,000 VMs costs, and what a switch costs while one reader reads ten times a second
 * on another CPU: the same plane, in turns. */
static int bench_read(unsigned int rounds, unsigned int vms, int cpu)
{
	static struct plane p;
	double calm[MAX_ROUNDS], busy[MAX_ROUNDS], cost[MAX_ROUNDS];
	const struct timespec pause = {.tv_nsec = 100000000};
	int go[2];

	need_cgroups(vms);
	plane_open(&p, vms, EVENTS8);
	for (unsigned int r = 0; r < rounds; r++) {
		double t0 = now(CLOCK_PROCESS_CPUTIME_ID);
		pid_t player;

		vpmu_source_flush(p.list);
		for (struct vpmu_counting *c = p.list; c; c = c->next)
			vpmu_source_read(c);
		cost[r] = now(CLOCK_PROCESS_CPUTIME_ID) - t0;
		calm[r] = play(0, 1, cpu, 5 * SWITCHES);
		if (pipe(go))
			skip("pipe: %s", strerror(errno));
		player = fork();
		if (!player) {
			busy[r] = play(0, 1, cpu, 5 * SWITCHES);
			_exit(write(go[1], &busy[r], sizeof(busy[r])) != sizeof(busy[r]));
		}
		while (!waitpid(player, NULL, WNOHANG)) {
			vpmu_source_flush(p.list);
			for (struct vpmu_counting *c = p.list; c; c = c->next)
				vpmu_source_read(c);
			nanosleep(&pause, NULL);
		}
		if (read(go[0], &busy[r], sizeof(busy[r])) != sizeof(busy[r]))
			skip("the workload failed");
		close(go[0]);
		close(go[1]);
	}
	plane_close(&p);
	printf("reading %u VMs, 8 keys: %.1f ms CPU   goal 20\n", vms, median(cost, rounds) / 1e6);
	printf("a switch: %.0f ns; while they are read ten times a second: %.0f ns; ratio %.3f   "
	       "goal 1.02\n",
	       best(calm, rounds), best(busy, rounds), best(busy, rounds) / best(calm, rounds));
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int rounds = 9, tenants[8] = {1, 100, 500}, nr = 3;
	const char *what = "switch";
	int cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--rounds") && i + 1 < argc) {
			rounds = (unsigned int)atoi(argv[++i]);
		} else if (!strcmp(argv[i], "--tenants") && i + 1 < argc) {
			nr = 0;
			for (char *t = strtok(argv[++i], ","); t && nr < 8; t = strtok(NULL, ","))
				tenants[nr++] = (unsigned int)atoi(t);
		} else if (!strcmp(argv[i], "--quick")) {
			rounds = 1;
			tenants[0] = 2;
			nr = 1;
		} else if (!strncmp(argv[i], "PERF=", 5)) {
			perf_path = argv[i] + 5;
		} else if (argv[i][0] != '-') {
			what = argv[i];
		} else {
			fprintf(stderr, "vpmu-kernel-bench: unknown option '%s'\n", argv[i]);
			return 2;
		}
	}
	if (rounds < 1 || rounds > MAX_ROUNDS)
		rounds = MAX_ROUNDS;
	for (unsigned int i = 0; i < nr; i++)
		if (tenants[i] < 1 || tenants[i] > MAX_TENANTS)
			tenants[i] = MAX_TENANTS;
	setvbuf(stdout, NULL, _IOLBF, 0);
	begin_cgroups();
	if (!strcmp(what, "read"))
		return bench_read(rounds, nr == 3 ? 1000 : tenants[0], cpu);
	return !strcmp(what, "scale") ? bench_scale(nr == 3 ? MAX_TENANTS : tenants[0])
				      : bench_switch(rounds, tenants, nr, cpu);
}
