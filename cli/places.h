/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The targets of perf's options: the VM or tenant of a process (-p), the tenant of a cgroup (-G).
 */
#pragma once

#include "cli/options.h"

struct client;

/*
 * places_target - return the name of the target for requests, which the caller must free: @text
 * itself for TARGET_NAME. NULL after an error was printed. If more than the process is counted, a
 * line on standard error names the tenant.
 */
char *places_target(struct client *c, enum target_kind kind, const char *text);

/* places_cgroup - write the path of the cgroup of process @pid, below the mount of cgroup2, to
 * @path. False: it is not known. */
bool places_cgroup(const char *pid, char *path, size_t len);
