/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Self-containment: vpmu-vmm drops its rights before it runs the first guest, so that a guest that
 * breaks out of its engine gains little (docs/security.md). main.c calls it while there is only one
 * thread. The steps are in service/daemon/contain.h.
 */
#pragma once

#include <stddef.h>

struct vmm_contain_opts {
	const char *user; /* become this user; NULL: stay */
	/* Where the process may still write; NULL: not given. */
	const char *socket;	  /* the socket's file may be removed */
	const char *snapshot_dir; /* files below it may be made, written, replaced and removed */
	const char *cgroup_root;  /* files below it may be written, directories made and removed */
};

/* vmm_contain - 0, or -errno and one line in @err if @o->user was given and the process cannot
 * become that user. */
int vmm_contain(const struct vmm_contain_opts *o, char *err, size_t errlen);
