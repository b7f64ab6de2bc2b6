// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The first process of a bed (tests/beds/run, tests/nested/run): mounts what the tests need, loads
 * the kernel modules that the file /modules names (one a line, in that order), runs the commands of
 * the file /command (one argument a line, an empty line between two), prints their exit status for
 * the host, and switches the machine off. Whatever goes wrong, it must come to the last step: the
 * machine would run on for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGS 64

static const struct {
	const char *type, *at, *options;
} mounts[] = {
	{"proc", "/proc", NULL},
	{"sysfs", "/sys", NULL},
	{"devtmpfs", "/dev", NULL},
	{"tmpfs", "/dev/shm", NULL},
	{"tmpfs", "/tmp", NULL},
	{"tmpfs", "/run", NULL},
	{"cgroup2", "/sys/fs/cgroup", NULL},
	{"bpf", "/sys/fs/bpf", "mode=0700"},
	{"debugfs", "/sys/kernel/debug", NULL},
	{"tracefs", "/sys/kernel/tracing", NULL},
};

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("bed: %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* A line of /modules: a file, and after a blank the module's parameters. */
static void load_module(char *line)
{
	char *parameters = strchr(line, ' ');
	int fd;

	if (parameters)
		*parameters++ = '\0';
	fd = open(line, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, parameters ? parameters : "", 0))
		printf("bed: module %s: %s\n", line, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void load_modules(void)
{
	FILE *f = fopen("/modules", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		load_module(line);
	}
	if (f)
		fclose(f);
}

/* Lines of /links: a path, and the file that shall be there too. Only now, because the path can be
 * below a mount. */
static void make_links(void)
{
	FILE *f = fopen("/links", "re");
	char path[4096], file[4096];

	while (f && fgets(path, sizeof(path), f) && fgets(file, sizeof(file), f)) {
		path[strcspn(path, "\n")] = '\0';
		file[strcspn(file, "\n")] = '\0';
		for (char *s = path + 1; (s = strchr(s, '/')); *s++ = '/') {
			*s = '\0';
			mkdir(path, 0755);
		}
		if (symlink(file, path))
			printf("bed: %s: %s\n", path, strerror(errno));
	}
	if (f)
		fclose(f);
}

static void prepare(void)
{
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i].at, 0755);
		if (mount(mounts[i].type, mounts[i].at, mounts[i].type, 0, mounts[i].options))
			printf("bed: mount %s: %s\n", mounts[i].at, strerror(errno));
	}
	/* perf must not thin out its samples because the emulated machine is slow. */
	write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
	write_file("/proc/sys/kernel/randomize_va_space", "0");
	write_file("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	load_modules();
	make_links();
}

/* The lines of /command; the list ends with NULL. */
static char **command(void)
{
	static char text[8192], *args[MAX_ARGS + 1];
	int fd = open("/command", O_RDONLY | O_CLOEXEC), n = 0;
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (len < 0) {
		printf("bed: /command: %s\n", strerror(errno));
		return args;
	}
	close(fd);
	for (char *s = text, *end; n < MAX_ARGS && (end = strchr(s, '\n')); s = end + 1) {
		*end = '\0';
		args[n++] = s;
	}
	return args;
}

/* Run @args and return its exit status, 128 + the signal that ended it, or 127. */
static int run(char **args)
{
	int status = 127 << 8;
	pid_t pid;

	if (!args[0])
		return 127;
	pid = fork();
	if (pid == 0) {
		setsid();
		execv(args[0], args);
		printf("bed: %s: %s\n", args[0], strerror(errno));
		fflush(stdout);
		_exit(127);
	}
	while (pid > 0) { /* and reap leftovers of the command */
		pid_t p = wait(&status);

		if (p == pid)
			break;
		if (p < 0 && errno != EINTR)
			return 127;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool failed(int status)
{
	return status != 0 && status != 77;
}

/* Run all commands, one after the other. Returns the status of the first that failed, else 0 if one
 * passed, else 77: all were skipped. */
static int run_all(char **args)
{
	int all = 77;

	for (bool more = true; more;) {
		char **end = args;
		int status;

		while (*end && **end)
			end++;
		more = *end;
		*end = NULL;
		status = run(args);
		if (!failed(all) && status != 77)
			all = status;
		args = end + 1;
	}
	return all;
}

int main(void)
{
	static const char *const environment[] = {
		"PATH=/bed", "HOME=/tmp", "TMPDIR=/tmp", "LD_LIBRARY_PATH=/lib", "TERM=dumb", NULL};
	int status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; environment[i]; i++)
		putenv((char *)environment[i]);
	prepare();
	status = run_all(command());
	printf("\nbed: exit status %d\n", status);
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 1; /* a first process that ends makes the kernel panic, which ends the machine, too
		   */
}
