/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tree.c and tree_vm.c share; nobody else includes it. */
#ifndef VPMUD_TREE_PRIV_H
#define VPMUD_TREE_PRIV_H

#include "vpmud/tree.h"

#define REFUSED_TENDS 5 /* calls of tree_tend, before a name that is not believed is noted */

/* A tenant that we made, or found when we needed it. */
struct tenant {
	struct tenant *next, **back;
	struct node *node;   /* NULL: an operator has removed it */
	size_t vms, cgroups; /* that are in it now */
	bool in_rules;	     /* it has a section of its own */
	bool for_vms;	     /* it has had a VM: it stays for the counts */
	char path[TENANT_PATH_MAX + 1];
};

/* A cgroup that matches a rule. */
struct in_tenant {
	struct in_tenant *next, **back;
	struct tenant *tenant;
	uint64_t id;
};

/* Who wants a cgroup. A VM of its own cgroup comes before the tenant whose rule matches it. */
struct claim {
	uint64_t id;
	struct node *vm, *tenant, *bound;
};

struct tree_vcpu {
	struct disc_vcpu thread;
	struct node *node;
	bool bound;
};

struct tree_vm {
	struct tree_vm *next;
	pid_t pid;
	uint64_t start_time;
	/* As found last; NULL: not known. */
	char *name, *uuid, *kind, *metadata, *cgroup, *socket;
	uint64_t cgroup_id;
	uid_t uid;
	bool libvirt;		  /* it is libvirt's process of the domain @name */
	bool refused;		  /* a rule matches its name but does not believe it */
	unsigned int refused_for; /* calls of tree_tend */
	size_t nr_threads;
	struct disc_vcpu *threads; /* sorted by index */
	struct tenant *tenant;	   /* NULL: none, below /host */
	struct node *node;	   /* NULL: it could not be added */
	uint64_t claimed;	   /* id of the cgroup that is its own; 0: none */
	bool whole;		   /* it is bound to the cgroup @claimed */
	unsigned int round;	   /* tree_tend has looked at it in this one */
	unsigned int others;	   /* how many looks in a row have found others in there */
	bool shared;		   /* they stay: it has no cgroup of its own any more */
	bool unbindable;	   /* its cgroup could not be bound */
	size_t nr_vcpus;
	struct tree_vcpu *vcpus;
};

struct tree {
	struct tenants *ts;
	struct tree_backend backend;
	const struct rules *rules;
	char *root; /* where cgroup2 is mounted */
	void (*note)(void *arg, const char *line);
	void *arg;
	struct tenants_watch watch;
	struct tenant *first_tenant;
	struct in_tenant *first_cgroup;
	struct tree_vm *first_vm;
	void *tenants, *claims; /* tsearch(3) trees of struct tenant and struct claim */
	size_t nr_cgroups, failed;
	unsigned int round, tends; /* of tree_tend: from 1 on; its calls since the round ended */
	json_t *saved;		   /* of tree_restore, until tree_restored */
};

void tree_note(struct tree *t, const char *line);
/* tree_failed - the same, and count it. */
void tree_failed(struct tree *t, const char *line);

/* tree_claim - charge what runs in cgroup @id to @n. -EBUSY: another VM has it; else what binding
 * says. tree_unclaim - end that; whoever else wants the cgroup gets it. */
int tree_claim(struct tree *t, uint64_t id, struct node *n);
void tree_unclaim(struct tree *t, uint64_t id, struct node *n);

/* tree_tenant - the tenant of @path, made if it is missing; NULL after a note. tree_tenant_forget -
 * without its node. */
struct tenant *tree_tenant(struct tree *t, const char *path);
void tree_tenant_forget(struct tree *t, struct tenant *tenant);

/* tree_vms_move - put each VM into the tenant that the rules say now. */
void tree_vms_move(struct tree *t);
void tree_vm_free(struct tree_vm *vm);

/* tree_vm_save - what the next vpmud is to know of @v; a new reference, NULL without memory.
 * tree_saved_text - what a former one has saved of @v under "kind" (if that was "libvirt"),
 * "tenant" (in its metadata), "name" (the VM's), "node" (its node's), or "shared" (its cgroup);
 * NULL: nothing. It lives until tree_restored. tree_saved_for_another - whether another process
 * that lives had the node @name. */
json_t *tree_vm_save(const struct tree_vm *v);
const char *tree_saved_text(const struct tree *t, const struct tree_vm *v, const char *key);
bool tree_saved_for_another(const struct tree *t, const struct tree_vm *v, const char *name);

#endif
