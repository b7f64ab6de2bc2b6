/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tenants: the hierarchy of VM-cgroups, the VMs in them and their vCPUs, each an account.
 *
 *   /            root account          (the whole host)
 *   /host        the host account      (everything that runs in no VM-cgroup)
 *   /acme        a tenant              /acme/web   a tenant below it
 *   vm "web-1"   of /acme/web: account of the VM; its vCPUs are accounts below it
 *
 * A tenant is a cgroup2 directory where a cgroup root is given and writable (id = cgroup id), and
 * a plain path with an id of our own elsewhere. All functions: control thread (one at a time).
 */
#ifndef CGROUP_TENANT_TENANT_H
#define CGROUP_TENANT_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/vpmu.h"

enum node_kind { NODE_ROOT, NODE_HOST, NODE_TENANT, NODE_VM, NODE_VCPU };

struct tenants;

/* A node. Read-only for users; valid until its removal. */
struct node {
	enum node_kind kind;
	const char *name;  /* last path component, VM name, or vCPU number */
	const char *path;  /* tenant path: of itself, or of the tenant a VM/vCPU belongs to */
	uint64_t id;	   /* cgroup id, or an id of our own with bit 63 set; VM, vCPU: 0 */
	const char *dir;   /* cgroup2 directory, or NULL */
	uint64_t serial;   /* of this node alone, never used again; constant: any thread */
	unsigned int vcpu; /* NODE_VCPU: number */
	struct vpmu_account *account;
	struct node *parent;
	struct node *first_child, *next; /* siblings, in order of creation */
	unsigned int depth;		 /* "/" is 0 */
	unsigned int order;		 /* private: position in the last tenants_walk */
	void *user;			 /* NODE_VM: the VMM's */
};

/* Limits of names: see tenant_path_ok and tenant_vm_name_ok. */
#define TENANT_PATH_MAX	   255
#define TENANT_LEVELS_MAX  16
#define TENANT_VM_NAME_MAX 64
#define TENANT_VCPUS_MAX   4096

/* tenants_create - @cgroup_root: an existing cgroup2 directory below which tenants get
 * directories of their own, or NULL for plain paths. Errors in one line to @err. */
int tenants_create(struct vpmu_host *host, const char *cgroup_root, struct tenants **out, char *err,
		   size_t errlen);
/* tenants_destroy - remove every node, and the cgroup directories this process made. */
void tenants_destroy(struct tenants *ts);

struct vpmu_host *tenants_host(const struct tenants *ts);
struct node *tenants_root(const struct tenants *ts);

/* tenant_path_ok - "/a/b": components of [A-Za-z0-9_.:@-], not "." "..", not "/host", at most 255
 * bytes whole, 16 levels. One line to @err when not. Pure. */
bool tenant_path_ok(const char *path, char *err, size_t errlen);
/* tenant_vm_name_ok - 1..64 of [A-Za-z0-9_.:@-], the first one a letter, digit or '_'. Pure. */
bool tenant_vm_name_ok(const char *name, char *err, size_t errlen);

/* tenant_add - the tenant at @path, with missing ancestors; existing ones are found. */
int tenant_add(struct tenants *ts, const char *path, struct node **out, char *err, size_t errlen);
/* tenant_find - by path ("/", "/host" and "/acme/web"), or NULL. */
struct node *tenant_find(const struct tenants *ts, const char *path);
/* tenant_remove - counts fold into the parent; -EBUSY (with @err) while it has children or VMs.
 * Sessions that watch it keep its last values. */
int tenant_remove(struct tenants *ts, const char *path, char *err, size_t errlen);

/* tenant_vm_add - a VM with vCPUs 0..n-1 below tenant node @t (or the host node: "no tenant").
 * VM names are unique over the host: -EEXIST. */
int tenant_vm_add(struct tenants *ts, struct node *t, const char *name, unsigned int vcpus,
		  void *user, struct node **vm, char *err, size_t errlen);
struct node *tenant_vm_find(const struct tenants *ts, const char *name);
struct node *node_vcpu(const struct node *vm, unsigned int vcpu);
/* tenant_vm_remove - the VM's contexts must be gone; its counts fold into its tenant. -EBUSY when
 * some are not: vCPUs removed until then stay removed, call again when they are gone. */
int tenant_vm_remove(struct tenants *ts, struct node *vm);

/* tenant_join - move thread @tid into the tenant's cgroup (VM, vCPU: its tenant's); 0 and nothing
 * done for plain paths, "/" and "/host". The first call for a thread of this process makes the
 * tenants' cgroups "threaded" and moves the process to the cgroup root (cgroupfs.h says why). */
int tenant_join(const struct node *n, int tid, char *err, size_t errlen);

/* tenants_walk - every node, parents before children. Stops when @fn returns non-zero. */
int tenants_walk(const struct tenants *ts, int (*fn)(struct node *n, unsigned int depth, void *arg),
		 void *arg);

/* tenants_generation - changes whenever a node is added or removed. */
uint64_t tenants_generation(const struct tenants *ts);

/* Watchers are told of every node added, and of every removal before it happens (so that they can
 * delete their consumers and keep their last values); when a removal fails, of the node as added
 * again. Either may be NULL. In order of tenants_watch; the memory is the caller's until
 * tenants_unwatch. */
struct tenants_watch {
	void (*added)(struct node *n, void *arg);
	void (*removing)(struct node *n, void *arg);
	void *arg;
	struct tenants_watch *next; /* private */
};
void tenants_watch(struct tenants *ts, struct tenants_watch *w);
void tenants_unwatch(struct tenants *ts, struct tenants_watch *w);

#endif
