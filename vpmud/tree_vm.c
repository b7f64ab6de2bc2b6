// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * VMs of a real host as nodes: names, vCPU threads, own cgroups; see tree.h. Discovery's data comes
 * from other users' processes and is untrusted: names are sanitized, and a VM that cannot be added
 * is noted, never fatal.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/program/memory.h"
#include "vpmud/tree_priv.h"
#include "vpmu/util/fail.h"

#define SUFFIX_MAX  14 /* bytes of "@PID.NUMBER" */
#define OTHERS_STAY 3  /* consecutive checks: they take 10 s, */
#define LOOKS_MAX   64 /* or longer with more VMs than this, the limit per second */

void tree_vm_free(struct tree_vm *vm)
{
	free(vm->metadata);
	free(vm->vcpus);
	free(vm);
}

static struct tree_vm *tree_vm_find(const struct tree *t, const struct disc_vm *vm)
{
	struct tree_vm *v = t->first_vm;

	while (v && (v->vm->pid != vm->pid || v->vm->start_time != vm->start_time))
		v = v->next;
	return v;
}

/* Until libvirt answers, use the previous vpmud's data from it. */
static void tree_vm_take(const struct tree *t, struct tree_vm *v, const struct disc_vm *vm)
{
	const char *kind;

	v->vm = vm;
	kind = tree_saved_text(t, v, "kind");
	v->libvirt = !strcmp(vm->kind, "libvirt") || (kind && !strcmp(kind, "libvirt"));
	free(v->metadata);
	v->metadata = xstrdup(vm->tenant ? vm->tenant : tree_saved_text(t, v, "tenant"));
}

static struct rules_vm tree_vm_rules(const struct tree_vm *v)
{
	return (struct rules_vm){v->vm->name, v->metadata, v->vm->cgroup, v->libvirt, v->vm->uid};
}

static void complain(struct tree *t, const struct tree_vm *v, const char *what, int ret)
{
	char line[400];

	fail(0, line, sizeof(line), "VM %.80s, process %d: %s: %s", v->vm->name, v->vm->pid, what,
	     strerror(-ret));
	tree_failed(t, line);
}

/* ---- names and tenants ---------------------------------------------------------------------- */

static bool tree_vm_taken(const struct tree *t, const struct tree_vm *v, const char *name)
{
	return tenant_vm_find(t->ts, name) || tree_saved_for_another(t, v, name);
}

/* Choose the node's name: the VM's own, with "_" for characters not allowed in node names. If it is
 * taken, add the process id; if that is taken, too, a number. A VM that the previous vpmud had
 * keeps its node name, by which its counts and sessions find it. */
static void node_name(const struct tree *t, const struct tree_vm *v,
		      char name[TENANT_VM_NAME_MAX + 1])
{
	const char *called = tree_saved_text(t, v, "name"), *had = tree_saved_text(t, v, "node");
	char *p;

	if (called && had && !strcmp(called, v->vm->name) && tenant_vm_name_ok(had, NULL, 0) &&
	    !tenant_vm_find(t->ts, had)) {
		snprintf(name, TENANT_VM_NAME_MAX + 1, "%s", had);
		return;
	}

	snprintf(name, TENANT_VM_NAME_MAX + 1, "%s", *v->vm->name ? v->vm->name : "vm");
	for (p = name; *p; p++) {
		bool letter = (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z') ||
			      (*p >= '0' && *p <= '9') || *p == '_';

		if (!letter && (p == name || !strchr(".:@-", *p)))
			*p = '_';
	}
	if (p - name > TENANT_VM_NAME_MAX - SUFFIX_MAX)
		p = name + TENANT_VM_NAME_MAX - SUFFIX_MAX;
	for (unsigned int i = 1; tree_vm_taken(t, v, name); i++)
		snprintf(p, SUFFIX_MAX + 1, i == 1 ? "@%d" : "@%d.%u", v->vm->pid, i);
}

/* Return the path of its tenant by the rules; NULL: none. */
static const char *tenant_path(struct tree *t, struct tree_vm *v, char path[TENANT_PATH_MAX + 1])
{
	const struct rules_vm vm = tree_vm_rules(v);
	const struct rule *refused;
	char why[300], line[500];
	bool in = rules_vm(t->rules, &vm, path, &refused, why, sizeof(why));

	v->refused = refused;
	if (in)
		return path;
	if (*why) {
		fail(0, line, sizeof(line), "VM %.80s: in no tenant: %s", v->vm->name, why);
		tree_failed(t, line);
	}
	return NULL;
}

/* Note an untrusted name, but only after a while: libvirt may be about to report it. */
static void note_refused(struct tree *t, struct tree_vm *v)
{
	const struct rules_vm vm = tree_vm_rules(v);
	char path[TENANT_PATH_MAX + 1], line[500];
	const struct rule *r;

	if (!v->refused) {
		v->refused_for = 0;
		return;
	}
	if (v->refused_for == REFUSED_TENDS || ++v->refused_for < REFUSED_TENDS)
		return;
	rules_vm(t->rules, &vm, path, &r, NULL, 0);
	fail(0, line, sizeof(line),
	     "VM %.80s, process %d: its name makes it no VM of [tenant %.80s%s]: its user is not "
	     "in vm_owner, and libvirt does not name the process",
	     v->vm->name, v->vm->pid, r->path, r->each ? "/*" : "");
	tree_note(t, line);
}

/* ---- its cgroup ----------------------------------------------------------------------------- */

/* Return true if cgroup @path is @top or below it. */
static bool within(const char *top, const char *path)
{
	size_t n = strlen(top);

	return !strncmp(path, top, n) && (path[n] == '\0' || path[n] == '/');
}

/* Return true if another VM would be charged to the owner of cgroup @path: it is in there, or below
 * without a cgroup of its own. */
static bool has_another(const struct tree *t, const struct tree_vm *v, const char *path)
{
	for (const struct tree_vm *o = t->first_vm; o; o = o->next)
		if (o != v && o->vm->cgroup && within(path, o->vm->cgroup) &&
		    (!o->whole || !strcmp(path, o->vm->cgroup)))
			return true;
	return false;
}

/* Return true if only @v's process is in its cgroup @path. libvirt may have put all of its threads
 * into cgroups below, which leaves that one empty. */
static bool alone(const struct tree *t, const struct tree_vm *v, const char *path)
{
	char file[PATH_MAX];
	bool others = false, self = false;
	FILE *f;
	int pid;

	if (has_another(t, v, path))
		return false;
	if (snprintf(file, sizeof(file), "%s%s/cgroup.procs", t->root, path) >= (int)sizeof(file))
		return false;
	f = fopen(file, "re");
	if (!f)
		return false;
	while (!others && fscanf(f, "%d", &pid) == 1) {
		self |= pid == v->vm->pid;
		others |= pid != v->vm->pid;
	}
	others |= ferror(f) != 0;
	fclose(f);
	return !others && (self || !strcmp(v->vm->kind, "libvirt"));
}

/* Return true if the VM is to have its cgroup. Once it does, a process seen there in passing does
 * not matter, only tree_tend() judges those; another VM does. */
static bool owns_cgroup(const struct tree *t, const struct tree_vm *v)
{
	if (!v->vm->cgroup_id || !v->vm->cgroup || !strcmp(v->vm->cgroup, "/") || v->shared)
		return false;
	return v->claimed == v->vm->cgroup_id ? !has_another(t, v, v->vm->cgroup)
					      : alone(t, v, v->vm->cgroup);
}

/* Claim the VM's cgroup if nothing else is in it. libvirt's system daemon gives each domain its
 * own, a session daemon does not. */
static void claim_cgroup(struct tree *t, struct tree_vm *v)
{
	uint64_t id = owns_cgroup(t, v) ? v->vm->cgroup_id : 0;
	int ret;

	if (v->claimed && v->claimed != id)
		tree_unclaim(t, v->claimed, v->node);
	v->whole = v->whole && v->claimed == id;
	v->claimed = id;
	if (!id || v->whole)
		return;
	ret = tree_claim(t, id, v->node);
	v->whole = !ret;
	v->others = 0;
	v->unbindable = ret && ret != -EBUSY;
	if (ret) {
		v->claimed = 0;
		if (ret != -EBUSY) /* shared by two VMs: only their vCPUs are counted */
			complain(t, v, "its cgroup is not counted, only its vCPUs", ret);
	}
}

/* A VM gets its cgroup once its launcher has left it, and gives it up for good when another process
 * stays there: how it is counted must not depend on the time of a check. */
static void look_at_cgroup(struct tree *t, struct tree_vm *v)
{
	if (!v->node || v->shared || v->unbindable)
		return;
	v->others = v->claimed && !alone(t, v, v->vm->cgroup) ? v->others + 1 : 0;
	v->shared = v->others == OTHERS_STAY;
	if (!v->claimed || v->shared)
		claim_cgroup(t, v);
}

void tree_tend(struct tree *t)
{
	unsigned int left = LOOKS_MAX;

	tree_late_real(t);
	for (struct tree_vm *v = t->first_vm; v; v = v->next) {
		note_refused(t, v);
		if (v->round == t->round || !left)
			continue;
		v->round = t->round;
		look_at_cgroup(t, v);
		left--;
	}
	if (left && ++t->tends == TREE_LOOK) {
		t->tends = 0;
		t->round++;
	}
}

/* ---- vCPUs ---------------------------------------------------------------------------------- */

static bool same_thread(const struct disc_vcpu *a, const struct disc_vcpu *b)
{
	return a->tid == b->tid && a->start_time == b->start_time;
}

/* Return true if the thread was bound to a node of @v that tree_vm_move() has replaced. */
static bool vcpu_moves(const struct tree_vm *v, const struct disc_vcpu *thread)
{
	for (size_t i = 0; i < v->moves; i++)
		if (v->vcpus[i].bound && same_thread(&v->vcpus[i].thread, thread))
			return true;
	return false;
}

static void bind_vcpu(struct tree *t, struct tree_vm *v, struct tree_vcpu *c)
{
	int ret = t->backend.bind_task(node_in(c->node, t->backend.source), c->thread.tid,
				       c->thread.start_time);

	c->bound = !ret;
	c->late = !ret && !vcpu_moves(v, &c->thread) && !(t->saved && v->saved);
	if (ret && ret != -ESRCH) /* the thread has ended: removed() or changed() follows */
		complain(t, v, "a vCPU is not counted", ret);
}

static void drop_vcpu(struct tree *t, struct tree_vcpu *c)
{
	if (c->bound)
		t->backend.unbind_task(node_in(c->node, t->backend.source), c->thread.tid);
	tenant_vcpu_remove(c->node);
}

/* Bring the vCPU nodes in line with the VM's threads and bind them. Both lists are sorted by
 * index. */
static void set_vcpus(struct tree *t, struct tree_vm *v)
{
	const struct disc_vcpu *now = v->vm->vcpus;
	size_t nr = v->vm->nr_vcpus;
	struct tree_vcpu *more = xcalloc(nr, sizeof(*more));
	size_t old = 0, kept = 0;
	char why[300];

	for (size_t i = 0; i < nr; i++) {
		struct tree_vcpu *c = &more[kept];

		while (old < v->nr_vcpus && v->vcpus[old].thread.index < now[i].index)
			drop_vcpu(t, &v->vcpus[old++]);
		c->thread = now[i];
		if (old < v->nr_vcpus && v->vcpus[old].thread.index == now[i].index) {
			const struct tree_vcpu *o = &v->vcpus[old++];

			c->node = o->node;
			c->bound = o->bound && same_thread(&o->thread, &now[i]);
			if (o->bound && !c->bound)
				t->backend.unbind_task(node_in(o->node, t->backend.source),
						       o->thread.tid);
		} else if (now[i].index < 0 ||
			   tenant_vcpu_add(t->ts, v->node, (unsigned int)now[i].index, &c->node,
					   why, sizeof(why))) {
			tree_failed(t, now[i].index < 0 ? "a vCPU has no number" : why);
			continue;
		}
		kept++;
		if (!c->bound)
			bind_vcpu(t, v, c);
	}
	while (old < v->nr_vcpus)
		drop_vcpu(t, &v->vcpus[old++]);
	free(v->vcpus);
	v->vcpus = more;
	v->nr_vcpus = kept;
	tree_late_vcpus(t, v);
}

/* ---- the VM --------------------------------------------------------------------------------- */

/* Add the node in the tenant that the rules assign. */
static void add_node(struct tree *t, struct tree_vm *v)
{
	char path[TENANT_PATH_MAX + 1], name[TENANT_VM_NAME_MAX + 1], why[300];
	const char *in = tenant_path(t, v, path);
	struct node *parent = NULL;

	v->tenant = in ? tree_tenant(t, in) : NULL;
	parent = v->tenant ? v->tenant->node : tenant_find(t->ts, "/host");
	node_name(t, v, name);
	if (tenant_vm_add(t->ts, parent, t->backend.source, name, 0, v, &v->node, why,
			  sizeof(why))) {
		v->node = NULL;
		tree_failed(t, why);
		return;
	}
	if (v->tenant) {
		v->tenant->vms++;
		v->tenant->for_vms = true;
	}
}

static void tree_vm_unbind(struct tree *t, struct tree_vm *v)
{
	if (v->claimed)
		tree_unclaim(t, v->claimed, v->node);
	v->claimed = 0;
	v->whole = false;
	for (size_t i = 0; i < v->nr_vcpus; i++)
		if (v->vcpus[i].bound)
			t->backend.unbind_task(node_in(v->vcpus[i].node, t->backend.source),
					       v->vcpus[i].thread.tid);
	v->nr_vcpus = 0;
}

/* Remove the node; its counts stay in its tenant. */
static void remove_node(struct tree *t, struct tree_vm *v)
{
	if (!v->node)
		return;
	tree_vm_unbind(t, v);
	tenant_vm_remove(t->ts, v->node);
	v->node = NULL;
	if (v->tenant)
		v->tenant->vms--;
	v->tenant = NULL;
}

static void tree_vm_count(struct tree *t, struct tree_vm *v)
{
	if (!v->node)
		return;
	set_vcpus(t, v);
	claim_cgroup(t, v);
}

/* VM @v has entered or left cgroup @path: VMs in that cgroup or in one above it may lose or gain
 * it. */
static void claim_again(struct tree *t, const struct tree_vm *v, const char *path)
{
	for (struct tree_vm *o = t->first_vm; path && o; o = o->next)
		if (o != v && o->node && o->vm->cgroup && within(o->vm->cgroup, path))
			claim_cgroup(t, o);
}

void tree_vm_added(void *arg, const struct disc_vm *vm)
{
	struct tree *t = arg;
	struct tree_vm *v = xcalloc(1, sizeof(*v));
	struct node *charged;
	const char *was;

	tree_vm_take(t, v, vm);
	v->saved = tree_saved_text(t, v, "start");
	was = tree_saved_text(t, v, "shared");
	v->shared = was && vm->cgroup && !strcmp(was, vm->cgroup);
	v->next = t->first_vm;
	t->first_vm = v;
	add_node(t, v);
	charged = tree_late_charged(t, v);
	tree_vm_count(t, v);
	if (v->whole && !v->saved)
		tree_late_vm(t, v, charged);
	claim_again(t, v, vm->cgroup);
}

/* Return true if the node still has the right name and tenant. */
static bool stays(struct tree *t, struct tree_vm *v, bool renamed)
{
	char path[TENANT_PATH_MAX + 1];
	const char *in = tenant_path(t, v, path);

	return v->node && !renamed && !strcmp(in ? in : "/host", v->node->path);
}

/* Replace the node by one in the right tenant. */
static void tree_vm_move(struct tree *t, struct tree_vm *v)
{
	v->moves = v->nr_vcpus; /* v->vcpus has them until set_vcpus() has bound the new ones */
	remove_node(t, v);
	add_node(t, v);
	tree_vm_count(t, v);
	v->moves = 0;
}

void tree_vms_move(struct tree *t)
{
	for (struct tree_vm *v = t->first_vm; v; v = v->next)
		if (!stays(t, v, false))
			tree_vm_move(t, v);
}

void tree_vm_changed(void *arg, const struct disc_vm *vm)
{
	struct tree *t = arg;
	struct tree_vm *v = tree_vm_find(t, vm);
	const struct disc_vm *was;
	bool entered;

	if (!v) {
		tree_vm_added(arg, vm);
		return;
	}
	was = v->vm;
	tree_vm_take(t, v, vm);
	entered = !was->cgroup || !vm->cgroup || strcmp(was->cgroup, vm->cgroup);
	if (was->cgroup && entered)
		v->shared = false;
	if (stays(t, v, strcmp(was->name, vm->name) != 0))
		tree_vm_count(t, v);
	else
		tree_vm_move(t, v);
	claim_again(t, v, was->cgroup);
	if (entered)
		claim_again(t, v, vm->cgroup);
}

void tree_vm_removed(void *arg, const struct disc_vm *vm)
{
	struct tree *t = arg;
	struct tree_vm *v = tree_vm_find(t, vm), **link = &t->first_vm;

	if (!v)
		return;
	while (*link != v)
		link = &(*link)->next;
	*link = v->next;
	remove_node(t, v);
	claim_again(t, v, vm->cgroup);
	tree_vm_free(v);
}

void tree_vm_info(const struct node *vm, json_t *obj, void *arg)
{
	const struct tree_vm *v = vm->user;

	json_object_set_new(obj, "state", json_string("running"));
	json_object_set_new(obj, "found", json_string(v->vm->kind));
	json_object_set_new(obj, "pid", json_integer(v->vm->pid));
	if (v->vm->uuid)
		json_object_set_new(obj, "uuid", json_string(v->vm->uuid));
	if (!v->libvirt)
		json_object_set_new(obj, "owner", json_integer(v->vm->uid));
	json_object_set_new(obj, "counted", json_string(v->whole ? "cgroup" : "vcpus"));
	if (v->vm->nr_unknown)
		json_object_set_new(obj, "vcpus-unknown",
				    json_integer((json_int_t)v->vm->nr_unknown));
	if (v->vm->cgroup)
		json_object_set_new(obj, "cgroup", json_string(v->vm->cgroup));
	if (v->vm->backend_socket)
		json_object_set_new(obj, "server", json_string(v->vm->backend_socket));
}
