/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by tree.c, tree_vm.c, tree_late.c and tree_saved.c only. */
#pragma once

#include "vpmud/tree.h"

#define REFUSED_TENDS 5 /* calls of tree_tend() until an untrusted name is noted */

/* A tenant that the tree has created or used. */
struct tenant {
	struct tenant *next, **back;
	struct node *node;   /* NULL: removed by an operator */
	size_t vms, cgroups; /* currently in it */
	bool in_rules;	     /* it has a section of its own */
	bool for_vms;	     /* it has had a VM: it stays for the counts */
	char path[TENANT_PATH_MAX + 1];
};

/* A cgroup that matches a rule. */
struct in_tenant {
	struct in_tenant *next, **back;
	struct tenant *tenant;
	uint64_t id;
	const char *path;
	/* Until tree_cgroups_settle(): it was just bound for the first time, and is not empty. */
	bool late;
	struct in_tenant *next_late;
	uint64_t born_ns; /* CLOCK_REALTIME: it may have run since then */
};

/* The claims on a cgroup. A VM's claim takes precedence over that of the tenant whose rule
 * matches. */
struct claim {
	uint64_t id;
	struct node *vm, *tenant, *bound;
};

struct tree_vcpu {
	struct disc_vcpu thread;
	struct node *node;
	bool bound;
	bool late; /* until tree_late_vcpus(): it was just bound for the first time */
};

struct tree_vm {
	struct tree_vm *next;
	const struct disc_vm *vm; /* discovery's, as last reported */
	char *metadata;		  /* its tenant there; until libvirt answers, the saved one */
	bool libvirt;		  /* libvirt's process of the domain vm->name, now or as saved */
	bool refused;		  /* a rule matches its name but does not trust it */
	unsigned int refused_for; /* calls of tree_tend */
	struct tenant *tenant;	  /* NULL: none, the node is below /host */
	struct node *node;	  /* NULL: adding it failed */
	uint64_t claimed;	  /* id of the cgroup it has to itself; 0: none */
	bool whole;		  /* bound to the cgroup @claimed */
	unsigned int round;	  /* last round of tree_tend() that checked it */
	unsigned int others;	  /* consecutive checks that found other processes in its cgroup */
	bool shared;		  /* they stayed: it has lost its own cgroup */
	bool unbindable;	  /* binding its cgroup failed */
	bool saved;		  /* the previous vpmud had it */
	size_t moves;		  /* so many of @vcpus are of nodes that tree_vm_move() replaces */
	size_t nr_vcpus;
	struct tree_vcpu *vcpus;
};

struct tree {
	struct tenants *ts;
	struct tree_backend backend;
	const struct rules *rules;
	char *root; /* mount point of cgroup2 */
	void (*note)(void *arg, const char *line);
	void *arg;
	struct tenants_watch watch;
	struct tenant *first_tenant;
	struct in_tenant *first_cgroup;
	struct tree_vm *first_vm;
	void *tenants, *claims; /* tsearch(3) trees of struct tenant and struct claim */
	size_t nr_cgroups, failed;
	uint64_t since_ns; /* CLOCK_BOOTTIME: no session is older; 0: not known */
	bool starts;	   /* after another vpmud, up to the end of the first scan */
	uint64_t whole_ns; /* as in struct cgroups_ops; 0: not known */
	/* The most that CLOCK_REALTIME was ahead of CLOCK_BOOTTIME: since @whole_ns, and since the
	 * end of the scan that began then. */
	int64_t real_ns, real_next_ns;
	json_t *rules_saved; /* @rules, for tree_save(); NULL: they cannot be saved */
	/* The former vpmud's rules for cgroups, up to tree_restored(). */
	struct rules had;
	bool had_known;
	struct in_tenant *first_late;
	unsigned int round, tends; /* of tree_tend(): rounds, from 1; calls in this one */
	json_t *saved;		   /* from tree_restore() to tree_restored() */
};

void tree_note(struct tree *t, const char *line);
/* tree_failed - note and count a failure. */
void tree_failed(struct tree *t, const char *line);

/*
 * tree_claim - charge cgroup @id to @n. Returns 0; -EBUSY: another VM has it; or the error of
 * binding.
 *
 * tree_unclaim - end that; another claimant gets the cgroup.
 */
int tree_claim(struct tree *t, uint64_t id, struct node *n);
void tree_unclaim(struct tree *t, uint64_t id, struct node *n);

/* tree_owner - return the node that cgroup @id is bound to; NULL: none. */
struct node *tree_owner(const struct tree *t, uint64_t id);

/* tree_late_real - note how far CLOCK_REALTIME is ahead now: stamps are compared with the most.
 * tree_late_cgroup - @c was just bound for the first time; tree_cgroups_settle() notes the time
 * before (tenant_late()), if it can have run.
 * tree_late_vcpus - note that of the vCPUs of @v that are late. */
void tree_late_real(struct tree *t);
void tree_late_cgroup(struct tree *t, struct in_tenant *c);
void tree_late_vcpus(const struct tree *t, struct tree_vm *v);

/* tree_late_charged - return the node that is charged for @v's other threads.
 * tree_late_vm - note their time, too: @v was found and got its cgroup; @charged: before. */
struct node *tree_late_charged(const struct tree *t, const struct tree_vm *v);
void tree_late_vm(const struct tree *t, struct tree_vm *v, struct node *charged);

/* tree_tenant - return the tenant of @path, created if missing; NULL after a note.
 * tree_tenant_forget - free it, but not its node. */
struct tenant *tree_tenant(struct tree *t, const char *path);
void tree_tenant_forget(struct tree *t, struct tenant *tenant);

/* tree_vms_move - move each VM to the tenant that the rules assign now. */
void tree_vms_move(struct tree *t);
void tree_vm_free(struct tree_vm *vm);

/*
 * tree_vm_save - return what the next vpmud needs of @v, a new reference.
 *
 * tree_saved_text - return what the previous vpmud saved of @v under "kind" ("libvirt" or absent),
 * "tenant" (in its metadata), "name" (the VM's), "node" (its node's) or "shared" (its cgroup);
 * NULL: nothing. Valid until tree_restored().
 *
 * tree_saved_for_another - returns true if another live process had the node @name.
 */
json_t *tree_vm_save(const struct tree_vm *v);
const char *tree_saved_text(const struct tree *t, const struct tree_vm *v, const char *key);
bool tree_saved_for_another(const struct tree *t, const struct tree_vm *v, const char *name);

/*
 * tree_rules_save - return what rules_cgroup() needs of @r, a new reference; NULL: JSON cannot hold
 * it.
 *
 * tree_rules_had - read what that returned to the empty @out. Returns false if it is incomplete.
 */
json_t *tree_rules_save(const struct rules *r);
bool tree_rules_had(const json_t *saved, struct rules *out);
