/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tree of a real host: VMs that were found (vpmud/discover/) and cgroups that match the rules
 * (cgroups.h) become nodes of service/tenant/, and what runs in them is bound to these nodes on the
 * BPF backend. A VM's vCPU threads are bound as tasks, and its cgroup as a whole if nothing else
 * runs in there; then the VM's row has the threads of its emulator as well.
 *
 * A tenant keeps all that was ever counted in it. Tenants stay when their VMs and cgroups have
 * gone, but for those that are called as a cgroup (rules.h): these go with the cgroup, and their
 * counts become the parent's. One thread: the event loop's.
 */
#ifndef VPMUD_TREE_H
#define VPMUD_TREE_H

#include <jansson.h>

#include "vpmud/discover/discover.h"
#include "service/tenant/tenant.h"
#include "vpmud/cgroups.h"
#include "vpmud/rules.h"

/* Who counts, and how it is told what runs where: cgroup/cgroup.h. Binding again moves. */
struct tree_backend {
	struct vpmu_backend *source;
	int (*bind_cgroup)(struct vpmu_backend_node *n, uint64_t cgroup_id);
	void (*unbind_cgroup)(struct vpmu_backend_node *n, uint64_t cgroup_id);
	int (*bind_task)(struct vpmu_backend_node *n, pid_t tid, uint64_t start_time);
	void (*unbind_task)(struct vpmu_backend_node *n, pid_t tid);
	/* A lasting name of a node: the next vpmud finds its counts by it (bpf_backend_name). NULL:
	 * none is needed. */
	int (*name)(struct vpmu_backend_node *n, uint64_t name);
};

struct tree;

/* tree_create - @ts has the backend's source already. @rules stay the caller's until tree_rules
 * names others. @cgroup_root: where cgroup2 is mounted. @note gets one line about whatever could
 * not be done. -ENOMEM. tree_destroy - unbinds and removes nothing; before tenants_destroy. */
int tree_create(struct tenants *ts, const struct tree_backend *backend, const struct rules *rules,
		const char *cgroup_root, void (*note)(void *arg, const char *line), void *arg,
		struct tree **out);
void tree_destroy(struct tree *t);

/* tree_rules - follow @rules from now on: tenants of the sections are made, VMs move to the tenants
 * they belong to now. tree_prune - remove tenants that no rule, VM or cgroup has a use for any
 * more; their counts become their parents'. Between the two the cgroups change over
 * (cgroups_rules). */
void tree_rules(struct tree *t, const struct rules *rules);
void tree_prune(struct tree *t);

/* For struct cgroups_ops and struct disc_ops; @arg is the tree. */
void tree_cgroup_added(void *arg, struct cgroup *c);
void tree_cgroup_removed(void *arg, struct cgroup *c);
void tree_vm_added(void *arg, const struct disc_vm *vm);
void tree_vm_changed(void *arg, const struct disc_vm *vm);
void tree_vm_removed(void *arg, const struct disc_vm *vm);

/* tree_tend - once a second: note VMs whose names are not believed, and look who is in the cgroups
 * of VMs, in every TREE_LOOKth call. */
#define TREE_LOOK 5
void tree_tend(struct tree *t);

/* tree_vm_info - for struct server_opts: what is known of a VM. Not 0: no memory. */
int tree_vm_info(const struct node *vm, json_t *obj);

/*
 * What the next vpmud must know of the tree: tenants without a section that stay for their VMs,
 * tenants that operators have added, and which metadata a process had, because libvirt is not asked
 * at once. tree_save - NULL: no memory. tree_restore - right after tree_create; it checks each
 * field.
 */
json_t *tree_save(const struct tree *t);
void tree_restore(struct tree *t, const json_t *saved);
/* tree_restored - all is named and bound that there is: cgroups that the former vpmud had bound and
 * that are nobody's now are unbound, and what was saved is forgotten. */
void tree_restored(struct tree *t);

/* Counts of nodes, for `check`. */
struct tree_usage {
	size_t vms, whole_vms; /* all, and those whose cgroup is bound as well */
	size_t cgroups;	       /* that match rules */
	size_t refused;	       /* VMs whose name a rule matches but does not believe, as noted */
	size_t failed; /* VMs, threads and cgroups that could not be bound since the start */
};
void tree_usage(const struct tree *t, struct tree_usage *out);

#endif
