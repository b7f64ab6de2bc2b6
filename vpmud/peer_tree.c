// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The VMs that servers say they have, as nodes of the tree. peers.c calls it with answers to list,
 * which are hostile: names and paths are checked, and there is a limit for everything.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmud/peer_priv.h"
#include "vpmu/util/fail.h"

#define INFO_BYTES_MAX 4096 /* of one text */

static int peer_tree_by_name(const void *a, const void *b)
{
	return strcmp(((const struct peer_vm *)a)->name, ((const struct peer_vm *)b)->name);
}

struct peer_vm *peer_vm_find(const struct peer *e, const char *name)
{
	struct peer_vm key = {.name = name}, **found = tfind(&key, &e->vms, peer_tree_by_name);

	return found ? *found : NULL;
}

/* ---- one VM --------------------------------------------------------------------------------- */

/* What a list says of a VM. */
struct said {
	const char *name, *path;
	unsigned int vcpus;
};

/* Count @vm at each tenant above it. */
static void climb(const struct peer_vm *vm, int by)
{
	for (struct pnode *n = vm->in->parent; n; n = n->parent)
		n->vms[vm->peer->slot] += (unsigned int)by;
}

static void peer_tree_vm_free(struct peer_vm *vm)
{
	free((char *)vm->name);
	free(vm->path);
	free(vm->vcpu);
	json_decref(vm->info);
	free(vm);
}

static void vm_drop(struct peer_vm *vm)
{
	struct peer *e = vm->peer;

	climb(vm, -1);
	tdelete(vm, &e->vms, peer_tree_by_name);
	e->nr_nodes -= 1 + vm->nr_vcpus;
	tenant_vm_remove(e->p->ts, vm->node);
	peer_tree_vm_free(vm);
}

/* The tenant at @path, which is counted on backend "emulator" from now on. NULL after a note. */
static struct node *tenant_for(struct peer *e, const char *path)
{
	struct peers *p = e->p;
	struct node *t = tenant_find(p->ts, path);
	char why[300] = "out of memory";

	if (!t && p->nr_tenants == PEERS_TENANTS) {
		if (!p->noted_tenants)
			peer_note(e, "its tenants are too many: %d are accepted of all servers",
				  PEERS_TENANTS);
		p->noted_tenants = true;
		return NULL;
	}
	if (!t) {
		if (tenant_add(p->ts, path, &t, why, sizeof(why))) {
			peer_note(e, "%s", why);
			return NULL;
		}
		p->nr_tenants++;
	}
	if (tenant_count(t, &p->source)) {
		peer_note(e, "out of memory");
		return NULL;
	}
	return t;
}

/* A name that no other VM of the tree has: the server's process makes it unique. */
static void tree_name(const struct peer *e, const char *name, char out[TENANT_VM_NAME_MAX + 1])
{
	size_t len = strlen(name);

	snprintf(out, TENANT_VM_NAME_MAX + 1, "%s", name);
	if (tenant_vm_find(e->p->ts, out))
		snprintf(out + (len > 50 ? 50 : len), 14, "@%d", link_pid(e->link));
}

static struct peer_vm *vm_new(struct peer *e, const struct said *s)
{
	struct peer_vm *vm = calloc(1, sizeof(*vm));

	if (!vm)
		return NULL;
	vm->peer = e;
	vm->name = strdup(s->name);
	vm->path = strdup(s->path);
	vm->vcpu = calloc(s->vcpus + 1, sizeof(struct pnode *));
	if (!vm->name || !vm->path || !vm->vcpu) {
		peer_tree_vm_free(vm);
		return NULL;
	}
	return vm;
}

static struct peer_vm *vm_add(struct peer *e, const struct said *s)
{
	struct peers *p = e->p;
	struct peer_vm *vm;
	struct node *t;
	char name[TENANT_VM_NAME_MAX + 1], why[300] = "out of memory";
	int ret;

	if (!p->in_tree) {
		ret = tenants_add_source(p->ts, &p->source);
		if (ret) {
			peer_note(e, "its VMs cannot be shown: %s", strerror(-ret));
			return NULL;
		}
		p->in_tree = true;
	}
	t = tenant_for(e, s->path);
	vm = t ? vm_new(e, s) : NULL;
	if (!vm)
		return NULL;
	tree_name(e, s->name, name);
	if (!tsearch(vm, &e->vms, peer_tree_by_name)) {
		peer_tree_vm_free(vm);
		return NULL;
	}
	p->adding = vm;
	ret = tenant_vm_add(p->ts, t, &p->source, name, s->vcpus, vm, &vm->node, why, sizeof(why));
	p->adding = NULL;
	if (ret) {
		peer_note(e, "%s", why);
		tdelete(vm, &e->vms, peer_tree_by_name);
		peer_tree_vm_free(vm);
		return NULL;
	}
	e->nr_nodes += 1 + vm->nr_vcpus;
	climb(vm, 1);
	return vm;
}

/* ---- lists ---------------------------------------------------------------------------------- */

/* What is passed on of a VM: docs/protocol.md, "Commands of vpmu-vmm". */
static const char *const fields[] = {"state",		"engine",     "pmu",
				     "policy",		"weight",     "tenant-weight",
				     "image",		"max-events", "tenant-max-events",
				     "refused",		"denied",     "denied-last",
				     "status",		"reason",     "console-lines",
				     "console-dropped", "how",	      "unsupported",
				     "unsupported-last"};

static json_t *info_of(const json_t *node)
{
	json_t *info = json_object();

	for (size_t i = 0; info && i < sizeof(fields) / sizeof(fields[0]); i++) {
		json_t *v = json_object_get(node, fields[i]);

		if (!json_is_integer(v) &&
		    !(json_is_string(v) && json_string_length(v) <= INFO_BYTES_MAX))
			continue;
		if (json_object_set(info, fields[i], v)) {
			json_decref(info);
			info = NULL;
		}
	}
	return info;
}

/* 1: @node is a VM that is ours to count; 0: something else; -EINVAL: it is no node. */
static int peer_tree_get_said(const json_t *node, struct said *s)
{
	const char *kind = json_string_value(json_object_get(node, "kind"));
	const char *backend = json_string_value(json_object_get(node, "backend"));
	const json_t *vcpus = json_object_get(node, "vcpus");

	if (!kind)
		return -EINVAL;
	if (strcmp(kind, "vm"))
		return 0;
	s->name = json_string_value(json_object_get(node, "vm"));
	s->path = json_string_value(json_object_get(node, "path"));
	if (!s->name || !s->path || !backend || !json_is_integer(vcpus) ||
	    json_integer_value(vcpus) < 0 || json_integer_value(vcpus) > TENANT_VCPUS_MAX ||
	    !tenant_vm_name_ok(s->name, NULL, 0) ||
	    (strcmp(s->path, "/host") && !tenant_path_ok(s->path, NULL, 0)))
		return -EINVAL;
	s->vcpus = (unsigned int)json_integer_value(vcpus);
	return !strcmp(backend, PEER_BACKEND);
}

int peer_list(struct peer *e, const json_t *answer)
{
	const json_t *nodes = json_object_get(answer, "nodes"), *node;
	size_t i, n = 0;
	struct said s;

	if (!json_is_array(nodes)) {
		link_fail(e->link, "its list has no nodes");
		return -EINVAL;
	}
	json_array_foreach (nodes, i, node) {
		int ret = peer_tree_get_said(node, &s);

		n += ret > 0 ? 1 + s.vcpus : 0;
		if (ret < 0) {
			link_fail(e->link, "its list has a node that cannot be one");
			return ret;
		}
		if (n > PEERS_NODES_MAX) {
			link_fail(e->link, "it has more than %d VMs and vCPUs", PEERS_NODES_MAX);
			return -E2BIG;
		}
	}
	json_decref(e->list);
	e->list = json_incref((json_t *)nodes);
	return 0;
}

struct drop {
	uint64_t round;
	struct peer_vm *first; /* linked by next_drop */
};

static void find_old(const void *node, VISIT which, void *arg)
{
	struct peer_vm *vm = *(struct peer_vm *const *)node;
	struct drop *d = arg;

	if ((which != postorder && which != leaf) || vm->round == d->round)
		return;
	vm->next_drop = d->first;
	d->first = vm;
}

/* Drop the VMs that the list in force does not have. */
static void drop_old(struct peer *e)
{
	struct drop d = {.round = e->round};
	struct peer_vm *vm;

	twalk_r(e->vms, find_old, &d);
	while ((vm = d.first)) {
		d.first = vm->next_drop;
		vm_drop(vm);
	}
}

void peer_vms_drop(struct peer *e)
{
	e->round++;
	drop_old(e);
	json_decref(e->list);
	e->list = NULL;
}

void peer_list_apply(struct peer *e)
{
	json_t *list = e->list, *node;
	struct peer_vm *vm;
	struct said s;
	size_t i;

	if (!list)
		return;
	e->list = NULL;
	e->round++;
	/* Those that go make room for names. One that has changed is another VM. */
	json_array_foreach (list, i, node) {
		if (peer_tree_get_said(node, &s) != 1)
			continue;
		vm = peer_vm_find(e, s.name);
		if (vm && vm->nr_vcpus == s.vcpus && !strcmp(vm->path, s.path))
			vm->round = e->round;
	}
	drop_old(e);
	json_array_foreach (list, i, node) {
		if (peer_tree_get_said(node, &s) != 1)
			continue;
		vm = peer_vm_find(e, s.name);
		if (!vm)
			vm = vm_add(e, &s);
		if (!vm)
			continue;
		vm->round = e->round;
		json_decref(vm->info);
		vm->info = info_of(node);
	}
	json_decref(list);
}

/* ---- what others ask ------------------------------------------------------------------------ */

bool peers_has(const struct peers *p, const struct node *vm)
{
	return vm->kind == NODE_VM && p && node_source(vm) == &p->source;
}

int peers_info(const struct peers *p, const struct node *node, json_t *obj)
{
	const struct peer_vm *vm = node->user;
	const struct peer *e = vm->peer;

	if (!vm->info || json_object_update(obj, vm->info) ||
	    json_object_set_new(obj, "server", json_string(e->path)))
		return -ENOMEM;
	return e->late && (json_object_set_new(obj, "state", json_string("unknown")) ||
			   json_object_set_new(obj, "why",
					       json_string("its server does not answer")))
		       ? -ENOMEM
		       : 0;
}
