/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvpmu's core as a backend: a struct vpmu_host of its own, with an account per node.
 *
 * The VMM creates one per core backend, gives the host its pCPUs and puts contexts under the nodes'
 * accounts. cgroup/ must not include this header.
 */
#pragma once

#include "service/backend/backend.h"

struct vpmu_backend_core_opts {
	const char *backend; /* a constant */
	unsigned int can;    /* VPMU_BACKEND_SAMPLES and BRANCHES, as the pCPUs' PMUs support;
			      * CONSERVES is always added */
	/* As vpmu_backend_ops.can_count, for the pCPUs; works even without any. */
	bool (*can_count)(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen,
			  void *arg);
	void *arg;
};

/* vpmu_backend_core_create - @o is copied. -ENOMEM. Control thread, registered with liburcu. */
int vpmu_backend_core_create(const struct vpmu_backend_core_opts *o, struct vpmu_backend **out);

/* vpmu_backend_core_destroy - also frees its host and remaining nodes. No pCPU may be online,
 * nothing attached or sampled. NULL is fine. */
void vpmu_backend_core_destroy(struct vpmu_backend *s);

struct vpmu_host *vpmu_backend_core_host(const struct vpmu_backend *s);

/* vpmu_backend_core_account - the account of @n, for contexts: a vCPU's own account is its node's,
 * its group is the VM's. Valid until the node's removal. A context that remains then stays charged,
 * and its counts are in the parent's sum. */
struct vpmu_account *vpmu_backend_core_account(const struct vpmu_backend_node *n);
