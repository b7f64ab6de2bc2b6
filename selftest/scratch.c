// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Cgroups of the self-test: vpmu-selftest-PID/{a,b} below the root of cgroup2. run.c and worker.c
 * call this. What a run that was killed has left is removed by the next one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup/fs/cgroupfs.h"
#include "selftest/priv.h"

#define PREFIX "vpmu-selftest-"

static char scratch_root[200]; /* where cgroup2 is mounted */
static char scratch_top[280];  /* empty: there is none */
static const char *const scratch_names[2] = {"a", "b"};

static bool scratch_mount(void)
{
	char *dir = cgroupfs_mount("/proc/self/mounts");
	bool fits = dir && strlen(dir) < sizeof(scratch_root);

	strcpy(scratch_root, fits ? dir : "");
	free(dir);
	return fits;
}

/* Remove a cgroup. A process that was just killed stays in it for a moment. */
static int scratch_rmdir(const char *path)
{
	for (int i = 0; i < 2000; i++) {
		if (!rmdir(path) || errno == ENOENT)
			return 0;
		if (errno != EBUSY)
			break;
		usleep(1000);
	}
	return -errno;
}

static void scratch_remove(const char *top)
{
	char path[sizeof(scratch_top) + 8];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", top, scratch_names[i]);
		scratch_rmdir(path);
	}
	scratch_rmdir(top);
}

static void scratch_leftovers(void)
{
	char top[sizeof(scratch_top)];
	struct dirent *e;
	DIR *d = opendir(scratch_root);
	long pid;

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		pid = strtol(e->d_name + strlen(PREFIX), NULL, 10);
		if (pid <= 0 || (pid != getpid() && (!kill((pid_t)pid, 0) || errno != ESRCH)))
			continue;
		snprintf(top, sizeof(top), "%s/" PREFIX "%ld", scratch_root, pid);
		scratch_remove(top);
	}
	if (d)
		closedir(d);
}

int scratch_open(uint64_t id[2], char *err, size_t errlen)
{
	char path[320];
	struct stat st;
	int ret;

	if (!scratch_mount()) {
		snprintf(err, errlen, "cgroup2 is not mounted");
		return -ENOENT;
	}
	scratch_leftovers();
	snprintf(scratch_top, sizeof(scratch_top), "%s/" PREFIX "%d", scratch_root, getpid());
	snprintf(path, sizeof(path), "%s", scratch_top);
	ret = mkdir(path, 0755) && errno != EEXIST ? -errno : 0;
	for (int i = 0; i < 2 && !ret; i++) {
		snprintf(path, sizeof(path), "%s/%s", scratch_top, scratch_names[i]);
		ret = mkdir(path, 0755) || stat(path, &st) ? -errno : 0;
		id[i] = ret ? 0 : st.st_ino;
	}
	if (!ret)
		return 0;
	snprintf(err, errlen, "%s: cannot make a cgroup: %s%s", path, strerror(-ret),
		 ret == -EACCES ? " (needs root)" : "");
	scratch_close();
	return ret;
}

void scratch_close(void)
{
	if (scratch_top[0])
		scratch_remove(scratch_top);
	scratch_top[0] = '\0';
}

bool scratch_controllers(void)
{
	char path[sizeof(scratch_root) + 32], line[256] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", scratch_root);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		line[0] = '\0';
	if (f)
		fclose(f);
	return line[0] && line[0] != '\n';
}

int scratch_join(unsigned int which, pid_t pid)
{
	char path[340], text[16];
	int fd, n, ret = 0;

	snprintf(path, sizeof(path), "%s/%s/cgroup.procs", scratch_top, scratch_names[which]);
	n = snprintf(text, sizeof(text), "%d", pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}
