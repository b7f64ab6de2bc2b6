/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tenants: the hierarchy of VM-cgroups, the VMs in them and their vCPUs, by name.
 *
 *   /            the whole host
 *   /host        everything that runs in no VM-cgroup
 *   /acme        a tenant              /acme/web   a tenant below it
 *   vm "web-1"   a VM of /acme/web; its vCPUs are nodes below it
 *
 * A tenant is a cgroup2 directory if the server was given a cgroup root (its id is the cgroup id);
 * otherwise it is a plain path with a locally assigned id.
 *
 * The tree has one or more sources of counts (service/backend/backend.h), one per backend. A VM and
 * its vCPUs are counted by one source. A tenant is counted by each source that has, or once had, a
 * VM at or below it; "/" and "/host" are counted by all.
 *
 * All functions: control thread (one at a time). Errors are negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "service/backend/backend.h"

enum node_kind { NODE_ROOT, NODE_HOST, NODE_TENANT, NODE_VM, NODE_VCPU };

/* Limits of names: see tenant_path_ok and tenant_vm_name_ok. */
#define TENANT_PATH_MAX	    255
#define TENANT_LEVELS_MAX   16
#define TENANT_VM_NAME_MAX  64
#define TENANT_VCPUS_MAX    4096
#define TENANTS_SOURCES_MAX 4

struct tenants;

/* A node. Read-only for users; valid until its removal. */
struct node {
	enum node_kind kind;
	const char *name;  /* last path component, VM name, or vCPU number */
	const char *path;  /* tenant path: of itself, or of the tenant a VM or vCPU belongs to */
	uint64_t id;	   /* cgroup id, or a local id with bit 63 set; VM, vCPU: 0 */
	const char *dir;   /* cgroup2 directory, or NULL */
	uint64_t serial;   /* unique and never reused; constant: any thread */
	unsigned int vcpu; /* NODE_VCPU: its number */
	/* The node in the tree's n-th source (tenants_source); NULL: not counted by that source. A
	 * VM or vCPU has exactly one. */
	struct vpmu_backend_node *in[TENANTS_SOURCES_MAX];
	struct node *parent;
	struct node *first_child, *next; /* siblings, in order of creation */
	unsigned int depth;		 /* "/" is 0 */
	uint64_t late_ns;		 /* tenant_late: all so far */
	bool owed;			 /* it or one below came while the server was down */
	unsigned int order;		 /* private: position in the last tenants_walk */
	void *user;			 /* NODE_VM: for the creator of the VM */
};

/* tenants_create - make a tree of "/" and "/host" without sources. @cgroup_root: an existing
 * cgroup2 directory below which tenants get directories of their own, or NULL for plain paths.
 * -errno and one line to @err. */
int tenants_create(const char *cgroup_root, struct tenants **out, char *err, size_t errlen);
/* tenants_destroy - remove every node, and the cgroup directories this process made. The sources
 * stay the caller's and must still exist. */
void tenants_destroy(struct tenants *ts);

/* tenants_add_source - let @s count "/" and "/host" from now on, and the VMs that are added to it,
 * until tenants_destroy. -ENOSPC: TENANTS_SOURCES_MAX; -EEXIST: there is a source of that backend.
 */
int tenants_add_source(struct tenants *ts, struct vpmu_backend *s);
/* tenants_source - the @i-th source, in order of adding; NULL: no more. */
struct vpmu_backend *tenants_source(const struct tenants *ts, unsigned int i);

struct node *tenants_root(const struct tenants *ts);

/* tenant_path_ok - returns true for "/a/b": components of [A-Za-z0-9_.:@-], not "." or "..", not
 * "/host", up to 255 bytes and 16 levels. Else one line to @err. Pure. */
bool tenant_path_ok(const char *path, char *err, size_t errlen);

/* tenant_path_within - returns true if @path is @top or below it. */
bool tenant_path_within(const char *top, const char *path);
/* tenant_vm_name_ok - returns true for 1..64 of [A-Za-z0-9_.:@-], the first one a letter, digit or
 * '_'. Pure. */
bool tenant_vm_name_ok(const char *name, char *err, size_t errlen);

/* tenant_add - find or add the tenant at @path, with its ancestors. */
int tenant_add(struct tenants *ts, const char *path, struct node **out, char *err, size_t errlen);
/* tenant_find - by path ("/", "/host" and "/acme/web"), or NULL. */
struct node *tenant_find(const struct tenants *ts, const char *path);
/* tenant_remove - its counts become its parent's. -EBUSY (with @err) while it has tenants or VMs
 * below it, or a thread in its cgroup. Sessions that watch it keep its last values. */
int tenant_remove(struct tenants *ts, const char *path, char *err, size_t errlen);
/* tenant_count - let @s count @n ("/", "/host" or a tenant) and its ancestors from now on, even
 * without a VM of @s there. -ENOMEM. */
int tenant_count(struct node *n, struct vpmu_backend *s);

/* tenant_vm_add - add a VM with vCPUs 0..n-1 (n may be 0), counted by @s, below tenant node @t (or
 * the host node: "no tenant"). VM names are unique on the host: -EEXIST. */
int tenant_vm_add(struct tenants *ts, struct node *t, struct vpmu_backend *s, const char *name,
		  unsigned int vcpus, void *user, struct node **vm, char *err, size_t errlen);
struct node *tenant_vm_find(const struct tenants *ts, const char *name);
struct node *node_vcpu(const struct node *vm, unsigned int vcpu);
/* tenant_vcpu_add - add vCPU number @vcpu, 0 to TENANT_VCPUS_MAX - 1, to @vm. -EEXIST: the number
 * is taken.
 * tenant_vcpu_remove - its counts become the VM's. */
int tenant_vcpu_add(struct tenants *ts, struct node *vm, unsigned int vcpu, struct node **out,
		    char *err, size_t errlen);
void tenant_vcpu_remove(struct node *vcpu);
/* tenant_vm_remove - its counts become its tenant's. It cannot fail. Nothing should run in the VM
 * any more; code that does is counted for the tenant (service/backend/backend.h, node_remove). */
void tenant_vm_remove(struct tenants *ts, struct node *vm);

/* tenant_late - something of @n was found up to @ns after its start. What it did until then, on one
 * or more CPUs, was charged to @charged: up to the first node above both, which has it anyway, it
 * is missing in the counts of @n and those above, and too much in those of @charged. */
void tenant_late(struct node *n, struct node *charged, uint64_t ns);

/* node_in - @n in source @s, or NULL.
 * node_source - the only source of a VM or vCPU. */
struct vpmu_backend_node *node_in(const struct node *n, const struct vpmu_backend *s);
struct vpmu_backend *node_source(const struct node *n);
/* node_target - the name of @n in requests: the path of a tenant, the name of a VM. */
const char *node_target(const struct node *n);

/* tenant_join - move thread @tid into the tenant's cgroup (VM, vCPU: its tenant's); does nothing
 * for plain paths, "/" and "/host". The first call for a thread of this process makes the tenants'
 * cgroups "threaded" and moves the process to the cgroup root (see cgroupfs.h). */
int tenant_join(const struct node *n, int tid, char *err, size_t errlen);

/* tenants_walk - call @fn for every node, parents before children. Stops when @fn returns non-zero
 * and returns that. */
int tenants_walk(const struct tenants *ts, int (*fn)(struct node *n, unsigned int depth, void *arg),
		 void *arg);

/* tenants_generation - changes whenever a node is added, removed or late, or a source begins to
 * count one. */
uint64_t tenants_generation(const struct tenants *ts);

/*
 * Watchers follow the tree. added: @n is counted as @in from now on; called once per source of a
 * node, not for a tenant without a source. removing: @n is about to leave all its sources: detach
 * everything attached there; the last values can be kept. Either may be NULL. Watchers are called
 * in order of tenants_watch; the caller keeps the memory until tenants_unwatch.
 */
struct tenants_watch {
	void (*added)(struct node *n, struct vpmu_backend_node *in, void *arg);
	void (*removing)(struct node *n, void *arg);
	void *arg;
	struct tenants_watch *next; /* private */
};
void tenants_watch(struct tenants *ts, struct tenants_watch *w);
void tenants_unwatch(struct tenants *ts, struct tenants_watch *w);
