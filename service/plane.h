/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which plane a profile or capture is about: it has one, since samples and branch records of
 * different planes come from different CPUs. Control thread.
 */
#ifndef CGROUP_SERVICE_PLANE_H
#define CGROUP_SERVICE_PLANE_H

#include "service/tenant/tenant.h"

/*
 * plane_choose - the node of @target in a source that has @can (VPMU_SOURCE_...); @what says in
 * words what that is ("sampling"). @plane: the plane's name. NULL: the only such plane that counts
 * the target, or if none counts it yet, the only such plane there is, which counts it from then
 * on. -ENOENT: no such plane; -EINVAL: several would do, or the VM is on another; -EOPNOTSUPP: no
 * plane does; -ENOMEM. One line to @err.
 */
int plane_choose(struct tenants *ts, struct node *target, unsigned int can, const char *what,
		 const char *plane, struct vpmu_source_node **out, char *err, size_t errlen);

#endif
