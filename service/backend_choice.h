/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Chooses the one backend of a profile or capture: samples and branch records of different backends
 * come from different CPUs. Control thread.
 */
#pragma once

#include "service/tenant/tenant.h"

/*
 * backend_choose - the node of @target in a backend with @can (VPMU_BACKEND_...); @what names that
 * in words for messages ("sampling"). @backend: the backend's name, or NULL: the only such backend
 * that counts the target; if none counts it yet, the only such backend at all, which counts it from
 * then on. -ENOENT: no such backend; -EINVAL: several are possible, or the VM is on another;
 * -EOPNOTSUPP: none is possible; -ENOMEM. One line to @err.
 */
int backend_choose(struct tenants *ts, struct node *target, unsigned int can, const char *what,
		   const char *backend, struct vpmu_backend_node **out, char *err, size_t errlen);
