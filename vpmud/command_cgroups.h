/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cgroups that clients name: which tenant has one (`vpmu stat -p` and `-G`), and those that a
 * client made to count one command (`vpmu stat -- COMMAND`). The daemon registers these commands of
 * the control socket, for administrators. Event loop's thread only; nothing is written to cgroupfs.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "vpmud/rules.h"

/* command_cgroup_find - answer the tenant of the cgroup "cgroup" (a path below @root), and the path
 * of the cgroup that matches its rule. */
int command_cgroup_find(const struct rules *r, const char *root, const json_t *req, json_t *resp,
			char *err, size_t errlen);

/* command_cgroup_add - add the cgroup "cgroup", which must exist, to @r->commands. The caller must
 * scan next. */
int command_cgroup_add(struct rules *r, const char *root, const json_t *req, char *err,
		       size_t errlen);

/* command_cgroups_tend - call it once a second: forget those that are gone. */
void command_cgroups_tend(struct rules *r, const char *root);
