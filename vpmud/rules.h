/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which tenant a VM or a cgroup belongs to: the [tenant PATH] sections of vpmud.conf. Patterns are
 * fnmatch(3)'s: *, ? and [...]. A backslash is an ordinary character, because names of systemd
 * contain it.
 *
 *   [tenant /acme]             everything in these cgroups and below them is /acme's
 *   cgroup = /acme.slice
 *   metadata = 0f3c*           and every VM with this tenant in its metadata
 *   vm = acme-*                and every VM of such a name
 *   vm_owner = alice           if libvirt says the name, or this user runs the VM
 *
 * If the last component of a section's path is a star, each cgroup or VM that matches is a tenant
 * of its own: its name takes the place of the star, with "_" for bytes that tenants' paths cannot
 * have.
 *
 * A VM belongs where its metadata says, else where its name says, else where its cgroup says. Of
 * several sections the first one of the file counts; of cgroups the one with the longest pattern,
 * and of these the first. A name is a claim of the process: it counts for a section only if libvirt
 * says it, if all user ids of the process are one of vm_owner, or if the process is in a cgroup of
 * the section. Functions that take only const rules: any thread.
 */
#ifndef VPMUD_RULES_H
#define VPMUD_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "service/tenant/tenant.h"

#define RULES_TENANTS_MAX    10000
#define RULES_PATTERNS_MAX   256 /* of one key of one tenant */
#define RULES_COMPONENTS_MAX 32	 /* of a cgroup pattern */

struct patterns {
	size_t nr;
	char **text;
};

struct rule {
	char path[TENANT_PATH_MAX + 1]; /* without the last component when @each */
	bool each; /* the section ends in a "*", for which a name takes the place */
	struct patterns cgroup, vm, metadata;
	size_t nr_owners;
	uid_t *owners; /* whose processes may say that they are a VM of a name in @vm */
};

struct rules {
	size_t nr;
	struct rule *rule;
};

/* rules_add - a rule without patterns for section path @path, valid until the next call. -EINVAL:
 * it is no tenant's path; -EEXIST: there is one for it; -E2BIG; -ENOMEM. One line to @err. */
int rules_add(struct rules *r, const char *path, struct rule **out, char *err, size_t errlen);
void rules_fini(struct rules *r);

/* patterns_add, rule_add_owner - -E2BIG, -ENOMEM. cgroup_pattern_ok - whether @pattern is a path of
 * 1 to RULES_COMPONENTS_MAX components, none of them empty, "." or "..". */
int patterns_add(struct patterns *p, const char *pattern);
int rule_add_owner(struct rule *rule, uid_t uid);
bool cgroup_pattern_ok(const char *pattern);

/* What is known of a VM. */
struct rules_vm {
	const char *name, *metadata, *cgroup; /* the latter two may be NULL */
	bool libvirt; /* libvirt says that the process is the domain @name */
	uid_t uid;    /* of the process; -1: not known, or several */
};

/*
 * rules_vm - the path of the tenant of a VM to @path; false: it is in no tenant. Without any rule a
 * VM belongs to the tenant in its metadata. *refused: the first rule whose name matches but does
 * not believe the process, if no later one does; else NULL. When a rule applies and what it makes
 * of the names is no tenant's path, false and one line to @why; else @why is empty.
 */
bool rules_vm(const struct rules *r, const struct rules_vm *vm, char path[TENANT_PATH_MAX + 1],
	      const struct rule **refused, char *why, size_t whylen);

/* rules_cgroup - the rule whose cgroup pattern matches the cgroup @path itself (not one above it),
 * and the path of its tenant, as above. NULL: none. */
const struct rule *rules_cgroup(const struct rules *r, const char *path,
				char tenant[TENANT_PATH_MAX + 1], char *why, size_t whylen);

#endif
