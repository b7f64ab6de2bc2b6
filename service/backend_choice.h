/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which backend a profile or capture is about: it has one, since samples and branch records of
 * different backends come from different CPUs. Control thread.
 */
#ifndef SERVICE_BACKEND_CHOICE_H
#define SERVICE_BACKEND_CHOICE_H

#include "service/tenant/tenant.h"

/*
 * backend_choose - the node of @target in a source that has @can (VPMU_BACKEND_...); @what says in
 * words what that is ("sampling"). @backend: the backend's name. NULL: the only such backend that
 * counts the target, or if none counts it yet, the only such backend there is, which counts it from
 * then on. -ENOENT: no such backend; -EINVAL: several would do, or the VM is on another;
 * -EOPNOTSUPP: no backend does; -ENOMEM. One line to @err.
 */
int backend_choose(struct tenants *ts, struct node *target, unsigned int can, const char *what,
		   const char *backend, struct vpmu_backend_node **out, char *err, size_t errlen);

#endif
