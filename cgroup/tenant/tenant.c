// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tree of tenants, VMs and vCPUs, each node one account of libvpmu. What the kernel knows of
 * them - directories, ids, threads - is cgroupfs.c's.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/tenant/cgroupfs.h"
#include "vpmu/fail.h"
#include "cgroup/tenant/tenant.h"

#define OWN_ID (1ULL << 63)

struct node_priv {
	struct node n; /* first */
	struct tenants *ts;
	struct node *last_child, *prev;
	char *name, *path, *dir; /* owned; path only of root, host and tenants */
	bool made_dir;
	char number[12]; /* name of a vCPU */
};

struct tenants {
	struct vpmu_host *host;
	struct cgroupfs *fs; /* NULL: plain paths */
	struct node *root, *other;
	void *by_path, *by_vm; /* tsearch(3) trees of struct node */
	uint64_t next_id, next_serial, generation;
	struct tenants_watch *watches;
};

static struct node_priv *priv(const struct node *n)
{
	return (struct node_priv *)n;
}

/* ---- nodes -------------------------------------------------------------------------------- */

static int cmp_path(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->path, ((const struct node *)b)->path);
}

static int cmp_name(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->name, ((const struct node *)b)->name);
}

static void node_free(struct node *n)
{
	struct node_priv *p = priv(n);

	free(p->name);
	free(p->path);
	free(p->dir);
	free(p);
}

static struct node *node_new(struct tenants *ts, enum node_kind kind, struct node *parent)
{
	struct node_priv *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->ts = ts;
	p->n.kind = kind;
	p->n.serial = ++ts->next_serial;
	p->n.parent = parent;
	p->n.depth = parent ? parent->depth + 1 : 0;
	return &p->n;
}

static void node_link(struct node *n)
{
	struct node_priv *p = priv(n), *parent = n->parent ? priv(n->parent) : NULL;

	p->ts->generation++;
	if (!parent)
		return;
	p->prev = parent->last_child;
	if (p->prev)
		p->prev->next = n;
	else
		parent->n.first_child = n;
	parent->last_child = n;
}

static void node_unlink(struct node *n)
{
	struct node_priv *p = priv(n), *parent = n->parent ? priv(n->parent) : NULL;

	p->ts->generation++;
	if (!parent)
		return;
	if (p->prev)
		p->prev->next = n->next;
	else
		parent->n.first_child = n->next;
	if (n->next)
		priv(n->next)->prev = p->prev;
	else
		parent->last_child = p->prev;
	p->prev = n->next = NULL;
}

static void tell_added(struct tenants *ts, struct node *n)
{
	for (struct tenants_watch *w = ts->watches; w; w = w->next)
		if (w->added)
			w->added(n, w->arg);
}

/* Delete the account of @n and forget @n, or leave all as it was. */
static int node_remove(struct node *n)
{
	struct tenants *ts = priv(n)->ts;
	int ret;

	for (struct tenants_watch *w = ts->watches; w; w = w->next)
		if (w->removing)
			w->removing(n, w->arg);
	ret = vpmu_account_del(n->account);
	if (ret) {
		tell_added(ts, n);
		return ret;
	}
	if (n->kind == NODE_TENANT)
		tdelete(n, &ts->by_path, cmp_path);
	else if (n->kind == NODE_VM)
		tdelete(n, &ts->by_vm, cmp_name);
	node_unlink(n);
	node_free(n);
	return 0;
}

/* A path node with its directory and id, not linked and without an account yet. */
static int path_node(struct tenants *ts, enum node_kind kind, struct node *parent, const char *path,
		     struct node **out, char *err, size_t errlen)
{
	struct node *n = node_new(ts, kind, parent);
	struct node_priv *p = n ? priv(n) : NULL;
	int ret = -ENOMEM;

	if (!n)
		goto oom;
	p->path = strdup(path);
	p->name = strdup(path[1] ? strrchr(path, '/') + 1 : path);
	if (!p->path || !p->name)
		goto oom;
	n->path = p->path;
	n->name = p->name;
	if (ts->fs && kind != NODE_HOST) {
		p->dir = cgroupfs_dir(ts->fs, path);
		if (!p->dir)
			goto oom;
		if (kind == NODE_TENANT)
			ret = cgroupfs_make(p->dir, &p->made_dir, err, errlen);
		else
			ret = 0;
		if (ret)
			goto fail;
		ret = cgroupfs_id(p->dir, &n->id, err, errlen);
		if (ret)
			goto fail_dir;
		n->dir = p->dir;
	} else {
		n->id = OWN_ID | ts->next_id++;
	}
	*out = n;
	return 0;
oom:
	fail(ret, err, errlen, "tenant %s: out of memory", path);
	goto fail;
fail_dir:
	if (p->made_dir)
		cgroupfs_remove(p->dir, NULL, 0);
fail:
	if (n)
		node_free(n);
	return ret;
}

/* ---- tenants ------------------------------------------------------------------------------ */

int tenants_create(struct vpmu_host *host, const char *cgroup_root, struct tenants **out, char *err,
		   size_t errlen)
{
	struct tenants *ts = calloc(1, sizeof(*ts));
	int ret;

	if (!ts)
		return fail(-ENOMEM, err, errlen, "tenants: out of memory");
	ts->host = host;
	ts->next_id = 1;
	if (cgroup_root) {
		ret = cgroupfs_open(cgroup_root, &ts->fs, err, errlen);
		if (ret)
			goto fail;
	}
	ret = path_node(ts, NODE_ROOT, NULL, "/", &ts->root, err, errlen);
	if (ret)
		goto fail;
	ts->root->account = vpmu_host_root(host);
	node_link(ts->root);
	ret = path_node(ts, NODE_HOST, ts->root, "/host", &ts->other, err, errlen);
	if (ret)
		goto fail;
	ts->other->account = vpmu_host_other(host);
	node_link(ts->other);
	*out = ts;
	return 0;
fail:
	if (ts->root)
		node_free(ts->root);
	cgroupfs_close(ts->fs);
	free(ts);
	return ret;
}

/* Remove everything below @n. A VM whose contexts live is a bug of the caller's: its nodes go all
 * the same, its accounts go with the host. */
static void prune(struct tenants *ts, struct node *n)
{
	struct node *c;

	while ((c = n->first_child)) {
		prune(ts, c);
		if (c == ts->other) {
			node_unlink(c);
			node_free(c);
			continue;
		}
		if (priv(c)->made_dir)
			cgroupfs_remove(priv(c)->dir, NULL, 0);
		if (node_remove(c)) {
			if (c->kind == NODE_TENANT)
				tdelete(c, &ts->by_path, cmp_path);
			else if (c->kind == NODE_VM)
				tdelete(c, &ts->by_vm, cmp_name);
			node_unlink(c);
			node_free(c);
		}
	}
}

void tenants_destroy(struct tenants *ts)
{
	if (!ts)
		return;
	if (ts->fs)
		cgroupfs_leave(ts->fs);
	prune(ts, ts->root);
	node_free(ts->root);
	cgroupfs_close(ts->fs);
	free(ts);
}

struct vpmu_host *tenants_host(const struct tenants *ts)
{
	return ts->host;
}

struct node *tenants_root(const struct tenants *ts)
{
	return ts->root;
}

uint64_t tenants_generation(const struct tenants *ts)
{
	return ts->generation;
}

void tenants_watch(struct tenants *ts, struct tenants_watch *w)
{
	struct tenants_watch **link = &ts->watches;

	while (*link)
		link = &(*link)->next;
	w->next = NULL;
	*link = w;
}

void tenants_unwatch(struct tenants *ts, struct tenants_watch *w)
{
	struct tenants_watch **link = &ts->watches;

	while (*link && *link != w)
		link = &(*link)->next;
	if (*link)
		*link = w->next;
}

struct node *tenant_find(const struct tenants *ts, const char *path)
{
	struct node key = {.path = path}, **found;

	if (strcmp(path, "/") == 0)
		return ts->root;
	if (strcmp(path, "/host") == 0)
		return ts->other;
	found = tfind(&key, &ts->by_path, cmp_path);
	return found ? *found : NULL;
}

/* The tenant at @path, whose parent exists. */
static int add_one(struct tenants *ts, struct node *parent, const char *path, struct node **out,
		   char *err, size_t errlen)
{
	struct node *n;
	int ret = path_node(ts, NODE_TENANT, parent, path, &n, err, errlen);

	if (ret)
		return ret;
	ret = vpmu_account_create(parent->account, n, &n->account);
	if (!ret && !tsearch(n, &ts->by_path, cmp_path)) {
		vpmu_account_del(n->account);
		ret = -ENOMEM;
	}
	if (ret) {
		if (priv(n)->made_dir)
			cgroupfs_remove(priv(n)->dir, NULL, 0);
		node_free(n);
		return fail(ret, err, errlen, "tenant %s: %s", path, strerror(-ret));
	}
	node_link(n);
	tell_added(ts, n);
	*out = n;
	return 0;
}

int tenant_add(struct tenants *ts, const char *path, struct node **out, char *err, size_t errlen)
{
	struct node *n = ts->root, *found, *made = NULL;
	char part[TENANT_PATH_MAX + 1];
	const char *end = path;
	int ret;

	if (!tenant_path_ok(path, err, errlen))
		return -EINVAL;
	while (*end) {
		end = strchrnul(end + 1, '/');
		memcpy(part, path, (size_t)(end - path));
		part[end - path] = '\0';
		found = tenant_find(ts, part);
		if (!found) {
			ret = add_one(ts, n, part, &found, err, errlen);
			if (ret)
				goto undo;
			if (!made)
				made = found;
		}
		n = found;
	}
	if (out)
		*out = n;
	return 0;
undo:
	/* Ancestors made for a path that failed would stay for nobody. */
	while (made) {
		struct node *parent = n->parent;
		bool last = n == made;

		if (priv(n)->made_dir)
			cgroupfs_remove(priv(n)->dir, NULL, 0);
		if (node_remove(n) || last)
			break;
		n = parent;
	}
	return ret;
}

int tenant_remove(struct tenants *ts, const char *path, char *err, size_t errlen)
{
	struct node *n = tenant_find(ts, path);
	struct node_priv *p;
	int ret;

	if (!n)
		return fail(-ENOENT, err, errlen, "tenant %.255s: no such tenant", path);
	if (n->kind != NODE_TENANT)
		return fail(-EINVAL, err, errlen, "tenant %s: always there; a tenant is accepted",
			    path);
	if (n->first_child)
		return fail(-EBUSY, err, errlen,
			    "tenant %s: has %s \"%s\"; remove what is below it first", path,
			    n->first_child->kind == NODE_VM ? "VM" : "tenant",
			    n->first_child->name);
	p = priv(n);
	/* The directory first: only the kernel knows whether somebody put a thread into it. */
	if (p->made_dir) {
		ret = cgroupfs_remove(p->dir, err, errlen);
		if (ret)
			return ret;
	}
	ret = node_remove(n);
	if (!ret)
		return 0;
	fail(ret, err, errlen, "tenant %s: %s", path, strerror(-ret));
	if (p->made_dir && cgroupfs_make(p->dir, &p->made_dir, NULL, 0) == 0)
		cgroupfs_id(p->dir, &n->id, NULL, 0);
	return ret;
}

/* ---- VMs ---------------------------------------------------------------------------------- */

struct node *tenant_vm_find(const struct tenants *ts, const char *name)
{
	struct node key = {.name = name}, **found = tfind(&key, &ts->by_vm, cmp_name);

	return found ? *found : NULL;
}

static int add_vcpu(struct tenants *ts, struct node *vm, unsigned int i)
{
	struct node *n = node_new(ts, NODE_VCPU, vm);
	int ret;

	if (!n)
		return -ENOMEM;
	snprintf(priv(n)->number, sizeof(priv(n)->number), "%u", i);
	n->name = priv(n)->number;
	n->path = vm->path;
	n->vcpu = i;
	ret = vpmu_account_create(vm->account, n, &n->account);
	if (ret) {
		node_free(n);
		return ret;
	}
	node_link(n);
	return 0;
}

/* Before anybody was told of the VM. */
static void forget_vm(struct tenants *ts, struct node *vm)
{
	struct node *c;

	while ((c = vm->first_child)) {
		vpmu_account_del(c->account);
		node_unlink(c);
		node_free(c);
	}
	if (vm->account)
		vpmu_account_del(vm->account);
	node_free(vm);
}

int tenant_vm_add(struct tenants *ts, struct node *t, const char *name, unsigned int vcpus,
		  void *user, struct node **vm, char *err, size_t errlen)
{
	struct node *n;
	int ret;

	if (!tenant_vm_name_ok(name, err, errlen))
		return -EINVAL;
	if (vcpus < 1 || vcpus > TENANT_VCPUS_MAX)
		return fail(-EINVAL, err, errlen, "VM %s: %u vCPUs; 1 to %d are accepted", name,
			    vcpus, TENANT_VCPUS_MAX);
	if (t->kind != NODE_TENANT && t->kind != NODE_HOST)
		return fail(-EINVAL, err, errlen,
			    "VM %s: in \"%s\"; a tenant, or /host for none, is accepted", name,
			    t->path);
	if (tenant_vm_find(ts, name))
		return fail(-EEXIST, err, errlen,
			    "VM %s: there is one in %s; another name is "
			    "accepted",
			    name, tenant_vm_find(ts, name)->path);
	n = node_new(ts, NODE_VM, t);
	if (!n)
		return fail(-ENOMEM, err, errlen, "VM %s: out of memory", name);
	priv(n)->name = strdup(name);
	n->name = priv(n)->name;
	n->path = t->path;
	n->user = user;
	ret = n->name ? vpmu_account_create(t->account, n, &n->account) : -ENOMEM;
	for (unsigned int i = 0; i < vcpus && !ret; i++)
		ret = add_vcpu(ts, n, i);
	if (!ret && !tsearch(n, &ts->by_vm, cmp_name))
		ret = -ENOMEM;
	if (ret) {
		forget_vm(ts, n);
		return fail(ret, err, errlen, "VM %s: %s", name, strerror(-ret));
	}
	node_link(n);
	tell_added(ts, n);
	for (struct node *c = n->first_child; c; c = c->next)
		tell_added(ts, c);
	if (vm)
		*vm = n;
	return 0;
}

struct node *node_vcpu(const struct node *vm, unsigned int vcpu)
{
	for (struct node *c = vm->first_child; c; c = c->next)
		if (c->vcpu == vcpu)
			return c;
	return NULL;
}

int tenant_vm_remove(struct tenants *ts, struct node *vm)
{
	int ret;

	while (vm->first_child) {
		ret = node_remove(vm->first_child);
		if (ret)
			return ret;
	}
	return node_remove(vm);
}

int tenant_join(const struct node *n, int tid, char *err, size_t errlen)
{
	while (n->kind == NODE_VM || n->kind == NODE_VCPU)
		n = n->parent;
	if (n->kind != NODE_TENANT || !n->dir)
		return 0;
	return cgroupfs_join(priv(n)->ts->fs, n->path, tid, err, errlen);
}

/* ---- walking ------------------------------------------------------------------------------ */

int tenants_walk(const struct tenants *ts, int (*fn)(struct node *n, unsigned int depth, void *arg),
		 void *arg)
{
	struct node *n = ts->root;
	unsigned int order = 0;
	int ret;

	while (n) {
		n->order = order++;
		ret = fn(n, n->depth, arg);
		if (ret)
			return ret;
		if (n->first_child) {
			n = n->first_child;
			continue;
		}
		while (n && !n->next)
			n = n->parent;
		if (n)
			n = n->next;
	}
	return 0;
}
