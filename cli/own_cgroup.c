// SPDX-License-Identifier: GPL-2.0-or-later
/* A cgroup for one command; see stat.h. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/fs/cgroupfs.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/places.h"
#include "cli/stat.h"
#include "service/program/memory.h"

#define REMOVE_TRIES 500 /* of 10 ms: processes that end are in it a moment longer */

static int above_fd; /* the keeper's: cgroup.procs of the cgroup above */

/* Move all processes of the cgroup @dir to the one above ours, and remove @dir. */
static int own_cgroup_clear(const char *dir, const struct stat *st, int type, struct FTW *at)
{
	char file[PATH_MAX + 32], pid[32];
	FILE *f;

	if (type != FTW_DP)
		return 0;
	snprintf(file, sizeof(file), "%s/cgroup.procs", dir);
	f = fopen(file, "re");
	while (f && fgets(pid, sizeof(pid), f))
		if (write(above_fd, pid, strlen(pid)) < 0)
			continue; /* it has ended */
	if (f)
		fclose(f);
	rmdir(dir);
	return 0;
}

/* The keeper: wait for the end of this process's parent, or its word, and remove @dir. */
__attribute__((noreturn)) static void own_cgroup_keep(const char *dir, int alive_fd)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	char file[PATH_MAX + 32];
	sigset_t all;
	char byte;

	/* A signal to the terminal's processes must not end it. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	dup2(alive_fd, 0);
	close_range(1, ~0U, 0);
	while (read(0, &byte, 1) > 0 || errno == EINTR)
		errno = 0;
	snprintf(file, sizeof(file), "%s/../cgroup.procs", dir);
	above_fd = open(file, O_WRONLY | O_CLOEXEC);
	/* The command may have made cgroups below its own. */
	for (int i = 0; i < REMOVE_TRIES && rmdir(dir) && errno != ENOENT; i++) {
		nftw(dir, own_cgroup_clear, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

/* Returns NULL, or the reason why there is none, which the caller frees. */
static char *own_cgroup_make(struct own_cgroup *o)
{
	char above[PATH_MAX / 2], dir[PATH_MAX], file[PATH_MAX + 16], *mount;
	int fds[2];

	*o = (struct own_cgroup){.procs_fd = -1, .alive_fd = -1};
	mount = cgroupfs_mount("/proc/self/mounts");
	if (!mount || !places_cgroup("self", above, sizeof(above))) {
		free(mount);
		return xstrdup("no cgroup2 is mounted here");
	}
	snprintf(o->path, sizeof(o->path), "%s/vpmu-stat-%d", above[1] ? above : "", getpid());
	snprintf(dir, sizeof(dir), "%.2000s%.2000s", mount, o->path);
	free(mount);
	if (mkdir(dir, 0755))
		return xasprintf("%s: %s%s", dir, strerror(errno),
				 errno == EACCES ? " (needs root)" : "");
	if (pipe2(fds, O_CLOEXEC)) {
		char *why = xasprintf("pipe: %s", strerror(errno));

		rmdir(dir);
		return why;
	}
	o->keeper = fork();
	if (o->keeper == 0)
		own_cgroup_keep(dir, fds[0]);
	close(fds[0]);
	o->alive_fd = fds[1];
	if (o->keeper < 0) {
		char *why = xasprintf("fork: %s", strerror(errno));

		rmdir(dir);
		close(o->alive_fd);
		return why;
	}
	snprintf(file, sizeof(file), "%s/cgroup.procs", dir);
	o->procs_fd = open(file, O_WRONLY | O_CLOEXEC);
	return o->procs_fd < 0 ? xasprintf("%s: %s", file, strerror(errno)) : NULL;
}

void own_cgroup_end(struct own_cgroup *o)
{
	if (o->procs_fd >= 0)
		close(o->procs_fd);
	if (o->keeper <= 0)
		return;
	close(o->alive_fd);
	while (waitpid(o->keeper, NULL, 0) < 0 && errno == EINTR)
		;
	o->keeper = 0;
}

char *own_cgroup_tenant(struct own_cgroup *o, struct client *c, const char *cmd,
			const char *command)
{
	json_t *answer = NULL;
	char *why = own_cgroup_make(o), *tenant = NULL;

	if (!why)
		answer = client_try(
			c, json_pack("{s:s, s:s}", "cmd", "cgroup-add", "cgroup", o->path), &why);
	if (json_is_string(json_object_get(answer, "tenant")))
		tenant = xstrdup(json_string_value(json_object_get(answer, "tenant")));
	else if (answer || why) /* otherwise client_try() has reported it */
		cli_error("%s: %s cannot be counted by itself: %s; give -a to count everything "
			  "while it runs, or -t TARGET",
			  cmd, command, why ? why : "the server's answer has no tenant");
	json_decref(answer);
	free(why);
	return tenant;
}
