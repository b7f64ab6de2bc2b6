// SPDX-License-Identifier: GPL-2.0-or-later
/* See kernel_bed.h. Integration tests and the bench of the kernel plane call this. */
#include "tests/integration/kernel_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "vpmu/event/event.h"

#define MAX_WORKERS 256

static pid_t workers[MAX_WORKERS];
static char top[128];	    /* the test's own cgroup */
static char names[256][32]; /* of the cgroups below it; "": free */

static const char *cgroup2(void)
{
	static char where[128];
	char line[512], dir[128], type[32];
	FILE *f = fopen("/proc/self/mounts", "re");

	while (!where[0] && f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*s %127s %31s", dir, type) == 2 && !strcmp(type, "cgroup2"))
			strcpy(where, dir);
	if (f)
		fclose(f);
	return where[0] ? where : NULL;
}

struct kernel_plane *bed_open(const struct kernel_opts *o)
{
	const char *where = cgroup2();
	struct kernel_plane *k;
	char why[512] = "";
	int ret = 0;

	if (!where)
		cr_skip_test("no cgroup2 is mounted");
	/* A test that was killed has left its own behind. */
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(top, sizeof(top), "%s/vpmu-test-%d-%u", where, getpid(), i);
		ret = mkdir(top, 0755) ? -errno : 0;
		if (ret != -EEXIST)
			break;
	}
	if (ret)
		cr_skip_test("cannot make a cgroup: %s", strerror(-ret));
	atexit(bed_end);
	ret = kernel_open(o, &k, why, sizeof(why));
	if (ret == -EPERM || ret == -EOPNOTSUPP) {
		bed_end();
		cr_skip_test("%s", why);
	}
	cr_assert_eq(ret, 0, "%s", why);
	return k;
}

const char *bed_top(void)
{
	return strrchr(top, '/') + 1;
}

static void path_of(const char *name, const char *file, char *path, size_t len)
{
	snprintf(path, len, "%s%s%s%s", top, *name ? "/" : "", name, file);
}

uint64_t bed_cgroup(const char *name)
{
	char path[256];
	struct stat st;
	unsigned int i = 0;

	path_of(name, "", path, sizeof(path));
	cr_assert(!mkdir(path, 0755) && !stat(path, &st), "%s: %s", path, strerror(errno));
	while (names[i][0])
		i++;
	snprintf(names[i], sizeof(names[i]), "%s", name);
	return st.st_ino;
}

void bed_move(pid_t pid, const char *name)
{
	char path[256], text[16];
	int fd, n;

	path_of(name, "/cgroup.procs", path, sizeof(path));
	n = snprintf(text, sizeof(text), "%d", pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	/* A worker that is just being killed cannot be moved. */
	cr_assert(fd >= 0 && (write(fd, text, (size_t)n) == n || errno == ESRCH), "%s: %s", path,
		  strerror(errno));
	close(fd);
}

static void empty(const char *name)
{
	char path[256], line[32];
	FILE *f;

	path_of(name, "/cgroup.procs", path, sizeof(path));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		bed_move(atoi(line), "");
	if (f)
		fclose(f);
}

static bool remove_dir(const char *name)
{
	char path[256];

	path_of(name, "", path, sizeof(path));
	for (int i = 0; i < 1000; i++) { /* a killed worker stays a moment */
		empty(name);
		if (!rmdir(path) || errno == ENOENT)
			return true;
		usleep(1000);
	}
	return false;
}

void bed_rmdir(const char *name)
{
	cr_assert(remove_dir(name), "%s: %s", name, strerror(errno));
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], name))
			names[i][0] = '\0';
}

void bed_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (unsigned int i = 0; i < MAX_WORKERS; i++)
		if (workers[i] == pid)
			workers[i] = 0;
}

void bed_end(void)
{
	for (unsigned int i = 0; i < MAX_WORKERS; i++)
		if (workers[i])
			bed_kill(workers[i]);
	/* "a/b" is made after "a". */
	for (unsigned int i = sizeof(names) / sizeof(names[0]); i--;)
		if (names[i][0])
			remove_dir(names[i]);
	if (top[0])
		rmdir(top);
	top[0] = '\0';
}

static bool forked;

pid_t bed_fork(void)
{
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid)
		forked = true;
	return pid;
}

/* The linker puts this in the place of Criterion's, through which all assertions go. */
void __wrap_criterion_send_assert(struct criterion_assert_stats *stats);
void __real_criterion_send_assert(struct criterion_assert_stats *stats);

void __wrap_criterion_send_assert(struct criterion_assert_stats *stats)
{
	if (!forked) {
		__real_criterion_send_assert(stats);
	} else if (!stats->passed) {
		fprintf(stderr, "%s:%u: in a child: %s\n", stats->file, stats->line,
			stats->message);
		_exit(1);
	}
}

pid_t bed_spawn(const char *cgroup, void (*fn)(void *arg), void *arg)
{
	unsigned int i = 0;
	int go[2];
	char c;
	pid_t pid;

	cr_assert_eq(pipe(go), 0);
	pid = bed_fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(workers, 0, sizeof(workers)); /* not ours to kill */
		close(go[1]);
		if (read(go[0], &c, 1) == 1)
			fn(arg);
		_exit(0);
	}
	close(go[0]);
	while (workers[i])
		i++;
	workers[i] = pid;
	bed_move(pid, cgroup);
	cr_assert_eq(write(go[1], "g", 1), 1);
	close(go[1]);
	return pid;
}

/* ---- work --------------------------------------------------------------------------------- */

void work_faults(void *arg)
{
	const size_t bytes = 64 * 4096;

	for (;;) {
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		for (size_t i = 0; p != MAP_FAILED && i < bytes; i += 4096)
			p[i] = 1;
		munmap(p, bytes);
	}
}

void work_switches(void *arg)
{
	int there[2], back[2];
	char c = 0;

	if (pipe(there) || pipe(back))
		return;
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
			;
		_exit(0);
	}
	while (write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1)
		;
}

void work_migrations(void *arg)
{
	cpu_set_t set;

	for (int cpu = 0;; cpu = (cpu + 1) % (int)sysconf(_SC_NPROCESSORS_ONLN)) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
		sched_yield();
	}
}

void work_sleeps(void *arg)
{
	const struct timespec ts = {.tv_nsec = 50000};

	for (;;)
		nanosleep(&ts, NULL);
}

struct job {
	int start, done; /* pipes */
	size_t faults;
};

static void do_job(void *arg)
{
	const struct job *j = arg;
	const size_t bytes = j->faults * 4096;
	char c;

	while (read(j->start, &c, 1) == 1) {
		char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		madvise(p, bytes, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < bytes; i += 4096)
			p[i] = 1;
		munmap(p, bytes);
		if (write(j->done, &c, 1) != 1)
			break;
	}
}

static int job_pipe[4];

void bed_job_go(void)
{
	char c = 0;

	cr_assert(write(job_pipe[1], &c, 1) == 1 && read(job_pipe[2], &c, 1) == 1);
}

pid_t bed_job(const char *cgroup, size_t faults)
{
	static struct job j;
	pid_t pid;

	cr_assert(!pipe(job_pipe) && !pipe(job_pipe + 2));
	j = (struct job){.start = job_pipe[0], .done = job_pipe[3], .faults = faults};
	pid = bed_spawn(cgroup, do_job, &j);
	bed_job_go(); /* what a process does first is done */
	return pid;
}

uint64_t bed_start_time(pid_t tid)
{
	char path[64], line[1024] = "", *at;
	unsigned long long v = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", tid, tid);
	f = fopen(path, "re");
	at = f && fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		v = strtoull(at, NULL, 10);
	if (f)
		fclose(f);
	return v;
}

/* ---- comparing ---------------------------------------------------------------------------- */

void bed_counters(struct bed_counters *c, vpmu_key_t key)
{
	struct perf_event_attr attr;

	cr_assert_eq(vpmu_key_to_attr(key, &attr), 0);
	c->nr = 0;
	for (int cpu = 0; cpu < (int)sysconf(_SC_NPROCESSORS_CONF) && c->nr < 64; cpu++) {
		int fd =
			(int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd >= 0)
			c->fd[c->nr++] = fd;
	}
	cr_assert_gt(c->nr, 0);
}

uint64_t bed_counters_read(const struct bed_counters *c)
{
	uint64_t sum = 0, v;

	for (unsigned int i = 0; i < c->nr; i++) {
		cr_assert_eq(read(c->fd[i], &v, sizeof(v)), sizeof(v));
		sum += v;
	}
	return sum;
}

void bed_counters_close(struct bed_counters *c)
{
	while (c->nr)
		close(c->fd[--c->nr]);
}

struct vpmu_counting *bed_counting(struct vpmu_source_node *n, const vpmu_key_t *keys, size_t nr,
				   struct vpmu_counting *next)
{
	struct vpmu_value *values = calloc(nr, sizeof(*values));
	vpmu_key_t *copy = calloc(nr, sizeof(*copy));
	struct vpmu_counting *c;

	cr_assert(values && copy);
	memcpy(copy, keys, nr * sizeof(*copy));
	c = vpmu_counting_new(n, copy, nr, values);
	cr_assert_not_null(c);
	c->next = next;
	return c;
}

void bed_counting_free(struct vpmu_counting *list)
{
	while (list) {
		struct vpmu_counting *next = list->next;

		free((void *)list->keys);
		free(list->values);
		vpmu_counting_free(list);
		list = next;
	}
}

void bed_attach(struct vpmu_counting *list)
{
	size_t failed;
	int ret = vpmu_source_attach(list, &failed);

	cr_assert_eq(ret, 0, "attach: %s (key %zu)", strerror(-ret), failed);
}

static int conserved(const struct vpmu_conservation *c, void *arg)
{
	unsigned int *n = arg;
	char name[VPMU_EVENT_NAME_MAX];

	cr_assert_eq(c->hardware, c->charged, "CPU %u, %s: the event counted %llu, charged %llu",
		     c->pcpu, vpmu_event_name(c->key, name), (unsigned long long)c->hardware,
		     (unsigned long long)c->charged);
	++*n;
	return 0;
}

unsigned int bed_conserved(struct vpmu_source *s)
{
	unsigned int n = 0;

	cr_assert_eq(vpmu_source_conservation(s, conserved, &n), 0);
	return n;
}

struct vpmu_source_node *bed_node(struct vpmu_source_node *parent)
{
	static uint64_t serial;
	struct vpmu_source_node *n;

	cr_assert_eq(vpmu_source_node_add(parent, ++serial, &n), 0);
	return n;
}
