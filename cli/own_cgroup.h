/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A cgroup for one command, below the cgroup of this process, so that the command keeps its limits.
 * A child process of its own removes it when this process ends it or is gone, in whatever way.
 */
#ifndef CLI_OWN_CGROUP_H
#define CLI_OWN_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct own_cgroup {
	char path[PATH_MAX]; /* below the mount of cgroup2 */
	int procs_fd;	     /* its cgroup.procs */
	int alive_fd;	     /* the keeper waits until this is closed */
	pid_t keeper;
};

struct client;

/* own_cgroup_tenant - make the cgroup, which the server then counts as a tenant, for @command of
 * `vpmu @cmd`. Returns the tenant, which the caller frees; NULL after an error was printed. In any
 * case the caller calls own_cgroup_end(). */
char *own_cgroup_tenant(struct own_cgroup *o, struct client *c, const char *cmd,
			const char *command);

/* own_cgroup_end - move what still runs in it to the cgroup above, and remove it. */
void own_cgroup_end(struct own_cgroup *o);

#endif
