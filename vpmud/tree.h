/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Maintains the tree of a real host: VMs found by vpmud/discover/ and cgroups that match the rules
 * (cgroups.h) become nodes of service/tenant/, and their tasks are bound to these nodes in the BPF
 * backend. A VM's vCPU threads are bound as tasks. Its cgroup is bound as a whole if nothing else
 * runs in it; the VM's row then includes its emulator threads.
 *
 * A tenant keeps all counts ever taken in it, and stays when its VMs and cgroups are gone. Tenants
 * named after a cgroup (rules.h) go with the cgroup, and their counts move to the parent. The
 * daemon calls it, on the event loop's thread only.
 */
#pragma once

#include <jansson.h>

#include "vpmud/discover/discover.h"
#include "service/tenant/tenant.h"
#include "vpmud/cgroups.h"
#include "vpmud/rules.h"

/* The backend and its binding calls: cgroup/cgroup.h. Binding again moves. */
struct tree_backend {
	struct vpmu_backend *source;
	int (*bind_cgroup)(struct vpmu_backend_node *n, uint64_t cgroup_id);
	void (*unbind_cgroup)(struct vpmu_backend_node *n, uint64_t cgroup_id);
	int (*bind_task)(struct vpmu_backend_node *n, pid_t tid, uint64_t start_time);
	void (*unbind_task)(struct vpmu_backend_node *n, pid_t tid);
	/* Give a node a persistent name, by which the next vpmud finds its counts
	 * (bpf_backend_name()). NULL: not needed. */
	int (*name)(struct vpmu_backend_node *n, uint64_t name);
	/* Returns true if cgroup @id is bound, perhaps by the vpmud before. */
	bool (*has_cgroup)(const struct vpmu_backend *s, uint64_t id);
};

struct tree;

/*
 * tree_create - @ts must already have the backend's source. @rules stay the caller's until
 * tree_rules() replaces them. @cgroup_root: mount point of cgroup2, copied. @note gets one line
 * about each failure.
 *
 * tree_destroy - free the tree without unbinding or removing nodes; call it before
 * tenants_destroy(). NULL is allowed.
 */
struct tree *tree_create(struct tenants *ts, const struct tree_backend *backend,
			 const struct rules *rules, const char *cgroup_root,
			 void (*note)(void *arg, const char *line), void *arg);
void tree_destroy(struct tree *t);

/*
 * tree_rules - switch to @rules: create the tenants of the sections and move VMs to their tenants.
 * Call cgroups_rules() next, then tree_prune().
 *
 * tree_prune - remove tenants without a section, VM or cgroup; their counts move to their parents.
 */
void tree_rules(struct tree *t, const struct rules *rules);
void tree_prune(struct tree *t);

/* Callbacks for struct cgroups_ops and struct disc_ops; @arg is the tree, which keeps @vm until the
 * next report about this VM has returned. */
void tree_cgroup_added(void *arg, struct cgroup *c);
void tree_cgroup_removed(void *arg, struct cgroup *c);
void tree_cgroups_settle(void *arg, uint64_t whole_ns);
void tree_vm_added(void *arg, const struct disc_vm *vm);
void tree_vm_changed(void *arg, const struct disc_vm *vm);
void tree_vm_removed(void *arg, const struct disc_vm *vm);

/* tree_tend - call it once a second: note VMs whose names no rule trusts, and in every TREE_LOOKth
 * call check the cgroups of VMs for other processes. */
#define TREE_LOOK 5
void tree_tend(struct tree *t);

/* tree_vm_info - for struct server_opts: add the properties of a VM to @obj. */
void tree_vm_info(const struct node *vm, json_t *obj, void *arg);

/* tree_tenant_of - the path of the tenant that process @vm would be in as a VM; "/host": in none.
 * tree_vm - the node of VM (@pid, @start_time); NULL: no such VM, or none that is counted.
 * tree_vcpu - the vCPU that thread @tid of that VM runs; NULL: none that is counted. *@start: the
 * thread's start time. It may have ended since, and its number be another's. */
void tree_tenant_of(const struct tree *t, const struct disc_vm *vm, char path[TENANT_PATH_MAX + 1]);
struct node *tree_vm(const struct tree *t, pid_t pid, uint64_t start_time);
struct node *tree_vcpu(const struct tree *t, pid_t pid, uint64_t start_time, pid_t tid,
		       uint64_t *start);

/*
 * tree_save - return what the next vpmud needs of the tree: tenants without a section that stay for
 * their VMs, tenants that operators added, and the metadata of each process, because libvirt
 * answers late.
 *
 * tree_restore - call it right after tree_create(); each field is checked.
 */
json_t *tree_save(const struct tree *t);
void tree_restore(struct tree *t, const json_t *saved);
/* tree_restored - everything that exists has been named and bound: unbind cgroups that the previous
 * vpmud had bound and nothing claims now, and drop the saved state. */
void tree_restored(struct tree *t);

/* Numbers of nodes, for `check`. */
struct tree_usage {
	size_t vms, whole_vms; /* all; those with a bound cgroup, too */
	size_t cgroups;	       /* matching the rules */
	size_t refused;	       /* VMs whose name matches a rule that does not trust it, as noted */
	size_t failed;	       /* VMs, threads and cgroups that failed to bind since the start */
};
void tree_usage(const struct tree *t, struct tree_usage *out);
