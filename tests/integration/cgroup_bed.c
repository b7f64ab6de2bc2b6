// SPDX-License-Identifier: GPL-2.0-or-later
/* See cgroup_bed.h. Integration tests and the bench of the BPF backend call this. */
#include "tests/integration/cgroup_bed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

#define MAX_WORKERS 256

static pid_t workers[MAX_WORKERS];
static char top[160]; /* the test's own cgroup */
static int lock = -1; /* its directory, locked while the test's process lives */

const char *bed_mount(void)
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

/* Remove a cgroup that has none below it, and kill its processes except ourselves. */
static bool clear(const char *path)
{
	char procs[256], line[32];
	FILE *f;

	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	for (int i = 0; i < 1000; i++) { /* a killed process stays a moment */
		f = fopen(procs, "re");
		while (f && fgets(line, sizeof(line), f))
			if (atoi(line) > 0 && atoi(line) != getpid())
				kill(atoi(line), SIGKILL);
		if (f)
			fclose(f);
		if (!rmdir(path) || errno == ENOENT)
			return true;
		usleep(1000);
	}
	return false;
}

static int clear_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	if (type == FTW_DP)
		clear(path);
	return 0;
}

static void clear_all(const char *path)
{
	nftw(path, clear_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A test that was killed, or that a worker outlived, has left its cgroups and maybe a process in
 * them. Its process is no more. It could also be in another PID namespace: then it has the lock. */
static void clear_leftovers(const char *where)
{
	char path[160];
	struct dirent *e;
	unsigned int nr;
	int pid, fd;
	DIR *d = opendir(where);

	while (d && (e = readdir(d))) {
		if (sscanf(e->d_name, "vpmu-test-%d-%u", &pid, &nr) != 2 || pid <= 0 ||
		    !kill(pid, 0) || errno != ESRCH)
			continue;
		snprintf(path, sizeof(path), "%s/vpmu-test-%d-%u", where, pid, nr);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
			clear_all(path);
		if (fd >= 0)
			close(fd);
	}
	if (d)
		closedir(d);
}

/* Returns true if the test has made its cgroup and has locked it. */
static int make_top(void)
{
	struct stat a, b;

	if (mkdir(top, 0755))
		return -errno;
	lock = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock >= 0 && !flock(lock, LOCK_SH | LOCK_NB) && !fstat(lock, &a) && !stat(top, &b) &&
	    a.st_ino == b.st_ino)
		return 0;
	if (lock >= 0) /* somebody in another PID namespace takes it for a leftover */
		close(lock);
	lock = -1;
	return -EEXIST;
}

static const struct bpf_backend_opts plain;

struct bpf_backend *bed_open(const struct bpf_backend_opts *o)
{
	const char *where = bed_mount();
	struct bpf_backend *k;
	char why[512] = "";
	int ret = 0;

	if (!where)
		cr_skip_test("no cgroup2 is mounted");
	clear_leftovers(where);
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(top, sizeof(top), "%s/vpmu-test-%d-%u", where, getpid(), i);
		ret = make_top();
		if (ret != -EEXIST)
			break;
	}
	if (ret)
		cr_skip_test("cannot make a cgroup: %s", strerror(-ret));
	atexit(bed_end);
	ret = bpf_backend_open(o ? o : &plain, &k, why, sizeof(why));
	/* A kernel that refuses the program is no reason. */
	if (ret == -EPERM || access("/sys/kernel/btf/vmlinux", R_OK)) {
		bed_end();
		cr_skip_test("%s", why);
	}
	cr_assert_eq(ret, 0, "%s", why);
	return k;
}

struct bpf_backend *bed_reopen(const struct bpf_backend_opts *o)
{
	struct bpf_backend *k;
	char why[512];

	cr_assert_eq(bpf_backend_open(o ? o : &plain, &k, why, sizeof(why)), 0, "%s", why);
	return k;
}

void bed_begin(void)
{
	bpf_backend_close(bed_open(NULL));
}

void bed_two_cpus(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("one CPU");
}

void bed_system(const char *fmt, ...)
{
	char cmd[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	cr_assert_eq(system(cmd), 0, "%s", cmd);
}

void bed_controllers(void)
{
	char path[256], c;
	int fd;

	snprintf(path, sizeof(path), "%s/../cgroup.subtree_control", top);
	fd = open(path, O_RDWR | O_CLOEXEC);
	/* ENOENT: that controller is in a hierarchy of version 1. */
	if (fd >= 0 && read(fd, &c, 1) == 0 && write(fd, "+pids", 5) != 5 && errno != ENOENT)
		printf("# %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

const char *bed_top(void)
{
	return top[0] ? strrchr(top, '/') + 1 : NULL;
}

static void path_of(const char *name, const char *file, char *path, size_t len)
{
	snprintf(path, len, "%s%s%s%s", top, *name ? "/" : "", name, file);
}

uint64_t bed_cgroup(const char *name)
{
	char path[256];
	struct stat st;

	path_of(name, "", path, sizeof(path));
	cr_assert(!mkdir(path, 0755) && !stat(path, &st), "%s: %s", path, strerror(errno));
	return st.st_ino;
}

int bed_open_cgroup(const char *name)
{
	char path[256];
	int fd;

	path_of(name, "", path, sizeof(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(fd >= 0, "%s: %s", path, strerror(errno));
	return fd;
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

void bed_rmdir(const char *name)
{
	char path[256], procs[256], line[32];
	FILE *f;

	path_of(name, "", path, sizeof(path));
	path_of(name, "/cgroup.procs", procs, sizeof(procs));
	for (int i = 0; i < 60000; i++) { /* a killed worker stays until it has had a CPU */
		f = fopen(procs, "re");
		while (f && fgets(line, sizeof(line), f))
			bed_move(atoi(line), "");
		if (f)
			fclose(f);
		if (!rmdir(path) || errno == ENOENT)
			return;
		usleep(1000);
	}
	cr_assert_fail("%s: %s", name, strerror(errno));
}

static bool forked, first;

void bed_first(void)
{
	first = !setpriority(PRIO_PROCESS, 0, -20);
}

void bed_kill(pid_t pid)
{
	if (first) /* its end needs a CPU, too */
		setpriority(PRIO_PROCESS, (id_t)pid, -20);
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
	if (top[0])
		clear_all(top);
	top[0] = '\0';
	if (lock >= 0)
		close(lock);
	lock = -1;
}

void bed_run_on(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	cr_assert_eq(sched_setaffinity(pid, sizeof(set), &set), 0);
}

void *bed_share(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	return p;
}

void bed_wait(pid_t pid, const int *ready)
{
	int status;

	while (!__atomic_load_n(ready, __ATOMIC_ACQUIRE)) {
		cr_assert_eq(waitpid(pid, &status, WNOHANG), 0, "the process ended: %#x", status);
		usleep(1000);
	}
}

pid_t bed_fork(void)
{
	pid_t parent = getpid(), pid = fork();

	cr_assert_geq(pid, 0);
	if (pid)
		return pid;
	forked = true;
	if (first)
		setpriority(PRIO_PROCESS, 0, 0);
	if (lock >= 0)
		close(lock);
	lock = -1;
	memset(workers, 0, sizeof(workers)); /* not ours to kill */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it was killed before that */
		_exit(1);
	return 0;
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
	if (!bed_fork()) {
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

bool bed_asleep(pid_t pid)
{
	char path[64], line[256];
	bool sleeps = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		sleeps |= !strncmp(line, "State:\tS", 8);
	if (f)
		fclose(f);
	return sleeps;
}

pid_t bed_job(const char *cgroup, size_t faults)
{
	static struct job j;
	pid_t pid;

	cr_assert(!pipe(job_pipe) && !pipe(job_pipe + 2));
	j = (struct job){.start = job_pipe[0], .done = job_pipe[3], .faults = faults};
	pid = bed_spawn(cgroup, do_job, &j);
	bed_job_go(); /* the process's first part is done */
	while (!bed_asleep(pid))
		usleep(1000); /* or its account could be charged before the test expects it */
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

/* ---- pins ---- */

static char pin_mount[64];

static void pin_unmount(void)
{
	umount2(pin_mount, MNT_DETACH);
	rmdir(pin_mount);
}

void bed_pin_dir(char dir[BED_PIN_DIR])
{
	strcpy(pin_mount, "/tmp/vpmu-bpffs-XXXXXX");
	cr_assert(mkdtemp(pin_mount));
	if (mount("bpf", pin_mount, "bpf", 0, "mode=0700")) {
		rmdir(pin_mount);
		cr_skip_test("cannot mount a BPF file system: %s", strerror(errno));
	}
	atexit(pin_unmount);
	snprintf(dir, BED_PIN_DIR, "%s/vpmu", pin_mount);
}
