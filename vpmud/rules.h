/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Assigns VMs and cgroups to tenants by the [tenant PATH] sections of vpmud.conf. Patterns are
 * those of fnmatch(3): *, ? and [...]. A backslash is an ordinary character, because systemd's unit
 * names contain it.
 *
 *   [tenant /acme]             everything in these cgroups and below belongs to /acme,
 *   cgroup = /acme.slice
 *   metadata = 0f3c*           and every VM with this tenant in its metadata,
 *   vm = acme-*                and every VM of such a name,
 *   vm_owner = alice           if libvirt reports the name, or this user runs the VM
 *
 * If the last component of a section's path is "*", each matching cgroup or VM is a tenant of its
 * own: its name replaces the star, with "_" for bytes that are not allowed in a tenant's path.
 *
 * A VM is assigned by its metadata, else by its name, else by its cgroup. Of several matching
 * sections the first in the file wins; for cgroups the longest pattern, then the first. A name is a
 * claim by the process: a section trusts it only if libvirt reports it, if all user ids of the
 * process are one in vm_owner, or if the process is in a cgroup of the section. Functions that take
 * only const rules: any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "service/tenant/tenant.h"
#include "vpmud/guest_policy.h"

#define RULES_TENANTS_MAX    10000
#define RULES_PATTERNS_MAX   256 /* per key and tenant */
#define RULES_COMPONENTS_MAX 32	 /* of a cgroup pattern */

struct patterns {
	size_t nr;
	char **text;
};

struct rule {
	char path[TENANT_PATH_MAX + 1]; /* without the last component if @each */
	bool each;			/* the section's path ends in "*" */
	struct patterns cgroup, vm, metadata;
	size_t nr_owners;
	uid_t *owners;		    /* users trusted to name their VMs as in @vm */
	struct guest_policy *guest; /* what its guests may count; NULL: no such key */
};

struct rules {
	size_t nr;
	struct rule *rule;
	/* Paths of cgroups that clients made for a command (`vpmu stat -- COMMAND`): each is a
	 * tenant of its own, named after the cgroup, below the one to which it would belong. */
	struct patterns commands;
};

/* rules_add - add a rule without patterns for the section path @path; *@out is valid until the next
 * call. -EINVAL: not a tenant's path; -EEXIST: duplicate; -E2BIG. One line to @err. */
int rules_add(struct rules *r, const char *path, struct rule **out, char *err, size_t errlen);
void rules_fini(struct rules *r);

/* rules_find - write the path of the tenant to which the cgroup at @path belongs to @tenant, and
 * how many bytes of @path name the cgroup that matches its rule to *@len. False: no rule matches.
 */
bool rules_find(const struct rules *r, const char *path, char tenant[TENANT_PATH_MAX + 1],
		size_t *len);

/* patterns_remove - remove pattern @i. patterns_add, rule_add_owner - return 0 or -E2BIG.
 * cgroup_pattern_ok - returns true if
 * @pattern is a path of 1 to RULES_COMPONENTS_MAX components, none of them empty, "." or "..". */
int patterns_add(struct patterns *p, const char *pattern);
void patterns_remove(struct patterns *p, size_t i);
int rule_add_owner(struct rule *rule, uid_t uid);
bool cgroup_pattern_ok(const char *pattern);

/*
 * rules_guest - what guests of the tenant at @path may count: by its section or, if that says
 * nothing, by that of the nearest tenant above; NULL: none does. rules_guest_max - the
 * tenant_max_events of its own section; 0: not given.
 */
const struct guest_policy *rules_guest(const struct rules *r, const char *path);
unsigned int rules_guest_max(const struct rules *r, const char *path);

/* The properties of a VM that rules match. */
struct rules_vm {
	const char *name, *metadata, *cgroup; /* the latter two may be NULL */
	bool libvirt;			      /* libvirt reports the process as the domain @name */
	uid_t uid;			      /* of the process; -1: unknown, or several */
};

/*
 * rules_vm - write the path of the VM's tenant to @path; returns false if it is in none. Without
 * any rule, the tenant in its metadata. *@refused: the first rule with a name pattern that matches
 * but which does not trust the process, if no later one does; else NULL. If the path built from the
 * names is invalid, returns false with one line in @why; else @why is empty.
 */
bool rules_vm(const struct rules *r, const struct rules_vm *vm, char path[TENANT_PATH_MAX + 1],
	      const struct rule **refused, char *why, size_t whylen);

/* rules_cgroup - the rule whose cgroup pattern matches @path itself (not an ancestor); the path of
 * its tenant and @why as in rules_vm(). NULL: none. */
const struct rule *rules_cgroup(const struct rules *r, const char *path,
				char tenant[TENANT_PATH_MAX + 1], char *why, size_t whylen);
