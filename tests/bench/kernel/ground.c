// SPDX-License-Identifier: GPL-2.0-or-later
/* The cgroups of vpmu-kernel-bench. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/kernel/kbench.h"

static char top[128];
static const char *rel; /* top below the mount */
static uint64_t ids[MAX_TENANTS];
static unsigned int made;
static pid_t owner;

static void end(void)
{
	char path[200];

	if (getpid() != owner)
		return;
	while (made) {
		snprintf(path, sizeof(path), "%s/%u", top, --made);
		for (int i = 0; rmdir(path) && errno == EBUSY && i < 100; i++)
			usleep(10000);
	}
	rmdir(top);
}

void ground_begin(void)
{
	char line[512], dir[100] = "", type[32];
	FILE *f = fopen("/proc/self/mounts", "re");
	bool found = false;
	int ret = -1;

	while (!found && f && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*s %99s %31s", dir, type) == 2 && !strcmp(type, "cgroup2");
	if (f)
		fclose(f);
	for (int i = 0; found && ret && i < 1000; i++) {
		snprintf(top, sizeof(top), "%s/vb%d", dir, i);
		ret = mkdir(top, 0755);
		if (ret && errno != EEXIST)
			break;
	}
	if (ret)
		skip("no cgroup2 where cgroups can be made");
	rel = top + strlen(dir) + 1;
	owner = getpid();
	atexit(end);
}

void ground_need(unsigned int n)
{
	char path[200];
	struct stat st;

	for (; made < n; made++) {
		snprintf(path, sizeof(path), "%s/%u", top, made);
		if (mkdir(path, 0755) || stat(path, &st))
			skip("%s: %s", path, strerror(errno));
		ids[made] = st.st_ino;
	}
}

uint64_t ground_id(unsigned int i)
{
	return ids[i];
}

int ground_name(char *buf, size_t size, unsigned int i)
{
	return snprintf(buf, size, "%s/%u", rel, i);
}

void ground_enter(unsigned int i)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s/%u/cgroup.procs", top, i);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		_exit(1);
	close(fd);
}
